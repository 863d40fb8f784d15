//! The difference between two values, field by field.

use serde_json::Value as Json;

use crate::apply::PathSegment;

/// One field that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    pub path: Vec<PathSegment>,
    /// `None`: it was not there.
    pub old: Option<Json>,
    /// `None`: it is not there any more.
    pub new: Option<Json>,
}

/// The fields in which two values differ. List elements that carry names are compared by name.
pub fn changes(old: &Json, new: &Json) -> Vec<FieldChange> {
    let mut found = Vec::new();
    compare_values(old, new, &mut Vec::new(), &mut found);
    found
}

/// Depth is that of the values, which their readers limit.
fn compare_values(old: &Json, new: &Json, path: &mut Vec<PathSegment>, found: &mut Vec<FieldChange>) {
    if old == new {
        return;
    }
    match (old, new) {
        (Json::Object(a), Json::Object(b)) => {
            for (key, old) in a {
                path.push(PathSegment::Key(key.clone()));
                match b.get(key) {
                    Some(new) => compare_values(old, new, path, found),
                    None => found.push(FieldChange { path: path.clone(), old: Some(old.clone()), new: None }),
                }
                path.pop();
            }
            for (key, new) in b.iter().filter(|(key, _)| !a.contains_key(*key)) {
                path.push(PathSegment::Key(key.clone()));
                found.push(FieldChange { path: path.clone(), old: None, new: Some(new.clone()) });
                path.pop();
            }
        }
        (Json::Array(a), Json::Array(b)) => compare_lists(a, b, path, found),
        _ => found.push(FieldChange { path: path.clone(), old: Some(old.clone()), new: Some(new.clone()) }),
    }
}

/// The names of all elements, if each has one of its own.
fn element_names(items: &[Json]) -> Option<Vec<&str>> {
    let names: Vec<&str> =
        items.iter().map(|item| item.get("name").and_then(Json::as_str)).collect::<Option<_>>()?;
    let distinct: std::collections::HashSet<&str> = names.iter().copied().collect();
    (distinct.len() == names.len()).then_some(names)
}

fn compare_lists(a: &[Json], b: &[Json], path: &mut Vec<PathSegment>, found: &mut Vec<FieldChange>) {
    let item = |index: usize, name: Option<&str>| PathSegment::Item { index, name: name.map(str::to_owned) };
    if let (Some(old_names), Some(new_names)) = (element_names(a), element_names(b)) {
        let common = |names: &[&str], others: &[&str]| -> Vec<String> {
            let others: std::collections::HashSet<&str> = others.iter().copied().collect();
            names.iter().filter(|name| others.contains(**name)).map(|name| (*name).to_owned()).collect()
        };
        // A new order is a change of the list itself.
        if common(&old_names, &new_names) == common(&new_names, &old_names) {
            let positions: std::collections::HashMap<&str, usize> =
                new_names.iter().enumerate().map(|(index, name)| (*name, index)).collect();
            let known: std::collections::HashSet<&str> = old_names.iter().copied().collect();
            for (index, (old, name)) in a.iter().zip(&old_names).enumerate() {
                path.push(item(index, Some(name)));
                match positions.get(name) {
                    Some(&new) => compare_values(old, &b[new], path, found),
                    None => found.push(FieldChange { path: path.clone(), old: Some(old.clone()), new: None }),
                }
                path.pop();
            }
            for (index, (new, name)) in
                b.iter().zip(&new_names).enumerate().filter(|(_, (_, name))| !known.contains(**name))
            {
                path.push(item(index, Some(name)));
                found.push(FieldChange { path: path.clone(), old: None, new: Some(new.clone()) });
                path.pop();
            }
            return;
        }
    }
    if a.len() != b.len() {
        found.push(FieldChange {
            path: path.clone(),
            old: Some(Json::Array(a.to_vec())),
            new: Some(Json::Array(b.to_vec())),
        });
        return;
    }
    for (index, (old, new)) in a.iter().zip(b).enumerate() {
        path.push(item(index, None));
        compare_values(old, new, path, found);
        path.pop();
    }
}
