//! Error reports: what, where with the line itself, and a hint.

use std::fmt::Write as _;

use slipway_problem::{Problem, ProblemSeverity, Problems};
use slipway_rehearsal::RehearsalError;
use slipway_release::Failure;
use slipway_secrets::SecretsError;
use slipway_unit::UnitError;

use crate::exit::{PolicyFileError, PolicyRefusal, SecretError, UsageError};
use crate::term::output;
use crate::term::style::{self, DIM, ERROR, HINT, WARNING, paint};

/// Says on standard error, for people, why the command failed.
pub fn failure(failure: &anyhow::Error) {
    let problems = problems_of(failure);
    if problems.is_empty() {
        say!("{} {}", paint(ERROR, "error:"), chain(failure.as_ref()));
        return;
    }
    problems.iter().for_each(show);
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    if errors > 1 {
        say!("{} {errors} errors", paint(ERROR, "error:"));
    }
}

/// The problems a failure consists of, if it is more than a chain of causes.
pub fn problems_of(failure: &anyhow::Error) -> Vec<Problem> {
    let all = |problems: &Problems| problems.iter().cloned().collect();
    if let Some(problems) = failure.downcast_ref::<Problems>() {
        return all(problems);
    }
    if let Some(
        Failure::Problems(problems)
        | Failure::Source(problems)
        | Failure::Immutable(problems)
        | Failure::Ownership(problems)
        | Failure::Refused(problems)
        | Failure::Stale(problems),
    ) = failure.downcast_ref()
    {
        return all(problems);
    }
    if let Some(RehearsalError::Failed(problems) | RehearsalError::Refused(problems)) = failure.downcast_ref()
    {
        return all(problems);
    }
    match failure.downcast_ref() {
        Some(UnitError::Problems(problems) | UnitError::Refused(problems)) => return all(problems),
        Some(UnitError::NoEvidence(problem)) => return vec![(**problem).clone()],
        _ => {}
    }
    if let Some(slipway_stack::Error::Invalid(problems)) = failure.downcast_ref() {
        return all(problems);
    }
    if let Some(error) = failure.downcast_ref::<SecretsError>() {
        return all(&error.problems());
    }
    if let Some(SecretError(problem)) = failure.downcast_ref() {
        return vec![problem.clone()];
    }
    if let Some(PolicyRefusal(problems)) = failure.downcast_ref() {
        return all(problems);
    }
    if let Some(PolicyFileError(problems)) = failure.downcast_ref() {
        return all(problems);
    }
    if let Some(UsageError(problems)) = failure.downcast_ref() {
        return all(problems);
    }
    failure.downcast_ref::<Problem>().cloned().into_iter().collect()
}

/// An error and everything that caused it, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

/// Says on standard error what is wrong, and where.
pub fn show(problem: &Problem) {
    output::message(&render(problem));
}

/// Renders one problem, with the line it points to if the problem kept it.
pub fn render(problem: &Problem) -> String {
    let style = match problem.severity {
        ProblemSeverity::Error => ERROR,
        ProblemSeverity::Warning => WARNING,
        ProblemSeverity::Note => style::BOLD,
    };
    let mut text = paint(style, format!("{}:", problem.severity));
    let _ = write!(text, " {}", problem.message);
    if let Some(code) = &problem.code {
        let _ = write!(text, " [{code}]");
    }
    text.push('\n');
    if let Some(at) = &problem.at {
        let margin = " ".repeat(at.line.to_string().len());
        let _ = writeln!(text, "{margin}{} {at}", paint(DIM, "-->"));
        if let Some(line) = &problem.excerpt {
            let bar = paint(DIM, "|");
            let before: String = line.chars().take((at.column.max(1) - 1) as usize).collect();
            let indent: String = before.chars().map(|c| if c == '\t' { '\t' } else { ' ' }).collect();
            let _ = writeln!(text, "{margin} {bar}");
            let _ = writeln!(text, "{} {bar} {}", paint(DIM, at.line), line);
            let _ = writeln!(text, "{margin} {bar} {indent}{}", paint(style, "^"));
        }
    }
    if let Some(hint) = &problem.hint {
        let _ = writeln!(text, "  {} {}", paint(HINT, "hint:"), hint);
    }
    text
}
