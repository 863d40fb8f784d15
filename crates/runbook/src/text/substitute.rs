//! Putting values into the text.

use std::collections::BTreeMap;
use std::ops::Range;

use slipway_event::MASK;
use slipway_problem::{Location, Problem, Problems, nearest};

use super::pipeline::{self, PipelineError};
use super::scan::{Piece, Reference, scan};
use super::segments::{Kind, Origin, Segment, Segments};
use crate::variables::Variables;

/// Occurrences of one missing name that are reported.
const MOST_OCCURRENCES: usize = 20;

/// A document's text with its variables in place.
#[derive(Clone, Debug)]
pub struct Substituted {
    pub file: String,
    pub source: String,
    pub text: String,
    /// Every reference, in the order of the source.
    pub references: Vec<Reference>,
    /// Results of pipelines over secret values: as secret as those.
    pub derived_secrets: Vec<String>,
    segments: Segments,
    /// The starts of the lines of the source.
    lines: Vec<usize>,
}

impl Substituted {
    /// Finds where a byte of the text was written.
    pub fn origin(&self, offset: usize) -> Origin {
        self.segments.origin(offset)
    }

    /// Tells that a span of the text holds a reference without a value. What is said about such a span
    /// says nothing about the document.
    pub fn is_unknown(&self, span: Range<usize>) -> bool {
        self.segments.touches_placeholder(&span)
    }

    /// The place in the source of a place in the text.
    pub fn locate(&self, offset: usize) -> Location {
        self.location(self.origin(offset).offset)
    }

    /// Finds where a piece of the text ends in the source; one that ends in a value ends with its reference.
    pub fn locate_end(&self, end: usize) -> Location {
        self.location(self.segments.end_of(end))
    }

    /// The line and column of a byte of the source. A document has many places, so they are looked up.
    fn location(&self, offset: usize) -> Location {
        let line = self.lines.partition_point(|start| *start <= offset).max(1);
        let mut end = offset.min(self.source.len());
        while !self.source.is_char_boundary(end) {
            end -= 1;
        }
        let start = self.lines.get(line - 1).copied().unwrap_or_default().min(end);
        let column = self.source[start..end].chars().count() + 1;
        Location::new(self.file.as_str(), line as u32, column as u32)
    }

    /// The places in the text that hold values, with the numbers of their references.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Range<usize>, usize)> {
        self.segments.values()
    }

    /// Tells that a span of the text holds the value of a secret variable.
    pub(crate) fn holds_secret(&self, span: Range<usize>) -> bool {
        self.segments.secrets_in(&span).next().is_some()
    }

    /// Returns what was read from a span of the text, without the values of secret variables.
    pub(crate) fn masked(&self, read: &str, span: Range<usize>) -> String {
        let mut shown = read.to_owned();
        for place in self.segments.secrets_in(&span) {
            let value = self.text[place].trim();
            if value.is_empty() {
                continue;
            }
            if !read.contains(value) {
                // The quotes around it changed its letters.
                return MASK.to_owned();
            }
            shown = shown.replace(value, MASK);
        }
        shown
    }

    /// The text with something that cannot mean anything in the place of every value.
    pub(crate) fn inert(&self) -> String {
        let mut inert = String::with_capacity(self.source.len());
        let mut at = 0;
        for (number, reference) in self.references.iter().enumerate() {
            inert.push_str(&self.source[at..reference.span.start]);
            inert.push_str(&format!("inert-value-{number}"));
            at = reference.span.end;
        }
        inert.push_str(&self.source[at..]);
        inert
    }

    /// Moves a problem found in the text to where the user wrote it. The excerpt comes from the source, so
    /// it cannot show a value, and what the message quotes of a value is left out.
    pub fn relocate(&self, mut problem: Problem, span: Range<usize>) -> Problem {
        let location = self.locate(span.start);
        let mut names: Vec<&str> = Vec::new();
        for (place, reference) in self.segments.values_in(&span) {
            let value = &self.text[place];
            problem.message = without(&problem.message, value);
            problem.hint = problem.hint.map(|hint| without(&hint, value));
            names.extend(self.references.get(reference).map(|reference| reference.name.as_str()));
        }
        names.dedup();
        if let Some(first) = names.first() {
            let more = if names.len() > 1 { " and others" } else { "" };
            problem.message.push_str(&format!(" (the value of `{first}`{more})"));
        }
        problem.in_text(location, &self.source)
    }
}

/// A message without what it says of a value: the value itself, and pieces of it in quotes.
fn without(message: &str, value: &str) -> String {
    let value = value.trim();
    if value.is_empty() {
        return message.to_owned();
    }
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut out = String::with_capacity(message.len());
    let mut rest = message;
    while let Some(first) = rest.chars().next() {
        let after_word = is_word(out.chars().next_back());
        if let Some(after) = rest.strip_prefix(value)
            && !(after_word || is_word(after.chars().next()))
        {
            out.push('…');
            rest = after;
            continue;
        }
        if matches!(first, '`' | '"' | '\'')
            && !after_word
            && let Some(end) = rest[1..].find(first)
            && end > 0
            && value.contains(&rest[1..=end])
        {
            out.extend([first, '…', first]);
            rest = &rest[end + 2..];
            continue;
        }
        out.push(first);
        rest = &rest[first.len_utf8()..];
    }
    out
}

/// Replaces every reference. What has no value is a problem and leaves a placeholder, so that the rest
/// of the document can be checked all the same.
pub fn substitute(
    file: &str,
    source: &str,
    variables: &Variables,
    escape_dollar: bool,
    problems: &mut Problems,
) -> Substituted {
    let mut done = Substituted {
        file: file.to_owned(),
        source: source.to_owned(),
        text: String::with_capacity(source.len()),
        references: Vec::new(),
        derived_secrets: Vec::new(),
        segments: Segments::default(),
        lines: std::iter::once(0).chain(source.match_indices('\n').map(|(at, _)| at + 1)).collect(),
    };
    let mut missing: BTreeMap<String, Vec<Reference>> = BTreeMap::new();
    for piece in scan(source, escape_dollar) {
        let start = done.text.len();
        let (span, kind) = match piece {
            Piece::Copied(range) => {
                done.text.push_str(&source[range.clone()]);
                (range, Kind::Copied)
            }
            Piece::Escaped(range) => {
                done.text.push_str("${");
                (range, Kind::Copied)
            }
            Piece::Reference(reference) => {
                let number = done.references.len();
                let span = reference.span.clone();
                let value = match variables.get(&reference.name) {
                    Some(variable) => Some((variable.value.as_str(), variable.secret)),
                    None => reference.default.as_deref().map(|value| (value, false)),
                };
                if value.is_none() {
                    missing.entry(reference.name.clone()).or_default().push(reference.clone());
                }
                let result = match (value, &reference.pipeline) {
                    (Some((value, _)), None) => Ok(Some(value.to_owned())),
                    (Some((value, _)), Some((_, pipeline))) => pipeline::run(value, pipeline).map(Some),
                    (None, Some((_, pipeline))) => pipeline::check(pipeline).map(|()| None),
                    (None, None) => Ok(None),
                };
                let kind = match result {
                    Ok(Some(text)) => {
                        let secret = value.is_some_and(|(_, secret)| secret);
                        if reference.pipeline.is_some() && secret {
                            done.derived_secrets.push(text.clone());
                        }
                        done.text.push_str(&text);
                        if secret { Kind::Secret(number) } else { Kind::Value(number) }
                    }
                    other => {
                        if let Err(error) = other {
                            problems.push(complaint(file, source, &reference, error));
                        }
                        done.text.push_str(&format!("unknown-value-{number}"));
                        Kind::Placeholder(number)
                    }
                };
                done.references.push(reference);
                (span, kind)
            }
        };
        done.segments.push(Segment { out: start..done.text.len(), source: span, kind });
    }
    for (name, references) in &missing {
        for reference in references.iter().take(MOST_OCCURRENCES) {
            problems.push(no_value(file, source, name, reference, variables));
        }
    }
    done
}

fn complaint(file: &str, source: &str, reference: &Reference, error: PipelineError) -> Problem {
    let at = reference
        .pipeline
        .as_ref()
        .map_or(reference.span.start, |(at, text)| at + (text.len() - text.trim_start().len()));
    let place = Location::in_text(file, source, at);
    let (code, message, hint) = match error {
        PipelineError::Syntax(message) => {
            ("E101", format!("the pipeline is not understood: {message}"), None)
        }
        PipelineError::Function { message, hint } => ("E102", message, hint),
        PipelineError::Evaluation(message) => {
            ("E103", format!("the pipeline of `{}` fails: {message}", reference.name), None)
        }
    };
    let mut problem = Problem::error(message).code(code).in_text(place, source);
    problem.hint = hint;
    problem
}

fn no_value(file: &str, source: &str, name: &str, reference: &Reference, variables: &Variables) -> Problem {
    let place = Location::in_text(file, source, reference.span.start);
    let problem =
        Problem::error(format!("`{name}` has no value and no default")).code("E100").in_text(place, source);
    let looks_like_shell = matches!(name, "HOME" | "PATH" | "PWD" | "USER" | "_")
        || name.bytes().all(|byte| !byte.is_ascii_uppercase());
    if let Some(near) = nearest(name, variables.names()) {
        problem.hint(format!("did you mean `{near}`?"))
    } else if reference.in_comment {
        problem.hint("it stands in a comment, where references count as well")
    } else if looks_like_shell {
        problem.hint(format!("to keep it for a shell, write `${{_:-$}}{{{name}}}`"))
    } else {
        problem.hint(format!("give it with `--set {name}=…` or `KHOOK_VAR_{name}`"))
    }
}
