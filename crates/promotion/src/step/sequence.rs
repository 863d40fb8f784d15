//! The usual sequence of an environment: what is done when a pipeline lists no steps.

use crate::kinds::{ApprovalMode, BundleType, DeploymentLayout, StepSpec, UpdateStrategy};

use super::actions::StepAction;

/// Everything the usual sequence depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceInputs {
    pub bundle: BundleType,
    pub strategy: UpdateStrategy,
    pub approval: ApprovalMode,
    /// Opens a pull request also where nobody has to approve.
    pub opens_pull_request: bool,
    pub layout: DeploymentLayout,
    pub renders_manifests: bool,
}

/// Returns the usual sequence of an environment.
pub fn default_sequence(inputs: SequenceInputs) -> Vec<StepSpec> {
    use StepAction as Action;
    let mut actions = Vec::new();
    if inputs.strategy == UpdateStrategy::ArgoCd && !inputs.bundle.has_config() {
        actions.extend([Action::ArgoCdSetImage, Action::HealthCheck]);
        return named(&actions);
    }
    actions.push(Action::GitClone);
    if inputs.bundle.has_config() {
        actions.push(Action::ConfigMerge);
    }
    if inputs.bundle.has_images() {
        actions.push(match inputs.strategy {
            UpdateStrategy::Helm => Action::HelmSetImage,
            UpdateStrategy::Replace => Action::ReplaceImage,
            // The validation of pipelines refuses `oci`, which has no step yet.
            UpdateStrategy::Kustomize | UpdateStrategy::ArgoCd | UpdateStrategy::Oci => {
                Action::KustomizeSetImage
            }
        });
    }
    if inputs.renders_manifests || inputs.layout == DeploymentLayout::Branch {
        actions.push(match inputs.strategy {
            UpdateStrategy::Helm => Action::HelmTemplate,
            _ => Action::KustomizeBuild,
        });
    }
    actions.extend([Action::GitCommit, Action::GitPush]);
    if inputs.approval == ApprovalMode::PrReview || inputs.opens_pull_request {
        actions.extend([Action::OpenPr, Action::WaitForMerge]);
    }
    actions.push(Action::HealthCheck);
    named(&actions)
}

fn named(actions: &[StepAction]) -> Vec<StepSpec> {
    actions.iter().map(|action| StepSpec::named(action.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual() -> SequenceInputs {
        SequenceInputs {
            bundle: BundleType::Image,
            strategy: UpdateStrategy::Kustomize,
            approval: ApprovalMode::Auto,
            opens_pull_request: false,
            layout: DeploymentLayout::Directory,
            renders_manifests: false,
        }
    }

    #[test]
    fn the_usual_sequences_are_those_of_the_design() {
        let review = SequenceInputs { approval: ApprovalMode::PrReview, ..usual() };
        for (inputs, expected) in [
            (usual(), "git-clone kustomize-set-image git-commit git-push health-check"),
            (
                SequenceInputs { opens_pull_request: true, ..usual() },
                "git-clone kustomize-set-image git-commit git-push open-pr wait-for-merge health-check",
            ),
            (review, "git-clone kustomize-set-image git-commit git-push open-pr wait-for-merge health-check"),
            (
                SequenceInputs { strategy: UpdateStrategy::Helm, ..review },
                "git-clone helm-set-image git-commit git-push open-pr wait-for-merge health-check",
            ),
            (
                SequenceInputs { strategy: UpdateStrategy::Replace, ..usual() },
                "git-clone replace-image git-commit git-push health-check",
            ),
            (
                SequenceInputs { bundle: BundleType::Config, ..usual() },
                "git-clone config-merge git-commit git-push health-check",
            ),
            (
                SequenceInputs { bundle: BundleType::Mixed, ..usual() },
                "git-clone config-merge kustomize-set-image git-commit git-push health-check",
            ),
            (
                SequenceInputs { layout: DeploymentLayout::Branch, ..review },
                "git-clone kustomize-set-image kustomize-build git-commit git-push open-pr wait-for-merge health-check",
            ),
            (SequenceInputs { strategy: UpdateStrategy::ArgoCd, ..usual() }, "argocd-set-image health-check"),
        ] {
            let names: Vec<String> = default_sequence(inputs).into_iter().map(|step| step.uses).collect();
            assert_eq!(names.join(" "), expected, "{inputs:?}");
        }
    }
}
