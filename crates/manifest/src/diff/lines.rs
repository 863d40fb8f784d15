//! Differences line by line, as input for whatever draws them.

use std::collections::HashMap;
use std::ops::Range;

use similar::algorithms::{Capture, Compact, Replace, myers};
use similar::{ChangeTag, DiffOp, DiffableStr as _, group_diff_ops};

/// The kind of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineKind {
    Context,
    Added,
    Removed,
}

/// One line, without its line break.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffLine {
    pub kind: LineKind,
    pub text: String,
}

/// Changed lines that stand together, with context. Between two hunks lines were left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hunk {
    /// The lines of the old text this is about, counted from 0.
    pub old: Range<usize>,
    /// The same of the new text.
    pub new: Range<usize>,
    pub lines: Vec<DiffLine>,
}

/// Compares two texts line by line.
pub fn diff_lines(old: &str, new: &str, context: usize) -> Vec<Hunk> {
    let (old, new) = (old.tokenize_lines(), new.tokenize_lines());
    let groups = group_diff_ops(compare(&old, &new), context);
    groups.iter().filter_map(|group| read_hunk(group, &old, &new)).collect()
}

/// Returns nothing for lines that are all equal.
fn read_hunk(group: &[DiffOp], old: &[&str], new: &[&str]) -> Option<Hunk> {
    let (first, last) = (group.first()?, group.last()?);
    let changes = group.iter().flat_map(|op| op.iter_changes(old, new));
    let lines: Vec<DiffLine> = changes
        .map(|change| DiffLine {
            kind: match change.tag() {
                ChangeTag::Equal => LineKind::Context,
                ChangeTag::Insert => LineKind::Added,
                ChangeTag::Delete => LineKind::Removed,
            },
            text: change.value().trim_end_matches(['\n', '\r']).to_owned(),
        })
        .collect();
    lines.iter().any(|line| line.kind != LineKind::Context).then(|| Hunk {
        old: first.old_range().start..last.old_range().end,
        new: first.new_range().start..last.new_range().end,
        lines,
    })
}

/// Finds what `similar::TextDiff` does. That type brings each of its algorithms, for texts and for numbers, which is more than
/// a megabyte of machine code; this is the usual one for numbers alone.
fn compare(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut known = HashMap::new();
    let (old, new) = (number_lines(old, &mut known), number_lines(new, &mut known));
    let mut found = Compact::new(Replace::new(Capture::new()), &old, &new);
    match myers::diff(&mut found, &old, 0..old.len(), &new, 0..new.len()) {
        Ok(()) => found.into_inner().into_inner().into_ops(),
        Err(never) => match never {},
    }
}

/// Equal lines have equal numbers.
fn number_lines<'text>(lines: &[&'text str], known: &mut HashMap<&'text str, usize>) -> Vec<usize> {
    let mut number = |line| {
        let next = known.len();
        *known.entry(line).or_insert(next)
    };
    lines.iter().map(|line| number(*line)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use similar::TextDiff;

    use super::*;

    fn lines(count: usize) -> impl Strategy<Value = String> {
        proptest::collection::vec("[a-d]{0,2}(\n|\r\n)", 0..count).prop_map(|lines| lines.concat())
    }

    proptest! {
        /// Few kinds of lines, so that there is something to be found; more than a hundred, where the library numbers lines.
        #[test]
        fn the_same_is_found_as_by_the_library(old in lines(160), new in lines(160), tail in "[a-d]{0,2}") {
            let new = new + &tail;
            let found = compare(&old.tokenize_lines(), &new.tokenize_lines());
            let expected = TextDiff::from_lines(&old, &new);
            prop_assert_eq!(found, expected.ops());
        }
    }

    #[test]
    fn hunks_name_their_lines() {
        let old = (1..=20).map(|number| format!("{number}\n")).collect::<String>();
        let new = old.replace("3\n4\n", "3\nfour\n").replace("19\n", "");
        let hunks = diff_lines(&old, &new, 1);
        let spans: Vec<_> = hunks.iter().map(|hunk| (hunk.old.clone(), hunk.new.clone())).collect();
        assert_eq!(spans, [(2..5, 2..5), (17..20, 17..19)]);
        assert_eq!(hunks[0].lines[2], DiffLine { kind: LineKind::Added, text: "four".to_owned() });
        assert!(diff_lines(&old, &old, 3).is_empty());
    }
}
