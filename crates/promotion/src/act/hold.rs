//! Pausing a pipeline and letting it go on.

use serde_json::json;
use slipway_cluster::{Cluster, DeletePropagation};

use crate::gate::freeze::freeze_name;
use crate::kinds::{
    self, GoDuration, KindError, Metadata, Pipeline, PipelineSpec, PolicyGate, PolicyGateSpec, labels,
};

/// The answer to the wish to pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseOutcome {
    Paused,
    AlreadyPaused,
}

/// The answer to the wish to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeOutcome {
    Resumed,
    NotPaused,
}

/// The gate that holds a pipeline.
pub fn pause_gate(pipeline: &Pipeline, reason: Option<&str>, by: Option<&str>) -> PolicyGate {
    let mut metadata = Metadata::named(pipeline.namespace(), freeze_name(pipeline.name()));
    for (key, value) in [
        (labels::SCOPE, "team"),
        (labels::GATE_TYPE, "gate"),
        (labels::FREEZE, "true"),
        (labels::PIPELINE, &labels::label_value(pipeline.name())),
    ] {
        metadata.labels.insert(key.to_owned(), value.to_owned());
    }
    let by = by.map(|by| format!(" by {by}")).unwrap_or_default();
    let why = reason.map(|reason| format!(": {reason}")).unwrap_or_default();
    let spec = PolicyGateSpec {
        expression: "false".to_owned(),
        message: format!("paused{by}{why}"),
        recheck_interval: GoDuration(std::time::Duration::from_secs(30)),
        applies_to: vec!["*".to_owned()],
        overridable: false,
        ..PolicyGateSpec::default()
    };
    PolicyGate::new(metadata, spec)
}

/// Holds a pipeline: creates its freeze gate and says so in its spec. Doing it twice changes nothing.
pub async fn pause_pipeline(
    cluster: &Cluster,
    pipeline: &Pipeline,
    reason: Option<&str>,
    by: Option<&str>,
) -> Result<PauseOutcome, KindError> {
    let outcome = match kinds::create(cluster, &pause_gate(pipeline, reason, by)).await {
        Ok(_) => PauseOutcome::Paused,
        Err(error) if error.is_already_there() => PauseOutcome::AlreadyPaused,
        Err(error) => return Err(error),
    };
    mark_paused(cluster, pipeline, PauseMark::Set).await?;
    Ok(outcome)
}

/// The mirror of a pause in a pipeline's spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseMark {
    Set,
    Cleared,
}

/// Writes the mirror, over whatever the controller writes meanwhile.
async fn mark_paused(cluster: &Cluster, pipeline: &Pipeline, mark: PauseMark) -> Result<(), KindError> {
    let wanted = mark == PauseMark::Set;
    let mut read = pipeline.clone();
    while read.spec.paused != wanted {
        let paused = if wanted { json!(true) } else { json!(null) };
        match kinds::patch_spec(cluster, &read, json!({"paused": paused})).await {
            Err(error) if error.is_conflict() => {
                let found = kinds::get::<PipelineSpec>(cluster, read.namespace(), read.name()).await?;
                let Some(found) = found else { return Ok(()) };
                read = found;
            }
            written => return written.map(drop),
        }
    }
    Ok(())
}

/// Lets a pipeline go on: deletes its freeze gate and clears its spec.
pub async fn resume_pipeline(cluster: &Cluster, pipeline: &Pipeline) -> Result<ResumeOutcome, KindError> {
    let name = freeze_name(pipeline.name());
    let gate = kinds::get::<PolicyGateSpec>(cluster, pipeline.namespace(), &name).await?;
    let outcome = if gate.is_some() { ResumeOutcome::Resumed } else { ResumeOutcome::NotPaused };
    if let Some(gate) = &gate {
        kinds::delete(cluster, gate, DeletePropagation::Background).await?;
    }
    mark_paused(cluster, pipeline, PauseMark::Cleared).await?;
    Ok(outcome)
}
