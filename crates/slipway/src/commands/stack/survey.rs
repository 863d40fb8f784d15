//! What a plan would change and what was changed behind its releases' backs, for people and programs.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_stack::survey::Surveyed;
use slipway_stack::{FailureClass, ReleasePreview, ReleaseVerdict};

use crate::commands::policy;
use crate::term::style::{ADDED, BOLD, DIM, ERROR, GOOD, REMOVED, WARNING, paint};

/// The finding about one release, or why there is none.
#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
#[schemars(rename = "{T}Entry")]
pub enum SurveyEntry<'a, T> {
    Found {
        #[serde(flatten)]
        found: &'a T,
        id: &'a str,
    },
    Failed {
        id: &'a str,
        error: SurveyError<'a>,
    },
}

/// The failure to look at one release.
#[derive(Serialize, JsonSchema)]
pub struct SurveyError<'a> {
    class: FailureClass,
    message: &'a str,
}

impl<'a, T> From<&'a Surveyed<T>> for SurveyEntry<'a, T> {
    fn from(one: &'a Surveyed<T>) -> Self {
        match &one.found {
            Ok(found) => Self::Found { found, id: &one.id },
            Err(error) => {
                let error = SurveyError { class: error.class, message: &error.message };
                Self::Failed { id: &one.id, error }
            }
        }
    }
}

/// One entry a release, in the order of execution.
pub fn entries<T>(all: &[Surveyed<T>]) -> Vec<SurveyEntry<'_, T>> {
    all.iter().map(SurveyEntry::from).collect()
}

/// The differences of every release that has some, and a line for each that has none.
pub fn previews_text(all: &[Surveyed<ReleasePreview>]) -> String {
    let mut text = String::from("\nCHANGES\n");
    for one in all {
        match &one.found {
            Ok(found) if found.is_empty() => {
                let _ = writeln!(text, "  {}   {}", paint(BOLD, &one.id), paint(DIM, "nothing to do"));
            }
            Ok(found) => {
                let counts = [
                    (found.create, "to create"),
                    (found.update, "to update"),
                    (found.recreate, "to recreate"),
                    (found.delete, "to delete"),
                ];
                let told: Vec<String> = counts
                    .into_iter()
                    .filter(|(count, _)| *count > 0)
                    .map(|(count, what)| format!("{count} {what}"))
                    .collect();
                let told = if told.is_empty() { "only a new revision".to_owned() } else { told.join(", ") };
                let _ = writeln!(text, "  {}   {told}", paint(BOLD, &one.id));
                for line in found.diff.lines() {
                    let shown = match line.trim_start().chars().next() {
                        Some('+') => paint(ADDED, line),
                        Some('-') => paint(REMOVED, line),
                        _ => line.to_owned(),
                    };
                    let _ = writeln!(text, "    {shown}");
                }
            }
            Err(error) => failed(&mut text, &one.id, &error.message),
        }
    }
    text
}

/// The results of the policies, release by release.
pub fn policies_text(all: &[Surveyed<ReleasePreview>]) -> String {
    let mut text = String::new();
    for one in all {
        match &one.found {
            Ok(found) => {
                let report = found.policy.as_ref().map(policy::report_text).unwrap_or_default();
                let _ = write!(text, "\n{}{report}", paint(BOLD, &one.id));
            }
            Err(error) => failed(&mut text, &one.id, &error.message),
        }
    }
    text
}

/// A line for each release and one for each object that is not as it was applied.
pub fn verdicts_text(all: &[Surveyed<ReleaseVerdict>]) -> String {
    let mut text = String::from("\nDRIFT\n");
    for one in all {
        match &one.found {
            Ok(found) if found.is_clean() => {
                let _ = writeln!(text, "  {}   {}", paint(BOLD, &one.id), paint(GOOD, "as applied"));
            }
            Ok(found) if found.absent => {
                let _ = writeln!(text, "  {}   {}", paint(BOLD, &one.id), paint(WARNING, "not installed"));
            }
            Ok(found) => {
                let count = found.drifted.len();
                let objects = if count == 1 { "object" } else { "objects" };
                let what = format!("{count} {objects} changed since");
                let _ = writeln!(text, "  {}   {}", paint(BOLD, &one.id), paint(WARNING, what));
                for object in &found.drifted {
                    let _ = writeln!(text, "    {object}");
                }
            }
            Err(error) => failed(&mut text, &one.id, &error.message),
        }
    }
    text
}

fn failed(text: &mut String, id: &str, message: &str) {
    let mut lines = message.lines();
    let first = lines.next().unwrap_or_default();
    let _ = writeln!(text, "  {}   {} {first}", paint(BOLD, id), paint(ERROR, "cannot tell:"));
    for line in lines {
        let _ = writeln!(text, "    {line}");
    }
}
