//! Request bodies: JSON, YAML and protobuf into one object model.

use std::cell::RefCell;

use serde::de::{DeserializeSeed, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use slipway_go::GoError;

/// A parsed body and the fields that were given twice.
#[derive(Debug, Default, Clone)]
pub(crate) struct ParsedBody {
    pub value: Value,
    pub duplicates: Vec<String>,
    /// The same of YAML, which names lines: `line 5: key "name" already set in map`.
    pub repeated: Vec<String>,
    /// It was merged in memory, not read.
    pub merged: bool,
}

/// Parses JSON, remembering duplicate keys by path. The last value of a key wins, as in Go.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<ParsedBody, GoError> {
    let parsed = read_json(bytes);
    if parsed.is_err()
        && let Some(mended) = mend_utf8(bytes)
        && let Ok(mended) = read_json(&mended)
    {
        return Ok(mended);
    }
    parsed
}

/// The body with what is no text replaced, as Go's decoder does it: broken UTF-8 and lone surrogates.
fn mend_utf8(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut text = String::from_utf8_lossy(bytes).into_owned();
    let surrogate = |text: &str, at: usize| -> Option<u16> {
        let digits = text.get(at..)?.strip_prefix("\\u")?.get(..4)?;
        u16::from_str_radix(digits, 16).ok().filter(|unit| (0xd800..0xe000).contains(unit))
    };
    let mut changed = text.as_bytes() != bytes;
    let mut at = 0;
    while let Some(found) = text.get(at..).and_then(|rest| rest.find('\\')).map(|found| at + found) {
        let (this, next) = (surrogate(&text, found), surrogate(&text, found + 6));
        at = match (this, next) {
            (Some(0xd800..0xdc00), Some(0xdc00..0xe000)) => found + 12,
            (Some(_), _) => {
                text.replace_range(found..found + 6, "\\ufffd");
                changed = true;
                found + 6
            }
            (None, _) => found + 2,
        };
    }
    changed.then(|| text.into_bytes())
}

fn read_json(bytes: &[u8]) -> Result<ParsedBody, GoError> {
    let state = RefCell::new((String::new(), Vec::new()));
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = DuplicateSeed(&state)
        .deserialize(&mut reader)
        .and_then(|v| reader.end().map(|()| v))
        .map_err(|e| go_json_error(bytes, &e))?;
    Ok(ParsedBody { value, duplicates: state.into_inner().1, ..ParsedBody::default() })
}

/// Parses YAML as `sigs.k8s.io/yaml` does; JSON is YAML too and much faster to read.
pub(crate) fn parse_yaml(bytes: &[u8]) -> Result<ParsedBody, GoError> {
    let parsed = parse_json(bytes);
    if let Ok(parsed) = parsed
        && parsed.duplicates.is_empty()
    {
        return Ok(parsed);
    }
    let text = std::str::from_utf8(bytes).map_err(|e| e.to_string())?;
    let mut value = crate::http::yaml::read_document(text)?;
    // What goes on is JSON made from a Go map, whose first mistake is the first by name.
    value.sort_all_objects();
    Ok(ParsedBody { value, repeated: crate::http::yaml::repeated_keys(text), ..ParsedBody::default() })
}

/// Prints JSON text as YAML.
pub(crate) fn json_to_yaml(bytes: &[u8]) -> Option<Vec<u8>> {
    let value: Value = serde_json::from_slice(bytes).ok()?;
    Some(crate::http::yaml::print_value(&value).into_bytes())
}

/// The words Go's decoder uses for the mistakes people make.
pub(crate) fn go_json_error(bytes: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() || bytes.is_empty() {
        return "unexpected end of JSON input".into();
    }
    let at = bytes
        .split_inclusive(|b| *b == b'\n')
        .take(error.line().saturating_sub(1))
        .map(<[u8]>::len)
        .sum::<usize>()
        + error.column().saturating_sub(1);
    let found = bytes.get(at).copied().map_or(' ', char::from);
    let text = error.to_string();
    if text.contains("key must be a string") {
        format!("invalid character '{found}' looking for beginning of object key string")
    } else if text.contains("expected `,` or `}`") {
        format!("invalid character '{found}' after object key:value pair")
    } else if text.contains("expected `,` or `]`") {
        format!("invalid character '{found}' after array element")
    } else if text.contains("trailing characters") {
        format!("invalid character '{found}' after top-level value")
    } else if text.contains("expected value") || text.contains("expected ident") {
        format!("invalid character '{found}' looking for beginning of value")
    } else if text.contains("invalid number") {
        format!("invalid character '{found}' in numeric literal")
    } else if text.contains("recursion limit") {
        format!("invalid character '{found}' exceeded max depth")
    } else {
        format!("invalid character '{found}' in JSON: {text}")
    }
}

type DuplicateState = RefCell<(String, Vec<String>)>;

struct DuplicateSeed<'s>(&'s DuplicateState);

impl<'de> DeserializeSeed<'de> for DuplicateSeed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateSeed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, v: bool) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_i64<E>(self, v: i64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_u64<E>(self, v: u64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_f64<E>(self, v: f64) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_str<E>(self, v: &str) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_string<E>(self, v: String) -> Result<Value, E> {
        Ok(v.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        let length = self.0.borrow().0.len();
        loop {
            self.0.borrow_mut().0.push_str(&format!("[{}]", out.len()));
            let item = seq.next_element_seed(DuplicateSeed(self.0))?;
            self.0.borrow_mut().0.truncate(length);
            match item {
                Some(item) => out.push(item),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        let length = self.0.borrow().0.len();
        while let Some(key) = map.next_key::<String>()? {
            {
                let mut state = self.0.borrow_mut();
                if length > 0 {
                    state.0.push('.');
                }
                state.0.push_str(&key);
                if out.contains_key(&key) {
                    let path = state.0.clone();
                    state.1.push(path);
                }
            }
            let value = map.next_value_seed(DuplicateSeed(self.0))?;
            self.0.borrow_mut().0.truncate(length);
            out.insert(key, value);
        }
        Ok(Value::Object(out))
    }
}
