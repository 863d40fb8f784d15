//! Lists: a JSON array as it stands, or values that were computed.

use std::sync::Arc;

use serde_json::Value as Json;

use super::Value;

/// A list.
#[derive(Clone, Debug)]
pub enum List<'a> {
    Json(&'a [Json]),
    Values(Arc<[Value<'a>]>),
}

impl<'a> List<'a> {
    /// Number of elements.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(items) => items.len(),
            Self::Values(items) => items.len(),
        }
    }

    /// Returns true if it has no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The element at an index from 0.
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        match self {
            Self::Json(items) => items.get(index).map(Value::from_json),
            Self::Values(items) => items.get(index).cloned(),
        }
    }

    /// The elements in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Value<'a>> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}
