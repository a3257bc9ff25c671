//! Exit codes (decision D20). `docs/exit-codes.md` holds the same table for people; a test keeps the two alike.

use std::process::{ExitCode, Termination};

/// How the process ends, as a supervisor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Exit {
    /// Stopped in order, or a command did what it was asked.
    Ok = 0,
    /// The command line can't be understood.
    Usage = 64,
    /// A record or a generation failed and the policy says: stop.
    Policy = 65,
    /// A plugin can't be loaded.
    Plugin = 66,
    /// The brokers can't be reached, or were gone for too long.
    Unreachable = 69,
    /// A fault of the host itself.
    Fault = 70,
    /// The watchdog ended a process whose transactional call or lane did not come back.
    Watchdog = 74,
    /// `stop-timeout` passed: what was open was aborted.
    StopTimeout = 75,
    /// The brokers forbid it: authentication or authorisation.
    Forbidden = 77,
    /// The configuration has faults.
    Configuration = 78,
    /// Another host has taken this one's identity.
    Fenced = 79,
}

impl Exit {
    /// Every exit, in the order of the codes.
    pub const ALL: [Self; 11] = [
        Self::Ok,
        Self::Usage,
        Self::Policy,
        Self::Plugin,
        Self::Unreachable,
        Self::Fault,
        Self::Watchdog,
        Self::StopTimeout,
        Self::Forbidden,
        Self::Configuration,
        Self::Fenced,
    ];

    /// The number that the operating system is given.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// A name for logs, without spaces.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Usage => "usage",
            Self::Policy => "policy",
            Self::Plugin => "plugin",
            Self::Unreachable => "unreachable",
            Self::Fault => "fault",
            Self::Watchdog => "watchdog",
            Self::StopTimeout => "stop-timeout",
            Self::Forbidden => "forbidden",
            Self::Configuration => "configuration",
            Self::Fenced => "fenced",
        }
    }

    /// What happened, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Self::Ok => "stopped in order, or the command did what it was asked",
            Self::Usage => "the command line can't be understood",
            Self::Policy => "a record or a generation failed, and the policy is to stop there",
            Self::Plugin => "a plugin can't be loaded",
            Self::Unreachable => "the brokers can't be reached, or were gone for too long",
            Self::Fault => "a fault of the host itself",
            Self::Watchdog => "a call did not come back, and the process ended itself",
            Self::StopTimeout => "the stop took too long: what was open was aborted",
            Self::Forbidden => "the brokers refuse this client",
            Self::Configuration => "the configuration has faults, or does not fit the brokers",
            Self::Fenced => "another host runs under the same identity",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

impl Termination for Exit {
    fn report(self) -> ExitCode {
        self.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = include_str!("../../docs/exit-codes.md");

    #[test]
    fn the_table_in_the_docs_is_the_table_in_the_code() {
        let documented: Vec<(u8, String)> = DOC
            .lines()
            .filter_map(|line| {
                let mut cells = line.strip_prefix('|')?.split('|').map(str::trim);
                Some((cells.next()?.parse().ok()?, cells.next()?.trim_matches('`').to_owned()))
            })
            .collect();
        let known: Vec<(u8, String)> = Exit::ALL.iter().map(|exit| (exit.code(), exit.name().to_owned())).collect();
        assert_eq!(documented, known);
    }

    #[test]
    fn codes_are_those_of_decision_d20() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 64, 65, 66, 69, 70, 74, 75, 77, 78, 79]);
    }
}
