//! Semantic versions.

use std::cmp::Ordering;
use std::fmt;

use super::{Functions, inside, opaque, opaque_type};
use crate::error::EvalError;
use crate::types::Type;
use crate::value::Value;

#[derive(Clone, Debug)]
struct Semver {
    numbers: [u64; 3],
    pre: Vec<String>,
    build: String,
}

impl PartialEq for Semver {
    /// Builds do not tell versions apart.
    fn eq(&self, other: &Self) -> bool {
        order(self, other) == Ordering::Equal
    }
}

impl fmt::Display for Semver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch] = self.numbers;
        write!(f, "{major}.{minor}.{patch}")?;
        if !self.pre.is_empty() {
            write!(f, "-{}", self.pre.join("."))?;
        }
        if !self.build.is_empty() {
            write!(f, "+{}", self.build)?;
        }
        Ok(())
    }
}

opaque_type!(Semver, "kubernetes.Semver");

fn order(a: &Semver, b: &Semver) -> Ordering {
    let part = |a: &String, b: &String| match (a.parse::<u64>(), b.parse::<u64>()) {
        (Ok(a), Ok(b)) => a.cmp(&b),
        (Ok(_), Err(_)) => Ordering::Less,
        (Err(_), Ok(_)) => Ordering::Greater,
        (Err(_), Err(_)) => a.cmp(b),
    };
    let pre = || match (a.pre.is_empty(), b.pre.is_empty()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Greater,
        (false, true) => Ordering::Less,
        (false, false) => {
            let differs = a.pre.iter().zip(&b.pre).map(|(a, b)| part(a, b)).find(|order| order.is_ne());
            differs.unwrap_or_else(|| a.pre.len().cmp(&b.pre.len()))
        }
    };
    a.numbers.cmp(&b.numbers).then_with(pre)
}

fn parse(text: &str, normalize: bool) -> Option<Semver> {
    let text = if normalize { text.trim().strip_prefix('v').unwrap_or(text.trim()) } else { text };
    let (text, build) = text.split_once('+').map_or((text, None), |(text, build)| (text, Some(build)));
    let (core, pre) = text.split_once('-').map_or((text, None), |(core, pre)| (core, Some(pre)));
    let mut numbers = [0; 3];
    let parts: Vec<&str> = core.split('.').collect();
    if parts.len() > 3 || (parts.len() < 3 && !normalize) {
        return None;
    }
    for (number, part) in numbers.iter_mut().zip(&parts) {
        let leading_zero = part.len() > 1 && part.starts_with('0');
        let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        if !digits || (leading_zero && !normalize) {
            return None;
        }
        *number = part.parse().ok()?;
    }
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let pre: Vec<String> = pre.map(|pre| pre.split('.').map(str::to_owned).collect()).unwrap_or_default();
    if !pre.iter().all(|part| word(part) && !(number(part) && part.len() > 1 && part.starts_with('0'))) {
        return None;
    }
    if build.is_some_and(|build| !build.split('.').all(word)) {
        return None;
    }
    Some(Semver { numbers, pre, build: build.unwrap_or_default().to_owned() })
}

fn read(args: &[Value<'_>]) -> Result<Option<Semver>, EvalError> {
    match args {
        [Value::String(text)] => Ok(parse(text, false)),
        [Value::String(text), Value::Bool(normalize)] => Ok(parse(text, *normalize)),
        _ => Err(EvalError::no_overload()),
    }
}

pub(super) fn add(functions: &mut Functions) {
    let semver = || Type::opaque("kubernetes.Semver");
    for params in [vec![Type::String], vec![Type::String, Type::Bool]] {
        functions.function("semver", params.clone(), semver(), |_, args| {
            let found = read(args)?;
            found.map(opaque).ok_or_else(|| EvalError::invalid("the text is not a semantic version"))
        });
        functions.function("isSemver", params, Type::Bool, |_, args| Ok(Value::Bool(read(args)?.is_some())));
    }
    for (at, name) in ["major", "minor", "patch"].into_iter().enumerate() {
        functions.method(name, vec![semver()], Type::Int, move |_, args| {
            let number = inside::<Semver>(&args[0])?.numbers[at];
            i64::try_from(number).map(Value::Int).map_err(|_| EvalError::overflow("integer"))
        });
    }
    let two = || vec![semver(), semver()];
    functions.method("isLessThan", two(), Type::Bool, |_, args| {
        Ok(Value::Bool(order(inside(&args[0])?, inside(&args[1])?).is_lt()))
    });
    functions.method("isGreaterThan", two(), Type::Bool, |_, args| {
        Ok(Value::Bool(order(inside(&args[0])?, inside(&args[1])?).is_gt()))
    });
    functions.method("compareTo", two(), Type::Int, |_, args| {
        Ok(Value::Int(order(inside(&args[0])?, inside(&args[1])?) as i64))
    });
}
