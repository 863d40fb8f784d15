//! Kubernetes' additions to the language: addresses, quantities, versions, names, lists.

mod lists;
mod names;
mod net;
mod quantity;
mod semver;
mod url;

use super::Functions;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::{Opaque, Value};

pub(super) fn add(functions: &mut Functions) {
    net::add(functions);
    quantity::add(functions);
    semver::add(functions);
    url::add(functions);
    names::add(functions);
    lists::add(functions);
    functions.method("find", vec![Type::String, Type::String], Type::String, |meter, args| match args {
        [Value::String(text), Value::String(pattern)] => {
            meter.charge_bytes(text.len())?;
            Ok(Value::string(meter.pattern(pattern)?.find(text).unwrap_or_default().to_owned()))
        }
        _ => Err(EvalError::no_overload()),
    });
    for params in [vec![Type::String, Type::String], vec![Type::String, Type::String, Type::Int]] {
        functions.method("findAll", params, Type::list(Type::String), |meter, args| {
            let (text, pattern, most) = match args {
                [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
                [Value::String(text), Value::String(pattern), Value::Int(most)] => (text, pattern, *most),
                _ => return Err(EvalError::no_overload()),
            };
            meter.charge(text.len() as u64)?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let pattern = meter.pattern(pattern)?;
            let found = pattern.find_all(text).take(most).map(|found| Value::string(found.to_owned()));
            Ok(Value::list(found.collect::<Vec<_>>()))
        });
    }
}

/// The library's value in an argument.
fn inside<'v, T: 'static>(value: &'v Value<'_>) -> Result<&'v T, EvalError> {
    match value {
        Value::Opaque(inner) => inner.as_any().downcast_ref().ok_or_else(EvalError::no_overload),
        _ => Err(EvalError::no_overload()),
    }
}

/// Wraps a value of the library.
fn opaque<'a>(value: impl Opaque) -> Value<'a> {
    Value::Opaque(std::sync::Arc::new(value))
}

/// Makes a type of this library a value: its name, equality by `==`, text by `Display`.
macro_rules! opaque_type {
    ($ty:ty, $name:expr) => {
        impl crate::value::Opaque for $ty {
            fn type_name(&self) -> &str {
                $name
            }

            fn equals(&self, other: &dyn crate::value::Opaque) -> bool {
                other.as_any().downcast_ref::<Self>().is_some_and(|other| self == other)
            }

            fn as_any(&self) -> &dyn std::any::Any {
                self
            }

            fn show(&self) -> String {
                self.to_string()
            }
        }
    };
}
use opaque_type;
