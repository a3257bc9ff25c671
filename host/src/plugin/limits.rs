//! What an instance may use.

use std::time::Duration;
use wasmtime::ResourceLimiter;

/// What one instance of a plugin may use. All of them hold for each instance by itself, but for the log lines. The defaults are those of the
/// configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// Bytes of linear memory, over all memories of the component. Default 64 MiB.
    pub memory: usize,
    /// Share of `memory` from which on the instance is to be replaced at the end of the generation. Default 0.8.
    pub near_memory: f64,
    /// Time of one call: `init`, `process` or `generation-ended`. Default 1 s.
    pub call_time: Duration,
    /// Outputs of one call. Default 100,000, as many as a generation has records: a hook may have one for each key.
    pub outputs: usize,
    /// Bytes of keys, values and headers that one call may put out. Default 32 MiB.
    pub output_bytes: usize,
    /// Lines a second that all instances of a transform may write to the log, by whatever way. Default 100.
    pub log_lines: u32,
    /// Bytes of the component's file. Default 64 MiB.
    pub component_size: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 64 << 20,
            near_memory: 0.8,
            call_time: Duration::from_secs(1),
            outputs: 100_000,
            output_bytes: 32 << 20,
            log_lines: 100,
            component_size: 64 << 20,
        }
    }
}

/// Elements of all tables of an instance; a large Python component has 6,000.
const TABLE_ELEMENTS: usize = 200_000;

/// Memories of one component: each reserves addresses.
const MEMORIES: usize = 32;

/// What an instance uses, kept below its limits.
#[derive(Debug)]
pub(crate) struct Usage {
    memory: usize,
    memory_limit: usize,
    near: usize,
    table_elements: usize,
    refused: Option<usize>,
}

impl Usage {
    pub(crate) fn new(limits: &Limits) -> Self {
        let near = (limits.memory as f64 * limits.near_memory.clamp(0.0, 1.0)) as usize;
        Self { memory: 0, memory_limit: limits.memory, near, table_elements: 0, refused: None }
    }

    /// Bytes of linear memory.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// Whether the memory has passed the share of its limit.
    pub(crate) fn near_memory_limit(&self) -> bool {
        self.memory >= self.near
    }

    /// Bytes that the instance would have had with the request that was refused since [`Usage::forget_refusal`].
    pub(crate) fn refused(&self) -> Option<usize> {
        self.refused
    }

    /// A new call begins: an earlier refusal says nothing of it.
    pub(crate) fn forget_refusal(&mut self) {
        self.refused = None;
    }
}

impl ResourceLimiter for Usage {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory.saturating_sub(current).saturating_add(desired);
        if total > self.memory_limit {
            self.refused = Some(total);
            return Ok(false);
        }
        self.memory = total;
        Ok(true)
    }

    fn table_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.table_elements.saturating_sub(current).saturating_add(desired);
        if total > TABLE_ELEMENTS {
            return Ok(false);
        }
        self.table_elements = total;
        Ok(true)
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_count_together_and_a_refusal_is_remembered() {
        let mut usage = Usage::new(&Limits { memory: 1000, near_memory: 0.8, ..Limits::default() });
        assert!(usage.memory_growing(0, 500, None).unwrap());
        assert!(usage.memory_growing(0, 299, None).unwrap());
        assert!(!usage.near_memory_limit());
        assert!(usage.memory_growing(500, 501, None).unwrap());
        assert!(usage.near_memory_limit());
        assert_eq!(usage.refused(), None);
        assert!(!usage.memory_growing(299, 500, None).unwrap());
        assert_eq!(usage.refused(), Some(1001));
        usage.forget_refusal();
        assert!(usage.memory_growing(299, 499, None).unwrap());
        assert_eq!(usage.refused(), None);
    }

    #[test]
    fn tables_are_bounded_together() {
        let mut usage = Usage::new(&Limits::default());
        assert!(usage.table_growing(0, TABLE_ELEMENTS - 1, None).unwrap());
        assert!(!usage.table_growing(0, 2, None).unwrap());
    }
}
