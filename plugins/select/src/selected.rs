//! What was found in a record.

use crate::number::Number;
use std::borrow::Cow;
use std::io::Write;

/// What a [`crate::Source`] found in a record.
#[derive(Clone, Debug, PartialEq)]
pub enum Selected<'a> {
    /// Nothing is there, or null.
    Missing,
    /// `true` or `false` of a JSON value.
    Truth(bool),
    /// A number of a JSON value.
    Number(Number),
    /// A text of a JSON value.
    Text(Cow<'a, str>),
    /// A key or a header: bytes without a type.
    Bytes(&'a [u8]),
    /// An array or an object of a JSON value: it is there, and compares with nothing.
    Compound,
}

impl Selected<'_> {
    /// Whether there is anything but null.
    pub fn exists(&self) -> bool {
        *self != Self::Missing
    }

    /// The text that it is, as bytes.
    pub fn text(&self) -> Option<&[u8]> {
        match self {
            Self::Text(text) => Some(text.as_bytes()),
            Self::Bytes(bytes) => Some(bytes),
            Self::Missing | Self::Truth(_) | Self::Number(_) | Self::Compound => None,
        }
    }

    /// The number that it is. A key or a header is one when its bytes write one: they have no type to say otherwise.
    pub fn number(&self) -> Option<Number> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Bytes(bytes) => Number::parse(bytes),
            Self::Missing | Self::Truth(_) | Self::Text(_) | Self::Compound => None,
        }
    }

    /// The truth value that it is; a key or a header as with [`Self::number`].
    pub fn truth(&self) -> Option<bool> {
        match self {
            Self::Truth(truth) => Some(*truth),
            Self::Bytes(b"true") => Some(true),
            Self::Bytes(b"false") => Some(false),
            Self::Missing | Self::Bytes(_) | Self::Number(_) | Self::Text(_) | Self::Compound => None,
        }
    }

    /// A text to look it up by, whatever its type: itself, the digits of a whole number (1 for 1.0), `true` or `false`.
    pub fn label(&self) -> Option<Label<'_>> {
        match self {
            Self::Text(text) => Some(Label::Lent(text.as_bytes())),
            Self::Bytes(bytes) => Some(Label::Lent(bytes)),
            Self::Truth(truth) => Some(Label::Lent(if *truth { b"true" } else { b"false" })),
            Self::Number(Number::Whole(whole)) => Some(Label::digits(*whole)),
            Self::Missing | Self::Number(Number::Real(_)) | Self::Compound => None,
        }
    }
}

/// A text that something is looked up by, made without memory from the heap.
#[derive(Debug)]
pub enum Label<'a> {
    /// It was there already.
    Lent(&'a [u8]),
    /// The digits of a number, and how many of the bytes they are.
    Digits([u8; Label::LONGEST], usize),
}

impl Label<'_> {
    /// A sign and the digits of 2^64.
    const LONGEST: usize = 21;

    fn digits(whole: i128) -> Self {
        let mut digits = [0; Self::LONGEST];
        let mut rest = &mut digits[..];
        write!(rest, "{whole}").expect("a whole number is not longer");
        let left = rest.len();
        Self::Digits(digits, Self::LONGEST - left)
    }

    /// The text.
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Lent(text) => text,
            Self::Digits(digits, length) => &digits[..*length],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_is_the_text_of_what_was_found() {
        let number = |text: &str| Selected::Number(Number::parse(text.as_bytes()).unwrap());
        let cases = [
            (Selected::Text("gr\u{fc}n".into()), Some("gr\u{fc}n")),
            (Selected::Text("".into()), Some("")),
            (Selected::Bytes(b"01"), Some("01")),
            (Selected::Truth(true), Some("true")),
            (Selected::Truth(false), Some("false")),
            (number("0"), Some("0")),
            (number("-0.0"), Some("0")),
            (number("1.0"), Some("1")),
            (number("1e2"), Some("100")),
            (number("-9223372036854775808"), Some("-9223372036854775808")),
            (number("18446744073709551615"), Some("18446744073709551615")),
            (number("-18446744073709549568.0"), Some("-18446744073709549568")),
            (number("18446744073709551616"), None),
            (number("0.5"), None),
            (Selected::Missing, None),
            (Selected::Compound, None),
        ];
        for (selected, expected) in cases {
            let label = selected.label();
            assert_eq!(label.as_ref().map(Label::as_bytes), expected.map(str::as_bytes), "{selected:?}");
        }
    }

    #[test]
    fn bytes_are_what_they_write_and_json_is_what_its_type_says() {
        assert_eq!(Selected::Bytes(b"1.0").number(), Some(Number::Whole(1)));
        assert_eq!(Selected::Bytes(b"one").number(), None);
        assert_eq!(Selected::Bytes(b"true").truth(), Some(true));
        assert_eq!(Selected::Bytes(b"false").truth(), Some(false));
        assert_eq!(Selected::Bytes(b"True").truth(), None);
        assert_eq!(Selected::Text("1".into()).number(), None);
        assert_eq!(Selected::Text("true".into()).truth(), None);
        assert_eq!(Selected::Number(1_u64.into()).text(), None);
        assert_eq!(Selected::Bytes(&[0xff]).text(), Some(&[0xff][..]));
    }
}
