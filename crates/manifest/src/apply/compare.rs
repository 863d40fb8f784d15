//! Compares two values of a type.

use std::collections::HashMap;

use serde_json::Value;

use super::merging::is_same_value;
use super::typed::{TypedValue, item_element, typed_value};
use crate::fields::{FieldSet, PathElement};
use crate::schema::{ListKind, TypeRef};

/// The paths that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: FieldSet,
    pub modified: FieldSet,
    pub added: FieldSet,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }
}

/// Compares two values. A map or list that is new is added itself, and so is what is in it.
pub fn compare(old: &Value, new: &Value, kind: TypeRef<'_>) -> Comparison {
    ComparedNode::compare_at(Some(old), Some(new), kind).below
}

/// The change of one value, and the changes below it.
#[derive(Default)]
struct ComparedNode {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

impl ComparedNode {
    fn compare_at(old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> ComparedNode {
        let forms = (old.map(|old| typed_value(old, kind)), new.map(|new| typed_value(new, kind)));
        let below = match forms {
            // Absent and empty differ only as leaves.
            (old_form, new_form) if is_empty(old_form.as_ref()) && is_empty(new_form.as_ref()) => None,
            (Some(TypedValue::Map { atomic: true, .. }), _)
            | (_, Some(TypedValue::Map { atomic: true, .. })) => None,
            (Some(TypedValue::List { kind: ListKind::Atomic, .. }), _)
            | (_, Some(TypedValue::List { kind: ListKind::Atomic, .. })) => None,
            (None | Some(TypedValue::Map { .. }), None | Some(TypedValue::Map { .. })) => {
                Some(compare_maps(old, new, kind))
            }
            (None | Some(TypedValue::List { .. }), None | Some(TypedValue::List { .. })) => {
                Some(compare_lists(old, new, kind))
            }
            _ => None,
        };
        let mut node =
            ComparedNode { removed: new.is_none(), added: old.is_none(), ..ComparedNode::default() };
        match below {
            Some(below) => node.below = below,
            None => node.modified = matches!((old, new), (Some(old), Some(new)) if !is_same_value(old, new)),
        }
        node
    }
}

fn is_empty(form: Option<&TypedValue<'_, '_>>) -> bool {
    match form {
        None => true,
        Some(TypedValue::Leaf) => false,
        Some(TypedValue::Map { map, .. }) => map.is_none_or(serde_json::Map::is_empty),
        Some(TypedValue::List { list, .. }) => list.is_none_or(<[Value]>::is_empty),
    }
}

#[derive(Default)]
struct ComparisonBuilder {
    removed: Vec<(PathElement, bool, FieldSet)>,
    modified: Vec<(PathElement, bool, FieldSet)>,
    added: Vec<(PathElement, bool, FieldSet)>,
}

impl ComparisonBuilder {
    fn add_node(&mut self, element: PathElement, node: ComparedNode) {
        for (parts, member, below) in [
            (&mut self.removed, node.removed, node.below.removed),
            (&mut self.modified, node.modified, node.below.modified),
            (&mut self.added, node.added, node.below.added),
        ] {
            if member || !below.is_empty() {
                parts.push((element.clone(), member, below));
            }
        }
    }

    fn finish(self) -> Comparison {
        Comparison {
            removed: FieldSet::from_parts(self.removed),
            modified: FieldSet::from_parts(self.modified),
            added: FieldSet::from_parts(self.added),
        }
    }
}

fn compare_maps(old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> Comparison {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let mut parts = ComparisonBuilder::default();
    for (key, before) in old.into_iter().flatten() {
        let child = kind.child(key).unwrap_or(TypeRef::anything());
        parts.add_node(
            PathElement::field(key),
            ComparedNode::compare_at(Some(before), new.and_then(|new| new.get(key)), child),
        );
    }
    for (key, after) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(key)) {
            let child = kind.child(key).unwrap_or(TypeRef::anything());
            parts.add_node(PathElement::field(key), ComparedNode::compare_at(None, Some(after), child));
        }
    }
    parts.finish()
}

fn compare_lists(old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> Comparison {
    let Some(list) = kind.as_list() else { return Comparison::default() };
    let item = kind.at(list.item);
    let mut order = Vec::new();
    let mut items: HashMap<PathElement, (Vec<&Value>, Vec<&Value>)> = HashMap::new();
    for (side, values) in [(0, old), (1, new)] {
        for value in values.and_then(Value::as_array).into_iter().flatten() {
            let Ok(element) = item_element(value, item, &list.kind) else { continue };
            let found = items.entry(element.clone()).or_insert_with(|| {
                order.push(element);
                (Vec::new(), Vec::new())
            });
            if side == 0 { found.0.push(value) } else { found.1.push(value) }
        }
    }
    let mut parts = ComparisonBuilder::default();
    for element in order {
        let Some((before, after)) = items.get(&element) else { continue };
        let node = match (before.as_slice(), after.as_slice()) {
            ([], [new]) => ComparedNode::compare_at(None, Some(new), item),
            ([old], []) => ComparedNode::compare_at(Some(old), None, item),
            ([old], [new]) => ComparedNode::compare_at(Some(old), Some(new), item),
            ([], _) => ComparedNode { added: true, ..ComparedNode::default() },
            (_, []) => ComparedNode { removed: true, ..ComparedNode::default() },
            (old, new) => ComparedNode {
                modified: old.len() != new.len() || !old.iter().zip(new).all(|(a, b)| is_same_value(a, b)),
                ..ComparedNode::default()
            },
        };
        parts.add_node(element, node);
    }
    parts.finish()
}
