//! The path of a field as it was when it was written.

use serde_json::Value as Json;

/// One step of the path of a field, as it was when it was written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PathSegment {
    Key(String),
    /// An element, by its `name` where it has one.
    Item {
        index: usize,
        name: Option<String>,
    },
}

impl PathSegment {
    /// Returns true if both name the same field or element.
    pub fn is(&self, other: &PathSegment) -> bool {
        match (self, other) {
            (Self::Key(a), Self::Key(b)) => a == b,
            (Self::Item { name: Some(a), .. }, Self::Item { name: Some(b), .. }) => a == b,
            (Self::Item { index: a, .. }, Self::Item { index: b, .. }) => a == b,
            _ => false,
        }
    }
}

/// Writes a path: `spec.containers[name=app].image`.
pub fn show_segs(path: &[PathSegment]) -> String {
    let mut out = String::new();
    for seg in path {
        match seg {
            PathSegment::Key(key) if key.contains(['.', '[', ' ']) => out.push_str(&format!("[{key:?}]")),
            PathSegment::Key(key) => {
                if !out.is_empty() {
                    out.push('.');
                }
                out.push_str(key);
            }
            PathSegment::Item { name: Some(name), .. } => out.push_str(&format!("[name={name}]")),
            PathSegment::Item { index, .. } => out.push_str(&format!("[{index}]")),
        }
    }
    out
}

/// The element of a list as a path names it.
pub(crate) fn item_seg(index: usize, item: &Json) -> PathSegment {
    PathSegment::Item { index, name: item.get("name").and_then(Json::as_str).map(str::to_owned) }
}
