//! Numbers as JSON has them, compared by their value: 1, 1.0 and 1e0 are the same.

use std::cmp::Ordering;

/// A number. Whole ones up to 64 bits are exact, others are doubles.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Without a fraction, and less than 2^64 without its sign.
    Whole(i128),
    /// Any other. JSON has neither infinities nor NaN.
    Real(f64),
}

impl Number {
    /// The number that these bytes write as JSON does; `01`, `+1` and `1 ` are none.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let begins = text.first().is_some_and(|first| *first == b'-' || first.is_ascii_digit());
        let ends = text.last().is_some_and(u8::is_ascii_digit);
        if begins && ends { serde_json::from_slice::<serde_json::Number>(text).ok().map(Into::into) } else { None }
    }
}

impl From<u64> for Number {
    fn from(number: u64) -> Self {
        Self::Whole(number.into())
    }
}

impl From<i64> for Number {
    fn from(number: i64) -> Self {
        Self::Whole(number.into())
    }
}

impl From<f64> for Number {
    fn from(number: f64) -> Self {
        const LIMIT: f64 = 18_446_744_073_709_551_616.0;
        #[expect(clippy::cast_possible_truncation, reason = "it is whole, and its size was looked at")]
        if number.fract() == 0.0 && number.abs() < LIMIT { Self::Whole(number as i128) } else { Self::Real(number) }
    }
}

impl From<serde_json::Number> for Number {
    fn from(number: serde_json::Number) -> Self {
        let whole = number.as_i64().map(Self::from).or_else(|| number.as_u64().map(Self::from));
        whole.unwrap_or_else(|| number.as_f64().unwrap_or(f64::NAN).into())
    }
}

impl Ord for Number {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Whole(a), Self::Whole(b)) => a.cmp(b),
            // No zero is among them, which total_cmp would tell from its negative.
            (Self::Real(a), Self::Real(b)) => a.total_cmp(b),
            (Self::Whole(a), Self::Real(b)) => compare(*a, *b),
            (Self::Real(a), Self::Whole(b)) => compare(*b, *a).reverse(),
        }
    }
}

/// They are never equal: the real one has a fraction, or lies beyond all whole ones.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a number beyond i128 becomes its bound, which lies beyond all whole ones too"
)]
fn compare(whole: i128, real: f64) -> Ordering {
    if whole <= real.floor() as i128 { Ordering::Less } else { Ordering::Greater }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Number {}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        Number::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a number"))
    }

    #[test]
    fn numbers_are_ordered_by_value_however_they_are_written() {
        // Each line is larger than the one before it.
        let lines: [&[&str]; 16] = [
            &["-1e300"],
            &["-18446744073709551616", "-18446744073709551616.0"],
            &["-9223372036854775808", "-9223372036854775808.0", "-9.223372036854775808e18"],
            &["-9223372036854775807"],
            &["-1.5", "-15e-1"],
            &["-1", "-1.0", "-10e-1"],
            &["-0.5"],
            &["0", "-0", "0.0", "-0.0", "0e7"],
            &["1e-300"],
            &["0.1", "0.10", "1e-1"],
            &["1", "1.0", "1e0", "1E+0"],
            &["1.0000000000000002"],
            &["9007199254740992", "9007199254740992.0"],
            &["9007199254740993"],
            &["18446744073709551615"],
            &["18446744073709551616", "1.8446744073709551616e19"],
        ];
        for (i, these) in lines.iter().enumerate() {
            for (j, those) in lines.iter().enumerate() {
                for (a, b) in these.iter().flat_map(|a| those.iter().map(move |b| (a, b))) {
                    assert_eq!(number(a).cmp(&number(b)), i.cmp(&j), "{a} and {b}");
                }
            }
        }
    }

    #[test]
    fn only_what_json_calls_a_number_is_one() {
        for text in ["", " ", "01", "+1", ".5", "5.", "1 ", " 1", "1e", "0x10", "1_000", "NaN", "Infinity", "-", "1e400", "1,5"] {
            assert_eq!(Number::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(Number::parse(&[0xff]), None);
        assert_eq!(Number::parse("\u{661}".as_bytes()), None, "an Arabic digit");
    }
}
