//! Hides sensitive values behind placeholders that differ when the values do.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::sync::OnceLock;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Map, Value};
use sha2::Sha256;

use crate::object;

/// The parts of an object that may not be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sensitivity {
    None,
    Paths(Vec<SensitivePath>),
    /// All but its identity.
    Whole,
}

impl Sensitivity {
    /// The stricter of two.
    #[must_use]
    pub fn stricter_of(self, other: Sensitivity) -> Sensitivity {
        match (self, other) {
            (Sensitivity::Whole, _) | (_, Sensitivity::Whole) => Sensitivity::Whole,
            (Sensitivity::None, other) | (other, Sensitivity::None) => other,
            (Sensitivity::Paths(mut paths), Sensitivity::Paths(more)) => {
                paths.extend(more.into_iter().filter(|path| !paths.contains(path)).collect::<Vec<_>>());
                Sensitivity::Paths(paths)
            }
        }
    }
}

/// A path such as `$.spec.containers[*].env[*].value` or `$..password`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SensitivePath(Vec<PathStep>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum PathStep {
    Key(String),
    Every,
    Index(usize),
    /// Any number of levels down.
    Anywhere,
}

impl SensitivePath {
    /// Reads a path; `None` if it is not one.
    pub fn parse(text: &str) -> Option<Self> {
        let mut rest = text.trim().strip_prefix('$').unwrap_or(text.trim());
        let mut steps = Vec::new();
        if !rest.starts_with(['.', '[']) && !rest.is_empty() {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            steps.push(plain_key(&rest[..end])?);
            rest = &rest[end..];
        }
        while !rest.is_empty() {
            if let Some(bracket) = rest.strip_prefix('[') {
                let (step, after) = parse_bracket(bracket)?;
                steps.push(step);
                rest = after;
                continue;
            }
            let after = rest.strip_prefix('.')?;
            let after = match after.strip_prefix('.') {
                Some(after) => {
                    steps.push(PathStep::Anywhere);
                    after
                }
                None => after,
            };
            let end = after.find(['.', '[']).unwrap_or(after.len());
            // After a dot comes a name, or the bracket it stands for.
            if end > 0 {
                steps.push(plain_key(&after[..end])?);
            } else if !after.starts_with('[') {
                return None;
            }
            rest = &after[end..];
        }
        (!steps.is_empty()).then_some(Self(steps))
    }
}

/// Reads the content of brackets (an index, a star, a quoted or a plain name); gives the text after them.
fn parse_bracket(text: &str) -> Option<(PathStep, &str)> {
    let text = text.trim_start();
    if let Some(quote @ ('\'' | '"')) = text.chars().next() {
        let inner = &text[1..];
        let end = inner.find(quote).filter(|end| *end > 0)?;
        let after = inner[end + 1..].trim_start().strip_prefix(']')?;
        return Some((key_step(&inner[..end]), after));
    }
    let (inner, after) = text.split_once(']')?;
    let inner = inner.trim();
    let step = inner.parse().map(PathStep::Index).ok().or_else(|| plain_key(inner))?;
    Some((step, after))
}

/// A name without quotes, or the star; anything of another language of paths is neither.
fn plain_key(text: &str) -> Option<PathStep> {
    let is_plain = |c: char| c.is_alphanumeric() || "-_/~:".contains(c);
    (text == "*" || !text.is_empty() && text.chars().all(is_plain)).then(|| key_step(text))
}

fn key_step(text: &str) -> PathStep {
    if text == "*" { PathStep::Every } else { PathStep::Key(text.to_owned()) }
}

const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Finds out what of an object is sensitive: what its annotations say, or the values of a Secret.
pub fn sensitivity_of(object: &Value) -> Sensitivity {
    if let Some(paths) = object::annotation(object, "werf.io/sensitive-paths") {
        let parsed: Option<Vec<SensitivePath>> =
            paths.split(',').filter(|path| !path.trim().is_empty()).map(SensitivePath::parse).collect();
        // A path that cannot be read must not reveal what it meant to hide.
        return parsed.map_or(Sensitivity::Whole, Sensitivity::Paths);
    }
    match object::annotation(object, "werf.io/sensitive") {
        Some("false") => return Sensitivity::None,
        Some(_) => return Sensitivity::Whole,
        None => {}
    }
    let gvk = object::gvk(object);
    if gvk.group.is_empty() && gvk.kind == "Secret" {
        let paths = ["data.*", "stringData.*"].into_iter().filter_map(SensitivePath::parse);
        return Sensitivity::Paths(paths.collect());
    }
    Sensitivity::None
}

/// Replaces sensitive values by placeholders keyed with a secret, so that short values cannot be found by
/// trying. Equal values have equal placeholders under one key; take a fresh key for every run.
#[derive(Clone)]
pub struct ValueRedactor {
    key: Vec<u8>,
}

impl std::fmt::Debug for ValueRedactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Redactor(…)")
    }
}

impl ValueRedactor {
    pub fn new(key: impl Into<Vec<u8>>) -> Self {
        Self { key: key.into() }
    }

    /// Hides with a key that nobody knows: it is drawn once in a process and never leaves it. Equal values
    /// look equal throughout a run, and nothing shown in it helps to find a weak value by trying.
    pub fn per_run() -> Self {
        static KEY: OnceLock<Vec<u8>> = OnceLock::new();
        // Its hashers are keyed with 128 bits of the system's randomness.
        let source = RandomState::new();
        let drawn = || [1_u8, 2].iter().flat_map(|part| source.hash_one(part).to_ne_bytes()).collect();
        Self { key: KEY.get_or_init(drawn).clone() }
    }

    /// Hides what is sensitive.
    pub fn redact_object(&self, object: Value, sensitivity: &Sensitivity) -> Value {
        match sensitivity {
            Sensitivity::None => object,
            Sensitivity::Whole => identity_only(&object, |value| self.placeholder(value)),
            Sensitivity::Paths(paths) => {
                let mut object = object;
                for path in paths {
                    self.redact_at(&mut object, &path.0);
                }
                // It repeats the whole manifest.
                if let Some(last) =
                    object.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(LAST_APPLIED))
                {
                    *last = self.placeholder(last);
                }
                object
            }
        }
    }

    /// The placeholder of a value: `<hidden 8 sensitive bytes, hash 0a1b2c3d4e5f>`.
    pub fn placeholder(&self, value: &Value) -> Value {
        let (size, unit, raw) = match value {
            Value::String(text) => (text.len(), "bytes", text.clone()),
            Value::Array(items) => (items.len(), "entries", canonical_text(value)),
            Value::Object(map) => (map.len(), "entries", canonical_text(value)),
            other => (other.to_string().len(), "bytes", other.to_string()),
        };
        Value::String(format!("<hidden {size} sensitive {unit}, hash {}>", self.keyed_hash(raw.as_bytes())))
    }

    /// Returns twelve digits that stand for hidden bytes under this key.
    pub fn keyed_hash(&self, data: &[u8]) -> String {
        // HMAC takes keys of any length; should it ever not, nothing is revealed.
        let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(&self.key) else { return "unknown".to_owned() };
        mac.update(data);
        HEXLOWER.encode(&mac.finalize().into_bytes()[..6])
    }

    fn redact_at(&self, value: &mut Value, steps: &[PathStep]) {
        let Some((step, rest)) = steps.split_first() else {
            *value = self.placeholder(value);
            return;
        };
        match (step, value) {
            (PathStep::Anywhere, value) => {
                self.redact_at(value, rest);
                match value {
                    Value::Object(map) => map.values_mut().for_each(|child| self.redact_at(child, steps)),
                    Value::Array(items) => items.iter_mut().for_each(|child| self.redact_at(child, steps)),
                    _ => {}
                }
            }
            (PathStep::Every, Value::Object(map)) => {
                map.values_mut().for_each(|child| self.redact_at(child, rest));
            }
            (PathStep::Every, Value::Array(items)) => {
                items.iter_mut().for_each(|child| self.redact_at(child, rest));
            }
            (PathStep::Key(key), Value::Object(map)) => {
                if let Some(child) = map.get_mut(key) {
                    self.redact_at(child, rest);
                }
            }
            (PathStep::Index(index), Value::Array(items)) => {
                if let Some(child) = items.get_mut(*index) {
                    self.redact_at(child, rest);
                }
            }
            _ => {}
        }
    }
}

fn canonical_text(value: &Value) -> String {
    let mut value = value.clone();
    value.sort_all_objects();
    value.to_string()
}

/// Leaves the identity of an object and one placeholder for the rest.
fn identity_only(object: &Value, placeholder: impl Fn(&Value) -> Value) -> Value {
    let mut kept = Map::new();
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            kept.insert(key.to_owned(), value.clone());
        }
    }
    let metadata: Map<String, Value> = ["name", "namespace"]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), object::metadata(object)?.get(key)?.clone())))
        .collect();
    kept.insert("metadata".to_owned(), Value::Object(metadata));
    let mut rest = object.clone();
    if let Some(rest) = rest.as_object_mut() {
        rest.shift_remove("apiVersion");
        rest.shift_remove("kind");
    }
    kept.insert("content".to_owned(), placeholder(&rest));
    Value::Object(kept)
}
