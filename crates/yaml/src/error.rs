//! What can be wrong with a text: as Go words it, and as a located problem.

use std::fmt;

use slipway_problem::{Location, Problem};

use crate::scan::TextMark;

/// Which stage found the mistake; Go counts lines differently in each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorStage {
    /// The text contains characters YAML does not allow.
    Reader,
    Scanner,
    Parser,
    /// Anchors, tags and merges: Go reports these without a line.
    Composer,
}

/// A text that is not YAML; prints as Go does (`yaml: line 3: did not find expected key`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    pub(crate) origin: ErrorStage,
    pub(crate) context: &'static str,
    pub(crate) context_mark: TextMark,
    pub(crate) problem: Box<str>,
    pub(crate) mark: TextMark,
}

impl SyntaxError {
    pub(crate) fn composer(mark: TextMark, problem: impl Into<Box<str>>) -> Box<Self> {
        let problem = problem.into();
        Box::new(Self { origin: ErrorStage::Composer, context: "", context_mark: mark, problem, mark })
    }

    /// What is wrong, without a place.
    pub fn message(&self) -> &str {
        &self.problem
    }

    /// The byte at which reading stopped.
    pub fn offset(&self) -> usize {
        self.mark.offset as usize
    }

    /// The line, counted from 1, at which reading stopped.
    pub fn line(&self) -> u32 {
        self.mark.line + 1
    }

    /// Says the same as a located problem; `text` is the content of `file`.
    pub fn to_problem(&self, file: &str, text: &str) -> Problem {
        let location = Location::new(file, self.mark.line + 1, self.mark.column + 1);
        let problem = Problem::error(format!("invalid YAML: {}", self.problem)).in_text(location, text);
        if self.context.is_empty() {
            return problem;
        }
        let began = self.context_mark.line + 1;
        problem.hint(format!("{}, which starts in line {began}", self.context))
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("yaml: ")?;
        // Go prints a parser's 0-based line as it is and a scanner's plus one, and leaves out line 0.
        let line = match self.origin {
            ErrorStage::Reader | ErrorStage::Composer => 0,
            ErrorStage::Scanner if self.mark.line > 0 => self.mark.line + 1,
            ErrorStage::Parser if self.mark.line > 0 => self.mark.line,
            ErrorStage::Scanner | ErrorStage::Parser => self.context_mark.line,
        };
        if line > 0 {
            write!(f, "line {line}: ")?;
        }
        f.write_str(&self.problem)
    }
}

impl std::error::Error for SyntaxError {}

/// Why a text could not be read, or a value not written, with the very words Helm prints.
#[derive(Debug, thiserror::Error)]
pub enum YamlError {
    /// The text is not YAML, or its values have no JSON form.
    #[error("error converting YAML to JSON: {0}")]
    Syntax(#[from] Box<SyntaxError>),
    /// The text is YAML, but what it says has no JSON form.
    #[error("error converting YAML to JSON: {0}")]
    Convert(String),
    /// The value has another shape than was asked for.
    #[error("error unmarshaling JSON: while decoding JSON: json: {0}")]
    Decode(String),
    /// The value cannot be written as YAML.
    #[error("{0}")]
    Emit(String),
}

impl YamlError {
    /// Says the same as a located problem; `text` is the content of `file`.
    pub fn to_problem(&self, file: &str, text: &str) -> Problem {
        match self {
            Self::Syntax(error) => error.to_problem(file, text),
            other => Problem::error(other.to_string()).at(Location::file(file)),
        }
    }
}

impl serde::de::Error for YamlError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Decode(message.to_string())
    }
}

impl serde::ser::Error for YamlError {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::Emit(message.to_string())
    }
}
