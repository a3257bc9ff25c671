//! How the hosts of a scene share their group, and what is promised of their outputs.

use crate::host::Pipeline;

/// A way to run. What holds of rebalances, stops and crashes holds in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Exactly once, in a classic group whose members keep what stays theirs: what hosts do by themselves.
    #[default]
    Cooperative,
    /// The same group without transactions: `delivery: at-least-once`.
    AtLeastOnce,
    /// A classic group whose members give everything back at each rebalance.
    Range,
    /// The same by another assignor.
    RoundRobin,
    /// A group of KIP-848, in which the broker assigns.
    Broker,
}

impl Mode {
    /// Whether outputs count only with the offsets of their records.
    #[must_use]
    pub fn is_transactional(self) -> bool {
        self != Self::AtLeastOnce
    }

    /// Whether a member gives everything back at each rebalance.
    #[must_use]
    pub fn is_eager(self) -> bool {
        matches!(self, Self::Range | Self::RoundRobin)
    }

    /// How many of a host's partitions go when it has `owned` and keeps `kept`.
    #[must_use]
    pub fn released(self, owned: usize, kept: usize) -> usize {
        if self.is_eager() { owned } else { owned - kept }
    }

    /// A host that runs in this way.
    #[must_use]
    pub fn apply(self, pipeline: Pipeline) -> Pipeline {
        let assignor = "partition.assignment.strategy";
        match self {
            Self::Cooperative => pipeline,
            Self::AtLeastOnce => pipeline.line("delivery: at-least-once"),
            Self::Range => pipeline.property(assignor, "range"),
            Self::RoundRobin => pipeline.property(assignor, "roundrobin"),
            Self::Broker => pipeline.in_new_protocol(),
        }
    }
}

/// Makes a module with a test for each mode but the usual one, of a function over a [`Mode`] that stands beside it.
#[macro_export]
macro_rules! in_other_modes {
    ($name:ident, $body:ident) => {
        mod $name {
            use $crate::mode::Mode;

            #[test]
            fn at_least_once() {
                super::$body(Mode::AtLeastOnce);
            }

            #[test]
            fn range() {
                super::$body(Mode::Range);
            }

            #[test]
            fn roundrobin() {
                super::$body(Mode::RoundRobin);
            }

            #[test]
            fn broker() {
                super::$body(Mode::Broker);
            }
        }
    };
}
