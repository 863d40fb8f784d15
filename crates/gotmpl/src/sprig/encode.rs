//! YAML, JSON and TOML in and out.

use slipway_yaml::YamlEmitter;

use super::dates::TimeObject;
use super::dicts::{Measure, measure_value};
use crate::encoding::json::{self, DecodedJson, EncodeError, JsonStyle};
use crate::encoding::toml;
use crate::func::{FuncContext, FuncError, FuncMap, FuncResult, GoType};
use crate::value::{GoMap, GoValue, MapKind};
use slipway_go::GoError;

const A: GoType = GoType::Any;
const S: GoType = GoType::String;

pub(super) fn add_functions(map: &mut FuncMap) {
    let compact = JsonStyle { html: true, pretty: false, max: 0 };
    let pretty = JsonStyle { pretty: true, ..compact };
    let raw = JsonStyle { html: false, ..compact };
    for (name, style, strict) in [
        ("toJson", compact, false),
        ("mustToJson", compact, true),
        ("toPrettyJson", pretty, false),
        ("mustToPrettyJson", pretty, true),
        ("toRawJson", raw, true),
        ("mustToRawJson", raw, true),
    ] {
        map.add_function(name, &[A], S, move |ctx, args| to_json(ctx, args.get(0), style, strict));
    }
    map.add_function("fromJson", &[S], GoType::Map, |ctx, args| {
        ctx.charge_bytes(args.str(0).len())?;
        let (decoded, range) = split_range(json::decode_json(args.str(0)));
        let value = object_or_error(decoded, |kind| {
            format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
        });
        // Go keeps what it could read next to the error.
        if let (Some(error), GoValue::Map(map)) = (range, &value)
            && !map.is_nil()
            && !map.contains("Error")
        {
            map.insert("Error", String::from(error).into());
        }
        Ok(value)
    });
    map.add_function("fromJsonArray", &[S], GoType::List, |ctx, args| {
        ctx.charge_bytes(args.str(0).len())?;
        let (decoded, range) = split_range(json::decode_json(args.str(0)));
        Ok(match (decoded, range) {
            (Ok(GoValue::List(_)), Some(error)) => GoValue::list(vec![String::from(error).into()]),
            (decoded, _) => list_or_error(decoded, |kind| {
                format!("json: cannot unmarshal {kind} into Go value of type []interface {{}}")
            }),
        })
    });
    map.add_function("mustFromJson", &[S], A, |ctx, args| {
        ctx.charge_bytes(args.str(0).len())?;
        match json::decode_json(args.str(0)) {
            Ok(DecodedJson { value, range_error: None }) => Ok(value),
            Ok(DecodedJson { range_error: Some(error), .. }) | Err(error) => Err(error.into()),
        }
    });
    map.add_function("toYaml", &[A], S, |ctx, args| to_yaml(ctx, args.get(0), &YamlEmitter::helm(), true));
    map.add_function("toYamlPretty", &[A], S, |ctx, args| {
        to_yaml(ctx, args.get(0), &YamlEmitter::pretty(), false)
    });
    map.add_function("fromYaml", &[S], GoType::Map, |ctx, args| {
        // Unlike JSON's, YAML's null leaves the map empty.
        let decoded =
            from_yaml(ctx, args.str(0))?.map(|value| if value.is_nil() { GoValue::map() } else { value });
        Ok(object_or_error(decoded, |kind| yaml_mismatch(kind, "map[string]interface {}")))
    });
    map.add_function("fromYamlArray", &[S], GoType::List, |ctx, args| {
        // As with a map, YAML's null leaves the list empty.
        let decoded = from_yaml(ctx, args.str(0))?
            .map(|value| if value.is_nil() { GoValue::list(Vec::new()) } else { value });
        Ok(list_or_error(decoded, |kind| yaml_mismatch(kind, "[]interface {}")))
    });
    map.add_function("toToml", &[A], S, |ctx, args| {
        if args.get(0).is_nil() {
            return Err(FuncError::new("reflect: call of reflect.Value.Type on zero Value"));
        }
        let max = ctx.limits().value_bytes;
        if let Measure::Cycle = measure_value(ctx, args.get(0))? {
            return Err(FuncError::limit_exceeded("the value contains itself"));
        }
        let text = toml::encode_toml(args.get(0), max).unwrap_or_else(|error| error.to_string().into_bytes());
        ctx.charge_bytes(text.len())?;
        Ok(text.into())
    });
    map.add_function("fromToml", &[S], GoType::Map, |ctx, args| {
        ctx.charge_bytes(args.str(0).len())?;
        Ok(toml::decode_toml(args.str(0)).unwrap_or_else(|error| error_map(error.as_str())).into())
    });
}

fn split_range(decoded: Result<DecodedJson, GoError>) -> (Result<GoValue, GoError>, Option<GoError>) {
    match decoded {
        // A bare number out of range is the wrong kind before it is out of range.
        Ok(DecodedJson { value: GoValue::Nil, range_error: Some(_) }) => (Ok(GoValue::Float64(0.0)), None),
        Ok(decoded) => (Ok(decoded.value), decoded.range_error),
        Err(error) => (Err(error), None),
    }
}

fn to_json(ctx: &mut FuncContext<'_>, value: &GoValue, style: JsonStyle, strict: bool) -> FuncResult {
    let max = ctx.limits().value_bytes;
    match json::encode_json(value, JsonStyle { max, ..style }) {
        Ok(text) => {
            ctx.charge_bytes(text.len())?;
            Ok(text.into())
        }
        Err(error @ EncodeError::TooLong(_)) => Err(FuncError::limit_exceeded(error.to_string())),
        Err(EncodeError::Unsupported(text)) if strict => Err(FuncError::new(text)),
        Err(EncodeError::Unsupported(_)) => Ok("".into()),
    }
}

/// Text without its last line break; a value YAML cannot hold is no text at all.
fn to_yaml(
    ctx: &mut FuncContext<'_>,
    value: &GoValue,
    emitter: &YamlEmitter,
    through_json: bool,
) -> FuncResult {
    match measure_value(ctx, value)? {
        Measure::Bytes(bytes) => ctx.charge_bytes(bytes)?,
        Measure::Cycle => return Ok("".into()),
    }
    // On its own a time is written plain; JSON's detour would make it a string.
    if let (false, GoValue::Object(object)) = (through_json, value)
        && let Some(time) = object.downcast::<TimeObject>()
    {
        return Ok(time.0.rfc3339().into());
    }
    let Ok(mut text) = emitter.emit(value) else { return Ok("".into()) };
    ctx.charge_bytes(text.len())?;
    if text.ends_with('\n') {
        text.pop();
    }
    Ok(text.into())
}

fn from_yaml(ctx: &mut FuncContext<'_>, text: &[u8]) -> Result<Result<GoValue, GoError>, FuncError> {
    ctx.charge_bytes(text.len())?;
    let Ok(text) = std::str::from_utf8(text) else {
        return Ok(Err("error converting YAML to JSON: yaml: invalid leading UTF-8 octet".into()));
    };
    Ok(slipway_yaml::helm::from_str::<GoValue>(text).map_err(|error| GoError::new(error.to_string())))
}

fn yaml_mismatch(kind: &str, wanted: &str) -> String {
    format!(
        "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {kind} into Go value of type {wanted}"
    )
}

fn error_map(error: &str) -> GoMap {
    [("Error", GoValue::from(error))].into_iter().collect()
}

/// Returns the name JSON has for the kind of a value.
fn json_kind(value: &GoValue) -> &'static str {
    match value {
        GoValue::Bool(_) => "bool",
        GoValue::Str(_) => "string",
        GoValue::List(_) => "array",
        GoValue::Map(_) => "object",
        _ => "number",
    }
}

fn object_or_error(decoded: Result<GoValue, GoError>, mismatch: impl Fn(&str) -> String) -> GoValue {
    match decoded {
        Ok(value @ GoValue::Map(_)) => value,
        Ok(GoValue::Nil) => GoMap::nil(MapKind::Any).into(),
        Ok(other) => error_map(&mismatch(json_kind(&other))).into(),
        Err(error) => error_map(error.as_str()).into(),
    }
}

fn list_or_error(decoded: Result<GoValue, GoError>, mismatch: impl Fn(&str) -> String) -> GoValue {
    match decoded {
        Ok(value @ GoValue::List(_)) => value,
        Ok(GoValue::Nil) => crate::value::GoList::nil(crate::value::ListKind::Any).into(),
        Ok(other) => GoValue::list(vec![mismatch(json_kind(&other)).into()]),
        Err(error) => GoValue::list(vec![String::from(error).into()]),
    }
}
