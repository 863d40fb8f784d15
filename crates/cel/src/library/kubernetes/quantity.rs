//! Quantities (`100m`, `1.5Gi`), compared and added.

use slipway_manifest::quantity::Quantity;

use super::{Functions, inside, opaque, opaque_type};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

const NANOS: i128 = 1_000_000_000;

opaque_type!(Quantity, "kubernetes.Quantity");

fn read(text: &str) -> Result<Quantity, EvalError> {
    Quantity::parse(text).map_err(|error| EvalError::invalid(error.to_string()))
}

/// The amount of an argument: a quantity or a whole number.
fn amount(value: &Value<'_>) -> Result<Quantity, EvalError> {
    match value {
        Value::Int(number) => Ok(Quantity::from_int(*number)),
        other => inside::<Quantity>(other).copied(),
    }
}

pub(super) fn add(functions: &mut Functions) {
    let quantity = || Type::opaque("kubernetes.Quantity");
    functions.function("quantity", vec![Type::String], quantity(), |_, args| match args {
        [Value::String(text)] => Ok(opaque(read(text)?)),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("isQuantity", vec![Type::String], Type::Bool, |_, args| match args {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => Err(EvalError::no_overload()),
    });
    functions.method("isInteger", vec![quantity()], Type::Bool, |_, args| {
        Ok(Value::Bool(amount(&args[0])?.nanos() % NANOS == 0))
    });
    functions.method("asInteger", vec![quantity()], Type::Int, |_, args| {
        let nanos = amount(&args[0])?.nanos();
        match i64::try_from(nanos / NANOS) {
            Ok(number) if nanos % NANOS == 0 => Ok(Value::Int(number)),
            _ => Err(EvalError::invalid("cannot convert value to integer")),
        }
    });
    functions.method("asApproximateFloat", vec![quantity()], Type::Double, |_, args| {
        Ok(Value::Double(amount(&args[0])?.nanos() as f64 / NANOS as f64))
    });
    functions.method("sign", vec![quantity()], Type::Int, |_, args| {
        Ok(Value::Int(amount(&args[0])?.nanos().signum() as i64))
    });
    for other in [quantity(), Type::Int] {
        functions.method("add", vec![quantity(), other.clone()], quantity(), |_, args| {
            Ok(opaque(amount(&args[0])?.plus(amount(&args[1])?)))
        });
        functions.method("sub", vec![quantity(), other], quantity(), |_, args| {
            Ok(opaque(amount(&args[0])?.minus(amount(&args[1])?)))
        });
    }
    functions.method("isLessThan", vec![quantity(), quantity()], Type::Bool, |_, args| {
        Ok(Value::Bool(amount(&args[0])? < amount(&args[1])?))
    });
    functions.method("isGreaterThan", vec![quantity(), quantity()], Type::Bool, |_, args| {
        Ok(Value::Bool(amount(&args[0])? > amount(&args[1])?))
    });
    functions.method("compareTo", vec![quantity(), quantity()], Type::Int, |_, args| {
        Ok(Value::Int(amount(&args[0])?.cmp(&amount(&args[1])?) as i64))
    });
}
