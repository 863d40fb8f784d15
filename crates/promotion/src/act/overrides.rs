//! Opening a gate for a while, on record.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::json;
use slipway_cluster::Cluster;

use crate::kinds::{self, GateOverride, KindError, PolicyGate, PolicyGateSpec, labels};

/// A gate to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOverrideRequest {
    pub reason: String,
    pub pipeline: Option<String>,
    pub environment: Option<String>,
    pub bundle: Option<String>,
    pub expires_in: Duration,
    /// Who asks, as far as is known; admission writes who it was.
    pub by: Option<String>,
}

/// Why a gate is not opened.
#[derive(Debug, thiserror::Error)]
pub enum OverrideError {
    #[error("PolicyGate/{0} may not be overridden: its `spec.overridable` is false")]
    Forbidden(String),
    #[error("PolicyGate/{0} holds a paused pipeline; `slipway pipeline resume` lets it go on")]
    Freeze(String),
    #[error("an override needs a reason")]
    NoReason,
    #[error(transparent)]
    Kind(#[from] KindError),
}

/// Adds an override to a gate. Nothing that is there changes.
pub async fn override_gate(
    cluster: &Cluster,
    gate: &PolicyGate,
    request: &GateOverrideRequest,
    now: Timestamp,
) -> Result<GateOverride, OverrideError> {
    if gate.metadata.label(labels::FREEZE) == Some("true") {
        return Err(OverrideError::Freeze(gate.name().to_owned()));
    }
    if !gate.spec.overridable {
        return Err(OverrideError::Forbidden(gate.name().to_owned()));
    }
    if request.reason.trim().is_empty() {
        return Err(OverrideError::NoReason);
    }
    let entry = GateOverride {
        reason: request.reason.clone(),
        stage: request.environment.clone(),
        pipeline: request.pipeline.clone(),
        bundle: request.bundle.clone(),
        expires_at: now.saturating_add(request.expires_in).ok(),
        created_at: Some(now),
        created_by: request.by.clone(),
    };
    let mut read = gate.clone();
    loop {
        let mut all = read.spec.overrides.clone();
        all.push(entry.clone());
        match kinds::patch_spec(cluster, &read, json!({"overrides": all})).await {
            // Somebody wrote in between: entries of others stay.
            Err(error) if error.is_conflict() => {
                let found = kinds::get::<PolicyGateSpec>(cluster, gate.namespace(), gate.name()).await?;
                let Some(found) = found else { return Err(error.into()) };
                read = found;
            }
            written => return written.map(|_| entry).map_err(Into::into),
        }
    }
}
