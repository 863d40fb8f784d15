//! A schema document: reading it, and finding what a `$ref` points to.

use std::collections::HashMap;
use std::fmt::Write as _;

use serde_json::Value;
use slipway_event::without_credentials;

use super::get;
use slipway_go::GoError;

/// A schema with everything inside it that can be referred to.
pub(super) struct SchemaDocument {
    /// The chart's own schema, then those it refers to.
    pub(super) documents: Vec<Value>,
    /// Places by their `$id`, absolute or `#name`.
    ids: HashMap<String, SchemaPlace>,
}

/// A place inside one of the documents.
#[derive(Clone)]
struct SchemaPlace {
    document: usize,
    pointer: String,
}

/// Schemas nest no deeper than this.
pub(super) const DEEPEST: usize = 512;

impl SchemaDocument {
    pub(super) fn read_schema(text: &[u8]) -> Result<Self, GoError> {
        let root: Value = serde_json::from_slice(text).map_err(|error| go_json_error(text, &error))?;
        let mut document = Self { documents: Vec::new(), ids: HashMap::new() };
        document.add_document("", root)?;
        Ok(document)
    }

    /// The chart's own schema.
    pub(super) fn root(&self) -> &Value {
        &self.documents[0]
    }

    /// Adds a document and the places in it that have names.
    pub(super) fn add_document(&mut self, address: &str, root: Value) -> Result<(), GoError> {
        let mut found = HashMap::new();
        collect_ids(&root, &mut String::new(), 0, &mut found)?;
        check_schema(&root, 0)?;
        let document = self.documents.len();
        for (id, pointer) in found {
            // `#name` means a place of the document it stands in.
            let id = if id.starts_with('#') { format!("{address}{id}") } else { id };
            self.ids.entry(id).or_insert(SchemaPlace { document, pointer });
        }
        if !address.is_empty() {
            self.ids.insert(address.to_owned(), SchemaPlace { document, pointer: String::new() });
        }
        self.documents.push(root);
        Ok(())
    }

    pub(super) fn has_address(&self, address: &str) -> bool {
        self.ids.contains_key(address)
    }

    /// Resolves a `$ref`. Only documents at hand are looked at: fetching schemas from elsewhere while
    /// rendering would let a chart make requests in the user's name.
    pub(super) fn resolve_reference(&self, reference: &str) -> Result<&Value, GoError> {
        if let Some(place) = self.ids.get(reference) {
            return self.value_at(place, reference);
        }
        let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let mut place = if document.is_empty() {
            SchemaPlace { document: 0, pointer: String::new() }
        } else {
            match self.ids.get(document) {
                Some(place) => place.clone(),
                None => {
                    let reference = without_credentials(reference);
                    return Err(format!(
                        "schema reference {reference:?} is outside the chart and is not fetched\nhint: --allow-remote-schemas fetches it"
                    ).into());
                }
            }
        };
        place.pointer.push_str(&percent_decode(fragment));
        self.value_at(&place, reference)
    }

    fn value_at(&self, place: &SchemaPlace, reference: &str) -> Result<&Value, GoError> {
        self.documents[place.document].pointer(&place.pointer).ok_or_else(|| {
            GoError::new(format!("Object has no key '{}'", reference.rsplit('/').next().unwrap_or(reference)))
        })
    }
}

/// `pointer` is where `schema` is; it is as it was when this returns.
fn collect_ids(
    schema: &Value,
    pointer: &mut String,
    depth: usize,
    ids: &mut HashMap<String, String>,
) -> Result<(), GoError> {
    if depth > DEEPEST {
        return Err(format!("the schema is nested more than {DEEPEST} deep").into());
    }
    let len = pointer.len();
    match schema {
        Value::Object(map) => {
            for key in ["$id", "id"] {
                if let Some(Value::String(id)) = get(map, key) {
                    ids.entry(id.trim_end_matches('#').to_owned()).or_insert_with(|| pointer.clone());
                    ids.entry(id.clone()).or_insert_with(|| pointer.clone());
                }
            }
            if let Some(Value::String(anchor)) = get(map, "$anchor") {
                ids.entry(format!("#{anchor}")).or_insert_with(|| pointer.clone());
            }
            for (key, value) in map.iter().filter(|(_, value)| value.is_object() || value.is_array()) {
                pointer.push('/');
                if key.contains(['~', '/']) {
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                } else {
                    pointer.push_str(key);
                }
                collect_ids(value, pointer, depth + 1, ids)?;
                pointer.truncate(len);
            }
        }
        Value::Array(items) => {
            for (index, value) in items.iter().enumerate() {
                if value.is_object() || value.is_array() {
                    let _ = write!(pointer, "/{index}");
                    collect_ids(value, pointer, depth + 1, ids)?;
                    pointer.truncate(len);
                }
            }
        }
        _ => {}
    }
    Ok(())
}

const TYPES: [&str; 7] = ["array", "boolean", "integer", "number", "null", "object", "string"];

/// The mistakes in a schema that stop its use.
fn check_schema(schema: &Value, depth: usize) -> Result<(), GoError> {
    let map = match schema {
        Value::Object(map) => map,
        Value::Bool(_) => return Ok(()),
        _ if depth == 0 => return Err("schema is invalid".into()),
        _ => return Ok(()),
    };
    let number = |key: &str| get(map, key).and_then(Value::as_f64);
    for (least, most) in
        [("minLength", "maxLength"), ("minItems", "maxItems"), ("minProperties", "maxProperties")]
    {
        for key in [least, most] {
            if let Some(value) = get(map, key) {
                match value.as_f64() {
                    Some(value) if value.fract() == 0.0 && value < 0.0 => {
                        return Err(format!("{key} must be greater than or equal to 0").into());
                    }
                    Some(value) if value.fract() == 0.0 => {}
                    _ => return Err(format!("Invalid type. Expected: integer, given: {key}").into()),
                }
            }
        }
        if let (Some(low), Some(high)) = (number(least), number(most))
            && low > high
        {
            return Err(format!("{least} cannot be greater than {most}").into());
        }
    }
    let types: Vec<&Value> = match get(map, "type") {
        Some(Value::Array(types)) => types.iter().collect(),
        Some(kind) => vec![kind],
        None => Vec::new(),
    };
    for kind in types {
        if let Some(kind) = kind.as_str()
            && !TYPES.contains(&kind)
        {
            return Err(format!(
                "has a primitive type that is NOT VALID -- given: /{kind}/ Expected valid values are:{TYPES:?}"
            )
            .replace("\", \"", " ")
            .replace('"', "").into());
        }
    }
    if let Some(Value::String(pattern)) = get(map, "pattern")
        && slipway_go::regexp::Regexp::compile(pattern.as_bytes()).is_err()
    {
        return Err("pattern must be a valid regex".into());
    }
    for key in ["properties", "patternProperties", "definitions", "dependencies"] {
        if let Some(Value::Object(children)) = get(map, key) {
            for child in children.values() {
                check_schema(child, depth + 1)?;
            }
        }
    }
    for key in ["items", "allOf", "anyOf", "oneOf"] {
        if let Some(Value::Array(children)) = get(map, key) {
            for child in children {
                check_schema(child, depth + 1)?;
            }
        }
    }
    for key in ["items", "not", "if", "then", "else", "additionalProperties", "contains", "propertyNames"] {
        if let Some(child @ Value::Object(_)) = get(map, key) {
            check_schema(child, depth + 1)?;
        }
    }
    Ok(())
}

/// Returns the message of Go's decoder for text that is not JSON.
fn go_json_error(text: &[u8], error: &serde_json::Error) -> String {
    if error.is_eof() {
        return if text.trim_ascii().is_empty() { "EOF".into() } else { "unexpected EOF".into() };
    }
    slipway_gotmpl::json_syntax_error(text).unwrap_or_else(|| error.to_string())
}

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let pair = after.get(..2).and_then(crate::secret::from_hex);
        match (byte, pair) {
            (b'%', Some(decoded)) => {
                bytes.extend_from_slice(&decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
