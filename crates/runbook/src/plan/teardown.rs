//! The plan of undoing a document.

use tokio_util::sync::CancellationToken;

use super::words::listed;
use super::{RunbookPlan, StepPreview, StepVerb, plan_run};
use crate::context::{RunContext, SharedContext, StepContext};
use crate::error::AttemptError;
use crate::execute::{Command, RunError, RunOptions};
use crate::model::{Document, Step};

/// Plans the undoing of a document and looks at what is there to be taken away.
pub async fn plan_destroy(
    document: &Document,
    place: RunContext<'_>,
    options: &RunOptions,
) -> Result<RunbookPlan, RunError> {
    let mut plan = plan_run(document, place, Command::Destroy, options).await?;
    let world = SharedContext::new(place, &document.name);
    for step in &document.steps {
        let Some(told) = plan.steps.iter_mut().find(|told| told.name == step.name) else { continue };
        if told.seen.is_some() {
            continue;
        }
        told.seen = Some(match planned_deletions(&world, step).await {
            Ok(objects) if objects.is_empty() => StepPreview::new(StepVerb::NoOp, "nothing is there"),
            Ok(objects) => StepPreview::new(StepVerb::Delete, listed(&objects)),
            Err(error) => StepPreview::new(StepVerb::Unknown, error.to_string()),
        });
    }
    plan.levels.reverse();
    let last = plan.levels.len().saturating_sub(1);
    for step in &mut plan.steps {
        step.level = last - step.level;
    }
    plan.steps.sort_by_key(|step| step.level);
    Ok(plan.count().mask(place.events.redactor()))
}

/// Names what of a step is there to be taken away.
async fn planned_deletions(world: &SharedContext<'_>, step: &Step) -> Result<Vec<String>, AttemptError> {
    let context = StepContext::new(world, step, CancellationToken::new(), None);
    step.action.as_step().plan_undo(&context).await
}
