//! The consumer as the one that commits offsets, where there are no transactions (decision D18).
//!
//! The commit goes by the client that is a member of the group, from the writer's thread: the group checks member and generation. While
//! partitions have been given back and the assignment of the next generation has not come, no commit is sent: it would wait behind the join
//! for the slowest member and then be refused, which librdkafka may take for the loss of everything.

use super::ffi::{GroupMetadata, PendingCommit};
use super::rebalance::GroupContext;
use super::transaction::Fault;
use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::RDKafkaErrorCode as Code;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tidegate_core::consume::Fence;
use tidegate_core::produce::{ErrorClass, ProducerError};
use tidegate_core::record::{Offset, PartitionId};

/// How long the assignment may be missing before a commit is tried all the same. It comes after each revoke of the cooperative protocol.
const LONGEST_JOIN: Duration = Duration::from_secs(10);
/// After a refusal that may pass.
const RETRY_PAUSE: Duration = Duration::from_millis(50);
/// How long one call waits for an answer. While a member joins, its commits wait behind that, for the slowest of the group: meanwhile the
/// outputs of further records should be written, and an end that is given up should not be held up.
const ANSWER_PATIENCE: Duration = Duration::from_secs(1);
/// By how many times that grows while no answer comes in time: a coordinator that is always slow must not be taken for one that never answers.
const MOST_PATIENCE: u32 = 5;

type Client = BaseConsumer<GroupContext>;

/// What consumer and producer share about the membership.
#[derive(Default)]
pub struct Member {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    client: Weak<Client>,
    /// Partitions were given back in this generation, and no assignment of a later one came since.
    joining: Option<(Instant, i32)>,
    /// A commit that was not answered in time. Another one waits for it, or the older offsets might come to stand above the newer.
    outstanding: Option<Outstanding>,
    /// What commits left of which nobody knew in time. Whoever has rewound since must not take it back.
    left: BTreeMap<PartitionId, Offset>,
    /// Calls in a row that have not seen the answer to what they sent.
    unanswered: u32,
}

struct Outstanding {
    of: Weak<Client>,
    commit: PendingCommit,
    offsets: Vec<(PartitionId, Offset)>,
}

impl Member {
    /// There is a new client. What the old one was about to commit is nobody's any more.
    pub(super) fn is_now(&self, client: &Arc<Client>) {
        *self.lock() = State { client: Arc::downgrade(client), ..State::default() };
    }

    /// Partitions were given back to a group that goes on with the others.
    pub(super) fn gave_back(&self) {
        let generation = self.generation();
        self.lock().joining = Some((Instant::now(), generation));
    }

    /// An assignment came. The first one behind a revoke is still of the same generation, and empty.
    pub(super) fn was_assigned(&self, partitions: &[PartitionId]) {
        let now = self.generation();
        let mut state = self.lock();
        state.joining = state.joining.filter(|(_, left)| now <= *left);
        // They begin where the group says, which is below that where a topic was made anew.
        state.left.retain(|partition, _| !partitions.contains(partition));
    }

    /// The generation that the client is in; less than 1 without one.
    fn generation(&self) -> i32 {
        let client = self.lock().client.upgrade();
        client.and_then(|client| fence_of(&client)).map_or(0, |fence| fence.generation)
    }

    /// Commits, and waits a moment for the answer. `fence` is the membership under which the offsets were found to be this host's.
    ///
    /// # Errors
    /// [`ErrorClass::StaleMember`] when the group takes none for now, or has not answered: then the next call waits for that answer first.
    pub(super) fn commit(
        &self,
        offsets: &[(PartitionId, Offset)],
        fence: &Fence,
        list: impl Fn(&[(PartitionId, Offset)]) -> TopicPartitionList,
        timeout: Duration,
    ) -> Result<(), ProducerError> {
        let patience = ANSWER_PATIENCE * (self.lock().unanswered + 1).min(MOST_PATIENCE);
        let deadline = Instant::now() + timeout.min(patience);
        loop {
            let result = self.attempt(offsets, fence, &list, deadline);
            let left = deadline.saturating_duration_since(Instant::now());
            match result {
                Err(error) if error.class == ErrorClass::Retriable && left.is_zero() => {
                    return Err(ProducerError { class: ErrorClass::StaleMember, ..error });
                }
                // A refusal that comes at once must not be repeated at once.
                Err(error) if error.class == ErrorClass::Retriable => std::thread::sleep(RETRY_PAUSE.min(left)),
                other => return other,
            }
        }
    }

    fn attempt(
        &self,
        offsets: &[(PartitionId, Offset)],
        fence: &Fence,
        list: impl Fn(&[(PartitionId, Offset)]) -> TopicPartitionList,
        deadline: Instant,
    ) -> Result<(), ProducerError> {
        let (client, outstanding) = {
            let mut state = self.lock();
            if state.joining.is_some_and(|(since, _)| since.elapsed() < LONGEST_JOIN) {
                return Err(error(ErrorClass::StaleMember, "this member is joining the next generation of its group"));
            }
            let client = state.client.upgrade();
            let client = client.ok_or_else(|| error(ErrorClass::StaleMember, "there is no member of the group just now"))?;
            let outstanding = state.outstanding.take().filter(|of| Weak::ptr_eq(&of.of, &state.client));
            (client, outstanding)
        };
        let mut offsets = offsets.to_vec();
        if let Some(Outstanding { commit, offsets: before, .. }) = outstanding
            && self.answer(&client, commit, before.clone(), deadline)?.is_ok()
        {
            self.lock().left.extend(before);
        }
        keep_beyond(&mut offsets, &self.lock().left);
        if offsets.is_empty() {
            return Ok(());
        }
        // The client sends whatever membership it has by now, which after a loss is one without these partitions.
        if fence_of(&client).as_ref() != Some(fence) {
            return Err(error(ErrorClass::StaleMember, "the group has gone on since the offsets were prepared"));
        }
        let commit = PendingCommit::send(client.client(), &list(&offsets)).map_err(told)?;
        let answer = self.answer(&client, commit, offsets, deadline)?;
        self.lock().unanswered = 0;
        answer
    }

    /// The answer to a commit; an error of its own when there is none in time.
    fn answer(
        &self,
        client: &Arc<Client>,
        commit: PendingCommit,
        offsets: Vec<(PartitionId, Offset)>,
        deadline: Instant,
    ) -> Result<Result<(), ProducerError>, ProducerError> {
        let left = deadline.saturating_duration_since(Instant::now());
        let Some(answer) = commit.wait(client.client(), left) else {
            let mut state = self.lock();
            state.outstanding = Some(Outstanding { of: Arc::downgrade(client), commit, offsets });
            state.unanswered = state.unanswered.saturating_add(1);
            return Err(error(ErrorClass::StaleMember, "the group has not answered yet"));
        };
        Ok(answer.map_err(told))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("joining", &self.lock().joining).finish_non_exhaustive()
    }
}

fn error(class: ErrorClass, message: &str) -> ProducerError {
    ProducerError { class, message: format!("committing offsets: {message}") }
}

/// The membership that the client would commit under now.
fn fence_of(client: &Client) -> Option<Fence> {
    Some(GroupMetadata::of(client.client())?.fence())
}

/// Drops offsets that do not lie beyond what an earlier commit left.
fn keep_beyond(offsets: &mut Vec<(PartitionId, Offset)>, left: &BTreeMap<PartitionId, Offset>) {
    offsets.retain(|(partition, offset)| left.get(partition).is_none_or(|left| left < offset));
}

/// What the group said of a commit.
fn told(code: Code) -> ProducerError {
    let retriable = matches!(
        code,
        Code::NotCoordinator
            | Code::CoordinatorNotAvailable
            | Code::CoordinatorLoadInProgress
            | Code::RequestTimedOut
            | Code::NetworkException
            | Code::BrokerTransportFailure
            | Code::WaitingForCoordinator
            | Code::OperationTimedOut
            | Code::TimedOutQueue
    );
    let fault = Fault { code, fatal: false, retriable, abort: false, message: code.to_string() };
    fault.told("committing offsets", ErrorClass::Abortable)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_group_says_of_a_commit_decides_what_becomes_of_it() {
        for (code, class) in [
            (Code::IllegalGeneration, ErrorClass::StaleMember),
            (Code::RebalanceInProgress, ErrorClass::StaleMember),
            (Code::StaleMemberEpoch, ErrorClass::StaleMember),
            (Code::UnknownMemberId, ErrorClass::UnknownMember),
            (Code::FencedInstanceId, ErrorClass::FencedInstance),
            (Code::GroupAuthorizationFailed, ErrorClass::Forbidden),
            (Code::NotCoordinator, ErrorClass::Retriable),
            (Code::WaitingForCoordinator, ErrorClass::Retriable),
            (Code::OffsetMetadataTooLarge, ErrorClass::Abortable),
        ] {
            assert_eq!(told(code).class, class, "{code:?}");
        }
    }

    #[test]
    fn without_a_member_and_between_two_generations_nothing_is_sent() {
        let member = Member::default();
        let offsets = [(PartitionId(0), Offset(1))];
        let fence = Fence { generation: 1, member_id: "m".into() };
        for between in [false, true] {
            if between {
                member.gave_back();
            }
            let error = member.commit(&offsets, &fence, |_| TopicPartitionList::new(), Duration::from_secs(1)).unwrap_err();
            assert_eq!(error.class, ErrorClass::StaleMember);
            assert_eq!(error.message.contains("joining"), between, "{error:?}");
        }
    }

    /// T43: what an earlier commit left, of which nobody had heard, is not taken back by one that was prepared later at a lower offset.
    #[test]
    fn t43_only_offsets_beyond_an_earlier_commit_are_sent() {
        let left = [0, 1, 2].map(|partition| (PartitionId(partition), Offset(10))).into();
        let mut offsets = vec![
            (PartitionId(0), Offset(9)),
            (PartitionId(1), Offset(10)),
            (PartitionId(2), Offset(11)),
            (PartitionId(3), Offset(1)),
        ];
        keep_beyond(&mut offsets, &left);
        assert_eq!(offsets, [(PartitionId(2), Offset(11)), (PartitionId(3), Offset(1))]);
    }
}
