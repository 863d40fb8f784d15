//! What changed between two values of a type.

use std::collections::HashMap;

use serde_json::Value;

use super::merging::same;
use super::typed::{Form, form, item_element};
use crate::fields::{PathElement, Set};
use crate::schema::{ListKind, TypeRef};

/// The paths that differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }
}

/// Compares two values. A map or list that is new is added itself, and so is what is in it.
pub fn compare(old: &Value, new: &Value, kind: TypeRef<'_>) -> Comparison {
    Node::of(Some(old), Some(new), kind).below
}

/// What happened at a place and below it.
#[derive(Default)]
struct Node {
    removed: bool,
    modified: bool,
    added: bool,
    below: Comparison,
}

impl Node {
    fn of(old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> Node {
        let forms = (old.map(|old| form(old, kind)), new.map(|new| form(new, kind)));
        let below = match forms {
            // Nothing and empty are told apart only as leaves.
            (old_form, new_form) if is_empty(old_form.as_ref()) && is_empty(new_form.as_ref()) => None,
            (Some(Form::Map { atomic: true, .. }), _) | (_, Some(Form::Map { atomic: true, .. })) => None,
            (Some(Form::List { kind: ListKind::Atomic, .. }), _)
            | (_, Some(Form::List { kind: ListKind::Atomic, .. })) => None,
            (None | Some(Form::Map { .. }), None | Some(Form::Map { .. })) => Some(maps(old, new, kind)),
            (None | Some(Form::List { .. }), None | Some(Form::List { .. })) => Some(lists(old, new, kind)),
            _ => None,
        };
        let mut node = Node { removed: new.is_none(), added: old.is_none(), ..Node::default() };
        match below {
            Some(below) => node.below = below,
            None => node.modified = matches!((old, new), (Some(old), Some(new)) if !same(old, new)),
        }
        node
    }
}

fn is_empty(form: Option<&Form<'_, '_>>) -> bool {
    match form {
        None => true,
        Some(Form::Leaf) => false,
        Some(Form::Map { map, .. }) => map.is_none_or(serde_json::Map::is_empty),
        Some(Form::List { list, .. }) => list.is_none_or(<[Value]>::is_empty),
    }
}

#[derive(Default)]
struct Parts {
    removed: Vec<(PathElement, bool, Set)>,
    modified: Vec<(PathElement, bool, Set)>,
    added: Vec<(PathElement, bool, Set)>,
}

impl Parts {
    fn push(&mut self, element: PathElement, node: Node) {
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
            removed: Set::from_parts(self.removed),
            modified: Set::from_parts(self.modified),
            added: Set::from_parts(self.added),
        }
    }
}

fn maps(old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> Comparison {
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let mut parts = Parts::default();
    for (key, before) in old.into_iter().flatten() {
        let child = kind.child(key).unwrap_or(TypeRef::anything());
        parts.push(PathElement::field(key), Node::of(Some(before), new.and_then(|new| new.get(key)), child));
    }
    for (key, after) in new.into_iter().flatten() {
        if old.is_none_or(|old| !old.contains_key(key)) {
            let child = kind.child(key).unwrap_or(TypeRef::anything());
            parts.push(PathElement::field(key), Node::of(None, Some(after), child));
        }
    }
    parts.finish()
}

fn lists(old: Option<&Value>, new: Option<&Value>, kind: TypeRef<'_>) -> Comparison {
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
    let mut parts = Parts::default();
    for element in order {
        let Some((before, after)) = items.get(&element) else { continue };
        let node = match (before.as_slice(), after.as_slice()) {
            ([], [new]) => Node::of(None, Some(new), item),
            ([old], []) => Node::of(Some(old), None, item),
            ([old], [new]) => Node::of(Some(old), Some(new), item),
            ([], _) => Node { added: true, ..Node::default() },
            (_, []) => Node { removed: true, ..Node::default() },
            (old, new) => Node {
                modified: old.len() != new.len() || !old.iter().zip(new).all(|(a, b)| same(a, b)),
                ..Node::default()
            },
        };
        parts.push(element, node);
    }
    parts.finish()
}
