//! How a run ended: what people are told, and the exit code (decision D20).

use crate::cli::Problem;
use crate::exit::Exit;
use crate::observe::report::describe;
use tidegate_core::generation::Outcome;
use tidegate_core::plugin::FailureKind;
use tidegate_core::produce::{ErrorClass, ProducerError};
use tidegate_core::record::{PartitionId, TopicPartition};

/// Tells it in the log: what, where, what to do. Gives the exit code.
pub(super) fn conclude(outcome: &Outcome, names: &dyn Fn(PartitionId) -> TopicPartition) -> Exit {
    match outcome {
        Outcome::Stopped => {
            tracing::info!("stopped: everything that was done is committed");
            Exit::Ok
        }
        Outcome::StoppedUncommitted => {
            tracing::warn!("stopped: the last generation was given up; its records are read again by the next host of the group");
            Exit::StopTimeout
        }
        Outcome::Failed(fault) => {
            let what = describe(fault, names);
            tracing::error!(
                "{what}: stopped, and nothing is committed past it; records before it that were not committed yet are read again. Replace \
                 the plugin by one that takes the record, or that drops it, and start again; do not move the group's offset past it: that \
                 would skip the others too"
            );
            if fault.failure.kind == FailureKind::Init { Exit::Plugin } else { Exit::Policy }
        }
        Outcome::OutOfRange { partition, offset } => {
            let name = names(*partition);
            tracing::error!(
                "{name}: the log has no offset {offset} any more, or not yet; records may be lost to retention, or the topic was made \
                 anew: set the group's offset for it to where it should go on (kafka-consumer-groups --reset-offsets), and start again"
            );
            Exit::Policy
        }
        Outcome::Undeliverable { error, offsets } => {
            let up_to: Vec<String> =
                offsets.iter().map(|(partition, next)| format!("{} offset {next}", names(*partition))).collect();
            tracing::error!(
                up_to = up_to.join(", "),
                "Kafka refuses an output for good: {}; nothing is committed past it: if it is too large, make the plugin put out less, or \
                 raise the limit (`max.message.bytes` of the topic, `message.max.bytes` under kafka.properties); if the topic is gone, make \
                 it again; then start again",
                error.message
            );
            Exit::Policy
        }
        Outcome::NoStart { partition, message } => {
            tracing::error!("{}: can't find where to start: {message}", names(*partition));
            Exit::Unreachable
        }
        Outcome::Producer(error) => {
            let problem = producer(error);
            tracing::error!("{}", problem.message);
            problem.exit
        }
        Outcome::Consumer { message, fenced, forbidden } => consumer(message, *fenced, *forbidden),
        Outcome::RefusedTooLong => {
            tracing::error!(
                "the group has taken no commit for max.poll.interval.ms: is its coordinator up, and have all hosts the same value of it?"
            );
            Exit::Fault
        }
        Outcome::Broken(message) => {
            tracing::error!(
                "an invariant of the host is broken, and it stopped before it could commit: {message}; please report this"
            );
            Exit::Fault
        }
    }
}

fn consumer(message: &str, fenced: bool, forbidden: bool) -> Exit {
    if fenced {
        tracing::error!(
            "another process has taken this one's place in the group: {message}; give each host its own `group.instance.id`"
        );
        Exit::Fenced
    } else if forbidden {
        tracing::error!("Kafka forbids reading: {message}; check the credentials and the rights on topics and group");
        Exit::Forbidden
    } else {
        tracing::error!(
            "the consumer can't go on, and neither could those that were made in its place: {message}; if it speaks of an instance id, \
             another process of the group has the same `group.instance.id`; else start again"
        );
        Exit::Fault
    }
}

/// What is wrong with a producer that could not be made, or can't go on.
pub(super) fn producer(error: &ProducerError) -> Problem {
    let said = &error.message;
    let (message, exit) = match error.class {
        ErrorClass::Fenced => (
            format!(
                "another producer has this host's transactional id: {said}; two hosts have the same `identity`: give each its own, or \
                 leave it out"
            ),
            Exit::Fenced,
        ),
        ErrorClass::Forbidden => {
            (format!("Kafka forbids writing: {said}; check the rights on topics and transactional id"), Exit::Forbidden)
        }
        ErrorClass::Retriable => {
            (format!("Kafka does not answer: {said}; check kafka.brokers and the state of the cluster"), Exit::Unreachable)
        }
        ErrorClass::Abortable
        | ErrorClass::StaleMember
        | ErrorClass::UnknownMember
        | ErrorClass::FencedInstance
        | ErrorClass::Undeliverable
        | ErrorClass::Fatal => (format!("the producer can't go on: {said}"), Exit::Fault),
    };
    Problem { message, exit }
}
