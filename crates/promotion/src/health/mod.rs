//! Health: the proof that an environment runs the change at hand and is well.
//!
//! [`HealthCheck::baseline`] remembers the state before a push. [`HealthCheck::check`] looks at the environment through the
//! adapter of its tool (`adapters`, one file each, pure) and calls it healthy only with a proof that what it sees is
//! newer (`proof`). [`judge`] turns one look after the other into a verdict: bake, thresholds, deadlines (pure). Nothing
//! here writes to a cluster.

mod adapters;
mod detect;
mod drift;
mod error;
mod image;
mod judge;
mod proof;
mod remote;
mod report;
mod target;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Cluster, Deadline, ErrorClass, RetryPolicy};
use slipway_event::{Clock, Redactor};
use tokio_util::sync::CancellationToken;

use adapters::{Adapter, Purpose, Seen, adapter_name, shown_name};
use detect::{Discovery, FoundObject, NamedCluster, Selection, SelectionOrigin};
use proof::{Freshness, KnownAncestors, prove_revision};
use remote::RemoteClusters;
use report::Finding;

use crate::kinds::{DeliveryDelegate, HealthBaseline, HealthLevel, HealthSpec, HealthType};
use crate::{OutboundClients, OutboundPolicy};

pub use drift::{DriftDetail, DriftExpectation, DriftKind, DriftReport, GitState, find_drift};
pub use error::HealthError;
pub use judge::{CHECK_INTERVAL, HealthPolicy, HealthVerdict, judge};
pub use proof::{BranchHistory, RevisionHistory};
pub use report::{HealthReport, HealthWarning};
pub use target::{HealthProof, HealthTarget};

/// The longest one look at a cluster may take.
const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// Looks at the health of environments.
pub struct HealthCheck {
    /// Holds Secrets with kubeconfigs.
    control: Cluster,
    /// Runs environments that name no other cluster.
    workloads: Cluster,
    shared_namespace: Option<String>,
    remotes: RemoteClusters,
    clock: Arc<dyn Clock>,
    discovery: Discovery,
    ancestors: KnownAncestors,
    outbound: OutboundClients,
}

impl HealthCheck {
    /// Checks environments of this cluster, and of those its Secrets name.
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>, redactor: Redactor) -> Self {
        let cluster = patient(cluster);
        Self {
            workloads: cluster.clone(),
            control: cluster,
            shared_namespace: None,
            remotes: RemoteClusters::new(redactor),
            clock,
            discovery: Discovery::default(),
            ancestors: KnownAncestors::default(),
            outbound: OutboundClients::new(OutboundPolicy::default(), CancellationToken::new()),
        }
    }

    /// Looks for workloads in another cluster than the one with the kinds: for agents.
    #[must_use]
    pub fn with_workloads(self, workloads: Cluster) -> Self {
        Self { workloads: patient(workloads), ..self }
    }

    /// Keeps to a policy when kubeconfigs name servers; without it to the strictest.
    #[must_use]
    pub fn with_outbound(self, outbound: OutboundClients) -> Self {
        Self { outbound, ..self }
    }

    /// Also uses Secrets of this namespace that are shared by their annotation.
    #[must_use]
    pub fn with_shared_namespace(self, namespace: impl Into<String>) -> Self {
        Self { shared_namespace: Some(namespace.into()), ..self }
    }

    /// Remembers the state of an environment before anything is pushed.
    pub async fn baseline(&self, target: &HealthTarget) -> Result<HealthBaseline, HealthError> {
        let now = self.clock.now();
        let cluster = self.cluster_of(target).await?;
        let proof = HealthProof::default();
        let selection = detect::select(&self.discovery, &cluster, target, &proof, now).await?;
        let mut objects = baseline_of(&selection);
        let mut others = Vec::new();
        // Looked at when the Application turns out to be missing.
        if selection.health_type != HealthType::Resource {
            others.push(HealthType::Resource);
        }
        others.extend(delegate_type(target.delegate));
        for health_type in others {
            let target = only(target, health_type);
            let selection = detect::select(&self.discovery, &cluster, &target, &proof, now).await?;
            objects.extend(baseline_of(&selection));
        }
        objects.sort_by(|one, other| one.object.cmp(&other.object));
        objects.dedup_by(|one, other| one.object == other.object);
        Ok(HealthBaseline { adapter: selection.health_type, taken_at: now, objects })
    }

    /// Looks at an environment. Never answers from memory; a cluster that does not answer is `Unknown`.
    pub async fn check(&self, target: &HealthTarget, proof: &HealthProof<'_>) -> HealthReport {
        let now = self.clock.now();
        let before = proof.before;
        if target.health.adapter == Some(HealthType::None) && target.delegate == DeliveryDelegate::None {
            let finding = Finding::healthy("nothing is checked");
            let observation = finding.into_observation("none".into(), before, now);
            return HealthReport { observation, warning: None };
        }
        match self.look(target, proof, now).await {
            Ok(look) => {
                let warning = look.warning(before.map(|before| before.adapter.as_str()));
                let observation = look.finding.into_observation(look.adapter, before, now);
                HealthReport { observation, warning }
            }
            Err(error) => {
                if let Some(name) = target.health.cluster.as_deref().filter(|_| error.is_unauthorized()) {
                    self.remotes.forget(name);
                }
                let adapter = before.map(|before| before.adapter.clone()).unwrap_or_default();
                let finding = Finding::new(HealthLevel::Unknown, error.reason(), error.chain());
                HealthReport { observation: finding.into_observation(adapter, before, now), warning: None }
            }
        }
    }

    /// The cluster an environment runs in.
    async fn cluster_of(&self, target: &HealthTarget) -> Result<NamedCluster, HealthError> {
        let name = target.health.cluster.clone().unwrap_or_default();
        let cluster = match name.as_str() {
            "" => self.workloads.clone(),
            secret => {
                let control = self.control.with_deadline(Deadline::after(LOOK_LIMIT));
                let shared = self.shared_namespace.as_deref();
                self.remotes.connect(&control, &target.namespace, secret, shared, &self.outbound).await?
            }
        };
        Ok(NamedCluster { name, cluster: cluster.with_deadline(Deadline::after(LOOK_LIMIT)) })
    }

    async fn look(
        &self,
        target: &HealthTarget,
        proof: &HealthProof<'_>,
        now: Timestamp,
    ) -> Result<Look, HealthError> {
        let cluster = self.cluster_of(target).await?;
        let selection = detect::select(&self.discovery, &cluster, target, proof, now).await?;
        let delegate = delegate_type(target.delegate);
        let purpose = if delegate.is_some() { Purpose::SyncProof } else { Purpose::Health };
        let main = match (selection.health_type, delegate) {
            (HealthType::None, _) => Finding::healthy(""),
            // Without a GitOps tool the delegate's own images are the proof.
            (HealthType::Resource, Some(_)) => Finding::healthy(""),
            (same, Some(delegate)) if same == delegate => Finding::healthy(""),
            _ => self.assess(&cluster, &selection, target, proof, purpose, now).await?,
        };
        let Some(delegate) = delegate else {
            let adapter = selection.adapter_text();
            return Ok(Look { finding: main, adapter, origin: selection.origin });
        };
        let adapter = match selection.health_type {
            HealthType::ArgoCd | HealthType::Flux | HealthType::HelmRelease => {
                format!("{}+{}", selection.adapter_text(), adapter_name(delegate))
            }
            _ => adapter_name(delegate).to_owned(),
        };
        let target = only(target, delegate);
        let rollout = detect::select(&self.discovery, &cluster, &target, proof, now).await?;
        let finding = self.assess(&cluster, &rollout, &target, proof, Purpose::Health, now).await?;
        // Where both are well, the delegate's words say more.
        let finding = match main.level {
            HealthLevel::Healthy => Finding { revision: main.revision, ..finding },
            _ => main.and(finding),
        };
        Ok(Look { finding, adapter, origin: SelectionOrigin::Explicit })
    }

    /// Judges all objects of a selection together: the worst of them speaks, and one of them must prove the change.
    async fn assess(
        &self,
        cluster: &NamedCluster,
        selection: &Selection,
        target: &HealthTarget,
        proof: &HealthProof<'_>,
        purpose: Purpose,
        now: Timestamp,
    ) -> Result<Finding, HealthError> {
        let Some(adapter) = adapters::adapter(selection.health_type) else {
            return Ok(Finding::healthy("nothing is checked"));
        };
        let name = adapter_name(selection.health_type);
        if selection.objects.is_empty() {
            let selector = target.selector().unwrap_or_default();
            let message = format!("{name}: nothing matches {selector}");
            return Ok(Finding { is_missing: true, ..Finding::progressing("NotFound", message) });
        }
        let mut result: Option<Finding> = None;
        let mut is_proven = false;
        for found in &selection.objects {
            let Some(value) = &found.value else {
                let message = format!("{name} {}: does not exist", found.at.name);
                let missing = Finding { is_missing: true, ..Finding::progressing("NotFound", message) };
                result = Some(result.map_or_else(|| missing.clone(), |result| result.and(missing.clone())));
                continue;
            };
            let look = LookContext {
                cluster,
                adapter,
                proof,
                purpose,
                now,
                condition: target.health.resource.as_ref().and_then(|resource| resource.condition.as_deref()),
                has_peers: selection.objects.len() > 1,
            };
            let judged = self.assess_object(value, &look).await?;
            is_proven |= judged.is_proven;
            let mut finding = judged.finding;
            finding.message = format!("{name} {}: {}", shown_name(value), finding.message);
            result = Some(match result {
                Some(result) => result.and(finding),
                None => finding,
            });
        }
        let result = result.unwrap_or_default();
        Ok(match result.level {
            HealthLevel::Healthy if !is_proven => {
                let message = format!("{name}: nothing shows that the change is live");
                Finding { revision: result.revision, ..Finding::progressing("Unproven", message) }
            }
            _ => result,
        })
    }

    async fn assess_object(&self, value: &Value, look: &LookContext<'_>) -> Result<Judged, HealthError> {
        let LookContext { cluster, adapter, proof, purpose, now, condition, has_peers } = *look;
        let related = match adapter.related(value) {
            Some(at) => match cluster.cluster.get(&at).await {
                Err(error) if error.class == ErrorClass::NoKind => None,
                result => result?,
            },
            None => None,
        };
        let mut reported = adapter.revisions(value);
        reported.extend(related.iter().flat_map(|related| adapter.related_revisions(related)));
        let revision = prove_revision(&reported, proof, &self.ancestors).await?;
        let observed = revision.observed().map(str::to_owned);
        let shown = slipway_manifest::ObjectRef::of(value).to_string();
        let seen = Seen {
            object: value,
            related: related.as_ref(),
            baseline: proof.baseline.and_then(|baseline| baseline.find(&shown)),
            condition,
            revision,
            proof,
            purpose,
            has_peers,
            now,
        };
        let freshness = adapter.freshness(&seen);
        let finding = match &freshness {
            Freshness::Stale { reason, message } => Finding::progressing(reason, message.clone()),
            Freshness::Proven | Freshness::Neutral => adapter.health(&seen),
        };
        let finding = Finding { revision: observed, delegation: adapter.delegation(value), ..finding };
        Ok(Judged { finding, is_proven: freshness == Freshness::Proven })
    }
}

/// What a look at one object depends on.
#[derive(Clone, Copy)]
struct LookContext<'a> {
    cluster: &'a NamedCluster,
    adapter: &'static dyn Adapter,
    proof: &'a HealthProof<'a>,
    purpose: Purpose,
    now: Timestamp,
    condition: Option<&'a str>,
    has_peers: bool,
}

/// One object with its verdict.
struct Judged {
    finding: Finding,
    is_proven: bool,
}

/// One look at an environment.
struct Look {
    finding: Finding,
    adapter: String,
    origin: SelectionOrigin,
}

impl Look {
    /// A remark, the first time there is reason for it.
    fn warning(&self, adapter_before: Option<&str>) -> Option<HealthWarning> {
        let SelectionOrigin::Fallback(why) = &self.origin else { return None };
        let message = format!("{why}; the environment is checked by its workload instead");
        (adapter_before != Some(&self.adapter))
            .then_some(HealthWarning { reason: "AdapterFallback", message })
    }
}

/// A cluster whose silence is noticed soon: the next look comes by itself.
fn patient(cluster: Cluster) -> Cluster {
    let retry = RetryPolicy {
        attempts: 2,
        longest: Duration::from_secs(1),
        patience: LOOK_LIMIT,
        answer: LOOK_LIMIT,
        ..RetryPolicy::default()
    };
    cluster.with_retry(retry)
}

fn baseline_of(selection: &Selection) -> Vec<crate::kinds::ObjectBaseline> {
    let Some(adapter) = adapters::adapter(selection.health_type) else { return Vec::new() };
    let values = selection.objects.iter().filter_map(|FoundObject { value, .. }| value.as_ref());
    values.map(|value| adapter.baseline(value)).collect()
}

fn delegate_type(delegate: DeliveryDelegate) -> Option<HealthType> {
    match delegate {
        DeliveryDelegate::None => None,
        DeliveryDelegate::ArgoRollouts => Some(HealthType::ArgoRollouts),
        DeliveryDelegate::Flagger => Some(HealthType::Flagger),
    }
}

/// The same environment, seen through one adapter.
fn only(target: &HealthTarget, adapter: HealthType) -> HealthTarget {
    let health = HealthSpec { adapter: Some(adapter), ..target.health.clone() };
    // The selector is meant for the adapter of the environment, not for its delegate.
    let selects =
        matches!(adapter, HealthType::Resource) && target.health.adapter == Some(HealthType::Resource);
    let label_selector = health.label_selector.clone().filter(|_| selects);
    HealthTarget {
        health: HealthSpec { label_selector, ..health },
        delegate: DeliveryDelegate::None,
        ..target.clone()
    }
}
