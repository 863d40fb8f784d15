//! `wait`: until every object meant meets a condition, in kubectl's words.

use serde_json::Value;
use slipway_cluster::wait::Condition;

use super::Did;
use super::delete::named;
use crate::error::{ErrorKind, StepError};
use crate::model::Wait;
use crate::world::{Attempt, Found, passes};

/// Reads a condition that was checked when the document was read.
pub(crate) fn condition(text: &str) -> Result<Condition, StepError> {
    Condition::parse(text).map_err(|error| StepError::new(ErrorKind::Internal, error.message).permanent())
}

pub(super) async fn run(attempt: &Attempt<'_>, wait: &Wait) -> Result<Did, StepError> {
    let condition = condition(&wait.until)?;
    let mut refreshed = None;
    let mut turn = 0;
    loop {
        match attempt.select(&wait.on, &mut refreshed).await {
            Ok(found) => match judge(&condition, &found, wait) {
                Verdict::Holds(note) => return Ok(Did::noted(note)),
                Verdict::Waits(what, unmet) => attempt.awaits(what, unmet),
            },
            // A passing trouble of the server is not what is waited for.
            Err(error) if passes(&error) => attempt.note(error.to_string()),
            Err(error) => return Err(error.into()),
        }
        attempt.pause(&mut turn).await;
    }
}

/// Whether a wait is over.
pub(crate) enum Verdict {
    Holds(String),
    Waits(String, Vec<Value>),
}

pub(crate) fn judge(condition: &Condition, found: &Found, wait: &Wait) -> Verdict {
    let what = named(&wait.on);
    let is_delete = matches!(condition, Condition::Delete);
    let objects = match found {
        Found::NoKind if is_delete => {
            return Verdict::Holds(format!("the kind {} is not served", wait.on.kind));
        }
        Found::NoKind => {
            return Verdict::Waits(format!("the cluster serves no type `{}` yet", wait.on.kind), Vec::new());
        }
        Found::Objects(_, objects) => objects,
    };
    if is_delete {
        return match objects.len() {
            0 => Verdict::Holds(format!("{what}: nothing is left")),
            left => Verdict::Waits(format!("{what}: {left} still there"), objects.clone()),
        };
    }
    if objects.is_empty() {
        return Verdict::Waits(format!("{what}: nothing is there yet"), Vec::new());
    }
    let unmet: Vec<Value> =
        objects.iter().filter(|object| !condition.is_met(Some(object))).cloned().collect();
    let (met, all) = (objects.len() - unmet.len(), objects.len());
    if unmet.is_empty() {
        Verdict::Holds(format!("{} holds on {all}", wait.until))
    } else {
        Verdict::Waits(format!("{what}: {met}/{all} meet {}", wait.until), unmet)
    }
}
