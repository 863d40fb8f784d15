//! Bounds on what patches, replacements and variables can make of the objects of a build: a copy of a copy
//! doubles, and a few lines would fill all memory.

use serde_json::Value;
use slipway_yaml::YamlReader;

use crate::resource::Resource;

/// Most bytes all patches, replacements and variables of a build put into its objects.
const MOST_BYTES: usize = 64 << 20;
/// Deepest nesting of an object; files are read no deeper.
const DEEPEST: usize = YamlReader::DEEPEST;
/// The weight of a value without any text.
const NODE_BYTES: usize = 16;

/// A value that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum GrowthError {
    #[error("patches and replacements put more than {} MiB into the objects of this build", MOST_BYTES >> 20)]
    TooLarge,
    #[error("the object would nest more than {DEEPEST} deep")]
    TooDeep,
}

/// The bytes a build may still put into its objects.
#[derive(Debug)]
pub(crate) struct GrowthBudget {
    left: usize,
}

impl GrowthBudget {
    /// The rest of the budget after what was put into `resources` so far.
    pub(crate) fn of<'r>(resources: impl Iterator<Item = &'r Resource>) -> Self {
        let spent = resources.fold(0_usize, |sum, resource| sum.saturating_add(resource.grown));
        Self { left: MOST_BYTES.saturating_sub(spent) }
    }

    /// Spends what `value` weighs where it is put `above` levels deep. Gives the bytes.
    pub(crate) fn spend(&mut self, value: &Value, above: usize) -> Result<usize, GrowthError> {
        let mut bytes = 0;
        let mut open = vec![(value, above)];
        while let Some((value, depth)) = open.pop() {
            if depth > DEEPEST {
                return Err(GrowthError::TooDeep);
            }
            bytes += NODE_BYTES;
            match value {
                Value::String(text) => bytes += text.len(),
                Value::Array(list) => open.extend(list.iter().map(|value| (value, depth + 1))),
                Value::Object(map) => {
                    bytes += map.keys().map(String::len).sum::<usize>();
                    open.extend(map.values().map(|value| (value, depth + 1)));
                }
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
            if bytes > self.left {
                return Err(GrowthError::TooLarge);
            }
        }
        self.left -= bytes;
        Ok(bytes)
    }

    /// Refuses a value that would nest too deep `above` levels deep; moving it costs nothing.
    pub(crate) fn check_depth(&mut self, value: &Value, above: usize) -> Result<usize, GrowthError> {
        let before = self.left;
        let moved = self.spend(value, above);
        self.left = before;
        match moved {
            Err(GrowthError::TooDeep) => Err(GrowthError::TooDeep),
            Ok(_) | Err(GrowthError::TooLarge) => Ok(0),
        }
    }

    /// Spends the bytes of a text.
    pub(crate) fn spend_bytes(&mut self, bytes: usize) -> Result<usize, GrowthError> {
        self.left = self.left.checked_sub(bytes).ok_or(GrowthError::TooLarge)?;
        Ok(bytes)
    }
}
