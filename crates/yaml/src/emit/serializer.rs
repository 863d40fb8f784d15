//! The serde side of writing: any `Serialize` value goes straight to text.
//!
//! An entry of a block mapping looks the same wherever it stands in it, so entries are written as they
//! come and put in order afterwards, and only when they came out of order.

use std::fmt::{Display, Write as _};

use serde::ser::{self, Serialize, Serializer};

use super::YamlEmitter;
use super::key::KeyText;
use super::scalar::{self, LineRoom, WrittenStyle};
use crate::error::YamlError;
use crate::number;
use crate::resolve::{ResolvedScalar, ScalarRules, resolve_scalar};

/// Values may nest this deep.
const MAX_DEPTH: usize = 500;

pub(crate) struct DocumentWriter<'e> {
    emitter: &'e YamlEmitter,
    out: String,
    /// The text of the keys of all open mappings, and where their entries are.
    keys: String,
    entries: Vec<Entry>,
    depth: usize,
}

impl<'e> DocumentWriter<'e> {
    pub(crate) fn new(emitter: &'e YamlEmitter, out: String) -> Self {
        Self { emitter, out, keys: String::new(), entries: Vec::new(), depth: 0 }
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }
}

/// The text before a node on its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lead {
    /// Nothing: the node is the document.
    Root,
    /// `key:`
    Colon,
    /// `-`, `?`, or the `:` of a `?` key: a collection starts on this very line.
    Dash,
}

/// Serializes a value as a node at its position in the document.
pub(crate) struct NodeSerializer<'w, 'e> {
    writer: &'w mut DocumentWriter<'e>,
    lead: Lead,
    /// Column of the collection around it; -2 at the root.
    parent: isize,
}

impl<'w, 'e> NodeSerializer<'w, 'e> {
    pub(crate) fn root(writer: &'w mut DocumentWriter<'e>) -> Self {
        Self { writer, lead: Lead::Root, parent: -2 }
    }

    fn write_verbatim(self, text: impl Display) -> Result<(), YamlError> {
        let separator = if self.lead == Lead::Root { "" } else { " " };
        let _ = writeln!(self.writer.out, "{separator}{text}");
        Ok(())
    }

    fn write_string(self, text: &str) -> Result<(), YamlError> {
        let Self { writer, lead, parent } = self;
        if lead != Lead::Root {
            writer.out.push(' ');
        }
        let indent = if lead == Lead::Root { 2 } else { (parent + 2) as usize };
        let folded;
        let text = if writer.emitter.through_json {
            folded = scalar::through_json(text).ok_or_else(unwritable_value)?;
            &*folded
        } else {
            text
        };
        let (choice, _) = scalar::choose_style(text, writer.emitter.dialect);
        scalar::write_scalar(&mut writer.out, text, choice, LineRoom { indent, width: writer.emitter.width });
        let ended = choice == WrittenStyle::Literal && text.ends_with(['\n', '\u{2028}', '\u{2029}']);
        if !ended {
            writer.out.push('\n');
        }
        Ok(())
    }

    fn open_collection(self, column: isize) -> Result<Open<'w, 'e>, YamlError> {
        self.writer.depth += 1;
        if self.writer.depth > MAX_DEPTH {
            return Err(YamlError::Emit(format!("exceeded max depth of {MAX_DEPTH}")));
        }
        let column = column.max(0) as usize;
        Ok(Open { writer: self.writer, lead: self.lead, column, count: 0 })
    }
}

fn unwritable_value() -> YamlError {
    YamlError::Emit("error converting JSON to YAML: yaml: control characters are not allowed".to_owned())
}

/// A collection being written.
struct Open<'w, 'e> {
    writer: &'w mut DocumentWriter<'e>,
    lead: Lead,
    column: usize,
    count: usize,
}

impl Open<'_, '_> {
    /// Goes to where the next entry starts.
    fn next(&mut self) {
        let out = &mut self.writer.out;
        match (self.count, self.lead) {
            (0, Lead::Root) => {}
            (0, Lead::Dash) => out.push(' '),
            (0, Lead::Colon) => {
                out.push('\n');
                scalar::push_spaces(out, self.column);
            }
            _ => scalar::push_spaces(out, self.column),
        }
        self.count += 1;
    }

    fn close_collection(self, empty: &str) {
        if self.count == 0 {
            if self.lead != Lead::Root {
                self.writer.out.push(' ');
            }
            self.writer.out.push_str(empty);
            self.writer.out.push('\n');
        }
        self.writer.depth -= 1;
    }
}

impl<'w, 'e> Serializer for NodeSerializer<'w, 'e> {
    type Ok = ();
    type Error = YamlError;
    type SerializeSeq = SeqWriter<'w, 'e>;
    type SerializeTuple = SeqWriter<'w, 'e>;
    type SerializeTupleStruct = SeqWriter<'w, 'e>;
    type SerializeTupleVariant = SeqWriter<'w, 'e>;
    type SerializeMap = MapWriter<'w, 'e>;
    type SerializeStruct = MapWriter<'w, 'e>;
    type SerializeStructVariant = MapWriter<'w, 'e>;

    fn serialize_bool(self, value: bool) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_i8(self, value: i8) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_i16(self, value: i16) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_i32(self, value: i32) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_i64(self, value: i64) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_u8(self, value: u8) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_u16(self, value: u16) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_u32(self, value: u32) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_u64(self, value: u64) -> Result<(), YamlError> {
        self.write_verbatim(value)
    }
    fn serialize_f32(self, value: f32) -> Result<(), YamlError> {
        self.serialize_f64(f64::from(value))
    }

    fn serialize_f64(self, value: f64) -> Result<(), YamlError> {
        if !self.writer.emitter.through_json {
            return match number::go_float(value).as_str() {
                "+Inf" => self.write_verbatim(".inf"),
                "-Inf" => self.write_verbatim("-.inf"),
                "NaN" => self.write_verbatim(".nan"),
                text => self.write_verbatim(text),
            };
        }
        if !value.is_finite() {
            let value = number::go_float(value);
            return Err(YamlError::Emit(format!(
                "error marshaling into JSON: json: unsupported value: {value}"
            )));
        }
        // What JSON writes without a point is an integer when YAML reads it back.
        match resolve_scalar(ScalarRules::Yaml11, &number::go_json_float(value)) {
            ResolvedScalar::Int(value) => self.write_verbatim(value),
            ResolvedScalar::Uint(value) => self.write_verbatim(value),
            _ => self.write_verbatim(number::go_float(value)),
        }
    }

    fn serialize_char(self, value: char) -> Result<(), YamlError> {
        self.write_string(value.encode_utf8(&mut [0; 4]))
    }
    fn serialize_str(self, value: &str) -> Result<(), YamlError> {
        self.write_string(value)
    }

    /// Go writes bytes as base64.
    fn serialize_bytes(self, value: &[u8]) -> Result<(), YamlError> {
        use base64::Engine as _;
        self.write_string(&base64::engine::general_purpose::STANDARD.encode(value))
    }

    fn serialize_none(self) -> Result<(), YamlError> {
        self.write_verbatim("null")
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), YamlError> {
        value.serialize(self)
    }
    fn serialize_unit(self) -> Result<(), YamlError> {
        self.write_verbatim("null")
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), YamlError> {
        self.write_verbatim("null")
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), YamlError> {
        self.write_string(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        value.serialize(self)
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        let mut map = self.serialize_map(Some(1))?;
        ser::SerializeMap::serialize_entry(&mut map, variant, value)?;
        ser::SerializeMap::end(map)
    }

    fn serialize_seq(self, _length: Option<usize>) -> Result<SeqWriter<'w, 'e>, YamlError> {
        let beside = self.lead == Lead::Colon && !self.writer.emitter.indent_sequences;
        let column = if beside { self.parent } else { self.parent + 2 };
        Ok(SeqWriter { open: self.open_collection(column)?, variant: None })
    }
    fn serialize_tuple(self, length: usize) -> Result<SeqWriter<'w, 'e>, YamlError> {
        self.serialize_seq(Some(length))
    }
    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        length: usize,
    ) -> Result<SeqWriter<'w, 'e>, YamlError> {
        self.serialize_seq(Some(length))
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<SeqWriter<'w, 'e>, YamlError> {
        let mut map = self.serialize_map(Some(1))?;
        map.begin_text(variant)?;
        let place = map.value_place();
        // The mapping of one entry ends with its only value, so it needs no closing of its own.
        let NodeSerializer { lead, parent, .. } = place;
        let MapWriter { open, keys_from, entries_from, .. } = map;
        let writer = open.writer;
        writer.keys.truncate(keys_from);
        writer.entries.truncate(entries_from);
        let mut seq = NodeSerializer { writer, lead, parent }.serialize_seq(Some(length))?;
        seq.variant = Some(());
        Ok(seq)
    }
    fn serialize_map(self, _length: Option<usize>) -> Result<MapWriter<'w, 'e>, YamlError> {
        let column = self.parent + 2;
        let (keys_from, entries_from) = (self.writer.keys.len(), self.writer.entries.len());
        let open = self.open_collection(column)?;
        Ok(MapWriter { open, keys_from, entries_from, in_order: true, complex: false })
    }
    fn serialize_struct(self, _name: &'static str, length: usize) -> Result<MapWriter<'w, 'e>, YamlError> {
        self.serialize_map(Some(length))
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
        length: usize,
    ) -> Result<MapWriter<'w, 'e>, YamlError> {
        let mut map = self.serialize_map(Some(1))?;
        map.begin_text(variant)?;
        let NodeSerializer { lead, parent, .. } = map.value_place();
        let MapWriter { open, keys_from, entries_from, .. } = map;
        let writer = open.writer;
        writer.keys.truncate(keys_from);
        writer.entries.truncate(entries_from);
        writer.depth -= 1;
        NodeSerializer { writer, lead, parent }.serialize_map(Some(length))
    }
}

pub(crate) struct SeqWriter<'w, 'e> {
    open: Open<'w, 'e>,
    /// Set when the list is the value of an enum variant, which opened a mapping around it.
    variant: Option<()>,
}

impl SeqWriter<'_, '_> {
    fn write_item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
        self.open.next();
        self.open.writer.out.push('-');
        let parent = self.open.column as isize;
        value.serialize(NodeSerializer { writer: self.open.writer, lead: Lead::Dash, parent })
    }

    fn finish(self) -> Result<(), YamlError> {
        if self.variant.is_some() {
            self.open.writer.depth -= 1;
        }
        self.open.close_collection("[]");
        Ok(())
    }
}

macro_rules! sequence {
    ($($trait:ident $method:ident),*) => {$(
        impl ser::$trait for SeqWriter<'_, '_> {
            type Ok = ();
            type Error = YamlError;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
                self.write_item(value)
            }
            fn end(self) -> Result<(), YamlError> {
                self.finish()
            }
        }
    )*};
}

sequence! {
    SerializeSeq serialize_element, SerializeTuple serialize_element,
    SerializeTupleStruct serialize_field, SerializeTupleVariant serialize_field
}

/// The range of an entry's key in the writer's keys, and of its text in the output.
#[derive(Clone, Copy)]
struct Entry {
    key: (usize, usize),
    start: usize,
    end: usize,
}

pub(crate) struct MapWriter<'w, 'e> {
    open: Open<'w, 'e>,
    keys_from: usize,
    entries_from: usize,
    in_order: bool,
    complex: bool,
}

impl<'e> MapWriter<'_, 'e> {
    fn begin_text(&mut self, key: &str) -> Result<(), YamlError> {
        let from = self.open.writer.keys.len();
        self.open.writer.keys.push_str(key);
        self.begin_entry(from)
    }

    /// Writes the key that was put at `from` of the writer's keys.
    fn begin_entry(&mut self, from: usize) -> Result<(), YamlError> {
        /// Longer keys are written with `?`.
        const LONGEST_SIMPLE_KEY: usize = 128;
        self.open.next();
        let Open { writer, column, .. } = &mut self.open;
        let emitter = writer.emitter;
        let keys = std::mem::take(&mut writer.keys);
        let key = &keys[from..];
        if emitter.through_json && !scalar::key_through_json(key) {
            return Err(unwritable_value());
        }
        if let Some(last) = writer.entries.get(self.entries_from..).and_then(<[Entry]>::last) {
            self.in_order &= !emitter.order.is_after(&keys[last.key.0..last.key.1], key);
        }
        let start = writer.out.len();
        writer.entries.push(Entry { key: (from, keys.len()), start, end: start });
        let (choice, multiline) = scalar::choose_style(key, emitter.dialect);
        self.complex = multiline || key.len() > LONGEST_SIMPLE_KEY;
        if self.complex {
            writer.out.push('?');
            NodeSerializer { writer, lead: Lead::Dash, parent: *column as isize }.write_string(key)?;
            scalar::push_spaces(&mut writer.out, *column);
        } else {
            scalar::write_scalar(&mut writer.out, key, choice, LineRoom { indent: 0, width: None });
        }
        writer.out.push(':');
        writer.keys = keys;
        Ok(())
    }

    fn value_place(&mut self) -> NodeSerializer<'_, 'e> {
        let lead = if self.complex { Lead::Dash } else { Lead::Colon };
        NodeSerializer { parent: self.open.column as isize, lead, writer: self.open.writer }
    }

    fn write_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
        value.serialize(self.value_place())?;
        let end = self.open.writer.out.len();
        if let Some(entry) = self.open.writer.entries.last_mut() {
            entry.end = end;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<(), YamlError> {
        if !self.in_order {
            self.reorder_entries();
        }
        self.open.writer.keys.truncate(self.keys_from);
        self.open.writer.entries.truncate(self.entries_from);
        self.open.close_collection("{}");
        Ok(())
    }

    fn reorder_entries(&mut self) {
        let Open { writer, column, .. } = &mut self.open;
        let mut entries = writer.entries.split_off(self.entries_from);
        let Some(first) = entries.first().map(|entry| entry.start) else { return };
        let keys = &writer.keys;
        writer.emitter.order.sort_entries(&mut entries, |entry| &keys[entry.key.0..entry.key.1]);
        let unordered = writer.out.split_off(first);
        writer.out.reserve(unordered.len());
        for (index, entry) in entries.iter().enumerate() {
            if index > 0 {
                scalar::push_spaces(&mut writer.out, *column);
            }
            writer.out.push_str(&unordered[entry.start - first..entry.end - first]);
        }
    }
}

impl ser::SerializeMap for MapWriter<'_, '_> {
    type Ok = ();
    type Error = YamlError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), YamlError> {
        let from = self.open.writer.keys.len();
        key.serialize(KeyText(&mut self.open.writer.keys))?;
        self.begin_entry(from)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), YamlError> {
        self.write_value(value)
    }

    fn end(self) -> Result<(), YamlError> {
        self.finish()
    }
}

impl ser::SerializeStruct for MapWriter<'_, '_> {
    type Ok = ();
    type Error = YamlError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        self.begin_text(key)?;
        self.write_value(value)
    }
    fn end(self) -> Result<(), YamlError> {
        self.finish()
    }
}

impl ser::SerializeStructVariant for MapWriter<'_, '_> {
    type Ok = ();
    type Error = YamlError;
    fn serialize_field<T: Serialize + ?Sized>(
        &mut self,
        key: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        self.begin_text(key)?;
        self.write_value(value)
    }
    fn end(self) -> Result<(), YamlError> {
        self.finish()
    }
}
