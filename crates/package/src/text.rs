//! Reports as lines of text, without colour; the binary decides how they look.

use slipway_problem::{Problem, ProblemSeverity};

use crate::build::{Build, Validation, summary};
use crate::enable::State;
use crate::package::Package;

/// The report of a build: stages, patches, objects, warnings, summary.
pub(crate) fn report(build: &Build) -> Vec<String> {
    let mut lines = vec!["✓ Package structure valid".to_owned()];
    let layers = &build.params.layers;
    let resolved = format!("✓ Parameters: {} resolved", build.params.root.leaves());
    lines.push(match layers.overridden {
        0 => resolved,
        count => {
            let mut files: Vec<&str> = layers.overriders.iter().map(AsRef::as_ref).collect();
            files.dedup();
            format!("{resolved}, {count} overridden ({})", files.join(", "))
        }
    });
    lines.push("✓ All patch references resolved".to_owned());
    let on: Vec<String> = patch_lines(build);
    if !on.is_empty() {
        lines.push(String::new());
        lines.push("Enabled patches:".to_owned());
        lines.extend(on);
    }
    lines.push(String::new());
    lines.push("Generated resources:".to_owned());
    for (kind, count) in build.counts() {
        lines.push(format!("  ✓ {count} {}", plural(&kind, count)));
    }
    for name in &build.synthesised {
        lines.push(format!("  ✓ Namespace {name} added (global.namespaces.create)"));
    }
    for dropped in &build.dropped {
        lines.push(format!("  ○ {} left out ({})", crate::resources::show_id(&dropped.id), dropped.why));
    }
    lines.extend(
        build
            .problems
            .iter()
            .filter(|problem| problem.severity != ProblemSeverity::Note)
            .flat_map(problem_lines),
    );
    lines.push(String::new());
    let (errors, warnings) = summary(&build.problems);
    lines.push(summary_line(errors, warnings));
    lines
}

fn patch_lines(build: &Build) -> Vec<String> {
    build
        .decision
        .order
        .iter()
        .map(|&index| {
            let (patch, state) = (&build.patches[index], &build.decision.states[index]);
            format!("  {} {} ({state})", state.mark().0, patch.file)
        })
        .collect()
}

/// The patches that apply only because another one requires them.
pub(crate) fn required_patches(build: &Build) -> Vec<String> {
    build
        .decision
        .order
        .iter()
        .filter(|&&index| matches!(build.decision.states[index], State::Required { .. }))
        .map(|&index| {
            let (patch, state) = (&build.patches[index], &build.decision.states[index]);
            format!("{} {} ({state})", state.mark().0, patch.file)
        })
        .collect()
}

fn problem_lines(problem: &Problem) -> Vec<String> {
    let (mark, word) = match problem.severity {
        ProblemSeverity::Error => ("✗", "error"),
        _ => ("⚠", "warning"),
    };
    let code = problem.code.as_deref().map(|code| format!("[{code}]")).unwrap_or_default();
    let mut lines = vec![format!("  {mark} {word}{code}: {}", problem.message)];
    if let Some(hint) = &problem.hint {
        lines.push(format!("     → {hint}"));
    }
    lines
}

fn summary_line(errors: usize, warnings: usize) -> String {
    format!(
        "Validation summary: {errors} {}, {warnings} {}",
        words("error", errors),
        words("warning", warnings)
    )
}

fn words(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

fn plural(kind: &str, count: usize) -> String {
    if count == 1 {
        kind.to_owned()
    } else if kind.ends_with('s') || kind.ends_with('x') || kind.ends_with("ch") {
        format!("{kind}es")
    } else if let Some(stem) = kind.strip_suffix('y').filter(|stem| !stem.ends_with(['a', 'e', 'o'])) {
        format!("{stem}ies")
    } else {
        format!("{kind}s")
    }
}

/// A stage of checking on the way to objects.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Structure,
    Parameters,
    Patches,
}

/// The stages, what is said when one has no mistakes, and what has them otherwise.
const STAGES: [(Stage, &str, &str); 3] = [
    (Stage::Structure, "Package structure valid", "Package structure"),
    (Stage::Parameters, "Parameters schema validation passed", "Parameters"),
    (Stage::Patches, "All patch references resolved", "Patches"),
];

/// The stage a problem belongs to; none if it is about the objects that come out.
fn stage_of(problem: &Problem) -> Option<Stage> {
    let code = problem.code.as_deref()?;
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| code.starts_with(prefix));
    let in_patch = problem.at.as_ref().is_some_and(|at| at.file.ends_with(".kpatch"));
    let of_objects = starts(&["KR02", "KR03", "KR04", "KS00"]) && !starts(&["KR020", "KR040"]);
    if (in_patch && !of_objects) || starts(&["KP", "KX", "KD"]) {
        Some(Stage::Patches)
    } else if starts(&["KV", "KS01"]) {
        Some(Stage::Parameters)
    } else if starts(&["KR00", "KR01", "KR020", "KR040"]) {
        Some(Stage::Structure)
    } else {
        None
    }
}

impl Validation {
    /// The report of a validation; without a build it shows what is wrong.
    pub fn report(&self, package: &Package) -> Vec<String> {
        if let Some(build) = &self.build {
            return report(build);
        }
        let mut lines: Vec<String> = STAGES
            .iter()
            .map(|(stage, passed, failed)| {
                let wrong = |problem: &&Problem| {
                    problem.severity == ProblemSeverity::Error && stage_of(problem) == Some(*stage)
                };
                match self.problems.iter().filter(wrong).count() {
                    0 => format!("✓ {passed}"),
                    count => format!("✗ {failed}: {count} {}", words("error", count)),
                }
            })
            .collect();
        lines.push(String::new());
        if !self.decision.states.is_empty() {
            lines.push("Enabled patches:".to_owned());
            for (patch, state) in package.patches().iter().zip(&self.decision.states) {
                if state.is_on() || matches!(state, State::Conflict { .. }) {
                    lines.push(format!("  {} {} ({state})", state.mark().0, patch.file));
                }
            }
            lines.push(String::new());
        }
        lines.push("Generated resources:".to_owned());
        for (kind, count) in &self.counts {
            lines.push(format!("  ✓ {count} {}", plural(kind, *count)));
        }
        lines.extend(
            self.problems.iter().filter(|problem| problem.severity != ProblemSeverity::Note).flat_map(
                |problem| {
                    let mut lines = problem_lines(problem);
                    if let Some(at) = &problem.at {
                        lines.insert(1, format!("     --> {at}"));
                    }
                    lines
                },
            ),
        );
        lines.push(String::new());
        let (errors, warnings) = summary(&self.problems);
        lines.push(summary_line(errors, warnings));
        lines
    }
}
