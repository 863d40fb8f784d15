//! Error reports: what, where with the line itself, and a hint.

use std::fmt::Write as _;

use slipway_problem::{Problem, Problems, Severity};

use crate::exit::UsageError;
use crate::term::style::{self, DIM, ERROR, HINT, WARNING, paint};

/// Says on standard error why the command failed.
pub fn failure(failure: &anyhow::Error) {
    if let Some(problems) = failure.downcast_ref::<Problems>() {
        return problems_report(problems);
    }
    if let Some(UsageError(problems)) = failure.downcast_ref::<UsageError>() {
        return problems_report(problems);
    }
    if let Some(problem) = failure.downcast_ref::<Problem>() {
        return anstream::eprint!("{}", render(problem));
    }
    anstream::eprintln!("{} {failure:#}", paint(ERROR, "error:"));
}

fn problems_report(problems: &Problems) {
    for problem in problems {
        anstream::eprint!("{}", render(problem));
    }
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error).count();
    if errors > 1 {
        anstream::eprintln!("{} {errors} errors", paint(ERROR, "error:"));
    }
}

/// Renders one problem, with the line it points to if the problem kept it.
pub fn render(problem: &Problem) -> String {
    let style = match problem.severity {
        Severity::Error => ERROR,
        Severity::Warning => WARNING,
        Severity::Note => style::BOLD,
    };
    let mut text = paint(style, format!("{}:", problem.severity));
    let _ = write!(text, " {}", printable(&problem.message));
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
            let _ = writeln!(text, "{} {bar} {}", paint(DIM, at.line), printable(line));
            let _ = writeln!(text, "{margin} {bar} {indent}{}", paint(style, "^"));
        }
    }
    if let Some(hint) = &problem.hint {
        let _ = writeln!(text, "  {} {}", paint(HINT, "hint:"), printable(hint));
    }
    text
}

/// Keeps control characters of a user's file from reaching the terminal.
fn printable(text: &str) -> String {
    let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return text.to_owned();
    }
    text.chars().map(|c| if harmless(c) { c } else { char::REPLACEMENT_CHARACTER }).collect()
}
