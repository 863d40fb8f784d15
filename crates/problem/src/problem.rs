//! One thing that is wrong, and all of them together.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::{Location, nearest_name};

/// The severity of a problem.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ProblemSeverity {
    /// The work cannot go on.
    Error,
    /// The work goes on; the user should know.
    Warning,
    /// Worth saying when asked for detail.
    Note,
}

impl fmt::Display for ProblemSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Note => "note",
        })
    }
}

/// One thing that is wrong: what, where, and what to do next.
///
/// Messages start in lower case, end without a full stop, and name the offending thing in backquotes.
/// They never contain a secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Problem {
    pub severity: ProblemSeverity,
    /// A stable identifier (`K101`, `RB-V07`) where a specification assigns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Location>,
    /// The text of the line `at` points to, for reports that show it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excerpt: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Problem {
    fn with_severity(severity: ProblemSeverity, message: impl Into<String>) -> Self {
        Self { severity, code: None, message: message.into(), at: None, excerpt: None, hint: None }
    }

    /// Starts an error.
    pub fn error(message: impl Into<String>) -> Self {
        Self::with_severity(ProblemSeverity::Error, message)
    }

    /// Starts a warning.
    pub fn warning(message: impl Into<String>) -> Self {
        Self::with_severity(ProblemSeverity::Warning, message)
    }

    /// Starts a note.
    pub fn note(message: impl Into<String>) -> Self {
        Self::with_severity(ProblemSeverity::Note, message)
    }

    /// Tells that it is an error, not a warning or note.
    pub fn is_error(&self) -> bool {
        self.severity == ProblemSeverity::Error
    }

    /// Sets the location.
    #[must_use]
    pub fn at(mut self, location: Location) -> Self {
        self.at = Some(location);
        self
    }

    /// Says where, and keeps the line of `text` (the whole file) the location points to.
    #[must_use]
    pub fn in_text(mut self, location: Location, text: &str) -> Self {
        self.excerpt = excerpt_line(&location, text);
        self.at = Some(location);
        self
    }

    /// Says where, and keeps the line the location points to.
    #[must_use]
    pub fn at_line(mut self, location: Location, line: &str) -> Self {
        self.excerpt = may_show(&location, line).then(|| line.to_owned());
        self.at = Some(location);
        self
    }

    /// Sets the hint: what to do next.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Suggests the candidate nearest to `name`, when one is near and no hint was given.
    #[must_use]
    pub fn did_you_mean<'a>(mut self, name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Self {
        if self.hint.is_none() {
            self.hint = nearest_name(name, candidates).map(|found| format!("did you mean `{found}`?"));
        }
        self
    }

    /// Sets the code, a stable identifier.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }
}

/// The line of `text` that `location` points to, if it may be shown.
fn excerpt_line(location: &Location, text: &str) -> Option<String> {
    let line = text.lines().nth((location.line as usize).checked_sub(1)?)?;
    may_show(location, line).then(|| line.to_owned())
}

/// Returns true if a line may be shown: not one that is too long, nor one of a link. What a link leads to may be anybody's
/// secret, and whoever made it need not be who reads the message.
fn may_show(location: &Location, line: &str) -> bool {
    const LONGEST: usize = 400;
    line.len() <= LONGEST && !is_linked(Path::new(&*location.file))
}

/// Returns true if a path, or a directory of a relative one, is a symbolic link.
fn is_linked(path: &Path) -> bool {
    let parts = if path.is_absolute() { 1 } else { usize::MAX };
    let is_link = |part: &Path| part.symlink_metadata().is_ok_and(|about| about.is_symlink());
    path.ancestors().take(parts).any(is_link)
}

impl fmt::Display for Problem {
    /// Prints `file:line:column: message` and, on a line of its own, `hint: …`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = &self.at {
            write!(f, "{at}: ")?;
        }
        if self.severity != ProblemSeverity::Error {
            write!(f, "{}: ", self.severity)?;
        }
        f.write_str(&self.message)?;
        if let Some(code) = &self.code {
            write!(f, " [{code}]")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "\n  hint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// Every problem found in one go, in the order they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Starts with none.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds one.
    pub fn push(&mut self, problem: Problem) {
        self.0.push(problem);
    }

    /// Adds those of `result`, if it failed; gives its value, if it did not.
    pub fn collect_from<T>(&mut self, result: Result<T, impl Into<Problems>>) -> Option<T> {
        result.map_err(|problems| self.0.extend(problems.into().0)).ok()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Returns true if any of them is an error.
    pub fn has_errors(&self) -> bool {
        self.0.iter().any(|problem| problem.severity == ProblemSeverity::Error)
    }

    /// Puts them in the order of the files: by location, unlocated ones first.
    pub fn sort_by_location(&mut self) {
        self.0.sort_by(|a, b| a.at.cmp(&b.at));
    }

    /// Gives the problems of `file` that keep no excerpt the line of its `text` they point to.
    pub fn add_excerpts(&mut self, file: &str, text: &str) {
        for problem in self.0.iter_mut().filter(|problem| problem.excerpt.is_none()) {
            if let Some(at) = problem.at.as_ref().filter(|at| *at.file == *file) {
                problem.excerpt = excerpt_line(at, text);
            }
        }
    }

    /// Succeeds with `value` unless an error was found. Warnings alone do not fail: take them out with
    /// [`Problems::iter`] before.
    pub fn into_result<T>(self, value: T) -> Result<T, Problems> {
        if self.has_errors() { Err(self) } else { Ok(value) }
    }
}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

impl FromIterator<Problem> for Problems {
    fn from_iter<I: IntoIterator<Item = Problem>>(problems: I) -> Self {
        Self(problems.into_iter().collect())
    }
}

impl Extend<Problem> for Problems {
    fn extend<I: IntoIterator<Item = Problem>>(&mut self, problems: I) {
        self.0.extend(problems);
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            problem.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prints_place_message_code_and_hint() {
        let problem = Problem::error("unknown key `replica`")
            .at(Location::new("stack.yaml", 3, 5))
            .code("S12")
            .did_you_mean("replica", ["replicas"]);
        assert_eq!(
            problem.to_string(),
            "stack.yaml:3:5: unknown key `replica` [S12]\n  hint: did you mean `replicas`?"
        );
    }

    #[test]
    fn warnings_alone_do_not_fail() {
        let mut problems = Problems::from(Problem::warning("careful"));
        assert!(problems.clone().into_result(()).is_ok());
        problems.push(Problem::error("broken"));
        assert_eq!(problems.into_result(()).map_err(|all| all.len()), Err(2));
    }

    #[cfg(unix)]
    #[test]
    fn shows_no_line_of_a_linked_file() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        std::fs::write(&file, "password\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for (path, shown) in [(file, Some("password")), (link, None)] {
            let at = Location::new(path.to_str().unwrap(), 1, 1);
            let mut found = Problems::from(Problem::error("bad").at(at.clone()));
            found.add_excerpts(path.to_str().unwrap(), "password\n");
            let direct = Problem::error("bad").in_text(at, "password\n");
            let line = Problem::error("bad").at_line(Location::new(path.to_str().unwrap(), 1, 1), "password");
            for problem in [&direct, &line, found.iter().next().unwrap()] {
                assert_eq!(problem.excerpt.as_deref(), shown);
            }
        }
    }

    #[test]
    fn keeps_the_line_it_points_to() {
        let problem = Problem::error("bad").in_text(Location::new("f", 2, 1), "a\nb: c\n");
        assert_eq!(problem.excerpt.as_deref(), Some("b: c"));
    }
}
