//! Watches promotions and records what happens to them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipway_cluster::{Cluster, Error, WatchSink};
use slipway_event::Clock;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::facts::{AuditFact, bundle_facts, gate_facts, pipeline_facts, step_facts};
use super::trail::AuditTrail;
use crate::kinds::{self, BundleSpec, KindError, KindSpec, PipelineSpec, PolicyGateSpec, PromotionStepSpec};

/// The pause after an entry could not be written.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Objects whose recorded facts are remembered, so that they are not compared again.
const MOST_KNOWN: usize = 50_000;

/// Records facts of all pipelines. One process does so at a time: the one that leads.
pub struct AuditRecorder {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    trail: AuditTrail,
}

struct ObjectSink(mpsc::UnboundedSender<Value>);

impl WatchSink for ObjectSink {
    fn list_began(&self) {}

    fn list_page(&self, objects: Vec<Value>) {
        objects.into_iter().for_each(|object| self.changed(object));
    }

    fn list_ended(&self, _version: &str) {}

    fn changed(&self, object: Value) {
        // Nobody listens any more when the process ends.
        let _ = self.0.send(object);
    }

    // What was said last about an object is still true.
    fn deleted(&self, object: Value) {
        let _ = self.0.send(object);
    }

    fn denied(&self, error: Error) {
        tracing::error!(%error, "the audit trail cannot be kept");
    }
}

impl AuditRecorder {
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>) -> Self {
        let trail = AuditTrail::new(cluster.clone());
        Self { cluster, clock, trail }
    }

    /// Records until it is told to stop.
    pub async fn run(&self, stop: &CancellationToken) -> Result<(), KindError> {
        let (sender, mut objects) = mpsc::unbounded_channel();
        let mut watches = Vec::new();
        for gvk in [PipelineSpec::gvk(), BundleSpec::gvk(), PromotionStepSpec::gvk(), PolicyGateSpec::gvk()] {
            let kind = self.cluster.find_kind(&gvk).await?;
            let kind = kind.ok_or(KindError::NoKind { kind: "AuditEvent" })?;
            watches.push(self.cluster.watch_kind(&kind, None, Arc::new(ObjectSink(sender.clone()))));
        }
        let mut recorded: HashMap<String, Vec<String>> = HashMap::new();
        loop {
            let object = tokio::select! {
                () = stop.cancelled() => return Ok(()),
                object = objects.recv() => object,
            };
            let Some(object) = object else { return Ok(()) };
            let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
            let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
            let facts = self.facts_of(object);
            let keys: Vec<String> = facts.iter().map(|(_, fact)| fact.key.clone()).collect();
            if recorded.get(&uid) == Some(&keys) {
                continue;
            }
            for (place, fact) in &facts {
                let place = place.as_deref().unwrap_or(&namespace);
                while let Err(error) = self.trail.record(place, fact).await {
                    tracing::warn!(%error, action = ?fact.action, "an entry of the audit trail could not be written");
                    tokio::select! {
                        () = stop.cancelled() => return Ok(()),
                        () = tokio::time::sleep(RETRY_PAUSE) => {}
                    }
                }
            }
            if recorded.len() >= MOST_KNOWN {
                recorded.clear();
            }
            recorded.insert(uid, keys);
        }
    }

    /// The facts of an object, oldest first, each with its namespace where that is not the object's.
    fn facts_of(&self, object: Value) -> Vec<(Option<String>, AuditFact)> {
        let own = |facts: Vec<AuditFact>| facts.into_iter().map(|fact| (None, fact)).collect::<Vec<_>>();
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        let mut facts = match kind.as_str() {
            BundleSpec::KIND => kinds::parse::<BundleSpec>(object).map(|bundle| own(bundle_facts(&bundle))),
            PromotionStepSpec::KIND => {
                kinds::parse::<PromotionStepSpec>(object).map(|step| own(step_facts(&step)))
            }
            PipelineSpec::KIND => kinds::parse::<PipelineSpec>(object)
                .map(|pipeline| vec![(None, pipeline_facts(&pipeline, self.clock.now()))]),
            PolicyGateSpec::KIND => kinds::parse::<PolicyGateSpec>(object).map(|gate| {
                let place = gate.bundle_namespace().to_owned();
                gate_facts(&gate).into_iter().map(|fact| (Some(place.clone()), fact)).collect()
            }),
            _ => Ok(Vec::new()),
        }
        .unwrap_or_default();
        facts.sort_by_key(|(_, fact)| fact.at);
        facts
    }
}
