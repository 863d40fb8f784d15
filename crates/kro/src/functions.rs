//! The functions of Graphs beyond those of the expression language.

use std::any::Any;
use std::sync::Arc;

use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256, Sha512};
use slipway_cel::{Env, EvalError, Key, List, Meter, Opaque, Overload, Type, Value};

use crate::expression::moment;

/// Functions whose answer changes by time alone.
pub(crate) const CLOCK: &[&str] = &["now", "time.now"];
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
    for name in CLOCK {
        env = env.function(Overload::function(name, vec![], Type::Timestamp, |_, _| {
            Ok(Value::Timestamp(moment()))
        }));
    }
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
    type Hash = fn(&[u8]) -> String;
    let hashes: [(&str, Hash); 2] = [
        ("hash.sha256", |bytes| HEXLOWER.encode(&Sha256::digest(bytes))),
        ("hash.sha512", |bytes| HEXLOWER.encode(&Sha512::digest(bytes))),
    ];
    for (name, hash) in hashes {
        env = env.function(Overload::function(name, vec![Type::String], Type::String, move |meter, args| {
            match args {
                [Value::String(text)] => {
                    charge(meter, text.len())?;
                    Ok(Value::string(hash(text.as_bytes())))
                }
                _ => Err(EvalError::no_overload()),
            }
        }));
    }
    let seeded_int = vec![Type::Int, Type::Int, Type::String];
    env = env.function(Overload::function("random.seededInt", seeded_int, Type::Int, |_, args| match args {
        [Value::Int(least), Value::Int(end), Value::String(seed)] if least < end => {
            let number = u64::from_be_bytes(draw(seed, 0)[..8].try_into().unwrap_or_default());
            let width = (i128::from(*end) - i128::from(*least)) as u128;
            let offset = (u128::from(number) % width) as i128;
            i64::try_from(i128::from(*least) + offset)
                .map(Value::Int)
                .map_err(|_| EvalError::invalid("random.seededInt: the range is too wide"))
        }
        _ => Err(EvalError::invalid("random.seededInt: the range is empty")),
    }));
    let seeded_string = vec![Type::Int, Type::String];
    env.function(Overload::function("random.seededString", seeded_string, Type::String, |meter, args| {
        const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789";
        match args {
            [Value::Int(length @ 1..=1024), Value::String(seed)] => {
                charge(meter, *length as usize)?;
                let bytes = (0..).flat_map(|round| draw(seed, round));
                let letter = |byte: u8| char::from(LETTERS[usize::from(byte) % LETTERS.len()]);
                Ok(Value::string(bytes.take(*length as usize).map(letter).collect::<String>()))
            }
            _ => Err(EvalError::invalid("random.seededString: the length must be between 1 and 1024")),
        }
    }))
}

fn charge(meter: &Meter<'_>, bytes: usize) -> Result<(), EvalError> {
    meter.charge(bytes as u64)
}

/// 32 bytes that depend on a seed alone.
fn draw(seed: &str, round: u32) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update(round.to_be_bytes());
    hash.update(seed.as_bytes());
    hash.finalize().into()
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
