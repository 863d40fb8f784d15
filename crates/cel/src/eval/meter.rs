//! The budget, deadline and cancellation of an evaluation.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use jiff::Timestamp;

use super::Bindings;
use crate::error::EvalError;
use crate::library::Pattern;

/// Number of steps between two checks of the clock.
const LOOK: u64 = 4096;
/// Number of compiled patterns one evaluation keeps.
const PATTERNS: usize = 64;

/// Counts what an evaluation costs; functions charge for what grows with their input.
#[derive(Debug)]
pub struct Meter<'m> {
    left: Cell<u64>,
    next_look: Cell<u64>,
    cancel: Option<&'m AtomicBool>,
    deadline: Option<Instant>,
    now: Option<Timestamp>,
    patterns: RefCell<HashMap<String, Pattern>>,
}

impl<'m> Meter<'m> {
    pub(crate) fn new(budget: u64, bindings: &Bindings<'m>) -> Self {
        Self {
            left: Cell::new(budget),
            // The first look comes with the first step.
            next_look: Cell::new(budget),
            cancel: bindings.cancel,
            deadline: bindings.deadline,
            now: bindings.now,
            patterns: RefCell::default(),
        }
    }

    /// A meter that never runs out.
    pub fn unlimited() -> Self {
        Self::new(u64::MAX, &Bindings::new())
    }

    /// The present, as the bindings tell it.
    pub(crate) fn now(&self) -> Option<Timestamp> {
        self.now
    }

    /// Pays for some steps.
    #[inline]
    pub fn charge(&self, steps: u64) -> Result<(), EvalError> {
        let Some(left) = self.left.get().checked_sub(steps) else {
            self.left.set(0);
            return Err(EvalError::cost());
        };
        self.left.set(left);
        if left < self.next_look.get() {
            return self.look(left);
        }
        Ok(())
    }

    #[cold]
    fn look(&self, left: u64) -> Result<(), EvalError> {
        self.next_look.set(left.saturating_sub(LOOK));
        let canceled = self.cancel.is_some_and(|flag| flag.load(Ordering::Relaxed));
        let late = self.deadline.is_some_and(|deadline| Instant::now() >= deadline);
        if canceled || late { Err(EvalError::canceled()) } else { Ok(()) }
    }

    /// Pays for reading or making a text of some length.
    #[inline]
    pub fn charge_bytes(&self, length: usize) -> Result<(), EvalError> {
        self.charge(length as u64 / 16)
    }

    /// A pattern, compiled once an evaluation.
    pub(crate) fn pattern(&self, text: &str) -> Result<Pattern, EvalError> {
        if let Some(found) = self.patterns.borrow().get(text) {
            return Ok(found.clone());
        }
        // Compiling is many times dearer than a step.
        self.charge(200 + text.len() as u64)?;
        let made = Pattern::new(text).map_err(|error| EvalError::invalid(error.to_string()))?;
        let mut patterns = self.patterns.borrow_mut();
        if patterns.len() < PATTERNS {
            patterns.insert(text.to_owned(), made.clone());
        }
        Ok(made)
    }
}
