//! A limit on nesting, so that no input can exhaust the stack.

use serde_json::Value;

/// The deepest nesting of a value. Kubernetes' own limit is of this order; no real object is near it.
pub const DEEPEST: usize = 256;

/// A value is nested more than [`DEEPEST`] levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nested more than {DEEPEST} levels deep")]
pub struct TooDeep;

/// Fails if a value is too deep to be walked safely.
pub fn check_depth(value: &Value) -> Result<(), TooDeep> {
    check_depth_below(value, 0)
}

/// Fails if a value is too deep to stand `above` levels down.
pub(crate) fn check_depth_below(value: &Value, above: usize) -> Result<(), TooDeep> {
    let mut level: Vec<&Value> = vec![value];
    let mut below: Vec<&Value> = Vec::new();
    for _ in above..=DEEPEST {
        for value in level.drain(..) {
            match value {
                Value::Array(items) => {
                    below.extend(items.iter().filter(|item| item.is_array() || item.is_object()));
                }
                Value::Object(map) => {
                    below.extend(map.values().filter(|item| item.is_array() || item.is_object()));
                }
                _ => {}
            }
        }
        if below.is_empty() {
            return Ok(());
        }
        std::mem::swap(&mut level, &mut below);
    }
    Err(TooDeep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_only_what_is_too_deep() {
        let nest = |levels: usize| (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]));
        assert_eq!(check_depth(&nest(DEEPEST)), Ok(()));
        assert_eq!(check_depth(&nest(DEEPEST + 2)), Err(TooDeep));
    }
}
