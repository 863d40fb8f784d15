//! Strategies after reading: nothing in here can be wrong any more.

use std::time::Duration;

use crate::verify::VerifyProbe;

/// The way a unit's workloads are brought up to date.
#[derive(Clone, Debug, PartialEq)]
pub struct Strategy {
    pub kind: StrategyKind,
    /// The Deployments it is for, each once.
    pub targets: Vec<TargetName>,
    pub signals: SignalSettings,
    pub on_failure: OnFailure,
}

#[derive(Clone, Debug, PartialEq)]
pub enum StrategyKind {
    /// The release is deployed as a whole.
    Rolling,
    Canary(CanarySettings),
    BlueGreen(BlueGreenSettings),
}

/// A Deployment of the unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetName(pub String);

/// New pods beside the old ones, more with each step.
#[derive(Clone, Debug, PartialEq)]
pub struct CanarySettings {
    pub steps: Vec<CanaryStep>,
    /// The largest difference between a wanted share and what replicas can give, in percentage points.
    pub max_weight_error: u8,
    pub provider: TrafficProvider,
    /// The Service whose traffic is split; found by its selector where left out.
    pub service: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CanaryStep {
    /// The share of the new version, from 1 to 100; 100 ends the canary.
    Weight(u8),
    Pause(StepPause),
    /// The signals of the new pods.
    Check,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPause {
    For(Duration),
    /// Until somebody resumes the rollout.
    Manual,
}

/// The means by which traffic is split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrafficProvider {
    /// By the number of pods.
    #[default]
    Replicas,
    /// By weights of an HTTPRoute.
    GatewayApi,
    /// By a canary Ingress of the NGINX controller.
    NginxIngress,
}

/// A second set of pods that takes over all traffic at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlueGreenSettings {
    /// The Service that is switched.
    pub service: String,
    /// The Service that shows the new pods before.
    pub preview: Option<String>,
    /// The time the old pods stay after the switch.
    pub scale_down_delay: Duration,
    /// Checks before the switch; each holds the signals of the new pods against their settings.
    pub checks: usize,
    /// Switches without asking.
    pub auto_promote: bool,
}

/// The signals a check looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalSettings {
    pub readiness: bool,
    /// Restarts of all new pods together that are forgiven.
    pub restart_budget: u64,
    /// Warnings of the cluster about the new pods fail a check.
    pub events: bool,
    /// Addresses that must answer.
    pub probes: Vec<VerifyProbe>,
}

impl Default for SignalSettings {
    fn default() -> Self {
        Self { readiness: true, restart_budget: 0, events: true, probes: Vec::new() }
    }
}

/// The consequence of a step that fails.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Everything is as it was before.
    #[default]
    Rollback,
    /// Everything stays as it is, for somebody to look at; then resume or abort.
    Hold,
}
