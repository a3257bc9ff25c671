//! What nobody is to see: not in a log, not in an error, not by `check` (FIELD-FAULTS B103).

use std::collections::BTreeMap;
use std::fmt;

/// What is shown in the place of a secret.
pub(super) const MASK: &str = "***";

/// Parts of key names whose values are secrets.
const SECRET: [&str; 13] = [
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "api-key",
    "api_key",
    "apikey",
    "private",
    "key.pem",
    "jaas",
    "oauthbearer.config",
];

/// Whether a key's value is a secret, by the name of the key or of one above it.
pub(super) fn is_secret(path: &str) -> bool {
    let path = path.to_lowercase();
    SECRET.iter().any(|part| path.contains(part))
}

/// Properties for the Kafka clients. Their secrets are masked by `Debug` and by [`Properties::shown`].
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Properties(BTreeMap<String, Property>);

#[derive(Clone, PartialEq, Eq)]
struct Property {
    value: String,
    hidden: bool,
}

impl Properties {
    pub(super) fn insert(&mut self, name: String, value: String, hidden: bool) {
        self.0.insert(name, Property { value, hidden });
    }

    /// A property as the client is to get it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|property| property.value.as_str())
    }

    /// Each property as the client is to get it, by name. Show them with [`Properties::shown`].
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, property)| (name.as_str(), property.value.as_str()))
    }

    /// Each property as people may see it, by name.
    pub fn shown(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, property)| (name.as_str(), if property.hidden { MASK } else { property.value.as_str() }))
    }
}

impl fmt::Debug for Properties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.shown()).finish()
    }
}

/// JSON text that a plugin gets as its configuration. It may hold secrets, so `Debug` tells its length only.
#[derive(Clone, PartialEq, Eq)]
pub struct PluginConfig(pub(super) String);

impl PluginConfig {
    /// The JSON text, `null` when the file says nothing.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for PluginConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of JSON", self.0.len())
    }
}
