//! What expressions of a node see.

use serde_json::Value;
use slipway_cel::{Bindings, Value as CelValue};

use crate::compile::Node;
use crate::functions::{DEPENDENCIES, READY, UPDATED};
use crate::memory::NodeMemory;

static NOTHING: std::sync::LazyLock<Value> =
    std::sync::LazyLock::new(|| Value::Object(serde_json::Map::new()));

/// The views of a node's dependencies; an optional one that is not there is an empty object.
pub(crate) fn dependencies<'a>(node: &'a Node, done: &'a [NodeMemory]) -> Bindings<'a> {
    let mut scope = Bindings::new();
    for id in node.dependencies.keys() {
        let view = done.iter().find(|memory| memory.id == *id).and_then(|memory| memory.view.as_deref());
        let view = view.unwrap_or(&NOTHING);
        scope.set(id, CelValue::from_json(view));
    }
    scope
}

/// Adds to a value how its node stands, for the functions that ask.
pub(crate) fn mark(mut value: Value, ready: Mark, updated: Mark) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.insert(READY.to_owned(), Value::Bool(ready == Mark::Yes));
        map.insert(UPDATED.to_owned(), Value::Bool(updated == Mark::Yes));
    }
    value
}

/// Whether something is said of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mark {
    Yes,
    No,
}

impl From<bool> for Mark {
    fn from(truth: bool) -> Self {
        if truth { Self::Yes } else { Self::No }
    }
}

/// Adds the views of a node's dependencies, for `dependencies()`.
pub(crate) fn with_dependencies(mut value: Value, node: &Node, done: &[NodeMemory]) -> Value {
    let views = node.dependencies.keys().filter_map(|id| {
        let memory = done.iter().find(|memory| memory.id == *id)?;
        memory.view.as_deref().cloned()
    });
    let views: Vec<Value> = views.collect();
    if let Some(map) = value.as_object_mut() {
        map.insert(DEPENDENCIES.to_owned(), Value::Array(views));
    }
    value
}

/// Takes away what [`mark`] added, wherever it was copied to.
pub(crate) fn unmark(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with('\u{0}'));
            map.values_mut().for_each(unmark);
        }
        Value::Array(items) => items.iter_mut().for_each(unmark),
        _ => {}
    }
}
