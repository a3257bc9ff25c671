//! What `tidegate check` looks at beyond the file: all that a run would come upon before its first record, at once.

use super::connect::{START_PATIENCE, allows_transactions, kafka_settings, unusable};
use super::plugins::Plugins;
use super::{engine, topics};
use crate::cli::{Checked, Finding, Problem};
use crate::config::Config;
use crate::exit::Exit;
use crate::kafka::{TopicFault, survey};
use crate::plugin::LoadError;
use std::sync::Arc;

/// Loads the plugins, and with `connect` asks the brokers, whatever was wrong with the plugins.
pub(super) fn check(config: &Config, connect: bool) -> Checked {
    let mut checked = Checked::default();
    checked.findings.extend(plugins(config));
    if connect {
        brokers(config, &mut checked);
    }
    checked
}

fn plugins(config: &Config) -> Vec<Finding> {
    let engine = match engine(config, &Arc::default()) {
        Ok(engine) => engine,
        Err(problem) => return vec![problem.into()],
    };
    let faults = Plugins::load(config, &engine, &Arc::new(topics(config))).err().unwrap_or_default();
    faults.iter().map(plugin).collect()
}

/// What is wrong with the plugin of a transform, by the place of that in the chain.
pub(super) fn plugin((index, error): &(usize, LoadError)) -> Finding {
    let key = match error {
        LoadError::Refused { .. } => "config",
        LoadError::TooLarge { .. } => "limits.component-size",
        LoadError::Missing { .. }
        | LoadError::Folder { .. }
        | LoadError::Unreadable { .. }
        | LoadError::Empty { .. }
        | LoadError::Text { .. }
        | LoadError::Native { .. }
        | LoadError::NotWasm { .. }
        | LoadError::Cut { .. }
        | LoadError::CoreModule { .. }
        | LoadError::Invalid { .. }
        | LoadError::OtherWorld { .. }
        | LoadError::OtherContract { .. }
        | LoadError::UnknownImports { .. }
        | LoadError::OtherTypes { .. }
        | LoadError::Probe { .. } => "plugin",
    };
    Finding { key: format!("transforms[{index}].{key}"), problem: Problem { message: error.to_string(), exit: Exit::Plugin } }
}

fn brokers(config: &Config, checked: &mut Checked) {
    let settings = kafka_settings(config, &format!("{}-check", config.input.group));
    tracing::info!(brokers = config.kafka.brokers.join(","), "asking the brokers");
    match survey(&settings, topics(config).names(), START_PATIENCE) {
        Err(error) => checked.findings.push(unusable(&error)),
        Ok((cluster, faults)) => {
            checked.findings.extend(faults.iter().map(|fault| topic(config, fault)));
            if let Err(problem) = allows_transactions(config, &cluster) {
                checked.findings.push(problem.into());
            }
            checked.cluster = Some(cluster);
        }
    }
}

/// What is wrong with a topic that the configuration names.
pub(super) fn topic(config: &Config, fault: &TopicFault) -> Finding {
    let name = &fault.topic;
    let problem = match &fault.forbidden {
        Some(reason) => Problem { message: format!("Kafka forbids the topic {name}: {reason}"), exit: Exit::Forbidden },
        None => Problem {
            message: match &fault.near {
                Some(near) => format!("Kafka has no topic {name}; did you mean {near}? Else create it"),
                None => format!("Kafka has no topic {name}; create it, or correct the configuration"),
            },
            exit: Exit::Configuration,
        },
    };
    Finding { key: config.key_of_topic(name), problem }
}
