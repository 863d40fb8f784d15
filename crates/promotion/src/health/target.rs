//! What is checked, and what would prove that it is the change at hand.

use jiff::Timestamp;
use slipway_manifest::{Gvk, ObjectRef};

use super::proof::RevisionHistory;
use crate::kinds::{
    DeliveryDelegate, HealthBaseline, HealthObservation, HealthSpec, HealthType, ImageArtifact, ObjectName,
    PromotionStep,
};

/// The environment to look at.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthTarget {
    /// The namespace of the pipeline, where Secrets with kubeconfigs are.
    pub namespace: String,
    pub pipeline: String,
    pub environment: String,
    pub region: Option<String>,
    /// The directory of the environment in the repository.
    pub path: String,
    pub health: HealthSpec,
    pub delegate: DeliveryDelegate,
}

impl HealthTarget {
    /// The environment of a step.
    pub fn of(step: &PromotionStep) -> Self {
        let spec = &step.spec;
        Self {
            namespace: step.metadata.namespace.clone(),
            pipeline: spec.pipeline.clone(),
            environment: spec.environment.clone(),
            region: spec.region.clone(),
            path: spec.path.clone(),
            health: spec.health.clone(),
            delegate: spec.delivery.as_ref().map(|delivery| delivery.delegate).unwrap_or_default(),
        }
    }

    /// The object an adapter looks at.
    pub(super) fn object(&self, adapter: HealthType, gvk: Gvk) -> ObjectRef {
        let health = &self.health;
        let (named, default_name, default_namespace) = match adapter {
            HealthType::ArgoCd => (health.argocd.as_ref(), self.gitops_name(), "argocd"),
            HealthType::Flux => (health.flux.as_ref(), self.gitops_name(), "flux-system"),
            HealthType::HelmRelease => (health.helm_release.as_ref(), self.gitops_name(), "flux-system"),
            HealthType::ArgoRollouts => {
                (health.argo_rollouts.as_ref(), self.pipeline.clone(), &*self.environment)
            }
            HealthType::Flagger => (health.flagger.as_ref(), self.pipeline.clone(), &*self.environment),
            HealthType::Resource | HealthType::None => {
                let resource = health.resource.clone().unwrap_or_default();
                let name = ObjectName { name: resource.name, namespace: resource.namespace };
                return self.named(Some(&name), self.pipeline.clone(), &self.environment, gvk);
            }
        };
        self.named(named, default_name, default_namespace, gvk)
    }

    fn named(&self, named: Option<&ObjectName>, name: String, namespace: &str, gvk: Gvk) -> ObjectRef {
        let given = named.cloned().unwrap_or_default();
        let namespace = given.namespace.unwrap_or_else(|| namespace.to_owned());
        ObjectRef::new(
            gvk,
            Some(&self.with_region(&namespace)),
            self.with_region(&given.name.unwrap_or(name)),
        )
    }

    /// The usual name of an Application or Kustomization.
    fn gitops_name(&self) -> String {
        format!("{}-{}", self.pipeline, self.environment)
    }

    fn with_region(&self, text: &str) -> String {
        match &self.region {
            Some(region) => text.replace("{region}", region),
            None => text.to_owned(),
        }
    }

    /// The label selector, as the API takes it.
    pub(super) fn selector(&self) -> Option<String> {
        let labels = self.health.label_selector.as_ref().filter(|labels| !labels.is_empty())?;
        let terms: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}={}", self.with_region(value))).collect();
        Some(terms.join(","))
    }
}

/// What would prove that the change at hand is live, and what earlier looks found.
#[derive(Clone, Default)]
pub struct HealthProof<'a> {
    /// The commit that holds the change: the merge, or the push.
    pub target_revision: Option<String>,
    pub images: Vec<ImageArtifact>,
    /// The environment's files were as they should be already.
    pub no_change: bool,
    pub merged_at: Option<Timestamp>,
    /// When the environment was first checked.
    pub started_at: Option<Timestamp>,
    pub baseline: Option<&'a HealthBaseline>,
    pub before: Option<&'a HealthObservation>,
    pub history: Option<&'a dyn RevisionHistory>,
}

impl<'a> HealthProof<'a> {
    /// What a step's status says about its change.
    pub fn of(step: &'a PromotionStep, images: &[ImageArtifact]) -> Self {
        let status = &step.status;
        let output = |name: &str| status.outputs.get(name).filter(|value| !value.is_empty()).cloned();
        Self {
            target_revision: status.merge_sha.clone().or_else(|| output("commitSHA")),
            images: images.to_vec(),
            no_change: output("noChange").as_deref() == Some("true"),
            merged_at: status.merged_at.or(status.promoted_at),
            started_at: None,
            baseline: status.health_baseline.as_ref(),
            before: status.health.as_ref(),
            history: None,
        }
    }

    #[must_use]
    pub fn with_history(self, history: &'a dyn RevisionHistory) -> Self {
        Self { history: Some(history), ..self }
    }
}
