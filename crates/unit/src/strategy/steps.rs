//! The steps of a strategy, in order, with names that stay the same at every resume.

use slipway_go::time::Duration as GoDuration;
use slipway_graph::{Graph, GraphBuilder};
use slipway_problem::Problems;

use super::settings::{CanaryStep, StepPause, Strategy, StrategyKind};

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// `canary/2-weight-10`.
    pub(crate) id: String,
    pub(crate) action: StepAction,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepAction {
    /// Remembers what is there, and creates what the new pods need.
    Prepare,
    /// Brings the canary to a weight.
    Weight(u8),
    /// Runs the new color.
    Color,
    Pause(StepPause),
    Check,
    /// Switches the Service to the new color.
    Switch,
    /// Deploys the release as a whole. There is no way back from here on.
    Promote,
    /// Removes what only the rollout needed.
    Cleanup,
}

pub(crate) const PREPARE: &str = "prepare";
pub(crate) const PROMOTE: &str = "promote";

impl Strategy {
    /// The word all names of steps begin with.
    pub(crate) fn word(&self) -> &'static str {
        match self.kind {
            StrategyKind::Rolling => "rolling",
            StrategyKind::Canary(_) => "canary",
            StrategyKind::BlueGreen(_) => "bluegreen",
        }
    }

    pub(crate) fn step_id(&self, name: &str) -> String {
        format!("{}/{name}", self.word())
    }

    /// The steps in order.
    pub(crate) fn steps(&self) -> Vec<Step> {
        let step = |name: &str, action| Step { id: self.step_id(name), action };
        let mut steps = Vec::new();
        match &self.kind {
            StrategyKind::Rolling => {}
            StrategyKind::Canary(canary) => {
                steps.push(step(PREPARE, StepAction::Prepare));
                for (number, one) in canary.steps.iter().enumerate() {
                    let number = number + 1;
                    steps.push(match one {
                        CanaryStep::Weight(100) => continue,
                        CanaryStep::Weight(weight) => {
                            step(&format!("{number}-weight-{weight}"), StepAction::Weight(*weight))
                        }
                        CanaryStep::Pause(pause) => step(
                            &format!("{number}-pause-{}", pause_word(pause)),
                            StepAction::Pause(pause.clone()),
                        ),
                        CanaryStep::Check => step(&format!("{number}-check-verify"), StepAction::Check),
                    });
                }
            }
            StrategyKind::BlueGreen(settings) => {
                steps.push(step(PREPARE, StepAction::Prepare));
                steps.push(step("color", StepAction::Color));
                for number in 1..=settings.checks {
                    steps.push(step(&format!("{number}-check-verify"), StepAction::Check));
                }
                if !settings.auto_promote {
                    steps.push(step("approve", StepAction::Pause(StepPause::Manual)));
                }
                steps.push(step("switch", StepAction::Switch));
                if !settings.scale_down_delay.is_zero() {
                    steps.push(step("hold", StepAction::Pause(StepPause::For(settings.scale_down_delay))));
                }
            }
        }
        steps.push(step(PROMOTE, StepAction::Promote));
        if !matches!(self.kind, StrategyKind::Rolling) {
            steps.push(step("cleanup", StepAction::Cleanup));
        }
        steps
    }

    /// The steps as a graph: one after the other.
    pub(crate) fn graph(&self) -> Result<Graph<Step>, Problems> {
        let mut builder = GraphBuilder::new();
        let mut before: Option<String> = None;
        for step in self.steps() {
            let id = step.id.clone();
            builder.add(id.as_str(), step, before.iter().map(String::as_str));
            before = Some(id);
        }
        builder.build()
    }
}

pub(crate) fn pause_word(pause: &StepPause) -> String {
    match pause {
        StepPause::Manual => "manual".to_owned(),
        StepPause::For(time) => {
            let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
            GoDuration(nanos).to_string().replace('µ', "u")
        }
    }
}
