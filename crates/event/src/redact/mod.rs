//! Masking of secret values in anything that leaves the process.
//!
//! A registered value is found raw and in the encodings it travels in (`forms`), in whole texts, in
//! JSON trees and across the chunk boundaries of a stream (`stream`).

mod address;
mod filter;
mod forms;
mod matcher;
mod stream;

use std::borrow::Cow;
use std::io::Write;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

pub use address::without_credentials;
use matcher::Matcher;
pub use stream::RedactingWriter;

/// The text in a secret's place. It has no character that JSON, YAML or a shell would mind.
pub const MASK: &str = "***";

/// The degree to which a registered value will be found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coverage {
    /// Anywhere, in every form.
    Full,
    /// Too short to be told from ordinary text: masked only where it stands alone, as a whole text or
    /// between characters that are neither letters nor digits.
    Delimited,
    /// A word every output is full of (`true`, `admin`, `8080`): masked only where a whole text equals
    /// it in an event of its own; nothing in running text.
    WholeTextOnly,
    /// There is nothing to mask.
    Empty,
}

/// The secrets of a run; cheap to clone, shared by all sinks.
#[derive(Clone, Default)]
pub struct Redactor(Arc<RwLock<Matcher>>);

impl Redactor {
    /// Starts with no secrets.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a secret with all its forms and says how well it will be masked.
    pub fn register(&self, secret: impl AsRef<[u8]>) -> Coverage {
        let secret = secret.as_ref();
        let coverage = forms::coverage(secret);
        let forms = if coverage == Coverage::Full { forms::of(secret) } else { Default::default() };
        let mut matcher = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match coverage {
            Coverage::Empty => {}
            Coverage::WholeTextOnly => matcher.add_whole(secret),
            Coverage::Delimited => matcher.add_delimited(secret),
            Coverage::Full => matcher.add_forms(forms),
        }
        coverage
    }

    /// Masks every registered secret in a text, and the credentials of every address.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        mask(self.matcher().as_deref(), text)
    }

    /// Masks in place; leaves a clean text untouched.
    pub fn redact_in_place(&self, text: &mut String) {
        let masked = match self.redact(text) {
            Cow::Borrowed(_) => return,
            Cow::Owned(masked) => masked,
        };
        *text = masked;
    }

    /// Masks every string of a JSON tree, keys included, and numbers that are secrets, and tells whether it
    /// masked anything. The shape stays, so the result is always as valid as what came in.
    pub fn redact_json(&self, value: &mut serde_json::Value) -> bool {
        let matcher = self.matcher();
        let matcher = matcher.as_deref();
        let mut found = false;
        let mut pending = vec![value];
        while let Some(value) = pending.pop() {
            match value {
                serde_json::Value::String(text) => {
                    if let Cow::Owned(masked) = mask(matcher, text) {
                        *text = masked;
                        found = true;
                    }
                }
                serde_json::Value::Number(number)
                    if matcher.is_some_and(|matcher| matcher.is_secret(&number.to_string())) =>
                {
                    *value = MASK.into();
                    found = true;
                }
                serde_json::Value::Array(items) => pending.extend(items),
                serde_json::Value::Object(fields) => {
                    if fields.keys().any(|key| matches!(mask(matcher, key), Cow::Owned(_))) {
                        *fields = std::mem::take(fields)
                            .into_iter()
                            .map(|(key, value)| (mask(matcher, &key).into_owned(), value))
                            .collect();
                        found = true;
                    }
                    pending.extend(fields.values_mut());
                }
                _ => {}
            }
        }
        found
    }

    /// Wraps a writer so that secrets are masked even when they are written in pieces.
    pub fn writer<W: Write>(&self, out: W) -> RedactingWriter<W> {
        RedactingWriter::new(self.clone(), out)
    }

    /// The secrets, or none when nothing is registered. Nothing can be registered while they are held.
    fn matcher(&self) -> Option<RwLockReadGuard<'_, Matcher>> {
        let matcher = self.0.read().unwrap_or_else(PoisonError::into_inner);
        (!matcher.is_empty()).then_some(matcher)
    }
}

/// Masks what is registered, then what is recognised by its place in an address.
fn mask<'a>(matcher: Option<&Matcher>, text: &'a str) -> Cow<'a, str> {
    match matcher.map_or(Cow::Borrowed(text), |matcher| matcher.redact(text)) {
        Cow::Borrowed(text) => without_credentials(text),
        Cow::Owned(text) => Cow::Owned(without_credentials(&text).into_owned()),
    }
}

impl std::fmt::Debug for Redactor {
    /// Never shows a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(..)")
    }
}
