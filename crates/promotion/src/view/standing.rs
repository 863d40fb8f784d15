//! How each environment stands with a bundle, and every reason why it does not move.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use slipway_kro::NodeState;

use super::age_text;
use super::hold::Hold;
use super::survey::{AgentHeartbeat, PipelineSurvey};
use crate::agents::AGENT_OFFLINE;
use crate::bundle::covered_environments;
use crate::gate::{GateEvaluator, GateLine, check_gate, gate_name, write_gates};
use crate::kinds::{
    Bundle, BundlePhase, ConditionStatus, GatePhase, PolicyGate, PromotionStep, StepProgressState, StepState,
    find_condition, labels,
};
use crate::translate::{EnvironmentOrder, applying};

/// The environments of a pipeline, in order.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineStanding {
    pub pipeline: String,
    pub namespace: String,
    pub environments: Vec<EnvironmentStanding>,
}

/// One environment and the bundle on its way into it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentStanding {
    pub pipeline: String,
    pub environment: String,
    /// The bundle that is asked about; none where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bundle: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that runs there now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_version: Option<String>,
    pub gates: Vec<GateLine>,
    pub steps: Vec<StepStanding>,
    pub holds: Vec<Hold>,
    pub result: StandingVerdict,
    #[serde(skip)]
    now: Timestamp,
}

/// A step on its way.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepStanding {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    pub state: StepState,
    /// The action that runs, with its place: `open-pr (4 of 6)`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(rename = "prURL", skip_serializing_if = "Option::is_none")]
    pub pr_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What all of it comes to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum StandingVerdict {
    /// There is no bundle for the environment.
    Idle,
    /// All gates are open.
    Pass,
    /// Gates are closed.
    Blocked {
        by: Vec<String>,
    },
    /// Something other than a gate keeps it.
    Held {
        by: Vec<String>,
    },
    /// An environment before is not verified.
    NotReached {
        environment: String,
        state: String,
    },
    /// The step is at work.
    InProgress {
        state: StepState,
        message: Option<String>,
    },
    Verified {
        since: Option<Timestamp>,
    },
    Failed {
        reason: String,
        message: String,
    },
    /// The bundle leaves the environment out.
    Skipped,
    /// The bundle is not meant for the environment.
    NotMeant,
}

impl PipelineSurvey {
    /// How every environment stands.
    pub fn standing(&self, bundle: Option<&Bundle>) -> PipelineStanding {
        let evaluator = GateEvaluator::new();
        PipelineStanding {
            pipeline: self.pipeline.name().to_owned(),
            namespace: self.pipeline.namespace().to_owned(),
            environments: self
                .environment_names()
                .map(|environment| self.environment_standing_with(environment, bundle, &evaluator))
                .collect(),
        }
    }

    /// How one environment stands with a bundle; with the one on its way into it when none is named.
    pub fn environment_standing(&self, environment: &str, bundle: Option<&Bundle>) -> EnvironmentStanding {
        self.environment_standing_with(environment, bundle, &GateEvaluator::new())
    }

    fn environment_standing_with(
        &self,
        environment: &str,
        bundle: Option<&Bundle>,
        evaluator: &GateEvaluator,
    ) -> EnvironmentStanding {
        let bundle = bundle.or_else(|| self.candidate(environment));
        let (gates, steps, mut holds, result) = match bundle {
            None => (Vec::new(), Vec::new(), self.pipeline_holds(), StandingVerdict::Idle),
            Some(bundle) => {
                let gates = self.gate_lines(environment, bundle, evaluator);
                let steps: Vec<StepStanding> =
                    self.steps_of(bundle.name(), environment).map(step_standing).collect();
                let mut holds = self.pipeline_holds();
                holds.extend(self.bundle_holds(bundle));
                holds.extend(self.environment_holds(environment, bundle, evaluator));
                let result = self.verdict(environment, bundle, &gates, &holds);
                (gates, steps, holds, result)
            }
        };
        // What has come to its end is held by nothing.
        if matches!(
            result,
            StandingVerdict::Verified { .. } | StandingVerdict::Skipped | StandingVerdict::NotMeant
        ) {
            holds.clear();
        }
        let current = crate::rollback::current_bundle(environment, &self.bundles);
        EnvironmentStanding {
            pipeline: self.pipeline.name().to_owned(),
            environment: environment.to_owned(),
            bundle: bundle.map(|bundle| bundle.name().to_owned()),
            version: bundle.map(|bundle| bundle.spec.version()),
            current_version: current.map(|bundle| bundle.spec.version()),
            gates,
            steps,
            holds,
            result,
            now: self.now,
        }
    }

    /// The bundle an environment waits for: the newest that is under way and not verified there, else the newest that was there.
    fn candidate(&self, environment: &str) -> Option<&Bundle> {
        let record = |bundle: &Bundle| bundle.status.environments.get(environment).and_then(|one| one.state);
        let covers = |bundle: &Bundle| covered_environments(&self.pipeline, bundle).contains(environment);
        let under_way = self.bundles.iter().find(|bundle| {
            !bundle.phase().is_terminal() && covers(bundle) && record(bundle) != Some(StepState::Verified)
        });
        let newest = || self.bundles.iter().find(|bundle| record(bundle).is_some());
        let refused = || {
            let newest = self.bundles.first()?;
            let is_refused = matches!(newest.phase(), BundlePhase::Failed | BundlePhase::SkipDenied);
            (is_refused && newest.status.graph_ref.is_none()).then_some(newest)
        };
        under_way.or_else(refused).or_else(newest)
    }

    /// The gates of an environment: those of the bundle as they were last evaluated, and those still to be created.
    fn gate_lines(&self, environment: &str, bundle: &Bundle, evaluator: &GateEvaluator) -> Vec<GateLine> {
        let is_own = |gate: &&PolicyGate| {
            gate.spec.environment.as_deref() == Some(environment)
                && gate.spec.bundle_ref.as_deref() == Some(bundle.name())
        };
        let instances: Vec<&PolicyGate> = self.gates.iter().filter(is_own).collect();
        let mut lines: Vec<GateLine> =
            instances.iter().map(|gate| GateLine::from_status(gate, evaluator, self.now)).collect();
        if bundle.phase().is_terminal() {
            return sorted(lines);
        }
        for (scope, template) in
            applying(&self.templates, environment, &self.pipeline.metadata.labels, &self.policy_namespaces)
        {
            // Gates that are newer than the bundle do not join it.
            let is_older = template.metadata.created() <= bundle.metadata.created();
            let has_instance = instances.iter().any(|gate| gate_name(gate) == template.name());
            if is_older && !has_instance {
                lines.push(GateLine {
                    name: template.name().to_owned(),
                    scope,
                    phase: GatePhase::Pending,
                    detail: "not created yet".to_owned(),
                    eta: None,
                });
            }
        }
        sorted(lines)
    }

    fn pipeline_holds(&self) -> Vec<Hold> {
        let mut holds = Vec::new();
        if let Some(freeze) = &self.freeze {
            holds.push(Hold::Paused { gate: freeze.gate.clone(), reason: freeze.reason.clone() });
        }
        let problems = crate::validate::validate_pipeline(&self.pipeline.spec);
        for problem in problems {
            let (reason, message) = (problem.fault.reason().to_owned(), problem.to_string());
            holds.push(Hold::PipelineInvalid { reason, message });
        }
        if let Some(secret) = &self.missing_secret {
            holds.push(Hold::SecretMissing { secret: secret.to_string() });
        }
        let unread = self.unread_namespaces.iter();
        holds.extend(unread.map(|namespace| Hold::GatesUnreadable { namespace: namespace.clone() }));
        holds
    }

    fn bundle_holds(&self, bundle: &Bundle) -> Vec<Hold> {
        let status = &bundle.status;
        let said = |kind: &str| find_condition(&status.conditions, kind);
        let ready = said("Ready").map(|ready| (ready.reason.clone(), ready.message.clone()));
        let mut holds = Vec::new();
        match bundle.phase() {
            BundlePhase::Available if status.phase.is_none() => {
                holds.push(Hold::NoController { since: bundle.metadata.creation_timestamp });
            }
            BundlePhase::Available => {
                let (reason, message) = ready.unwrap_or_default();
                holds.push(Hold::BundleWaiting { reason, message });
            }
            BundlePhase::SkipDenied => {
                let (reason, message) = ready.unwrap_or_default();
                holds.push(Hold::BundleRefused { reason, message });
            }
            BundlePhase::Failed if status.graph_ref.is_none() => {
                let (reason, message) = ready.unwrap_or_default();
                holds.push(Hold::BundleRefused { reason, message });
            }
            BundlePhase::Superseded => {
                let by = status.superseded_by.clone().unwrap_or_default();
                holds.push(Hold::Superseded { by });
            }
            BundlePhase::Promoting => holds.extend(self.graph_holds(bundle)),
            BundlePhase::Failed | BundlePhase::Verified => {}
        }
        holds
    }

    fn graph_holds(&self, bundle: &Bundle) -> Vec<Hold> {
        let mut holds = Vec::new();
        let Some(graph) = self.graphs.get(bundle.name()) else {
            let graph = bundle.status.graph_ref.clone().unwrap_or_default();
            return vec![Hold::GraphMissing { graph }];
        };
        if let Some(silent) = find_condition(&bundle.status.conditions, "GraphResponding")
            .filter(|condition| condition.status == ConditionStatus::False)
        {
            holds.push(Hold::GraphSilent { message: silent.message.clone() });
        }
        let refused = graph.status.conditions.iter().find(|condition| {
            condition.status == ConditionStatus::False
                && matches!(condition.kind.as_str(), "Accepted" | "Compiled" | "GraphAccepted")
        });
        if let Some(refused) = refused {
            let (reason, message) = (refused.reason.clone(), refused.message.clone());
            holds.push(Hold::GraphRefused { reason, message });
        }
        let failed = graph
            .status
            .nodes
            .iter()
            .filter(|node| node.state.is_failure() && node.state != NodeState::Blocked);
        holds.extend(failed.map(|node| Hold::NodeFailed {
            node: node.id.clone(),
            state: format!("{:?}", node.state),
            message: if node.message.is_empty() { node.reason.clone() } else { node.message.clone() },
        }));
        holds
    }

    fn environment_holds(&self, environment: &str, bundle: &Bundle, evaluator: &GateEvaluator) -> Vec<Hold> {
        let mut holds = Vec::new();
        let spec = self.pipeline.spec.environments.iter().find(|known| known.name == environment);
        if let Some(shard) = spec.and_then(|spec| spec.shard.as_ref()) {
            match self.agents.get(shard) {
                Some(AgentHeartbeat::Offline { last_seen }) => {
                    holds.push(Hold::AgentOffline { shard: shard.clone(), last_seen: *last_seen });
                }
                Some(AgentHeartbeat::Online) => {}
                // Whoever may not read Leases is told what the controller found.
                Some(AgentHeartbeat::Unknown) | None => {
                    let missed = self
                        .steps_of(bundle.name(), environment)
                        .find_map(|step| find_condition(&step.status.conditions, AGENT_OFFLINE));
                    holds.extend(missed.map(|missed| Hold::StepWaiting {
                        reason: AGENT_OFFLINE.to_owned(),
                        message: missed.message.clone(),
                    }));
                }
            }
        }
        for step in self.steps_of(bundle.name(), environment).filter(|step| !step.state().is_terminal()) {
            holds.extend(step_hold(step));
        }
        if bundle.phase().is_terminal() {
            return holds;
        }
        // A template that cannot be compiled closes every instance of it.
        for (_, gate) in
            applying(&self.templates, environment, &self.pipeline.metadata.labels, &self.policy_namespaces)
        {
            let errors = check_gate(evaluator, gate);
            let error = errors.iter().find(|finding| finding.severity == crate::gate::FindingSeverity::Error);
            if let Some(error) = error {
                let message = format!("CompileError: {}", error.message);
                holds.push(Hold::GateBroken { gate: gate.name().to_owned(), message });
            }
        }
        holds
    }

    /// The environments a bundle passes before another, by its Graph or by the pipeline.
    fn upstreams(&self, environment: &str, bundle: &Bundle) -> Vec<String> {
        if let Some(graph) = self.graphs.get(bundle.name())
            && let Some(found) = graph.environments.iter().find(|known| known.name == environment)
        {
            return found.upstreams.clone();
        }
        let covered = covered_environments(&self.pipeline, bundle);
        let Ok(order) = EnvironmentOrder::of(&self.pipeline.spec) else { return Vec::new() };
        let known = order.upstreams(environment).iter().map(|name| (*name).to_owned());
        known.filter(|name| covered.contains(name)).collect()
    }

    /// The state of a bundle in an environment: of its steps, or as its record has it.
    fn state_of(&self, environment: &str, bundle: &Bundle) -> Option<StepState> {
        let steps: Vec<StepState> =
            self.steps_of(bundle.name(), environment).map(PromotionStep::state).collect();
        let worst = steps.iter().copied().find(|state| *state != StepState::Verified);
        let recorded = bundle.status.environments.get(environment).and_then(|record| record.state);
        worst.or(steps.first().copied()).or(recorded)
    }

    fn verdict(
        &self,
        environment: &str,
        bundle: &Bundle,
        gates: &[GateLine],
        holds: &[Hold],
    ) -> StandingVerdict {
        let record = bundle.status.environments.get(environment);
        if record.is_some_and(|record| record.skipped) {
            return StandingVerdict::Skipped;
        }
        let state = self.state_of(environment, bundle);
        if state == Some(StepState::Verified) {
            return StandingVerdict::Verified { since: record.and_then(|record| record.verified_at) };
        }
        if let Some(failed) = state.filter(|state| state.is_failure() || *state == StepState::Cancelled) {
            let step = self.steps_of(bundle.name(), environment).find(|step| step.state() == failed);
            let reason = step.and_then(|step| step.status.reason.clone());
            let reason = reason.or_else(|| record.and_then(|record| record.reason.clone()));
            let message = step.and_then(|step| step.status.message.clone()).unwrap_or_default();
            return StandingVerdict::Failed {
                reason: reason.unwrap_or_else(|| format!("{failed:?}")),
                message,
            };
        }
        let blocking: Vec<String> =
            holds.iter().filter(|hold| hold.blocks()).map(|hold| hold.word().to_owned()).collect();
        let is_refused = matches!(bundle.phase(), BundlePhase::Failed | BundlePhase::SkipDenied)
            && bundle.status.graph_ref.is_none();
        // Gates do not matter to a bundle that has not begun.
        if is_refused || (bundle.phase() == BundlePhase::Available && !blocking.is_empty()) {
            return StandingVerdict::Held { by: blocking };
        }
        if !covered_environments(&self.pipeline, bundle).contains(environment) {
            return StandingVerdict::NotMeant;
        }
        let waiting = self.upstreams(environment, bundle).into_iter().find_map(|upstream| {
            let state = self.state_of(&upstream, bundle);
            let state_text = state.map_or_else(|| "not started".to_owned(), |state| format!("{state:?}"));
            (state != Some(StepState::Verified)).then_some((upstream, state_text))
        });
        if let Some((environment, state)) = waiting {
            return StandingVerdict::NotReached { environment, state };
        }
        let closed: Vec<String> =
            gates.iter().filter(|gate| !gate.is_open()).map(|gate| gate.name.clone()).collect();
        let is_started = state.is_some_and(|state| state != StepState::Pending);
        match (closed.is_empty() || is_started, blocking.is_empty()) {
            (false, _) => StandingVerdict::Blocked { by: closed },
            (true, false) => StandingVerdict::Held { by: blocking },
            (true, true) => match state.filter(|_| is_started) {
                None => StandingVerdict::Pass,
                Some(state) => {
                    let step = self.steps_of(bundle.name(), environment).find(|step| step.state() == state);
                    let message = step.and_then(|step| step.status.message.clone());
                    StandingVerdict::InProgress { state, message }
                }
            },
        }
    }
}

fn sorted(mut lines: Vec<GateLine>) -> Vec<GateLine> {
    lines.sort_by(|one, two| (one.scope, &one.name).cmp(&(two.scope, &two.name)));
    lines
}

/// The reason a step that has not ended gives for waiting.
fn step_hold(step: &PromotionStep) -> Option<Hold> {
    let status = &step.status;
    let message = status.message.clone().unwrap_or_default();
    if step.metadata.label(labels::SHARD).is_some() && status.state.is_none() {
        return None;
    }
    match status.reason.as_deref()? {
        // The gates, the freeze and the environments before are told already.
        "AwaitingGate" | "Paused" | "UpstreamNotVerified" => None,
        "EnvironmentBusy" => Some(Hold::EnvironmentBusy { message }),
        reason => Some(Hold::StepWaiting { reason: reason.to_owned(), message }),
    }
}

fn step_standing(step: &PromotionStep) -> StepStanding {
    let status = &step.status;
    let done = status
        .steps
        .iter()
        .filter(|one| matches!(one.state, StepProgressState::Completed | StepProgressState::Skipped));
    let place = (done.count() + 1).min(status.steps.len());
    let action =
        status.current_step.as_ref().map(|name| format!("{name} ({place} of {})", status.steps.len()));
    let health = status.health.as_ref().map(|health| format!("{:?}: {}", health.level, health.message));
    StepStanding {
        name: step.name().to_owned(),
        region: step.spec.region.clone(),
        state: step.state(),
        action,
        message: status.message.clone(),
        pr_url: status.pr_url.clone(),
        health: health.filter(|_| step.state() == StepState::HealthChecking),
        since: status.started_at,
    }
}

impl EnvironmentStanding {
    /// A gate or something else keeps the bundle out.
    pub fn is_blocked(&self) -> bool {
        matches!(self.result, StandingVerdict::Blocked { .. } | StandingVerdict::Held { .. })
    }

    /// The promotion into the environment went wrong.
    pub fn is_failed(&self) -> bool {
        matches!(self.result, StandingVerdict::Failed { .. })
    }
}

impl fmt::Display for StandingVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("NOTHING TO PROMOTE"),
            Self::Pass => f.write_str("PASS"),
            Self::Blocked { by } => write!(f, "BLOCKED by {}", by.join(", ")),
            Self::Held { by } => write!(f, "HELD ({})", by.join(", ")),
            Self::NotReached { environment, state } => {
                write!(f, "NOT REACHED (waiting for {environment}: {state})")
            }
            Self::InProgress { state, message: Some(message) } => {
                write!(f, "IN PROGRESS ({state:?}: {message})")
            }
            Self::InProgress { state, message: None } => write!(f, "IN PROGRESS ({state:?})"),
            Self::Verified { since: Some(since) } => write!(f, "VERIFIED (since {since})"),
            Self::Verified { since: None } => f.write_str("VERIFIED"),
            Self::Failed { reason, message } if message.is_empty() => write!(f, "FAILED ({reason})"),
            Self::Failed { reason, message } => write!(f, "FAILED ({reason}: {message})"),
            Self::Skipped => f.write_str("SKIPPED"),
            Self::NotMeant => f.write_str("NOT MEANT (the bundle does not go there)"),
        }
    }
}

impl fmt::Display for EnvironmentStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "PROMOTION: {} / {}", self.pipeline, self.environment)?;
        let current = self.current_version.as_deref().unwrap_or("nothing");
        match &self.version {
            None => writeln!(f, "  Bundle: none (runs {current})\n")?,
            Some(version) => writeln!(f, "  Bundle: {version}\n")?,
        }
        write_gates(f, &self.gates)?;
        if !self.steps.is_empty() {
            writeln!(f, "\nSTEPS:")?;
        }
        for step in &self.steps {
            write!(f, "  {:?}", step.state)?;
            if let Some(region) = &step.region {
                write!(f, " in {region}")?;
            }
            if let Some(action) = &step.action {
                write!(f, "  {action}")?;
            }
            if step.since.is_some() && !step.state.is_terminal() {
                write!(f, "  for {}", age_text(step.since, self.now))?;
            }
            writeln!(f)?;
            let more = [&step.message, &step.pr_url, &step.health];
            for text in more.into_iter().flatten() {
                writeln!(f, "    {text}")?;
            }
        }
        if !self.holds.is_empty() {
            writeln!(f, "\nHOLDS:")?;
        }
        for hold in &self.holds {
            writeln!(f, "  {hold}")?;
            if let Some(hint) = hold.hint() {
                writeln!(f, "    hint: {hint}")?;
            }
        }
        writeln!(f, "\nRESULT: {}", self.result)
    }
}

impl fmt::Display for PipelineStanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, environment) in self.environments.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{environment}")?;
        }
        Ok(())
    }
}
