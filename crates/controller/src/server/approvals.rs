//! `/api/v1/approvals`: answers of other systems to gates that wait for them.

use http::{HeaderMap, StatusCode};
use serde_json::json;
use slipway_promotion::gate::{PushError, store_answer};
use slipway_promotion::kinds::{self, PolicyGateSpec};

use super::ApiServer;
use super::access::ApiCaller;
use super::bundles::unreadable;
use super::form::is_name;
use super::reply::{FieldProblem, Refusal, Reply, json_reply};

impl ApiServer {
    /// Keeps an answer on the gate of a bundle.
    pub(super) async fn take_approval(
        &self,
        caller: &ApiCaller,
        headers: &HeaderMap,
        body: &[u8],
        namespace: &str,
        name: &str,
    ) -> Result<Reply, Refusal> {
        let now = self.clock.now();
        caller.check_body(headers, body, now)?;
        let absent = || {
            let message = format!("there is no gate {namespace}/{name}");
            Refusal::new(StatusCode::NOT_FOUND, "not-found", message)
        };
        if !is_name(namespace) || name.len() > 253 {
            return Err(absent());
        }
        let gate = kinds::get::<PolicyGateSpec>(&self.cluster, namespace, name).await.map_err(unreadable)?;
        let gate = gate.ok_or_else(absent)?;
        caller.check(gate.bundle_namespace(), gate.spec.pipeline.as_deref().unwrap_or_default())?;
        match store_answer(&self.cluster, namespace, name, body, now).await {
            Ok(()) => Ok(json_reply(StatusCode::OK, &json!({"gate": name, "namespace": namespace}))),
            Err(PushError::NoGate { .. }) => Err(absent()),
            Err(error @ PushError::NotExternal(_)) => {
                Err(Refusal::new(StatusCode::CONFLICT, "conflict", error.to_string()))
            }
            Err(PushError::Malformed(error)) => Err(Refusal::invalid(vec![FieldProblem {
                field: String::new(),
                message: format!("the answer is not as it should be: {error}"),
            }])),
            Err(PushError::Cluster(error)) => Err(unreadable(error)),
        }
    }
}
