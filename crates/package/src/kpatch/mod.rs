//! The `.kpatch` language: headers that choose objects, statements that change them.

mod ast;
mod cursor;
mod flow;
mod line;
mod list;
mod path;

use slipway_problem::{Location, Problems};

pub use ast::{
    DeletedChildren, ElementAnchor, GlobPiece, GroupBody, GroupHeader, MatchTerm, NameGlob, ObjectScope,
    PatchFile, PatchGroup, PatchOp, PathStep, Statement, StepKind,
};

use crate::report::{coded_error, coded_note};

const MOST_BYTES: usize = 1 << 20;
pub(crate) const MOST_STATEMENTS: usize = 10_000;

/// Reads a patch file. Whatever the text, this ends without a panic; mistakes go to `problems` and
/// what could be read is returned.
pub fn parse(file: &str, text: &str, problems: &mut Problems) -> PatchFile {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > MOST_BYTES {
        problems.push(coded_error("KP001", "the patch is longer than 1 MiB").at(Location::file(file)));
        return PatchFile::default();
    }
    let mut found = Problems::new();
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let patch = match first {
        Some(line) if line == "---" || line == "-" || line.starts_with("- ") || line.starts_with("--- ") => {
            list::parse_list(file, text, &mut found)
        }
        _ => line::parse_lines(file, text, &mut found),
    };
    if patch.statements() == 0 && found.is_empty() {
        found.push(coded_note("KP090", "the patch has no statements").at(Location::file(file)));
    }
    found.add_excerpts(file, text);
    problems.extend(found);
    patch
}

/// A text that is no target or path of a statement.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct KeypathError {
    message: String,
}

impl From<cursor::LineError> for KeypathError {
    fn from(wrong: cursor::LineError) -> Self {
        Self { message: wrong.message }
    }
}

/// Reads the target of an object as patches write it (`apps/deployment.web`), with the path after it.
pub fn parse_target(text: &str) -> Result<(ObjectScope, Vec<PathStep>), KeypathError> {
    path::parse_target(text).map_err(KeypathError::from)
}

/// Reads the path of a field as statements write it.
pub fn parse_keypath(text: &str) -> Result<(Vec<PathStep>, PatchOp), KeypathError> {
    path::parse_whole_keypath(text).map_err(KeypathError::from)
}
