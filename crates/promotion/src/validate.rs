//! Checks a Pipeline: every problem at once, with the field it is in.

use std::collections::BTreeSet;

use crate::kinds::{DeploymentLayout, EnvironmentSpec, PipelineSpec, StepSpec};
use crate::step::StepAction;
use crate::translate::{EnvironmentOrder, OrderProblem};

/// Something wrong with a Pipeline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {fault}")]
pub struct PipelineProblem {
    /// The field, from the root of the object.
    pub field: String,
    pub fault: PipelineFault,
}

/// The kind of a problem.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PipelineFault {
    #[error(transparent)]
    Order(OrderProblem),
    #[error("`{step}` is no built-in step and has no address to call; set `config.url`")]
    StepWithoutAddress { step: String },
    #[error("two steps are named `{step}`; name one of them with `as`")]
    DuplicateStep { step: String },
    #[error("`{path}` must be a directory inside of the repository")]
    PathOutside { path: String },
    #[error("regions are two or more, each once")]
    Regions,
    #[error("the branch layout needs a branch prefix")]
    EmptyBranchPrefix,
}

impl PipelineFault {
    /// The reason conditions name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Order(problem) => problem.reason(),
            _ => "ValidationFailed",
        }
    }
}

/// Checks a Pipeline.
pub fn validate_pipeline(spec: &PipelineSpec) -> Vec<PipelineProblem> {
    let mut problems = Vec::new();
    if let Err(found) = EnvironmentOrder::of(spec) {
        let problem = |fault| PipelineProblem {
            field: "spec.environments".to_owned(),
            fault: PipelineFault::Order(fault),
        };
        problems.extend(found.into_iter().map(problem));
    }
    let uses_branches = spec.git.layout == DeploymentLayout::Branch
        || spec.environments.iter().any(|environment| environment.layout == Some(DeploymentLayout::Branch));
    if uses_branches && spec.git.branch_prefix.is_empty() {
        let field = "spec.git.branchPrefix".to_owned();
        problems.push(PipelineProblem { field, fault: PipelineFault::EmptyBranchPrefix });
    }
    for (index, environment) in spec.environments.iter().enumerate() {
        let field = format!("spec.environments[{index}]");
        check_environment(environment, &field, &mut problems);
    }
    problems
}

fn check_environment(environment: &EnvironmentSpec, field: &str, problems: &mut Vec<PipelineProblem>) {
    let mut say =
        |part: &str, fault| problems.push(PipelineProblem { field: format!("{field}.{part}"), fault });
    if let Some(path) = &environment.path
        && (path.starts_with('/') || path.split('/').any(|part| part == ".."))
    {
        say("path", PipelineFault::PathOutside { path: path.clone() });
    }
    let distinct: BTreeSet<&String> = environment.regions.iter().collect();
    if environment.regions.len() == 1 || distinct.len() < environment.regions.len() {
        say("regions", PipelineFault::Regions);
    }
    let mut names = BTreeSet::new();
    for (index, step) in environment.steps.iter().enumerate() {
        let name = step.name.as_deref().unwrap_or(&step.uses);
        if !names.insert(name) {
            say(&format!("steps[{index}]"), PipelineFault::DuplicateStep { step: name.to_owned() });
        }
        if StepAction::parse(&step.uses).is_none() && !has_address(step) {
            say(
                &format!("steps[{index}].uses"),
                PipelineFault::StepWithoutAddress { step: step.uses.clone() },
            );
        }
    }
}

fn has_address(step: &StepSpec) -> bool {
    let configured = step.config.get("url").and_then(|url| url.as_str()).is_some_and(|url| !url.is_empty());
    configured || step.webhook.as_ref().is_some_and(|webhook| !webhook.url.is_empty())
}
