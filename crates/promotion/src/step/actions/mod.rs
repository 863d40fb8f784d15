//! The built-in steps, one file each.
//!
//! A step either edits files of a work tree, which can be replayed on another base ([`StepAction::edits_files`]), or does
//! something outside, found again by looking there: a commit by its trailer, a pull request by its branch.

mod argocd_set_image;
mod config_merge;
mod custom;
mod git_clone;
mod git_commit;
mod git_push;
mod health_check;
mod helm_set_image;
mod helm_template;
mod integration_test;
mod kustomize_build;
mod kustomize_set_image;
mod open_pr;
mod rendered;
mod replace_image;
mod verify_image;
mod wait_for_merge;

pub(super) use git_commit::{commit_request, version_changes};

use super::context::StepContext;
use super::edit::{EditInputs, EditNote, EditTrees};
use super::outcome::{StepError, StepProgressed};

/// A built-in step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepAction {
    GitClone,
    KustomizeSetImage,
    KustomizeBuild,
    HelmSetImage,
    HelmTemplate,
    ReplaceImage,
    ConfigMerge,
    GitCommit,
    GitPush,
    OpenPr,
    WaitForMerge,
    HealthCheck,
    VerifyImage,
    IntegrationTest,
    ArgoCdSetImage,
}

impl StepAction {
    /// Every built-in step.
    pub const ALL: [Self; 15] = [
        Self::GitClone,
        Self::KustomizeSetImage,
        Self::KustomizeBuild,
        Self::HelmSetImage,
        Self::HelmTemplate,
        Self::ReplaceImage,
        Self::ConfigMerge,
        Self::GitCommit,
        Self::GitPush,
        Self::OpenPr,
        Self::WaitForMerge,
        Self::HealthCheck,
        Self::VerifyImage,
        Self::IntegrationTest,
        Self::ArgoCdSetImage,
    ];

    /// Finds a built-in step by the name pipelines use.
    pub fn parse(uses: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.name() == uses)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::GitClone => "git-clone",
            Self::KustomizeSetImage => "kustomize-set-image",
            Self::KustomizeBuild => "kustomize-build",
            Self::HelmSetImage => "helm-set-image",
            Self::HelmTemplate => "helm-template",
            Self::ReplaceImage => "replace-image",
            Self::ConfigMerge => "config-merge",
            Self::GitCommit => "git-commit",
            Self::GitPush => "git-push",
            Self::OpenPr => "open-pr",
            Self::WaitForMerge => "wait-for-merge",
            Self::HealthCheck => "health-check",
            Self::VerifyImage => "verify-image",
            Self::IntegrationTest => "integration-test",
            Self::ArgoCdSetImage => "argocd-set-image",
        }
    }

    /// Tells that the step changes files of the work tree and nothing else.
    pub(super) fn edits_files(self) -> bool {
        matches!(
            self,
            Self::KustomizeSetImage
                | Self::KustomizeBuild
                | Self::HelmSetImage
                | Self::HelmTemplate
                | Self::ReplaceImage
                | Self::ConfigMerge
        )
    }

    /// Tells that a paused pipeline holds the step: it changes something outside.
    pub(super) fn is_held_by_pause(self) -> bool {
        matches!(self, Self::GitPush | Self::OpenPr | Self::IntegrationTest | Self::ArgoCdSetImage)
    }

    /// Tells that the step reads files beyond its environment's directory.
    pub(super) fn reads_whole_repository(self) -> bool {
        matches!(self, Self::KustomizeBuild | Self::HelmTemplate)
    }

    /// Changes files, the same way every time.
    pub(super) async fn edit(self, inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
        match self {
            Self::KustomizeSetImage => kustomize_set_image::edit(inputs, trees),
            Self::KustomizeBuild => kustomize_build::edit(inputs, trees),
            Self::HelmSetImage => helm_set_image::edit(inputs, trees),
            Self::HelmTemplate => helm_template::edit(inputs, trees),
            Self::ReplaceImage => replace_image::edit(inputs, trees),
            Self::ConfigMerge => config_merge::edit(inputs, trees).await,
            _ => Ok(EditNote::default()),
        }
    }

    /// Carries the step out, or finds that it was.
    pub(super) async fn run(self, context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
        match self {
            Self::GitClone => git_clone::run(context).await,
            Self::KustomizeSetImage
            | Self::KustomizeBuild
            | Self::HelmSetImage
            | Self::HelmTemplate
            | Self::ReplaceImage
            | Self::ConfigMerge => super::workspace::run_edit(context).await,
            Self::GitCommit => git_commit::run(context).await,
            Self::GitPush => git_push::run(context).await,
            Self::OpenPr => open_pr::run(context).await,
            Self::WaitForMerge => wait_for_merge::run(context).await,
            Self::HealthCheck => health_check::run(context).await,
            Self::VerifyImage => verify_image::run(context).await,
            Self::IntegrationTest => integration_test::run(context).await,
            Self::ArgoCdSetImage => argocd_set_image::run(context).await,
        }
    }
}

/// Calls the address of a step that is not built in.
pub(super) async fn run_custom(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    custom::run(context).await
}
