//! Options of the command line: pairs of name and value, given by `cargo xtask bench`.

use std::collections::HashMap;
use std::str::FromStr;

use anyhow::{Context, Result, bail};

#[derive(Debug)]
pub(crate) struct Arguments(HashMap<String, String>);

impl Arguments {
    pub(crate) fn parse(words: &[String]) -> Result<Self> {
        let mut pairs = HashMap::new();
        for pair in words.chunks(2) {
            let [name, value] = pair else { bail!("{} lacks a value", pair.concat()) };
            pairs.insert(name.clone(), value.clone());
        }
        Ok(Self(pairs))
    }

    pub(crate) fn text(&self, name: &str) -> Result<&str> {
        self.0.get(name).map(String::as_str).with_context(|| format!("{name} is missing"))
    }

    pub(crate) fn number<T: FromStr>(&self, name: &str) -> Result<T> {
        let text = self.text(name)?;
        text.parse().ok().with_context(|| format!("{name} takes a number, not {text}"))
    }
}
