//! One rollout: what it works with, and the small things all its steps do.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::track::{ReadyRules, TrackError, TrackOptions, Tracker};
use slipway_cluster::{ApplyOptions, Cluster, DeleteOptions, ListOptions, ObjectPatch, WriteOptions};
use slipway_event::Events;
use slipway_manifest::{Gvk, ObjectRef, object};
use slipway_problem::Problem;
use slipway_release::{ExecuteOptions, ReleaseRequest};
use slipway_source::RenderedSource;
use tokio_util::sync::CancellationToken;

use super::labels::{MANAGER, OWNED_BY_RUN, RELEASE};
use super::log::StepLog;
use super::run::StepError;
use crate::deploy::DeployContext;
use crate::error::UnitError;

/// The time pods may take to become ready where nothing else is said.
const READY_TIMEOUT: Duration = Duration::from_secs(300);
/// The pause between two looks at a workload whose status lags behind.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Everything a rollout works with.
#[derive(Clone)]
pub struct RolloutContext<'a> {
    pub cluster: &'a Cluster,
    /// The release as a whole.
    pub request: &'a ReleaseRequest,
    /// The objects to deploy.
    pub rendered: &'a RenderedSource,
    pub options: &'a ExecuteOptions,
    pub log: &'a dyn StepLog,
    pub events: &'a Events,
    pub cancel: CancellationToken,
    pub pace: Pace,
}

/// The treatment of pauses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pace {
    #[default]
    AsWritten,
    /// Pauses end at once: for a rehearsal.
    WithoutPauses,
}

impl<'a> From<&DeployContext<'a>> for RolloutContext<'a> {
    fn from(context: &DeployContext<'a>) -> Self {
        Self {
            cluster: context.cluster,
            request: context.request,
            rendered: context.rendered,
            options: context.options,
            log: context.ledger,
            events: context.events,
            cancel: context.cancel.clone(),
            pace: Pace::AsWritten,
        }
    }
}

/// The parts of a cluster a rollout and an abort touch.
#[derive(Clone)]
pub(crate) struct Scene<'a> {
    pub(crate) cluster: &'a Cluster,
    pub(crate) namespace: &'a str,
    pub(crate) release: &'a str,
    pub(crate) events: &'a Events,
    pub(crate) timeout: Option<Duration>,
}

impl<'a> RolloutContext<'a> {
    pub(crate) fn scene(&self) -> Scene<'a> {
        Scene {
            cluster: self.cluster,
            namespace: self.request.namespace.as_str(),
            release: self.request.name.as_str(),
            events: self.events,
            timeout: self.options.readiness_timeout.filter(|time| !time.is_zero()),
        }
    }

    /// An object of the release, as it is to be.
    pub(crate) fn rendered_object(&self, group: &str, kind: &str, name: &str) -> Option<&'a Value> {
        find_object(self.rendered, group, kind, name)
    }
}

/// Finds an object among those of a release.
pub(crate) fn find_object<'r>(
    rendered: &'r RenderedSource,
    group: &str,
    kind: &str,
    name: &str,
) -> Option<&'r Value> {
    let objects = rendered.documents.iter().map(|document| &document.object);
    objects.into_iter().find(|candidate| {
        let gvk = object::gvk(candidate);
        gvk.group == group && gvk.kind == kind && object::name(candidate) == Some(name)
    })
}

impl Scene<'_> {
    pub(crate) fn place(&self, group: &str, version: &str, kind: &str, name: &str) -> ObjectRef {
        ObjectRef::new(Gvk::new(group, version, kind), Some(self.namespace), name)
    }

    pub(crate) fn deployment(&self, name: &str) -> ObjectRef {
        self.place("apps", "v1", "Deployment", name)
    }

    pub(crate) fn service(&self, name: &str) -> ObjectRef {
        self.place("", "v1", "Service", name)
    }

    pub(crate) fn autoscaler(&self, name: &str) -> ObjectRef {
        self.place("autoscaling", "v2", "HorizontalPodAutoscaler", name)
    }

    /// Lists objects of a kind; none where the cluster does not serve it.
    pub(crate) async fn list(&self, gvk: &Gvk, labels: &str) -> Result<Vec<Value>, UnitError> {
        let Some(kind) = self.cluster.find_kind(gvk).await? else { return Ok(Vec::new()) };
        let list = self.cluster.list(&kind, Some(self.namespace), &ListOptions::with_labels(labels)).await?;
        Ok(list.items)
    }

    /// Applies an object of the rollout.
    pub(crate) async fn apply(&self, at: &ObjectRef, object: &Value) -> Result<(), UnitError> {
        self.cluster.apply(at, object, &ApplyOptions::new(MANAGER)).await?;
        Ok(())
    }

    /// Applies an object that is the rollout's alone: one of its name that is somebody else's would be removed with it.
    pub(crate) async fn apply_own(&self, at: &ObjectRef, object: &Value) -> Result<(), UnitError> {
        let live = self.cluster.get(at).await?;
        if live.is_some_and(|live| live["metadata"]["labels"].get(OWNED_BY_RUN).is_none()) {
            let problem = Problem::error(format!("{at} is there and belongs to somebody else"));
            return Err(problem.hint("remove it, or rename it: the rollout needs the name").into());
        }
        self.apply(at, object).await
    }

    pub(crate) async fn merge(&self, at: &ObjectRef, patch: Value) -> Result<(), UnitError> {
        let options = WriteOptions::for_manager(MANAGER);
        self.cluster.patch(at, &ObjectPatch::Merge(patch), &options, None).await?;
        Ok(())
    }

    /// Sets the replicas of a Deployment that is not the rollout's own; nothing is written if it has them.
    pub(crate) async fn scale(&self, name: &str, replicas: u64) -> Result<(), UnitError> {
        let at = self.deployment(name);
        let Some(live) = self.cluster.get(&at).await? else { return Ok(()) };
        if replicas_of(&live) != replicas {
            self.merge(&at, json!({"spec": {"replicas": replicas}})).await?;
        }
        Ok(())
    }

    /// Deletes an object and waits until it is gone.
    pub(crate) async fn remove(&self, at: &ObjectRef) -> Result<(), StepError> {
        self.cluster.delete(at, &DeleteOptions::default()).await.map_err(UnitError::from)?;
        self.tracker().wait_absent(at, None, Some(self.patience())).await.map_err(StepError::from)
    }

    fn tracker(&self) -> Tracker {
        let options = TrackOptions { logs: false, ..TrackOptions::default() };
        Tracker::new(self.cluster.clone(), self.events.clone(), options)
    }

    fn patience(&self) -> Duration {
        self.timeout.unwrap_or(READY_TIMEOUT)
    }

    /// Waits until every pod of a Deployment is of its current template and ready.
    pub(crate) async fn wait_ready(&self, name: &str) -> Result<(), StepError> {
        let at = self.deployment(name);
        let rules = ReadyRules { timeout: Some(self.patience()), ..ReadyRules::default() };
        let tracker = self.tracker();
        let settled = async {
            loop {
                tracker.wait_ready(&at, &rules).await?;
                // A watch may show the state before the last write: the server decides.
                let live = self.cluster.get(&at).await.map_err(UnitError::from)?;
                if live.is_some_and(|live| is_settled(&live)) {
                    return Ok(());
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        let late =
            |_| StepError::Failed(format!("{at} is not ready after {} seconds", self.patience().as_secs()));
        tokio::time::timeout(self.patience(), settled).await.map_err(late)?
    }

    /// The selector of everything rollouts of the release made for themselves.
    pub(crate) fn owned_selector(&self) -> String {
        format!("{OWNED_BY_RUN},{RELEASE}={}", self.release)
    }
}

pub(crate) fn replicas_of(deployment: &Value) -> u64 {
    deployment.pointer("/spec/replicas").and_then(Value::as_u64).unwrap_or(1)
}

/// Tells that a Deployment's status is of its last change and every pod is new and ready.
fn is_settled(deployment: &Value) -> bool {
    let status = |field: &str| deployment["status"][field].as_u64().unwrap_or_default();
    let wanted = replicas_of(deployment);
    deployment["status"]["observedGeneration"].as_u64() >= deployment["metadata"]["generation"].as_u64()
        && ["replicas", "updatedReplicas", "readyReplicas"].iter().all(|field| status(field) == wanted)
}

impl From<TrackError> for StepError {
    fn from(error: TrackError) -> Self {
        match error {
            TrackError::Cluster(error) => Self::Unit(error.into()),
            other => Self::Failed(other.to_string()),
        }
    }
}
