//! Taint: which fields of rendered objects carry a secret, found by comparing two renders in memory.
//!
//! One render has sentinels in the place of secrets, the other the secrets themselves. A field that shows a
//! sentinel comes from that secret; a field that only differs (a hash, a length, a part) is derived from one.
//! Objects that exist in one render alone mean that a secret decides what is deployed, which is refused.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::digest::hmac_sha256;
use crate::sentinel::{SecretOrigin, sentinel_origin};

/// The way to a field: keys and indexes.
pub type FieldPath = Vec<String>;

/// The reason a field is not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaintOrigin {
    /// It holds a secret.
    Secret(SecretOrigin),
    /// It depends on a secret.
    Derived,
}

impl std::fmt::Display for TaintOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Secret(origin) => origin.fmt(f),
            Self::Derived => f.write_str("value derived from a secret"),
        }
    }
}

/// The tainted fields of one object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectTaint(BTreeMap<FieldPath, TaintOrigin>);

impl ObjectTaint {
    /// Compares two renders of one object.
    pub fn compare(masked: &Value, resolved: &Value) -> Self {
        let mut taint = Self::default();
        taint.walk(masked, Some(resolved), &mut Vec::new());
        taint
    }

    /// The fields that show a sentinel, where only the masked render is at hand.
    pub fn of_masked(masked: &Value) -> Self {
        let mut taint = Self::default();
        taint.walk(masked, None, &mut Vec::new());
        taint
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&FieldPath, &TaintOrigin)> {
        self.0.iter()
    }

    /// Replaces every tainted field by where its value comes from.
    pub fn mask(&self, object: &mut Value) {
        for (path, origin) in &self.0 {
            let field = path.iter().try_fold(&mut *object, |node, segment| match node {
                Value::Object(fields) => fields.get_mut(segment),
                Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get_mut(index)),
                _ => None,
            });
            if let Some(field) = field {
                *field = Value::String(format!("({origin})"));
            }
        }
    }

    fn walk(&mut self, masked: &Value, resolved: Option<&Value>, path: &mut FieldPath) {
        match (masked, resolved) {
            (Value::Object(fields), None) => {
                for (key, field) in fields {
                    self.step(key.clone(), field, None, path);
                }
            }
            (Value::Array(items), None) => {
                for (index, item) in items.iter().enumerate() {
                    self.step(index.to_string(), item, None, path);
                }
            }
            (Value::Object(fields), Some(Value::Object(others))) => {
                for (key, field) in fields {
                    match others.get(key) {
                        Some(other) => self.step(key.clone(), field, Some(other), path),
                        None => self.mark([path.clone(), vec![key.clone()]].concat(), TaintOrigin::Derived),
                    }
                }
                for key in others.keys().filter(|key| !fields.contains_key(*key)) {
                    self.mark([path.clone(), vec![key.clone()]].concat(), TaintOrigin::Derived);
                }
            }
            (Value::Array(items), Some(Value::Array(others))) if items.len() == others.len() => {
                for (index, (item, other)) in items.iter().zip(others).enumerate() {
                    self.step(index.to_string(), item, Some(other), path);
                }
            }
            (Value::String(text), other) => match sentinel_origin(text) {
                Some(origin) => self.mark(path.clone(), TaintOrigin::Secret(origin)),
                None if other.is_some_and(|other| other != masked) => {
                    self.mark(path.clone(), TaintOrigin::Derived);
                }
                None => {}
            },
            (one, Some(other)) if one != other => self.mark(path.clone(), TaintOrigin::Derived),
            _ => {}
        }
    }

    fn step(&mut self, segment: String, masked: &Value, resolved: Option<&Value>, path: &mut FieldPath) {
        path.push(segment);
        self.walk(masked, resolved, path);
        path.pop();
    }

    fn mark(&mut self, path: FieldPath, origin: TaintOrigin) {
        self.0.insert(path, origin);
    }
}

/// Objects of one render that the other does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a secret value changes which objects exist ({})", .names.join(", "))]
pub struct ObjectSetDiffers {
    /// `Kind/name`, or `Kind namespace/name`.
    pub names: Vec<String>,
}

/// Compares two renders of a release, object by object, in the order of the masked one.
pub fn compare_renders(masked: &[Value], resolved: &[Value]) -> Result<Vec<ObjectTaint>, ObjectSetDiffers> {
    let mut others: BTreeMap<String, Vec<&Value>> = BTreeMap::new();
    for object in resolved.iter().rev() {
        others.entry(identity(object)).or_default().push(object);
    }
    let mut names = Vec::new();
    let mut taints = Vec::new();
    for object in masked {
        match others.get_mut(&identity(object)).and_then(Vec::pop) {
            Some(other) => taints.push(ObjectTaint::compare(object, other)),
            None => names.push(shown(object)),
        }
    }
    // A name that is itself a secret is not repeated: the resolved render's objects are counted by kind.
    let left =
        others.values().flatten().map(|object| format!("{} of the resolved render", text(object, "/kind")));
    names.extend(left);
    if names.is_empty() { Ok(taints) } else { Err(ObjectSetDiffers { names }) }
}

fn text<'v>(object: &'v Value, pointer: &str) -> &'v str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn identity(object: &Value) -> String {
    ["/apiVersion", "/kind", "/metadata/namespace", "/metadata/name"]
        .map(|part| text(object, part))
        .join("\0")
}

fn shown(object: &Value) -> String {
    let (kind, name) = (text(object, "/kind"), text(object, "/metadata/name"));
    match text(object, "/metadata/namespace") {
        "" => format!("{kind}/{name}"),
        namespace => format!("{kind} {namespace}/{name}"),
    }
}

/// Tells whether two secret values are equal without keeping either: keyed hashes under a key of this process.
#[derive(Clone)]
pub struct FingerprintKey([u8; 32]);

/// A keyed hash; worthless outside of the process that made it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

impl FingerprintKey {
    /// A new random key.
    pub fn random() -> Self {
        Self(rand::random())
    }

    pub fn fingerprint(&self, value: &Value) -> Fingerprint {
        Fingerprint(hmac_sha256(&self.0, value.to_string().as_bytes()))
    }
}

/// The change of one masked field between two states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaskedChange {
    Added,
    Removed,
    Changed,
    Unchanged,
}

impl MaskedChange {
    /// Compares two states of a field without showing either.
    pub fn between(key: &FingerprintKey, old: Option<&Value>, new: Option<&Value>) -> Option<Self> {
        Some(match (old, new) {
            (None, None) => return None,
            (None, Some(_)) => Self::Added,
            (Some(_), None) => Self::Removed,
            (Some(old), Some(new)) if key.fingerprint(old) == key.fingerprint(new) => Self::Unchanged,
            (Some(_), Some(_)) => Self::Changed,
        })
    }
}

impl std::fmt::Display for MaskedChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
            Self::Unchanged => "unchanged",
        })
    }
}
