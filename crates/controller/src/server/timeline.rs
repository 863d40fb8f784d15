//! `/api/v1/timeline`: the audit trail, filtered, a page at a time.

use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_promotion::audit::list_events;
use slipway_promotion::kinds::AuditEvent;

use super::access::ApiCaller;
use super::bundles::unreadable;
use super::reply::{FieldProblem, Refusal, Reply, json_reply, typed_reply};
use super::{ApiServer, QueryValues};

const USUAL_PAGE: usize = 100;
const LARGEST_PAGE: usize = 1_000;

impl ApiServer {
    /// Shows entries, newest first.
    pub(super) async fn show_timeline(
        &self,
        caller: &ApiCaller,
        query: &QueryValues,
    ) -> Result<Reply, Refusal> {
        let mut problems = Vec::new();
        let mut time = |field: &str| {
            let text = query.get(field)?;
            let parsed: Option<Timestamp> = text.parse().ok();
            if parsed.is_none() {
                let message = "must be a time as in 2026-04-10T12:00:00Z".to_owned();
                problems.push(FieldProblem { field: field.to_owned(), message });
            }
            parsed
        };
        let (from, to) = (time("from"), time("to"));
        let mut number = |field: &str, usual: usize| {
            let Some(text) = query.get(field) else { return usual };
            text.parse().unwrap_or_else(|_| {
                problems
                    .push(FieldProblem { field: field.to_owned(), message: "must be a number".to_owned() });
                usual
            })
        };
        let limit = number("limit", USUAL_PAGE).clamp(1, LARGEST_PAGE);
        let start = number("cursor", 0);
        if !problems.is_empty() {
            return Err(Refusal::invalid(problems));
        }
        let namespace = query.get("namespace");
        let events =
            list_events(&self.cluster, namespace, query.get("pipeline")).await.map_err(unreadable)?;
        let is = |wanted: &str, found: &str| query.get(wanted).is_none_or(|wanted| wanted == found);
        let fits = |event: &&AuditEvent| {
            let spec = &event.spec;
            caller.may_use(event.namespace(), &spec.pipeline_name)
                && is("environment", &spec.environment)
                && is("bundle", &spec.bundle_name)
                && is("actor", &spec.actor)
                && is("action", json!(spec.action).as_str().unwrap_or_default())
                && from.is_none_or(|from| spec.timestamp >= from)
                && to.is_none_or(|to| spec.timestamp < to)
        };
        let found: Vec<Value> = events.iter().rev().filter(fits).map(entry).collect();
        let page: Vec<Value> = found.iter().skip(start).take(limit).cloned().collect();
        if query.get("format") == Some("csv") {
            return Ok(typed_reply(StatusCode::OK, "text/csv; charset=utf-8", csv(&page)));
        }
        let next = (start + page.len() < found.len()).then(|| (start + page.len()).to_string());
        Ok(json_reply(StatusCode::OK, &json!({"entries": page, "next": next, "total": found.len()})))
    }
}

const FIELDS: [&str; 12] = [
    "time",
    "namespace",
    "pipeline",
    "bundle",
    "environment",
    "action",
    "actor",
    "outcome",
    "message",
    "sequence",
    "hash",
    "previousHash",
];

fn entry(event: &AuditEvent) -> Value {
    let spec = &event.spec;
    json!({
        "time": spec.timestamp,
        "namespace": event.namespace(),
        "pipeline": spec.pipeline_name,
        "bundle": spec.bundle_name,
        "environment": spec.environment,
        "action": spec.action,
        "actor": spec.actor,
        "outcome": spec.outcome,
        "message": spec.message,
        "sequence": spec.sequence,
        "hash": spec.hash,
        "previousHash": spec.prev_hash,
    })
}

fn csv(entries: &[Value]) -> String {
    let mut text = format!("{}\r\n", FIELDS.join(","));
    for entry in entries {
        let cells = FIELDS.map(|field| match &entry[field] {
            Value::Null => String::new(),
            Value::String(text) => {
                // Spreadsheets take such a beginning for a formula.
                let guard = if text.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
                format!("\"{guard}{}\"", text.replace('"', "\"\""))
            }
            other => other.to_string(),
        });
        text.push_str(&cells.join(","));
        text.push_str("\r\n");
    }
    text
}
