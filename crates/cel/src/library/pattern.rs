//! Regular expressions in the syntax of RE2, on Rust's engine.

use regex::Regex;
use slipway_go::regexp::{self, RegexpError};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

/// The most memory a compiled pattern may take.
const LARGEST: usize = 1 << 20;

impl Pattern {
    /// Compiles a pattern.
    pub(crate) fn new(text: &str) -> Result<Self, RegexpError> {
        regexp::compile_text_pattern(text, LARGEST).map(Self)
    }

    pub(crate) fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }

    pub(crate) fn find<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.0.find(text).map(|found| found.as_str())
    }

    pub(crate) fn find_all<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> + use<'t, '_> {
        self.0.find_iter(text).map(|found| found.as_str())
    }
}
