//! Error reports: what, where with the line itself, and a hint.

use std::fmt::Write as _;
use std::io;

use slipway_chart::ChartError;
use slipway_problem::{Problem, ProblemSeverity, Problems, describe_io, read_hint};
use slipway_promotion::kinds::KindError;
use slipway_rehearsal::RehearsalError;
use slipway_release::Failure;
use slipway_secrets::SecretsError;
use slipway_unit::UnitError;

use crate::exit::{PolicyFileError, PolicyRefusal, SecretError, UsageError};
use crate::term::style::{self, DIM, ERROR, HINT, WARNING, paint};
use crate::term::{next, output};

/// Says on standard error, for people, why the command failed.
pub fn failure(failure: &anyhow::Error) {
    if let Some(Failure::Run { brief, report, .. }) = failure.downcast_ref() {
        // Whoever followed the run knows the rest.
        say!("{} release {} failed: {}", paint(ERROR, "error:"), report.release, without_numbers(brief));
        next::after_failure(report);
        return;
    }
    let problems = problems_of(failure);
    if problems.is_empty() {
        say!("{} {}", paint(ERROR, "error:"), without_numbers(&chain(failure.as_ref())));
        if let Some(hint) = cause_hint(failure) {
            say!("  {} {hint}", paint(HINT, "hint:"));
        }
        return;
    }
    problems.iter().for_each(show);
    let errors = problems.iter().filter(|problem| problem.is_error()).count();
    if errors > 1 {
        say!("{} {errors} errors", paint(ERROR, "error:"));
    }
}

/// The problems a failure consists of, if it is more than a chain of causes. Each says what to do, where that is known.
pub fn problems_of(failure: &anyhow::Error) -> Vec<Problem> {
    let refused =
        matches!(failure.downcast_ref(), Some(Failure::Refused(_))) || failure.is::<PolicyRefusal>();
    let mut problems = raw_problems_of(failure);
    if problems.is_empty() {
        problems = chart_problems_of(failure);
    }
    for problem in &mut problems {
        problem.message = without_numbers(&problem.message);
        if problem.hint.is_none() && problem.is_error() {
            let hint = problem.code.as_deref().and_then(code_hint);
            let refusal = "change what the rule refuses, or add an exception to the policy";
            problem.hint = hint.or(refused.then_some(refusal)).map(str::to_owned);
        }
    }
    problems
}

/// What to do about a problem by its code, where the loader that found it does not say.
fn code_hint(code: &str) -> Option<&'static str> {
    Some(match code {
        "ST003" => "files of a stack are `kind: Stack` (stack.yaml) or `kind: Release` (release.yaml)",
        "ST004" => "a release has `name:` and `chart:`",
        "ST010" => "write it under `profiles:` of the root stack.yaml, or name one that is there",
        "ST011" => "rename one of them, or give each a namespace of its own",
        "ST013" => "paths start at the directory of the file that names them, or of the chart",
        "ST023" => "take one of these needs away",
        "ST030" => "`slipway stack plan` lists the releases there are",
        "ST053" => "`slipway stack runs` lists the runs there are",
        "KV007" => "write `kurel: {name: …, version: …, appVersion: …}`",
        _ => return None,
    })
}

/// The text without the numbers of system errors, which say nothing that the words do not.
pub fn without_numbers(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let mut clean = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once(')') {
            Some((number, rest)) if number.bytes().all(|byte| byte.is_ascii_digit()) => clean.push_str(rest),
            _ => clean.push_str(&format!(" (os error {part}")),
        }
    }
    clean
}

/// The problems of a chart that have a place, told with what was being done.
fn chart_problems_of(failure: &anyhow::Error) -> Vec<Problem> {
    let error: Option<&ChartError> = failure.chain().find_map(|cause| cause.downcast_ref());
    let mut problems = error.map(ChartError::to_problems).unwrap_or_default();
    // One without a place is a chain of causes.
    if problems.len() == 1 && problems[0].at.is_none() {
        return Vec::new();
    }
    if let Some(first) = problems.first_mut() {
        first.message = chain(failure.as_ref());
    }
    problems
}

fn raw_problems_of(failure: &anyhow::Error) -> Vec<Problem> {
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

/// What to do about a failure that consists of no problems.
pub fn cause_hint(failure: &anyhow::Error) -> Option<String> {
    failure.chain().find_map(hint_of)
}

fn hint_of(cause: &(dyn std::error::Error + 'static)) -> Option<String> {
    if let Some(request) = refused_request(cause) {
        return request.hint.as_deref().map(str::to_owned);
    }
    if let Some(error) = cause.downcast_ref::<ChartError>() {
        return error.to_problems().pop().and_then(|problem| problem.hint);
    }
    match cause.downcast_ref() {
        Some(UnitError::NotAUnit { .. }) => {
            return Some("`slipway unit bundle NAME SOURCE -O FILE` makes one".to_owned());
        }
        Some(UnitError::Signature(_)) => {
            return Some(
                "`slipway unit generate-key FILE` makes a key, `slipway unit inspect UNIT` shows who signed a unit"
                    .to_owned(),
            );
        }
        _ => {}
    }
    if let Some(Failure::NotFound(_)) = cause.downcast_ref() {
        return Some(
            "`slipway list -A` shows the releases, `slipway history NAME` the revisions of one".to_owned(),
        );
    }
    if let Some(slipway_stack::Error::Empty { .. }) = cause.downcast_ref() {
        return Some("`slipway stack plan` without selectors lists every release".to_owned());
    }
    let error: &io::Error = cause.downcast_ref()?;
    Some(match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "make room on the disk, or name another place".to_owned()
        }
        _ => read_hint(error).to_owned(),
    })
}

/// The request to a cluster that an error is about. Errors that pass one on as their own do not name it as their cause.
fn refused_request<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e slipway_cluster::Error> {
    if let Some(Failure::Cluster(error)) = error.downcast_ref() {
        return Some(error);
    }
    if let Some(KindError::Cluster(error)) = error.downcast_ref() {
        return Some(error);
    }
    match error.downcast_ref() {
        Some(UnitError::Cluster(error)) => return Some(error),
        Some(UnitError::Release(failure)) => return refused_request(&**failure),
        _ => {}
    }
    error.downcast_ref()
}

/// An error and everything that caused it, each said once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = match cause.downcast_ref() {
            Some(error) => describe_io(error),
            None => cause.to_string(),
        };
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
