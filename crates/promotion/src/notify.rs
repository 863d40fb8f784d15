//! Notifications: entries of the audit trail told to other systems, each once and in order.
//!
//! The trail is the queue and a hook's status the place in it. A delivery that failed is tried again before the next, so
//! that nothing is lost or out of order; one whose answer got lost is sent once more under the same name.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ListOptions};
use slipway_event::Clock;
use slipway_manifest::selector::LabelSelector;

use crate::audit::list_events;
use crate::kinds::{
    AuditEvent, KindError, NotificationDelivery, NotificationFormat, NotificationHook, NotificationHookSpec,
    PipelineSpec, get, list, patch_status,
};
use crate::webhook::{WebhookCall, WebhookCredential, call_webhook};
use crate::{OutboundClients, Requeue};

const TIMEOUT: Duration = Duration::from_secs(10);
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Deliveries that are kept in the status.
const MOST_KEPT: usize = 20;
/// Deliveries before the status is written and others have their turn.
const MOST_AT_ONCE: usize = 50;

/// Tells other systems what happens.
pub struct HookReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    outbound: OutboundClients,
}

impl HookReconciler {
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>, outbound: OutboundClients) -> Self {
        Self { cluster, clock, outbound }
    }

    /// Sends what a hook has not told yet.
    pub async fn reconcile(&self, namespace: &str, name: &str) -> Result<Requeue, KindError> {
        let Some(hook) = get::<NotificationHookSpec>(&self.cluster, namespace, name).await? else {
            return Ok(Requeue::Done);
        };
        if hook.spec.suspend || hook.metadata.is_being_deleted() {
            return Ok(Requeue::Done);
        }
        let now = self.clock.now();
        if let Some(next) = hook.status.next_attempt_at.filter(|next| *next > now) {
            return Ok(Requeue::At(next));
        }
        let mut events = list_events(&self.cluster, Some(namespace), None).await?;
        events.sort_by_key(|event| event.spec.sequence);
        let mut status = hook.status.clone();
        status.observed_generation = Some(hook.metadata.generation);
        if !status.started {
            // What happened before the hook existed is nobody's news.
            for event in &events {
                let told = status.told.entry(event.spec.pipeline_name.clone()).or_default();
                *told = (*told).max(event.spec.sequence.unwrap_or_default());
            }
            status.started = true;
            patch_status(&self.cluster, &hook, &status).await?;
            return Ok(Requeue::Done);
        }
        let selected = self.selected_pipelines(&hook).await?;
        let mut sent = 0;
        for event in &events {
            let (pipeline, sequence) = (&event.spec.pipeline_name, event.spec.sequence.unwrap_or_default());
            if sequence <= status.told.get(pipeline).copied().unwrap_or_default() {
                continue;
            }
            let wanted = (hook.spec.events.is_empty() || hook.spec.events.contains(&event.spec.action))
                && selected.as_ref().is_none_or(|selected| selected.contains(pipeline));
            if wanted {
                let (code, failure) = self.deliver(&hook, event).await;
                let delivery =
                    NotificationDelivery { event: event.name().to_owned(), at: Some(now), status: code };
                status.deliveries.insert(0, delivery);
                status.deliveries.truncate(MOST_KEPT);
                if let Some(failure) = failure {
                    status.failures = status.failures.saturating_add(1);
                    status.failure_message = Some(failure);
                    let pause =
                        FIRST_PAUSE.saturating_mul(1 << (status.failures - 1).min(10)).min(LONGEST_PAUSE);
                    let next = now.saturating_add(pause).unwrap_or(now);
                    status.next_attempt_at = Some(next);
                    patch_status(&self.cluster, &hook, &status).await?;
                    return Ok(Requeue::At(next));
                }
                status.failures = 0;
                status.failure_message = None;
                status.next_attempt_at = None;
                status.last_sent_at = Some(now);
                status.last_event = Some(event.name().to_owned());
                sent += 1;
            }
            status.told.insert(pipeline.clone(), sequence);
            if sent >= MOST_AT_ONCE {
                break;
            }
        }
        patch_status(&self.cluster, &hook, &status).await?;
        Ok(if sent >= MOST_AT_ONCE { Requeue::At(now) } else { Requeue::Done })
    }

    /// The pipelines of a hook; none stands for all.
    async fn selected_pipelines(&self, hook: &NotificationHook) -> Result<Option<Vec<String>>, KindError> {
        let wanted = Value::Object(hook.spec.pipeline_selector.clone());
        let Ok(Some(selector)) = LabelSelector::from_object(&wanted) else { return Ok(None) };
        if hook.spec.pipeline_selector.is_empty() {
            return Ok(None);
        }
        let all =
            list::<PipelineSpec>(&self.cluster, Some(hook.namespace()), &ListOptions::default()).await?;
        let fits = all.iter().filter(|pipeline| selector.matches(|key| pipeline.metadata.label(key)));
        Ok(Some(fits.map(|pipeline| pipeline.name().to_owned()).collect()))
    }

    /// Sends one entry; returns the status of the answer and what went wrong.
    async fn deliver(&self, hook: &NotificationHook, event: &AuditEvent) -> (u16, Option<String>) {
        let credential = match &hook.spec.webhook.secret_ref {
            None => WebhookCredential::default(),
            Some(secret) if secret.namespace.as_deref().is_some_and(|named| named != hook.namespace()) => {
                return (0, Some("the Secret must be in the namespace of the hook".to_owned()));
            }
            Some(secret) => {
                match WebhookCredential::read(&self.cluster, hook.namespace(), &secret.name).await {
                    Ok(credential) => credential,
                    Err(error) => return (0, Some(error.to_string())),
                }
            }
        };
        let body = body_of(hook.spec.format, event);
        let call = WebhookCall {
            url: &hook.spec.webhook.url,
            event: "notification",
            // The same entry has the same name however often it is sent.
            delivery: format!("{}/{}", hook.metadata.uid, event.metadata.uid),
            body: &body,
            credential,
            timeout: TIMEOUT,
        };
        let answer = match self.outbound.shared() {
            Ok(http) => call_webhook(http, call).await,
            Err(error) => Err(error.into()),
        };
        match answer {
            Ok(answer) if (200..300).contains(&answer.status) => (answer.status, None),
            Ok(answer) => (answer.status, Some(format!("answered with status {}", answer.status))),
            Err(error) => (0, Some(error.to_string())),
        }
    }
}

fn body_of(format: NotificationFormat, event: &AuditEvent) -> Value {
    let spec = &event.spec;
    let data = json!({
        "event": spec.action, "outcome": spec.outcome, "time": spec.timestamp, "namespace": event.namespace(),
        "pipeline": spec.pipeline_name, "bundle": spec.bundle_name, "environment": spec.environment,
        "actor": spec.actor, "message": spec.message, "sequence": spec.sequence,
    });
    let place = match spec.environment.as_str() {
        "" => String::new(),
        environment => format!(" in {environment}"),
    };
    let action = data["event"].as_str().unwrap_or_default();
    let text = format!("{}: {action} {}{place} {}", spec.pipeline_name, spec.bundle_name, spec.message);
    let text = text.trim().to_owned();
    match format {
        NotificationFormat::Generic => data,
        NotificationFormat::Slack => json!({"text": text}),
        NotificationFormat::Teams => json!({
            "type": "message",
            "attachments": [{
                "contentType": "application/vnd.microsoft.card.adaptive",
                "content": {"type": "AdaptiveCard", "version": "1.4", "body": [{"type": "TextBlock", "text": text, "wrap": true}]},
            }],
        }),
        NotificationFormat::CloudEvents => json!({
            "specversion": "1.0", "id": event.metadata.uid, "time": spec.timestamp,
            "type": format!("io.kardinal.{}", action.to_lowercase()),
            "source": format!("/{}/{}", event.namespace(), spec.pipeline_name),
            "datacontenttype": "application/json", "data": data,
        }),
    }
}
