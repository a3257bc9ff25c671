//! Keeps the records whose field, header or key compares as the configuration says. See README.md for its keys.

mod test;

use crate::test::Test;
use tidegate_plugin::{Context, Failure, Message, Outputs, Plugin};
use tidegate_select::{Config, Fate, Selected, Source};

/// Keys besides those that say what is looked at.
const KEYS: [&str; 10] =
    ["equals", "in", "starts-with", "greater-than", "at-least", "less-than", "at-most", "exists", "not", "otherwise"];

struct Filter {
    source: Source,
    test: Test,
    /// Keeps what does not compare.
    not: bool,
    /// What becomes of the others.
    otherwise: Fate,
}

impl Plugin for Filter {
    fn init(context: &Context) -> Result<Self, String> {
        let mut config = Config::parse(&context.config, &KEYS)?;
        let source = Source::take(&mut config);
        let test = Test::take(&mut config);
        let not = config.truth("not").unwrap_or(false);
        let otherwise = config.fate("otherwise", Fate::Drop);
        if otherwise == Fate::Pass {
            config.fault("otherwise", "with `pass` every record would be kept: `drop`, `reject` or `{ topic: NAME }` is wanted");
        }
        let filter = source.zip(test).map(|(source, test)| Self { source, test, not, otherwise });
        config.finish(filter)
    }

    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        let Self { source, test, not, otherwise } = &*self;
        let decide = |selected: &Selected<'_>| if test.holds(selected) == *not { otherwise } else { &Fate::Pass };
        source.send(message, outputs, decide, "it does not compare as is wanted")
    }
}

tidegate_plugin::export!(Filter);

#[cfg(test)]
mod tests;
