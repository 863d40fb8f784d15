//! Everything a gate's expression may read, as it stood when it was gathered.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value as Json;

use super::schema::Variable;
use crate::kinds::{
    ApprovalMode, Bundle, BundleType, ChangeWindowSpec, ImageArtifact, MetricResult, NoDataBehavior, labels,
};
use crate::window::Window;

/// The inputs of an evaluation. Time alone moves what is computed from them.
#[derive(Clone, Debug)]
pub struct GateContext {
    /// The moment of the evaluation.
    pub now: Timestamp,
    pub bundle: BundleContext,
    pub environment: EnvironmentContext,
    pub pipeline: PipelineContext,
    /// The environments before, by name.
    pub upstream: BTreeMap<String, UpstreamContext>,
    /// The bundle the environment runs.
    pub previous: Option<PreviousBundle>,
    /// The pull requests of the bundle, by environment.
    pub pull_requests: BTreeMap<String, PullRequestContext>,
    pub metrics: BTreeMap<String, MetricContext>,
    pub windows: BTreeMap<String, WindowContext>,
    pub delegation: DelegationContext,
    /// Answers of external systems, by gate; `self` is the gate that is evaluated.
    pub approvals: BTreeMap<String, ApprovalContext>,
    /// External systems that gave no answer that can be used, by gate.
    pub approval_errors: BTreeMap<String, String>,
    /// Environments of other pipelines, by `namespace/pipeline/environment`.
    pub contracts: BTreeMap<String, ContractContext>,
    /// The group of the bundle, as its own bundle tells of it.
    pub group: GroupContext,
    pub drift: DriftContext,
    /// The parts that could not be read, with the reason.
    pub unavailable: BTreeMap<ContextPart, String>,
}

/// A part of the context that is read on its own and may be out of reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ContextPart {
    Metrics,
    Upstream,
    PreviousBundle,
    PullRequests,
    ChangeWindows,
    Delegation,
    ExternalApproval,
    Contracts,
    Group,
    TargetDrift,
    Pipeline,
}

impl ContextPart {
    /// The name in reasons: that of its variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Upstream => "upstream",
            Self::PreviousBundle => "previousBundle",
            Self::PullRequests => "bundle.pr",
            Self::ChangeWindows => "changewindow",
            Self::Delegation => "delegation",
            Self::ExternalApproval => "externalApproval",
            Self::Contracts => "contracts",
            Self::Group => "group",
            Self::TargetDrift => "targetDrift",
            Self::Pipeline => "pipeline",
        }
    }

    /// Returns true if a path of a variable is read from this part.
    pub(crate) fn holds(self, variable: Variable, path: &[String]) -> bool {
        let field = path.first().map(String::as_str);
        match self {
            Self::Metrics => {
                matches!(variable, Variable::Metrics | Variable::MetricResults | Variable::MetricAges)
            }
            Self::Upstream => {
                variable == Variable::Upstream
                    || (variable == Variable::Bundle && matches!(field, None | Some("upstreamSoakMinutes")))
            }
            Self::PreviousBundle => variable == Variable::PreviousBundle,
            Self::PullRequests => variable == Variable::Bundle && matches!(field, None | Some("pr")),
            Self::ChangeWindows => variable == Variable::ChangeWindow,
            Self::Delegation => variable == Variable::Delegation,
            Self::ExternalApproval => variable == Variable::ExternalApproval,
            Self::Contracts => variable == Variable::Contracts,
            Self::Group => variable == Variable::Group,
            Self::TargetDrift => variable == Variable::TargetDrift,
            Self::Pipeline => {
                (variable == Variable::Pipeline && matches!(field, None | Some("labels")))
                    || (variable == Variable::Environment && matches!(field, None | Some("labels")))
            }
        }
    }
}

/// The bundle that is promoted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BundleContext {
    pub name: String,
    pub namespace: String,
    pub kind: BundleType,
    pub version: String,
    pub images: Vec<ImageArtifact>,
    /// The labels of users.
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    pub author: String,
    pub commit_sha: String,
    pub ci_run_url: String,
    pub build_timestamp: Option<Timestamp>,
    pub rollback_of: String,
    pub target: String,
    pub skip: Vec<String>,
    pub from: String,
    pub is_rollback: bool,
    pub is_emergency: bool,
    pub created_at: Option<Timestamp>,
}

impl BundleContext {
    pub fn of(bundle: &Bundle) -> Self {
        let provenance = bundle.spec.provenance.clone().unwrap_or_default();
        let intent = bundle.spec.intent();
        let theirs = |all: &BTreeMap<String, String>| {
            let own = |key: &str| key.starts_with(labels::PREFIX);
            all.iter().filter(|(key, _)| !own(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
        };
        Self {
            name: bundle.metadata.name.clone(),
            namespace: bundle.metadata.namespace.clone(),
            kind: bundle.spec.kind,
            version: bundle.spec.version(),
            images: bundle.spec.artifacts.images.clone(),
            labels: theirs(&bundle.metadata.labels),
            annotations: theirs(&bundle.metadata.annotations),
            author: provenance.author.unwrap_or_default(),
            commit_sha: provenance.commit_sha.unwrap_or_default(),
            ci_run_url: provenance.ci_run_url.unwrap_or_default(),
            build_timestamp: provenance.build_timestamp,
            rollback_of: provenance.rollback_of.unwrap_or_default(),
            target: intent.target.unwrap_or_default(),
            skip: intent.skip,
            from: intent.from.unwrap_or_default(),
            is_rollback: bundle.is_rollback(),
            is_emergency: bundle.is_emergency(),
            created_at: bundle.metadata.creation_timestamp,
        }
    }
}

/// The environment behind the gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentContext {
    pub name: String,
    pub approval: ApprovalMode,
    pub region: String,
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipelineContext {
    pub name: String,
    pub namespace: String,
    pub labels: BTreeMap<String, String>,
}

/// An environment before the gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct UpstreamContext {
    /// Stands directly before the gate's environment: its soak time counts for the bundle.
    pub direct: bool,
    pub verified_at: Option<Timestamp>,
    /// Successes and failures of the last ten bundles.
    pub recent_successes: i64,
    pub recent_failures: i64,
    pub last_promoted_at: Option<Timestamp>,
    pub version: String,
}

/// The bundle that was last verified in the environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PreviousBundle {
    pub name: String,
    pub version: String,
    pub verified_at: Option<Timestamp>,
    pub images: Vec<ImageArtifact>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PullRequestContext {
    pub is_approved: bool,
    pub approval_count: i64,
    pub number: i64,
    pub url: String,
    pub merged_by: String,
}

/// A measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct MetricContext {
    pub value: Option<f64>,
    pub result: Option<MetricResult>,
    pub measured_at: Option<Timestamp>,
    pub interval: Duration,
    pub no_data: NoDataBehavior,
    /// There was no data and the check counts that as a pass.
    pub assumed: bool,
}

/// Measurements older than so many intervals are not read.
const STALE_INTERVALS: u32 = 3;

impl MetricContext {
    /// The moment from which on the measurement is too old.
    pub fn stale_from(&self) -> Option<Timestamp> {
        self.measured_at?.saturating_add(self.interval.saturating_mul(STALE_INTERVALS)).ok()
    }

    /// The number a gate may read, or why there is none.
    pub fn read(&self, now: Timestamp) -> Result<f64, &'static str> {
        let (Some(value), Some(_)) = (self.value, self.measured_at) else { return Err("no value yet") };
        if self.stale_from().is_some_and(|from| now >= from) {
            return Err("the last value is older than three intervals");
        }
        if self.result == Some(MetricResult::Inconclusive) && self.no_data == NoDataBehavior::Hold {
            return Err("the check is inconclusive");
        }
        Ok(value)
    }
}

/// A change window, or why it cannot be used.
#[derive(Clone, Debug)]
pub enum WindowContext {
    Usable(Window),
    Broken(String),
}

impl WindowContext {
    /// Reads a window.
    pub fn of(spec: &ChangeWindowSpec) -> Self {
        match Window::parse(spec) {
            Ok(window) => Self::Usable(window),
            Err(errors) => {
                Self::Broken(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
            }
        }
    }
}

/// The progressive delivery that stands before the gate.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DelegationContext {
    pub status: String,
    pub delegate: String,
    pub weight: i64,
    pub step: i64,
}

/// The answer of an external system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ApprovalContext {
    pub approved: bool,
    pub approved_by: String,
    pub comment: String,
    pub expires_at: Option<Timestamp>,
    pub data: Json,
}

impl ApprovalContext {
    /// An answer counts until it expires.
    pub fn is_valid(&self, now: Timestamp) -> bool {
        self.expires_at.is_none_or(|end| now < end)
    }
}

/// An environment of another pipeline.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ContractContext {
    pub version: String,
    pub phase: String,
    pub verified_at: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
}

/// The other members of the bundle's group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GroupContext {
    pub name: String,
    /// Environments that are verified, as `alias/environment`.
    pub verified: Vec<String>,
    /// Members whose bundle has failed.
    pub failed: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct DriftContext {
    pub unreconciled: bool,
    pub details: Vec<String>,
    pub since: Option<Timestamp>,
}

impl GateContext {
    /// A context that holds a bundle, an environment and nothing else: enough for skip permissions.
    pub fn for_bundle(bundle: &Bundle, environment: &str, now: Timestamp) -> Self {
        let context = BundleContext::of(bundle);
        let pipeline = PipelineContext {
            name: bundle.pipeline().unwrap_or_default().to_owned(),
            namespace: context.namespace.clone(),
            labels: BTreeMap::new(),
        };
        Self { pipeline, ..Self::new(context, environment, now) }
    }

    /// A context without anything but a bundle and the name of an environment.
    pub fn new(bundle: BundleContext, environment: &str, now: Timestamp) -> Self {
        Self {
            now,
            bundle,
            environment: EnvironmentContext { name: environment.to_owned(), ..EnvironmentContext::default() },
            pipeline: PipelineContext::default(),
            upstream: BTreeMap::new(),
            previous: None,
            pull_requests: BTreeMap::new(),
            metrics: BTreeMap::new(),
            windows: BTreeMap::new(),
            delegation: DelegationContext::default(),
            approvals: BTreeMap::new(),
            approval_errors: BTreeMap::new(),
            contracts: BTreeMap::new(),
            group: GroupContext::default(),
            drift: DriftContext::default(),
            unavailable: BTreeMap::new(),
        }
    }

    /// The moment soak time counts from, and the environment that gives it: the last one verified of those directly before.
    pub(crate) fn soak_since(&self) -> Option<(&str, Timestamp)> {
        let mut latest = None;
        for (name, upstream) in self.upstream.iter().filter(|(_, upstream)| upstream.direct) {
            let since = upstream.verified_at?;
            if latest.is_none_or(|(_, before)| since > before) {
                latest = Some((name.as_str(), since));
            }
        }
        latest
    }
}

/// Whole minutes from one moment to another, never less than none.
pub(crate) fn minutes_since(since: Option<Timestamp>, now: Timestamp) -> i64 {
    const MINUTE: i128 = 60 * 1_000_000_000;
    let minutes = |since: Timestamp| (now.as_nanosecond() - since.as_nanosecond()).max(0) / MINUTE;
    since.map_or(0, |since| i64::try_from(minutes(since)).unwrap_or(i64::MAX))
}
