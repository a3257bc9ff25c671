//! What a failed transactional call means (rule R35; SEMANTICS 3.6; FACTS D3, D5, D8).

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use tidegate_core::produce::{ErrorClass, ProducerError};

/// An error of a transactional call, with what librdkafka says can be done about it.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) fatal: bool,
    pub(super) retriable: bool,
    pub(super) abort: bool,
    pub(super) message: String,
}

impl Fault {
    /// What the crate's own functions returned.
    pub(super) fn of(error: &KafkaError) -> Self {
        if let KafkaError::Transaction(error) = error {
            return Self {
                code: error.code(),
                fatal: error.is_fatal(),
                retriable: error.is_retriable(),
                abort: error.txn_requires_abort(),
                message: error.string(),
            };
        }
        let code = error.rdkafka_error_code().unwrap_or(Code::Fail);
        Self { code, fatal: false, retriable: false, abort: false, message: error.to_string() }
    }

    /// The error as the writer wants it. `call` is its name; `unclear` is what an error without any mark means to it.
    pub(super) fn told(self, call: &str, unclear: ErrorClass) -> ProducerError {
        ProducerError { class: self.class(unclear), message: format!("{call}: {} ({:?})", self.message, self.code) }
    }

    fn class(&self, unclear: ErrorClass) -> ErrorClass {
        if is_forbidden(self.code) {
            return ErrorClass::Forbidden;
        }
        if self.code == Code::FencedInstanceId {
            return ErrorClass::FencedInstance;
        }
        if self.fatal {
            let fenced = matches!(self.code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch);
            return if fenced { ErrorClass::Fenced } else { ErrorClass::Fatal };
        }
        if self.code == Code::UnknownMemberId {
            ErrorClass::UnknownMember
        } else if matches!(self.code, Code::IllegalGeneration | Code::RebalanceInProgress | Code::StaleMemberEpoch) {
            ErrorClass::StaleMember
        } else if self.abort {
            ErrorClass::Abortable
        } else if self.retriable {
            ErrorClass::Retriable
        } else {
            unclear
        }
    }
}

/// Codes that say that the broker does not let this client do it.
pub(super) fn is_forbidden(code: Code) -> bool {
    matches!(
        code,
        Code::TopicAuthorizationFailed
            | Code::GroupAuthorizationFailed
            | Code::ClusterAuthorizationFailed
            | Code::TransactionalIdAuthorizationFailed
            | Code::DelegationTokenAuthorizationFailed
            | Code::SaslAuthenticationFailed
            | Code::Authentication
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_follow_the_marks_and_the_code() {
        let table = [
            (Code::Fenced, "fatal", ErrorClass::Fenced),
            (Code::InvalidProducerEpoch, "fatal", ErrorClass::Fenced),
            (Code::InvalidProducerEpoch, "abort", ErrorClass::Abortable),
            (Code::InvalidTransactionalState, "fatal", ErrorClass::Fatal),
            (Code::IllegalGeneration, "abort", ErrorClass::StaleMember),
            (Code::RebalanceInProgress, "abort", ErrorClass::StaleMember),
            (Code::UnknownMemberId, "abort", ErrorClass::UnknownMember),
            (Code::FencedInstanceId, "abort", ErrorClass::FencedInstance),
            (Code::GroupAuthorizationFailed, "abort", ErrorClass::Forbidden),
            (Code::TransactionalIdAuthorizationFailed, "fatal", ErrorClass::Forbidden),
            (Code::OperationTimedOut, "abort", ErrorClass::Abortable),
            (Code::OperationTimedOut, "retriable", ErrorClass::Retriable),
            (Code::Conflict, "", ErrorClass::Fatal),
        ];
        for (code, mark, class) in table {
            let (fatal, retriable, abort) = (mark == "fatal", mark == "retriable", mark == "abort");
            let fault = Fault { code, fatal, retriable, abort, message: "said".into() };
            assert_eq!(fault.told("commit", ErrorClass::Fatal).class, class, "{code:?} {mark}");
        }
    }
}
