//! The three patch formats Kubernetes accepts, applied and created.
//!
//! [`json`] is RFC 6902 as Kubernetes' library does it, [`merge`] is RFC 7386, [`strategic`] merges
//! lists by key where the schema says how. Problem texts are those a user of kubectl knows.

pub mod json;
pub mod merge;
mod order;
pub mod strategic;
mod strategic_create;

use serde_json::Value;

use crate::depth::TooDeep;

/// The reason a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
    /// The patch itself is not well formed.
    #[error("{0}")]
    Malformed(String),
    /// The patch does not fit the object.
    #[error("{0}")]
    DoesNotApply(String),
    /// A test of a JSON patch found something else at this path.
    #[error("testing value {0} failed: test failed")]
    TestFailed(String),
}

/// Prints a value as Go's `%v` does: `map[a:1 b:[x y]]`.
pub(crate) fn go_value(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(go_value).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let mut pairs: Vec<_> = map.iter().collect();
            pairs.sort_by(|a, b| a.0.cmp(b.0));
            let pairs: Vec<_> =
                pairs.into_iter().map(|(key, value)| format!("{key}:{}", go_value(value))).collect();
            format!("map[{}]", pairs.join(" "))
        }
        other => other.to_string(),
    }
}
