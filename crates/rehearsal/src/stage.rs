//! The stage of a rehearsal: a copy of a part of a cluster, in an embedded one of this process.
//!
//! Nothing of the copy leaves the process; values of Secrets come along, because plans compare them and
//! releases are stored in them.

use std::collections::BTreeSet;

use slipway_cluster::helm::StorageDriver;
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::ObjectRef;
use slipway_release::ReleasePlan;
use slipway_sandbox::Sandbox;
use slipway_sandbox::clone::{self, CloneSelection, ObjectReference, SecretHandling};

use crate::RehearsalError;

/// The part of a cluster a stage is a copy of.
#[derive(Clone, Debug, Default)]
pub struct StageScope {
    /// These objects, with their definitions, namespaces and what decides about their pods.
    pub objects: Vec<ObjectReference>,
    /// Everything in these namespaces.
    pub namespaces: Vec<String>,
}

impl StageScope {
    /// Takes in another scope.
    pub fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.namespaces.extend(other.namespaces);
        self.namespaces.sort_unstable();
        self.namespaces.dedup();
    }

    /// Covers the records of a release, revision by revision.
    pub fn of_records(namespace: &str, releases: &[slipway_cluster::helm::Release]) -> Self {
        let record = |release: &slipway_cluster::helm::Release| {
            let name = format!("sh.helm.release.v1.{}.v{}", release.name, release.version);
            ObjectReference::new("v1", "Secret", namespace, &name)
        };
        Self { objects: releases.iter().map(record).collect(), namespaces: Vec::new() }
    }

    /// Covers everything a plan reads or changes, and the release's own records.
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
            StorageDriver::Secret => "Secret",
            StorageDriver::ConfigMap => "ConfigMap",
        };
        objects.extend(plan.history.releases.iter().map(|release| {
            let name = format!("sh.helm.release.v1.{}.v{}", release.name, release.version);
            ObjectReference::new("v1", kind, &plan.namespace, &name)
        }));
        objects.push(ObjectReference::new("v1", "Namespace", "", &plan.namespace));
        Self { objects, namespaces: Vec::new() }
    }
}

fn reference(at: &ObjectRef) -> ObjectReference {
    ObjectReference::new(
        &at.gvk.api_version(),
        &at.gvk.kind,
        at.namespace.as_deref().unwrap_or_default(),
        &at.name,
    )
}

/// A copy of a part of a cluster, to try things on. It ends when dropped.
pub struct Stage {
    sandbox: Sandbox,
    /// Groups nobody on the stage acts for.
    unattended: Vec<String>,
    copied: usize,
}

impl Stage {
    /// Copies what `scope` says from a cluster.
    pub async fn copy_of(cluster: &Cluster, scope: &StageScope) -> Result<Self, RehearsalError> {
        let version = cluster.server_version().await?;
        let sandbox = Sandbox::builder().version(version.git_version.trim_start_matches('v')).build()?;
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
            copied += clone::from_client(&sandbox, cluster.client(), &selection).await?.total_copied();
        }
        sandbox.settle().await;
        let unattended = unattended_groups(&Cluster::new(sandbox.client())).await?;
        Ok(Self { unattended, sandbox, copied })
    }

    /// Returns how many objects were copied.
    pub fn copied_objects(&self) -> usize {
        self.copied
    }

    /// Returns the stage as an engine sees it.
    pub fn cluster(&self) -> Cluster {
        Cluster::new(self.sandbox.client())
    }

    /// Returns the groups of custom resources: their controllers are not on the stage, so nobody reports readiness.
    pub fn unattended_groups(&self) -> &[String] {
        &self.unattended
    }
}

/// Returns the groups of all custom resources of a cluster: on a copy of it nobody acts for them.
pub async fn unattended_groups(cluster: &Cluster) -> Result<Vec<String>, slipway_cluster::Error> {
    let kinds = cluster.served_kinds().await?;
    let Some(kind) = kinds.by_name("customresourcedefinitions.apiextensions.k8s.io") else {
        return Ok(Vec::new());
    };
    let listed = cluster.list(kind, None, &ListOptions::default()).await?;
    let groups: BTreeSet<&str> =
        listed.items.iter().filter_map(|definition| definition["spec"]["group"].as_str()).collect();
    Ok(groups.into_iter().map(str::to_owned).collect())
}
