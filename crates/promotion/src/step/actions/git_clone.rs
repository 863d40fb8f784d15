//! `git-clone`: checks the base out, and finds the commit of a configuration bundle.

use crate::step::context::{StepContext, outputs};
use crate::step::outcome::{StepError, StepOutput, StepProgressed};
use crate::step::workspace::{ConfigChanges, check_out, read_config};

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    // A second run starts from where the branch is now: nothing was made of the first one yet.
    context.workspace.clear();
    context.status.outputs.remove(outputs::BASE_COMMIT);
    context.status.outputs.remove(outputs::SOURCE_COMMIT);
    check_out(context).await?;
    if context.bundle.spec.kind.has_config() {
        read_config(context).await?;
    }
    let Some(tree) = &context.workspace.target else { return Ok(StepOutput::default().into()) };
    let base = tree.base().clone();
    let branches = context.branches()?;
    let mut output = StepOutput::new(format!("`{}` is at {}", branches.base, base.short()))
        .output(outputs::BASE_COMMIT, base.as_str());
    if let Some(source) = &context.workspace.source {
        output = output.output(outputs::SOURCE_COMMIT, source.base().as_str());
    }
    if let Some(ConfigChanges::Apply(config)) = &context.workspace.config {
        output = output.output("configCommit", config.commit.as_str());
    }
    Ok(output.into())
}
