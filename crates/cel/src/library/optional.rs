//! Values that may be absent; `optMap` and `optFlatMap` are macros.

use super::Functions;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

pub(super) fn add(functions: &mut Functions) {
    let any = || Type::Param(0);
    let optional = || Type::optional(Type::Param(0));
    functions.function("optional.of", vec![any()], optional(), |_, args| match args {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("optional.ofNonZeroValue", vec![any()], optional(), |_, args| match args {
        [value] if value.is_zero() => Ok(Value::Optional(None)),
        [value] => Ok(Value::some(value.clone())),
        _ => Err(EvalError::no_overload()),
    });
    functions.function("optional.none", vec![], optional(), |_, _| Ok(Value::Optional(None)));
    functions.method("hasValue", vec![optional()], Type::Bool, |_, args| match args {
        [Value::Optional(inner)] => Ok(Value::Bool(inner.is_some())),
        _ => Err(EvalError::no_overload()),
    });
    functions.method("value", vec![optional()], any(), |_, args| match args {
        [Value::Optional(Some(inner))] => Ok((**inner).clone()),
        [Value::Optional(None)] => Err(EvalError::invalid("optional.none() dereference")),
        _ => Err(EvalError::no_overload()),
    });
    // These two are evaluated only as far as needed, by the checker's own node.
    functions.method("or", vec![optional(), optional()], optional(), |_, _| Err(EvalError::no_overload()));
    functions.method("orValue", vec![optional(), any()], any(), |_, _| Err(EvalError::no_overload()));
    for (name, last) in [("first", false), ("last", true)] {
        functions.method(name, vec![Type::list(any())], optional(), move |_, args| match args {
            [Value::List(list)] => {
                let found =
                    if last { list.len().checked_sub(1).and_then(|at| list.get(at)) } else { list.get(0) };
                Ok(Value::Optional(found.map(std::sync::Arc::new)))
            }
            _ => Err(EvalError::no_overload()),
        });
    }
}
