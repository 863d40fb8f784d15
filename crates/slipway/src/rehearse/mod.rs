//! Rehearsals: what a plan touches is copied from the cluster into an embedded one of this process, and the
//! whole plan is carried out there first, in simulated time.
//!
//! Nothing of the copy leaves the process; values of Secrets come along, because plans compare them and
//! releases are stored in them. [`Rehearsal`] is the stage itself, for any engine that takes a [`Cluster`];
//! [`release`] rehearses one release on it, and [`mod@foresee`] judges what the copy cannot show.

mod foresee;
#[cfg(test)]
mod scenarios;

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use slipway_cluster::helm::Driver;
use slipway_cluster::{At, Cluster, ListOptions};
use slipway_event::Events;
use slipway_problem::{Location, Problem, Problems};
use slipway_release::{Content, ExecuteOptions, Failure, ReleasePlan, ReleaseRequest, Report, apply, plan};
use slipway_sandbox::Sandbox;
use slipway_sandbox::clone::{self, CloneSelection, ObjectReference, SecretHandling};
use tokio_util::sync::CancellationToken;

pub use foresee::{Foresight, foresee, stage_questions};

/// How long an object may take to become ready on a stage where nothing takes time.
const READY: Duration = Duration::from_secs(30);

/// What is copied.
#[derive(Clone, Debug, Default)]
pub struct Scope {
    /// These objects, with their definitions, namespaces and what decides about their pods.
    pub objects: Vec<ObjectReference>,
    /// Everything in these namespaces.
    pub namespaces: Vec<String>,
}

impl Scope {
    /// Takes in another scope.
    pub fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.namespaces.extend(other.namespaces);
        self.namespaces.sort_unstable();
        self.namespaces.dedup();
    }

    /// The records of a release, revision by revision.
    pub fn of_records(namespace: &str, releases: &[slipway_cluster::helm::Release]) -> Self {
        let record = |release: &slipway_cluster::helm::Release| {
            let name = format!("sh.helm.release.v1.{}.v{}", release.name, release.version);
            ObjectReference::new("v1", "Secret", namespace, &name)
        };
        Self { objects: releases.iter().map(record).collect(), namespaces: Vec::new() }
    }

    /// Everything a plan reads or changes, and the release's own records.
    pub fn of_plan(plan: &ReleasePlan) -> Self {
        let deployed = plan.objects.iter().map(|object| &object.at);
        let places = deployed.chain(plan.deletions.iter().map(|deletion| &deletion.at));
        let mut objects: Vec<ObjectReference> = places.map(reference).collect();
        objects.extend(plan.externals.iter().map(|external| {
            let namespace = match external.namespace.as_str() {
                "" => plan.namespace.as_str(),
                other => other,
            };
            ObjectReference::new(&external.gvk.api_version(), &external.gvk.kind, namespace, &external.name)
        }));
        let kind = match plan.options.driver {
            Driver::Secret => "Secret",
            Driver::ConfigMap => "ConfigMap",
        };
        objects.extend(plan.history.releases.iter().map(|release| {
            let name = format!("sh.helm.release.v1.{}.v{}", release.name, release.version);
            ObjectReference::new("v1", kind, &plan.namespace, &name)
        }));
        objects.push(ObjectReference::new("v1", "Namespace", "", &plan.namespace));
        Self { objects, namespaces: Vec::new() }
    }
}

fn reference(at: &At) -> ObjectReference {
    ObjectReference::new(
        &at.gvk.api_version(),
        &at.gvk.kind,
        at.namespace.as_deref().unwrap_or_default(),
        &at.name,
    )
}

/// A copy of a part of a cluster, to try things on. It ends when dropped.
pub struct Rehearsal {
    sandbox: Sandbox,
    /// Groups nobody on the stage acts for.
    unattended: Vec<String>,
    pub copied: usize,
}

impl Rehearsal {
    /// Copies what `scope` says from a cluster.
    pub async fn of(cluster: &Cluster, scope: &Scope) -> anyhow::Result<Self> {
        let version = cluster.version().await.context("ask the cluster for its version")?;
        let sandbox = Sandbox::builder()
            .version(version.git_version.trim_start_matches('v'))
            .build()
            .context("set the stage for a rehearsal")?;
        let mut copied = 0;
        let mut selections = Vec::new();
        if !scope.objects.is_empty() {
            selections.push(CloneSelection::of_objects(scope.objects.iter().cloned()));
        }
        if !scope.namespaces.is_empty() {
            selections
                .push(CloneSelection { namespaces: scope.namespaces.clone(), ..CloneSelection::default() });
        }
        for selection in selections {
            let selection = selection.with_secrets(SecretHandling::Copied);
            let report = clone::from_client(&sandbox, cluster.client(), &selection).await;
            copied += report.context("copy what the plan touches")?.total_copied();
        }
        sandbox.settle().await;
        let unattended = unattended(&Cluster::new(sandbox.client())).await?;
        Ok(Self { unattended, sandbox, copied })
    }

    /// The stage, as an engine sees it.
    pub fn cluster(&self) -> Cluster {
        Cluster::new(self.sandbox.client())
    }

    /// Groups of custom resources: their controllers are not on the stage, so nobody reports readiness.
    pub fn unattended(&self) -> &[String] {
        &self.unattended
    }
}

/// The groups of all definitions there.
pub async fn unattended(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let kinds = cluster.kinds().await.context("ask the stage what it serves")?;
    let Some(kind) = kinds.by_name("customresourcedefinitions.apiextensions.k8s.io") else {
        return Ok(Vec::new());
    };
    let listed = cluster.list(kind, None, &ListOptions::default()).await.context("list definitions")?;
    let groups: BTreeSet<&str> =
        listed.items.iter().filter_map(|definition| definition["spec"]["group"].as_str()).collect();
    Ok(groups.into_iter().map(str::to_owned).collect())
}

/// A rehearsal that went well.
pub struct Rehearsed {
    /// What to carry out: exactly what was rehearsed.
    pub request: ReleaseRequest,
    /// The order of operations that was rehearsed.
    graph: String,
    pub report: Report,
    pub copied: usize,
    /// Questions it leaves open.
    pub questions: Vec<String>,
}

impl Rehearsed {
    /// Refuses a plan that is not the one that was rehearsed.
    pub fn check(&self, now: &ReleasePlan) -> Result<(), Failure> {
        if now.graph.fingerprint(b"").to_string() == self.graph {
            return Ok(());
        }
        let problem = Problem::error("the cluster changed since the rehearsal, and with it the plan");
        Err(Failure::Stale(problem.hint("run the command again").into()))
    }
}

/// Plans a release, carries the plan out on a stage, and says what went wrong there; nothing in the cluster is
/// written. Gives nothing if there is nothing to do.
pub async fn release(
    cluster: &Cluster,
    request: &ReleaseRequest,
    options: &ExecuteOptions,
    cancel: CancellationToken,
) -> anyhow::Result<Option<Rehearsed>> {
    let silent = Events::silent();
    let plan = plan(cluster, request, &silent).await.map_err(problems)?;
    if plan.is_empty() {
        return Ok(None);
    }
    // A source is rendered once: what is rehearsed is what is carried out.
    let content = match &request.content {
        Content::Source(_) | Content::Rendered(_) => {
            Content::Record(Box::new(plan.release.clone()), plan.deploy_type, plan.aside.clone())
        }
        other => other.clone(),
    };
    let request = ReleaseRequest { content, ..request.clone() };
    let stage = Rehearsal::of(cluster, &Scope::of_plan(&plan)).await?;
    let trial = trial(options, &plan, stage.unattended().to_vec());
    let foresight = foresee(cluster, &plan, &trial.assume_ready).await;
    let tried = apply(&stage.cluster(), &request, &trial, &silent, cancel).await;
    let mut found = foresight.problems;
    let report = match tried {
        Ok(report) if !found.has_errors() => report,
        Ok(_) => return Err(located(found).into()),
        Err(failure) => {
            found.extend(problems_of(failure));
            return Err(located(found).into());
        }
    };
    let graph = plan.graph.fingerprint(b"").to_string();
    let (copied, questions) = (stage.copied, foresight.questions);
    Ok(Some(Rehearsed { request, graph, report, copied, questions }))
}

/// How a plan is carried out on a stage, where nobody acts for the groups in `unattended`.
pub fn trial(options: &ExecuteOptions, plan: &ReleasePlan, mut unattended: Vec<String>) -> ExecuteOptions {
    // Kinds the release itself defines have no controllers there either.
    let defined = plan.objects.iter().filter(|object| object.resource.is_crd());
    unattended.extend(defined.filter_map(|object| {
        object.resource.object.pointer("/spec/group").and_then(serde_json::Value::as_str).map(str::to_owned)
    }));
    let most = |asked: Option<Duration>| Some(asked.unwrap_or(READY).min(READY));
    ExecuteOptions {
        readiness_timeout: most(options.readiness_timeout.filter(|own| !own.is_zero())),
        presence_timeout: most(options.presence_timeout),
        deletion_timeout: most(options.deletion_timeout),
        auto_rollback: false,
        assume_ready: unattended,
        ..options.clone()
    }
}

/// What went wrong, one by one.
fn problems(failure: Failure) -> anyhow::Error {
    located(problems_of(failure)).into()
}

fn problems_of(failure: Failure) -> Problems {
    match failure {
        Failure::Problems(problems)
        | Failure::Immutable(problems)
        | Failure::Ownership(problems)
        | Failure::Stale(problems) => problems,
        Failure::Run { why, .. } => Problem::error(why).into(),
        other => Problem::error(other.to_string()).into(),
    }
}

/// The same problems, each with a place.
pub fn located(found: Problems) -> Problems {
    let at = Location::file("rehearsal");
    let place = |problem: Problem| if problem.at.is_some() { problem } else { problem.at(at.clone()) };
    found.into_iter().map(place).collect()
}
