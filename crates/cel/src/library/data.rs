//! Data in and out of JSON, maps merged, lists changed at an index.

use serde_json::Value as Json;

use super::{Answer, Functions};
use crate::error::EvalError;
use crate::eval::Meter;
use crate::types::Type;
use crate::value::{Key, List, Map, Value};

pub(super) fn add(functions: &mut Functions) {
    functions.function("json.marshal", vec![Type::Dyn], Type::String, |meter, args| match args {
        [value] => {
            let json = value.to_json().ok_or_else(|| EvalError::invalid("value has no JSON form"))?;
            let text = json.to_string();
            meter.charge_bytes(text.len())?;
            Ok(Value::string(text))
        }
        _ => Err(EvalError::no_overload()),
    });
    functions.function("json.unmarshal", vec![Type::String], Type::Dyn, |meter, args| match args {
        [Value::String(text)] => {
            meter.charge(text.len() as u64)?;
            let json: Json = serde_json::from_str(text)
                .map_err(|error| EvalError::invalid(format!("json.unmarshal: {error}")))?;
            Ok(owned(&json))
        }
        _ => Err(EvalError::no_overload()),
    });
    let map = || Type::map(Type::Param(0), Type::Param(1));
    functions.method("merge", vec![map(), map()], map(), |meter, args| match args {
        [Value::Map(first), Value::Map(second)] => {
            meter.charge((first.len() + second.len()) as u64)?;
            let kept = first.entries().into_iter().map(|(key, value)| {
                let value = second.get(&key).unwrap_or(value);
                (key, value)
            });
            Ok(Value::Map(kept.chain(second.entries()).collect()))
        }
        _ => Err(EvalError::no_overload()),
    });
    let list = || Type::list(Type::Param(0));
    for name in ["lists.setAtIndex", "lists.insertAtIndex"] {
        functions.function(name, vec![list(), Type::Int, Type::Param(0)], list(), move |meter, args| {
            let [Value::List(items), Value::Int(at), value] = args else {
                return Err(EvalError::no_overload());
            };
            change(meter, items, *at, name == "lists.insertAtIndex", |values, at| {
                if name == "lists.insertAtIndex" {
                    values.insert(at, value.clone());
                } else {
                    values[at] = value.clone();
                }
            })
        });
    }
    functions.function("lists.removeAtIndex", vec![list(), Type::Int], list(), |meter, args| {
        let [Value::List(items), Value::Int(at)] = args else { return Err(EvalError::no_overload()) };
        change(meter, items, *at, false, |values, at| {
            values.remove(at);
        })
    });
}

/// A changed copy of a list; the index may be the end when something is put in.
fn change<'a>(
    meter: &Meter<'_>,
    list: &List<'a>,
    at: i64,
    end: bool,
    make: impl Fn(&mut Vec<Value<'a>>, usize),
) -> Answer<'a> {
    meter.charge(list.len() as u64)?;
    let place = usize::try_from(at).ok().filter(|place| *place < list.len() + usize::from(end));
    let place = place.ok_or_else(|| EvalError::index(at))?;
    let mut values: Vec<Value<'a>> = list.iter().collect();
    make(&mut values, place);
    Ok(Value::list(values))
}

/// JSON as a value that borrows nothing; JSON text nests no deeper than its reader allows.
fn owned<'a>(json: &Json) -> Value<'a> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(truth) => Value::Bool(*truth),
        Json::Number(number) => match number.as_i64() {
            Some(number) => Value::Int(number),
            None => Value::Double(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::string(text.clone()),
        Json::Array(items) => Value::list(items.iter().map(owned).collect::<Vec<_>>()),
        Json::Object(map) => {
            let entry = |(key, value): (&String, &Json)| (Key::String(key.clone().into()), owned(value));
            Value::Map(map.iter().map(entry).collect::<Map<'a>>())
        }
    }
}
