//! The values of variables during one evaluation.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use jiff::Timestamp;
use serde_json::Value as Json;

use crate::value::Value;

/// The values of variables, and what may end the evaluation early.
#[derive(Clone, Debug, Default)]
pub struct Bindings<'a> {
    values: Vec<(&'a str, Value<'a>)>,
    pub(super) cancel: Option<&'a AtomicBool>,
    pub(super) deadline: Option<Instant>,
    pub(super) now: Option<Timestamp>,
}

impl<'a> Bindings<'a> {
    /// Binds nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a variable to a value.
    #[must_use]
    pub fn value(mut self, name: &'a str, value: Value<'a>) -> Self {
        self.set(name, value);
        self
    }

    /// Binds a variable to JSON, which is not copied.
    #[must_use]
    pub fn json(self, name: &'a str, json: &'a Json) -> Self {
        self.value(name, Value::from_json(json))
    }

    /// Binds a variable, or binds it anew.
    pub fn set(&mut self, name: &'a str, value: Value<'a>) {
        match self.values.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = value,
            None => self.values.push((name, value)),
        }
    }

    /// Ends the evaluation soon after the flag is set.
    #[must_use]
    pub fn cancel(mut self, flag: &'a AtomicBool) -> Self {
        self.cancel = Some(flag);
        self
    }

    /// Ends the evaluation soon after this instant.
    #[must_use]
    pub fn deadline(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    /// Sets the time that [`Library::Clock`](crate::Library::Clock) tells.
    #[must_use]
    pub fn now(mut self, now: Timestamp) -> Self {
        self.now = Some(now);
        self
    }

    pub(super) fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}
