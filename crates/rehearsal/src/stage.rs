//! The stage of a rehearsal: a copy of a part of a cluster, in an embedded one of this process.
//!
//! Nothing of the copy leaves the process; values of Secrets come along, because plans compare them and
//! releases are stored in them.

use std::collections::BTreeSet;

use slipway_cluster::helm::{Release, ReleaseStorage, StorageDriver, StorageScope};
use slipway_cluster::{Cluster, ErrorClass, ListOptions, NamespaceCreation};
use slipway_manifest::ObjectRef;
use slipway_release::{PlanOptions, ReleasePlan, ReleaseRequest};
use slipway_sandbox::Sandbox;
use slipway_sandbox::clone::{self, CloneSelection, ObjectReference, SecretHandling};

use crate::RehearsalError;

/// The manager of what a stage needs besides copies.
const STAGE_MANAGER: &str = "slipway";

/// The part of a cluster a stage is a copy of.
#[derive(Clone, Debug, Default)]
pub struct StageScope {
    /// These objects, with their definitions, namespaces and what decides about their pods.
    pub objects: Vec<ObjectReference>,
    /// Everything in these namespaces.
    pub namespaces: Vec<String>,
    /// Records of releases that are kept outside of the cluster.
    pub records: Vec<Release>,
}

impl StageScope {
    /// Takes in another scope.
    pub fn extend(&mut self, other: Self) {
        self.objects.extend(other.objects);
        self.records.extend(other.records);
        self.namespaces.extend(other.namespaces);
        self.namespaces.sort_unstable();
        self.namespaces.dedup();
    }

    /// Covers the records of a release, revision by revision.
    pub fn of_records(namespace: &str, releases: &[Release], driver: StorageDriver) -> Self {
        let in_objects = |kind| {
            let record = |release: &Release| {
                let name = format!("sh.helm.release.v1.{}.v{}", release.name, release.version);
                ObjectReference::new("v1", kind, namespace, &name)
            };
            Self { objects: releases.iter().map(record).collect(), ..Self::default() }
        };
        match driver {
            StorageDriver::Secret => in_objects("Secret"),
            StorageDriver::ConfigMap => in_objects("ConfigMap"),
            StorageDriver::Sql => Self { records: releases.to_vec(), ..Self::default() },
        }
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
        objects.push(ObjectReference::new("v1", "Namespace", "", &plan.namespace));
        let mut scope = Self { objects, ..Self::default() };
        scope.extend(Self::of_records(&plan.namespace, &plan.history.releases, plan.options.driver));
        scope
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
        let stage = Cluster::new(sandbox.client());
        let mut records = scope.records.clone();
        if cluster.release_driver() == StorageDriver::Sql {
            for namespace in &scope.namespaces {
                let storage = ReleaseStorage::new(cluster.clone(), StorageDriver::Sql, namespace);
                for stored in storage.list_all(StorageScope::Namespace).await? {
                    records.extend(storage.read_revision(&stored.name, stored.revision).await?);
                }
            }
        }
        copied += copy_records(&stage, records).await?;
        sandbox.settle().await;
        let unattended = unattended_groups(&stage).await?;
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

/// Returns a request as it is carried out on a stage: records that are kept outside of the cluster are in Secrets there.
pub fn staged_request(request: &ReleaseRequest) -> ReleaseRequest {
    let driver = match request.options.driver {
        StorageDriver::Sql => StorageDriver::Secret,
        driver => driver,
    };
    ReleaseRequest { options: PlanOptions { driver, ..request.options.clone() }, ..request.clone() }
}

/// Writes records into a stage, each once.
async fn copy_records(stage: &Cluster, records: Vec<Release>) -> Result<usize, slipway_cluster::Error> {
    let mut seen = BTreeSet::new();
    for record in &records {
        if !seen.insert((record.namespace.as_str(), record.name.as_str(), record.version)) {
            continue;
        }
        stage.ensure_namespace(&record.namespace, STAGE_MANAGER, NamespaceCreation::Create).await?;
        let storage = ReleaseStorage::new(stage.clone(), StorageDriver::Secret, &record.namespace);
        match storage.create(record).await {
            // A Secret of that name came with its namespace; the record is the one that counts.
            Err(error) if error.class == ErrorClass::AlreadyExists => storage.update(record).await?,
            created => created?,
        }
    }
    Ok(seen.len())
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
