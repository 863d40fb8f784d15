//! Adding to a trail: the next position is whoever creates it first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use slipway_cluster::{Cluster, ListOptions};
use tokio::sync::Mutex;

use super::facts::AuditFact;
use super::verify::event_hash;
use crate::kinds::{AuditAction, AuditEvent, AuditEventSpec, KindError, Metadata, create, labels, list};

/// The longest text of an entry.
const LONGEST: usize = 2048;

/// Adds entries to the trails of pipelines; cheap to clone.
///
/// What it remembers is read from the cluster and can be read again: another process may add as well.
#[derive(Clone)]
pub struct AuditTrail {
    cluster: Cluster,
    known: Arc<Mutex<BTreeMap<(String, String), KnownTrail>>>,
}

/// The end of a trail, and what it holds.
#[derive(Clone, Debug, Default)]
struct KnownTrail {
    sequence: u64,
    head: Option<String>,
    keys: BTreeSet<String>,
    /// The last that was said about a pause.
    pause: Option<AuditAction>,
}

impl KnownTrail {
    fn note(&mut self, spec: &AuditEventSpec) {
        if let Some(sequence) = spec.sequence.filter(|sequence| *sequence > self.sequence) {
            self.sequence = sequence;
            self.head = spec.hash.clone();
        }
        self.keys.extend(spec.key.clone());
        if matches!(spec.action, AuditAction::PipelinePaused | AuditAction::PipelineResumed) {
            self.pause = Some(spec.action);
        }
    }
}

/// The entries of a namespace, or of all; of one pipeline where one is named. Oldest first.
pub async fn list_events(
    cluster: &Cluster,
    namespace: Option<&str>,
    pipeline: Option<&str>,
) -> Result<Vec<AuditEvent>, KindError> {
    let options = pipeline.map_or_else(ListOptions::default, |pipeline| {
        ListOptions::with_labels(format!("{}={}", labels::PIPELINE, labels::label_value(pipeline)))
    });
    let mut events = list::<AuditEventSpec>(cluster, namespace, &options).await?;
    events.retain(|event| pipeline.is_none_or(|pipeline| event.spec.pipeline_name == pipeline));
    events.sort_by(|one, other| {
        let order = |event: &AuditEvent| {
            (
                event.spec.timestamp,
                event.namespace().to_owned(),
                event.spec.pipeline_name.clone(),
                event.spec.sequence,
            )
        };
        order(one).cmp(&order(other))
    });
    Ok(events)
}

impl AuditTrail {
    pub fn new(cluster: Cluster) -> Self {
        Self { cluster, known: Arc::default() }
    }

    /// Adds a fact unless it is recorded. A pipeline that goes on was held before.
    pub async fn record(&self, namespace: &str, fact: &AuditFact) -> Result<(), KindError> {
        let mut all = self.known.lock().await;
        let place = (namespace.to_owned(), fact.pipeline.clone());
        loop {
            if !all.contains_key(&place) {
                let mut trail = KnownTrail::default();
                let mut events = list_events(&self.cluster, Some(namespace), Some(&fact.pipeline)).await?;
                events.sort_by_key(|event| event.spec.sequence);
                events.iter().for_each(|event| trail.note(&event.spec));
                all.insert(place.clone(), trail);
            }
            let Some(trail) = all.get_mut(&place) else { return Ok(()) };
            let is_known = match fact.action {
                AuditAction::PipelineResumed => trail.pause != Some(AuditAction::PipelinePaused),
                AuditAction::PipelinePaused => trail.pause == Some(AuditAction::PipelinePaused),
                _ => trail.keys.contains(&fact.key),
            };
            if is_known {
                return Ok(());
            }
            let event = event_of(namespace, fact, trail);
            match create(&self.cluster, &event).await {
                Ok(_) => {
                    trail.note(&event.spec);
                    return Ok(());
                }
                // Somebody else took the place: read what they wrote.
                Err(error) if error.is_already_there() => {
                    all.remove(&place);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn event_of(namespace: &str, fact: &AuditFact, trail: &KnownTrail) -> AuditEvent {
    let sequence = trail.sequence + 1;
    let stem: String = fact.pipeline.chars().take(200).collect();
    let mut metadata = Metadata::named(namespace, format!("{stem}-{sequence:08}"));
    metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(&fact.pipeline));
    if !fact.bundle.is_empty() {
        metadata.labels.insert(labels::BUNDLE.to_owned(), labels::label_value(&fact.bundle));
    }
    let cut = |text: &str| text.chars().take(LONGEST).collect::<String>();
    let mut spec = AuditEventSpec {
        timestamp: fact.at,
        bundle_name: fact.bundle.clone(),
        pipeline_name: fact.pipeline.clone(),
        environment: fact.environment.clone(),
        action: fact.action,
        actor: cut(&fact.actor),
        outcome: fact.outcome,
        message: cut(&fact.message),
        bundle_image: cut(&fact.image),
        key: Some(fact.key.clone()),
        sequence: Some(sequence),
        prev_hash: trail.head.clone(),
        hash: None,
    };
    spec.hash = Some(event_hash(&spec));
    AuditEvent::new(metadata, spec)
}
