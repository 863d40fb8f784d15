//! Maps: a JSON object as it stands, or entries that were computed.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map as JsonMap, Value as Json};

use super::{Str, Value};

/// Maps with fewer entries are searched one by one.
const SMALL: usize = 9;

/// The key of a map. Integers of both kinds are the same key when they are the same number.
#[derive(Clone, Debug)]
pub enum Key<'a> {
    Bool(bool),
    Int(i64),
    Uint(u64),
    String(Str<'a>),
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Uint(a), Self::Uint(b)) => a == b,
            (Self::Int(a), Self::Uint(b)) | (Self::Uint(b), Self::Int(a)) => u64::try_from(*a) == Ok(*b),
            (Self::String(a), Self::String(b)) => **a == **b,
            _ => false,
        }
    }
}

impl Eq for Key<'_> {}

impl Hash for Key<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Self::Bool(truth) => truth.hash(state),
            // The two kinds of integers agree where they are equal.
            Self::Int(number) => number.hash(state),
            Self::Uint(number) => (*number as i64).hash(state),
            Self::String(text) => (**text).hash(state),
        }
    }
}

impl<'a> Key<'a> {
    /// The key a value is, if it can be one. Whole doubles find integer keys.
    pub fn of(value: &Value<'a>) -> Option<Self> {
        Some(match value {
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Int(number) => Self::Int(*number),
            Value::Uint(number) => Self::Uint(*number),
            Value::String(text) => Self::String(text.clone()),
            Value::Double(number) if number.trunc() == *number && number.abs() < 9.2e18 => {
                Self::Int(*number as i64)
            }
            _ => return None,
        })
    }

    /// The key as a value.
    pub fn value(&self) -> Value<'a> {
        match self {
            Self::Bool(truth) => Value::Bool(*truth),
            Self::Int(number) => Value::Int(*number),
            Self::Uint(number) => Value::Uint(*number),
            Self::String(text) => Value::String(text.clone()),
        }
    }

    /// The key as text.
    pub fn show(&self) -> String {
        match self {
            Self::Bool(truth) => truth.to_string(),
            Self::Int(number) => number.to_string(),
            Self::Uint(number) => number.to_string(),
            Self::String(text) => text.to_string(),
        }
    }
}

/// A map; entries keep their order.
#[derive(Clone, Debug)]
pub enum Map<'a> {
    Json(&'a JsonMap<String, Json>),
    Entries(Arc<Entries<'a>>),
}

/// The entries of a computed map.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    entries: Vec<(Key<'a>, Value<'a>)>,
    places: HashMap<Key<'a>, usize>,
}

impl<'a> Entries<'a> {
    fn place(&self, key: &Key<'_>) -> Option<usize> {
        if self.entries.len() < SMALL {
            return self.entries.iter().position(|(found, _)| found == key);
        }
        self.places.get(key).copied()
    }

    /// Adds an entry; returns true if the key is new. An existing key keeps its value.
    pub fn insert(&mut self, key: Key<'a>, value: Value<'a>) -> bool {
        if self.place(&key).is_some() {
            return false;
        }
        self.entries.push((key, value));
        if self.entries.len() == SMALL {
            self.places = self.entries.iter().enumerate().map(|(at, (key, _))| (key.clone(), at)).collect();
        } else if self.entries.len() > SMALL
            && let Some((key, _)) = self.entries.last()
        {
            self.places.insert(key.clone(), self.entries.len() - 1);
        }
        true
    }
}

impl<'a> From<Entries<'a>> for Map<'a> {
    fn from(entries: Entries<'a>) -> Self {
        Self::Entries(Arc::new(entries))
    }
}

impl<'a> FromIterator<(Key<'a>, Value<'a>)> for Map<'a> {
    fn from_iter<T: IntoIterator<Item = (Key<'a>, Value<'a>)>>(items: T) -> Self {
        let mut entries = Entries::default();
        for (key, value) in items {
            entries.insert(key, value);
        }
        entries.into()
    }
}

impl<'a> Map<'a> {
    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::Json(map) => map.len(),
            Self::Entries(map) => map.entries.len(),
        }
    }

    /// Returns true if it has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a text key.
    pub fn field(&self, name: &str) -> Option<Value<'a>> {
        match self {
            Self::Json(map) => map.get(name).map(Value::from_json),
            Self::Entries(map) => {
                let place = map.place(&Key::String(Str::Borrowed(name)))?;
                map.entries.get(place).map(|(_, value)| value.clone())
            }
        }
    }

    /// The value of a key.
    pub fn get(&self, key: &Key<'_>) -> Option<Value<'a>> {
        match (self, key) {
            (_, Key::String(name)) => self.field(name),
            (Self::Json(_), _) => None,
            (Self::Entries(map), key) => map.entries.get(map.place(key)?).map(|(_, value)| value.clone()),
        }
    }

    /// The keys in order.
    pub fn keys(&self) -> Vec<Key<'a>> {
        match self {
            Self::Json(map) => map.keys().map(|key| Key::String(Str::Borrowed(key))).collect(),
            Self::Entries(map) => map.entries.iter().map(|(key, _)| key.clone()).collect(),
        }
    }

    /// The entries in order.
    pub fn entries(&self) -> Vec<(Key<'a>, Value<'a>)> {
        match self {
            Self::Json(map) => {
                let entry = |(key, value): (&'a String, &'a Json)| {
                    (Key::String(Str::Borrowed(key)), Value::from_json(value))
                };
                map.iter().map(entry).collect()
            }
            Self::Entries(map) => map.entries.clone(),
        }
    }
}
