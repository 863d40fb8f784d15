//! From an intent and what the cluster says to it to a plan.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_cluster::helm::Storage;
use slipway_manifest::{ObjectId, object};
use slipway_problem::{Problem, Problems, Severity};

use super::intent::Intent;
use super::look::{Look, Looked, uid};
use super::scopes::{Namespaces, Scopes};
use super::{Plan, Request, Situation};
use crate::decide::Decision;
use crate::failure::Failure;
use crate::ops::{self, Deployed, ExternalDependency, Parts, Visit};
use crate::record;
use crate::resource::settings::Reading;
use crate::resource::transform::Extra;
use crate::resource::{DeployType, ExternalTarget, Ownership, Resource, Scope, Stored};
use crate::stage::Stage;

/// An object of the release and the stages it is deployed in now.
pub(super) type Wanted = (Resource, Vec<Stage>);

/// Holds an intent against the cluster; every problem of every object is told at once.
pub(super) async fn compile(
    cluster: &Cluster,
    request: &Request,
    situation: Situation,
    intent: Intent,
) -> Result<Plan, Failure> {
    let Request { name, namespace, options, .. } = request;
    let Intent { moment, release, documents, reading, previous, prune, records, .. } = intent;
    let (mut warnings, mut problems) = (intent.warnings, intent.problems);
    let aside = documents.iter().filter(|document| document.stored == Stored::Aside).cloned().collect();
    if records.create.is_some() {
        // What the run would begin with, and be refused.
        let storage = Storage::new(cluster.clone(), options.driver, namespace.as_str());
        if let Err(error) = storage.check(&release) {
            problems.push(Problem::error(format!("the release cannot be recorded: {}", error.message)));
        }
    }
    let scopes = Scopes::learn(cluster, &documents, &previous).await?;
    let (mut resources, found) = record::resources(documents, namespace, |gvk| scopes.of(gvk), reading);
    if reading == Reading::Strict {
        for problem in found.into_iter().chain(record::check_together(&resources, namespace)) {
            match problem.severity {
                Severity::Error => problems.push(problem),
                _ => warnings.push(problem),
            }
        }
        problems.extend(scopes.unknown(&resources));
    } else {
        // Of what was stored long ago nobody can mend the kind any more.
        resources.retain(|resource| scopes.of(&resource.gvk) != Scope::Unknown);
    }
    for resource in &mut resources {
        add_metadata(resource, name, namespace, &options.runtime);
    }
    let in_release: HashSet<ObjectId> = resources.iter().map(|resource| resource.id.clone()).collect();
    let scaled = if reading == Reading::Strict { scaled_workloads(&resources) } else { BTreeSet::new() };
    let wanted: Vec<Wanted> = resources
        .into_iter()
        .map(|resource| {
            let stages = resource.stages(moment);
            (resource, stages)
        })
        .filter(|(_, stages)| !stages.is_empty())
        .collect();
    let namespaces = Namespaces::learn(cluster, namespace, &wanted).await?;
    problems.extend(namespaces.missing_for(&wanted));

    let look =
        Look { cluster, scopes: &scopes, namespaces: &namespaces, previous: &previous, request, moment };
    let Looked { mut items, mut facts, immutable } =
        look.deployables(wanted, &scaled, intent.previous_failed, &mut problems, &mut warnings).await?;
    let live_uids: HashSet<String> = facts.iter().filter_map(|fact| uid(fact.live.as_ref()?)).collect();
    let deployed: HashSet<ObjectId> = items.iter().map(|item| item.resource.id.clone()).collect();
    let in_release = if moment == DeployType::Delete { HashSet::new() } else { in_release };
    let (removals, doomed, remaining) = match prune {
        Some(stage) => look.removals(&deployed, &in_release, &live_uids, stage, &mut problems).await?,
        None => Default::default(),
    };
    let deploys = matches!(moment, DeployType::Install | DeployType::Upgrade | DeployType::Rollback);
    if deploys && intent.reason.is_none() && removals.is_empty() && items.iter().all(is_settled) {
        // Hooks go with a deploy, and this is none.
        let all = items.into_iter().zip(facts);
        (items, facts) = all.filter(|(item, _)| item.resource.stored != Stored::Hook).unzip();
    }
    ops::force_readiness(&mut items);
    let (awaited, item_awaits) = externals(cluster, &items, &mut problems).await?;
    let built = ops::build(&Parts {
        items: &items,
        removals: &removals,
        awaited: &awaited,
        item_awaits: &item_awaits,
        records,
        release_namespace: namespace,
        no_final_tracking: options.no_final_tracking && reading == Reading::Strict,
        track_hooks: options.track_hooks,
    });
    let Some(built) = problems.take(built).filter(|_| problems.is_empty()) else {
        return Err(if immutable { Failure::Immutable(problems) } else { Failure::Problems(problems) });
    };
    warnings.extend(built.warnings);
    Ok(Plan {
        name: name.clone(),
        namespace: namespace.clone(),
        moment,
        release,
        history: situation.history,
        items,
        facts,
        removals,
        doomed,
        awaited,
        remaining,
        graph: built.graph,
        warnings,
        references: built.references,
        reason: intent.reason,
        options: options.clone(),
        aside,
    })
}

/// Whether an object is as it is wanted and nobody waits for it, or is a hook.
fn is_settled(item: &Deployed) -> bool {
    let is_at_rest = |visit: &Visit| {
        matches!(visit.decision, Decision::None { .. })
            && !visit.follow.track
            && !visit.follow.delete_on_success
    };
    item.resource.stored == Stored::Hook || item.visits.iter().all(is_at_rest)
}

/// What marks an object as the release's.
fn add_metadata(resource: &mut Resource, name: &str, namespace: &str, runtime: &Extra) {
    if resource.settings.ownership == Ownership::Release {
        object::set_annotation(&mut resource.object, "meta.helm.sh/release-name", name);
        object::set_annotation(&mut resource.object, "meta.helm.sh/release-namespace", namespace);
        object::set_label(&mut resource.object, "app.kubernetes.io/managed-by", "Helm");
    }
    runtime.add_to(&mut resource.object);
}

/// Workloads an autoscaler of the release looks after: kind, namespace, name.
pub(super) type Scaled = BTreeSet<(String, String, String)>;

fn scaled_workloads(resources: &[Resource]) -> Scaled {
    let scalers = resources
        .iter()
        .filter(|resource| matches!(resource.gvk.kind.as_str(), "HorizontalPodAutoscaler" | "ScaledObject"));
    let targets = scalers.filter_map(|scaler| {
        let target = scaler.object.pointer("/spec/scaleTargetRef")?;
        let kind = target.get("kind").and_then(Value::as_str).unwrap_or("Deployment");
        let name = target.get("name").and_then(Value::as_str)?;
        Some((kind.to_owned(), scaler.id.namespace.clone(), name.to_owned()))
    });
    targets.collect()
}

/// Resolves what objects wait for outside of the release: what there is, and which of it each item awaits.
async fn externals(
    cluster: &Cluster,
    items: &[Deployed],
    problems: &mut Problems,
) -> Result<(Vec<ExternalDependency>, Vec<Vec<usize>>), Failure> {
    let mut known: BTreeMap<ExternalDependency, usize> = BTreeMap::new();
    let mut awaited: Vec<ExternalDependency> = Vec::new();
    let mut awaits = Vec::with_capacity(items.len());
    for item in items {
        let mut own = Vec::new();
        for external in &item.resource.settings.externals {
            let gvk = match &external.target {
                ExternalTarget::Kind(gvk) => Some(gvk.clone()),
                ExternalTarget::Word(word) => {
                    cluster.kinds().await?.by_name(word).map(|kind| kind.gvk.clone())
                }
            };
            let Some(gvk) = gvk else {
                let problem = Problem::error(format!(
                    "{}: annotation `{}` names a kind the cluster does not serve",
                    item.resource.human(),
                    external.annotation
                ));
                let Resource { origin, object, .. } = &item.resource;
                problems.push(origin.blame(object, &external.annotation, problem));
                continue;
            };
            let namespace = external.namespace.clone().unwrap_or_else(|| item.resource.id.namespace.clone());
            let found = ExternalDependency { gvk, namespace, name: external.name.clone() };
            let next = awaited.len();
            let index = *known.entry(found.clone()).or_insert(next);
            if index == next {
                awaited.push(found);
            }
            own.push(index);
        }
        awaits.push(own);
    }
    Ok((awaited, awaits))
}
