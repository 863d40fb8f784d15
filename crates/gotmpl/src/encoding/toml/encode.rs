//! Writing TOML: plain keys first, then tables, both sorted, nested tables indented.

use crate::object::ObjectJson;
use crate::sprig::TimeObject;
use crate::str::GoString;
use crate::value::{GoValue, MAX_VALUE_DEPTH, RED_ZONE, SEGMENT};
use slipway_go::GoError;
use slipway_go::strconv;

/// Writes a value, at most `max` bytes; an error is Go's text.
pub(crate) fn encode_toml(value: &GoValue, max: usize) -> Result<Vec<u8>, GoError> {
    let mut encoder = Encoder { out: Vec::new(), max, depth: 0 };
    encoder.write_entry(&[], value)?;
    Ok(encoder.out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    Nil,
    Plain,
    Table,
    Tables,
}

struct Encoder {
    out: Vec<u8>,
    max: usize,
    depth: usize,
}

/// The members of what becomes a table.
fn table_members(value: &GoValue) -> Option<Vec<(GoString, GoValue)>> {
    match value {
        GoValue::Map(map) => Some(map.to_vec()),
        GoValue::Object(object) | GoValue::Ptr(object) => {
            match (object.underlying_value(), object.json_form()) {
                (Some(inner), _) => table_members(&inner),
                // Go's TOML names struct fields as Go does.
                (None, ObjectJson::Fields(_)) => Some(
                    object
                        .field_list()
                        .into_iter()
                        .map(|(name, value)| (GoString::from(name), value))
                        .collect(),
                ),
                _ => None,
            }
        }
        _ => None,
    }
}

fn is_nil(value: &GoValue) -> bool {
    match value {
        GoValue::Nil => true,
        GoValue::Map(map) => map.is_nil(),
        GoValue::List(list) => list.is_nil(),
        _ => false,
    }
}

fn shape_of(value: &GoValue) -> Result<Shape, GoError> {
    if is_nil(value) {
        return Ok(Shape::Nil);
    }
    if table_members(value).is_some() {
        return Ok(Shape::Table);
    }
    let GoValue::List(list) = value else { return Ok(Shape::Plain) };
    let mut all_tables = !list.is_empty();
    for item in list.to_vec() {
        match stacker::maybe_grow(RED_ZONE, SEGMENT, || shape_of(&item))? {
            Shape::Nil => return Err("toml: cannot encode array with nil element".into()),
            Shape::Table => {}
            _ => all_tables = false,
        }
    }
    Ok(if all_tables { Shape::Tables } else { Shape::Plain })
}

impl Encoder {
    fn enter_nested<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T, GoError>) -> Result<T, GoError> {
        if self.depth > MAX_VALUE_DEPTH {
            return Err("the value nests too deeply or contains itself".into());
        }
        if self.out.len() > self.max {
            return Err(format!("the TOML text would be longer than {} bytes", self.max).into());
        }
        self.depth += 1;
        let result = stacker::maybe_grow(RED_ZONE, SEGMENT, || body(self));
        self.depth -= 1;
        result
    }

    fn write_text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn break_line(&mut self) {
        if !self.out.is_empty() {
            self.out.push(b'\n');
        }
    }

    fn write_indent(&mut self, path: &[GoString]) {
        let width = 2 * path.len().saturating_sub(1);
        self.out.resize(self.out.len() + width, b' ');
    }

    fn write_entry(&mut self, path: &[GoString], value: &GoValue) -> Result<(), GoError> {
        if let Some(entries) = (!is_nil(value)).then(|| table_members(value)).flatten() {
            if path.len() == 1 {
                self.break_line();
            }
            if !path.is_empty() {
                self.write_header(path, "[", "]");
            }
            return self.write_table(path, &entries);
        }
        match value {
            _ if is_nil(value) => Ok(()),
            GoValue::List(list) if shape_of(value)? == Shape::Tables => {
                if path.is_empty() {
                    return Err("toml: top-level values must be Go maps or structs".into());
                }
                for item in list.to_vec() {
                    self.break_line();
                    self.write_header(path, "[[", "]]");
                    self.write_table(path, &table_members(&item).unwrap_or_default())?;
                }
                Ok(())
            }
            _ => self.write_pair(path, value, false),
        }
    }

    fn write_header(&mut self, path: &[GoString], open: &str, close: &str) {
        self.write_indent(path);
        self.write_text(open);
        for (at, key) in path.iter().enumerate() {
            if at > 0 {
                self.write_text(".");
            }
            self.write_key(key);
        }
        self.write_text(close);
        self.break_line();
    }

    fn write_table(&mut self, path: &[GoString], entries: &[(GoString, GoValue)]) -> Result<(), GoError> {
        self.enter_nested(|encoder| {
            for (key, value) in in_order(entries)? {
                if is_nil(value) {
                    continue;
                }
                let path: Vec<GoString> = path.iter().cloned().chain([key.clone()]).collect();
                encoder.write_entry(&path, value)?;
            }
            Ok(())
        })
    }

    fn write_pair(&mut self, path: &[GoString], value: &GoValue, inline: bool) -> Result<(), GoError> {
        let Some(key) = path.last() else { return self.write_element(value) };
        self.write_indent(path);
        self.write_key(key);
        self.write_text(" = ");
        self.write_element(value)?;
        if !inline {
            self.break_line();
        }
        Ok(())
    }

    fn write_element(&mut self, value: &GoValue) -> Result<(), GoError> {
        if let Some(entries) = table_members(value) {
            return self.enter_nested(|encoder| {
                encoder.write_text("{");
                let entries = in_order(&entries)?;
                let len = entries.len();
                for (at, (key, value)) in entries.into_iter().enumerate() {
                    if is_nil(value) {
                        continue;
                    }
                    encoder.write_pair(std::slice::from_ref(key), value, true)?;
                    if at + 1 != len {
                        encoder.write_text(", ");
                    }
                }
                encoder.write_text("}");
                Ok(())
            });
        }
        match value {
            GoValue::Str(text) => self.write_string(text),
            GoValue::Bool(yes) => self.write_text(if *yes { "true" } else { "false" }),
            GoValue::Float64(number) => self.write_text(&float_text(*number)),
            GoValue::Object(object) if object.downcast::<TimeObject>().is_some() => {
                let text = object.downcast::<TimeObject>().map(|time| time.0.rfc3339()).unwrap_or_default();
                self.write_text(&text);
            }
            GoValue::Object(object) | GoValue::Ptr(object) => {
                match (object.underlying_value(), object.json_form()) {
                    (Some(inner), _) => return self.write_element(&inner),
                    (None, ObjectJson::Value(inner)) => return self.write_element(&inner),
                    _ => return Err(format!("unexpected type: {}", value.type_name()).into()),
                }
            }
            _ => match (value.elements(), value.as_int(), value.as_uint()) {
                (Some(list), ..) => {
                    return self.enter_nested(|encoder| {
                        encoder.write_text("[");
                        for (at, item) in list.to_vec().iter().enumerate() {
                            if at > 0 {
                                encoder.write_text(", ");
                            }
                            encoder.write_element(item)?;
                        }
                        encoder.write_text("]");
                        Ok(())
                    });
                }
                (_, Some(number), _) => self.write_text(&number.to_string()),
                (_, _, Some(number)) => self.write_text(&number.to_string()),
                _ => return Err(format!("unexpected type: {}", value.type_name()).into()),
            },
        }
        Ok(())
    }

    fn write_key(&mut self, key: &[u8]) {
        let bare = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
        if !key.is_empty() && key.iter().all(bare) {
            self.out.extend_from_slice(key);
        } else {
            self.write_string(key);
        }
    }

    fn write_string(&mut self, text: &[u8]) {
        self.out.push(b'"');
        for &byte in text {
            let short = match byte {
                b'"' | b'\\' => byte,
                8 => b'b',
                b'\t' => b't',
                b'\n' => b'n',
                12 => b'f',
                b'\r' => b'r',
                0..=0x1f | 0x7f => {
                    self.out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
                    continue;
                }
                _ => {
                    self.out.push(byte);
                    continue;
                }
            };
            self.out.extend_from_slice(&[b'\\', short]);
        }
        self.out.push(b'"');
    }
}

/// Plain members first, then tables; maps are sorted already.
fn in_order(entries: &[(GoString, GoValue)]) -> Result<Vec<&(GoString, GoValue)>, GoError> {
    let mut plain = Vec::new();
    let mut tables = Vec::new();
    for entry in entries {
        match shape_of(&entry.1)? {
            Shape::Table | Shape::Tables => tables.push(entry),
            _ => plain.push(entry),
        }
    }
    plain.append(&mut tables);
    Ok(plain)
}

fn float_text(number: f64) -> String {
    if number.is_nan() {
        return "nan".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    let text = strconv::format_float(number, b'f', -1);
    if text.contains('.') { text } else { format!("{text}.0") }
}
