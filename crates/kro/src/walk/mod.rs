//! One walk over one Graph: every node in topological order, then what is to be removed.

mod admit;
mod apply;
mod evaluate;
mod observe;
mod prune;
mod resolve;
mod scope;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex};

use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Cluster, Error};
use slipway_manifest::{Gvk, ObjectRef};

pub(crate) use prune::{PruneOutcome, TeardownTrouble};

use crate::compile::{BodyKind, CompiledGraph};
use crate::controller::{AllowedKinds, WriteScope};
use crate::feed::{Feed, Feeds, Followed, Lookup, Reading};
use crate::memory::NodeMemory;
use crate::names::{GraphId, OwnerId, Place};

/// How many nodes are worked on at once.
const CONCURRENCY: usize = 8;

/// What a walk does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WalkMode {
    /// Applies what is wanted.
    Forward,
    /// Looks at what is there; nothing new is wanted any more.
    Teardown,
}

/// The kinds a walk uses, opened.
pub(crate) type KindFeeds = HashMap<Gvk, Result<Arc<Feed>, Error>>;

/// A walk under way.
pub(crate) struct Walk<'w> {
    pub(crate) cluster: &'w Cluster,
    pub(crate) feeds: &'w KindFeeds,
    pub(crate) graph: &'w Arc<GraphId>,
    pub(crate) owner: OwnerId,
    pub(crate) generation: i64,
    pub(crate) compiled: &'w CompiledGraph,
    pub(crate) now: Timestamp,
    pub(crate) mode: WalkMode,
    /// Whether what was applied is compared with what is there.
    pub(crate) is_resync: bool,
    pub(crate) allowed: &'w AllowedKinds,
    pub(crate) write_scope: WriteScope,
    /// Every object this walk asked to be woken for.
    pub(crate) followed: &'w Mutex<BTreeSet<(Gvk, Place)>>,
}

/// The kinds a spec uses, and how.
pub(crate) fn kinds_of(compiled: &CompiledGraph) -> BTreeMap<Gvk, Reading> {
    let mut kinds = BTreeMap::new();
    for node in compiled.graph.nodes() {
        let Some(gvk) = &node.value().body.gvk else { continue };
        let reading =
            if node.value().body.kind == BodyKind::Watch { Reading::BySelector } else { Reading::ByName };
        let known = kinds.entry(gvk.clone()).or_insert(reading);
        *known = (*known).max(reading);
    }
    kinds
}

/// Opens the feeds of kinds; `None` when one of them is not read yet, and the Graph is woken when it is.
pub(crate) async fn open_kinds(
    feeds: &Feeds,
    cluster: &Cluster,
    kinds: &BTreeMap<Gvk, Reading>,
    graph: &Arc<GraphId>,
    now: Timestamp,
) -> Option<KindFeeds> {
    let mut opened = KindFeeds::new();
    let mut is_synced = true;
    for (gvk, reading) in kinds {
        let feed = match feeds.open_for(gvk, *reading, graph).await {
            Ok(feed) => match feed.is_synced(cluster, graph, now) {
                Ok(synced) => {
                    is_synced &= synced;
                    Ok(feed)
                }
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        opened.insert(gvk.clone(), feed);
    }
    is_synced.then_some(opened)
}

impl Walk<'_> {
    /// Evaluates every node, wave by wave; nodes of a wave do not depend on each other.
    pub(crate) async fn nodes(&self, before: &[NodeMemory]) -> Vec<NodeMemory> {
        let mut done: Vec<NodeMemory> = Vec::with_capacity(before.len());
        for wave in self.compiled.graph.waves() {
            let work = wave.map(|node| {
                let (done, before) = (&done, &before[node.position()]);
                async move {
                    // Finalizers exist only while their target is being removed.
                    if node.value().is_finalizer() {
                        before.clone()
                    } else {
                        self.evaluate(node, before, done).await
                    }
                }
            });
            let evaluated: Vec<NodeMemory> =
                futures::stream::iter(work.collect::<Vec<_>>()).buffered(CONCURRENCY).collect().await;
            done.extend(evaluated);
        }
        done
    }

    fn feed(&self, gvk: &Gvk) -> Result<&Arc<Feed>, Error> {
        match self.feeds.get(gvk) {
            Some(Ok(feed)) => Ok(feed),
            Some(Err(error)) => Err(error.clone()),
            None => {
                Err(Error::new(slipway_cluster::ErrorClass::NoKind, format!("read {gvk}"), "not watched"))
            }
        }
    }

    /// Reads an object: from memory, or from the server where nobody was interested before.
    async fn read(&self, feed: &Arc<Feed>, at: &ObjectRef) -> Result<Option<Value>, Error> {
        let place = crate::memory::place_of(at);
        let followed = feed.follow(&place, self.graph);
        crate::queue::lock(self.followed).insert((at.gvk.clone(), place.clone()));
        match feed.get(&place) {
            Lookup::Found(value) => return Ok(Some(value)),
            Lookup::Absent if followed == Followed::Before => return Ok(None),
            Lookup::Absent | Lookup::Unknown => {}
        }
        let live = match self.cluster.get(at).await {
            Ok(live) => live,
            Err(error) => {
                // What could not be read must not pass for absent the next time.
                feed.unfollow(&place, self.graph);
                return Err(error);
            }
        };
        if let Some(live) = &live {
            feed.put(live);
        }
        Ok(live)
    }

    /// The objects a node has in the cluster, as far as labels tell.
    fn owned_objects(&self, node: &crate::compile::Node) -> Vec<Place> {
        let Some(gvk) = &node.body.gvk else { return Vec::new() };
        if node.body.kind.role().is_none() {
            return Vec::new();
        }
        self.feed(gvk).map(|feed| feed.owned_by_node(&self.owner, &node.id)).unwrap_or_default()
    }
}
