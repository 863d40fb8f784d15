//! Plans of units: what an apply would do to a target, and everything a reader should know before.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_event::Events;
use slipway_manifest::ObjectRef;
use slipway_policy::{
    PolicyCode, PolicyInput, PolicyReport, PolicySet, PolicySource, PolicyTarget, UnitFacts,
};
use slipway_release::decide::ObjectChange;
use slipway_release::plan::PlannedObject;
use slipway_release::resource::RecordPart;
use slipway_release::show::{ChangeView, ViewOptions};
use slipway_release::{
    Failure, PlanOptions, PlanPurpose, ReleaseContent, ReleasePlan, ReleaseRequest, inspect,
};

use crate::container::UnitFile;
use crate::error::UnitError;
use crate::evidence::verified_environments;
use crate::image::container_images;
use crate::ledger::{LedgerEntry, UnitTarget};
use crate::overlay::Overlay;
use crate::proof::{ProvenRelease, SecretUse, UnitLoader, fetch_secrets, prove_release};
use crate::render::RenderTarget;
use crate::strategy::{Strategy, StrategyPlan, plan_steps};
use crate::values::secret_uses;

/// The annotations of a revision that say which unit it came from.
pub const UNIT_DIGEST: &str = "ktl.dev/unit-digest";
pub const UNIT_OBJECT_SET: &str = "ktl.dev/unit-objectset";
pub const UNIT_OVERLAY: &str = "ktl.dev/unit-overlay";
pub const UNIT_ENV: &str = "ktl.dev/unit-env";
/// The time the revision was verified; it is not there while the revision is not.
pub const UNIT_VERIFIED: &str = "ktl.dev/unit-verified";

/// Everything planning a unit works with.
#[derive(Clone)]
pub struct PlanContext<'a> {
    pub cluster: &'a Cluster,
    pub loader: UnitLoader<'a>,
    pub events: &'a Events,
    /// Policies besides those the unit holds.
    pub policies: Option<Arc<PolicySet>>,
    pub now: Timestamp,
}

/// The change of one container's image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct ImageChange {
    pub object: String,
    pub container: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    pub new: String,
}

/// The kinds of risk a plan names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RiskKind {
    /// An object is deleted and created again.
    Replace,
    Delete,
    /// A definition of custom resources, a webhook or rights change.
    Shared,
    /// An object outside of any namespace changes.
    ClusterScoped,
    /// Budgets of disruptions or network policies change.
    Availability,
    HookRerun,
    Nondeterministic,
    /// The cluster is of another version than the unit was rendered for.
    CapabilitySkew,
}

/// Something that deserves a second look.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
pub struct PlanRisk {
    pub kind: RiskKind,
    pub subject: String,
    pub why: String,
}

/// A secret the unit refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedSecret {
    pub reference: String,
    pub provider: String,
    pub value_paths: Vec<String>,
}

/// Everything an apply of a unit would do.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitPlan {
    pub api_version: &'static str,
    pub unit: String,
    pub signed_by: Vec<String>,
    pub target: UnitTarget,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay: Option<String>,
    pub images: Vec<ImageChange>,
    pub changes: Vec<ChangeView>,
    pub summary: Vec<(String, usize)>,
    pub risks: Vec<PlanRisk>,
    pub secrets: Vec<PlannedSecret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
    /// The steps of the rollout with the weights they really have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub strategy: Option<StrategyPlan>,
    pub drift: Vec<ChangeView>,
    pub warnings: Vec<String>,
    /// The revision that already is this unit, with nothing to change.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied_revision: Option<u32>,
    #[serde(skip)]
    pub release: ReleasePlan,
    #[serde(skip)]
    pub request: ReleaseRequest,
    #[serde(skip)]
    pub proven: ProvenRelease,
}

impl UnitPlan {
    /// 0 nothing to do, 2 objects change, 3 only a new revision.
    pub fn exit_code(&self) -> u8 {
        if self.applied_revision.is_some() { 0 } else { self.release.exit_code() }
    }
}

/// Plans a unit for a target; writes nothing.
pub async fn plan_unit(
    unit: &UnitFile,
    target: &UnitTarget,
    overlay: Option<&Overlay>,
    secrets: SecretUse,
    options: PlanOptions,
    entries: &[LedgerEntry],
    context: &PlanContext<'_>,
) -> Result<UnitPlan, UnitError> {
    let policies = UnitPolicies::read(unit, target, entries, context)?;
    let mut proven = prove_release(unit, context.loader, target, overlay)?;
    if secrets == SecretUse::Fetch {
        policies.check_providers(&proven)?;
        proven = fetch_secrets(unit, context.loader, target, overlay, proven)?;
    }
    let request = release_request(unit, target, &proven, options, context).await?;
    let release = slipway_release::plan(context.cluster, &request, context.events).await?;
    let policy = policies.check_release(&release);
    let view = release.view(&ViewOptions::default());
    let drift = find_drift(context.cluster, &request).await?;
    let secrets = unit.rows().secret_refs.iter().map(|row| PlannedSecret {
        reference: row.reference.clone(),
        provider: row.provider.clone(),
        value_paths: row.value_paths.clone(),
    });
    let strategy = match unit.strategy() {
        Some(json) => {
            let strategy = Strategy::parse(json)?;
            Some(plan_steps(&strategy, context.cluster, &proven.rendered, &target.namespace).await?)
        }
        None => None,
    };
    let applied_revision = match release.is_empty() {
        true => deployed_revision(unit, &release, proven.overlay.as_deref()),
        false => None,
    };
    Ok(UnitPlan {
        api_version: "ktl.dev/unit-plan/v1",
        unit: unit.digest().to_owned(),
        signed_by: unit.signatures().iter().map(|signature| signature.key_id.clone()).collect(),
        target: target.clone(),
        overlay: proven.overlay.clone(),
        images: image_changes(&release),
        risks: find_risks(unit, &release, context.cluster).await?,
        secrets: secrets.collect(),
        policy,
        strategy,
        drift,
        warnings: view.warnings,
        changes: view.changes,
        summary: view.summary,
        applied_revision,
        release,
        request,
        proven,
    })
}

/// The request to the release engine: the proven objects, with marks of the unit on the revision.
async fn release_request(
    unit: &UnitFile,
    target: &UnitTarget,
    proven: &ProvenRelease,
    mut options: PlanOptions,
    context: &PlanContext<'_>,
) -> Result<ReleaseRequest, UnitError> {
    let marks = [
        (UNIT_DIGEST, Some(unit.digest())),
        (UNIT_OBJECT_SET, Some(proven.object_set.as_str())),
        (UNIT_OVERLAY, proven.overlay.as_deref()),
        (UNIT_ENV, target.env.as_deref()),
    ];
    for (key, value) in marks {
        if let Some(value) = value {
            options.info_annotations.insert(key.to_owned(), value.to_owned());
        }
    }
    let request = ReleaseRequest {
        name: target.release.as_str().into(),
        namespace: target.namespace.as_str().into(),
        content: ReleaseContent::Rendered(Box::new(proven.rendered.clone())),
        options,
    };
    let last = last_annotations(context.cluster, &request).await?;
    // Another unit with the same objects is another revision all the same: the cluster says which unit it runs.
    let is_other = last.as_ref().is_some_and(|last| {
        marks.iter().take(3).any(|(key, value)| last.get(*key).and_then(Value::as_str) != *value)
    });
    let options =
        PlanOptions { new_revision: request.options.new_revision || is_other, ..request.options.clone() };
    Ok(ReleaseRequest { options, ..request })
}

/// The annotations of the last deployed revision; none if there is none.
async fn last_annotations(
    cluster: &Cluster,
    request: &ReleaseRequest,
) -> Result<Option<serde_json::Map<String, Value>>, UnitError> {
    let ReleaseRequest { name, namespace, options, .. } = request;
    let situation = slipway_release::plan::read_situation(cluster, name, namespace, options.driver).await?;
    Ok(situation.history.last_deployed().map(|release| release.info.annotations.clone()))
}

/// The deployed revision, if it is this unit with this overlay.
fn deployed_revision(unit: &UnitFile, release: &ReleasePlan, overlay: Option<&str>) -> Option<u32> {
    let last = release.history.last_deployed()?;
    let mark = |key: &str| last.info.annotations.get(key).and_then(Value::as_str);
    (mark(UNIT_DIGEST) == Some(unit.digest()) && mark(UNIT_OVERLAY) == overlay).then_some(last.version)
}

/// The policies of the unit and of the run, with everything they are told besides the plan.
struct UnitPolicies {
    sets: Vec<Arc<PolicySet>>,
    target: PolicyTarget,
    facts: UnitFacts,
    now: Timestamp,
}

impl UnitPolicies {
    fn read(
        unit: &UnitFile,
        target: &UnitTarget,
        entries: &[LedgerEntry],
        context: &PlanContext<'_>,
    ) -> Result<Self, UnitError> {
        let mut sources = Vec::new();
        for row in &unit.rows().policies {
            let text = unit.blobs().text(&row.sha256)?.to_owned();
            sources.push(PolicySource { name: row.name.clone(), text });
        }
        let embedded = if sources.is_empty() { None } else { Some(Arc::new(PolicySet::parse(sources)?)) };
        let dirty = unit.rows().meta_text("sourceDirty");
        Ok(Self {
            sets: embedded.into_iter().chain(context.policies.clone()).collect(),
            target: PolicyTarget {
                environment: target.env.clone(),
                cluster: Some(target.cluster.clone()),
                namespace: Some(target.namespace.clone()),
            },
            facts: UnitFacts {
                signed_by: unit.signatures().iter().map(|signature| signature.key_id.clone()).collect(),
                verified_in: verified_environments(entries),
                created: unit.rows().meta_text("createdAt").parse().ok(),
                clean_git: (!dirty.is_empty()).then_some(dirty == "false"),
            },
            now: context.now,
        })
    }

    /// Refuses secrets of providers that are not approved, before any of them is asked.
    fn check_providers(&self, proven: &ProvenRelease) -> Result<(), UnitError> {
        let mut input = PolicyInput::new(self.target.clone(), self.now, Vec::new());
        input.secrets = secret_uses(&proven.rendered.values)?;
        input.unit = Some(self.facts.clone());
        let mut report = self.evaluate(&input).unwrap_or_default();
        report.results.retain(|result| result.code == PolicyCode::SecretProvider);
        if report.is_denied() { Err(UnitError::Refused(report.problems())) } else { Ok(()) }
    }

    /// Holds the plan against all policies; none if there are none.
    fn check_release(&self, release: &ReleasePlan) -> Option<PolicyReport> {
        let mut input = release.policy_input(self.target.clone(), self.now);
        input.unit = Some(self.facts.clone());
        self.evaluate(&input)
    }

    fn evaluate(&self, input: &PolicyInput<'_>) -> Option<PolicyReport> {
        let mut report: Option<PolicyReport> = None;
        for set in &self.sets {
            let found = set.evaluate(input);
            let all = report.get_or_insert_default();
            all.results.extend(found.results);
            all.skipped.extend(found.skipped);
        }
        report
    }
}

fn image_changes(release: &ReleasePlan) -> Vec<ImageChange> {
    let mut changes = Vec::new();
    for object in &release.objects {
        let old: BTreeMap<String, String> = container_images(object.live.as_ref())
            .into_iter()
            .map(|found| (found.container, found.image))
            .collect();
        for found in container_images([&object.resource.object]) {
            let before = old.get(&found.container).cloned();
            if before.as_ref() != Some(&found.image) {
                changes.push(ImageChange {
                    object: object.at.to_string(),
                    container: found.container,
                    old: before,
                    new: found.image,
                });
            }
        }
    }
    changes
}

async fn find_risks(
    unit: &UnitFile,
    release: &ReleasePlan,
    cluster: &Cluster,
) -> Result<Vec<PlanRisk>, UnitError> {
    let mut risks = Vec::new();
    let mut push = |kind: RiskKind, subject: String, why: &str| {
        risks.push(PlanRisk { kind, subject, why: why.to_owned() });
    };
    for object in &release.objects {
        let Some(change) = object.first_change().filter(|change| !change.is_none()) else { continue };
        let is_hook = object.resource.stored == RecordPart::Hook;
        if is_hook && object.live.is_some() {
            push(RiskKind::HookRerun, object.at.to_string(), "runs again");
        } else if let ObjectChange::Recreate { reason } = change {
            push(RiskKind::Replace, object.at.to_string(), reason);
        }
        for (kind, why) in kind_risks(object) {
            push(kind, object.at.to_string(), why);
        }
    }
    for deletion in &release.deletions {
        push(RiskKind::Delete, deletion.at.to_string(), "is deleted");
    }
    for (key, fields) in &unit.rows().manifest.nondeterministic {
        push(RiskKind::Nondeterministic, key.clone(), &format!("not proven: {}", fields.join(", ")));
    }
    let bundled = RenderTarget::of_unit(unit)?.capabilities.kube_version;
    let server = cluster.server_version().await?;
    let found = slipway_chart::KubeVersion::parse(&server.git_version).ok();
    if let Some(found) =
        found.filter(|found| (&found.major, &found.minor) != (&bundled.major, &bundled.minor))
    {
        let why = format!("the unit was rendered for {}, the cluster is {}", bundled.version, found.version);
        push(RiskKind::CapabilitySkew, "cluster".to_owned(), &why);
    }
    risks.sort();
    Ok(risks)
}

/// The risks a kind has by itself.
fn kind_risks(object: &PlannedObject) -> Vec<(RiskKind, &'static str)> {
    let ObjectRef { gvk, namespace, .. } = &object.at;
    let mut risks = Vec::new();
    match (gvk.group.as_str(), gvk.kind.as_str()) {
        ("apiextensions.k8s.io", _) => risks.push((RiskKind::Shared, "changes the type of custom resources")),
        ("admissionregistration.k8s.io", _) => {
            risks.push((RiskKind::Shared, "changes what the server admits"));
        }
        ("rbac.authorization.k8s.io", _) => risks.push((RiskKind::Shared, "changes rights")),
        ("policy", "PodDisruptionBudget") => {
            risks.push((RiskKind::Availability, "changes how many pods may go away"));
        }
        ("networking.k8s.io", "NetworkPolicy") => {
            risks.push((RiskKind::Availability, "changes who may connect"));
        }
        _ => {}
    }
    if namespace.is_none() {
        risks.push((RiskKind::ClusterScoped, "belongs to the whole cluster"));
    }
    risks
}

/// Changes somebody made since the last apply; a release that is not there has none.
async fn find_drift(cluster: &Cluster, request: &ReleaseRequest) -> Result<Vec<ChangeView>, UnitError> {
    let options = PlanOptions { purpose: PlanPurpose::Preview, ..request.options.clone() };
    let request = ReleaseRequest { options, ..request.clone() };
    match inspect::find_drift(cluster, &request, None, &ViewOptions::default()).await {
        Ok(changes) => Ok(changes),
        Err(Failure::NotFound(_)) => Ok(Vec::new()),
        Err(failure) => Err(failure.into()),
    }
}
