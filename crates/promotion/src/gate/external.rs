//! Gates somebody else decides: asked by a webhook, or told by one.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use slipway_cluster::Cluster;
use slipway_http::HttpError;

use super::context::{ApprovalContext, GateContext};
use crate::OutboundClients;
use crate::kinds::{
    ExternalGate, ExternalGateStatus, ExternalMode, KindError, PolicyGate, PolicyGateSpec, get, patch_status,
};
use crate::webhook::{WebhookCall, WebhookCredential, WebhookError, call_webhook};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Longer texts of others are cut.
const LONGEST: usize = 1024;
/// Times a write is tried again after somebody else wrote.
const CONFLICTS: u32 = 10;

/// An answer as it is written.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct AnswerForm {
    approved: bool,
    #[serde(default)]
    approved_by: Option<String>,
    #[serde(default)]
    comment: Option<String>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    data: Map<String, Value>,
}

/// Reads the answer of an external system.
pub fn parse_answer(body: &[u8], now: Timestamp) -> Result<ExternalGateStatus, serde_json::Error> {
    let form: AnswerForm = serde_json::from_slice(body)?;
    let cut = |text: String| text.chars().take(LONGEST).collect::<String>();
    Ok(ExternalGateStatus {
        approved: Some(form.approved),
        approved_by: form.approved_by.map(cut),
        comment: form.comment.map(cut),
        answered_at: Some(now),
        expires_at: form.expires_at,
        data: form.data,
        error: None,
    })
}

/// The answer as expressions read it; none without an answer.
pub(crate) fn approval(status: &ExternalGateStatus) -> Option<ApprovalContext> {
    Some(ApprovalContext {
        approved: status.approved?,
        approved_by: status.approved_by.clone().unwrap_or_default(),
        comment: status.comment.clone().unwrap_or_default(),
        expires_at: status.expires_at,
        data: Value::Object(status.data.clone()),
    })
}

/// The moment an external system is to be asked again; none for answers that are pushed.
pub(crate) fn next_poll(gate: &PolicyGate, external: &ExternalGate) -> Option<Timestamp> {
    if external.mode == ExternalMode::Push {
        return None;
    }
    let interval = external.interval.unwrap_or(gate.spec.recheck_interval).0;
    let status = gate.status.external.as_ref();
    let Some(answered) = status.and_then(|status| status.answered_at) else { return Some(Timestamp::MIN) };
    let due = answered.saturating_add(interval).unwrap_or(Timestamp::MAX);
    let expiry = status.and_then(|status| status.expires_at).filter(|expiry| *expiry > answered);
    Some(expiry.map_or(due, |expiry| due.min(expiry)))
}

/// Asks an external system. Whatever goes wrong is no approval.
pub(crate) async fn poll(
    cluster: &Cluster,
    outbound: &OutboundClients,
    gate: &PolicyGate,
    external: &ExternalGate,
    context: &GateContext,
) -> ExternalGateStatus {
    match ask(cluster, outbound, gate, external, context).await {
        Ok(answer) => answer,
        Err(why) => ExternalGateStatus {
            answered_at: Some(context.now),
            error: Some(why.to_string()),
            ..ExternalGateStatus::default()
        },
    }
}

#[derive(Debug, thiserror::Error)]
enum PollError {
    #[error(transparent)]
    Webhook(#[from] WebhookError),
    #[error(transparent)]
    Client(#[from] HttpError),
    #[error("answered with status {0}")]
    Status(u16),
    #[error("the answer is not as it should be: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error("the gate names no url")]
    NoUrl,
    #[error("the Secret must be in the namespace of the gate")]
    ForeignSecret,
}

async fn ask(
    cluster: &Cluster,
    outbound: &OutboundClients,
    gate: &PolicyGate,
    external: &ExternalGate,
    context: &GateContext,
) -> Result<ExternalGateStatus, PollError> {
    if external.url.is_empty() {
        return Err(PollError::NoUrl);
    }
    let credential = match &external.secret_ref {
        None => WebhookCredential::default(),
        Some(secret) if secret.namespace.as_deref().is_some_and(|named| named != gate.namespace()) => {
            return Err(PollError::ForeignSecret);
        }
        Some(secret) => WebhookCredential::read(cluster, gate.namespace(), &secret.name).await?,
    };
    let bundle = &context.bundle;
    let previous = context.previous.as_ref().map(|one| json!({"name": one.name, "version": one.version}));
    let body = json!({
        "pipeline": context.pipeline.name,
        "environment": context.environment.name,
        "bundle": {
            "name": bundle.name, "namespace": bundle.namespace, "version": bundle.version,
            "images": bundle.images, "labels": bundle.labels,
        },
        "gate": gate.name(),
        "previousBundle": previous,
    });
    let call = WebhookCall {
        url: &external.url,
        event: "gate",
        delivery: format!("{}/{}", gate.metadata.uid, context.now.as_second()),
        body: &body,
        credential,
        timeout: external.timeout.map_or(TIMEOUT, |timeout| timeout.0),
    };
    let answer = call_webhook(outbound.shared()?, call).await?;
    if !(200..300).contains(&answer.status) {
        return Err(PollError::Status(answer.status));
    }
    Ok(parse_answer(&answer.body, context.now)?)
}

/// Why an answer that was pushed cannot be kept.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("there is no gate {namespace}/{name}")]
    NoGate { namespace: String, name: String },
    #[error("gate {0} does not take answers")]
    NotExternal(String),
    #[error("the answer is not as it should be: {0}")]
    Malformed(#[from] serde_json::Error),
    #[error(transparent)]
    Cluster(#[from] KindError),
}

/// Keeps an answer that was pushed, on the gate of a bundle.
pub async fn store_answer(
    cluster: &Cluster,
    namespace: &str,
    name: &str,
    body: &[u8],
    now: Timestamp,
) -> Result<(), PushError> {
    let answer = parse_answer(body, now)?;
    let mut attempts = 0;
    loop {
        let gate = get::<PolicyGateSpec>(cluster, namespace, name).await?;
        let gone = || PushError::NoGate { namespace: namespace.to_owned(), name: name.to_owned() };
        let gate = gate.ok_or_else(gone)?;
        let pushed = gate.spec.external.as_ref().is_some_and(|external| external.mode == ExternalMode::Push);
        if !gate.is_instance() || !pushed {
            return Err(PushError::NotExternal(name.to_owned()));
        }
        let mut status = gate.status.clone();
        status.external = Some(answer.clone());
        match patch_status(cluster, &gate, &status).await {
            // The evaluator wrote in between.
            Err(error) if error.is_conflict() && attempts < CONFLICTS => attempts += 1,
            written => return Ok(written.map(drop)?),
        }
    }
}
