//! Groups: what they committed, and who is in them.

use std::collections::BTreeMap;

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::{Offset, TopicPartitionList};

use xtask::kafka::wire;

use super::{Kafka, PATIENCE, eventually};

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Id that the coordinator gave it.
    pub id: String,
    /// Its `client.id`.
    pub client: String,
    /// What it was assigned, in order.
    pub partitions: Vec<(String, i32)>,
}

impl Kafka {
    /// Offset that a group has committed for each partition of a topic; `None` where it has committed none. Waits for offsets of
    /// open transactions to be decided.
    #[must_use]
    pub fn committed(&self, group: &str, topic: &str) -> BTreeMap<i32, Option<i64>> {
        let consumer = self.member_of(group);
        let mut list = TopicPartitionList::new();
        for partition in self.partitions(topic) {
            list.add_partition(topic, partition);
        }
        let what = format!("Kafka tells what group {group} committed for {topic}");
        let offsets = eventually(&what, || consumer.committed_offsets(list.clone(), PATIENCE).ok());
        let offset = |offset| match offset {
            Offset::Offset(offset) => Some(offset),
            Offset::Invalid => None,
            other @ (Offset::Beginning | Offset::End | Offset::Stored | Offset::OffsetTail(_)) => {
                panic!("{other:?} is no committed offset")
            }
        };
        offsets.elements().iter().map(|element| (element.partition(), offset(element.offset()))).collect()
    }

    /// Members of a group with their assignments; empty while the group is rebalancing, or not there.
    #[must_use]
    pub fn members(&self, group: &str) -> Vec<Member> {
        let classic = self.members_of_classic(group);
        if classic.is_empty() { self.members_of_new(group) } else { classic }
    }

    /// Members of a group in which the broker assigns (KIP-848). The client has no call for them.
    fn members_of_new(&self, group: &str) -> Vec<Member> {
        let addresses = self.bootstrap.split(',').filter_map(|address| address.parse().ok());
        let members = addresses.filter_map(|address| wire::members(address, group).ok()).next().unwrap_or_default();
        let member = |member: wire::Member| Member { id: member.id, client: member.client, partitions: member.partitions };
        members.into_iter().map(member).collect()
    }

    fn members_of_classic(&self, group: &str) -> Vec<Member> {
        let consumer = self.member_of(group);
        let Ok(list) = consumer.fetch_group_list(Some(group), PATIENCE) else { return Vec::new() };
        let stable = list.groups().iter().filter(|group| group.state() == "Stable");
        let member = |member: &rdkafka::groups::GroupMemberInfo| Member {
            id: member.id().to_owned(),
            client: member.client_id().to_owned(),
            partitions: member.assignment().and_then(assigned).unwrap_or_default(),
        };
        stable.flat_map(|group| group.members()).map(member).collect()
    }

    /// Sets after how many milliseconds without a sign of life a group in which the broker assigns (KIP-848) puts a member out.
    pub fn set_session(&self, group: &str, millis: u32) {
        let mut addresses = self.bootstrap.split(',').filter_map(|address| address.parse().ok());
        let address = addresses.next().expect("a cluster has a node");
        wire::set_session(address, group, millis).expect("Kafka takes the setting of a group");
    }

    /// Waits until a group has `count` members, and each partition of the topic belongs to one of them.
    pub fn wait_for_members(&self, group: &str, topic: &str, count: usize) -> Vec<Member> {
        let mut wanted: Vec<(String, i32)> =
            self.partitions(topic).into_iter().map(|partition| (topic.to_owned(), partition)).collect();
        wanted.sort();
        eventually(&format!("group {group} has {count} members that share {topic}"), || {
            let members = self.members(group);
            let mut owned: Vec<_> = members.iter().flat_map(|member| member.partitions.clone()).collect();
            owned.sort();
            (members.len() == count && owned == wanted).then_some(members)
        })
    }

    /// A consumer that asks on behalf of a group and never joins it.
    pub(super) fn member_of(&self, group: &str) -> BaseConsumer {
        self.config().set("group.id", group).set("enable.auto.commit", "false").create().expect("the configuration is valid")
    }
}

/// Reads the assignment of the consumer protocol: version, then topics with their partitions. `None` where it is malformed.
fn assigned(bytes: &[u8]) -> Option<Vec<(String, i32)>> {
    let mut rest = bytes;
    let mut take = |count: usize| {
        let (head, tail) = rest.split_at_checked(count)?;
        rest = tail;
        Some(head)
    };
    let _version = take(2)?;
    let mut partitions = Vec::new();
    let topics = int(take(4)?)?;
    for _ in 0..topics {
        let length = usize::from(u16::from_be_bytes(take(2)?.try_into().ok()?));
        let topic = String::from_utf8(take(length)?.to_vec()).ok()?;
        for _ in 0..int(take(4)?)? {
            partitions.push((topic.clone(), int(take(4)?)?));
        }
    }
    partitions.sort();
    Some(partitions)
}

fn int(bytes: &[u8]) -> Option<i32> {
    bytes.try_into().ok().map(i32::from_be_bytes)
}
