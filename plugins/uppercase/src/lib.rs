//! Upper-cases the ASCII letters of values; all else of a record stays as it is.

use tidegate_plugin::{Context, Failure, Message, Output, Outputs, Plugin};

struct Uppercase;

impl Plugin for Uppercase {
    fn init(_: &Context) -> Result<Self, String> {
        Ok(Self)
    }

    fn process<'a>(&mut self, message: Message<'a>, outputs: &mut Outputs<'a>) -> Result<(), Failure> {
        let mut output = Output::from(message);
        if let Some(value) = &mut output.value {
            value.to_mut().make_ascii_uppercase();
        }
        outputs.push(output);
        Ok(())
    }
}

tidegate_plugin::export!(Uppercase);

#[cfg(test)]
mod tests {
    use super::*;

    fn uppercase(message: Message<'_>) -> Outputs<'_> {
        let mut outputs = Outputs::new();
        Uppercase.process(message, &mut outputs).unwrap();
        outputs
    }

    #[test]
    fn only_ascii_letters_of_the_value_change() {
        let mut message = Message { timestamp: Some(7), ..Message::new(b"key", "gr\u{fc}n 1".as_bytes()) };
        message.headers.push("name", &b"value"[..]);
        let outputs = uppercase(message.clone());
        let mut expected = Output::new(&b"key"[..], "GR\u{fc}N 1".as_bytes());
        expected.timestamp = Some(7);
        expected.headers = message.headers;
        assert_eq!(outputs.as_slice(), [expected]);
    }

    #[test]
    fn a_null_value_stays_null_and_an_empty_one_empty() {
        assert_eq!(uppercase(Message { value: None, ..Message::new(b"k", b"") }).as_slice()[0].value, None);
        assert_eq!(uppercase(Message::new(b"k", b"")).as_slice()[0].value.as_deref(), Some(&b""[..]));
    }
}
