//! Go's string: immutable bytes, usually but not necessarily UTF-8, cheap to clone.

use std::borrow::{Borrow, Cow};
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A Go string. Cutting a string in the middle of a character is legal in Go, so these are bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GoString(Arc<[u8]>);

impl GoString {
    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same bytes, shared.
    pub(crate) fn shared(&self) -> Arc<[u8]> {
        Arc::clone(&self.0)
    }

    /// The text, if it is UTF-8.
    pub fn utf8(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }

    /// The text with U+FFFD for whatever is not UTF-8.
    pub fn lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.0)
    }
}

impl Deref for GoString {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for GoString {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

// `[u8]` and `Str` order and hash alike, so maps keyed by `Str` can be asked by bytes.
impl Borrow<[u8]> for GoString {
    fn borrow(&self) -> &[u8] {
        &self.0
    }
}

impl From<&str> for GoString {
    fn from(s: &str) -> Self {
        GoString(s.as_bytes().into())
    }
}

impl From<Arc<[u8]>> for GoString {
    fn from(s: Arc<[u8]>) -> Self {
        GoString(s)
    }
}

impl From<&[u8]> for GoString {
    fn from(s: &[u8]) -> Self {
        GoString(s.into())
    }
}

impl From<String> for GoString {
    fn from(s: String) -> Self {
        GoString(s.into_bytes().into())
    }
}

impl From<Vec<u8>> for GoString {
    fn from(s: Vec<u8>) -> Self {
        GoString(s.into())
    }
}

impl From<Cow<'_, str>> for GoString {
    fn from(s: Cow<'_, str>) -> Self {
        GoString(s.as_bytes().into())
    }
}

impl PartialEq<str> for GoString {
    fn eq(&self, other: &str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl PartialEq<&str> for GoString {
    fn eq(&self, other: &&str) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl fmt::Display for GoString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lossy())
    }
}

impl fmt::Debug for GoString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.lossy())
    }
}
