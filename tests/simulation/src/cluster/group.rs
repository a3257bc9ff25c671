//! The consumer group, as its coordinator sees it.

use super::client::Next;
use super::{Cluster, Due, HEARTBEAT, REBALANCE, SESSION};
use crate::clock::Time;
use crate::record::Part;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::produce::ErrorClass;

/// How the group shares its partitions out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Everybody gives everything back before the group forms anew (range, round-robin).
    Eager,
    /// What moves is given back after the group has formed anew, while the rest goes on (cooperative-sticky).
    Cooperative,
    /// The coordinator tells each member by itself (KIP-848).
    Reconciled,
}

/// What a host hands over with offsets. Without a member it is that of a client which is in no group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) member: Option<u32>,
    pub(crate) generation: i32,
    /// When the host read it.
    pub(crate) read: Time,
}

/// The coordinator's state.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) protocol: Protocol,
    /// Of the classic protocol; the group's epoch in KIP-848.
    generation: i32,
    members: BTreeMap<u32, Member>,
    next_member: u32,
    /// It forms anew.
    forming: bool,
    /// Whom each partition was given to, and in which generation.
    owners: Vec<Option<(u32, i32)>>,
    /// Whom each is to go to (KIP-848).
    target: Vec<Option<u32>>,
    revokes: u64,
}

#[derive(Debug)]
struct Member {
    process: usize,
    /// It has come for the generation that forms.
    joined: bool,
    /// Its own epoch (KIP-848).
    epoch: i32,
}

impl Group {
    pub(super) fn new(protocol: Protocol, parts: usize) -> Self {
        let (owners, target) = (vec![None; parts], vec![None; parts]);
        Self { protocol, generation: 0, members: BTreeMap::new(), next_member: 1, forming: false, owners, target, revokes: 0 }
    }

    pub(crate) fn owns(&self, member: u32, part: Part) -> bool {
        self.owners[part].is_some_and(|(owner, _)| owner == member)
    }

    /// What the broker says about offsets: it looks at member and generation, not at who owns what.
    pub(crate) fn refuses(&self, token: Token, mut parts: impl Iterator<Item = Part>) -> Option<ErrorClass> {
        let reconciled = self.protocol == Protocol::Reconciled;
        let Some(id) = token.member else {
            return (reconciled && !self.members.is_empty()).then_some(ErrorClass::UnknownMember);
        };
        let Some(member) = self.members.get(&id) else { return Some(ErrorClass::UnknownMember) };
        let current = if reconciled { member.epoch } else { self.generation };
        // An older epoch goes for what was given to the member since then (FACTS D3).
        let since = |part: Part| self.owners[part].is_some_and(|(owner, since)| owner == id && since <= token.generation);
        let fresh = token.generation == current || (reconciled && token.generation > 0 && parts.all(since));
        (!fresh).then_some(ErrorClass::StaleMember)
    }
}

impl Cluster {
    /// A client enters the group, as a member that is not known yet.
    pub(super) fn join(&mut self, process: usize) {
        let id = self.group.next_member;
        self.group.next_member += 1;
        self.group.members.insert(id, Member { process, joined: true, epoch: 0 });
        let waits = self.group.protocol != Protocol::Reconciled;
        self.clients[process].enter(id, waits);
        self.say(process, || format!("joins the group as member {id}"));
        self.change();
    }

    /// A process leaves the group in order.
    pub(crate) fn leave(&mut self, process: usize) {
        let member = self.clients[process].end();
        if let Some(member) = member.filter(|member| self.group.members.contains_key(member)) {
            self.remove(member);
        }
    }

    /// A process is gone without a word; the group learns it when the session is over.
    pub(crate) fn vanish(&mut self, process: usize) {
        if let Some(member) = self.clients[process].end() {
            self.later(self.clock.now() + SESSION, Due::Expire { member });
        }
    }

    /// A process stands still.
    pub(crate) fn freeze(&mut self, process: usize, time: Time) {
        let now = self.clock.now();
        self.clients[process].frozen_until = now + time;
        if let Some(member) = self.clients[process].member.filter(|_| time > SESSION) {
            self.later(now + SESSION, Due::Expire { member });
        }
    }

    pub(super) fn expire(&mut self, member: u32) {
        if self.is_down() {
            self.later(self.down_until + SESSION, Due::Expire { member });
        } else {
            self.evict(member);
        }
    }

    /// The coordinator knows a member no more, for whatever reason.
    pub(crate) fn evict_process(&mut self, process: usize) {
        if let Some(member) = self.clients[process].member {
            self.evict(member);
        }
    }

    fn evict(&mut self, member: u32) {
        let Some(process) = self.group.members.get(&member).map(|member| member.process) else { return };
        self.say(process, || format!("member {member} is put out of the group"));
        let at = self.heartbeat_time();
        self.later(at, Due::Expelled { process, member });
        self.remove(member);
    }

    fn remove(&mut self, member: u32) {
        self.group.members.remove(&member);
        for owner in &mut self.group.owners {
            *owner = owner.filter(|(owner, _)| *owner != member);
        }
        self.change();
    }

    /// Members came or went, or let partitions go.
    fn change(&mut self) {
        if self.group.protocol == Protocol::Reconciled {
            return self.retarget();
        }
        if !self.group.forming {
            self.group.forming = true;
            let generation = self.group.generation;
            self.later(self.clock.now() + REBALANCE, Due::Formed { generation });
            let missing: Vec<u32> = self.group.members.iter().filter(|(_, member)| !member.joined).map(|(id, _)| *id).collect();
            for member in missing {
                let at = self.heartbeat_time();
                self.later(at, Due::Learn { member });
            }
        }
        self.form();
    }

    /// The group is formed when everybody has come.
    fn form(&mut self) {
        if !self.group.forming || self.group.members.values().any(|member| !member.joined) {
            return;
        }
        self.group.forming = false;
        self.group.generation += 1;
        let generation = self.group.generation;
        self.say(usize::MAX, || format!("the group forms generation {generation}"));
        for (member, share) in self.shares() {
            let Some(known) = self.group.members.get_mut(&member) else { continue };
            known.joined = false;
            let process = known.process;
            if self.clients[process].member != Some(member) {
                // Nobody is there any more; the session will be over.
                continue;
            }
            self.clients[process].joining = true;
            let joined = self.soon(process);
            self.later(joined, Due::Joined { process, member, generation });
            let synced = self.soon(process);
            self.later(synced, Due::Synced { process, member, share });
        }
    }

    pub(super) fn formed(&mut self, generation: i32) {
        if !self.group.forming || self.group.generation != generation {
            return;
        }
        let missing: Vec<u32> = self.group.members.iter().filter(|(_, member)| !member.joined).map(|(id, _)| *id).collect();
        for member in missing {
            self.evict(member);
        }
    }

    /// What each member gets now. Partitions that others still have come in a later generation.
    fn shares(&mut self) -> BTreeMap<u32, BTreeSet<Part>> {
        let target = self.targets();
        let generation = self.group.generation;
        let mut shares: BTreeMap<u32, BTreeSet<Part>> = self.group.members.keys().map(|id| (*id, BTreeSet::new())).collect();
        for (part, target) in target.into_iter().enumerate() {
            let Some(target) = target else { continue };
            let owner = &mut self.group.owners[part];
            if owner.is_none_or(|(owner, _)| owner == target) {
                owner.get_or_insert((target, generation));
                shares.entry(target).or_default().insert(part);
            }
        }
        shares
    }

    /// Who is to have what: as many as the others, and mostly what one has already.
    fn targets(&mut self) -> Vec<Option<u32>> {
        let mut counts: BTreeMap<u32, usize> = self.group.members.keys().map(|id| (*id, 0)).collect();
        let quota = self.group.owners.len().div_ceil(counts.len().max(1));
        let sticky = !self.chance.one_in(4);
        let mut target: Vec<Option<u32>> = vec![None; self.group.owners.len()];
        for (part, owner) in self.group.owners.iter().enumerate() {
            let Some((owner, _)) = owner.filter(|_| sticky) else { continue };
            if let Some(count) = counts.get_mut(&owner).filter(|count| **count < quota) {
                *count += 1;
                target[part] = Some(owner);
            }
        }
        for target in target.iter_mut().filter(|target| target.is_none()) {
            let Some(least) = counts.values().min().copied() else { break };
            let candidates: Vec<u32> = counts.iter().filter(|(_, count)| **count == least).map(|(id, _)| *id).collect();
            let chosen = self.chance.pick(&candidates);
            counts.entry(chosen).and_modify(|count| *count += 1);
            *target = Some(chosen);
        }
        target
    }

    pub(super) fn learn(&mut self, member: u32) {
        let Some(process) = self.group.members.get(&member).filter(|member| !member.joined).map(|member| member.process) else {
            return;
        };
        let gone = self.clients[process].member != Some(member);
        if gone || !self.group.forming || self.is_deaf(process, &Due::Learn { member }) {
            return;
        }
        let client = &mut self.clients[process];
        if client.is_busy() {
            client.learned = true;
        } else if self.group.protocol == Protocol::Eager && !client.assigned.is_empty() {
            let all = client.assigned.iter().copied().collect();
            self.tell_revoke(process, all, false, Next::Rejoin);
        } else {
            self.rejoin(process);
        }
    }

    /// A client comes for the generation that forms, or makes it form.
    pub(super) fn rejoin(&mut self, process: usize) {
        let Some(id) = self.clients[process].member else { return };
        let Some(member) = self.group.members.get_mut(&id) else { return self.expelled(process) };
        member.joined = true;
        self.change();
    }

    /// Partitions that a member has let go belong to nobody.
    pub(super) fn let_go(&mut self, member: Option<u32>, parts: &[Part]) {
        for part in parts {
            let owner = &mut self.group.owners[*part];
            *owner = owner.filter(|(owner, _)| Some(*owner) != member);
        }
    }

    fn retarget(&mut self) {
        self.group.generation += 1;
        self.group.target = self.targets();
        let members: Vec<u32> = self.group.members.keys().copied().collect();
        for member in members {
            self.heartbeat_soon(member);
        }
    }

    pub(super) fn heartbeat_soon(&mut self, member: u32) {
        let at = self.heartbeat_time();
        self.later(at, Due::Heartbeat { member });
    }

    /// One step of the reconciliation of a member of a KIP-848 group.
    pub(super) fn heartbeat(&mut self, id: u32) {
        let Some(process) = self.group.members.get(&id).map(|member| member.process) else { return };
        let gone = self.clients[process].member != Some(id);
        if gone || self.is_deaf(process, &Due::Heartbeat { member: id }) || self.clients[process].is_busy() {
            return;
        }
        let owned = |part: &Part| self.group.owns(id, *part);
        let meant = |part: &Part| self.group.target[*part] == Some(id);
        let parts = 0..self.group.owners.len();
        let excess: Vec<Part> = parts.clone().filter(|part| owned(part) && !meant(part)).collect();
        let missing: Vec<Part> = parts.filter(|part| meant(part) && !owned(part)).collect();
        if !excess.is_empty() {
            self.group.revokes += 1;
            let serial = self.group.revokes;
            self.clients[process].revoke_serial = serial;
            self.later(self.clock.now() + REBALANCE, Due::Revoked { member: id, serial });
            return self.tell_revoke(process, excess, false, Next::Report);
        }
        let (free, taken): (Vec<Part>, Vec<Part>) = missing.into_iter().partition(|part| self.group.owners[*part].is_none());
        let epoch = self.group.generation;
        for part in &free {
            self.group.owners[*part] = Some((id, epoch));
        }
        if let Some(member) = self.group.members.get_mut(&id) {
            member.epoch = epoch;
        }
        let at = self.soon(process);
        self.later(at, Due::Epoch { process, member: id, epoch });
        if !free.is_empty() || self.chance.one_in(8) {
            self.clients[process].joining = true;
            let share = self.clients[process].assigned.iter().copied().chain(free).collect();
            let at = self.soon(process);
            self.later(at, Due::Synced { process, member: id, share });
        }
        if !taken.is_empty() {
            self.later(self.clock.now() + HEARTBEAT, Due::Heartbeat { member: id });
        }
    }

    pub(super) fn revoke_overdue(&mut self, member: u32, serial: u64) {
        let Some(process) = self.group.members.get(&member).map(|member| member.process) else { return };
        if self.clients[process].revoke_serial == serial && self.clients[process].is_revoking() {
            self.evict(member);
        }
    }
}
