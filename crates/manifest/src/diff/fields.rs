//! Differences field by field.

use std::collections::{HashMap, HashSet};
use std::fmt;

use serde_json::{Map, Value};

use crate::schema::{ListKind, TypeRef};

/// The change of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum ChangeKind {
    Added(Value),
    Removed(Value),
    Modified {
        old: Value,
        new: Value,
    },
    /// A list has the same items in another order.
    Reordered,
}

/// One field that differs; prints as `spec.replicas: 2 → 3`.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    /// `spec.containers[name=web].image`
    pub path: String,
    pub kind: ChangeKind,
}

impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            ChangeKind::Added(value) => write!(f, "{}: + {value}", self.path),
            ChangeKind::Removed(value) => write!(f, "{}: - {value}", self.path),
            ChangeKind::Modified { old, new } => write!(f, "{}: {old} → {new}", self.path),
            ChangeKind::Reordered => write!(f, "{}: reordered", self.path),
        }
    }
}

pub(super) fn compare_fields(
    old: Option<&Value>,
    new: Option<&Value>,
    kind: Option<TypeRef<'_>>,
) -> Vec<FieldChange> {
    let mut changes = Vec::new();
    collect_changes(old, new, kind, "", &mut changes);
    changes
}

fn collect_changes(
    old: Option<&Value>,
    new: Option<&Value>,
    kind: Option<TypeRef<'_>>,
    path: &str,
    changes: &mut Vec<FieldChange>,
) {
    let change = |kind: ChangeKind| FieldChange { path: path.to_owned(), kind };
    match (old, new) {
        (None, None) => {}
        (None, Some(new)) => changes.push(change(ChangeKind::Added(new.clone()))),
        (Some(old), None) => changes.push(change(ChangeKind::Removed(old.clone()))),
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(old)), Some(Value::Object(new))) => compare_maps(old, new, kind, path, changes),
        (Some(Value::Array(old)), Some(Value::Array(new))) => compare_lists(old, new, kind, path, changes),
        (Some(old), Some(new)) => {
            changes.push(change(ChangeKind::Modified { old: old.clone(), new: new.clone() }));
        }
    }
}

/// Adds a key to a path, quoted when it would not read as one name.
fn join_key(path: &str, key: &str) -> String {
    if key.is_empty() || key.contains(['.', '/', '[', ']', ' ', '"']) {
        return format!("{path}[{key:?}]");
    }
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn compare_maps(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    kind: Option<TypeRef<'_>>,
    path: &str,
    changes: &mut Vec<FieldChange>,
) {
    let child = |key: &str| kind.and_then(|kind| kind.child(key));
    for (key, value) in new {
        collect_changes(old.get(key), Some(value), child(key), &join_key(path, key), changes);
    }
    for (key, value) in old.iter().filter(|(key, _)| !new.contains_key(*key)) {
        collect_changes(Some(value), None, child(key), &join_key(path, key), changes);
    }
}

fn compare_lists(
    old: &[Value],
    new: &[Value],
    kind: Option<TypeRef<'_>>,
    path: &str,
    changes: &mut Vec<FieldChange>,
) {
    let item = kind.and_then(TypeRef::item);
    let Some(keys) = list_keys(old, new, kind) else {
        for index in 0..old.len().max(new.len()) {
            collect_changes(old.get(index), new.get(index), item, &format!("{path}[{index}]"), changes);
        }
        return;
    };
    let name = |item: &Value| -> String {
        let parts: Vec<String> = keys
            .iter()
            .filter_map(|key| {
                let value = item.get(key)?;
                Some(format!("{key}={}", value.as_str().map_or_else(|| value.to_string(), str::to_owned)))
            })
            .collect();
        parts.join(",")
    };
    let before: HashMap<String, &Value> = old.iter().map(|item| (name(item), item)).collect();
    let mut kept = HashSet::new();
    for value in new {
        let name = name(value);
        collect_changes(before.get(&name).copied(), Some(value), item, &format!("{path}[{name}]"), changes);
        kept.insert(name);
    }
    for value in old {
        let name = name(value);
        if !kept.contains(&name) {
            collect_changes(Some(value), None, item, &format!("{path}[{name}]"), changes);
        }
    }
    let order_before: Vec<String> = old.iter().map(name).filter(|name| kept.contains(name)).collect();
    let order_after: Vec<String> = new.iter().map(name).filter(|name| before.contains_key(name)).collect();
    if order_before != order_after {
        changes.push(FieldChange { path: path.to_owned(), kind: ChangeKind::Reordered });
    }
}

/// The fields that tell list items apart: those of the type, or `name` where every item has one of its own.
fn list_keys(old: &[Value], new: &[Value], kind: Option<TypeRef<'_>>) -> Option<Vec<String>> {
    let unique = |keys: &[String]| {
        [old, new].into_iter().all(|items| {
            let mut seen = HashSet::new();
            items.iter().all(|item| {
                let parts: Vec<String> =
                    keys.iter().filter_map(|key| item.get(key).map(Value::to_string)).collect();
                !parts.is_empty() && seen.insert(parts)
            })
        })
    };
    let list = kind.and_then(TypeRef::as_list);
    if let Some(ListKind::Map(keys)) = list.map(|list| &list.kind)
        && unique(keys)
    {
        return Some(keys.clone());
    }
    let by_name = vec!["name".to_owned()];
    unique(&by_name).then_some(by_name)
}
