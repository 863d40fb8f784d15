//! Starting a coded problem, in one line.

use slipway_problem::{Problem, ProblemSeverity, Problems};
use slipway_yaml::{FieldReader, ProblemCodes, YamlNode};

/// Starts an error with a code of the catalogue.
pub(crate) fn coded_error(code: &str, message: impl Into<String>) -> Problem {
    Problem::error(message).code(code)
}

/// Starts a warning with a code of the catalogue.
pub(crate) fn coded_warning(code: &str, message: impl Into<String>) -> Problem {
    Problem::warning(message).code(code)
}

/// Starts a note with a code of the catalogue.
pub(crate) fn coded_note(code: &str, message: impl Into<String>) -> Problem {
    Problem::note(message).code(code)
}

/// Gives every problem of a file one code, unless it has one.
pub(crate) fn with_code(problems: Problems, code: &str) -> Problems {
    let coded = |problem: Problem| if problem.code.is_some() { problem } else { problem.code(code) };
    problems.into_iter().map(coded).collect()
}

/// The codes of YAML files: keys set twice, documents that grow too large, anything else.
pub(crate) fn yaml_codes(duplicate: &'static str, growth: &'static str, other: &'static str) -> ProblemCodes {
    ProblemCodes { syntax: other, duplicate, limit: growth, value: other, aliases: growth }
}

/// The codes of files of objects.
pub(crate) fn object_codes() -> ProblemCodes {
    yaml_codes("KR009", "KR013", "KR002")
}

/// Reads a mapping strictly: unknown keys get one code, everything else that is wrong the other.
pub(crate) fn read_strictly<'n, T>(
    node: &'n YamlNode,
    (unknown, wrong): (&'static str, &str),
    problems: &mut Problems,
    read: impl FnOnce(&mut FieldReader<'n, '_>) -> T,
) -> T {
    let mut found = Problems::new();
    let mut fields = FieldReader::new(node, &mut found).with_unknown_code(unknown);
    let value = read(&mut fields);
    fields.finish();
    problems.extend(with_code(found, wrong));
    value
}

/// Makes errors of all warnings, for `--strict`.
pub(crate) fn warnings_to_errors(problems: &mut Problems) {
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
pub(crate) fn join_words<S: AsRef<str>>(words: &[S], most: usize) -> String {
    let shown: Vec<&str> = words.iter().take(most).map(AsRef::as_ref).collect();
    match words.len().saturating_sub(most) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}
