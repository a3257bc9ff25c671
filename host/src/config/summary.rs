//! What is in force, for people: each key with its value, given or default, secrets masked.

use super::keys;
use super::secret::MASK;
use super::{Config, Start, Transform, show_duration, show_size};
use std::fmt::Write;
use tidegate_core::produce::Delivery;

impl Config {
    /// The settings in force, a line each. It holds no secret.
    pub fn summary(&self) -> String {
        let lines = self.settings();
        let width = lines.iter().map(|(key, _)| key.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (key, value) in lines {
            writeln!(text, "  {key:width$}  {value}").expect("a text takes every line");
        }
        text
    }

    /// The settings in force, each with its key. They hold no secret.
    pub fn settings(&self) -> Vec<(String, String)> {
        let mut lines = Vec::new();
        let mut line = |key: &str, value: String| lines.push((key.to_owned(), value));
        line("name", self.name.clone());
        line("kafka.brokers", self.kafka.brokers.join(", "));
        for (name, value) in self.kafka.properties.shown() {
            line(&format!("kafka.properties.{name}"), value.to_owned());
        }
        line("input.topics", self.input.topics.join(", "));
        line("input.group", self.input.group.clone());
        line("input.start", start(self.input.start));
        for transform in &self.transforms {
            transform_lines(transform, &mut line);
        }
        line("output.topic", self.output.topic.clone().unwrap_or_else(|| "none: plugins name a topic".to_owned()));
        line("output.topics", if self.output.topics.is_empty() { "none".to_owned() } else { self.output.topics.join(", ") });
        line("delivery", delivery(self.delivery));
        line("commit-interval", show_duration(self.commit_interval));
        let limit = self.generation_limit;
        line("generation-limit", format!("{}, {} records", show_duration(limit.time), limit.records));
        line("identity", self.identity.clone().unwrap_or_else(|| keys::computed("identity").to_owned()));
        line("stop-timeout", show_duration(self.stop_timeout));
        line("buffer", show_size(self.buffer));
        line("threads", self.threads.to_string());
        line("state-folder", self.state_folder.display().to_string());
        line("cache-folder", self.cache_folder.display().to_string());
        line("(end of a generation)", format!("at most {}", show_duration(self.budget)));
        line("(transaction timeout)", show_duration(self.transaction_timeout));
        lines
    }
}

fn transform_lines(transform: &Transform, line: &mut impl FnMut(&str, String)) {
    let key = |name: &str| format!("transforms.{}.{name}", transform.name);
    let limits = transform.limits;
    line(&key("plugin"), transform.plugin.display().to_string());
    let config = if transform.config.as_str() == "null" { "none" } else { MASK };
    line(&key("config"), config.to_owned());
    line(
        &key("limits"),
        format!(
            "{} memory, {} a call, {} outputs and {} a call, {} log lines a second, {} component",
            show_size(limits.memory),
            show_duration(limits.call_time),
            limits.outputs,
            show_size(limits.output_size),
            limits.log_lines,
            show_size(limits.component_size)
        ),
    );
    line(&key("on-failure"), format!("{} retries, then stop", transform.retries));
}

fn delivery(delivery: Delivery) -> String {
    match delivery {
        Delivery::ExactlyOnce => "exactly-once",
        Delivery::AtLeastOnce => keys::AT_LEAST_ONCE,
    }
    .to_owned()
}

fn start(start: Start) -> String {
    match start {
        Start::Earliest => "earliest".to_owned(),
        Start::Latest => "latest".to_owned(),
        Start::At(millis) => {
            let after = std::time::Duration::from_millis(millis.unsigned_abs());
            let epoch = std::time::UNIX_EPOCH;
            crate::rfc3339::show(if millis < 0 { epoch - after } else { epoch + after })
        }
    }
}
