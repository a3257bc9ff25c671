//! Sends records to topics by a field, a header or the key. See README.md for its keys.

use serde_json::Value;
use std::collections::BTreeMap;
use tidegate_plugin::{Context, Failure, Message, Outputs, Plugin};
use tidegate_select::{Config, Fate, Selected, Source};

/// Keys besides those that say what is looked at.
const KEYS: [&str; 2] = ["topics", "otherwise"];

struct Route {
    source: Source,
    /// By the text of what is looked at.
    topics: BTreeMap<Vec<u8>, Fate>,
    /// What becomes of records that none of the topics is for.
    otherwise: Fate,
}

impl Plugin for Route {
    fn init(context: &Context) -> Result<Self, String> {
        let mut config = Config::parse(&context.config, &KEYS)?;
        let source = Source::take(&mut config);
        let topics = topics(&mut config);
        let otherwise = config.fate("otherwise", Fate::Pass);
        let route = source.zip(topics).map(|(source, topics)| Self { source, topics, otherwise });
        config.finish(route)
    }

    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        let Self { source, topics, otherwise } = &*self;
        let decide = |selected: &Selected<'_>| {
            let topic = selected.label().and_then(|label| topics.get(label.as_bytes()));
            topic.unwrap_or(otherwise)
        };
        source.send(message, outputs, decide, "no topic is for it")
    }
}

tidegate_plugin::export!(Route);

fn topics(config: &mut Config) -> Option<BTreeMap<Vec<u8>, Fate>> {
    let value = config.value("topics");
    let Some(Value::Object(map)) = value.filter(|value| value.as_object().is_some_and(|map| !map.is_empty())) else {
        config.fault("topics", "values with their topics are wanted: `{ order: orders, refund: refunds }`");
        return None;
    };
    let mut topics = BTreeMap::new();
    for (value, name) in map {
        // One that has a fault does not keep the others from being looked at.
        topics.extend(config.topic(&format!("topics.{value}"), name).map(|topic| (value.into_bytes(), topic)));
    }
    Some(topics)
}

#[cfg(test)]
mod tests;
