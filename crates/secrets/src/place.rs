//! Places of references: a problem with a reference names the file, line and column it was written at.

use std::collections::BTreeMap;
use std::fmt;

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{NodeValue, YamlNode};

use crate::reference::SecretReference;
use crate::scan::{Interpolation, references_of_text};

/// The text of the values a problem is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ProblemSubject {
    /// A text that is meant to be a reference and is none.
    Text(String),
    /// A reference, wherever it stands.
    Reference(SecretReference),
    /// Something else than a reference: the configuration, a provider.
    Other,
}

/// A problem and the text it is about.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReferenceProblem {
    pub(crate) subject: ProblemSubject,
    pub(crate) problem: Problem,
}

/// Everything that is wrong with the references of values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReferenceProblems(Vec<ReferenceProblem>);

impl ReferenceProblems {
    pub(crate) fn push(&mut self, subject: ProblemSubject, problem: Problem) {
        self.0.push(ReferenceProblem { subject, problem });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Gives each problem without a place the place of its text.
    pub(crate) fn locate(&mut self, places: &ReferencePlaces) {
        for ReferenceProblem { subject, problem } in &mut self.0 {
            if problem.at.is_none() {
                problem.at = places.place_of(subject).cloned();
            }
        }
    }

    /// Every problem, for reports.
    pub fn problems(&self) -> Problems {
        self.0.iter().map(|one| one.problem.clone()).collect()
    }
}

impl fmt::Display for ReferenceProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problems().fmt(f)
    }
}

impl From<Problems> for ReferenceProblems {
    fn from(problems: Problems) -> Self {
        let other = |problem| ReferenceProblem { subject: ProblemSubject::Other, problem };
        Self(problems.into_iter().map(other).collect())
    }
}

impl From<ReferenceProblems> for Problems {
    fn from(problems: ReferenceProblems) -> Self {
        problems.problems()
    }
}

/// The places of the references of some files. It is made when something is wrong, never before.
#[derive(Clone, Debug, Default)]
pub struct ReferencePlaces(BTreeMap<ProblemSubject, Location>);

impl ReferencePlaces {
    /// Adds the references of a YAML file. A later file wins, as its values do; a file that cannot be read has none.
    pub fn add_file(&mut self, name: &str, text: &[u8]) {
        let Ok(text) = std::str::from_utf8(text) else { return };
        for document in slipway_yaml::parse(text, name).unwrap_or_default() {
            self.add_node(&document);
        }
    }

    fn add_node(&mut self, node: &YamlNode) {
        match &node.value {
            NodeValue::Seq(items) => items.iter().for_each(|item| self.add_node(item)),
            NodeValue::Map(mapping) => mapping.iter().for_each(|(_, value)| self.add_node(value)),
            _ => {
                let Some(text) = node.as_str() else { return };
                match references_of_text(text, Interpolation::On) {
                    Ok(references) => {
                        for reference in references {
                            self.0.insert(ProblemSubject::Reference(reference), node.location());
                        }
                    }
                    Err(_) => drop(self.0.insert(ProblemSubject::Text(text.to_owned()), node.location())),
                }
            }
        }
    }

    fn place_of(&self, subject: &ProblemSubject) -> Option<&Location> {
        self.0.get(subject)
    }

    pub(crate) fn place_of_reference(&self, reference: &SecretReference) -> Option<&Location> {
        self.place_of(&ProblemSubject::Reference(reference.clone()))
    }
}
