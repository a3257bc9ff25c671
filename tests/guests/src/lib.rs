//! A plugin for tests: it does what a record's key says, else what the config says, else it passes the record on.
//!
//! Config, all optional: `{"do": ACTION, "hook": ACTION, "init": ACTION, "policy": POLICY, "version": TEXT}`.
//!
//! - An ACTION is a word with an argument behind a colon, see `Misbehave::act`.
//! - `hook` is done in `generation-ended`, as if for a record without key and value.
//! - `init` is done before the instance is there; `init: "reject:why"` refuses the config.
//! - POLICY: `any-time`, `generation-end`, or `changes` (any-time for the probe, generation-end for the others).
//! - `version` is put into a header of that name of every record passed on.

mod harm;

use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashMap;
use tidegate_plugin::{CommitPolicy, Context, EndReason, Failure, Message, Output, Outputs, Plugin, log};

struct Misbehave {
    context: Context,
    config: Value,
    records: u64,
    /// Attempts by offset.
    attempts: HashMap<i64, u64>,
}

impl Plugin for Misbehave {
    fn init(context: &Context) -> Result<Self, String> {
        let config: Value = if context.config.is_empty() {
            Value::Null
        } else {
            serde_json::from_str(&context.config).map_err(|error| format!("config: {error}"))?
        };
        let mut plugin = Self { context: context.clone(), config, records: 0, attempts: HashMap::new() };
        if let Some(action) = plugin.option("init") {
            plugin.act(&action, Message::default(), &mut Outputs::new()).map_err(|failure| match failure {
                Failure::Reject(why) | Failure::Retry(why) | Failure::Fatal(why) => why,
            })?;
        }
        Ok(plugin)
    }

    fn policy(&self) -> CommitPolicy {
        match self.option("policy").as_deref() {
            Some("generation-end") => CommitPolicy::GenerationEnd,
            Some("changes") if self.context.partition >= 0 => CommitPolicy::GenerationEnd,
            _ => CommitPolicy::AnyTime,
        }
    }

    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        self.records += 1;
        let key = message.key.as_deref().and_then(|key| std::str::from_utf8(key).ok()).filter(|key| is_action(key));
        let action = key.map(str::to_owned).or_else(|| self.option("do")).unwrap_or_else(|| "echo".into());
        self.act(&action, message, outputs)
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs<'_>) -> Result<(), Failure> {
        let Some(action) = self.option("hook") else { return Ok(()) };
        if action == "details" {
            outputs.push(Output::new(&b"details"[..], self.details(reason).into_bytes()));
            return Ok(());
        }
        self.act(&action, Message { offset: -1, ..Message::default() }, outputs)
    }
}

const ACTIONS: [&str; 25] = [
    "echo",
    "drop",
    "fan",
    "reject",
    "retry",
    "fatal",
    "trap",
    "exit",
    "loop",
    "sleep",
    "busy",
    "leak",
    "alloc",
    "survive-alloc",
    "recurse",
    "flood",
    "log",
    "stdout",
    "stderr",
    "topic",
    "many",
    "bytes",
    "timestamp",
    "partition",
    "open",
];

fn is_action(key: &str) -> bool {
    let word = key.split_once(':').map_or(key, |(word, _)| word);
    ACTIONS.contains(&word)
}

impl Misbehave {
    /// Does one thing.
    fn act<'a>(&mut self, action: &str, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        let (word, argument) = action.split_once(':').unwrap_or((action, ""));
        let number: u64 = argument.parse().unwrap_or(1);
        match word {
            "drop" => return Ok(()),
            // So many copies, numbered by a header.
            "fan" => {
                for index in 0..number {
                    let mut output = Output::from(message.clone());
                    output.headers.push("copy", index.to_string().into_bytes());
                    outputs.push(output);
                }
                return Ok(());
            }
            "reject" => return Err(Failure::reject(or(argument, "asked to reject"))),
            "fatal" => return Err(Failure::fatal(or(argument, "asked to be fatal"))),
            // So often, then it is passed on.
            "retry" => {
                let attempts = self.attempts.entry(message.offset).or_default();
                *attempts += 1;
                if *attempts <= number {
                    return Err(Failure::retry(format!("attempt {attempts}")));
                }
            }
            "log" => log::write(log::Level::Warn, argument),
            "topic" => {
                outputs.push(Output::from(message).to(argument.to_owned()));
                return Ok(());
            }
            // So many small ones.
            "many" => {
                outputs.extend((0..number).map(|_| Output::new(&b""[..], &b"x"[..])));
                return Ok(());
            }
            // One of that size.
            "bytes" => {
                let size = usize::try_from(number).expect("it fits into memory");
                outputs.push(Output { value: Some(Cow::Owned(vec![b'x'; size])), ..Output::default() });
                return Ok(());
            }
            "timestamp" => {
                outputs.push(Output { timestamp: argument.parse().ok(), ..Output::from(message) });
                return Ok(());
            }
            "partition" => {
                outputs.push(Output { partition: argument.parse().ok(), ..Output::from(message) });
                return Ok(());
            }
            _ => harm::act(word, argument, number),
        }
        outputs.push(self.passed_on(message));
        Ok(())
    }

    fn passed_on<'a>(&self, message: Message<'a>) -> Output<'a> {
        let mut output = Output::from(message);
        if let Some(version) = self.option("version") {
            output.headers.push("version", version.into_bytes());
        }
        output
    }

    /// What the instance was told and saw.
    fn details(&self, reason: EndReason) -> String {
        let Context { pipeline, transform, topic, partition, generation, config: _ } = &self.context;
        let (records, reason) = (self.records, reason.name());
        format!("{pipeline}/{transform} {topic}-{partition} generation {generation} records {records} reason {reason}")
    }

    fn option(&self, name: &str) -> Option<String> {
        self.config.get(name)?.as_str().map(str::to_owned)
    }
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

tidegate_plugin::export!(Misbehave);
