//! The drift of a pipeline's environments: looked for again and again, told in the pipeline's status, never corrected.

use std::collections::BTreeMap;

use slipway_cluster::ListOptions;
use slipway_git::CommitId;

use crate::Requeue;
use crate::health::{
    BranchHistory, DriftExpectation, DriftReport, GitState, HealthProof, HealthTarget, find_drift,
};
use crate::kinds::{
    self, BundleSpec, DeploymentLayout, HealthObservation, HealthType, KindError, KindSpec as _,
    PipelineEnvironmentStatus, PipelineSpec, PromotionStep, PromotionStepSpec, StepState, labels,
};

use super::context::StepBranches;
use super::edit::environment_path;
use super::outcome::StepError;
use super::reconciler::{StepReconciler, StepShared};
use super::run::sequence_of;

/// The ends of branches, by repository and name, as they were found in one look.
type BranchTips = BTreeMap<(String, String), Option<CommitId>>;

impl StepReconciler {
    /// Compares every environment of a pipeline with what was promoted to it last.
    pub async fn look_for_drift(&self, namespace: &str, pipeline: &str) -> Result<Requeue, KindError> {
        let shared = &*self.shared;
        let Some(interval) = shared.options.promotion.drift_interval else { return Ok(Requeue::Done) };
        let found = kinds::get::<PipelineSpec>(&shared.cluster, namespace, pipeline).await?;
        let Some(pipeline) = found.filter(|pipeline| !pipeline.metadata.is_being_deleted()) else {
            return Ok(Requeue::Done);
        };
        let selector = format!("{}={}", labels::PIPELINE, labels::label_value(pipeline.name()));
        let options = ListOptions::with_labels(selector);
        let steps = kinds::list::<PromotionStepSpec>(&shared.cluster, Some(namespace), &options).await?;
        let place = pipeline.reference().to_string();
        shared
            .drift_seen()
            .retain(|(known, uid), _| *known != place || steps.iter().any(|step| step.metadata.uid == *uid));
        let mut status = pipeline.status.clone();
        // Environments of one branch ask its server once.
        let mut tips = BranchTips::new();
        for environment in &mut status.environments {
            let own: Vec<&PromotionStep> =
                steps.iter().filter(|step| step.spec.environment == environment.name).collect();
            // While something is on its way nobody can tell what should be there.
            if own.iter().any(|step| !step.state().is_terminal() && step.status.started_at.is_some()) {
                continue;
            }
            let verified = own.iter().filter(|step| step.state() == StepState::Verified);
            let Some(newest) = verified.clone().max_by_key(|step| step.status.verified_at) else { continue };
            // One for each region.
            for step in verified.filter(|step| step.spec.bundle_ref == newest.spec.bundle_ref) {
                if shared.is_ours(step) {
                    shared.compare(step, environment, &mut tips).await?;
                }
            }
        }
        kinds::patch_status(&shared.cluster, &pipeline, &status).await?;
        Ok(Requeue::after(shared.clock.now(), interval))
    }
}

impl StepShared {
    /// Compares one environment with the step that was verified there last.
    async fn compare(
        &self,
        step: &PromotionStep,
        known: &mut PipelineEnvironmentStatus,
        tips: &mut BranchTips,
    ) -> Result<(), KindError> {
        let bundle = kinds::get::<BundleSpec>(&self.cluster, step.namespace(), &step.spec.bundle_ref).await?;
        let Some(bundle) = bundle else { return Ok(()) };
        let images = bundle.spec.artifacts.images.clone();
        let sequence = sequence_of(step, &bundle);
        let branches = StepBranches::of(step, &bundle, &sequence, &step.status.outputs).ok();
        let access = self.connect(step).await.ok();
        let history = access.zip(branches).map(|(access, branches)| BranchHistory {
            repository: access.repository.clone(),
            branch: branches.base,
        });
        let proof = HealthProof::of(step, &images);
        let revision = proof.target_revision.clone();
        let git = match &history {
            // A server that does not answer says nothing about drift.
            Some(history) => changed_files(step, history, revision.as_deref(), tips).await.ok().flatten(),
            None => None,
        };
        let observation = match step.spec.health.adapter {
            Some(HealthType::None) => None,
            _ => Some(self.observe(step, proof, history.as_ref()).await),
        };
        let before = known.drift.then(|| DriftReport { since: known.drift_since, details: Vec::new() });
        let expected = DriftExpectation { images, revision };
        let now = self.clock.now();
        let report = find_drift(&expected, git.as_ref(), observation.as_ref(), before.as_ref(), now);
        known.drift = report.is_unreconciled();
        known.drift_since = match known.drift {
            true => known.drift_since.or(report.since),
            false => None,
        };
        known.drift_details = report.details.into_iter().map(|detail| detail.message).collect();
        Ok(())
    }

    /// Looks at health; the moment a level began is kept in memory.
    async fn observe(
        &self,
        step: &PromotionStep,
        mut proof: HealthProof<'_>,
        history: Option<&BranchHistory>,
    ) -> HealthObservation {
        let pipeline = PipelineSpec::at(step.namespace(), &step.spec.pipeline);
        let key = (pipeline.to_string(), step.metadata.uid.clone());
        let known = self.drift_seen().get(&key).cloned();
        proof.before = known.as_ref().or(step.status.health.as_ref());
        proof.history = history.map(|history| history as _);
        let report = self.health.check(&HealthTarget::of(step), &proof).await;
        self.drift_seen().insert(key, report.observation.clone());
        report.observation
    }
}

/// The files of an environment that changed since it was verified; `None` where that cannot be told.
async fn changed_files(
    step: &PromotionStep,
    history: &BranchHistory,
    revision: Option<&str>,
    tips: &mut BranchTips,
) -> Result<Option<GitState>, StepError> {
    let Some(Ok(from)) = revision.map(CommitId::parse) else { return Ok(None) };
    let BranchHistory { repository, branch } = history;
    let key = (repository.address().as_str().to_owned(), branch.to_string());
    let tip = match tips.get(&key) {
        Some(known) => known.clone(),
        None => {
            let tip = repository.remote_head(branch).await?;
            tips.insert(key, tip.clone());
            tip
        }
    };
    let Some(tip) = tip else { return Ok(None) };
    if tip == from {
        return Ok(Some(GitState::default()));
    }
    let path = environment_path(&step.spec)?;
    let is_own = |file: &String| match step.spec.layout {
        DeploymentLayout::Branch => true,
        DeploymentLayout::Directory => path.is_root() || file.starts_with(&format!("{path}/")),
    };
    let files = repository.changed_files(branch, &from, &tip).await?;
    let files = files.iter().map(|file| file.to_string_lossy().into_owned()).filter(is_own).collect();
    Ok(Some(GitState { images: Vec::new(), changed_files: files }))
}
