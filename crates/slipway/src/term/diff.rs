//! Unified diffs in colour.

use std::ops::Range;

use slipway_manifest::diff::{LineKind, diff_lines};

use crate::term::style::{ADDED, DIM, REMOVED, paint};

/// Shows what changes from `old` to `new` with three lines around it; empty when nothing does.
pub fn unified(old: &str, new: &str) -> String {
    let span = |lines: &Range<usize>| format!("{},{}", lines.start + 1, lines.len());
    let mut text = String::new();
    for hunk in diff_lines(old, new, 3) {
        text.push_str(&paint(DIM, format!("@@ -{} +{} @@", span(&hunk.old), span(&hunk.new))));
        text.push('\n');
        for line in &hunk.lines {
            text.push_str(&match line.kind {
                LineKind::Context => format!(" {}", line.text),
                LineKind::Removed => paint(REMOVED, format!("-{}", line.text)),
                LineKind::Added => paint(ADDED, format!("+{}", line.text)),
            });
            text.push('\n');
        }
    }
    text
}
