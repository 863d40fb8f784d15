//! Findings about a document: stable codes, places in the source, the step and field concerned.

use std::cell::RefCell;

use serde::Serialize;
use slipway_problem::{Location, Problem, ProblemSeverity, Problems};
use slipway_yaml::YamlNode;

use crate::text::Substituted;

/// One finding.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Diagnostic {
    #[serde(flatten)]
    pub problem: Problem,
    /// The field, such as `steps[2].helm.valuesFrom[0]`; empty for the document as a whole.
    pub path: String,
    /// The step's name, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The end of the text concerned, just behind its last character.
    #[serde(flatten)]
    pub end: Option<End>,
}

/// The end of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct End {
    pub end_line: u32,
    pub end_column: u32,
}

/// All findings about one document, in the order of the source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Diagnostics(Vec<Diagnostic>);

impl Diagnostics {
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.0.iter()
    }

    pub(crate) fn iter_mut(&mut self) -> std::slice::IterMut<'_, Diagnostic> {
        self.0.iter_mut()
    }

    pub fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter().filter(|found| found.problem.severity == ProblemSeverity::Error)
    }

    pub fn warnings(&self) -> impl Iterator<Item = &Diagnostic> {
        self.0.iter().filter(|found| found.problem.severity == ProblemSeverity::Warning)
    }

    pub fn has_errors(&self) -> bool {
        self.errors().next().is_some()
    }

    /// The findings without their fields, as every other part of the product reports them.
    pub fn into_problems(self) -> Problems {
        self.0.into_iter().map(|found| found.problem).collect()
    }

    /// Adds what was found later.
    pub fn extend(&mut self, more: Diagnostics) {
        self.0.extend(more.0);
    }

    fn push(&mut self, diagnostic: Diagnostic) {
        self.0.push(diagnostic);
    }

    fn sort(&mut self) {
        let place = |found: &Diagnostic| {
            let at = found.problem.at.as_ref().map_or((0, 0), |at| (at.line, at.column));
            (at, found.problem.code.clone())
        };
        self.0.sort_by_key(place);
        self.0.dedup();
    }
}

impl FromIterator<Diagnostic> for Diagnostics {
    fn from_iter<I: IntoIterator<Item = Diagnostic>>(found: I) -> Self {
        Self(found.into_iter().collect())
    }
}

/// Collects findings about a document while it is read.
pub(crate) struct Findings<'t> {
    text: &'t Substituted,
    found: RefCell<Diagnostics>,
}

impl<'t> Findings<'t> {
    pub(crate) fn new(text: &'t Substituted) -> Self {
        Self { text, found: RefCell::default() }
    }

    /// Takes in problems found in the source itself.
    pub(crate) fn take(&self, problems: Problems) {
        for problem in problems {
            self.found.borrow_mut().push(Diagnostic { problem, path: String::new(), step: None, end: None });
        }
    }

    /// Takes in problems found in the substituted text.
    pub(crate) fn take_substituted(&self, problems: Problems) {
        for problem in problems {
            let offset = problem.at.as_ref().map_or(0, |at| offset(&self.text.text, at));
            if self.text.is_unknown(offset..offset + 1) {
                continue;
            }
            let problem = self.text.relocate(problem, offset..offset + 1);
            self.found.borrow_mut().push(Diagnostic { problem, path: String::new(), step: None, end: None });
        }
    }

    /// Adds a finding about a node, unless the node's text is not known.
    pub(crate) fn add(&self, node: &YamlNode, at: &At<'_>, code: &str, problem: Problem) {
        let span = node.span;
        let scalar = node.as_map().is_none() && node.as_seq().is_none();
        // Of a collection only its first character is the finding's place.
        let extent = if scalar { span.start..span.end } else { span.start..span.start + 1 };
        if self.text.is_unknown(extent.clone()) {
            return;
        }
        let end = self.text.locate_end(extent.end);
        let end = Some(End { end_line: end.line, end_column: end.column });
        let mut problem = self.text.relocate(problem.code(code), extent);
        if let Some(step) = at.step {
            problem.message = format!("step \"{step}\": {}", problem.message);
        }
        let step = at.step.map(str::to_owned);
        self.found.borrow_mut().push(Diagnostic { problem, path: at.path.clone(), step, end });
    }

    pub(crate) fn has_errors(&self) -> bool {
        self.found.borrow().has_errors()
    }

    pub(crate) fn text(&self) -> &'t Substituted {
        self.text
    }

    pub(crate) fn finish(self) -> Diagnostics {
        let mut found = self.found.into_inner();
        found.sort();
        found
    }
}

/// The field and step being looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct At<'s> {
    pub(crate) path: String,
    pub(crate) step: Option<&'s str>,
}

impl<'s> At<'s> {
    pub(crate) fn field(&self, name: &str) -> Self {
        let path = if self.path.is_empty() { name.to_owned() } else { format!("{}.{name}", self.path) };
        Self { path, step: self.step }
    }

    pub(crate) fn item(&self, index: usize) -> Self {
        Self { path: format!("{}[{index}]", self.path), step: self.step }
    }
}

/// The byte a place names.
fn offset(text: &str, at: &Location) -> usize {
    let mut start = 0;
    for _ in 1..at.line {
        match text[start..].find('\n') {
            Some(newline) => start += newline + 1,
            None => return text.len(),
        }
    }
    let line = &text[start..];
    let column = at.column.saturating_sub(1) as usize;
    start + line.char_indices().nth(column).map_or(line.len(), |(index, _)| index)
}
