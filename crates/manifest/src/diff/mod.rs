//! Differences between two objects, for people: field by field, and as lines of text.
//!
//! Noise ([`noise`]) is taken out and secrets are hidden ([`redact`]) before anything is compared, so
//! no secret can reach what is shown. The look on a terminal is decided elsewhere.

mod fields;
mod lines;
pub mod noise;
pub mod redact;
pub mod secret_fields;

use serde_json::Value;

pub use fields::{ChangeKind, FieldChange};
pub use lines::{DiffLine, Hunk, LineKind, diff_lines};
pub use noise::NoiseFilter;
pub use redact::{Sensitivity, ValueRedactor};

use crate::depth::{self, TooDeep};
use crate::schema::TypeRef;

/// Settings of a comparison.
#[derive(Clone, Copy)]
pub struct DiffOptions<'a> {
    pub cleaning: NoiseFilter,
    /// The objects' type, if known: it tells which list items are the same.
    pub kind: Option<TypeRef<'a>>,
    /// Hides sensitive values. `None` shows them: only for a user who asked for it.
    pub redactor: Option<&'a ValueRedactor>,
}

/// The difference between two states of an object; either may be absent.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectDiff {
    /// Cleaned and redacted.
    pub old: Option<Value>,
    /// Cleaned and redacted.
    pub new: Option<Value>,
    /// Field by field, in the order of the new object, then what was removed.
    pub changes: Vec<FieldChange>,
    pub sensitivity: Sensitivity,
    pub significance: Significance,
}

/// The significance of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Significance {
    /// Nothing differs but what the server keeps for itself.
    Same,
    /// Only owners or annotations of tools differ.
    Insignificant,
    Significant,
}

impl ObjectDiff {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The difference as lines of text, `context` lines around each change.
    pub fn line_hunks(&self, print: impl Fn(&Value) -> String, context: usize) -> Vec<Hunk> {
        let text = |value: &Option<Value>| value.as_ref().map(&print).unwrap_or_default();
        diff_lines(&text(&self.old), &text(&self.new), context)
    }
}

/// Compares two states of an object.
pub fn diff_objects(
    old: Option<&Value>,
    new: Option<&Value>,
    options: &DiffOptions<'_>,
) -> Result<ObjectDiff, TooDeep> {
    for object in [old, new].into_iter().flatten() {
        depth::check_depth(object)?;
    }
    // An object is as sensitive as either of its states says.
    let sensitivity = match (old.map(redact::sensitivity_of), new.map(redact::sensitivity_of)) {
        (Some(a), Some(b)) => a.stricter_of(b),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => Sensitivity::None,
    };
    let significance = significance_of(old, new);
    let cleaned = |object: Option<&Value>| object.map(|object| noise::remove_noise(object, options.cleaning));
    let (old, new) = match options.redactor {
        Some(redactor) => redactor.redact_states(cleaned(old), cleaned(new), &sensitivity),
        None => (cleaned(old), cleaned(new)),
    };
    let changes = fields::compare_fields(old.as_ref(), new.as_ref(), options.kind);
    Ok(ObjectDiff { old, new, changes, sensitivity, significance })
}

/// Says whether a difference is worth a look. Hidden values count: they are compared as they are.
pub fn significance_of(old: Option<&Value>, new: Option<&Value>) -> Significance {
    let (Some(old), Some(new)) = (old, new) else {
        return if old.is_none() && new.is_none() { Significance::Same } else { Significance::Significant };
    };
    if noise::remove_noise(old, NoiseFilter::Show) != noise::remove_noise(new, NoiseFilter::Show) {
        Significance::Significant
    } else if noise::remove_noise(old, NoiseFilter::ShowInsignificant)
        != noise::remove_noise(new, NoiseFilter::ShowInsignificant)
    {
        Significance::Insignificant
    } else {
        Significance::Same
    }
}
