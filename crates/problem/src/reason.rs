//! A problem before it has a place.

use std::fmt;

/// The reason why a value is wrong, in our own words.
///
/// Whoever knows the place makes a [`Problem`](crate::Problem) of it: `Problem::error(reason).at(place)`. It is only ever
/// shown; what code has to tell apart is a variant of an enum instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProblemReason(String);

impl fmt::Display for ProblemReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProblemReason {}

impl From<String> for ProblemReason {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for ProblemReason {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<ProblemReason> for String {
    fn from(reason: ProblemReason) -> Self {
        reason.0
    }
}
