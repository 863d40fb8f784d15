//! `wait`: until every object meant meets a condition, in kubectl's words.

use serde_json::Value;
use slipway_cluster::wait::WaitCondition;
use slipway_manifest::object;

use super::delete::named;
use super::{StepAction, StepFuture, StepOutcome, StepType};
use crate::context::{Found, StepContext, describe, passes};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::error::{AttemptError, ErrorKind};
use crate::model::{Action, Wait};
use crate::plan::look::PlanRequest;
use crate::plan::words::scope;
use crate::plan::{StepPreview, StepVerb};
use crate::schema::{RESOURCE, UNTIL, like, object, one_scope, selection, with};
use slipway_problem::Problem;

/// Reads a condition that was checked when the document was read.
pub(crate) fn condition(text: &str) -> Result<WaitCondition, AttemptError> {
    WaitCondition::parse(text)
        .map_err(|error| AttemptError::new(ErrorKind::Internal, error.message).permanent())
}

async fn run(attempt: &StepContext<'_>, wait: &Wait) -> Result<StepOutcome, AttemptError> {
    let condition = condition(&wait.until)?;
    let mut refreshed = None;
    let mut turn = 0;
    loop {
        match attempt.select(&wait.on, &mut refreshed).await {
            Ok(found) => match judge(&condition, &found, wait) {
                Verdict::Holds(note) => return Ok(StepOutcome::noted(note)),
                Verdict::Waits(what, unmet) => attempt.awaits(last_seen(what, &condition, &unmet), unmet),
            },
            // A passing trouble of the server is not what is waited for.
            Err(error) if passes(&error) => attempt.note(error.to_string()),
            Err(error) => return Err(error.into()),
        }
        attempt.pause(&mut turn).await;
    }
}

/// Names what is awaited, with the value the condition looks at as the first object has it.
pub(super) fn last_seen(what: String, condition: &WaitCondition, unmet: &[Value]) -> String {
    match unmet.first().and_then(|object| Some((object, observed(condition, object)?))) {
        Some((object, seen)) => format!("{what}; last seen on {}: {seen}", describe(object)),
        None => what,
    }
}

/// The value a condition looks at, as an object has it; nothing of what a Secret holds.
fn observed(condition: &WaitCondition, object: &Value) -> Option<String> {
    match condition {
        WaitCondition::JsonPath { .. } if object::kind(object) == Some("Secret") => {
            Some("a value that is not shown".to_owned())
        }
        WaitCondition::JsonPath { path, text, .. } => {
            let found = path.find_values(object).ok()?;
            let values: Vec<String> =
                found.iter().flatten().take(SHOWN).map(|value| shortened(value)).collect();
            Some(if values.is_empty() {
                format!("{text} finds nothing")
            } else {
                format!("{text} is {}", values.join(", "))
            })
        }
        WaitCondition::Condition { kind, .. } => {
            let conditions = object["status"]["conditions"].as_array();
            let found = conditions
                .into_iter()
                .flatten()
                .find(|found| found["type"].as_str().is_some_and(|name| name.eq_ignore_ascii_case(kind)));
            Some(match found {
                Some(found) => format!("{kind} is {}", shortened(&found["status"])),
                None => format!("it has no condition {kind}"),
            })
        }
        WaitCondition::Delete | WaitCondition::Create => None,
    }
}

/// The number of values of a path that are shown.
const SHOWN: usize = 3;
/// The number of characters of a value that are shown.
const LONGEST: usize = 200;

fn shortened(value: &Value) -> String {
    let text = match value {
        Value::String(text) => format!("`{text}`"),
        other => other.to_string(),
    };
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// The outcome of one look at what is awaited.
pub(crate) enum Verdict {
    Holds(String),
    Waits(String, Vec<Value>),
}

pub(crate) fn judge(condition: &WaitCondition, found: &Found, wait: &Wait) -> Verdict {
    let what = named(&wait.on);
    let is_delete = matches!(condition, WaitCondition::Delete);
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

impl StepAction for Wait {
    fn describe(&self) -> String {
        format!("{} on {}{}", self.until, named(&self.on), scope(&self.on))
    }

    fn plan<'a>(
        &'a self,
        cx: &'a StepContext<'a>,
        request: &'a PlanRequest<'a>,
    ) -> StepFuture<'a, StepPreview> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(run(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a wait creates nothing")
    }

    fn namespace(&self) -> Option<&str> {
        self.on.namespace.as_deref()
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    wait: &Wait,
    _: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let condition = condition(&wait.until)?;
    let found = attempt.select(&wait.on, &mut None).await?;
    Ok(match judge(&condition, &found, wait) {
        Verdict::Holds(note) => StepPreview::new(StepVerb::NoOp, note),
        Verdict::Waits(what, _) => StepPreview::new(StepVerb::Wait, what),
    })
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "wait",
    needed: "for and on are required",
    decode: |block, _| decode(block).map(Action::Wait),
    definition: "WaitOp",
    about: "Waits until something holds.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<Wait> {
    let until = block.filled("for").map(|(node, text)| {
        fields::until(block, node, "for", "E361", text);
        text.to_owned()
    });
    if until.is_none() && block.get("for").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E009", Problem::error("for is required"));
    }
    let Some((node, text)) = block.filled("on") else {
        for key in ["namespace", "allNamespaces", "selector", "fieldSelector"] {
            block.raw(key);
        }
        if block.get("on").is_none_or(|node| node.as_str() == Some("")) {
            block.missing("E360", Problem::error("on is required"));
        }
        return None;
    };
    let on = fields::selected(block, node, "on", text, ["E365", "E362", "E363", "E364", "E366"])?;
    if until.as_deref() == Some("condition=Ready")
        && on.name.is_none()
        && matches!(on.kind.to_ascii_lowercase().as_str(), "pod" | "pods" | "po")
        && !on.field_selector.as_deref().is_some_and(|selector| selector.contains("status.phase"))
    {
        let problem =
            Problem::warning("completed pods are never Ready, so one finished Job makes this wait for ever");
        block.report(node, "on", "W007", problem.hint("add `fieldSelector: status.phase!=Succeeded`"));
    }
    Some(Wait { until: until?, on })
}

fn schema() -> Value {
    with(
        object(
            &["for", "on"],
            [
                ("for", like("`condition=NAME[=VALUE]`, `jsonpath=EXPR[=VALUE]` or `delete`.", UNTIL)),
                ("on", like("A type (`pods`) or a type and a name (`deployment/web`).", RESOURCE)),
            ]
            .into_iter()
            .chain(selection())
            .collect(),
        ),
        "allOf",
        one_scope("on"),
    )
}
