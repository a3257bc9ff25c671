//! What the machine reports, as log lines: one line a generation (rule R60), and what somebody should know of.

use tidegate_core::generation::{AbortCause, EndKind, Fault, Report, Summary};
use tidegate_core::record::{PartitionId, TopicPartition};

/// Names partitions.
type Names<'a> = &'a dyn Fn(PartitionId) -> TopicPartition;

/// Logs it.
pub fn log(report: &Report, names: Names<'_>) {
    match report {
        Report::Assigned(partitions) => tracing::info!(partitions = list(partitions, names), "partitions assigned"),
        Report::Ending { epoch, reason, buffered } => {
            tracing::info!(generation = epoch.0, reason = reason.name(), buffered, "generation is ending");
        }
        Report::Ended(summary) => ended(summary, names),
        Report::Reloaded { epoch } => tracing::info!(generation = epoch.0, "new plugins take over"),
        Report::Released { partitions, lost: false } => {
            tracing::info!(partitions = list(partitions, names), "partitions released")
        }
        Report::Released { partitions, lost: true } => tracing::warn!(partitions = list(partitions, names), "partitions lost"),
        Report::Committed { epoch, outputs, took } => {
            tracing::debug!(generation = epoch.0, outputs, commit_ms = millis(*took), "transaction committed");
        }
        Report::Refused { message } => tracing::debug!("the group takes no offsets for now, they go again: {message}"),
        Report::Refusals(count) => tracing::warn!(
            count,
            "the group has refused every commit of late: are the hosts of the group overloaded, or is `max.poll.interval.ms` too short?"
        ),
        Report::Repeated { partition, records } => {
            tracing::warn!(partition = %names(*partition), records, "records came again and were dropped");
        }
        Report::ReadTrouble { partition, message } => {
            tracing::warn!(partition = %names(*partition), message, "reading again after an error")
        }
        Report::ClientTrouble(message) => tracing::warn!("Kafka client: {message}"),
        Report::Started { partition, offset } => {
            tracing::info!(partition = %names(*partition), offset = offset.0, "partition starts here: the group had no offset for it");
        }
        Report::Retrying { fault, pause } => {
            tracing::warn!(again_in_ms = millis(*pause), retries = fault.retries, "{}: tried again", describe(fault, names));
        }
        Report::Rerun { fault, bound } => {
            tracing::warn!(
                fault = %describe(fault, names),
                next_generation_at_most = bound.map(tracing::field::display),
                "generation is run again"
            );
        }
        Report::ConsumerReplaced { message, pause } => {
            tracing::warn!(error = message, again_in_ms = millis(*pause), "consumer is replaced by a new one");
        }
        Report::ProducerReplaced(error) => {
            tracing::warn!(error = error.message, "producer is replaced by a new one with the same id")
        }
    }
}

/// A failure in one line: which transform, at which record, how, how often.
pub fn describe(fault: &Fault, names: Names<'_>) -> String {
    let partition = names(fault.partition);
    let at = match fault.offset {
        Some(offset) => format!("{partition} offset {offset}"),
        None => format!("generation-ended of {partition}"),
    };
    format!("transform `{}` at {at}: {} ({} attempts)", fault.transform, fault.failure, fault.attempts)
}

fn ended(summary: &Summary, names: Names<'_>) {
    let (outcome, reason) = match &summary.end {
        EndKind::Committed(reason) => ("committed", reason.name().to_owned()),
        EndKind::Aborted(cause) => ("aborted", abort_reason(cause, names)),
    };
    let Summary { epoch, partitions, records, drained, discarded, again, outputs, drain, hook, close, .. } = summary;
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                generation = epoch.0,
                outcome,
                reason,
                partitions,
                records,
                drained,
                rewound = discarded + again,
                done_again = again,
                outputs,
                drain_ms = millis(*drain),
                hook_ms = millis(*hook),
                commit_ms = millis(*close),
                "generation ended"
            )
        };
    }
    match &summary.end {
        EndKind::Committed(_) => line!(info),
        EndKind::Aborted(_) => line!(warn),
    }
}

fn abort_reason(cause: &AbortCause, names: Names<'_>) -> String {
    match cause {
        AbortCause::Lost => "assignment lost".to_owned(),
        AbortCause::Budget => "not drained within the budget".to_owned(),
        AbortCause::Refused(message) => format!("the group refused the offsets: {message}"),
        AbortCause::Fault(fault) => describe(fault, names),
        AbortCause::Transaction(error) => format!("the transaction failed: {}", error.message),
        AbortCause::Consumer(message) => format!("the consumer failed: {message}"),
        AbortCause::Stop => "stopped at once".to_owned(),
        AbortCause::Broken(message) => format!("broken invariant: {message}"),
    }
}

fn list(partitions: &[PartitionId], names: Names<'_>) -> String {
    let mut names: Vec<_> = partitions.iter().map(|partition| names(*partition)).collect();
    names.sort();
    names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
}

fn millis(time: std::time::Duration) -> f64 {
    (time.as_secs_f64() * 1e4).round() / 10.0
}
