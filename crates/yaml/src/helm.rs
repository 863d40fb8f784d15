//! YAML to values exactly as Helm and kubectl read it: YAML 1.1 by way of JSON.
//!
//! Keys become text, later duplicates win, merges apply in the order they stand, only the first
//! document counts, and mistakes carry Go's words. Any `Deserialize` type is built straight from the
//! tape, without a tree in between.

use std::borrow::Cow;
use std::cell::Cell;
use std::fmt::Write as _;

use base64::Engine as _;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer as _, Visitor};

use crate::error::{SyntaxError, YamlError};
use crate::node::whole;
use crate::number;
use crate::resolve::{Scalar, Schema, resolve};
use crate::scan::{Mark, Style};
use crate::tape::{CORE_TAG, Content, Item, Parser, Tape};

/// Deepest nesting accepted. Go allows 10 000, which no thread's stack survives in a recursive reader.
pub const MAX_DEPTH: usize = 500;

/// Reads the first document of `text` as Helm does. Integers stay exact; floats without a fraction
/// become integers, as they do on their way through JSON. An empty text is null.
pub fn from_str_helm(text: &str) -> Result<serde_json::Value, YamlError> {
    from_str(text)
}

/// Reads a mapping as Helm does (values, `fromYaml`); an empty text is an empty mapping.
pub fn map_from_str_helm(text: &str) -> Result<serde_json::Map<String, serde_json::Value>, YamlError> {
    use serde_json::Value as Json;
    let kind = match from_str_helm(text)? {
        Json::Object(map) => return Ok(map),
        Json::Null => return Ok(serde_json::Map::new()),
        Json::Array(_) => "array",
        Json::String(_) => "string",
        Json::Number(_) => "number",
        Json::Bool(_) => "bool",
    };
    Err(YamlError::Decode(format!("cannot unmarshal {kind} into Go value of type map[string]interface {{}}")))
}

/// Reads the first document of `text` as Helm does, into any type. Numbers arrive as `i64`, `u64` or
/// `f64`, mapping keys as strings.
pub fn from_str<T: de::DeserializeOwned>(text: &str) -> Result<T, YamlError> {
    if u32::try_from(text.len()).is_err() {
        return Err(fail("the text is longer than 4 GiB"));
    }
    let tape = Parser::new(text, MAX_DEPTH).next_document()?.unwrap_or_default();
    let run = |stage| {
        let context = Context::new(&tape, stage);
        T::deserialize(Cursor { context: &context, index: 0, depth: 0 })
    };
    run(Stage::Encode).map_err(|error| {
        // Go finishes each stage before it starts the next: report the mistake of the earliest.
        let stages = [Stage::Decode, Stage::Convert];
        stages.into_iter().find_map(|stage| check(&tape, stage).err()).unwrap_or(error)
    })
}

fn check(tape: &Tape<'_>, stage: Stage) -> Result<(), YamlError> {
    let context = Context::new(tape, stage);
    Everything::deserialize_from(Cursor { context: &context, index: 0, depth: 0 })
}

/// How far a value goes on Go's way from YAML to JSON.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Decode,
    Convert,
    Encode,
}

struct Context<'t, 'a> {
    tape: &'t Tape<'a>,
    stage: Stage,
    decoded: Cell<u64>,
    aliased: Cell<u64>,
    alias_depth: Cell<u32>,
}

impl<'t, 'a> Context<'t, 'a> {
    fn new(tape: &'t Tape<'a>, stage: Stage) -> Self {
        Self { tape, stage, decoded: Cell::new(1), aliased: Cell::new(0), alias_depth: Cell::new(0) }
    }

    fn item(&self, index: u32) -> &'t Item<'a> {
        &self.tape.items[index as usize]
    }

    /// Counts one decoded node; aliases may not make up too much of a document.
    fn count(&self) -> Result<(), YamlError> {
        let decoded = self.decoded.get() + 1;
        self.decoded.set(decoded);
        if self.alias_depth.get() == 0 {
            return Ok(());
        }
        let aliased = self.aliased.get() + 1;
        self.aliased.set(aliased);
        let allowed = match decoded {
            0..=400_000 => 0.99,
            4_000_000.. => 0.10,
            _ => 0.99 - 0.89 * ((decoded - 400_000) as f64 / 3_600_000.0),
        };
        if aliased > 100 && decoded > 1000 && aliased as f64 / decoded as f64 > allowed {
            return Err(fail("document contains excessive aliasing"));
        }
        Ok(())
    }

    /// Follows an alias; says whether it did.
    fn target(&self, index: u32) -> Result<(u32, bool), YamlError> {
        let Content::Alias { name, target } = self.item(index).content else { return Ok((index, false)) };
        if self.item(target).next > index {
            return Err(fail(format!("anchor '{name}' value contains itself")));
        }
        Ok((target, true))
    }
}

fn fail(problem: impl Into<Box<str>>) -> YamlError {
    YamlError::Syntax(SyntaxError::composer(Mark::default(), problem))
}

/// Bytes as text the way Go's JSON writes them: every byte that is not UTF-8 becomes U+FFFD.
pub fn go_lossy(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
    }
    Cow::Owned(text)
}

/// A scalar after tags and rules were applied.
enum Decoded<'t> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Float(f64),
    Str(Cow<'t, str>),
}

fn decode<'t>(item: &'t Item<'_>, value: &'t str, style: Style) -> Result<Decoded<'t>, YamlError> {
    let text = || Decoded::Str(Cow::Borrowed(value));
    let wanted = match item.tag.as_deref() {
        None if style != Style::Plain => return Ok(text()),
        None => None,
        Some(tag) => match tag.strip_prefix(CORE_TAG) {
            Some(core @ ("str" | "int" | "float" | "bool" | "null" | "timestamp" | "binary")) => Some(core),
            _ => return Ok(text()),
        },
    };
    match wanted {
        Some("str") => return Ok(text()),
        Some("binary") => {
            let clean: String = value.chars().filter(|c| !matches!(c, '\n' | '\r')).collect();
            let bytes = base64::engine::general_purpose::STANDARD
                .decode(clean)
                .map_err(|_| fail("!!binary value contains invalid base64 data"))?;
            return Ok(Decoded::Str(Cow::Owned(go_lossy(&bytes).into_owned())));
        }
        _ => {}
    }
    let mut found = resolve(Schema::Yaml11, value);
    if wanted.is_some_and(|wanted| wanted != "timestamp") && found == Scalar::Timestamp {
        found = Scalar::Str;
    }
    Ok(match (wanted, found) {
        (Some("float"), Scalar::Int(value)) => Decoded::Float(value as f64),
        (Some(wanted), found) if wanted != found.tag() => {
            return Err(fail(format!("cannot decode !!{} `{value}` as a !!{wanted}", found.tag())));
        }
        (_, Scalar::Null) => Decoded::Null,
        (_, Scalar::Bool(value)) => Decoded::Bool(value),
        (_, Scalar::Int(value)) => Decoded::Int(value),
        (_, Scalar::Uint(value)) => Decoded::Uint(value),
        (_, Scalar::Float(value)) => Decoded::Float(value),
        (_, Scalar::Timestamp | Scalar::Str) => text(),
    })
}

/// Stands at one node of the tape.
#[derive(Clone, Copy)]
struct Cursor<'c, 't, 'a> {
    context: &'c Context<'t, 'a>,
    index: u32,
    depth: usize,
}

impl<'c, 't, 'a> Cursor<'c, 't, 'a> {
    fn visit<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        let context = self.context;
        if context.tape.items.is_empty() {
            return visitor.visit_unit();
        }
        context.count()?;
        let (index, is_alias) = context.target(self.index)?;
        if is_alias {
            context.alias_depth.set(context.alias_depth.get() + 1);
            context.count()?;
        }
        if self.depth > MAX_DEPTH {
            return Err(fail(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let item = context.item(index);
        let result = match &item.content {
            Content::Scalar { value, style } => match decode(item, value, *style)? {
                Decoded::Null => visitor.visit_unit(),
                Decoded::Bool(value) => visitor.visit_bool(value),
                Decoded::Int(value) => visitor.visit_i64(value),
                Decoded::Uint(value) => visitor.visit_u64(value),
                Decoded::Float(value) if value.is_finite() => match whole(value) {
                    Some(value) => visitor.visit_i64(value),
                    None => visitor.visit_f64(value),
                },
                Decoded::Float(value) if context.stage == Stage::Encode => {
                    let value = number::go_float(value);
                    Err(YamlError::Convert(format!("json: unsupported value: {value}")))
                }
                Decoded::Float(_) => visitor.visit_unit(),
                Decoded::Str(Cow::Borrowed(text)) => visitor.visit_str(text),
                Decoded::Str(Cow::Owned(text)) => visitor.visit_string(text),
            },
            Content::Seq => visitor.visit_seq(Items { cursor: self, at: index + 1, end: item.next }),
            Content::Map => visitor.visit_map(Pairs::new(self, index)),
            // An alias of an alias cannot be written: anchors name nodes, and an alias carries none.
            Content::Alias { .. } => visitor.visit_unit(),
        };
        if is_alias {
            context.alias_depth.set(context.alias_depth.get() - 1);
        }
        result
    }
}

struct Items<'c, 't, 'a> {
    cursor: Cursor<'c, 't, 'a>,
    at: u32,
    end: u32,
}

impl<'de> de::SeqAccess<'de> for Items<'_, '_, '_> {
    type Error = YamlError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, YamlError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let cursor = Cursor { index: self.at, depth: self.cursor.depth + 1, ..self.cursor };
        self.at = self.cursor.context.item(self.at).next;
        seed.deserialize(cursor).map(Some)
    }
}

/// A stretch of keys and values being read: the mapping itself or one merged into it.
struct Frame {
    at: u32,
    end: u32,
    is_alias: bool,
    entered: bool,
}

struct Pairs<'c, 't, 'a> {
    cursor: Cursor<'c, 't, 'a>,
    frames: Vec<Frame>,
    only: Frame,
    value: u32,
}

impl<'c, 't, 'a> Pairs<'c, 't, 'a> {
    fn new(cursor: Cursor<'c, 't, 'a>, index: u32) -> Self {
        let end = cursor.context.item(index).next;
        // The alias depth of the mapping itself is kept by its cursor.
        let only = Frame { at: index + 1, end, is_alias: false, entered: true };
        Self { cursor, frames: Vec::new(), only, value: 0 }
    }

    /// Finds the next key, entering and leaving merged mappings on the way.
    fn next_key(&mut self) -> Result<Option<u32>, YamlError> {
        let context = self.cursor.context;
        loop {
            let frame = self.frames.last_mut().unwrap_or(&mut self.only);
            if !frame.entered {
                frame.entered = true;
                context.count()?;
                if frame.is_alias {
                    context.alias_depth.set(context.alias_depth.get() + 1);
                    context.count()?;
                }
            }
            if frame.at >= frame.end {
                if self.frames.is_empty() {
                    return Ok(None);
                }
                if self.frames.pop().is_some_and(|frame| frame.is_alias) {
                    context.alias_depth.set(context.alias_depth.get() - 1);
                }
                continue;
            }
            let key = frame.at;
            let value = context.item(key).next;
            frame.at = context.item(value).next;
            if context.item(key).is_merge() {
                self.merge(value)?;
                continue;
            }
            self.value = value;
            return Ok(Some(key));
        }
    }

    fn merge(&mut self, value: u32) -> Result<(), YamlError> {
        if self.frames.len() > MAX_DEPTH {
            return Err(fail(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let context = self.cursor.context;
        let item = context.item(value);
        if !matches!(item.content, Content::Seq) {
            return self.merge_one(value);
        }
        // Pushed last, read first: the earlier mappings come later and win.
        let mut at = value + 1;
        while at < item.next {
            self.merge_one(at)?;
            at = context.item(at).next;
        }
        Ok(())
    }

    fn merge_one(&mut self, value: u32) -> Result<(), YamlError> {
        let context = self.cursor.context;
        let want_map = || fail("map merge requires map or sequence of maps as the value");
        if let Content::Alias { target, .. } = context.item(value).content
            && !matches!(context.item(target).content, Content::Map)
        {
            return Err(want_map());
        }
        let (index, is_alias) = context.target(value)?;
        let item = context.item(index);
        if !matches!(item.content, Content::Map) {
            return Err(want_map());
        }
        self.frames.push(Frame { at: index + 1, end: item.next, is_alias, entered: false });
        Ok(())
    }

    /// The key as text.
    fn key(&self, index: u32) -> Result<Cow<'t, str>, YamlError> {
        let context = self.cursor.context;
        context.count()?;
        let (index, is_alias) = context.target(index)?;
        if is_alias {
            context.count()?;
        }
        let item = context.item(index);
        let Content::Scalar { value, style } = &item.content else {
            let mut shown = String::new();
            go_syntax(context, index, 0, &mut shown)?;
            return Err(fail(format!("invalid map key: {shown}")));
        };
        Ok(match decode(item, value, *style)? {
            Decoded::Str(text) => text,
            Decoded::Bool(value) => Cow::Borrowed(if value { "true" } else { "false" }),
            Decoded::Int(value) => Cow::Owned(value.to_string()),
            Decoded::Float(value) => match number::go_float32(value).as_str() {
                "+Inf" => Cow::Borrowed(".inf"),
                "-Inf" => Cow::Borrowed("-.inf"),
                "NaN" => Cow::Borrowed(".nan"),
                text => Cow::Owned(text.to_owned()),
            },
            Decoded::Null => return self.unsupported("%!s(<nil>)", "<nil>"),
            Decoded::Uint(value) => return self.unsupported("uint64", &format!("{value:#x}")),
        })
    }

    fn unsupported(&self, kind: &str, key: &str) -> Result<Cow<'t, str>, YamlError> {
        if self.cursor.context.stage == Stage::Decode {
            return Ok(Cow::Borrowed(""));
        }
        let mut value = String::new();
        go_syntax(self.cursor.context, self.value, 0, &mut value)?;
        Err(YamlError::Convert(format!("unsupported map key of type: {kind}, key: {key}, value: {value}")))
    }
}

impl<'de> de::MapAccess<'de> for Pairs<'_, '_, '_> {
    type Error = YamlError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, YamlError> {
        let Some(index) = self.next_key()? else { return Ok(None) };
        match self.key(index)? {
            Cow::Borrowed(text) => seed.deserialize(text.into_deserializer()).map(Some),
            Cow::Owned(text) => seed.deserialize(text.into_deserializer()).map(Some),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, YamlError> {
        seed.deserialize(Cursor { index: self.value, depth: self.cursor.depth + 1, ..self.cursor })
    }
}

impl<'de> Deserializer<'de> for Cursor<'_, '_, '_> {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        let context = self.context;
        let is_null = context.tape.items.is_empty() || {
            let item = context.item(context.target(self.index)?.0);
            match &item.content {
                Content::Scalar { value, style } => matches!(decode(item, value, *style)?, Decoded::Null),
                _ => false,
            }
        };
        if is_null { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    /// Go gives text fields numbers and booleans as text.
    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        if self.context.tape.items.is_empty() {
            return visitor.visit_str("");
        }
        let item = self.context.item(self.context.target(self.index)?.0);
        let Content::Scalar { value, style } = &item.content else { return self.visit(visitor) };
        match decode(item, value, *style)? {
            Decoded::Int(value) => visitor.visit_string(value.to_string()),
            Decoded::Uint(value) => visitor.visit_string(value.to_string()),
            Decoded::Float(value) => visitor.visit_string(number::go_float32(value)),
            Decoded::Bool(value) => visitor.visit_str(if value { "true" } else { "false" }),
            Decoded::Null => visitor.visit_str(""),
            Decoded::Str(_) => self.visit(visitor),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, YamlError> {
        let item = match self.context.tape.items.is_empty() {
            true => return visitor.visit_enum("".into_deserializer()),
            false => self.context.item(self.context.target(self.index)?.0),
        };
        match &item.content {
            Content::Scalar { value, .. } => visitor.visit_enum((**value).into_deserializer()),
            _ => {
                let index = self.context.target(self.index)?.0;
                visitor.visit_enum(de::value::MapAccessDeserializer::new(Pairs::new(self, index)))
            }
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char bytes byte_buf unit unit_struct seq
        tuple tuple_struct map struct identifier ignored_any
    }
}

/// Reads a value and forgets it, keys included.
struct Everything;

impl Everything {
    fn deserialize_from<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> DeserializeSeed<'de> for Everything {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Everything {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("anything")
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }
    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }
    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }
    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }
    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
    fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(Self)?.is_some() {}
        Ok(())
    }
    fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry_seed(Self, Self)?.is_some() {}
        Ok(())
    }
}

/// Writes a value as Go's `%#v` does, for messages about keys.
fn go_syntax(context: &Context<'_, '_>, index: u32, depth: usize, out: &mut String) -> Result<(), YamlError> {
    if depth > MAX_DEPTH {
        return Err(fail(format!("exceeded max depth of {MAX_DEPTH}")));
    }
    context.count()?;
    let (index, is_alias) = context.target(index)?;
    if is_alias {
        context.alias_depth.set(context.alias_depth.get() + 1);
    }
    let item = context.item(index);
    match &item.content {
        Content::Scalar { value, style } => match decode(item, value, *style)? {
            Decoded::Null => out.push_str(if depth == 0 { "<nil>" } else { "interface {}(nil)" }),
            Decoded::Bool(value) => out.push_str(if value { "true" } else { "false" }),
            Decoded::Int(value) => {
                let _ = write!(out, "{value}");
            }
            Decoded::Uint(value) => {
                let _ = write!(out, "{value:#x}");
            }
            Decoded::Float(value) => out.push_str(&number::go_float(value)),
            Decoded::Str(text) => go_quote(&text, out),
        },
        Content::Seq => {
            out.push_str("[]interface {}{");
            let mut at = index + 1;
            while at < item.next {
                if at > index + 1 {
                    out.push_str(", ");
                }
                go_syntax(context, at, depth + 1, out)?;
                at = context.item(at).next;
            }
            out.push('}');
        }
        Content::Map => {
            out.push_str("map[interface {}]interface {}{");
            let mut entries = Vec::new();
            let mut at = index + 1;
            while at < item.next {
                let value_at = context.item(at).next;
                let mut entry = String::new();
                go_syntax(context, at, depth + 1, &mut entry)?;
                entry.push(':');
                go_syntax(context, value_at, depth + 1, &mut entry)?;
                entries.push(entry);
                at = context.item(value_at).next;
            }
            entries.sort();
            out.push_str(&entries.join(", "));
            out.push('}');
        }
        Content::Alias { .. } => {}
    }
    if is_alias {
        context.alias_depth.set(context.alias_depth.get() - 1);
    }
    Ok(())
}

fn go_quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0b' => out.push_str("\\v"),
            '\x0c' => out.push_str("\\f"),
            c if (c as u32) < 0x20 || c == '\x7f' => {
                let _ = write!(out, "\\x{:02x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
}
