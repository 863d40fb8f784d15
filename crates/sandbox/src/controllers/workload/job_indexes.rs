//! Completion indexes as a job's status prints them.

use std::collections::BTreeSet;

/// Indexes as a status shows them: `0-3,5`.
pub(super) fn print_indexes(indexes: &BTreeSet<i64>) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for index in indexes {
        match ranges.last_mut() {
            Some((_, end)) if *end + 1 == *index => *end = *index,
            _ => ranges.push((*index, *index)),
        }
    }
    let print = |(a, b): &(i64, i64)| match b - a {
        0 => a.to_string(),
        1 => format!("{a},{b}"),
        _ => format!("{a}-{b}"),
    };
    ranges.iter().map(print).collect::<Vec<_>>().join(",")
}

pub(super) fn parse_indexes(text: &str, end: i64) -> BTreeSet<i64> {
    let mut out = BTreeSet::new();
    for part in text.split(',').filter(|p| !p.is_empty()) {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(from), Ok(to)) = (from.parse::<i64>(), to.parse::<i64>()) {
            out.extend(from.max(0)..=to.min(end));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes() {
        for (text, indexes) in
            [("", vec![]), ("0", vec![0]), ("0,1", vec![0, 1]), ("0-3,5", vec![0, 1, 2, 3, 5])]
        {
            let set: BTreeSet<i64> = indexes.into_iter().collect();
            assert_eq!(print_indexes(&set), text);
            assert_eq!(parse_indexes(text, 9), set);
        }
        assert_eq!(parse_indexes("0-9999999999", 2).len(), 3);
    }
}
