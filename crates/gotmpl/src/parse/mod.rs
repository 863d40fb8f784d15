//! Template text to trees.

pub(crate) mod ast;
mod grammar;
mod lex;
mod number;

pub(crate) use grammar::parse_file;

/// The reason a template could not be parsed: `template: NAME:LINE: …`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ParseError {
    pub(crate) text: String,
    /// The line the parser was at, from 1; 0 if it had read nothing.
    pub(crate) line: usize,
}

impl ParseError {
    /// The line, from 1; 0 if the parser had read nothing.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Helm's wording, `parse error at (NAME:LINE): …`, which keeps only what follows the last `: `.
    pub fn helm_text(&self, file: &str) -> String {
        let mut parts = self.text.split(": ");
        let (location, last) = (parts.nth(1), self.text.rsplit(": ").next());
        match (location, last) {
            (Some(location), Some(last)) => format!("parse error at ({location}): {last}"),
            _ => format!("parse error in ({file}): {}", self.text),
        }
    }
}
