//! The functions of Graphs beyond those of the expression language.

use std::any::Any;
use std::sync::Arc;

use slipway_cel::{Env, EvalError, Key, List, Opaque, Overload, Type, Value};

/// Functions that ask how a node stands.
pub(crate) const STATE: &[&str] = &["ready", "updated", "dependencies"];

/// Fields that values of nodes carry for the functions of [`STATE`]; no JSON from a server has such names.
pub(crate) const READY: &str = "\u{0}ready";
pub(crate) const UPDATED: &str = "\u{0}updated";
pub(crate) const DEPENDENCIES: &str = "\u{0}dependencies";

/// Stands for a value that is to be left out.
#[derive(Debug)]
struct Omitted;

const OMITTED: &str = "kro.omitted";

impl Opaque for Omitted {
    fn type_name(&self) -> &str {
        OMITTED
    }

    fn equals(&self, _other: &dyn Opaque) -> bool {
        true
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn show(&self) -> String {
        String::new()
    }
}

pub(crate) fn is_omitted(value: &Value<'_>) -> bool {
    matches!(value, Value::Opaque(opaque) if opaque.as_any().is::<Omitted>())
}

pub(crate) fn add(mut env: Env) -> Env {
    env = env
        .function(Overload::function("omit", vec![], Type::Dyn, |_, _| Ok(Value::Opaque(Arc::new(Omitted)))));
    for (name, field) in [("ready", READY), ("updated", UPDATED)] {
        env = env.function(Overload::method(name, vec![Type::Dyn], Type::Bool, move |_, args| {
            Ok(Value::Bool(args.iter().all(|value| has_mark(value, field))))
        }));
    }
    env =
        env.function(Overload::method("dependencies", vec![Type::Dyn], Type::list(Type::Dyn), |_, args| {
            match args {
                [Value::Map(map)] => {
                    let key = Key::String(DEPENDENCIES.into());
                    Ok(map.get(&key).unwrap_or_else(|| Value::list(Vec::new())))
                }
                _ => Err(EvalError::no_overload()),
            }
        }));
    env
}

/// Whether a node, or every node of a list, carries a mark.
fn has_mark(value: &Value<'_>, field: &str) -> bool {
    match value {
        Value::Map(map) => {
            map.get(&Key::String(field.to_owned().into())).is_some_and(|mark| mark.as_bool() == Some(true))
        }
        Value::List(List::Values(items)) => items.iter().all(|item| has_mark(item, field)),
        Value::List(list) => list.iter().all(|item| has_mark(&item, field)),
        _ => false,
    }
}
