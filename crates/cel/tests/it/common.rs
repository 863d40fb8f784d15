//! The environment the tables are written for.

use serde_json::{Value as Json, json};
use slipway_cel::{Bindings, Env, EvalError, Overload, Type, Value};

pub(crate) fn env() -> Env {
    let env = Env::with_all_libraries();
    let map = || Type::map(Type::String, Type::String);
    let get =
        Overload::method(
            "get",
            vec![map(), Type::String, Type::String],
            Type::String,
            |_, args| match args {
                [Value::Map(map), Value::String(key), default] => {
                    Ok(map.field(key).unwrap_or_else(|| default.clone()))
                }
                _ => Err(EvalError::no_overload()),
            },
        );
    env.variable("vars", map())
        .variable("x", Type::Dyn)
        .variable("obj", Type::from_json_schema(&schema()))
        .variable("metrics", Type::map(Type::String, Type::Double))
        .function(get)
}

pub(crate) fn schema() -> Json {
    json!({"type": "object", "properties": {
        "price": {"type": "number"},
        "prices": {"type": "array", "items": {"type": "number"}},
        "since": {"type": "string", "format": "date-time"},
        "wait": {"type": "string", "format": "duration"},
        "a-b": {"type": "string"},
        "if": {"type": "string"},
        "port": {"x-kubernetes-int-or-string": true},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "maybe": {"type": "integer", "nullable": true},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "nested": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
    }})
}

pub(crate) fn data() -> Json {
    json!({
        "vars": {"ENV": "prod", "TAG": "v12", "N": "5"},
        "x": {"list": [{"name": "a", "n": 1}, {"name": "b", "n": 2}], "n": 1, "half": 0.5, "none": null},
        "obj": {
            "price": 3, "prices": [1, 2], "since": "2024-01-01T00:00:00Z", "wait": "10s", "a-b": "dash",
            "if": "kw", "port": 80, "labels": {"k": "v"}, "maybe": null, "free": {"anything": 1},
            "nested": {"replicas": 3},
        },
        "metrics": {"success-rate": 0.99},
    })
}

pub(crate) fn bindings(data: &Json) -> Bindings<'_> {
    let mut bindings = Bindings::new();
    for name in ["vars", "x", "obj", "metrics"] {
        bindings.set(name, Value::from_json(&data[name]));
    }
    bindings
}

pub(crate) fn eval(text: &str) -> Result<Option<Json>, String> {
    let program = env().compile(text).map_err(|errors| {
        let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
        errors.join("; ")
    })?;
    let data = data();
    program.eval(&bindings(&data)).map(|value| value.to_json()).map_err(|error| error.to_string())
}
