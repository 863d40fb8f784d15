//! What a plan would change and what was changed behind its releases' backs, for people and programs.

use std::fmt::Write as _;

use serde::Serialize;
use serde_json::{Value, json};
use slipway_stack::survey::Surveyed;
use slipway_stack::{ReleasePreview, ReleaseVerdict};

use crate::commands::policy;
use crate::term::style::{ADDED, BOLD, DIM, ERROR, GOOD, REMOVED, WARNING, paint};

/// One entry a release: what was found, or why it cannot be told.
pub fn entries<T: Serialize>(all: &[Surveyed<T>]) -> Value {
    let entry = |one: &Surveyed<T>| match &one.found {
        Ok(found) => {
            let mut value = serde_json::to_value(found).unwrap_or_default();
            value["id"] = json!(one.id);
            value
        }
        Err(error) => json!({"id": one.id, "error": {"class": error.class, "message": error.message}}),
    };
    all.iter().map(entry).collect()
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
