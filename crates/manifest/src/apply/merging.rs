//! Lays an applied configuration over a live object.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::typed::{TypedValue, item_element, typed_value};
use crate::fields::PathElement;
use crate::schema::{ListKind, TypeRef};

/// Merges `config` into `live`: the configuration wins, keyed lists are merged item by item, atomic
/// parts are replaced.
pub fn merge(live: &Value, config: &Value, kind: TypeRef<'_>) -> Value {
    match (typed_value(live, kind), typed_value(config, kind)) {
        (TypedValue::Map { map: Some(old), atomic: false, .. }, TypedValue::Map { map: Some(new), .. }) => {
            let mut merged = Map::with_capacity(old.len().max(new.len()));
            for (key, before) in old {
                let value = match (new.get(key), kind.child(key)) {
                    (Some(value), Some(child)) => merge(before, value, child),
                    (Some(value), None) => value.clone(),
                    (None, _) => before.clone(),
                };
                merged.insert(key.clone(), value);
            }
            for (key, value) in new.iter().filter(|(key, _)| !old.contains_key(*key)) {
                merged.insert(key.clone(), value.clone());
            }
            Value::Object(merged)
        }
        (
            TypedValue::List { list: Some(old), item, kind: list_kind @ (ListKind::Set | ListKind::Map(_)) },
            TypedValue::List { list: Some(new), .. },
        ) => Value::Array(merge_lists(old, new, item, list_kind)),
        // A null map or keyed list sets nothing: what is there stays.
        (TypedValue::Map { map: Some(old), atomic: false, .. }, TypedValue::Map { map: None, .. })
            if !old.is_empty() =>
        {
            live.clone()
        }
        // The same where anything may stand.
        (TypedValue::Map { map: Some(old), atomic: false, .. }, TypedValue::Leaf)
            if config.is_null() && !old.is_empty() =>
        {
            live.clone()
        }
        (
            TypedValue::List { list: Some(old), kind: ListKind::Set | ListKind::Map(_), .. },
            TypedValue::List { list: None, .. },
        ) if !old.is_empty() => live.clone(),
        _ => config.clone(),
    }
}

/// Merges keyed lists. Items of the configuration keep its order; items only the live list has keep
/// their place before or after the items both have.
fn merge_lists(old: &[Value], new: &[Value], item: TypeRef<'_>, list_kind: &ListKind) -> Vec<Value> {
    let name = |value: &Value| item_element(value, item, list_kind).ok();
    let old_names: Vec<Option<PathElement>> = old.iter().map(name).collect();
    let new_names: Vec<Option<PathElement>> = new.iter().map(name).collect();
    // A live item that stands twice cannot be merged with; the configuration replaces all of them.
    let mut live_items: HashMap<&PathElement, Option<&Value>> = HashMap::with_capacity(old.len());
    for (name, value) in old_names.iter().zip(old) {
        if let Some(name) = name {
            live_items.entry(name).and_modify(|found| *found = None).or_insert(Some(value));
        }
    }
    let wanted: HashSet<&PathElement> = new_names.iter().flatten().collect();
    let mut shared = new_names.iter().flatten().filter(|name| live_items.contains_key(name)).peekable();
    let mut done: HashSet<&PathElement> = HashSet::with_capacity(new.len());
    let mut merged = Vec::with_capacity(old.len().max(new.len()));
    let (mut i, mut j) = (0, 0);
    while i < old.len() || j < new.len() {
        if i < old.len() {
            let Some(name) = &old_names[i] else {
                merged.push(old[i].clone());
                i += 1;
                continue;
            };
            if !wanted.contains(name) {
                merged.push(old[i].clone());
                i += 1;
                continue;
            }
            let is_next = shared.peek().is_some_and(|next| *next == name);
            if done.contains(name) || (j < new.len() && !is_next) {
                // Merged already, or to be merged when the configuration comes to it.
                i += 1;
                continue;
            }
        }
        if j < new.len() {
            match &new_names[j] {
                Some(name) => {
                    done.insert(name);
                    merged.push(match live_items.get(name) {
                        Some(Some(before)) => merge(before, &new[j], item),
                        _ => new[j].clone(),
                    });
                    if shared.peek().is_some_and(|next| *next == name) {
                        shared.next();
                    }
                }
                None => merged.push(new[j].clone()),
            }
            j += 1;
        } else {
            i += 1;
        }
    }
    merged
}

/// Returns true if two values mean the same: numbers written differently are equal.
pub(super) fn is_same_value(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => {
            a == b || (a.as_f64() == b.as_f64() && (a.is_f64() || b.is_f64()))
        }
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_same_value(a, b))
        }
        (Value::Object(a), Value::Object(b)) => same_maps(a, b),
        _ => a == b,
    }
}

fn same_maps(a: &Map<String, Value>, b: &Map<String, Value>) -> bool {
    a.len() == b.len()
        && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| is_same_value(value, other)))
}
