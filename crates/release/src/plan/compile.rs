//! Compiles an intent and the state of the cluster into a plan.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;
use slipway_cluster::helm::ReleaseStorage;
use slipway_cluster::{CallCounts, Cluster};
use slipway_manifest::{ObjectId, object};
use slipway_problem::{Problem, ProblemSeverity, Problems};

use super::deletions::ObsoleteObjects;
use super::intent::ReleaseIntent;
use super::observe::{ClusterObserver, ObservedObjects};
use super::planned::{ExternalDependency, ExternalIndex, PlannedObject, PlannedVisit};
use super::scopes::{KindScopes, MissingNamespaces};
use super::{MissingNamespace, PlanPurpose, ReleasePlan, ReleaseRequest, ReleaseSituation};
use crate::decide::ObjectChange;
use crate::failure::Failure;
use crate::ops::{self, GraphInput};
use crate::record;
use crate::resource::annotations::ReadMode;
use crate::resource::transform::ExtraMetadata;
use crate::resource::{DeployType, ExternalTarget, KindScope, Ownership, RecordPart, Resource};
use crate::stage::Stage;

/// An object of the release and the stages it is deployed in now.
pub(super) struct WantedResource {
    pub(super) resource: Resource,
    pub(super) stages: Vec<Stage>,
}

/// Holds an intent against the cluster; every problem of every object is told at once.
pub(super) async fn compile_plan(
    cluster: &Cluster,
    request: &ReleaseRequest,
    purpose: PlanPurpose,
    situation: ReleaseSituation,
    intent: ReleaseIntent,
) -> Result<ReleasePlan, Failure> {
    let ReleaseRequest { name, namespace, options, .. } = request;
    let ReleaseIntent { deploy_type, release, documents, reading, previous, prune, records, .. } = intent;
    let (mut warnings, mut problems) = (intent.warnings, intent.problems);
    let aside = documents.iter().filter(|document| document.stored == RecordPart::Aside).cloned().collect();
    if records.create.is_some() {
        // What the run would begin with, and be refused.
        let storage = ReleaseStorage::new(cluster.clone(), options.driver, namespace.as_str());
        if let Err(error) = storage.check_size(&release) {
            problems.push(Problem::error(format!("the release cannot be recorded: {}", error.message)));
        }
    }
    let scopes = KindScopes::discover_kinds(cluster, &documents, &previous).await?;
    let (mut resources, found) =
        record::read_resources(documents, namespace, |gvk| scopes.scope_of(gvk), reading);
    if reading == ReadMode::Strict {
        for problem in found.into_iter().chain(record::check_together(&resources, namespace)) {
            match problem.severity {
                ProblemSeverity::Error => problems.push(problem),
                _ => warnings.push(problem),
            }
        }
        problems.extend(scopes.unknown_kinds(&resources));
    } else {
        // Of what was stored long ago nobody can mend the kind any more.
        resources.retain(|resource| scopes.scope_of(&resource.gvk) != KindScope::Unknown);
    }
    for resource in &mut resources {
        add_metadata(resource, name, namespace, &options.runtime);
    }
    let in_release: HashSet<ObjectId> = resources.iter().map(|resource| resource.id.clone()).collect();
    let scaled = if reading == ReadMode::Strict { scaled_workloads(&resources) } else { BTreeSet::new() };
    let wanted: Vec<WantedResource> = resources
        .into_iter()
        .map(|resource| WantedResource { stages: resource.stages(deploy_type), resource })
        .filter(|wanted| !wanted.stages.is_empty())
        .collect();
    let namespaces =
        MissingNamespaces::discover_missing(cluster, namespace, &situation.history, &wanted).await?;
    let creates_namespace = deploy_type.makes_revision() && namespaces.is_missing(namespace);
    if creates_namespace
        && purpose == PlanPurpose::Execute
        && options.missing_namespace == MissingNamespace::Refuse
    {
        let problem = Problem::error(format!("namespace `{namespace}` does not exist"));
        problems.push(problem.hint("create it, or leave out --no-create-namespace"));
    }
    problems.extend(namespaces.missing_for(&wanted));

    let observer = ClusterObserver {
        cluster,
        scopes: &scopes,
        namespaces: &namespaces,
        previous: &previous,
        request,
        deploy_type,
    };
    let observed =
        observer.observe_objects(wanted, &scaled, intent.previous_failed, &mut problems, &mut warnings);
    let ObservedObjects { mut objects, refusals } = observed.await?;
    let live_uids: HashSet<String> =
        objects.iter().filter_map(|planned| object::uid(planned.live.as_ref()?).map(str::to_owned)).collect();
    let deployed: HashSet<ObjectId> = objects.iter().map(|object| object.resource.id.clone()).collect();
    let in_release = if deploy_type == DeployType::Delete { HashSet::new() } else { in_release };
    let ObsoleteObjects { deletions, kept } = match prune {
        Some(stage) => {
            observer.plan_deletions(&deployed, &in_release, &live_uids, stage, &mut problems).await?
        }
        None => ObsoleteObjects::default(),
    };
    if deploy_type.makes_revision()
        && intent.reason.is_none()
        && deletions.is_empty()
        && objects.iter().all(is_settled)
    {
        // Hooks go with a deploy, and this is none.
        objects.retain(|object| object.resource.stored != RecordPart::Hook);
    }
    ops::force_readiness(&mut objects);
    let externals = external_dependencies(cluster, &mut objects, &mut problems).await?;
    let built = ops::build_graph(&GraphInput {
        objects: &objects,
        deletions: &deletions,
        externals: &externals,
        records,
        release_namespace: namespace,
        no_final_tracking: options.no_final_tracking && reading == ReadMode::Strict,
        track_hooks: options.track_hooks,
    });
    let Some(built) = problems.collect_from(built).filter(|_| problems.is_empty()) else {
        return Err(refusals.into_failure(problems));
    };
    warnings.extend(built.warnings);
    Ok(ReleasePlan {
        name: name.clone(),
        namespace: namespace.clone(),
        creates_namespace,
        deploy_type,
        release,
        history: situation.history,
        objects,
        deletions,
        externals,
        kept,
        graph: built.graph,
        policy: None,
        warnings,
        references: built.references,
        reason: intent.reason,
        options: options.clone(),
        aside,
        requests: CallCounts::default(),
    })
}

/// Tells that an object is as it is wanted and nobody waits for it, or is a hook.
fn is_settled(object: &PlannedObject) -> bool {
    let is_at_rest = |visit: &PlannedVisit| {
        matches!(visit.change, ObjectChange::None { .. })
            && !visit.follow.track
            && !visit.follow.delete_on_success
    };
    object.resource.stored == RecordPart::Hook || object.visits.iter().all(is_at_rest)
}

/// Marks an object as the release's.
fn add_metadata(resource: &mut Resource, name: &str, namespace: &str, runtime: &ExtraMetadata) {
    if resource.settings.ownership == Ownership::Release {
        object::set_annotation(&mut resource.object, "meta.helm.sh/release-name", name);
        object::set_annotation(&mut resource.object, "meta.helm.sh/release-namespace", namespace);
        object::set_label(&mut resource.object, "app.kubernetes.io/managed-by", "Helm");
    }
    runtime.add_to(&mut resource.object);
}

/// A workload an autoscaler of the release looks after.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScaledWorkload {
    pub(super) kind: String,
    pub(super) namespace: String,
    pub(super) name: String,
}

fn scaled_workloads(resources: &[Resource]) -> BTreeSet<ScaledWorkload> {
    let scalers = resources
        .iter()
        .filter(|resource| matches!(resource.gvk.kind.as_str(), "HorizontalPodAutoscaler" | "ScaledObject"));
    let targets = scalers.filter_map(|scaler| {
        let target = scaler.object.pointer("/spec/scaleTargetRef")?;
        let kind = target.get("kind").and_then(Value::as_str).unwrap_or("Deployment").to_owned();
        let name = target.get("name").and_then(Value::as_str)?.to_owned();
        Some(ScaledWorkload { kind, namespace: scaler.id.namespace.clone(), name })
    });
    targets.collect()
}

/// Resolves what objects wait for outside of the release, and tells each object which of it.
async fn external_dependencies(
    cluster: &Cluster,
    objects: &mut [PlannedObject],
    problems: &mut Problems,
) -> Result<Vec<ExternalDependency>, Failure> {
    let mut known: BTreeMap<ExternalDependency, ExternalIndex> = BTreeMap::new();
    let mut externals: Vec<ExternalDependency> = Vec::new();
    for planned in objects {
        let mut own = Vec::new();
        for external in &planned.resource.settings.externals {
            let gvk = match &external.target {
                ExternalTarget::Kind(gvk) => Some(gvk.clone()),
                ExternalTarget::Word(word) => {
                    cluster.served_kinds().await?.by_name(word).map(|kind| kind.gvk.clone())
                }
            };
            let Some(gvk) = gvk else {
                let problem = Problem::error(format!(
                    "{}: annotation `{}` names a kind the cluster does not serve",
                    planned.resource.id, external.annotation
                ));
                let Resource { origin, object, .. } = &planned.resource;
                problems.push(origin.place_problem(object, &external.annotation, problem));
                continue;
            };
            let namespace =
                external.namespace.clone().unwrap_or_else(|| planned.resource.id.namespace.clone());
            let found = ExternalDependency { gvk, namespace, name: external.name.clone() };
            let next = ExternalIndex(externals.len());
            let index = *known.entry(found.clone()).or_insert(next);
            if index == next {
                externals.push(found);
            }
            own.push(index);
        }
        planned.externals = own;
    }
    Ok(externals)
}
