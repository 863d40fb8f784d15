//! Reads fields and elements.

use slipway_problem::nearest_name;

use super::Run;
use crate::error::EvalError;
use crate::library::Answer;
use crate::value::{Key, List, Map, Value};

/// Maps with more keys are not searched for a near one.
const SEARCHED: usize = 64;

impl<'a> Run<'_, 'a> {
    /// The error of an absent key, with a key that is near.
    fn missing_field(&self, map: &Map<'a>, name: &str) -> EvalError {
        let error = EvalError::no_such_key(name);
        if map.len() > SEARCHED || self.meter.charge(2 * map.len() as u64).is_err() {
            return error;
        }
        let keys: Vec<String> = map.keys().iter().map(Key::show).collect();
        error.nearest(nearest_name(name, keys.iter().map(String::as_str)))
    }

    pub(super) fn select_field(&self, operand: &Value<'a>, field: &str) -> Answer<'a> {
        match operand {
            Value::Map(map) => map.field(field).ok_or_else(|| self.missing_field(map, field)),
            Value::Optional(_) => self.select_optional(operand, field),
            _ => Err(EvalError::no_such_key(field)),
        }
    }

    pub(super) fn select_optional(&self, operand: &Value<'a>, field: &str) -> Answer<'a> {
        match operand {
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => self.select_optional(inner, field),
            Value::Map(map) => Ok(match map.field(field) {
                Some(found @ Value::Optional(_)) => found,
                Some(found) => Value::some(found),
                None => Value::Optional(None),
            }),
            Value::Null => Ok(Value::Optional(None)),
            _ => Err(EvalError::no_overload()),
        }
    }

    pub(super) fn has_field(&self, operand: &Value<'a>, field: &str) -> Answer<'a> {
        match operand {
            Value::Map(map) => Ok(Value::Bool(map.field(field).is_some())),
            Value::Optional(None) => Ok(Value::Bool(false)),
            Value::Optional(Some(inner)) => self.has_field(inner, field),
            _ => Ok(Value::Bool(false)),
        }
    }

    pub(super) fn index_value(&self, operand: &Value<'a>, index: &Value<'a>) -> Answer<'a> {
        match operand {
            Value::List(list) => element(list, index)?.ok_or_else(|| EvalError::index(index)),
            Value::Map(map) => {
                let key = Key::of(index).ok_or_else(|| EvalError::no_such_key(index.to_string()))?;
                map.get(&key).ok_or_else(|| self.missing_field(map, &key.show()))
            }
            Value::Optional(_) => self.index_optional(operand.clone(), index),
            _ => Err(EvalError::no_overload()),
        }
    }

    pub(super) fn index_optional(&self, operand: Value<'a>, index: &Value<'a>) -> Answer<'a> {
        let found = match &operand {
            Value::Optional(None) | Value::Null => None,
            Value::Optional(Some(inner)) => return self.index_optional((**inner).clone(), index),
            Value::List(list) => element(list, index)?,
            Value::Map(map) => Key::of(index).and_then(|key| map.get(&key)),
            _ => return Err(EvalError::no_overload()),
        };
        Ok(Value::Optional(found.map(std::sync::Arc::new)))
    }
}

/// The element a number names; doubles may name one when they are whole.
fn element<'a>(list: &List<'a>, index: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
    let place = match index {
        Value::Int(number) => usize::try_from(*number).ok(),
        Value::Uint(number) => usize::try_from(*number).ok(),
        Value::Double(number) if number.trunc() == *number && number.abs() < 9e15 => {
            usize::try_from(*number as i64).ok()
        }
        Value::Double(_) => {
            return Err(EvalError::invalid(format!("unsupported index value {index} in list")));
        }
        other => {
            return Err(EvalError::invalid(format!(
                "unsupported index type '{}' in list",
                other.type_name()
            )));
        }
    };
    Ok(place.and_then(|place| list.get(place)))
}
