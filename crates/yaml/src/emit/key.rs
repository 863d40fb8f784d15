//! The text of a mapping's key.

use std::fmt::{Display, Write as _};

use serde::ser::{Impossible, Serialize, Serializer};

use crate::error::YamlError;
use crate::number;

/// Takes the text of a key; keys that are no scalars have none.
pub(super) struct KeyText<'k>(pub(super) &'k mut String);

impl KeyText<'_> {
    fn write_key(self, key: impl Display) -> Result<(), YamlError> {
        let _ = write!(self.0, "{key}");
        Ok(())
    }
}

fn key_must_be_text<T>() -> Result<T, YamlError> {
    Err(YamlError::Emit("a mapping key must be text".to_owned()))
}

impl Serializer for KeyText<'_> {
    type Ok = ();
    type Error = YamlError;
    type SerializeSeq = Impossible<(), YamlError>;
    type SerializeTuple = Impossible<(), YamlError>;
    type SerializeTupleStruct = Impossible<(), YamlError>;
    type SerializeTupleVariant = Impossible<(), YamlError>;
    type SerializeMap = Impossible<(), YamlError>;
    type SerializeStruct = Impossible<(), YamlError>;
    type SerializeStructVariant = Impossible<(), YamlError>;

    fn serialize_str(self, value: &str) -> Result<(), YamlError> {
        self.0.push_str(value);
        Ok(())
    }
    fn serialize_bool(self, value: bool) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_i8(self, value: i8) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_i16(self, value: i16) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_i32(self, value: i32) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_i64(self, value: i64) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_u8(self, value: u8) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_u16(self, value: u16) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_u32(self, value: u32) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_u64(self, value: u64) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_f32(self, value: f32) -> Result<(), YamlError> {
        self.write_key(number::go_float(f64::from(value)))
    }
    fn serialize_f64(self, value: f64) -> Result<(), YamlError> {
        self.write_key(number::go_float(value))
    }
    fn serialize_char(self, value: char) -> Result<(), YamlError> {
        self.write_key(value)
    }
    fn serialize_unit_variant(
        self,
        _name: &'static str,
        _index: u32,
        variant: &'static str,
    ) -> Result<(), YamlError> {
        self.write_key(variant)
    }
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        value: &T,
    ) -> Result<(), YamlError> {
        value.serialize(self)
    }
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), YamlError> {
        value.serialize(self)
    }
    fn serialize_bytes(self, _value: &[u8]) -> Result<(), YamlError> {
        key_must_be_text()
    }
    fn serialize_none(self) -> Result<(), YamlError> {
        key_must_be_text()
    }
    fn serialize_unit(self) -> Result<(), YamlError> {
        key_must_be_text()
    }
    fn serialize_unit_struct(self, _name: &'static str) -> Result<(), YamlError> {
        key_must_be_text()
    }
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _value: &T,
    ) -> Result<(), YamlError> {
        key_must_be_text()
    }
    fn serialize_seq(self, _length: Option<usize>) -> Result<Self::SerializeSeq, YamlError> {
        key_must_be_text()
    }
    fn serialize_tuple(self, _length: usize) -> Result<Self::SerializeTuple, YamlError> {
        key_must_be_text()
    }
    fn serialize_tuple_struct(
        self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleStruct, YamlError> {
        key_must_be_text()
    }
    fn serialize_tuple_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeTupleVariant, YamlError> {
        key_must_be_text()
    }
    fn serialize_map(self, _length: Option<usize>) -> Result<Self::SerializeMap, YamlError> {
        key_must_be_text()
    }
    fn serialize_struct(
        self,
        _name: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStruct, YamlError> {
        key_must_be_text()
    }
    fn serialize_struct_variant(
        self,
        _name: &'static str,
        _index: u32,
        _variant: &'static str,
        _length: usize,
    ) -> Result<Self::SerializeStructVariant, YamlError> {
        key_must_be_text()
    }
}
