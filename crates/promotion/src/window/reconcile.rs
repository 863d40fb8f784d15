//! Keeps the status of change windows true.

use std::sync::Arc;

use slipway_cluster::Cluster;
use slipway_event::Clock;
use slipway_manifest::ObjectRef;

use super::Window;
use crate::Requeue;
use crate::kinds::{
    ChangeWindowSpec, ConditionStatus, KindError, NewCondition, get, patch_status, set_condition,
};

/// Tells whether change windows are active, and when that changes.
pub struct WindowReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
}

impl WindowReconciler {
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>) -> Self {
        Self { cluster, clock }
    }

    /// Brings the status of a window up to date.
    pub async fn reconcile(&self, at: &ObjectRef) -> Result<Requeue, KindError> {
        let Some(object) = get::<ChangeWindowSpec>(&self.cluster, "", &at.name).await? else {
            return Ok(Requeue::Done);
        };
        let now = self.clock.now();
        let generation = object.metadata.generation;
        let mut status = object.status.clone();
        status.observed_generation = Some(generation);
        let (usable, reason, message) = match Window::parse(&object.spec) {
            Ok(window) => {
                status.active = window.is_active(now);
                status.next_transition_at = window.next_transition(now);
                status.reason = Some(match (status.active, object.spec.reason.as_str()) {
                    (true, "") => "nothing may be promoted".to_owned(),
                    (true, why) => why.to_owned(),
                    (false, _) => "promotions are allowed".to_owned(),
                });
                (ConditionStatus::True, "Usable", String::new())
            }
            Err(errors) => {
                // Gates that read it stay closed.
                status.active = true;
                status.next_transition_at = None;
                let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                status.reason = Some(format!("the window cannot be used: {message}"));
                (ConditionStatus::False, "Invalid", message)
            }
        };
        let ready =
            NewCondition { kind: "Ready", status: usable, reason, message, observed_generation: generation };
        set_condition(&mut status.conditions, ready, now);
        let next = status.next_transition_at;
        patch_status(&self.cluster, &object, &status).await?;
        Ok(next.map_or(Requeue::Done, Requeue::At))
    }
}
