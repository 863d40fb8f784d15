//! `git-commit`: commits what the edits have changed, so that the same edits give the same commit.

use slipway_git::{CommitId, CommitIdentity, CommitOutcome, CommitRequest, Trailer, TreePath};

use crate::kinds::DeploymentLayout;
use crate::step::actions::StepAction;
use crate::step::context::{StepContext, outputs};
use crate::step::edit::{VersionChange, environment_path};
use crate::step::outcome::{StepError, StepOutput, StepProgressed};
use crate::step::workspace::prepare;

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    let made = make_commit(context).await?;
    Ok(match made {
        MadeCommit::Made(commit) => StepOutput::new(format!("committed {}", commit.short()))
            .output(outputs::COMMIT_SHA, commit.as_str())
            .into(),
        MadeCommit::NothingChanged { base } => nothing_changed(&base).into(),
    })
}

/// The output of an entry that found everything done.
pub(super) fn nothing_changed(base: &CommitId) -> StepOutput {
    StepOutput::new("nothing to change")
        .output(outputs::NO_CHANGE, "true")
        .output(outputs::COMMIT_SHA, base.as_str())
}

/// The commit of a step.
pub(super) enum MadeCommit {
    Made(CommitId),
    NothingChanged { base: CommitId },
}

/// Makes the commit, or finds it in the work tree.
pub(super) async fn make_commit(context: &mut StepContext<'_>) -> Result<MadeCommit, StepError> {
    prepare(context).await?;
    let request = commit_request(context).await?;
    let Some(tree) = &context.workspace.target else {
        return Err(StepError::failed("NoWorkTree", "`git-clone` has to come before `git-commit`"));
    };
    if let CommitOutcome::Committed(commit) = tree.commit(&request).await? {
        return Ok(MadeCommit::Made(commit));
    }
    let (head, base) = (tree.head().await?, tree.base().clone());
    // Committed a moment ago.
    Ok(if head == base { MadeCommit::NothingChanged { base } } else { MadeCommit::Made(head) })
}

/// The commit as everybody makes it who carries this step out.
pub(in crate::step) async fn commit_request(context: &StepContext<'_>) -> Result<CommitRequest, StepError> {
    let (spec, bundle) = (&context.step.spec, context.bundle);
    let version = bundle.spec.version();
    let subject = match bundle.is_rollback() {
        false => format!("[kardinal] Promote {} {version} to {}", spec.pipeline, spec.environment),
        true => format!("[kardinal] Rollback {} in {} to {version}", spec.pipeline, spec.environment),
    };
    let provenance = bundle.spec.provenance.clone().unwrap_or_default();
    let previous = previous_version(context);
    let mut trailers = Vec::new();
    for (key, value) in [
        ("Bundle", Some(bundle.name())),
        ("Pipeline", Some(spec.pipeline.as_str())),
        ("Environment", Some(spec.environment.as_str())),
        ("Region", spec.region.as_deref()),
        ("Previous-Version", previous.as_deref()),
        ("Source-Commit", provenance.commit_sha.as_deref()),
        ("CI-Run", provenance.ci_run_url.as_deref()),
    ] {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            trailers.push(Trailer::new(key, value)?);
        }
    }
    trailers.push(context.mark()?);
    let settings = spec.git.commit.clone().unwrap_or_default();
    let own = &context.shared.options.identity;
    let author = match (settings.author_name, settings.author_email) {
        (None, None) => own.clone(),
        (name, email) => CommitIdentity::new(
            &name.unwrap_or_else(|| "slipway".to_owned()),
            &email.unwrap_or_else(|| "slipway@localhost".to_owned()),
        ),
    };
    let path = match spec.layout {
        DeploymentLayout::Directory => environment_path(spec)?,
        DeploymentLayout::Branch => TreePath::root(),
    };
    Ok(CommitRequest {
        subject,
        body: commit_message(context).to_owned(),
        trailers,
        author,
        committer: own.clone(),
        time: context.status.started_at.unwrap_or_else(|| context.now()),
        paths: vec![path],
        signing: context.shared.signing_key(context.step).await?,
    })
}

/// The versions before and after that edits have found.
pub(in crate::step) fn version_changes(context: &StepContext<'_>) -> Vec<VersionChange> {
    let text = context.output(outputs::CHANGES).unwrap_or("[]");
    serde_json::from_str(text).unwrap_or_default()
}

/// The version the environment had before.
pub(super) fn previous_version(context: &StepContext<'_>) -> Option<String> {
    version_changes(context).into_iter().map(|change| change.old).find(|old| !old.is_empty())
}

/// The text a pipeline adds to the message; the same whoever makes the commit.
fn commit_message<'c>(context: &'c StepContext<'_>) -> &'c str {
    let entry =
        context.sequence.iter().find(|entry| StepAction::parse(&entry.uses) == Some(StepAction::GitCommit));
    entry
        .and_then(|entry| entry.config.get("message"))
        .and_then(serde_json::Value::as_str)
        .unwrap_or_default()
}
