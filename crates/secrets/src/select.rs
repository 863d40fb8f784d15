//! From what a backend holds to the value a reference asks for: field, encoding, trimming, type.
//!
//! No message shows a value; names of keys may be shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use crate::material::{SecretContent, SecretJson, secret_json};
use crate::reference::{FieldSelector, SecretReference, TrimMode, ValueEncoding, ValueType};

/// The reason a fetched secret does not give the value a reference asks for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SelectError {
    #[error("it has no key `{wanted}`{}", listed(.known))]
    MissingKey { wanted: String, known: Vec<String> },
    #[error("it holds several keys ({}); add #<key>", .known.join(", "))]
    SeveralKeys { known: Vec<String> },
    #[error("it holds no keys")]
    Empty,
    #[error("it is a single value and has no key `{wanted}`")]
    NotFields { wanted: String },
    #[error("it is {found}, not {expected}")]
    WrongType { found: &'static str, expected: &'static str },
    #[error("it is not UTF-8 text")]
    NotText,
    #[error("it is not base64")]
    NotBase64,
}

fn listed(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!("; there are {}", known.join(", ")) }
}

impl SelectError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::MissingKey { .. } => "correct the key after `#`; keys are compared exactly",
            Self::SeveralKeys { .. } => "a reference without `#` is for secrets with a single value",
            Self::Empty => "write a value to the secret first",
            Self::NotFields { .. } => "leave `#…` out, or store JSON with that key",
            Self::WrongType { .. } => "choose another `type=`, or a key inside of the structure",
            Self::NotText => "add `?encoding=base64` to get the bytes as base64",
            Self::NotBase64 => "leave `encoding=base64d` out: the stored text is not encoded",
        }
    }
}

/// Chooses what `reference` asks for; `default_key` is the provider's own key for references without one.
pub(crate) fn select_value(
    content: &SecretContent,
    reference: &SecretReference,
    default_key: Option<&str>,
) -> Result<SecretJson, SelectError> {
    let leaf = match (content, reference.value_type) {
        (SecretContent::List(texts), ValueType::Json | ValueType::Yaml) => Leaf::Tree(list(texts)),
        _ => select_leaf(content, reference.field.as_ref(), default_key)?,
    };
    let bytes = match leaf {
        Leaf::Bytes(bytes) => bytes,
        Leaf::Tree(value) => match (value, reference.value_type) {
            (tree @ (Value::Array(_) | Value::Object(_)), ValueType::Json | ValueType::Yaml) => {
                return Ok(secret_json(tree));
            }
            (Value::Array(_), _) => return Err(wrong_type("a list", reference.value_type)),
            (Value::Object(_), _) => return Err(wrong_type("a mapping", reference.value_type)),
            (Value::Null, _) => return Err(wrong_type("null", reference.value_type)),
            (Value::String(text), _) => text.into_bytes(),
            (other, _) => other.to_string().into_bytes(),
        },
    };
    let bytes = match reference.encoding {
        ValueEncoding::Utf8 => bytes,
        ValueEncoding::Base64 => STANDARD.encode(bytes).into_bytes(),
        ValueEncoding::Base64Decoded => {
            let packed: Vec<u8> = bytes.into_iter().filter(|byte| !byte.is_ascii_whitespace()).collect();
            STANDARD.decode(packed).map_err(|_| SelectError::NotBase64)?
        }
    };
    let mut text = String::from_utf8(bytes).map_err(|_| SelectError::NotText)?;
    if reference.trim == TrimMode::Newline {
        text.truncate(text.trim_end_matches(['\n', '\r']).len());
    }
    typed(text, reference.value_type)
}

enum Leaf {
    Bytes(Vec<u8>),
    Tree(Value),
}

fn select_leaf(
    content: &SecretContent,
    field: Option<&FieldSelector>,
    default_key: Option<&str>,
) -> Result<Leaf, SelectError> {
    let fields = match (content, field) {
        (SecretContent::Bytes(bytes), None) => return Ok(Leaf::Bytes(bytes.expose_secret().to_vec())),
        (SecretContent::Bytes(bytes), Some(field)) => &fields_of_text(bytes.expose_secret(), field)?,
        (SecretContent::Fields(tree), _) => tree.expose_secret().value(),
        (SecretContent::List(texts), None) => {
            let texts: Vec<&str> = texts.iter().map(ExposeSecret::expose_secret).collect();
            return Ok(Leaf::Bytes(texts.join(",").into_bytes()));
        }
        (SecretContent::List(texts), Some(_)) => &list(texts),
    };
    let Some(field) = field else { return single_field(fields, default_key).cloned().map(Leaf::Tree) };
    let found = match field {
        FieldSelector::Key(key) => fields.get(key).ok_or_else(|| missing(key, fields)),
        FieldSelector::Pointer(segments) => segments
            .iter()
            .try_fold(fields, |node, segment| step(node, segment).ok_or_else(|| missing(segment, node))),
    };
    found.cloned().map(Leaf::Tree)
}

fn list(texts: &[SecretString]) -> Value {
    texts.iter().map(|text| text.expose_secret().to_owned()).collect()
}

/// One step into a structure: a key of a mapping, or an index of a list.
pub(crate) fn step<'v>(node: &'v Value, segment: &str) -> Option<&'v Value> {
    match node {
        Value::Object(fields) => fields.get(segment),
        Value::Array(items) => segment.parse::<usize>().ok().and_then(|index| items.get(index)),
        _ => None,
    }
}

/// A single value that is JSON text with fields.
fn fields_of_text(bytes: &[u8], field: &FieldSelector) -> Result<Value, SelectError> {
    match serde_json::from_slice(bytes) {
        Ok(tree @ (Value::Object(_) | Value::Array(_))) => Ok(tree),
        _ => Err(SelectError::NotFields { wanted: shown(field) }),
    }
}

fn shown(field: &FieldSelector) -> String {
    match field {
        FieldSelector::Key(key) => key.clone(),
        FieldSelector::Pointer(segments) => format!("/{}", segments.join("/")),
    }
}

/// The field meant by a reference without a key.
fn single_field<'v>(fields: &'v Value, default_key: Option<&str>) -> Result<&'v Value, SelectError> {
    let Value::Object(map) = fields else { return Ok(fields) };
    if let Some(key) = default_key {
        return map.get(key).ok_or_else(|| missing(key, fields));
    }
    let mut values = map.values();
    match (values.next(), values.next()) {
        (Some(value), None) => Ok(value),
        (None, _) => Err(SelectError::Empty),
        (Some(_), Some(_)) => Err(SelectError::SeveralKeys { known: keys(fields) }),
    }
}

fn missing(wanted: &str, fields: &Value) -> SelectError {
    SelectError::MissingKey { wanted: wanted.to_owned(), known: keys(fields) }
}

/// The names of a mapping's keys, at most a screenful.
fn keys(fields: &Value) -> Vec<String> {
    const MOST: usize = 20;
    let Value::Object(map) = fields else { return Vec::new() };
    let mut keys: Vec<String> = map.keys().take(MOST).cloned().collect();
    keys.sort();
    keys
}

fn typed(text: String, value_type: ValueType) -> Result<SecretJson, SelectError> {
    // Wiped with the rest, whatever becomes of it.
    let text = SecretString::from(text);
    let plain = text.expose_secret();
    let trimmed = plain.trim();
    let wrong = || wrong_type("text", value_type);
    let value = match value_type {
        ValueType::String => Value::String(plain.to_owned()),
        ValueType::Int => {
            let signed = trimmed.parse::<i64>().map(Value::from);
            signed.or_else(|_| trimmed.parse::<u64>().map(Value::from)).map_err(|_| wrong())?
        }
        ValueType::Float => {
            let number = trimmed.parse::<f64>().ok().and_then(serde_json::Number::from_f64);
            Value::Number(number.ok_or_else(wrong)?)
        }
        ValueType::Bool => match trimmed {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            _ => return Err(wrong()),
        },
        ValueType::Json => serde_json::from_str(plain).map_err(|_| wrong())?,
        ValueType::Yaml => slipway_yaml::parse_one(plain, "secret").map_err(|_| wrong())?.to_json(),
    };
    Ok(secret_json(value))
}

fn wrong_type(found: &'static str, value_type: ValueType) -> SelectError {
    let expected = match value_type {
        ValueType::String => "a string",
        ValueType::Int => "a whole number",
        ValueType::Bool => "`true` or `false`",
        ValueType::Float => "a number",
        ValueType::Json => "JSON",
        ValueType::Yaml => "YAML",
    };
    SelectError::WrongType { found, expected }
}
