//! What somebody may have meant: the known name that is nearest to a misspelt one.

/// The known name that a misspelt one is nearest to, when one is near.
pub(crate) fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_lowercase().replace('_', "-");
    known
        .into_iter()
        .map(|candidate| (distance(&name, candidate), candidate))
        .min()
        .filter(|(distance, candidate)| *distance <= (candidate.len() / 3).clamp(1, 4))
        .map(|(_, candidate)| candidate)
}

/// Letters to put in, take out, change, or swap with a neighbour to make one text of the other.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) = (from.chars().collect(), to.chars().collect());
    let mut rows = vec![(0..=to.len()).collect::<Vec<_>>()];
    for i in 1..=from.len() {
        let mut row = vec![i; to.len() + 1];
        for j in 1..=to.len() {
            let change = usize::from(from[i - 1] != to[j - 1]);
            row[j] = (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + change);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                row[j] = row[j].min(rows[i - 2][j - 2] + 1);
            }
        }
        rows.push(row);
    }
    rows[from.len()][to.len()]
}

/// The end of a message that names the nearest one; empty when none is near.
pub(super) fn hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    nearest(name, known).map_or_else(String::new, |nearest| format!("; did you mean `{nearest}`?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_keys_find_the_right_one() {
        let known =
            ["name", "kafka", "input", "transforms", "output", "commit-interval", "stop-timeout", "buffer", "client.rack"];
        let cases = [
            ("transform", Some("transforms")),
            ("Transforms", Some("transforms")),
            ("commit_interval", Some("commit-interval")),
            ("commitInterval", Some("commit-interval")),
            ("nmae", Some("name")),
            ("stoptimeout", Some("stop-timeout")),
            ("bufer", Some("buffer")),
            ("clint.rack", Some("client.rack")),
            ("client_rack", Some("client.rack")),
            ("colour", None),
            ("x", None),
        ];
        for (written, expected) in cases {
            assert_eq!(nearest(written, known), expected, "{written}");
        }
        assert_eq!(hint("bufer", known), "; did you mean `buffer`?");
        assert_eq!(hint("colour", known), "");
    }
}
