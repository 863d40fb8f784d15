//! Base64.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};

use super::Functions;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

pub(super) fn add(functions: &mut Functions) {
    functions.function("base64.encode", vec![Type::Bytes], Type::String, |meter, args| match args {
        [Value::Bytes(bytes)] => {
            meter.charge_bytes(bytes.len())?;
            Ok(Value::string(STANDARD.encode(bytes)))
        }
        _ => Err(EvalError::no_overload()),
    });
    functions.function("base64.decode", vec![Type::String], Type::Bytes, |meter, args| match args {
        [Value::String(text)] => {
            meter.charge_bytes(text.len())?;
            let bytes = STANDARD.decode(text.as_bytes()).or_else(|_| STANDARD_NO_PAD.decode(text.as_bytes()));
            match bytes {
                Ok(bytes) => Ok(Value::Bytes(bytes.into())),
                Err(_) => Err(EvalError::invalid("illegal base64 data")),
            }
        }
        _ => Err(EvalError::no_overload()),
    });
}
