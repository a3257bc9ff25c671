//! The consumer of a host: the core's trait over the model's client.

use crate::chance::Chance;
use crate::clock::{NEVER, Time, millis, time};
use crate::cluster::{Cluster, Place, Token, Told};
use crate::record::{Fetched, Part, name};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;
use tidegate_core::consume::{Consumer, Fence, Polled, Read, ReadError, ReadInfo};
use tidegate_core::record::{Offset, PartitionId, Records, TopicPartition};

/// Bytes that a record counts.
const RECORD_BYTES: usize = 40;

pub(crate) struct SimConsumer {
    pub(crate) cluster: Rc<RefCell<Cluster>>,
    pub(crate) process: usize,
    chance: Chance,
}

impl SimConsumer {
    pub(crate) fn new(cluster: Rc<RefCell<Cluster>>, process: usize, chance: Chance) -> Self {
        Self { cluster, process, chance }
    }

    /// Asks the group where a partition stands, when it is time to.
    fn ask(&self, cluster: &mut Cluster, part: Part) -> Option<Place> {
        let place = *cluster.clients[self.process].held.get(&part)?;
        let Place::Asking { from } = place else { return Some(place) };
        if cluster.clock.now() < from || cluster.is_down() || cluster.is_unstable(part) {
            return None;
        }
        let place = cluster.ledger.committed(part).map_or(Place::Silent { told: false }, Place::At);
        cluster.say(self.process, || format!("reads partition {part} from {place:?}"));
        cluster.clients[self.process].held.insert(part, place);
        Some(place)
    }

    /// The client goes back on its own account, when it is to.
    fn fall_back(&self, cluster: &mut Cluster, part: Part, at: i64) -> (i64, Option<ReadError>) {
        let Some((records, with_error)) = cluster.clients[self.process].faults.falls_back.take() else { return (at, None) };
        // Back, and never on: a member that is out of the group may stand behind what its successor has committed.
        let committed = cluster.ledger.committed(part).map_or(at, |committed| committed.min(at));
        let behind = cluster.log.range(part, committed, at);
        let back = behind.len().checked_sub(records).map_or(committed, |index| behind[index..].first().copied().unwrap_or(at));
        cluster.say(self.process, || format!("its client goes back from {at} to {back} in partition {part}"));
        (back, with_error.then(|| ReadError::Other("it lost its place".to_owned())))
    }
}

fn part(partition: PartitionId) -> Part {
    partition.0 as usize
}

fn ids(parts: &[Part]) -> Vec<PartitionId> {
    parts.iter().map(|part| PartitionId(u32::try_from(*part).expect("there are a dozen partitions"))).collect()
}

fn nothing(emptied: bool) -> Read {
    Read { records: None, error: None, emptied }
}

impl Consumer for SimConsumer {
    type Group = Token;

    fn poll(&mut self) -> Option<Polled> {
        let told = self.cluster.borrow_mut().poll(self.process)?;
        self.cluster.borrow_mut().say(self.process, || format!("polls {told:?}"));
        Some(match told {
            Told::Assigned(parts) => Polled::Assigned(ids(&parts)),
            Told::Revoked { parts, lost } => Polled::Revoked { partitions: ids(&parts), lost },
            Told::Fatal => Polled::Fatal { message: "as the script says".to_owned(), fenced: false, forbidden: false },
        })
    }

    fn wait(&mut self, _: Duration) {}

    fn read(&mut self, partition: PartitionId, max_records: usize, max_bytes: usize) -> Read {
        let part = part(partition);
        let cluster = &mut *self.cluster.borrow_mut();
        let at = match self.ask(cluster, part) {
            Some(Place::At(at)) => at,
            Some(Place::Silent { told: false }) => {
                cluster.clients[self.process].held.insert(part, Place::Silent { told: true });
                return Read { records: None, error: Some(ReadError::NoCommittedOffset), emptied: true };
            }
            Some(Place::Silent { told: true } | Place::Asking { .. }) | None => return nothing(true),
        };
        let (at, mut error) = self.fall_back(cluster, part, at);
        if cluster.clients[self.process].faults.read_errors > 0 {
            cluster.clients[self.process].faults.read_errors -= 1;
            error = Some(ReadError::Other("as the script says".to_owned()));
        }
        let readable = cluster.log.readable(part, at);
        let bytes = (max_bytes / RECORD_BYTES).max(1);
        let most = readable.len().min(max_records).min(bytes);
        let count = if most > 1 && self.chance.one_in(3) { 1 + self.chance.index(most) } else { most };
        let offsets = readable[..count].to_vec();
        let emptied = count == readable.len();
        let (Some(first), Some(last)) = (offsets.first().copied(), offsets.last().copied()) else {
            cluster.clients[self.process].held.insert(part, Place::At(at));
            return Read { records: None, error, emptied };
        };
        cluster.clients[self.process].held.insert(part, Place::At(last + 1));
        cluster.conduct[self.process].handed_over(part, last + 1);
        cluster.say(self.process, || format!("is handed records {first}..={last} of partition {part}"));
        let records = Fetched::new(offsets);
        let info = ReadInfo { first: Offset(first), last: Offset(last), bytes: records.len() * RECORD_BYTES };
        Read { records: Some((info, Box::new(records))), error, emptied }
    }

    fn readable(&mut self, partition: PartitionId) -> bool {
        let part = part(partition);
        let cluster = &mut *self.cluster.borrow_mut();
        if cluster.clients[self.process].waits_for_answer() || cluster.is_down() {
            return false;
        }
        match self.ask(cluster, part) {
            Some(Place::At(at)) => {
                let faults = &cluster.clients[self.process].faults;
                !cluster.log.readable(part, at).is_empty() || faults.falls_back.is_some() || faults.read_errors > 0
            }
            Some(Place::Silent { told }) => !told,
            Some(Place::Asking { .. }) | None => false,
        }
    }

    fn release(&mut self, partitions: &[PartitionId]) -> Result<(), String> {
        let cluster = &mut *self.cluster.borrow_mut();
        let parts: Vec<Part> = partitions.iter().map(|partition| part(*partition)).collect();
        cluster.say(self.process, || format!("lets {parts:?} go"));
        for part in &parts {
            cluster.conduct[self.process].moved(*part);
        }
        cluster.release(self.process, &parts);
        let faults = &mut cluster.clients[self.process].faults;
        let complains = faults.complaints > 0;
        faults.complaints = faults.complaints.saturating_sub(1);
        if complains { Err("as the script says".to_owned()) } else { Ok(()) }
    }

    fn seek(&mut self, to: &[(PartitionId, Offset)]) -> Result<(), Vec<PartitionId>> {
        let cluster = &mut *self.cluster.borrow_mut();
        if let Some((_, parts)) = cluster.owes_release(self.process) {
            let rule = format!("R9: a seek while the revoke of {parts:?} is not answered");
            cluster.violated(rule);
        }
        cluster.clock.spend(self.chance.between(10, millis(2)));
        let faults = &mut cluster.clients[self.process].faults;
        let refused = faults.refused_seeks > 0;
        faults.refused_seeks = faults.refused_seeks.saturating_sub(1);
        let mut failed = Vec::new();
        for (partition, offset) in to {
            let part = part(*partition);
            // Some of them work all the same.
            if refused && !self.chance.one_in(3) {
                failed.push(*partition);
            } else if let Some(place) = cluster.clients[self.process].held.get_mut(&part) {
                *place = Place::At(offset.0);
                cluster.conduct[self.process].moved(part);
            }
        }
        cluster.say(self.process, || format!("seeks to {to:?}, refused: {failed:?}"));
        if failed.is_empty() { Ok(()) } else { Err(failed) }
    }

    fn repoint(&mut self, to: &[(PartitionId, Offset)], all: &[(PartitionId, Option<Offset>)]) -> Result<(), String> {
        let cluster = &mut *self.cluster.borrow_mut();
        cluster.say(self.process, || format!("re-points {to:?} of {all:?}"));
        let eager = cluster.group.protocol == crate::cluster::Protocol::Eager;
        let now = cluster.clock.now();
        let client = &mut cluster.clients[self.process];
        if client.faults.refused_repoints > 0 {
            client.faults.refused_repoints -= 1;
            return Err("as the script says".to_owned());
        }
        let to_all: Vec<(PartitionId, Option<Offset>)> = to.iter().map(|(id, offset)| (*id, Some(*offset))).collect();
        if eager {
            // The full set is assigned anew: what is not named is not read.
            client.held.values_mut().for_each(|place| *place = Place::Silent { told: true });
        }
        for (partition, offset) in if eager { all } else { &to_all } {
            let place = offset.map_or(Place::Asking { from: now }, |offset| Place::At(offset.0));
            client.held.entry(part(*partition)).and_modify(|held| *held = place);
        }
        Ok(())
    }

    fn attend(&mut self) {}

    fn group(&self) -> Option<(Fence, Token)> {
        let cluster = self.cluster.borrow();
        let token = cluster.clients[self.process].token(cluster.clock.now());
        let member_id = token.member.map_or_else(String::new, |member| format!("member-{member}"));
        Some((Fence { generation: token.generation, member_id }, token))
    }

    fn name(&self, partition: PartitionId) -> TopicPartition {
        let (topic, partition) = name(part(partition));
        TopicPartition { topic: topic.into(), partition }
    }

    fn rejoin(&mut self) -> Result<(), String> {
        self.cluster.borrow_mut().enter_anew(self.process)
    }

    fn close(&mut self, _: Duration) {
        self.cluster.borrow_mut().leave(self.process);
    }
}

/// When the driver of that process has something to look at.
pub(crate) fn wakes(cluster: &Cluster, process: usize) -> Time {
    cluster.clients.get(process).map_or(NEVER, |client| client.wakes())
}

/// What a duration is in the model's time.
pub(crate) fn patience(timeout: Duration) -> Time {
    time(timeout)
}
