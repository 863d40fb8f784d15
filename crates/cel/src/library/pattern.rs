//! Regular expressions in the syntax of RE2, on Rust's engine.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};

/// A compiled pattern.
#[derive(Clone, Debug)]
pub(crate) struct Pattern(Regex);

/// The most memory a compiled pattern may take.
const LARGEST: usize = 1 << 20;

impl Pattern {
    /// Compiles a pattern; says why not.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(&translate(text)).size_limit(LARGEST).nest_limit(100).build();
        built.map(Self).map_err(|error| error.to_string())
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

/// RE2's classes are ASCII and its brackets do not nest; Rust's are neither unless told.
fn translate(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut characters = text.chars().peekable();
    let mut class = false;
    let mut class_start = false;
    while let Some(c) = characters.next() {
        let starts = std::mem::take(&mut class_start);
        match c {
            '\\' => match characters.next() {
                Some('d') => out.push_str(if class { "0-9" } else { "[0-9]" }),
                Some('w') => out.push_str(if class { "0-9A-Za-z_" } else { "[0-9A-Za-z_]" }),
                Some('s') => {
                    out.push_str(if class { "\\t\\n\\x0C\\r\\x20" } else { "[\\t\\n\\x0C\\r\\x20]" });
                }
                Some('D') => out.push_str("[^0-9]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('S') => out.push_str("[^\\t\\n\\x0C\\r\\x20]"),
                Some('b') if !class => out.push_str("(?-u:\\b)"),
                Some('Q') => {
                    let mut literal = String::new();
                    while let Some(c) = characters.next() {
                        if c == '\\' && characters.peek() == Some(&'E') {
                            characters.next();
                            break;
                        }
                        literal.push(c);
                    }
                    out.push_str(&regex::escape(&literal));
                }
                Some(other) => {
                    let _ = write!(out, "\\{other}");
                }
                None => out.push('\\'),
            },
            '[' if !class => {
                class = true;
                out.push('[');
                if characters.peek() == Some(&'^') {
                    characters.next();
                    out.push('^');
                }
                // A bracket first in a class is itself.
                if characters.peek() == Some(&']') {
                    characters.next();
                    out.push_str("\\]");
                }
                class_start = true;
            }
            '[' if characters.peek() == Some(&':') => {
                out.push('[');
                while let Some(c) = characters.next() {
                    out.push(c);
                    if c == ':' && characters.peek() == Some(&']') {
                        characters.next();
                        out.push(']');
                        break;
                    }
                }
            }
            '[' => out.push_str("\\["),
            ']' if class => {
                class = false;
                out.push(']');
            }
            '&' | '~' if class => {
                out.push('\\');
                out.push(c);
            }
            '-' if class && (starts || characters.peek() == Some(&'-') || out.ends_with('-')) => {
                // The second of two hyphens is the end of a range.
                if out.ends_with('-') || starts { out.push_str("\\-") } else { out.push('-') }
            }
            _ => out.push(c),
        }
    }
    out
}
