//! Ids of partitions: given out once, never reused.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tidegate_core::record::{PartitionId, TopicPartition};

/// Gives each partition its small number and remembers its name. Consumer and producer share one.
#[derive(Debug, Default)]
pub struct Names {
    inner: RwLock<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    names: Vec<TopicPartition>,
    ids: HashMap<Arc<str>, HashMap<i32, PartitionId>>,
}

impl Names {
    /// The id of a partition, which is new when the partition was never seen before.
    pub fn id(&self, topic: &str, partition: i32) -> PartitionId {
        if let Some(known) = self.known(topic, partition) {
            return known;
        }
        let mut inner = self.inner.write().unwrap_or_else(PoisonError::into_inner);
        inner.add(topic, partition)
    }

    /// The name behind an id.
    ///
    /// # Panics
    /// When this registry never gave the id out.
    pub fn name(&self, id: PartitionId) -> TopicPartition {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.names.get(id.0 as usize).expect("an id comes from the registry that is asked for its name").clone()
    }

    fn known(&self, topic: &str, partition: i32) -> Option<PartitionId> {
        let inner = self.inner.read().unwrap_or_else(PoisonError::into_inner);
        inner.ids.get(topic)?.get(&partition).copied()
    }
}

impl Inner {
    fn add(&mut self, topic: &str, partition: i32) -> PartitionId {
        let topic: Arc<str> = match self.ids.get_key_value(topic) {
            Some((known, _)) => Arc::clone(known),
            None => topic.into(),
        };
        let next = PartitionId(u32::try_from(self.names.len()).expect("a group has fewer than 2^32 partitions"));
        let names = &mut self.names;
        *self.ids.entry(Arc::clone(&topic)).or_default().entry(partition).or_insert_with(|| {
            names.push(TopicPartition { topic, partition });
            next
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_given_once_and_leads_back_to_its_name() {
        let names = Names::default();
        let (a0, a1, b0) = (names.id("a", 0), names.id("a", 1), names.id("b", 0));
        assert_eq!([a0, a1, b0], [PartitionId(0), PartitionId(1), PartitionId(2)]);
        assert_eq!(names.id("a", 1), a1);
        assert_eq!(names.name(b0).to_string(), "b-0");
    }
}
