//! The transaction coordinator.

use super::group::Token;
use super::ledger::Transaction;
use super::{Cluster, Due, TRANSACTION};
use crate::clock::{Time, millis};
use crate::record::{Output, Part};
use std::collections::BTreeMap;
use tidegate_core::produce::{Delivery, ErrorClass};

/// The state of a transactional id.
#[derive(Debug, Default)]
pub(super) struct Transactional {
    /// Only who has it may write.
    epoch: u32,
    open: Option<Open>,
    serials: u64,
}

#[derive(Debug)]
struct Open {
    serial: u64,
    process: usize,
    outputs: Vec<Output>,
    offsets: BTreeMap<Part, i64>,
    ending: Ending,
    /// When a commit takes effect.
    effect: Time,
}

/// Whether it is being committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    No,
    /// The coordinator has taken the commit, and was heard.
    Told,
    /// It takes it, and is not heard; or the request is still on its way.
    Unheard,
}

/// What becomes of the request to commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Heard,
    /// The coordinator commits, and the answer is lost.
    Unheard,
    /// The request is lost.
    Lost,
}

impl Cluster {
    /// A producer takes a transactional id over: what was open is ended first. Gives its epoch.
    pub(crate) fn take_over(&mut self, slot: usize) -> u32 {
        let unheard_arrives = self.chance.one_in(2);
        let state = &mut self.transactions[slot];
        state.epoch += 1;
        let epoch = state.epoch;
        let ending = state.open.as_ref().map(|open| (open.serial, open.ending));
        match ending {
            Some((serial, Ending::Told)) => self.apply(slot, serial),
            Some((serial, Ending::Unheard)) if unheard_arrives => self.apply(slot, serial),
            Some((_, Ending::No | Ending::Unheard)) | None => {}
        }
        self.abort_open(slot);
        epoch
    }

    pub(crate) fn is_fenced(&self, slot: usize, epoch: u32) -> bool {
        self.delivery == Delivery::ExactlyOnce && self.transactions[slot].epoch != epoch
    }

    /// Outputs arrive.
    pub(crate) fn deliver(&mut self, slot: usize, process: usize, outputs: impl Iterator<Item = Output>) {
        let outputs: Vec<Output> = outputs.collect();
        if self.delivery == Delivery::AtLeastOnce {
            self.ledger.deliver(process, &outputs);
        } else if !outputs.is_empty() {
            self.open(slot, process).outputs.extend(outputs);
        }
    }

    /// Offsets arrive. The broker looks at the member, and takes what it says of partitions.
    pub(crate) fn add_offsets(
        &mut self,
        slot: usize,
        process: usize,
        token: Token,
        offsets: &[(Part, i64)],
    ) -> Result<(), ErrorClass> {
        if let Some(class) = self.group.refuses(token, offsets.iter().map(|(part, _)| *part)) {
            return Err(class);
        }
        if !offsets.is_empty() && token.member.is_none() {
            self.violated("R30: offsets of a client that is in no group were sent, and are taken unfenced");
        }
        for (part, offset) in offsets {
            if token.member.is_some_and(|member| !self.group.owns(member, *part)) {
                self.violated(format!("R31: offset {offset} of partition {part} is taken from a member that does not own it"));
            }
        }
        if self.delivery == Delivery::AtLeastOnce {
            let offsets: BTreeMap<Part, i64> = offsets.iter().copied().collect();
            let now = self.clock.now();
            let found = self.ledger.commit(&offsets, &self.log, &self.conduct[process], now);
            self.say(process, || format!("committed {offsets:?}"));
            found.unwrap_or_else(|rule| self.violated(rule));
        } else {
            self.open(slot, process).offsets.extend(offsets.iter().copied());
        }
        Ok(())
    }

    /// The request to commit. It takes effect at the time that is given back; an answer can't come before that.
    pub(crate) fn commit(&mut self, slot: usize, answer: Answer) -> Time {
        let now = self.clock.now();
        let late = if answer == Answer::Unheard { self.chance.between(0, millis(400)) } else { 0 };
        let effect = now + self.chance.between(10, millis(2)) + late;
        let Some(open) = &mut self.transactions[slot].open else { return now };
        let serial = open.serial;
        let process = open.process;
        let known = open.ending;
        open.ending = match (known, answer) {
            (Ending::Told, _) | (_, Answer::Heard) => Ending::Told,
            (_, Answer::Unheard) => Ending::Unheard,
            (known, Answer::Lost) => known,
        };
        if known != Ending::No {
            return open.effect;
        }
        if answer == Answer::Lost {
            return now;
        }
        open.effect = effect;
        let found = {
            let open = self.transactions[slot].open.as_ref().expect("it is open, or there would be nothing to commit");
            let transaction = Transaction { process, outputs: &open.outputs, offsets: &open.offsets };
            self.ledger.examine(&transaction, &self.log, &self.conduct[process], self.clock.now())
        };
        if let Err(rule) = found {
            self.violated(rule);
        }
        self.later(effect, Due::Apply { slot, serial });
        effect
    }

    /// Aborts what is open. What is being committed is not.
    pub(crate) fn abort_open(&mut self, slot: usize) {
        self.transactions[slot].open = None;
    }

    /// An offset of the partition lies in an open transaction: the group does not tell where it stands.
    pub(crate) fn is_unstable(&self, part: Part) -> bool {
        self.transactions.iter().filter_map(|state| state.open.as_ref()).any(|open| open.offsets.contains_key(&part))
    }

    pub(super) fn apply(&mut self, slot: usize, serial: u64) {
        let state = &mut self.transactions[slot];
        let Some(open) = state.open.take_if(|open| open.serial == serial) else { return };
        let transaction = Transaction { process: open.process, outputs: &open.outputs, offsets: &open.offsets };
        let result = self.ledger.apply(&transaction, &self.log);
        self.say(open.process, || format!("committed {:?} with {} outputs", open.offsets, open.outputs.len()));
        if let Err(rule) = result {
            self.violated(rule);
        }
    }

    pub(super) fn transaction_timed_out(&mut self, slot: usize, serial: u64) {
        let state = &mut self.transactions[slot];
        let over = state.open.as_ref().is_some_and(|open| open.serial == serial && open.ending == Ending::No);
        if over {
            // The coordinator ends it, and whoever began it can't go on.
            state.epoch += 1;
            state.open = None;
            self.say(usize::MAX, || format!("the transaction of slot {slot} is aborted: it was open for too long"));
        }
    }

    fn open(&mut self, slot: usize, process: usize) -> &mut Open {
        if self.transactions[slot].open.is_none() {
            let at: Time = self.clock.now() + TRANSACTION;
            let state = &mut self.transactions[slot];
            state.serials += 1;
            let serial = state.serials;
            let (outputs, offsets) = (Vec::new(), BTreeMap::new());
            state.open = Some(Open { serial, process, outputs, offsets, ending: Ending::No, effect: 0 });
            self.later(at, Due::TimedOut { slot, serial });
        }
        self.transactions[slot].open.as_mut().expect("it was opened just now")
    }
}
