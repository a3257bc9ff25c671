//! The plugin that each language has, in Rust: see `tests/languages/README.md`.

use tidegate_plugin::{CommitPolicy, Context, EndReason, Failure, Message, Output, Outputs, Plugin, log};

struct Conformance {
    context: Context,
    records: u64,
}

impl Plugin for Conformance {
    fn init(context: &Context) -> Result<Self, String> {
        match config(context, "refuse") {
            Some(why) => Err(why.to_owned()),
            None => Ok(Self { context: context.clone(), records: 0 }),
        }
    }

    fn policy(&self) -> CommitPolicy {
        match self.context.config.as_str() {
            "\"generation-end\"" => CommitPolicy::GenerationEnd,
            _ => CommitPolicy::AnyTime,
        }
    }

    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        self.records += 1;
        let key = message.key.clone().and_then(|key| String::from_utf8(key.into_owned()).ok()).unwrap_or_default();
        let (word, argument) = key.split_once(':').unwrap_or((&key, ""));
        match word {
            "drop" => return Ok(()),
            "fan" => {
                for number in 0..argument.parse::<u32>().map_err(|error| Failure::reject(error.to_string()))? {
                    let mut output = Output::from(message.clone());
                    output.headers.push("copy", number.to_string().into_bytes());
                    outputs.push(output);
                }
                return Ok(());
            }
            "to" => {
                let output = Output::from(message).to(argument.to_owned());
                outputs.push(Output { partition: Some(2), timestamp: Some(77), ..output });
                return Ok(());
            }
            "reject" => return Err(Failure::reject(argument)),
            "retry" => return Err(Failure::retry(argument)),
            "fatal" => return Err(Failure::fatal(argument)),
            "trap" => panic!("{argument}"),
            "log" => log::warn(argument),
            "print" => print(argument),
            _ => {}
        }
        outputs.push(message.into());
        Ok(())
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs<'_>) -> Result<(), Failure> {
        if let Some(why) = config(&self.context, "end") {
            return Err(Failure::reject(why));
        }
        let Context { pipeline, transform, topic, partition, generation, config: _ } = &self.context;
        let (records, reason) = (self.records, reason.name());
        let details =
            format!("{pipeline}/{transform} {topic}-{partition} generation {generation} records {records} reason {reason}");
        outputs.push(Output::new(&b"details"[..], details.into_bytes()));
        Ok(())
    }
}

/// The argument of the config, where it is this word.
fn config<'a>(context: &'a Context, word: &str) -> Option<&'a str> {
    context.config.strip_prefix('"')?.strip_suffix('"')?.strip_prefix(word)?.strip_prefix(':')
}

#[expect(clippy::print_stdout, reason = "it is a line of the plugin")]
fn print(line: &str) {
    println!("{line}");
}

tidegate_plugin::export!(Conformance);
