//! Where each value stands, for what is found to be wrong with it only later: when its plugin is loaded, or the brokers are asked.

use super::fault::Position;
use std::collections::BTreeMap;

/// The places of the values of a file, by the path of the key: `transforms[0].plugin`, `input.topics[1]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places(BTreeMap<String, Position>);

impl Places {
    pub(super) fn note(&mut self, path: String, at: Position) {
        self.0.insert(path, at);
    }

    /// Whether the file gives that value.
    pub(super) fn has(&self, path: &str) -> bool {
        self.0.contains_key(path)
    }

    /// The place of a value, or of what it would stand in where the file leaves it out.
    pub fn of(&self, path: &str) -> Position {
        let mut path = path;
        loop {
            if let Some(at) = self.0.get(path) {
                return *at;
            }
            let Some(end) = path.rfind(['.', '[']) else { break };
            path = &path[..end];
        }
        self.0.get("").copied().unwrap_or(Position { line: 1, column: 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_has_the_place_of_what_it_would_be_in() {
        let place = |line| Position { line, column: 1 };
        let mut places = Places::default();
        assert_eq!(places.of("name"), place(1));
        places.note(String::new(), place(2));
        places.note("input.topics".to_owned(), place(3));
        places.note("input.topics[1]".to_owned(), place(4));
        let expected = [("name", 2), ("input", 2), ("input.topics[1]", 4), ("input.topics[2]", 3), ("input.topics[1].x", 4)];
        for (path, line) in expected {
            assert_eq!(places.of(path), place(line), "{path}");
        }
    }
}
