//! `${NAME}` in a value. Expansion works on the text of one scalar that YAML has already taken apart, so what a variable holds can't
//! become structure (FIELD-FAULTS B056), and only the braced form counts, so a `$` in a password stays (B057).

/// What is wrong with a text that was to be expanded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Problem {
    /// The variable is not set.
    Unset(String),
    /// What stands between the braces is no name.
    Name(String),
    /// No closing brace.
    Open,
}

impl Problem {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Unset(name) => format!("environment variable `{name}` is not set"),
            Self::Name(name) if name.contains(":-") || name.contains('-') => {
                format!("`${{{name}}}`: a default in place of a variable is not supported; write `$${{` for a plain `${{`")
            }
            Self::Name(name) => format!("`${{{name}}}` does not name an environment variable; write `$${{` for a plain `${{`"),
            Self::Open => "`${` without `}`; write `$${` for a plain `${`".to_owned(),
        }
    }
}

/// A text with its variables put in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expanded {
    pub(super) text: String,
    /// Whether a variable was put in: then the text is not shown to anybody.
    pub(super) from_env: bool,
}

/// Puts variables in. `$${` stands for a plain `${`; any other `$` is left alone.
///
/// # Errors
/// Every problem of the text, not only the first.
pub(super) fn expand(text: &str, lookup: &dyn Fn(&str) -> Option<String>) -> Result<Expanded, Vec<Problem>> {
    let mut expanded = Expanded { text: String::with_capacity(text.len()), from_env: false };
    let mut problems = Vec::new();
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.text.push_str(&rest[..dollar]);
        rest = &rest[dollar..];
        if let Some(after) = rest.strip_prefix("$${") {
            expanded.text.push_str("${");
            rest = after;
        } else if let Some(after) = rest.strip_prefix("${") {
            let Some(end) = after.find('}') else {
                problems.push(Problem::Open);
                break;
            };
            let name = &after[..end];
            if !is_name(name) {
                problems.push(Problem::Name(name.to_owned()));
            } else if let Some(value) = lookup(name) {
                expanded.text.push_str(&value);
                expanded.from_env = true;
            } else {
                problems.push(Problem::Unset(name.to_owned()));
            }
            rest = &after[end + 1..];
        } else {
            expanded.text.push('$');
            rest = &rest[1..];
        }
    }
    expanded.text.push_str(rest);
    if problems.is_empty() { Ok(expanded) } else { Err(problems) }
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str, from_env: bool) {
        let lookup = |name: &str| match name {
            "A" => Some("a: b".to_owned()),
            "NESTED" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            _ => None,
        };
        assert_eq!(expand(text, &lookup), Ok(Expanded { text: expected.to_owned(), from_env }), "{text}");
    }

    #[test]
    fn puts_variables_in_and_leaves_every_other_dollar_alone() {
        check("plain", "plain", false);
        check("x${A}y", "xa: by", true);
        check("${A}${A}", "a: ba: b", true);
        check("${NESTED}", "${A}", true);
        check("[${EMPTY}]", "[]", true);
        check("pa$$w", "pa$$w", false);
        check("abc$geh=", "abc$geh=", false);
        check("$HOME", "$HOME", false);
        check("$", "$", false);
        check("100 %$", "100 %$", false);
        check("$${A}", "${A}", false);
        check("$$${A}", "$${A}", false);
        check("\u{e4}$\u{e4}", "\u{e4}$\u{e4}", false);
    }

    #[test]
    fn names_every_problem() {
        let none = |_: &str| None;
        assert_eq!(expand("${X} ${Y}", &none), Err(vec![Problem::Unset("X".into()), Problem::Unset("Y".into())]));
        assert_eq!(expand("${X:-d}", &none), Err(vec![Problem::Name("X:-d".into())]));
        assert_eq!(expand("${}", &none), Err(vec![Problem::Name(String::new())]));
        assert_eq!(expand("${1A}", &none), Err(vec![Problem::Name("1A".into())]));
        assert_eq!(expand("${A", &none), Err(vec![Problem::Open]));
    }
}
