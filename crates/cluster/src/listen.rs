//! What all pods of some objects say, of those that come later too.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use crate::error::{Error, ErrorClass};
use crate::kinds::Kind;
use crate::logs::{self, Line, Source};
use crate::watch::{Interest, Past};
use crate::{Cluster, ListOptions};

/// One line of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    pub source: Source,
    /// The pod, what made it, what made that.
    pub makers: Arc<[ObjectRef]>,
    pub line: Line,
}

/// Tells whether a container is to be heard, by the pod and its makers.
pub type Wanted<'w> = dyn Fn(&[ObjectRef], &str) -> bool + Send + Sync + 'w;

/// Whose words are given out, and to whom.
pub struct Listener<'l> {
    pub cluster: &'l Cluster,
    pub namespace: &'l str,
    pub wanted: &'l Wanted<'l>,
    pub options: &'l logs::Options,
    pub take: &'l mut (dyn FnMut(Heard) + Send),
}

/// Whether to go on when everything was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follow {
    /// Only what was said so far.
    No,
    /// Until every pod is over, which pods of most workloads never are.
    Yes,
}

/// Finds out what made pods; each maker is read once.
struct Makers<'c> {
    cluster: &'c Cluster,
    known: BTreeMap<(String, String), Option<ObjectRef>>,
}

impl Makers<'_> {
    async fn of(&mut self, pod: &Value) -> Result<Arc<[ObjectRef]>, Error> {
        let mut chain = vec![ObjectRef::of(pod)];
        let mut next = controller(pod);
        while let Some(maker) = next {
            // Two levels is what Kubernetes has; a circle is none of its.
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
                        Ok(found) => found.as_ref().and_then(controller),
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

/// The object that made another.
fn controller(made: &Value) -> Option<ObjectRef> {
    let owners = made.pointer("/metadata/ownerReferences")?.as_array()?;
    let owner = owners.iter().find(|owner| owner["controller"] == true)?;
    let gvk = Gvk::from_api_version(owner["apiVersion"].as_str()?, owner["kind"].as_str()?);
    Some(ObjectRef::new(gvk, object::namespace(made), owner["name"].as_str()?))
}

/// The containers of a pod that have run.
fn containers(pod: &Value) -> Vec<String> {
    let lists = ["initContainerStatuses", "containerStatuses"];
    let statuses = lists.iter().flat_map(|list| pod["status"][*list].as_array().into_iter().flatten());
    let has_run = |status: &&Value| {
        ["/state/running", "/state/terminated", "/lastState/terminated"]
            .iter()
            .any(|state| status.pointer(state).is_some_and(Value::is_object))
    };
    statuses.filter(has_run).filter_map(|status| status["name"].as_str().map(str::to_owned)).collect()
}

fn source(pod: &Value, container: &str) -> Source {
    Source {
        namespace: object::namespace(pod).unwrap_or_default().to_owned(),
        pod: object::name(pod).unwrap_or_default().to_owned(),
        container: container.to_owned(),
    }
}

impl Listener<'_> {
    /// Gives out what the wanted containers of a namespace say.
    pub async fn listen(mut self, follow: Follow) -> Result<(), Error> {
        let mut makers = Makers { cluster: self.cluster, known: BTreeMap::new() };
        match follow {
            Follow::No => self.read(&mut makers).await,
            Follow::Yes => self.go_on(&mut makers).await,
        }
    }

    async fn pods(&self) -> Result<Arc<Kind>, Error> {
        self.cluster.served(&Gvk::new("", "v1", "Pod"), "listen to pods").await
    }

    async fn read(&mut self, makers: &mut Makers<'_>) -> Result<(), Error> {
        let kind = self.pods().await?;
        let listed = self.cluster.list(&kind, Some(self.namespace), &ListOptions::default()).await?;
        for pod in listed.items {
            let chain = makers.of(&pod).await?;
            for container in containers(&pod) {
                if !(self.wanted)(&chain, &container) {
                    continue;
                }
                let source = source(&pod, &container);
                match logs::read(self.cluster, &source, self.options).await {
                    Ok(lines) => {
                        for line in lines {
                            (self.take)(Heard { source: source.clone(), makers: Arc::clone(&chain), line });
                        }
                    }
                    // Gone meanwhile, or never started before.
                    Err(e) if e.is_absent() || e.class == ErrorClass::Invalid => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }

    async fn go_on(&mut self, makers: &mut Makers<'_>) -> Result<(), Error> {
        let kind = self.pods().await?;
        let wake = Arc::new(Notify::new());
        let everything = Interest::fitting(|_| true);
        let watched = self.cluster.watch(&kind, Some(self.namespace), Past::Known, &wake, everything);
        let (send, mut receive) = mpsc::unbounded_channel();
        let mut tasks: JoinSet<Result<(), Error>> = JoinSet::new();
        let mut followed: BTreeSet<(String, String)> = BTreeSet::new();
        loop {
            if let Some(error) = watched.denied() {
                return Err(error);
            }
            let (mut speakers, mut is_over) = (0, true);
            for pod in watched.find(|_| true) {
                let chain = makers.of(&pod).await?;
                let ended = matches!(pod["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
                for container in containers(&pod) {
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
                    let (source, makers, send) = (source(&pod, &container), Arc::clone(&chain), send.clone());
                    tasks.spawn(async move {
                        let mut pass = |line| {
                            let heard = Heard { source: source.clone(), makers: Arc::clone(&makers), line };
                            // Nobody listens any more: this task ends with the rest.
                            let _ = send.send(heard);
                        };
                        logs::follow(&cluster, &source, &options, &mut pass).await
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
