//! Unified diffs in colour.

use similar::{ChangeTag, TextDiff};

use crate::term::style::{ADDED, DIM, REMOVED, paint};

/// Shows what changes from `old` to `new` with three lines around it; empty when nothing does.
pub fn unified(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut text = String::new();
    for group in diff.grouped_ops(3) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else { continue };
        let span = |start: usize, end: usize| format!("{},{}", start + 1, end - start);
        let old_span = span(first.old_range().start, last.old_range().end);
        let new_span = span(first.new_range().start, last.new_range().end);
        text.push_str(&paint(DIM, format!("@@ -{old_span} +{new_span} @@")));
        text.push('\n');
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let line = change.value().trim_end_matches('\n');
            text.push_str(&match change.tag() {
                ChangeTag::Equal => format!(" {line}"),
                ChangeTag::Delete => paint(REMOVED, format!("-{line}")),
                ChangeTag::Insert => paint(ADDED, format!("+{line}")),
            });
            text.push('\n');
        }
    }
    text
}
