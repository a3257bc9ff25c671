//! Counts the records of each key in a generation and says so when it ends: one record a key, with the count as decimal text.
//!
//! It keeps the counts until then, so nothing of a generation may be committed before: its policy is `generation-end`.

use std::collections::BTreeMap;
use tidegate_plugin::{CommitPolicy, Context, EndReason, Failure, Message, Output, Outputs, Plugin};

struct Count {
    /// By key; null is a key of its own.
    counts: BTreeMap<Option<Vec<u8>>, u64>,
    partition: String,
}

impl Plugin for Count {
    fn init(context: &Context) -> Result<Self, String> {
        Ok(Self { counts: BTreeMap::new(), partition: format!("{}-{}", context.topic, context.partition) })
    }

    fn policy(&self) -> CommitPolicy {
        CommitPolicy::GenerationEnd
    }

    fn process<'a>(&mut self, message: Message<'a>, _: &mut Outputs<'a>) -> Result<(), Failure> {
        *self.counts.entry(message.key.map(Into::into)).or_default() += 1;
        Ok(())
    }

    fn generation_ended(&mut self, reason: EndReason, outputs: &mut Outputs<'_>) -> Result<(), Failure> {
        outputs.extend(std::mem::take(&mut self.counts).into_iter().map(|(key, count)| {
            let mut output =
                Output { key: key.map(Into::into), value: Some(count.to_string().into_bytes().into()), ..Output::default() };
            output.headers.push("partition", self.partition.clone().into_bytes());
            output.headers.push("reason", reason.name().as_bytes());
            output
        }));
        Ok(())
    }
}

tidegate_plugin::export!(Count);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_key_is_counted_and_null_is_not_empty() {
        let mut plugin = Count::init(&Context { topic: "in".into(), partition: 3, ..Context::default() }).unwrap();
        let mut outputs = Outputs::new();
        for key in [Some(&b"a"[..]), Some(b""), None, Some(b"a")] {
            plugin.process(Message { key: key.map(Into::into), ..Message::default() }, &mut outputs).unwrap();
        }
        assert!(outputs.as_slice().is_empty());

        plugin.generation_ended(EndReason::Rebalance, &mut outputs).unwrap();
        let counts: Vec<_> = outputs.as_slice().iter().map(|o| (o.key.as_deref(), o.value.as_deref())).collect();
        assert_eq!(counts, [(None, Some(&b"1"[..])), (Some(&b""[..]), Some(b"1")), (Some(b"a"), Some(b"2"))]);
        assert_eq!(outputs.as_slice()[0].headers.last("partition"), Some(Some(&b"in-3"[..])));
        assert_eq!(outputs.as_slice()[0].headers.last("reason"), Some(Some(&b"rebalance"[..])));
    }
}
