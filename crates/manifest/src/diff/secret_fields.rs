//! The annotation that names the fields of an object that hold secrets. It says where each value comes from, never the
//! value.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::object;

/// The annotation, a map from the way to a field (a JSON pointer, `name=…` for the named item of a list) to the origin
/// of its value.
pub const SECRET_FIELDS: &str = "slipway.dev/secret-fields";

/// The most bytes of the annotation: a server takes 256 KiB of annotations an object, and others want some of them.
const LONGEST_MARK: usize = 64 * 1024;

/// The start of texts that stand for secrets which were not fetched.
pub const SENTINEL: &str = "⟦secret:";

/// The origin of a hidden value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SecretField {
    /// `vault app/db#password`
    From(String),
    /// Computed from a secret: a hash, a length, a part.
    Derived,
}

impl std::fmt::Display for SecretField {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::From(origin) => match origin.split_once(' ') {
                Some((provider, path)) => write!(f, "value supplied by {provider} path {path}"),
                None => write!(f, "value supplied by {origin}"),
            },
            Self::Derived => f.write_str("value derived from a secret"),
        }
    }
}

/// The fields of one object that hold secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SecretFields(BTreeMap<Vec<String>, SecretField>);

impl SecretFields {
    /// Adds a field; one that holds a secret itself is not said to be derived from one.
    pub fn insert(&mut self, path: Vec<String>, origin: SecretField) {
        let known = self.0.entry(path).or_insert_with(|| origin.clone());
        if *known == SecretField::Derived {
            *known = origin;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&[String], &SecretField)> {
        self.0.iter().map(|(path, origin)| (path.as_slice(), origin))
    }

    /// Names parents instead of their fields, those with the most to say first, until the annotation is short enough.
    fn shortened(mut self) -> Self {
        let size = |path: &[String], origin: &SecretField| {
            let origin = if let SecretField::From(origin) = origin { origin.len() } else { 0 };
            path.iter().map(|step| step.len() + 1).sum::<usize>() + origin + 6
        };
        while self.iter().map(|(path, origin)| size(path, origin)).sum::<usize>() > LONGEST_MARK {
            let mut parents: BTreeMap<&[String], usize> = BTreeMap::new();
            for (path, origin) in self.iter() {
                if let [parent @ .., _] = path
                    && !parent.is_empty()
                {
                    *parents.entry(parent).or_default() += size(path, origin);
                }
            }
            let largest =
                parents.into_iter().max_by_key(|(_, size)| *size).map(|(parent, _)| parent.to_vec());
            let Some(parent) = largest else { break };
            self.0.retain(|path, _| !path.starts_with(&parent));
            self.insert(parent, SecretField::Derived);
        }
        self
    }

    /// Writes the annotation; an object without secrets stays as it is.
    pub fn annotate(self, object: &mut Value) {
        if self.is_empty() || !object.is_object() {
            return;
        }
        let text = |(path, origin): (&[String], &SecretField)| {
            let pointer: String = path.iter().map(|step| format!("/{}", escape(step))).collect();
            let origin = match origin {
                SecretField::From(origin) => origin.as_str(),
                SecretField::Derived => "",
            };
            (pointer, Value::from(origin))
        };
        let fields: Map<String, Value> = self.shortened().iter().map(text).collect();
        for key in ["metadata", "annotations"].iter().scan(String::new(), |path, key| {
            path.push('/');
            path.push_str(key);
            Some(path.clone())
        }) {
            let (parent, last) = key.rsplit_once('/').unwrap_or_default();
            if let Some(Value::Object(parent)) = object.pointer_mut(parent)
                && !parent.get(last).is_some_and(Value::is_object)
            {
                parent.insert(last.to_owned(), json!({}));
            }
        }
        if let Some(annotations) = object.pointer_mut("/metadata/annotations") {
            annotations[SECRET_FIELDS] = Value::Object(fields).to_string().into();
        }
    }

    /// Reads the annotation of an object: none if it has none, an error if it cannot be read.
    pub fn of(object: &Value) -> Result<Self, UnreadableMark> {
        let Some(text) = object::annotation(object, SECRET_FIELDS) else { return Ok(Self::default()) };
        let fields: BTreeMap<String, String> = serde_json::from_str(text).map_err(|_| UnreadableMark)?;
        let mut all = Self::default();
        for (pointer, origin) in fields {
            let path = pointer.split('/').skip(1).map(unescape).collect();
            let origin = if origin.is_empty() { SecretField::Derived } else { SecretField::From(origin) };
            all.insert(path, origin);
        }
        Ok(all)
    }
}

/// An annotation that is not as we write it: then the whole object is hidden.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the annotation {SECRET_FIELDS} cannot be read")]
pub struct UnreadableMark;

fn escape(step: &str) -> String {
    step.replace('~', "~0").replace('/', "~1")
}

fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The step to an item of a list: its name, where it has one, since others may come to stand before it.
pub fn item_step(index: usize, item: &Value) -> String {
    match item.get("name").and_then(Value::as_str) {
        Some(name) => format!("name={name}"),
        None => index.to_string(),
    }
}

/// The field of an object at a path of steps.
pub fn field_mut<'v>(object: &'v mut Value, path: &[String]) -> Option<&'v mut Value> {
    path.iter().try_fold(object, |node, step| match node {
        Value::Object(fields) => fields.get_mut(step),
        Value::Array(items) => {
            let position = items.iter().enumerate().position(|(index, item)| item_step(index, item) == *step);
            items.get_mut(position.or_else(|| step.parse().ok())?)
        }
        _ => None,
    })
}

/// Gives fields that are not known here the value they have in an earlier state, where it comes from the same place
/// there. What is derived from a secret counts as known if everything else that names a secret is.
pub fn keep_known(object: &mut Value, earlier: &Value) {
    let (Ok(wanted), Ok(known)) = (SecretFields::of(object), SecretFields::of(earlier)) else { return };
    if wanted != known {
        return;
    }
    let mut earlier = earlier.clone();
    for (path, _) in wanted.iter() {
        if let (Some(field), Some(value)) = (field_mut(object, path), field_mut(&mut earlier, path)) {
            *field = value.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_with_very_many_secrets_keeps_a_short_mark() {
        let mut object = json!({"kind": "ConfigMap", "data": {}});
        let mut fields = SecretFields::default();
        for number in 0..10_000 {
            let path = vec!["data".to_owned(), format!("key-{number}")];
            fields.insert(path, SecretField::From(format!("vault app/{number}#password")));
        }
        let other = vec!["metadata".to_owned(), "annotations".to_owned(), "sum".to_owned()];
        fields.insert(other.clone(), SecretField::Derived);
        fields.annotate(&mut object);
        assert!(object["metadata"]["annotations"][SECRET_FIELDS].as_str().unwrap().len() <= LONGEST_MARK);
        let read = SecretFields::of(&object).unwrap();
        let named: Vec<Vec<String>> = read.iter().map(|(path, _)| path.to_vec()).collect();
        assert_eq!(named, [vec!["data".to_owned()], other], "the mapping as a whole is hidden");
    }
}
