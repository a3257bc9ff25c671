//! YAML text to a tree that keeps what was written: the text of each scalar, and where it stands.
//!
//! No type is guessed here. `topic: no` and `topic: 007` are texts until a key says that it wants a number (FIELD-FAULTS B058).

use super::fault::{Faults, Position};
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, StrInput, Tag};
use std::borrow::Cow;
use std::collections::HashMap;

/// Deeper than this is refused, so that a file can't exhaust the stack.
const MAX_DEPTH: usize = 32;

/// More nodes than this are refused: aliases to aliases double with each line.
const MAX_NODES: usize = 50_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) at: Position,
    pub(super) data: Data,
}

/// What a value is made of.
#[derive(Clone, Debug)]
pub(super) enum Data {
    /// `plain`: written without quotes, so that YAML would give it a type.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<(Name, Node)>),
}

/// A key with its place.
#[derive(Clone, Debug)]
pub(super) struct Name {
    pub(super) at: Position,
    pub(super) text: String,
}

/// Parses a file of one document. None when it is empty or too broken to go on; `faults` then says why.
pub(super) fn parse(text: &str, faults: &mut Faults) -> Option<Node> {
    let mut builder = Builder { parser: Parser::new_from_str(text), anchors: HashMap::new(), nodes: 0, faults };
    match builder.document() {
        Ok(node) => node,
        Err(Broken { at, message }) => {
            let line = at.line.checked_sub(1).and_then(|before| text.lines().nth(before)).unwrap_or_default();
            let hint = if line.contains("${") { "; inside of `{ }` and `[ ]`, a `${...}` has to be quoted" } else { "" };
            faults.add(at, "", format!("{message}{hint}"));
            None
        }
    }
}

/// The file can't be taken apart any further.
struct Broken {
    at: Position,
    message: String,
}

struct Builder<'a> {
    parser: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
    faults: &'a mut Faults,
}

type Found<'a> = (Event<'a>, Position);

impl<'a> Builder<'a> {
    fn document(&mut self) -> Result<Option<Node>, Broken> {
        let mut root = None;
        loop {
            let (event, at) = self.next()?;
            match event {
                Event::StreamStart | Event::DocumentEnd | Event::Nothing => {}
                Event::DocumentStart(_) if root.is_some() => {
                    return Err(Broken { at, message: "a second document: a file holds one pipeline".to_owned() });
                }
                Event::DocumentStart(_) => {
                    let found = self.next()?;
                    root = Some(self.node(found, 0)?);
                }
                Event::StreamEnd => break,
                Event::Alias(_)
                | Event::Scalar(..)
                | Event::SequenceStart(..)
                | Event::SequenceEnd
                | Event::MappingStart(..)
                | Event::MappingEnd => {
                    return Err(Broken { at, message: "text outside of a document".to_owned() });
                }
            }
        }
        Ok(root)
    }

    fn next(&mut self) -> Result<Found<'a>, Broken> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => Ok((event, position(&span.start))),
            Some(Err(error)) => Err(Broken { at: position(error.marker()), message: format!("not YAML: {}", error.info()) }),
            None => Ok((Event::StreamEnd, Position::default())),
        }
    }

    fn node(&mut self, (event, at): Found<'a>, depth: usize) -> Result<Node, Broken> {
        if depth > MAX_DEPTH {
            return Err(Broken { at, message: format!("nested more than {MAX_DEPTH} deep") });
        }
        self.count(1, at)?;
        let (anchor, data) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                let tagged_text = self.tag(tag, at);
                let plain = style == ScalarStyle::Plain && !tagged_text;
                (anchor, Data::Scalar { text: text.into_owned(), plain })
            }
            Event::SequenceStart(anchor, tag) => {
                self.tag(tag, at);
                (anchor, Data::List(self.list(depth)?))
            }
            Event::MappingStart(anchor, tag) => {
                self.tag(tag, at);
                (anchor, Data::Map(self.map(depth)?))
            }
            Event::Alias(anchor) => return self.alias(anchor, at),
            Event::Nothing
            | Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(_)
            | Event::DocumentEnd
            | Event::SequenceEnd
            | Event::MappingEnd => return Err(Broken { at, message: "a value is missing here".to_owned() }),
        };
        let node = Node { at, data };
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        Ok(node)
    }

    fn alias(&mut self, anchor: usize, at: Position) -> Result<Node, Broken> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return Err(Broken { at, message: "an alias inside of what it stands for".to_owned() });
        };
        self.count(node.size(), at)?;
        Ok(node)
    }

    fn list(&mut self, depth: usize) -> Result<Vec<Node>, Broken> {
        let mut items = Vec::new();
        loop {
            let found = self.next()?;
            if found.0 == Event::SequenceEnd {
                return Ok(items);
            }
            items.push(self.node(found, depth + 1)?);
        }
    }

    fn map(&mut self, depth: usize) -> Result<Vec<(Name, Node)>, Broken> {
        let mut pairs: Vec<(Name, Node)> = Vec::new();
        loop {
            let found = self.next()?;
            if found.0 == Event::MappingEnd {
                return Ok(pairs);
            }
            let key = self.node(found, depth + 1)?;
            let found = self.next()?;
            let value = self.node(found, depth + 1)?;
            match key.data {
                Data::Scalar { text, plain: true } if text == "<<" => self.faults.add(
                    key.at,
                    "",
                    "merge keys (`<<`) are not supported: write the keys out, or give the whole value an anchor (`&name`) and use it as `*name`",
                ),
                Data::Scalar { text, .. } => {
                    if let Some((first, _)) = pairs.iter().find(|(name, _)| name.text == text) {
                        let message = format!("this key is there twice: first on line {}", first.at.line);
                        self.faults.add(key.at, text, message);
                    } else {
                        pairs.push((Name { at: key.at, text }, value));
                    }
                }
                Data::List(_) | Data::Map(_) => self.faults.add(key.at, "", "a key has to be a text"),
            }
        }
    }

    /// Whether the tag says that the scalar is a text. Other tags are faults: they would change what a value means.
    fn tag(&mut self, tag: Option<Cow<'_, Tag>>, at: Position) -> bool {
        let Some(tag) = tag else { return false };
        let core_type = if tag.is_yaml_core_schema() { tag.suffix.as_str() } else { "" };
        match core_type {
            "str" => true,
            "map" | "seq" => false,
            _ => {
                self.faults.add(at, "", format!("the tag `{tag}` is not supported: leave it out"));
                false
            }
        }
    }

    fn count(&mut self, nodes: usize, at: Position) -> Result<(), Broken> {
        self.nodes += nodes;
        if self.nodes > MAX_NODES {
            return Err(Broken { at, message: format!("more than {MAX_NODES} values") });
        }
        Ok(())
    }
}

impl Node {
    /// Values that it is made of, itself included.
    fn size(&self) -> usize {
        1 + match &self.data {
            Data::Scalar { .. } => 0,
            Data::List(items) => items.iter().map(Self::size).sum(),
            Data::Map(pairs) => pairs.iter().map(|(_, value)| value.size()).sum(),
        }
    }
}

fn position(marker: &Marker) -> Position {
    Position { line: marker.line(), column: marker.col() + 1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn faults_of(text: &str) -> Vec<String> {
        let mut faults = Faults::new(Path::new("f"));
        parse(text, &mut faults);
        faults.faults.iter().map(|fault| format!("{}: {fault}", fault.at.expect("a place").line)).collect()
    }

    #[test]
    fn aliases_stand_for_whole_values() {
        let mut faults = Faults::new(Path::new("f"));
        let node = parse("a: &x [1, 2]\nb: *x\n", &mut faults).expect("a tree");
        assert_eq!(faults.faults, []);
        let Data::Map(pairs) = node.data else { panic!("a map") };
        assert!(matches!(&pairs[1].1.data, Data::List(items) if items.len() == 2));
    }

    #[test]
    fn refuses_what_would_change_a_meaning() {
        let merge = faults_of("base: &b {a: 1}\nover:\n  <<: *b\n  c: 2\nmore:\n  <<: [*b, *b]\n");
        assert_eq!(merge.len(), 2, "{merge:?}");
        assert!(merge[0].starts_with("3: merge keys"), "{merge:?}");
        assert!(merge[1].starts_with("6: merge keys"), "{merge:?}");
        assert_eq!(faults_of("a: 1\nb: 2\na: 3\n"), ["3: a: this key is there twice: first on line 1"]);
        assert_eq!(faults_of("a: 1\n'a': 3\n"), ["2: a: this key is there twice: first on line 1"]);
        assert_eq!(faults_of("a: !!int 3\n").len(), 1);
        assert_eq!(faults_of("a: !env X\n").len(), 1);
        assert_eq!(faults_of("a: !!str 3\n"), [""; 0]);
        assert_eq!(faults_of("[a]: 3\n"), ["1: a key has to be a text"]);
        assert_eq!(faults_of("a: 1\n---\nb: 2\n"), ["2: a second document: a file holds one pipeline"]);
    }

    #[test]
    fn broken_or_hostile_text_is_a_fault_and_nothing_worse() {
        assert_eq!(faults_of("a: &x [*x]\n").len(), 1);
        assert_eq!(faults_of("a: [1, 2\nb: 3\n").len(), 1);
        assert_eq!(faults_of("a: b: c\n").len(), 1);
        assert_eq!(faults_of("a: \"x\n").len(), 1);
        assert_eq!(faults_of("a:\n\tb: 1\n").len(), 1);
        assert_eq!(faults_of("a: *unknown\n").len(), 1);
        assert_eq!(faults_of(&"[".repeat(100_000)).len(), 1);
        let deep: String = (0..200).map(|depth| format!("{}a:\n", " ".repeat(depth))).collect();
        assert_eq!(faults_of(&deep).len(), 1);
        let mut laughs = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let last = level - 1;
            laughs.push_str(&format!("a{level}: &a{level} [{}]\n", vec![format!("*a{last}"); 10].join(", ")));
        }
        let found = faults_of(&laughs);
        assert!(found.len() == 1 && found[0].contains("more than 50000 values"), "{found:?}");
    }
}
