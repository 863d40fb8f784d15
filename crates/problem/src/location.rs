//! Places in the user's files.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// A place in a text file; prints as `file:line:column`.
///
/// Lines and columns count from 1; columns count characters, not bytes. Line 0 means "the file as a
/// whole" and prints as the file name alone.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
pub struct Location {
    /// The file as the user named it (never canonicalised), or `<stdin>`, `--set` and the like.
    pub file: Arc<str>,
    pub line: u32,
    pub column: u32,
}

impl Location {
    /// Names a character of a file.
    pub fn new(file: impl Into<Arc<str>>, line: u32, column: u32) -> Self {
        Self { file: file.into(), line, column }
    }

    /// Names a file as a whole.
    pub fn file(file: impl Into<Arc<str>>) -> Self {
        Self::new(file, 0, 0)
    }

    /// Names the character at byte `offset` of `text`, which is the content of `file`.
    pub fn in_text(file: impl Into<Arc<str>>, text: &str, offset: usize) -> Self {
        let mut end = offset.min(text.len());
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let before = &text[..end];
        let line = before.matches('\n').count() as u32 + 1;
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let column = before[line_start..].chars().count() as u32 + 1;
        Self::new(file, line, column)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.line, self.column) {
            (0, _) => f.write_str(&self.file),
            (line, 0) => write!(f, "{}:{line}", self.file),
            (line, column) => write!(f, "{}:{line}:{column}", self.file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_become_lines_and_character_columns() {
        let text = "ab\ncdé f\n";
        for (offset, shown) in [(0, "f:1:1"), (2, "f:1:3"), (3, "f:2:1"), (8, "f:2:5"), (99, "f:3:1")] {
            assert_eq!(Location::in_text("f", text, offset).to_string(), shown, "offset {offset}");
        }
        assert_eq!(Location::in_text("f", text, 6).to_string(), "f:2:3", "inside a character");
        assert_eq!(Location::file("f").to_string(), "f");
    }
}
