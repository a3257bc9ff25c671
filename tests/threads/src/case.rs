//! What is played.

use tidegate_core::plugin::CommitPolicy;

/// A kind of run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// What it is called.
    pub name: &'static str,
    /// When its plugin allows a commit.
    pub(crate) policy: CommitPolicy,
    /// Rebalances at most.
    pub(crate) rebalances: u32,
    /// Calls that may fail.
    pub(crate) faults: Faults,
}

/// What may fail, a few times at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Faults {
    None,
    /// A commit fails, and its transaction has to be aborted.
    Commits,
    /// The group refuses offsets, as it does between two of its generations.
    Offsets,
    /// A plugin dies, in a record or in its hook.
    Plugins,
}

const fn case(name: &'static str, policy: CommitPolicy, rebalances: u32, faults: Faults) -> Case {
    Case { name, policy, rebalances, faults }
}

/// All of them.
pub const CASES: [Case; 8] = [
    case("commits", CommitPolicy::AnyTime, 0, Faults::None),
    case("holds", CommitPolicy::GenerationEnd, 0, Faults::None),
    case("rebalances", CommitPolicy::AnyTime, 2, Faults::None),
    case("holding-rebalances", CommitPolicy::GenerationEnd, 2, Faults::None),
    case("failed-commits", CommitPolicy::AnyTime, 1, Faults::Commits),
    case("holding-failed-commits", CommitPolicy::GenerationEnd, 1, Faults::Commits),
    case("refused-offsets", CommitPolicy::AnyTime, 1, Faults::Offsets),
    case("dying-plugins", CommitPolicy::GenerationEnd, 1, Faults::Plugins),
];

impl Case {
    /// Whether it goes on by a timer of the driver: a pause after a failure.
    pub(crate) fn needs_timers(self) -> bool {
        match self.faults {
            Faults::None | Faults::Commits => false,
            Faults::Offsets | Faults::Plugins => true,
        }
    }
}
