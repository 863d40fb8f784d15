//! The serde side of reading: a deserializer that walks the tape.

use std::borrow::Cow;
use std::collections::HashSet;

use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer as _, Visitor};

use super::go_syntax::go_syntax;
use super::{Context, Decoded, MAX_DEPTH, Stage, decode, fail};
use crate::error::YamlError;
use crate::node::whole;
use crate::number;
use crate::tape::ItemContent;

/// Stands at one node of the tape.
#[derive(Clone, Copy)]
pub(super) struct TapeCursor<'c, 't, 'a> {
    pub(super) context: &'c Context<'t, 'a>,
    pub(super) index: u32,
    pub(super) depth: usize,
}

impl<'c, 't, 'a> TapeCursor<'c, 't, 'a> {
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
            ItemContent::Scalar { value, style } => match decode(item, value, *style)? {
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
            ItemContent::Seq => visitor.visit_seq(Items { cursor: self, at: index + 1, end: item.next }),
            ItemContent::Map => visitor.visit_map(Pairs::new(self, index)),
            // An alias of an alias cannot be written: anchors name nodes, and an alias carries none.
            ItemContent::Alias { .. } => visitor.visit_unit(),
        };
        if is_alias {
            context.alias_depth.set(context.alias_depth.get() - 1);
        }
        result
    }
}

struct Items<'c, 't, 'a> {
    cursor: TapeCursor<'c, 't, 'a>,
    at: u32,
    end: u32,
}

impl<'de> de::SeqAccess<'de> for Items<'_, '_, '_> {
    type Error = YamlError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, YamlError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let cursor = TapeCursor { index: self.at, depth: self.cursor.depth + 1, ..self.cursor };
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
    cursor: TapeCursor<'c, 't, 'a>,
    frames: Vec<Frame>,
    only: Frame,
    value: u32,
    /// Keys so far, when repeated ones are to be found.
    seen: HashSet<String>,
}

impl<'c, 't, 'a> Pairs<'c, 't, 'a> {
    fn new(cursor: TapeCursor<'c, 't, 'a>, index: u32) -> Self {
        let end = cursor.context.item(index).next;
        // The alias depth of the mapping itself is kept by its cursor.
        let only = Frame { at: index + 1, end, is_alias: false, entered: true };
        Self { cursor, frames: Vec::new(), only, value: 0, seen: HashSet::new() }
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
            if let Some(repeated) = &context.repeated {
                let mut shown = String::new();
                go_syntax(context, key, 0, &mut shown)?;
                if !self.seen.insert(shown.clone()) {
                    let line = context.item(value).start.line + 1;
                    repeated.borrow_mut().push(format!("line {line}: key {shown} already set in map"));
                }
            }
            return Ok(Some(key));
        }
    }

    fn merge(&mut self, value: u32) -> Result<(), YamlError> {
        if self.frames.len() > MAX_DEPTH {
            return Err(fail(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let context = self.cursor.context;
        let item = context.item(value);
        if !matches!(item.content, ItemContent::Seq) {
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
        if let ItemContent::Alias { target, .. } = context.item(value).content
            && !matches!(context.item(target).content, ItemContent::Map)
        {
            return Err(want_map());
        }
        let (index, is_alias) = context.target(value)?;
        let item = context.item(index);
        if !matches!(item.content, ItemContent::Map) {
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
        let ItemContent::Scalar { value, style } = &item.content else {
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
        seed.deserialize(TapeCursor { index: self.value, depth: self.cursor.depth + 1, ..self.cursor })
    }
}

impl<'de> Deserializer<'de> for TapeCursor<'_, '_, '_> {
    type Error = YamlError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        self.visit(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, YamlError> {
        let context = self.context;
        let is_null = context.tape.items.is_empty() || {
            let item = context.item(context.target(self.index)?.0);
            match &item.content {
                ItemContent::Scalar { value, style } => matches!(decode(item, value, *style)?, Decoded::Null),
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
        let ItemContent::Scalar { value, style } = &item.content else { return self.visit(visitor) };
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
            ItemContent::Scalar { value, .. } => visitor.visit_enum((**value).into_deserializer()),
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
