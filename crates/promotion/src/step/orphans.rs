//! Open pull requests whose steps are gone: closed, with the reason.

use slipway_cluster::ListOptions;
use slipway_git::BranchName;
use slipway_scm::{ErrorClass, PullRequest, ScmError, ScmProvider, StepMarker};

use crate::Requeue;
use crate::kinds::{
    self, BundleSpec, KindError, Metadata, Pipeline, PipelineSpec, PromotionStep, PromotionStepSpec,
    Resource, ScmProvider as ProviderName, labels,
};

use super::finish::CLOSE_MARKER;
use super::outcome::StepError;
use super::reconciler::StepReconciler;

/// The time before a server that did not answer is asked again.
const RETRY: std::time::Duration = std::time::Duration::from_secs(5 * 60);

impl StepReconciler {
    /// Closes the pull requests of a pipeline that no step is behind any more: the process ended between the end of a step
    /// and its clean-up, or somebody took the finalizer away.
    ///
    /// Only those that carry the id of this pipeline: another installation may work on the same repository.
    pub async fn close_orphans(&self, namespace: &str, pipeline: &str) -> Result<Requeue, KindError> {
        let shared = &*self.shared;
        let found = kinds::get::<PipelineSpec>(&shared.cluster, namespace, pipeline).await?;
        let Some(pipeline) = found.filter(|pipeline| !pipeline.metadata.is_being_deleted()) else {
            return Ok(Requeue::Done);
        };
        if pipeline.spec.git.provider == ProviderName::None || shared.options.promotion.shard.is_some() {
            return Ok(Requeue::Done);
        }
        let later = Requeue::after(shared.clock.now(), RETRY);
        match self.close_orphans_of(&pipeline).await {
            Ok(()) => Ok(Requeue::Done),
            Err(StepError::Trouble(trouble)) if trouble.reason == "CredentialsMissing" => Ok(Requeue::Done),
            Err(StepError::Trouble(_) | StepError::Stopped) => Ok(later),
            Err(error) => {
                tracing::debug!(pipeline = %pipeline.reference(), %error, "orphaned pull requests stay");
                Ok(Requeue::Done)
            }
        }
    }

    async fn close_orphans_of(&self, pipeline: &Pipeline) -> Result<(), StepError> {
        let shared = &*self.shared;
        let spec = PromotionStepSpec { git: pipeline.spec.git.clone(), ..PromotionStepSpec::default() };
        let place = Resource::new(Metadata::named(pipeline.namespace(), pipeline.name()), spec);
        let access = shared.connect(&place).await?;
        let Some(scm) = &access.scm else { return Ok(()) };
        let open = match scm.list_open(&format!("kardinal/{}", pipeline.name())).await {
            Err(error) if !matches!(error.class(), ErrorClass::Transient { .. }) => return Ok(()),
            result => result?,
        };
        let owned: Vec<(PullRequest, StepMarker)> = open
            .into_iter()
            .filter_map(|pull| StepMarker::find(&pull.body).map(|marker| (pull, marker)))
            .filter(|(pull, marker)| {
                marker.owner.as_deref() == Some(&pipeline.metadata.uid)
                    && pull.head_branch.starts_with("kardinal/")
            })
            .collect();
        if owned.is_empty() {
            return Ok(());
        }
        let options = ListOptions::with_labels(format!(
            "{}={}",
            labels::PIPELINE,
            labels::label_value(pipeline.name())
        ));
        let namespace = Some(pipeline.namespace());
        let steps = kinds::list::<PromotionStepSpec>(&shared.cluster, namespace, &options).await?;
        let bundles = kinds::list::<BundleSpec>(&shared.cluster, namespace, &options).await?;
        for (pull, marker) in owned {
            let is_behind = |step: &PromotionStep| {
                step.metadata.uid == marker.step || step.spec.bundle_ref == marker.bundle
            };
            // A bundle that goes on gets its steps back.
            let goes_on =
                bundles.iter().any(|bundle| bundle.name() == marker.bundle && !bundle.phase().is_terminal());
            if steps.iter().any(is_behind) || goes_on {
                continue;
            }
            if shared.stop.is_cancelled() {
                return Err(StepError::Stopped);
            }
            close(&**scm, &pull).await?;
        }
        Ok(())
    }
}

async fn close(scm: &dyn ScmProvider, pull: &PullRequest) -> Result<(), ScmError> {
    let text = format!("{CLOSE_MARKER}\nClosed: the promotion behind this pull request is gone");
    scm.upsert_comment(pull.number, CLOSE_MARKER, &text).await?;
    scm.close(pull.number).await?;
    match BranchName::parse(&pull.head_branch) {
        Ok(branch) => scm.delete_branch(&branch).await,
        Err(_) => Ok(()),
    }
}
