//! Giving a value the type its field has, when nothing is lost by it.

use serde_json::Value as Json;

use crate::params::{Param, ParamData};
use crate::schema::{FieldScalar, FieldType, Form, Next};
use crate::val::Forced;

/// The reason a value does not fit its field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misfit {
    /// Below the field that was written: `.limits.cpu`.
    pub(crate) below: String,
    pub(crate) expected: &'static str,
    pub(crate) found: String,
}

fn misfit(expected: FieldScalar, found: impl Into<String>) -> Misfit {
    Misfit { below: String::new(), expected: expected.name(), found: found.into() }
}

/// Turns a parameter into the JSON its field wants. Depth is limited when parameters are resolved.
pub(crate) fn param(param: &Param, ty: FieldType<'_>) -> Result<Json, Misfit> {
    match &param.data {
        ParamData::Map(map) => map
            .iter()
            .map(|(key, value)| {
                let ty = match ty.child(key) {
                    Next::Known(ty) => ty,
                    _ => FieldType::unknown(),
                };
                let value = self::param(value, ty).map_err(|wrong| below(wrong, &format!(".{key}")))?;
                Ok((key.clone(), value))
            })
            .collect(),
        ParamData::List(items) => items
            .iter()
            .enumerate()
            .map(|(index, item)| {
                self::param(item, ty.item()).map_err(|wrong| below(wrong, &format!("[{index}]")))
            })
            .collect(),
        ParamData::Null | ParamData::Broken => Ok(Json::Null),
        ParamData::Number(number) => match ty.form() {
            Form::Scalar(FieldScalar::String) => Ok(Json::String(number.text.to_string())),
            _ => json(&Json::Number(number.json.clone()), ty),
        },
        ParamData::Bool(value) => json(&Json::Bool(*value), ty),
        ParamData::Text(text) => json(&Json::String(text.to_string()), ty),
    }
}

fn below(mut wrong: Misfit, step: &str) -> Misfit {
    wrong.below.insert_str(0, step);
    wrong
}

/// Casts a single value to the type of its field, if nothing is lost by it.
pub(crate) fn json(value: &Json, ty: FieldType<'_>) -> Result<Json, Misfit> {
    let Form::Scalar(scalar) = ty.form() else { return Ok(value.clone()) };
    match (scalar, value) {
        (FieldScalar::String, Json::Bool(value)) => Ok(Json::String(value.to_string())),
        (FieldScalar::String, Json::Number(number)) => Ok(Json::String(number.to_string())),
        (FieldScalar::Integer, Json::String(text)) => match text.trim().parse::<i64>() {
            Ok(number) => Ok(number.into()),
            Err(_) => Err(misfit(scalar, format!("the string `{text}`"))),
        },
        (FieldScalar::Integer, Json::Number(number)) if number.is_f64() => {
            Err(misfit(scalar, format!("the number {number}")))
        }
        (FieldScalar::Integer | FieldScalar::Number, Json::Bool(value)) => {
            Err(misfit(scalar, format!("the boolean {value}")))
        }
        (FieldScalar::Number, Json::String(text)) => {
            let integer = text.trim().parse::<i64>().ok().map(Json::from);
            let number =
                || text.trim().parse::<f64>().ok().and_then(serde_json::Number::from_f64).map(Json::Number);
            integer.or_else(number).ok_or_else(|| misfit(scalar, format!("the string `{text}`")))
        }
        (FieldScalar::Bool, Json::String(text)) => match text.as_str() {
            "true" => Ok(Json::Bool(true)),
            "false" => Ok(Json::Bool(false)),
            _ => Err(misfit(scalar, format!("the string `{text}`"))),
        },
        (FieldScalar::Bool, Json::Number(number)) => Err(misfit(scalar, format!("the number {number}"))),
        (FieldScalar::Quantity | FieldScalar::IntOrString, Json::Bool(value)) => {
            Err(misfit(scalar, format!("the boolean {value}")))
        }
        _ => Ok(value.clone()),
    }
}

/// Checks a literal that was written in quotes: it is text, and stays text.
pub(crate) fn quoted(text: &str, ty: FieldType<'_>) -> Result<Json, Misfit> {
    match ty.form() {
        Form::Scalar(scalar @ (FieldScalar::Integer | FieldScalar::Number | FieldScalar::Bool)) => {
            Err(misfit(scalar, format!("the quoted text \"{text}\"")))
        }
        _ => Ok(Json::String(text.to_owned())),
    }
}

/// Does what a YAML tag asks for.
pub(crate) fn force(tag: Forced, param: &Param) -> Result<Json, String> {
    let (text, _) = param.text().map_err(|(_, what)| format!("{what} has no such form"))?;
    if tag == Forced::Str {
        return Ok(Json::String(text.into_owned()));
    }
    let text = text.trim();
    match tag {
        Forced::Str => Ok(Json::String(text.to_owned())),
        Forced::Int => text.parse::<i64>().map(Json::from).map_err(|_| format!("`{text}` is no integer")),
        Forced::Float => text
            .parse::<f64>()
            .ok()
            .and_then(serde_json::Number::from_f64)
            .map(Json::Number)
            .ok_or_else(|| format!("`{text}` is no number")),
        Forced::Bool => text.parse::<bool>().map(Json::Bool).map_err(|_| format!("`{text}` is no boolean")),
    }
}
