//! Verifies a release after an apply: what runs is what was sealed, it is ready, and nothing got worse.

mod checks;
mod diagnostics;
mod probe;
mod survey;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_event::Events;
use slipway_release::ReleaseRequest;
use slipway_source::RenderedSource;

pub(crate) use probe::run_probes;
pub use probe::{ExecProbe, VerifyProbe};

use crate::container::UnitFile;
use crate::error::UnitError;
use crate::strategy::{Strategy, deployed_objects};
use survey::Survey;

/// Settings of a verification.
#[derive(Clone, Debug)]
pub struct VerifyOptions {
    /// Time containers have to stay up.
    pub soak: Duration,
    /// Restarts a container may have more than before.
    pub restart_budget: i64,
    pub probes: Vec<VerifyProbe>,
}

impl Default for VerifyOptions {
    fn default() -> Self {
        Self { soak: Duration::from_secs(60), restart_budget: 0, probes: Vec::new() }
    }
}

/// A release to verify.
#[derive(Clone, Debug)]
pub struct VerifyRequest<'a> {
    /// The unit whose digests pods must run; none checks what was rendered.
    pub unit: Option<&'a UnitFile>,
    pub request: &'a ReleaseRequest,
    pub rendered: &'a RenderedSource,
    pub baseline: VerifyBaseline,
    pub options: VerifyOptions,
}

/// The state before an apply: what was wrong already is no regression.
#[derive(Clone, Debug, Default)]
pub struct VerifyBaseline {
    /// Warnings that were there, by the UID of their event and how often they had happened.
    events: BTreeMap<String, i64>,
    /// Restarts of containers, by the UID of their pod and their name.
    restarts: BTreeMap<(String, String), i64>,
}

/// The result of one check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Pass,
    Fail,
    /// There was nothing to check.
    Skip,
}

/// One check with what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct CheckResult {
    pub check: &'static str,
    pub status: CheckStatus,
    pub detail: Vec<String>,
}

/// The result of a verification.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct VerifyReport {
    pub checks: Vec<CheckResult>,
    /// What was collected about the failures, without secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics: Option<Value>,
}

/// The verdict of a verification.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum VerificationStatus {
    Passed,
    Failed,
}

impl VerifyReport {
    pub fn is_passed(&self) -> bool {
        self.checks.iter().all(|check| check.status != CheckStatus::Fail)
    }

    /// The verdict as the ledger keeps it.
    pub(crate) fn status(&self) -> VerificationStatus {
        if self.is_passed() { VerificationStatus::Passed } else { VerificationStatus::Failed }
    }

    /// The failure that most likely explains the others.
    pub fn likely_cause(&self) -> Option<String> {
        // In the order of cause and effect: a wrong image does not start, what does not start is not ready.
        const ORDER: [&str; 9] = [
            "digests",
            "restarts",
            "jobs",
            "readiness",
            "endpoints",
            "probes",
            "events",
            "drift",
            "conditions",
        ];
        let failed = |name: &str| {
            self.checks.iter().find(|check| check.check == name && check.status == CheckStatus::Fail)
        };
        let check = ORDER.iter().find_map(|name| failed(name))?;
        Some(format!("{}: {}", check.check, check.detail.first().map_or("failed", String::as_str)))
    }
}

/// Notes the state of a release before it changes.
pub async fn take_baseline(
    cluster: &Cluster,
    request: &ReleaseRequest,
    rendered: &RenderedSource,
) -> Result<VerifyBaseline, UnitError> {
    let survey = Survey::take(cluster, request, rendered).await?;
    let events =
        survey.warnings.iter().map(|event| (survey::uid(event).to_owned(), survey::event_count(event)));
    Ok(VerifyBaseline { events: events.collect(), restarts: survey.restarts() })
}

/// Runs every check. Never writes.
pub async fn run_checks(
    cluster: &Cluster,
    request: &VerifyRequest<'_>,
    events: &Events,
) -> Result<VerifyReport, UnitError> {
    let strategy = request.unit.and_then(UnitFile::strategy).map(Strategy::parse).transpose()?;
    let deployed = match &strategy {
        Some(strategy) => {
            deployed_objects(strategy, cluster, &request.request.namespace, request.rendered).await?
        }
        None => request.rendered.clone(),
    };
    let before = Survey::take_settled(cluster, request.request, &deployed).await?;
    let soaked = !request.options.soak.is_zero() && !before.pods.is_empty();
    let survey = if soaked {
        tokio::time::sleep(request.options.soak).await;
        Survey::take_settled(cluster, request.request, &deployed).await?
    } else {
        before
    };
    let mut all = vec![
        checks::digests(request, &survey),
        checks::readiness(&survey),
        checks::jobs(&survey),
        checks::restarts(request, &survey),
        checks::events(request, &survey),
        checks::endpoints(&survey),
        checks::drift(cluster, request.request).await?,
        checks::conditions(&survey),
    ];
    all.push(run_probes(cluster, &request.request.namespace, &request.options.probes).await);
    let mut report = VerifyReport { checks: all, diagnostics: None };
    if !report.is_passed() {
        let mut collected = diagnostics::collect(cluster, &survey).await;
        events.redactor().redact_json(&mut collected);
        report.diagnostics = Some(collected);
    }
    for check in &mut report.checks {
        for line in &mut check.detail {
            events.redactor().redact_in_place(line);
        }
    }
    Ok(report)
}

/// Makes a result of the failures found among what was looked at.
fn result(check: &'static str, looked_at: usize, failures: BTreeSet<String>, passed: String) -> CheckResult {
    let (status, detail) = match (looked_at, failures.is_empty()) {
        (_, false) => (CheckStatus::Fail, failures.into_iter().collect()),
        (0, true) => (CheckStatus::Skip, Vec::new()),
        (_, true) => (CheckStatus::Pass, vec![passed]),
    };
    CheckResult { check, status, detail }
}
