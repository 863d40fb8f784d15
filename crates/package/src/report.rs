//! Starting a coded problem, in one line.

use slipway_problem::{Problem, ProblemSeverity, Problems};
use slipway_yaml::{FieldReader, YamlNode};

/// Starts an error with a code of the catalogue.
pub(crate) fn error(code: &str, message: impl Into<String>) -> Problem {
    Problem::error(message).code(code)
}

/// Starts a warning with a code of the catalogue.
pub(crate) fn warning(code: &str, message: impl Into<String>) -> Problem {
    Problem::warning(message).code(code)
}

/// Starts a note with a code of the catalogue.
pub(crate) fn note(code: &str, message: impl Into<String>) -> Problem {
    Problem::note(message).code(code)
}

/// Gives the problems of a YAML reader the codes of the file they were found in.
pub(crate) fn coded(problems: Problems, duplicate: &str, bomb: &str, other: &str) -> Problems {
    problems
        .into_iter()
        .map(|problem| {
            let code = if problem.message.ends_with("is set twice") {
                duplicate
            } else if problem.message.contains("nodes allowed") || problem.message.contains("contains itself")
            {
                bomb
            } else {
                other
            };
            problem.code(code)
        })
        .collect()
}

/// Reads a mapping strictly: unknown keys get one code, everything else that is wrong the other.
pub(crate) fn strictly<'n, T>(
    node: &'n YamlNode,
    (unknown, wrong): (&str, &str),
    problems: &mut Problems,
    read: impl FnOnce(&mut FieldReader<'n, '_>) -> T,
) -> T {
    let mut found = Problems::new();
    let mut fields = FieldReader::of(node, &mut found);
    let value = read(&mut fields);
    fields.finish();
    problems.extend(found.into_iter().map(|problem| match problem.code {
        None if problem.message.starts_with("unknown key") => problem.code(unknown),
        None => problem.code(wrong),
        Some(_) => problem,
    }));
    value
}

/// Makes errors of all warnings, for `--strict`.
pub(crate) fn strict(problems: &mut Problems) {
    *problems = std::mem::take(problems)
        .into_iter()
        .map(|mut problem| {
            if problem.severity == ProblemSeverity::Warning {
                problem.severity = ProblemSeverity::Error;
            }
            problem
        })
        .collect();
}

/// Joins at most `most` words, and says how many more there are.
pub(crate) fn listed<S: AsRef<str>>(words: &[S], most: usize) -> String {
    let shown: Vec<&str> = words.iter().take(most).map(AsRef::as_ref).collect();
    match words.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
