//! Hashes, and random values that depend on a seed alone.

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256, Sha512};

use super::Functions;
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";

pub(super) fn add(functions: &mut Functions) {
    type Hash = fn(&[u8]) -> String;
    let hashes: [(&str, Hash); 2] = [
        ("hash.sha256", |bytes| HEXLOWER.encode(&Sha256::digest(bytes))),
        ("hash.sha512", |bytes| HEXLOWER.encode(&Sha512::digest(bytes))),
    ];
    for (name, hash) in hashes {
        functions.function(name, vec![Type::String], Type::String, move |meter, args| match args {
            [Value::String(text)] => {
                meter.charge(text.len() as u64)?;
                Ok(Value::string(hash(text.as_bytes())))
            }
            _ => Err(EvalError::no_overload()),
        });
    }
    let seeded_int = vec![Type::Int, Type::Int, Type::String];
    functions.function("random.seededInt", seeded_int, Type::Int, |_, args| match args {
        [Value::Int(least), Value::Int(end), Value::String(seed)] if least < end => {
            let number = u64::from_be_bytes(draw(seed, 0)[..8].try_into().unwrap_or_default());
            let width = (i128::from(*end) - i128::from(*least)) as u128;
            let offset = (u128::from(number) % width) as i128;
            i64::try_from(i128::from(*least) + offset)
                .map(Value::Int)
                .map_err(|_| EvalError::invalid("random.seededInt: the range is too wide"))
        }
        _ => Err(EvalError::invalid("random.seededInt: the range is empty")),
    });
    let seeded_string = vec![Type::Int, Type::String];
    functions.function("random.seededString", seeded_string, Type::String, |meter, args| match args {
        [Value::Int(length @ 1..=1024), Value::String(seed)] => {
            meter.charge(*length as u64)?;
            let bytes = (0..).flat_map(|round| draw(seed, round));
            let letter = |byte: u8| char::from(LETTERS[usize::from(byte) % LETTERS.len()]);
            Ok(Value::string(bytes.take(*length as usize).map(letter).collect::<String>()))
        }
        _ => Err(EvalError::invalid("random.seededString: the length must be between 1 and 1024")),
    });
}

/// 32 bytes that depend on a seed alone.
fn draw(seed: &str, round: u32) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(round.to_be_bytes());
    hash.update(seed.as_bytes());
    hash.finalize().into()
}
