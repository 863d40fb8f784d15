//! The present, as the caller tells it.

use super::Functions;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

/// Functions whose answer changes by time alone.
pub(crate) const CLOCK: &[&str] = &["now", "time.now"];

pub(super) fn add(functions: &mut Functions) {
    for name in CLOCK {
        functions.function(name, vec![], Type::Timestamp, |meter, _| match meter.now() {
            Some(now) => Ok(Value::Timestamp(now)),
            None => Err(EvalError::invalid("the time is not known here")),
        });
    }
}
