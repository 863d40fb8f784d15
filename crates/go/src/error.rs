//! The error whose text is all there is to it.

use std::fmt;
use std::ops::Deref;

/// An error in the words of a Go program: of Go's library, Helm, kustomize or Kubernetes.
///
/// Such a text is shown as it is, often as a part of a longer one, and nothing is decided on it. What code has to tell
/// apart is a variant of an enum instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GoError(String);

impl GoError {
    /// Makes an error of its text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The text as a `&str`, for the longer texts it becomes a part of.
impl Deref for GoError {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for GoError {}

impl From<String> for GoError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<&str> for GoError {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<GoError> for String {
    fn from(error: GoError) -> Self {
        error.0
    }
}
