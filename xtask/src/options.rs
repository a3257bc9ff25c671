//! Options of a task: pairs of a name and a value.

use anyhow::{Result, bail};

/// Puts the values that the words give in the place of the defaults.
///
/// # Errors
/// At a word that is no name of an option, or has no value behind it, with `usage`.
pub fn read<'a>(words: &[&'a str], known: &mut [(&str, &mut &'a str)], usage: &str) -> Result<()> {
    for pair in words.chunks(2) {
        let option = known.iter_mut().find(|(name, _)| *name == pair[0]);
        match (option, pair) {
            (Some((_, into)), [_, value]) => **into = value,
            _ => bail!("unknown argument {}: {usage}", pair[0]),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_stands_above_the_default() {
        let (mut minutes, mut rate) = ("60", "2000");
        read(&["--rate", "5"], &mut [("--minutes", &mut minutes), ("--rate", &mut rate)], "usage").unwrap();
        assert_eq!((minutes, rate), ("60", "5"));
    }

    #[test]
    fn a_word_that_is_not_known_or_lacks_a_value_is_told_with_the_usage() {
        for words in [&["--speed", "5"][..], &["--rate"], &["5"]] {
            let error = read(words, &mut [("--rate", &mut "2000")], "cargo xtask it").unwrap_err();
            assert_eq!(error.to_string(), format!("unknown argument {}: cargo xtask it", words[0]));
        }
    }
}
