//! Logs of all pods of some objects, including pods that are created later.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::error::{Error, ErrorClass};
use crate::kinds::ServedKind;
use crate::logs::{self, ContainerLogLine, LogSource};
use crate::watch::{PastObjects, ReaderInterest};
use crate::{Cluster, ListOptions};

/// One line of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodLogLine {
    pub source: LogSource,
    /// The pod, its owner, the owner's owner.
    pub makers: Arc<[ObjectRef]>,
    pub line: ContainerLogLine,
}

/// Returns true if a container's log is wanted, by the pod with its owners and the container's name.
pub type ContainerFilter<'w> = dyn Fn(&[ObjectRef], &str) -> bool + Send + Sync + 'w;

/// Reads the logs of a namespace's pods and hands the lines to a callback.
pub struct LogListener<'l> {
    pub cluster: &'l Cluster,
    pub namespace: &'l str,
    pub wanted: &'l ContainerFilter<'l>,
    pub options: &'l logs::ContainerLogOptions,
    pub take: &'l mut (dyn FnMut(PodLogLine) + Send),
}

/// The end of a log reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowMode {
    /// Only the lines written so far.
    No,
    /// Until every pod has ended, which pods of most workloads never do.
    Yes,
}

/// Finds the owners of pods; each owner is read once.
struct OwnerCache<'c> {
    cluster: &'c Cluster,
    known: BTreeMap<(String, String), Option<ObjectRef>>,
}

impl OwnerCache<'_> {
    async fn owner_chain(&mut self, pod: &Value) -> Result<Arc<[ObjectRef]>, Error> {
        let mut chain = vec![ObjectRef::of(pod)];
        let mut next = controller_of(pod);
        while let Some(maker) = next {
            // Kubernetes has two levels of owners; a cycle must not loop.
            let ends = !matches!(maker.gvk.kind.as_str(), "ReplicaSet" | "Job") || chain.len() > 3;
            let key = (maker.gvk.kind.clone(), maker.name.clone());
            chain.push(maker.clone());
            if ends {
                break;
            }
            next = match self.known.get(&key) {
                Some(known) => known.clone(),
                None => {
                    let above = match self.cluster.get(&maker).await {
                        Ok(found) => found.as_ref().and_then(controller_of),
                        Err(e) if e.class == ErrorClass::Forbidden => None,
                        Err(e) => return Err(e),
                    };
                    self.known.insert(key, above.clone());
                    above
                }
            };
        }
        Ok(chain.into())
    }
}

/// Returns the controller of an object.
fn controller_of(made: &Value) -> Option<ObjectRef> {
    let owners = made.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let gvk = Gvk::from_api_version(owner["apiVersion"].as_str()?, owner["kind"].as_str()?);
    Some(ObjectRef::new(gvk, object::namespace(made), owner["name"].as_str()?))
}

/// Returns the containers of a pod that have run.
fn started_containers(pod: &Value) -> Vec<String> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let has_run = |status: &&Value| {
        ["/state/running", "/state/terminated", "/lastState/terminated"]
            .iter()
            .any(|state| status.pointer(state).is_some_and(Value::is_object))
    };
    statuses.filter(has_run).filter_map(|status| status["name"].as_str().map(str::to_owned)).collect()
}

fn log_source(pod: &Value, container: &str) -> LogSource {
    LogSource {
        namespace: object::namespace(pod).unwrap_or_default().to_owned(),
        pod: object::name(pod).unwrap_or_default().to_owned(),
        container: container.to_owned(),
    }
}

impl LogListener<'_> {
    /// Hands out the lines of the wanted containers of a namespace.
    pub async fn listen(mut self, follow: FollowMode) -> Result<(), Error> {
        let mut makers = OwnerCache { cluster: self.cluster, known: BTreeMap::new() };
        match follow {
            FollowMode::No => self.read_existing(&mut makers).await,
            FollowMode::Yes => self.follow_pods(&mut makers).await,
        }
    }

    async fn pod_kind(&self) -> Result<Arc<ServedKind>, Error> {
        self.cluster.require_kind(&Gvk::new("", "v1", "Pod"), "listen to pods").await
    }

    async fn read_existing(&mut self, makers: &mut OwnerCache<'_>) -> Result<(), Error> {
        let kind = self.pod_kind().await?;
        let listed = self.cluster.list(&kind, Some(self.namespace), &ListOptions::default()).await?;
        for pod in listed.items {
            let chain = makers.owner_chain(&pod).await?;
            for container in started_containers(&pod) {
                if !(self.wanted)(&chain, &container) {
                    continue;
                }
                let source = log_source(&pod, &container);
                match logs::read_logs(self.cluster, &source, self.options).await {
                    Ok(lines) => {
                        for line in lines {
                            (self.take)(PodLogLine {
                                source: source.clone(),
                                makers: Arc::clone(&chain),
                                line,
                            });
                        }
                    }
                    // The container is gone, or has no earlier run.
                    Err(e) if e.is_absent() || e.class == ErrorClass::Invalid => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }

    async fn follow_pods(&mut self, makers: &mut OwnerCache<'_>) -> Result<(), Error> {
        let kind = self.pod_kind().await?;
        let wake = Arc::new(Notify::new());
        let everything = ReaderInterest::matching(|_| true);
        let watched =
            self.cluster.watch_shared(&kind, Some(self.namespace), PastObjects::Known, &wake, everything);
        let (send, mut receive) = mpsc::unbounded_channel();
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        let mut followed: BTreeSet<(String, String)> = BTreeSet::new();
        loop {
            if let Some(error) = watched.denied_error() {
                return Err(error);
            }
            let (mut speakers, mut is_over) = (0, true);
            for pod in watched.find_objects(|_| true) {
                let chain = makers.owner_chain(&pod).await?;
                let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
                for container in started_containers(&pod) {
                    if !(self.wanted)(&chain, &container) {
                        continue;
                    }
                    speakers += 1;
                    is_over &= ended;
                    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
                    if !followed.insert((uid, container.clone())) {
                        continue;
                    }
                    let (cluster, options) = (self.cluster.clone(), self.options.clone());
                    let (source, makers, send) =
                        (log_source(&pod, &container), Arc::clone(&chain), send.clone());
                    tasks.spawn(async move {
                        let mut pass = |line| {
                            let heard =
                                PodLogLine { source: source.clone(), makers: Arc::clone(&makers), line };
                            // The receiver is closed: this task ends with the rest.
                            let _ = send.send(heard);
                        };
                        logs::follow_logs(&cluster, &source, &options, &mut pass).await
                    });
                }
            }
            if tasks.is_empty() && speakers > 0 && is_over {
                while let Ok(heard) = receive.try_recv() {
                    (self.take)(heard);
                }
                return Ok(());
            }
            tokio::select! {
                Some(heard) = receive.recv() => (self.take)(heard),
                () = wake.notified() => {}
                Some(ended) = tasks.join_next(), if !tasks.is_empty() => match ended {
                    Ok(Err(e)) if !e.is_absent() => return Err(e),
                    _ => {}
                },
            }
        }
    }
}
