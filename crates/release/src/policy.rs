//! Policies held against plans of releases.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use slipway_manifest::ObjectRef;
use slipway_policy::{
    ChangeAction, PolicyChange, PolicyInput, PolicyObject, PolicyReport, PolicySet, PolicyTarget, SecretUse,
};
use slipway_secrets::{Interpolation, ProviderName, distinct, find_references};

use crate::decide::ObjectChange;
use crate::plan::{PlannedObject, ReleasePlan};
use crate::resource::RecordPart;

/// The policies plans are held against, with what an engine does not know about the target.
#[derive(Clone, Debug)]
pub struct PolicyCheck {
    pub policies: Arc<PolicySet>,
    pub environment: Option<String>,
    pub cluster: Option<String>,
    /// The time that windows and exceptions are held against.
    pub now: Timestamp,
}

impl PolicyCheck {
    /// Holds a plan against the policies.
    pub fn evaluate(&self, plan: &ReleasePlan) -> PolicyReport {
        let target = PolicyTarget {
            environment: self.environment.clone(),
            cluster: self.cluster.clone(),
            namespace: Some(plan.namespace.to_string()),
        };
        self.policies.evaluate(&plan.policy_input(target, self.now))
    }
}

impl ReleasePlan {
    /// The facts of the plan that policies speak of.
    pub fn policy_input(&self, target: PolicyTarget, now: Timestamp) -> PolicyInput<'_> {
        let objects = self
            .objects
            .iter()
            .map(|object| PolicyObject { reference: object.at.clone(), object: &object.resource.object });
        let namespace = self.creates_namespace.then(|| PolicyChange {
            object: ObjectRef::core("Namespace", None, self.namespace.as_str()),
            action: ChangeAction::Create,
        });
        let changes = self.objects.iter().filter_map(|object| {
            Some(PolicyChange { object: object.at.clone(), action: action_of(object)? })
        });
        let deletions = self
            .deletions
            .iter()
            .map(|deletion| PolicyChange { object: deletion.at.clone(), action: ChangeAction::Destroy });
        PolicyInput {
            changes: namespace.into_iter().chain(changes).chain(deletions).collect(),
            secrets: self.secret_uses(),
            ..PolicyInput::new(target, now, objects.collect())
        }
    }

    /// The providers the values of the revision refer to; a reference without one takes the `default`.
    fn secret_uses(&self) -> Vec<SecretUse> {
        if !self.deploy_type.makes_revision() {
            return Vec::new();
        }
        let values = Value::Object(self.release.config.clone());
        let found = find_references(&values, Interpolation::On).unwrap_or_default();
        let uses = distinct(&found).into_iter().map(|reference| SecretUse {
            provider: reference.provider.as_ref().map_or("default", ProviderName::as_str).to_owned(),
            reference: reference.to_string(),
        });
        uses.collect()
    }
}

/// The change of an object over all its visits; none where it stays as it is.
fn action_of(object: &PlannedObject) -> Option<ChangeAction> {
    match object.first_change()? {
        ObjectChange::None { .. } => None,
        ObjectChange::Create => Some(ChangeAction::Create),
        ObjectChange::Update | ObjectChange::Apply { .. } => Some(ChangeAction::Update),
        // A hook is made anew with every deploy: that is how it runs again.
        ObjectChange::Recreate { .. } if object.resource.stored == RecordPart::Hook => {
            Some(ChangeAction::Create)
        }
        ObjectChange::Recreate { .. } => Some(ChangeAction::Replace),
    }
}
