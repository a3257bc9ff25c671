//! The properties that the Kafka client knows, out of the manual that librdkafka prints: for hints, and for the configuration's schema.
//! It is the linked library that is asked, so that the two can't drift apart.

use super::ffi;
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// A property of the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProperty {
    /// Its name.
    pub name: String,
    /// What it takes.
    pub takes: Takes,
    /// What it is for, in the words of the manual.
    pub about: String,
}

/// What a property takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Takes {
    /// Any text, or what the manual says in words only.
    Text,
    /// `true` or `false`.
    Truth,
    /// A whole number from the first to the second.
    Whole(i64, i64),
    /// Any number.
    Number,
    /// One of these.
    Word(Vec<String>),
}

/// Every property, in the order of the manual; empty when the system has no memory for it.
pub fn client_properties() -> &'static [ClientProperty] {
    static KNOWN: OnceLock<Vec<ClientProperty>> = OnceLock::new();
    KNOWN.get_or_init(|| parse(&ffi::manual()))
}

/// Reads the table. A name that is there twice, for a topic too, counts where it comes first.
fn parse(manual: &str) -> Vec<ClientProperty> {
    let mut seen = BTreeSet::new();
    manual.lines().filter_map(property).filter(|property| seen.insert(property.name.clone())).collect()
}

fn property(line: &str) -> Option<ClientProperty> {
    let cells: Vec<&str> = line.splitn(6, " | ").map(str::trim).collect();
    let [name, _, range, _, _, rest] = cells[..] else { return None };
    let (about, kind) = rest.rsplit_once("<br>*Type: ")?;
    let takes = match kind.trim_end_matches('*') {
        "boolean" => Takes::Truth,
        "integer" => range
            .split_once(" .. ")
            .and_then(|(min, max)| Some(Takes::Whole(min.parse().ok()?, max.parse().ok()?)))
            .unwrap_or(Takes::Number),
        "float" => Takes::Number,
        "enum value" => Takes::Word(range.split(", ").map(str::to_owned).collect()),
        // What only code can set, a callback or a pointer, is no property for a file.
        "see dedicated API" => return None,
        _ => Takes::Text,
    };
    Some(ClientProperty { name: name.to_owned(), takes, about: about.trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdkafka::ClientConfig;

    fn find(name: &str) -> &'static ClientProperty {
        client_properties().iter().find(|property| property.name == name).expect(name)
    }

    #[test]
    fn the_manual_is_read_to_its_last_column() {
        assert_eq!(
            find("compression.type").takes,
            Takes::Word(["none", "gzip", "snappy", "lz4", "zstd"].map(str::to_owned).to_vec())
        );
        assert_eq!(find("acks").takes, Takes::Whole(-1, 1000));
        assert_eq!(find("linger.ms").takes, Takes::Number);
        assert_eq!(find("enable.auto.commit").takes, Takes::Truth);
        assert_eq!(find("client.rack").takes, Takes::Text);
        assert!(find("ssl.ca.location").about.starts_with("File or directory path to CA certificate"));
        assert!(client_properties().iter().all(|property| !property.about.is_empty() && !property.name.contains(' ')));
        assert!(client_properties().iter().all(|property| property.name != "opaque"), "it takes a pointer");
        assert!(client_properties().len() > 130, "{}", client_properties().len());
    }

    #[test]
    fn the_client_takes_every_word_and_bound_that_its_manual_names() {
        for property in client_properties() {
            let values = match &property.takes {
                Takes::Word(words) => words.clone(),
                Takes::Truth => vec!["true".to_owned(), "false".to_owned()],
                Takes::Whole(min, max) => vec![min.to_string(), max.to_string()],
                Takes::Text | Takes::Number => continue,
            };
            for value in values {
                let mut config = ClientConfig::new();
                config.set(&property.name, &value);
                if let Err(error) = config.create_native_config() {
                    let error = error.to_string();
                    // What this build was made without is known all the same.
                    assert!(error.contains("not available at build time"), "{}={value}: {error}", property.name);
                }
            }
        }
    }
}
