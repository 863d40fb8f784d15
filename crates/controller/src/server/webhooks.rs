//! `/webhooks`: deliveries of servers of pull requests and of registries. Each is a reason to look, and never more.

use http::{HeaderMap, StatusCode};
use serde_json::json;
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::{self, KindSpec as _, SubscriptionSpec, labels};
use slipway_promotion::step::WebhookDelivery;
use slipway_scm::{ProviderKind, WebhookHeaders};

use super::access::ApiCaller;
use super::bundles::unreadable;
use super::reply::{Refusal, Reply, json_reply};
use super::{ApiServer, form::is_name};

impl ApiServer {
    /// Takes a delivery and has the steps it is about looked at, by whichever process carries them out.
    pub(super) async fn take_delivery(
        &self,
        provider: Option<&str>,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let unknown = || {
            let message =
                "no such provider: github, gitlab, gitea, forgejo, bitbucket and azuredevops send webhooks";
            Refusal::new(StatusCode::NOT_FOUND, "not-found", message)
        };
        let kind = match provider {
            None => None,
            Some(name) => Some(
                ProviderKind::parse(name).filter(|kind| *kind != ProviderKind::None).ok_or_else(unknown)?,
            ),
        };
        let Some(receiver) = &self.receiver else { return Err(unknown()) };
        let texts = headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)));
        let told: WebhookHeaders = texts.collect();
        let label =
            kind.or_else(|| told.provider()).map_or_else(|| "unknown".to_owned(), |kind| kind.to_string());
        let delivery = WebhookDelivery { provider: kind, headers: &told, body };
        let steps = match receiver.receive_webhook(delivery).await {
            Ok(steps) => steps,
            Err(error) => {
                self.metrics.count_webhook(&label, "refused");
                let status = StatusCode::from_u16(error.status()).unwrap_or(StatusCode::BAD_REQUEST);
                let code = match status {
                    StatusCode::UNAUTHORIZED => "unauthorized",
                    StatusCode::SERVICE_UNAVAILABLE => "unavailable",
                    StatusCode::PAYLOAD_TOO_LARGE => "too-large",
                    _ => "invalid",
                };
                return Err(Refusal::new(status, code, error.to_string()));
            }
        };
        self.metrics.count_webhook(&label, if steps.is_empty() { "ignored" } else { "accepted" });
        for step in &steps {
            self.refresh(step).await?;
        }
        Ok(json_reply(StatusCode::OK, &json!({"steps": steps.len()})))
    }

    /// Has a subscription look at its registry or repository now.
    pub(super) async fn poll_subscription(
        &self,
        caller: &ApiCaller,
        namespace: &str,
        name: &str,
    ) -> Result<Reply, Refusal> {
        let absent = || {
            let message = format!("there is no subscription {namespace}/{name}");
            Refusal::new(StatusCode::NOT_FOUND, "not-found", message)
        };
        if !is_name(namespace) || !is_name(name) {
            return Err(absent());
        }
        let found =
            kinds::get::<SubscriptionSpec>(&self.cluster, namespace, name).await.map_err(unreadable)?;
        let found = found.ok_or_else(absent)?;
        caller.check(namespace, &found.spec.pipeline)?;
        self.refresh(&SubscriptionSpec::at(namespace, name)).await?;
        self.metrics.count_webhook("registry", "accepted");
        Ok(json_reply(StatusCode::ACCEPTED, &json!({"subscription": name})))
    }

    /// Changes the annotation that wakes whoever works on an object.
    async fn refresh(&self, at: &ObjectRef) -> Result<(), Refusal> {
        let now = self.clock.now().to_string();
        let mark = format!("{now}/{}", uuid::Uuid::new_v4().simple());
        let patch = ObjectPatch::Merge(json!({"metadata": {"annotations": {labels::REFRESH: mark}}}));
        let options = WriteOptions::for_manager(labels::FIELD_MANAGER);
        match self.cluster.patch(at, &patch, &options, None).await {
            Ok(_) => Ok(()),
            Err(error) if error.is_absent() => Ok(()),
            Err(error) => Err(unreadable(error.into())),
        }
    }
}
