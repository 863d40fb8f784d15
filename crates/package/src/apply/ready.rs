//! Paths and operations with their references put in, once for all objects.

use super::realize::{NoValue, ValueRealizer};
use crate::kpatch::{DeletedChildren, ElementAnchor, MatchTerm, PatchOp, PathStep, StepKind};
use crate::val::ValuePos;

/// A field below an element and the text it must have.
pub(super) type ReadyTerm = (Vec<String>, String);

/// A step with its references put in.
#[derive(Clone, Debug)]
pub(crate) struct ReadyStep {
    pub(super) kind: ReadyKind,
    pub(super) pos: ValuePos,
}

#[derive(Clone, Debug)]
pub(super) enum ReadyKind {
    Key(String),
    Index(usize),
    All,
    Match(Vec<ReadyTerm>),
}

#[derive(Clone, Debug)]
pub(super) enum ReadyAnchor {
    Index(usize),
    Match(Vec<ReadyTerm>),
}

#[derive(Clone, Debug)]
pub(super) enum ReadyOp {
    Set,
    Replace,
    Append,
    Before(ReadyAnchor),
    After(ReadyAnchor),
    Delete,
    DeleteAnchor(ReadyAnchor),
    DeleteNamed(String),
}

/// A path and an operation with their references put in.
#[derive(Clone, Debug)]
pub(crate) struct ReadyStatement {
    pub(crate) steps: Vec<ReadyStep>,
    pub(super) op: ReadyOp,
}

fn ready_terms(
    terms: &[MatchTerm],
    realize: &ValueRealizer<'_>,
    pos: ValuePos,
) -> Result<Vec<ReadyTerm>, NoValue> {
    terms.iter().map(|term| Ok((term.field.clone(), realize.name(&term.value, pos)?))).collect()
}

fn ready_anchor(
    anchor: &ElementAnchor,
    realize: &ValueRealizer<'_>,
    pos: ValuePos,
) -> Result<ReadyAnchor, NoValue> {
    Ok(match anchor {
        ElementAnchor::Index(index) => ReadyAnchor::Index(*index),
        ElementAnchor::Match(terms) => ReadyAnchor::Match(ready_terms(terms, realize, pos)?),
    })
}

impl ReadyStatement {
    /// Puts the references of a path in, once for all objects.
    pub(crate) fn new<'s>(
        steps: impl IntoIterator<Item = &'s PathStep>,
        op: &PatchOp,
        pos: ValuePos,
        realize: &ValueRealizer<'_>,
    ) -> Result<Self, NoValue> {
        let mut ready = Vec::new();
        for step in steps {
            let kind = match &step.kind {
                StepKind::Key(key) => ReadyKind::Key(realize.name(key, step.pos)?),
                StepKind::Index(index) => ReadyKind::Index(*index),
                StepKind::All => ReadyKind::All,
                StepKind::Match(terms) => ReadyKind::Match(ready_terms(terms, realize, step.pos)?),
            };
            ready.push(ReadyStep { kind, pos: step.pos });
        }
        let op = match op {
            PatchOp::Set => ReadyOp::Set,
            PatchOp::Replace => ReadyOp::Replace,
            PatchOp::Append => ReadyOp::Append,
            PatchOp::Before(anchor) => ReadyOp::Before(ready_anchor(anchor, realize, pos)?),
            PatchOp::After(anchor) => ReadyOp::After(ready_anchor(anchor, realize, pos)?),
            PatchOp::Delete(None) => ReadyOp::Delete,
            PatchOp::Delete(Some(DeletedChildren::Anchor(anchor))) => {
                ReadyOp::DeleteAnchor(ready_anchor(anchor, realize, pos)?)
            }
            PatchOp::Delete(Some(DeletedChildren::Named(name))) => {
                ReadyOp::DeleteNamed(realize.name(name, pos)?)
            }
        };
        Ok(Self { steps: ready, op })
    }

    /// The first key of the path.
    pub(crate) fn first_key(&self) -> Option<&str> {
        match &self.steps.first()?.kind {
            ReadyKind::Key(key) => Some(key),
            _ => None,
        }
    }

    /// Returns true if the path is exactly these keys.
    pub(crate) fn is_path(&self, keys: &[&str]) -> bool {
        self.steps.len() == keys.len()
            && self
                .steps
                .iter()
                .zip(keys)
                .all(|(step, key)| matches!(&step.kind, ReadyKind::Key(own) if own == key))
    }
}
