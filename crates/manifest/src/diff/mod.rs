//! What changed between two objects, for people: field by field, and as lines of text.
//!
//! Noise ([`noise`]) is taken out and secrets are hidden ([`redact`]) before anything is compared, so
//! no secret can reach what is shown. How it looks on a terminal is not decided here.

mod fields;
mod lines;
pub mod noise;
pub mod redact;
pub mod secret_fields;

use serde_json::Value;

pub use fields::{Change, ChangeKind};
pub use lines::{Hunk, Line, LineKind, hunks};
pub use noise::Cleaning;
pub use redact::{Redactor, Sensitivity};

use crate::depth::{self, TooDeep};
use crate::schema::TypeRef;

/// What to compare by.
#[derive(Clone, Copy)]
pub struct DiffOptions<'a> {
    pub cleaning: Cleaning,
    /// The objects' type, if known: it tells which list items are the same.
    pub kind: Option<TypeRef<'a>>,
    /// Hides sensitive values. `None` shows them: only for a user who asked for it.
    pub redactor: Option<&'a Redactor>,
}

/// The difference between two states of an object; either may be absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Diff {
    /// Cleaned and redacted.
    pub old: Option<Value>,
    /// Cleaned and redacted.
    pub new: Option<Value>,
    /// Field by field, in the order of the new object, then what was removed.
    pub changes: Vec<Change>,
    pub sensitivity: Sensitivity,
    pub significance: Significance,
}

/// Whether a difference is worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Significance {
    /// Nothing differs but what the server keeps for itself.
    Same,
    /// Only owners or annotations of tools differ.
    Insignificant,
    Significant,
}

impl Diff {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// The difference as lines of text, `context` lines around each change.
    pub fn hunks(&self, print: impl Fn(&Value) -> String, context: usize) -> Vec<Hunk> {
        let text = |value: &Option<Value>| value.as_ref().map(&print).unwrap_or_default();
        hunks(&text(&self.old), &text(&self.new), context)
    }
}

/// Compares two states of an object.
pub fn diff(old: Option<&Value>, new: Option<&Value>, options: &DiffOptions<'_>) -> Result<Diff, TooDeep> {
    for object in [old, new].into_iter().flatten() {
        depth::check(object)?;
    }
    // An object is as sensitive as either of its states says.
    let sensitivity = match (old.map(redact::sensitivity), new.map(redact::sensitivity)) {
        (Some(a), Some(b)) => a.join(b),
        (Some(only), None) | (None, Some(only)) => only,
        (None, None) => Sensitivity::None,
    };
    let significance = significance(old, new);
    let cleaned = |object: Option<&Value>| object.map(|object| noise::clean(object, options.cleaning));
    let (old, new) = match options.redactor {
        Some(redactor) => redactor.redact_states(cleaned(old), cleaned(new), &sensitivity),
        None => (cleaned(old), cleaned(new)),
    };
    let changes = fields::compare(old.as_ref(), new.as_ref(), options.kind);
    Ok(Diff { old, new, changes, sensitivity, significance })
}

/// Says whether a difference is worth a look. Hidden values count: they are compared as they are.
pub fn significance(old: Option<&Value>, new: Option<&Value>) -> Significance {
    let (Some(old), Some(new)) = (old, new) else {
        return if old.is_none() && new.is_none() { Significance::Same } else { Significance::Significant };
    };
    if noise::clean(old, Cleaning::Show) != noise::clean(new, Cleaning::Show) {
        Significance::Significant
    } else if noise::clean(old, Cleaning::ShowInsignificant) != noise::clean(new, Cleaning::ShowInsignificant)
    {
        Significance::Insignificant
    } else {
        Significance::Same
    }
}
