//! Records in and out.
//!
//! Keys, values and headers are [`Cow`]s: what the host handed over as the plugin's own moves into an output without a copy and can
//! be changed in place (`to_mut`); what is only lent is copied when it is changed.

use std::borrow::Cow;

/// A header of a record. Names may repeat and keep their order; a value may be null (`None`), which is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its value.
    pub value: Option<Cow<'a, [u8]>>,
}

/// The headers of a record, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers<'a>(Vec<Header<'a>>);

impl<'a> Headers<'a> {
    /// None at all.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Goes through them.
    pub fn iter(&self) -> std::slice::Iter<'_, Header<'a>> {
        self.0.iter()
    }

    /// The value of the last header of that name; `Some(None)` is a header whose value is null.
    pub fn last(&self, name: &str) -> Option<Option<&[u8]>> {
        self.0.iter().rev().find(|header| header.name == name).map(|header| header.value.as_deref())
    }

    /// Adds one behind the others.
    pub fn push(&mut self, name: impl Into<Cow<'a, str>>, value: impl Into<Cow<'a, [u8]>>) {
        self.0.push(Header { name: name.into(), value: Some(value.into()) });
    }

    /// Adds one whose value is null.
    pub fn push_null(&mut self, name: impl Into<Cow<'a, str>>) {
        self.0.push(Header { name: name.into(), value: None });
    }

    /// Takes away those for which `keep` says no.
    pub fn retain(&mut self, keep: impl FnMut(&Header<'a>) -> bool) {
        self.0.retain(keep);
    }
}

impl<'a> FromIterator<Header<'a>> for Headers<'a> {
    fn from_iter<I: IntoIterator<Item = Header<'a>>>(headers: I) -> Self {
        Self(headers.into_iter().collect())
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = Header<'a>;
    type IntoIter = std::vec::IntoIter<Header<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'s, 'a> IntoIterator for &'s Headers<'a> {
    type Item = &'s Header<'a>;
    type IntoIter = std::slice::Iter<'s, Header<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A record that was consumed. Its topic and partition are those of the instance ([`crate::Context`]). `None` is null, which is not
/// empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message<'a> {
    /// Offset of the consumed record. It repeats when an earlier transform made several of one; -1 for a record that the hook of an
    /// earlier transform made.
    pub offset: i64,
    /// Milliseconds since 1970-01-01 UTC.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<Cow<'a, [u8]>>,
    /// Its value; null is a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// Its headers.
    pub headers: Headers<'a>,
}

impl<'a> Message<'a> {
    /// A record with that key and value, and nothing else: for tests.
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Self {
        Self { key: Some(Cow::Borrowed(key)), value: Some(Cow::Borrowed(value)), ..Self::default() }
    }
}

/// A record to be produced. `None` as key or value is null, which is not empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output<'a> {
    /// `None`: the next transform, or the output topic of the pipeline. Else a topic that the configuration names (`output.topics`):
    /// the record leaves the chain there.
    pub topic: Option<Cow<'a, str>>,
    /// `None`: by key, as the Java client does (murmur2).
    pub partition: Option<i32>,
    /// Milliseconds since 1970-01-01 UTC. `None`: that of the message; in [`crate::Plugin::generation_ended`] the time of the call.
    pub timestamp: Option<i64>,
    /// Its key.
    pub key: Option<Cow<'a, [u8]>>,
    /// Its value; null is a tombstone.
    pub value: Option<Cow<'a, [u8]>>,
    /// Its headers.
    pub headers: Headers<'a>,
}

impl<'a> Output<'a> {
    /// A record with that key and value, without headers.
    pub fn new(key: impl Into<Cow<'a, [u8]>>, value: impl Into<Cow<'a, [u8]>>) -> Self {
        Self { key: Some(key.into()), value: Some(value.into()), ..Self::default() }
    }

    /// Sends it to that topic instead of onward.
    #[must_use]
    pub fn to(mut self, topic: impl Into<Cow<'a, str>>) -> Self {
        self.topic = Some(topic.into());
        self
    }
}

impl<'a> From<Message<'a>> for Output<'a> {
    /// The record as it is, onward: key, value, headers and timestamp move, nothing is copied.
    fn from(message: Message<'a>) -> Self {
        let Message { offset: _, timestamp, key, value, headers } = message;
        Self { topic: None, partition: None, timestamp, key, value, headers }
    }
}

/// What a call makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outputs<'a>(Vec<Output<'a>>);

impl<'a> Outputs<'a> {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a record.
    pub fn push(&mut self, output: Output<'a>) {
        if self.0.capacity() == 0 {
            // One record is the usual case; the vector's own first step would be four.
            self.0.reserve_exact(1);
        }
        self.0.push(output);
    }

    /// What was pushed.
    pub fn as_slice(&self) -> &[Output<'a>] {
        &self.0
    }

    pub(crate) fn into_vec(self) -> Vec<Output<'a>> {
        self.0
    }
}

impl<'a> Extend<Output<'a>> for Outputs<'a> {
    fn extend<I: IntoIterator<Item = Output<'a>>>(&mut self, outputs: I) {
        self.0.extend(outputs);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_moves_into_an_output_without_a_copy() {
        let value = b"abc".to_vec();
        let at = value.as_ptr();
        let message = Message { value: Some(Cow::Owned(value)), timestamp: Some(5), ..Message::new(b"k", b"") };
        let mut output = Output::from(message);
        output.value.as_mut().unwrap().to_mut().make_ascii_uppercase();
        assert_eq!(output.value.as_ref().unwrap().as_ptr(), at);
        assert_eq!(
            (output.value.as_deref(), output.key.as_deref(), output.timestamp),
            (Some(&b"ABC"[..]), Some(&b"k"[..]), Some(5))
        );
    }

    #[test]
    fn the_last_header_of_a_name_counts_and_null_is_not_empty() {
        let mut headers = Headers::new();
        headers.push("a", &b"1"[..]);
        headers.push("a", &b""[..]);
        headers.push_null("n");
        assert_eq!(headers.last("a"), Some(Some(&b""[..])));
        assert_eq!(headers.last("n"), Some(None));
        assert_eq!(headers.last("x"), None);
    }
}
