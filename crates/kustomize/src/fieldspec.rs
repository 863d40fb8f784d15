//! Field specifications: which field of which kind a transformer touches.

use serde_json::{Map, Value};

use crate::id::Gvk;
use crate::resource::{ObjectStep, Resource};

/// A field of some kinds, named by a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldSpec {
    /// Empty parts mean any.
    pub(crate) gvk: Gvk,
    pub(crate) path: Vec<String>,
    /// True if missing parts of the path are made.
    pub(crate) create: bool,
}

/// The value made at the end of a path that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LeafKind {
    Mapping,
    Scalar,
}

/// A path leads through something that has no fields.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotAContainer {
    pub(crate) field: String,
}

impl FieldSpec {
    /// Reads `a/b/c`; `\/` is a slash inside a name.
    pub(crate) fn new(gvk: Gvk, path: &str, create: bool) -> Self {
        Self { gvk, path: split_path(path), create }
    }

    pub(crate) fn applies_to(&self, gvk: &Gvk) -> bool {
        gvk.is_selected_by(&self.gvk)
    }

    pub(crate) fn is_name(&self) -> bool {
        self.path == ["metadata", "name"]
    }

    /// Calls `set` with every value the path leads to in `resource`, which is of a fitting kind.
    pub(crate) fn visit_values(
        &self,
        resource: &mut Resource,
        leaf: LeafKind,
        set: &mut dyn FnMut(&mut Value),
    ) -> Result<(), NotAContainer> {
        self.step_map(&mut resource.value, &self.path, leaf, set)
    }

    /// The places [`FieldSpec::each`] leads to in what is there, in the same order.
    pub(crate) fn find_places(&self, resource: &Resource) -> Vec<Vec<ObjectStep>> {
        let mut open: Vec<(Option<&Value>, Vec<ObjectStep>)> = vec![(None, Vec::new())];
        for name in &self.path {
            let name = name.strip_suffix("[]").unwrap_or(name);
            let mut next = Vec::new();
            for (value, path) in open {
                let mut maps = Vec::new();
                match value {
                    None => maps.push((&resource.value, path)),
                    Some(value) => maps_in(value, path, &mut maps),
                }
                for (map, mut path) in maps {
                    if let Some(value) = map.get(name) {
                        path.push(ObjectStep::Field(name.to_owned()));
                        next.push((Some(value), path));
                    }
                }
            }
            open = next;
        }
        open.into_iter().map(|(_, path)| path).collect()
    }

    fn step_map(
        &self,
        map: &mut Map<String, Value>,
        path: &[String],
        leaf: LeafKind,
        set: &mut dyn FnMut(&mut Value),
    ) -> Result<(), NotAContainer> {
        let Some((first, rest)) = path.split_first() else { return Ok(()) };
        let (name, list) = match first.strip_suffix("[]") {
            Some(name) => (name, true),
            None => (first.as_str(), false),
        };
        let absent = map.get(name).is_none_or(Value::is_null);
        if absent {
            if list && map.get(name).is_some() {
                // What is said to be a list is one, even without any value.
                map.insert(name.to_owned(), Value::Array(Vec::new()));
            }
            if !self.create || list {
                return Ok(());
            }
            let made = match (rest.is_empty(), leaf) {
                (true, LeafKind::Scalar) => Value::String(String::new()),
                _ => Value::Object(Map::new()),
            };
            map.insert(name.to_owned(), made);
        }
        match map.get_mut(name) {
            Some(value) => self.step_value(value, name, rest, leaf, set),
            None => Ok(()),
        }
    }

    fn step_value(
        &self,
        value: &mut Value,
        name: &str,
        rest: &[String],
        leaf: LeafKind,
        set: &mut dyn FnMut(&mut Value),
    ) -> Result<(), NotAContainer> {
        if rest.is_empty() {
            set(value);
            return Ok(());
        }
        match value {
            Value::Object(map) => self.step_map(map, rest, leaf, set),
            Value::Array(list) => {
                list.iter_mut().try_for_each(|element| self.step_value(element, name, rest, leaf, set))
            }
            Value::Null => Ok(()),
            _ => Err(NotAContainer { field: name.to_owned() }),
        }
    }
}

/// The mapping a value is, or those in the list it is.
fn maps_in<'v>(
    value: &'v Value,
    path: Vec<ObjectStep>,
    found: &mut Vec<(&'v Map<String, Value>, Vec<ObjectStep>)>,
) {
    match value {
        Value::Object(map) => found.push((map, path)),
        Value::Array(list) => {
            for (at, element) in list.iter().enumerate() {
                let mut path = path.clone();
                path.push(ObjectStep::Element(at));
                maps_in(element, path, found);
            }
        }
        _ => {}
    }
}

/// Splits at slashes that are not escaped.
fn split_path(path: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut letters = path.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some('/')) => {
                letters.next();
                if let Some(part) = parts.last_mut() {
                    part.push('/');
                }
            }
            ('/', _) => parts.push(String::new()),
            (letter, _) => {
                if let Some(part) = parts.last_mut() {
                    part.push(letter);
                }
            }
        }
    }
    if parts.len() > 1 && parts[0].is_empty() {
        parts.remove(0);
    }
    parts
}
