//! The record of a document, compared with it.

use serde::Serialize;
use slipway_event::Redactor;
use slipway_journal::RecordStore as _;

use super::decision::{hashes, resumable};
use crate::context::RunContext;
use crate::execute::RunError;
use crate::hash;
use crate::model::{Document, Step};
use crate::state::{self, RunSnapshot};

/// The record, if there is one, and what it means for the document.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[schemars(rename = "RunbookStatus")]
pub struct Status {
    pub found: bool,
    #[serde(skip)]
    pub secret: String,
    #[serde(flatten)]
    pub known: Option<KnownRecord>,
}

/// A record, compared with the document.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KnownRecord {
    pub spec_changed: bool,
    /// Steps the next run leaves out.
    pub resumable_steps: Vec<String>,
    /// Steps whose input is another now.
    pub changed_steps: Vec<String>,
    pub record: RunSnapshot,
}

impl Status {
    /// Masks every text that is not one of the format's own words.
    fn mask(mut self, redactor: &Redactor) -> Self {
        let mask = |text: &mut String| redactor.redact_in_place(text);
        mask(&mut self.secret);
        if let Some(known) = &mut self.known {
            known.resumable_steps.iter_mut().chain(&mut known.changed_steps).for_each(mask);
            mask(&mut known.record.spec_name);
            known.record.spec_hash = hash::shown(&known.record.spec_hash);
            for entry in &mut known.record.steps {
                mask(&mut entry.name);
                entry.input_hash = entry.input_hash.as_deref().map(hash::shown);
                entry.error.iter_mut().chain(&mut entry.skip_reason).for_each(mask);
            }
        }
        self
    }
}

/// Reads the record and says what the next run would leave out; nothing if the document keeps none.
pub async fn status(document: &Document, place: RunContext<'_>) -> Result<Option<Status>, RunError> {
    let Some(state) = &document.state else { return Ok(None) };
    let store = state::open_store(place.cluster, state);
    let known = RunSnapshot::load(&store).await?.map(|record| {
        let hashes = hashes(document, place.base);
        let done = resumable(document, Some(&record), &hashes);
        let in_order = |wanted: &dyn Fn(&Step) -> bool| -> Vec<String> {
            document.steps.iter().filter(|step| wanted(step)).map(|step| step.name.clone()).collect()
        };
        let has_changed = |step: &Step| {
            let hash = hashes.get(&step.name);
            let entry = record.step(&step.name).filter(|entry| entry.input_hash.is_some());
            entry.zip(hash).is_some_and(|(entry, hash)| *hash != entry.input_hash)
        };
        KnownRecord {
            spec_changed: record.spec_hash != hash::document(document),
            resumable_steps: in_order(&|step| done.contains(&step.name)),
            changed_steps: in_order(&has_changed),
            record,
        }
    });
    let status = Status { found: known.is_some(), secret: store.place(), known };
    Ok(Some(status.mask(place.events.redactor())))
}
