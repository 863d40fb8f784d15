//! YAML, JSON and TOML in and out.

use slipway_yaml::Emitter;

use super::dates::Time;
use super::dicts::{Measure, measure};
use crate::encoding::json::{self, Decoded, EncodeError, Style};
use crate::encoding::toml;
use crate::func::{Ctx, FuncError, FuncMap, FuncResult, Ty};
use crate::value::{Map, MapKind, Value};

const A: Ty = Ty::Any;
const S: Ty = Ty::String;

pub(super) fn add(map: &mut FuncMap) {
    let compact = Style { html: true, pretty: false, max: 0 };
    let pretty = Style { pretty: true, ..compact };
    let raw = Style { html: false, ..compact };
    for (name, style, strict) in [
        ("toJson", compact, false),
        ("mustToJson", compact, true),
        ("toPrettyJson", pretty, false),
        ("mustToPrettyJson", pretty, true),
        ("toRawJson", raw, true),
        ("mustToRawJson", raw, true),
    ] {
        map.add(name, &[A], S, move |ctx, args| to_json(ctx, args.get(0), style, strict));
    }
    map.add("fromJson", &[S], Ty::Map, |ctx, args| {
        ctx.charge(args.str(0).len())?;
        let (decoded, range) = split_range(json::decode(args.str(0)));
        let value = object_or_error(decoded, |kind| {
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        });
        // Go keeps what it could read next to the error.
        if let (Some(error), Value::Map(map)) = (range, &value)
            && !map.is_nil()
            && !map.contains("Error")
        {
            map.insert("Error", error.into());
        }
        Ok(value)
    });
    map.add("fromJsonArray", &[S], Ty::List, |ctx, args| {
        ctx.charge(args.str(0).len())?;
        let (decoded, range) = split_range(json::decode(args.str(0)));
        Ok(match (decoded, range) {
            (Ok(Value::List(_)), Some(error)) => Value::list(vec![error.into()]),
            (decoded, _) => list_or_error(decoded, |kind| {
                format!("json: cannot unmarshal {kind} into Go value of type []interface {{}}")
            }),
        })
    });
    map.add("mustFromJson", &[S], A, |ctx, args| {
        ctx.charge(args.str(0).len())?;
        match json::decode(args.str(0)) {
            Ok(Decoded { value, range_error: None }) => Ok(value),
            Ok(Decoded { range_error: Some(error), .. }) | Err(error) => Err(FuncError::new(error)),
        }
    });
    map.add("toYaml", &[A], S, |ctx, args| to_yaml(ctx, args.get(0), &Emitter::helm(), true));
    map.add("toYamlPretty", &[A], S, |ctx, args| to_yaml(ctx, args.get(0), &Emitter::pretty(), false));
    map.add("fromYaml", &[S], Ty::Map, |ctx, args| {
        // Unlike JSON's, YAML's null leaves the map empty.
        let decoded =
            from_yaml(ctx, args.str(0))?.map(|value| if value.is_nil() { Value::map() } else { value });
        Ok(object_or_error(decoded, |kind| yaml_mismatch(kind, "map[string]interface {}")))
    });
    map.add("fromYamlArray", &[S], Ty::List, |ctx, args| {
        // As with a map, YAML's null leaves the list empty.
        let decoded = from_yaml(ctx, args.str(0))?
            .map(|value| if value.is_nil() { Value::list(Vec::new()) } else { value });
        Ok(list_or_error(decoded, |kind| yaml_mismatch(kind, "[]interface {}")))
    });
    map.add("toToml", &[A], S, |ctx, args| {
        if args.get(0).is_nil() {
            return Err(FuncError::new("reflect: call of reflect.Value.Type on zero Value"));
        }
        let max = ctx.limits().value_bytes;
        if let Measure::Cycle = measure(ctx, args.get(0))? {
            return Err(FuncError::limit("the value contains itself"));
        }
        let text = toml::encode(args.get(0), max).unwrap_or_else(String::into_bytes);
        ctx.charge(text.len())?;
        Ok(text.into())
    });
    map.add("fromToml", &[S], Ty::Map, |ctx, args| {
        ctx.charge(args.str(0).len())?;
        Ok(toml::decode(args.str(0)).unwrap_or_else(|error| error_map(&error)).into())
    });
}

fn split_range(decoded: Result<Decoded, String>) -> (Result<Value, String>, Option<String>) {
    match decoded {
        // A bare number out of range is the wrong kind before it is out of range.
        Ok(Decoded { value: Value::Nil, range_error: Some(_) }) => (Ok(Value::Float64(0.0)), None),
        Ok(decoded) => (Ok(decoded.value), decoded.range_error),
        Err(error) => (Err(error), None),
    }
}

fn to_json(ctx: &mut Ctx<'_>, value: &Value, style: Style, strict: bool) -> FuncResult {
    let max = ctx.limits().value_bytes;
    match json::encode(value, Style { max, ..style }) {
        Ok(text) => {
            ctx.charge(text.len())?;
            Ok(text.into())
        }
        Err(error @ EncodeError::TooLong(_)) => Err(FuncError::limit(error.to_string())),
        Err(EncodeError::Unsupported(text)) if strict => Err(FuncError::new(text)),
        Err(EncodeError::Unsupported(_)) => Ok("".into()),
    }
}

/// Text without its last line break; a value YAML cannot hold is no text at all.
fn to_yaml(ctx: &mut Ctx<'_>, value: &Value, emitter: &Emitter, through_json: bool) -> FuncResult {
    match measure(ctx, value)? {
        Measure::Bytes(bytes) => ctx.charge(bytes)?,
        Measure::Cycle => return Ok("".into()),
    }
    // On its own a time is written plain; JSON's detour would make it a string.
    if let (false, Value::Object(object)) = (through_json, value)
        && let Some(time) = object.downcast::<Time>()
    {
        return Ok(time.0.rfc3339().into());
    }
    let Ok(mut text) = emitter.emit(value) else { return Ok("".into()) };
    ctx.charge(text.len())?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text.into())
}

fn from_yaml(ctx: &mut Ctx<'_>, text: &[u8]) -> Result<Result<Value, String>, FuncError> {
    ctx.charge(text.len())?;
    let Ok(text) = std::str::from_utf8(text) else {
        return Ok(Err("error converting YAML to JSON: yaml: invalid leading UTF-8 octet".to_owned()));
    };
    Ok(slipway_yaml::helm::from_str::<Value>(text).map_err(|error| error.to_string()))
}

fn yaml_mismatch(kind: &str, wanted: &str) -> String {
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type {wanted}"
    )
}

fn error_map(error: &str) -> Map {
    [("Error", Value::from(error))].into_iter().collect()
}

/// What JSON calls the kind of a value.
fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) => "object",
        _ => "number",
    }
}

fn object_or_error(decoded: Result<Value, String>, mismatch: impl Fn(&str) -> String) -> Value {
    match decoded {
        Ok(value @ Value::Map(_)) => value,
        Ok(Value::Nil) => Map::nil(MapKind::Any).into(),
        Ok(other) => error_map(&mismatch(json_kind(&other))).into(),
        Err(error) => error_map(&error).into(),
    }
}

fn list_or_error(decoded: Result<Value, String>, mismatch: impl Fn(&str) -> String) -> Value {
    match decoded {
        Ok(value @ Value::List(_)) => value,
        Ok(Value::Nil) => crate::value::List::nil(crate::value::ListKind::Any).into(),
        Ok(other) => Value::list(vec![mismatch(json_kind(&other)).into()]),
        Err(error) => Value::list(vec![error.into()]),
    }
}
