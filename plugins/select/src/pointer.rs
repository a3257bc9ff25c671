//! Paths into JSON as RFC 6901 has them: `/order/items/0/sku`.
//!
//! A path is walked while the text is parsed. Nothing is built of what lies beside it, and what it leads to is lent from the text; only a
//! text with escapes is copied.

use crate::selected::Selected;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

/// Steps that a path may have: the parser follows 128.
const STEPS: usize = 100;

/// A path.
#[derive(Debug)]
pub(crate) struct Pointer {
    written: String,
    steps: Vec<Step>,
}

/// A name in an object, which may be an index of an array as well.
#[derive(Debug)]
struct Step {
    name: String,
    index: Option<usize>,
}

impl Pointer {
    /// Reads a path. The empty one leads to the whole value.
    pub(crate) fn parse(written: &str) -> Result<Self, String> {
        let Some(names) = written.strip_prefix('/') else {
            return if written.is_empty() {
                Ok(Self { written: String::new(), steps: Vec::new() })
            } else {
                Err(corrected(written))
            };
        };
        let steps: Vec<Step> = names.split('/').map(Step::parse).collect::<Result<_, _>>()?;
        if steps.len() > STEPS {
            return Err(format!("a path has at most {STEPS} steps"));
        }
        Ok(Self { written: written.to_owned(), steps })
    }

    /// What the path leads to. A name that an object has twice counts where it comes last, as with most parsers.
    pub(crate) fn find<'j>(&self, json: &'j str) -> Result<Selected<'j>, serde_json::Error> {
        let mut deserializer = serde_json::Deserializer::from_str(json);
        let found = Walk(&self.steps).deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(found)
    }
}

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.written)
    }
}

impl Step {
    fn parse(written: &str) -> Result<Self, String> {
        if written.split('~').skip(1).any(|rest| !rest.starts_with(['0', '1'])) {
            return Err("inside of a name `~` is written `~0`, and `/` is written `~1`".to_owned());
        }
        let name = written.replace("~1", "/").replace("~0", "~");
        let is_index = name == "0" || (name.bytes().all(|byte| byte.is_ascii_digit()) && !name.starts_with('0'));
        let index = if is_index { name.parse().ok() } else { None };
        Ok(Self { name, index })
    }
}

/// What to write in the place of a path of another fashion, such as `$.order.status`.
fn corrected(written: &str) -> String {
    let names = written.trim_start_matches(['$', '.']).replace(['.', '['], "/").replace(']', "");
    format!("a path begins with `/`, and `/` stands between its names: `/{names}`?")
}

/// Parses a value and gives what the steps lead to in it.
struct Walk<'p>(&'p [Step]);

impl Walk<'_> {
    /// What a value that has nothing below it comes to.
    fn leaf<'de>(&self, found: Selected<'de>) -> Selected<'de> {
        if self.0.is_empty() { found } else { Selected::Missing }
    }
}

impl<'de> DeserializeSeed<'de> for Walk<'_> {
    type Value = Selected<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Selected<'de>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Walk<'_> {
    type Value = Selected<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Selected<'de>, E> {
        Ok(Selected::Missing)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Selected<'de>, E> {
        Ok(self.leaf(Selected::Truth(truth)))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Selected<'de>, E> {
        Ok(self.leaf(Selected::Number(number.into())))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Selected<'de>, E> {
        Ok(self.leaf(Selected::Number(number.into())))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Selected<'de>, E> {
        Ok(self.leaf(Selected::Number(number.into())))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Selected<'de>, E> {
        Ok(self.leaf(Selected::Text(Cow::Borrowed(text))))
    }

    fn visit_str<E>(self, text: &str) -> Result<Selected<'de>, E> {
        Ok(if self.0.is_empty() { Selected::Text(Cow::Owned(text.to_owned())) } else { Selected::Missing })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Selected<'de>, A::Error> {
        let Some((step, rest)) = self.0.split_first() else {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            return Ok(Selected::Compound);
        };
        let mut found = Selected::Missing;
        while let Some(is_it) = map.next_key_seed(Is(&step.name))? {
            if is_it {
                found = map.next_value_seed(Walk(rest))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Selected<'de>, A::Error> {
        let mut found = if self.0.is_empty() { Selected::Compound } else { Selected::Missing };
        if let Some((Step { index: Some(index), .. }, rest)) = self.0.split_first() {
            for _ in 0..*index {
                if items.next_element::<IgnoredAny>()?.is_none() {
                    return Ok(found);
                }
            }
            match items.next_element_seed(Walk(rest))? {
                Some(item) => found = item,
                None => return Ok(found),
            }
        }
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(found)
    }
}

/// Whether the name of a member is this one.
struct Is<'p>(&'p str);

impl<'de> DeserializeSeed<'de> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E>(self, name: &str) -> Result<bool, E> {
        Ok(name == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    /// What another parser finds: the whole document, then its own walk.
    fn by_document<'d>(document: &'d Value, path: &str) -> Selected<'d> {
        match document.pointer(path) {
            None | Some(Value::Null) => Selected::Missing,
            Some(Value::Bool(truth)) => Selected::Truth(*truth),
            Some(Value::Number(number)) => Selected::Number(number.clone().into()),
            Some(Value::String(text)) => Selected::Text(Cow::Borrowed(text)),
            Some(Value::Array(_) | Value::Object(_)) => Selected::Compound,
        }
    }

    #[test]
    fn every_path_leads_where_it_does_in_the_whole_document() {
        let documents = [
            r#"{"a": {"b": {"c": 1}}, "": {"": 2}, "a/b": 3, "m~n": 4, "~1": 5, "0": 6, " ": 7}"#,
            r#"[10, "11", null, true, [20, 21, {"a": 22}], {"0": 30, "a": {"b": [40, 41]}}]"#,
            r#"{"a": [1, {"b": {"c": ["x", "gr\u00fcn \ud83d\ude00", ""]}}], "n": null, "o": {}, "e": [], "\u0061bc": "\n"}"#,
            r#"{"gr\u00fcn": 1, "\"": 2, "\\": 3, "a": {"a": {"a": {"a": false}}}}"#,
            r#"{"a": 1, "b": {"c": 1}, "a": 2, "b": {"c": 2}}"#,
            r#"{"a": 1.5, "b": -0.0, "c": 1e300, "01": 2, "00": 3, "-": 4}"#,
            "{\"gr\u{fc}n\": \"\u{1f600}\"}",
            "0",
            "\"text\"",
            "null",
            "  [ ]  ",
            " {\r\n\t} ",
        ];
        let steps = [
            "",
            "a",
            "b",
            "c",
            "n",
            "0",
            "1",
            "4",
            "5",
            "00",
            "01",
            "-",
            "-1",
            "a~1b",
            "m~0n",
            "~01",
            "gr\u{fc}n",
            "\"",
            "\\",
            " ",
            "abc",
        ];
        let singles = steps.iter().map(|step| format!("/{step}"));
        let mut paths: Vec<String> = [String::new()].into_iter().chain(singles).collect();
        let longer = |paths: &[String]| -> Vec<String> {
            paths.iter().flat_map(|path| steps.iter().map(move |step| format!("{path}/{step}"))).collect()
        };
        let second = longer(&paths);
        let third = longer(&second);
        paths.extend(second.into_iter().chain(third));
        paths.extend(
            ["/5/a/b/1", "/a/1/b/c/1", "/a/1/b/c/2", "/a/a/a/a", "/a/1/b/c/3", "/18446744073709551616"].map(String::from),
        );
        for json in documents {
            let document: Value = serde_json::from_str(json).unwrap();
            for path in &paths {
                let pointer = Pointer::parse(path).unwrap();
                assert_eq!(pointer.find(json).unwrap(), by_document(&document, path), "{path} in {json}");
                assert_eq!(pointer.to_string(), *path);
            }
        }
    }

    #[test]
    fn what_is_no_json_has_no_part_wherever_the_fault_lies() {
        let faulty = [
            "",
            " ",
            "{",
            "}",
            "[1",
            "[1,]",
            "{\"a\":}",
            "{\"a\" 1}",
            "{a: 1}",
            "{'a': 1}",
            "{\"a\": 1,}",
            "{\"a\": 1} x",
            "{\"a\": 1}{}",
            "{\"b\": 01, \"a\": 1}",
            "{\"a\": 1, \"b\": tru}",
            "{\"a\": 1, \"b\": \"",
            "{\"a\": NaN}",
            "{\"a\": 1, \"b\": \"\n\"}",
            "{\"a\": \"\\ud800\"}",
            "{\"a\": 1, \"b\": [1, {\"c\": 2]}",
            "{1: 2}",
            "\u{feff}{\"a\": 1}",
            "undefined",
            "// x\n{}",
            "{\"a\": 1e400}",
        ];
        let path = Pointer::parse("/a").unwrap();
        for json in faulty {
            assert!(path.find(json).is_err(), "{json}");
        }
    }

    #[test]
    fn a_text_without_escapes_is_lent() {
        let json = r#"{"a": "plain", "b": "tab\t"}"#;
        let text = |path: &str| {
            let Selected::Text(text) = Pointer::parse(path).unwrap().find(json).unwrap() else { panic!("{path} is no text") };
            text
        };
        assert!(matches!(text("/a"), Cow::Borrowed("plain")));
        assert!(matches!(text("/b"), Cow::Owned(text) if text == "tab\t"));
    }

    #[test]
    fn depth_beside_the_path_costs_nothing_and_on_it_has_a_bound() {
        let deep = |inner: &str, times: usize| format!("{}{inner}{}", "[".repeat(times), "]".repeat(times));
        let beside = format!(r#"{{"b": {}, "a": 1}}"#, deep("", 100_000));
        assert_eq!(Pointer::parse("/a").unwrap().find(&beside).unwrap(), Selected::Number(1_u64.into()));
        let path = "/0".repeat(STEPS);
        assert_eq!(Pointer::parse(&path).unwrap().find(&deep("1", STEPS)).unwrap(), Selected::Number(1_u64.into()));
        assert!(Pointer::parse(&"/0".repeat(STEPS + 1)).is_err());
    }

    #[test]
    fn paths_of_other_fashions_are_refused_with_the_right_one() {
        let cases = [
            ("order", "`/order`?"),
            ("order.status", "`/order/status`?"),
            ("$.order.status", "`/order/status`?"),
            (".order.items[0].sku", "`/order/items/0/sku`?"),
            ("order/status", "`/order/status`?"),
        ];
        for (written, expected) in cases {
            let said = Pointer::parse(written).unwrap_err();
            assert!(said.starts_with("a path begins with `/`") && said.ends_with(expected), "{written}: {said}");
        }
        for written in ["/a~", "/a~2b", "/~~0", "/a/b~x/c"] {
            assert!(Pointer::parse(written).unwrap_err().contains("`~0`"), "{written}");
        }
    }
}
