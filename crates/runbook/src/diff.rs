//! The changes a step would make, line by line: dry runs compared with what is there, secrets hidden.

use serde::Serialize;
use serde_json::Value;
use slipway_cluster::helm::ReleaseHistory;
use slipway_cluster::{ErrorClass, WriteOptions};
use slipway_event::Redactor;
use slipway_manifest::diff::{DiffOptions, LineKind, NoiseFilter, ValueRedactor as Hider, diff_objects};
use slipway_manifest::{ObjectRef, object};
use slipway_release::show::ViewOptions;

use crate::context::{MANAGER, StepContext, shown};
use crate::model::{Apply, Helm, Patch};
use crate::steps::{helm, patch};

/// The outcome of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiffStatus {
    None,
    Changed,
    Unavailable,
}

/// The changes a step would make.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Difference {
    pub status: DiffStatus,
    /// Unified, with `live/…` and `planned/…` above each object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

impl Difference {
    pub fn is_change(&self) -> bool {
        self.status == DiffStatus::Changed
    }

    pub(crate) fn unavailable(reason: impl Into<String>) -> Self {
        Self { status: DiffStatus::Unavailable, text: None, reason: Some(reason.into()) }
    }

    fn of(text: String, reason: Option<String>) -> Self {
        if text.is_empty() {
            let status = if reason.is_some() { DiffStatus::Unavailable } else { DiffStatus::None };
            Self { status, text: None, reason }
        } else {
            Self { status: DiffStatus::Changed, text: Some(text), reason }
        }
    }

    pub(crate) fn redacted(mut self, redactor: &Redactor) -> Self {
        for text in self.text.iter_mut().chain(&mut self.reason) {
            redactor.redact_in_place(text);
        }
        self
    }
}

/// One object's difference as text; empty if there is none.
fn unified(name: &str, before: Option<&Value>, after: Option<&Value>) -> String {
    let hider = Hider::per_run();
    let options = DiffOptions { cleaning: NoiseFilter::Show, kind: None, redactor: Some(&hider) };
    let Ok(found) = diff_objects(before, after, &options) else {
        return format!("--- live/{name}\n+++ planned/{name}\n(nested too deeply to compare)\n");
    };
    if found.is_empty() {
        return String::new();
    }
    let print = |value: &Value| slipway_yaml::to_string(&sorted(value)).unwrap_or_default();
    let mut text = format!("--- live/{name}\n+++ planned/{name}\n");
    for hunk in found.line_hunks(print, 3) {
        text.push_str("@@\n");
        for line in &hunk.lines {
            let sign = match line.kind {
                LineKind::Added => '+',
                LineKind::Removed => '-',
                LineKind::Context => ' ',
            };
            text.push(sign);
            text.push_str(&line.text);
            text.push('\n');
        }
    }
    text
}

fn sorted(value: &Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut keys: Vec<(&String, &Value)> = members.iter().collect();
            keys.sort_by_key(|(key, _)| *key);
            Value::Object(keys.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
        other => other.clone(),
    }
}

/// Finds what applying objects would change; each with its place and how it is now, as far as known.
pub(crate) async fn of_objects(
    attempt: &StepContext<'_>,
    apply: &Apply,
    objects: &[(&Value, Option<ObjectRef>, Option<Value>)],
) -> Difference {
    let (mut text, mut reasons) = (String::new(), Vec::new());
    let options = WriteOptions { manager: MANAGER.to_owned(), dry_run: true };
    for (object, at, live) in objects {
        let Some(at) = at else {
            let gvk = object::gvk(object);
            let name = format!("{}/{}", gvk.kind.to_lowercase(), object::name(object).unwrap_or_default());
            text.push_str(&unified(&name, None, Some(*object)));
            reasons.push(format!("{name}: created earlier in this run"));
            continue;
        };
        let cluster = attempt.cluster();
        let after = match (apply.server_side, live) {
            (true, _) => {
                cluster.apply(at, object, &slipway_cluster::ApplyOptions::new(MANAGER).dry_run(true)).await
            }
            (false, None) => cluster.create(at, object, &options).await,
            (false, Some(_)) => {
                let patch = slipway_cluster::ObjectPatch::Merge((*object).clone());
                cluster.patch(at, &patch, &options, None).await
            }
        };
        match after {
            Ok(after) => text.push_str(&unified(&shown(at), live.as_ref(), Some(&after))),
            // Its namespace, say, comes in an earlier step.
            Err(error) if error.class == ErrorClass::NotFound => {
                text.push_str(&unified(&shown(at), live.as_ref(), Some(*object)));
                reasons.push(format!("{}: created earlier in this run", shown(at)));
            }
            Err(error) => reasons.push(format!("{}: {}", shown(at), error.message)),
        }
    }
    Difference::of(text, (!reasons.is_empty()).then(|| reasons.join("; ")))
}

/// Finds what a patch would change.
pub(crate) async fn of_patch(
    attempt: &StepContext<'_>,
    own: &Patch,
    at: &ObjectRef,
    live: &Value,
) -> Difference {
    let options = WriteOptions { manager: MANAGER.to_owned(), dry_run: true };
    match attempt.cluster().patch(at, &patch::change(own), &options, None).await {
        Ok(after) => Difference::of(unified(&shown(at), Some(live), Some(&after)), None),
        Err(error) => Difference::unavailable(error.message),
    }
}

/// Finds what the release engine would change.
pub(crate) async fn of_release(
    attempt: &StepContext<'_>,
    own: &Helm,
    history: &ReleaseHistory,
) -> Difference {
    let content = match helm::load_content(&attempt.world.place, own).await {
        Ok(content) => content,
        Err(error) => return Difference::unavailable(error.message),
    };
    let request = helm::release_request(own, content, history, attempt.cluster().release_driver());
    let events = attempt.world.place.events.muted();
    let planned = slipway_release::plan(attempt.cluster(), &request, &events).await;
    let plan = match planned {
        Ok(plan) => plan,
        Err(failure) => return Difference::unavailable(failure.to_string()),
    };
    let mut text = String::new();
    for change in plan.view(&ViewOptions::default()).changes {
        text.push_str(&format!("--- live/{0}\n+++ planned/{0}\n", change.object));
        for line in &change.lines {
            text.push_str(line);
            text.push('\n');
        }
    }
    Difference::of(text, None)
}
