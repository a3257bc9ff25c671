//! Values to a [`Config`] that holds together: what one key means for another.

use super::fault::{Faults, Position};
use super::file::Section;
use super::keys::AT_LEAST_ONCE;
use super::places::Places;
use super::properties::{self, Times};
use super::secret::PluginConfig;
use super::value;
use super::{Config, GenerationLimit, Input, Kafka, Limits, Output, Start, Transform, show_duration};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tidegate_core::produce::Delivery;

type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Budget of an end of a generation when `max.poll.interval.ms` allows it (decision D4).
const LARGEST_BUDGET: Duration = Duration::from_secs(20);

/// What decision D12 adds for flush, commit and close.
const TRANSACTION_MARGIN: Duration = Duration::from_secs(10);

/// Puts a configuration together. What has faults reads as its default or as empty; the caller throws the result away then.
pub(super) fn check(file: &Path, top: &Section, lookup: Lookup<'_>, faults: &mut Faults) -> Config {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    let folder = absolute.parent().unwrap_or_else(|| Path::new("/")).to_owned();
    let name = top.text_or_default("name");
    let commit_interval = top.duration("commit-interval");
    let limit = top.section("generation-limit");
    let generation_limit = GenerationLimit { time: limit.duration("time"), records: limit.count("records") };
    let stop_timeout = top.duration("stop-timeout");
    let kafka = top.section("kafka");
    let properties = properties::read(kafka.map("properties"), &kafka.path_of("properties"), faults);
    let max_poll_interval = properties::max_poll_interval(&properties);
    let budget = LARGEST_BUDGET.min(max_poll_interval.mul_f64(0.6));
    let needed = transaction_timeout(commit_interval, generation_limit.time, budget, stop_timeout);
    let times = Times { needed, max_poll_interval };
    let transaction_timeout = times.check(kafka.map("properties"), &kafka.path_of("properties"), faults);
    let input = input(top.section("input"), &name);
    Config {
        kafka: Kafka { brokers: brokers(kafka), properties },
        transforms: transforms(top.sections("transforms"), &folder, faults),
        output: output(top, &input, faults),
        input,
        delivery: if top.choice("delivery") == AT_LEAST_ONCE { Delivery::AtLeastOnce } else { Delivery::ExactlyOnce },
        commit_interval,
        generation_limit,
        identity: top.text("identity").map(|text| text.text.clone()),
        stop_timeout,
        buffer: top.size("buffer"),
        threads: threads(top),
        state_folder: own_folder(top, "state-folder", &folder, ("XDG_STATE_HOME", ".local/state"), lookup),
        cache_folder: own_folder(top, "cache-folder", &folder, ("XDG_CACHE_HOME", ".cache"), lookup),
        budget,
        max_poll_interval,
        transaction_timeout,
        places: places(top),
        file: absolute,
        name,
    }
}

/// The addresses of the brokers, each with its port.
fn brokers(section: &Section) -> Vec<String> {
    section.texts("brokers").iter().filter_map(|text| value::broker(&text.text).ok()).collect()
}

fn places(top: &Section) -> Places {
    let mut places = Places::default();
    top.note(&mut places);
    places
}

/// The least `transaction.timeout.ms` under which no transaction can time out while the host does its work (decision D12): the longest
/// that one is open, then the longest end of a generation, then time to flush, commit and close. A stop may be given more time than a
/// rebalance has, so the longer of the two counts.
fn transaction_timeout(commit_interval: Duration, generation: Duration, budget: Duration, stop: Duration) -> Duration {
    commit_interval.max(generation) + budget.max(stop) + TRANSACTION_MARGIN
}

fn input(section: &Section, name: &str) -> Input {
    Input {
        topics: section.texts("topics").iter().map(|text| text.text.clone()).collect(),
        group: section.text("group").map_or_else(|| name.to_owned(), |text| text.text.clone()),
        start: value::start(&section.text_or_default("start")).unwrap_or(Start::Earliest),
    }
}

fn transforms(sections: &[Section], folder: &Path, faults: &mut Faults) -> Vec<Transform> {
    let mut transforms: Vec<Transform> = Vec::new();
    for section in sections {
        let name = section.text_or_default("name");
        if !name.is_empty() && transforms.iter().any(|earlier| earlier.name == name) {
            let message = format!("another transform is called `{name}` too: each needs a name of its own");
            faults.add(section.place("name"), section.path_of("name"), message);
        }
        let limits = section.section("limits");
        let retries = section.section("on-failure").count("retries");
        transforms.push(Transform {
            name,
            plugin: folder.join(section.text_or_default("plugin")),
            config: PluginConfig(section.json("config")),
            limits: Limits {
                memory: limits.size("memory"),
                call_time: limits.duration("call-time"),
                outputs: limits.count("outputs"),
                output_size: limits.size("output-size"),
                log_lines: limits.count("log-lines"),
                component_size: limits.size("component-size"),
            },
            retries: u32::try_from(retries).unwrap_or(u32::MAX),
        });
    }
    transforms
}

/// Topics to write to. One that is read too would feed the pipeline with its own outputs for ever (FIELD-FAULTS B052).
fn output(top: &Section, input: &Input, faults: &mut Faults) -> Output {
    let section = top.section("output");
    let topic = section.text("topic");
    let topics = section.texts("topics");
    if topic.is_none() && topics.is_empty() && top.has("output") && !section.has("topic") && !section.has("topics") {
        let message =
            "a pipeline needs a topic to write to: `topic` for all that it makes, or `topics` for those that its plugins name";
        faults.add(section.at, &section.path, message);
    }
    let mut check = |at: Position, key: String, text: &str| {
        if input.topics.iter().any(|input| input == text) {
            let message =
                format!("`{text}` is read by this pipeline (`input.topics`): it would process its own outputs for ever");
            faults.add(at, key, message);
        }
    };
    if let Some(text) = topic {
        check(text.at, section.path_of("topic"), &text.text);
    }
    for (index, text) in topics.iter().enumerate() {
        check(text.at, format!("{}[{index}]", section.path_of("topics")), &text.text);
    }
    let mut further: Vec<String> = topics.iter().map(|text| text.text.clone()).collect();
    further.retain(|text| topic.is_none_or(|topic| topic.text != *text));
    Output { topic: topic.map(|text| text.text.clone()), topics: further }
}

fn threads(top: &Section) -> usize {
    let cores = || thread::available_parallelism().map_or(1, usize::from);
    top.number("threads").and_then(|threads| usize::try_from(threads).ok()).unwrap_or_else(cores)
}

/// A folder of the host's own: what the file says, or by the habits of the system. Without a home it is one for temporary files, which
/// the processes of one machine share all the same.
fn own_folder(top: &Section, key: &str, folder: &Path, (variable, below_home): (&str, &str), lookup: Lookup<'_>) -> PathBuf {
    if let Some(text) = top.text(key) {
        return folder.join(&text.text);
    }
    let absolute = |name: &str| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute(variable).or_else(|| absolute("HOME").map(|home| home.join(below_home)));
    base.unwrap_or_else(|| std::env::temp_dir().join(below_home.replace(['/', '.'], ""))).join("tidegate")
}

impl Times {
    /// How the time that a transaction needs comes about, for the person who asked for less.
    pub(super) fn why(&self) -> String {
        format!(
            "a transaction has to outlive the longer of `commit-interval` and `generation-limit.time`, the end of a generation, and {}: {} here",
            show_duration(TRANSACTION_MARGIN),
            show_duration(self.needed)
        )
    }
}
