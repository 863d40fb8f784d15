//! Secret values in memory: wiped when dropped, never printed.

use secrecy::{ExposeSecret, SecretBox, SecretSlice, SecretString};
use serde_json::Value;
use slipway_event::{Coverage, Redactor};
use zeroize::Zeroize;

/// A tree of secret values; its texts are wiped when it is dropped.
pub type SecretJson = SecretBox<JsonTree>;

/// A JSON tree that can be wiped.
#[derive(Clone)]
pub struct JsonTree(Value);

impl JsonTree {
    pub fn value(&self) -> &Value {
        &self.0
    }
}

impl Zeroize for JsonTree {
    fn zeroize(&mut self) {
        let mut pending = vec![&mut self.0];
        while let Some(node) = pending.pop() {
            match node {
                Value::String(text) => text.zeroize(),
                Value::Array(items) => pending.extend(items),
                Value::Object(fields) => pending.extend(fields.values_mut()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        self.0 = Value::Null;
    }
}

/// Makes a tree secret.
pub(crate) fn secret_json(value: Value) -> SecretJson {
    SecretBox::new(Box::new(JsonTree(value)))
}

/// What a backend holds at one path.
#[derive(Debug)]
pub enum SecretContent {
    /// A single value.
    Bytes(SecretSlice<u8>),
    /// A structure with named fields.
    Fields(SecretJson),
    /// Several texts: a list where one is asked for, otherwise joined by commas.
    List(Vec<SecretString>),
}

impl SecretContent {
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes(bytes.into().into())
    }

    pub fn fields(value: Value) -> Self {
        Self::Fields(secret_json(value))
    }

    /// The size of what was fetched.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.expose_secret().len(),
            Self::Fields(tree) => tree.expose_secret().value().to_string().len(),
            Self::List(texts) => texts.iter().map(|text| text.expose_secret().len() + 1).sum(),
        }
    }
}

/// Registers every text and number of a tree with the redactor and tells how well the worst is masked.
pub(crate) fn register(tree: &SecretJson, redactor: &Redactor) -> MaskingStrength {
    let mut strength = MaskingStrength::Full;
    let mut pending = vec![tree.expose_secret().value()];
    while let Some(node) = pending.pop() {
        let coverage = match node {
            Value::String(text) => redactor.register(text.as_str()),
            Value::Number(number) => redactor.register(number.to_string()),
            Value::Array(items) => {
                pending.extend(items);
                continue;
            }
            Value::Object(fields) => {
                pending.extend(fields.values());
                continue;
            }
            Value::Null | Value::Bool(_) => continue,
        };
        if !matches!(coverage, Coverage::Full) {
            strength = MaskingStrength::StructureOnly;
        }
    }
    strength
}

/// The reliability of masking a value in free text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MaskingStrength {
    /// Found anywhere, in any encoding.
    Full,
    /// Too short or too common to be searched for in texts; masked where the structure is known.
    StructureOnly,
}
