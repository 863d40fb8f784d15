//! What a pull request says about a promotion, and the gates it shows while it is open.

use jiff::{SignedDuration, Timestamp};
use slipway_git::{CommitId, CommitPrefix};
use slipway_scm::{
    ArtifactRow, ChangeRow, CheckState, CommitCheck, ConfigChange, GateRow, GateStatus, Link, PromotionKind,
    PromotionSummary, PromotionUrgency, ScmProvider, StepMarker, UpstreamRow, gates_comment,
};

use crate::kinds::{
    self, Bundle, BundleSpec, GatePhase, GateRef, GateScope, PipelineSpec, PolicyGate, PolicyGateSpec,
    StepState, labels,
};

use super::actions::version_changes;
use super::context::StepContext;
use super::outcome::StepError;

/// The gates of a pull request, taken together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GateStanding {
    Open,
    Closed,
}

/// The commit status that servers can require before a merge.
const CHECK: &str = "kardinal/gates";
/// The marker of the comment that shows the gates.
const COMMENT_MARKER: &str = "<!-- kardinal:gates -->";
/// The least time between two changes of the comment.
const COMMENT_PAUSE: SignedDuration = SignedDuration::from_secs(60);

/// Writes what a pull request says.
pub(super) async fn summarize(context: &StepContext<'_>) -> Result<PromotionSummary, StepError> {
    let (spec, bundle) = (&context.step.spec, context.bundle);
    let provenance = bundle.spec.provenance.clone().unwrap_or_default();
    let kind = match (&provenance.rollback_of, bundle.is_rollback()) {
        (Some(failed), _) => {
            PromotionKind::Rollback { failed_version: failed_version(context, failed).await? }
        }
        (None, true) => PromotionKind::Rollback { failed_version: "unknown".to_owned() },
        (None, false) => PromotionKind::Promotion,
    };
    let source_commit = provenance
        .commit_sha
        .clone()
        .map(|commit| Link { url: source_url(&provenance.ci_run_url, &commit), text: commit });
    let ci_run = provenance.ci_run_url.clone().map(|url| Link { text: run_name(&url), url: Some(url) });
    let artifacts = bundle.spec.artifacts.images.iter().map(|image| ArtifactRow {
        image: if image.reference.is_empty() { image.name.clone() } else { image.reference.clone() },
        digest: image.digest.clone(),
        source_commit: source_commit.clone(),
        ci_run: ci_run.clone(),
        author: provenance.author.clone(),
    });
    let changes = version_changes(context).into_iter().map(|change| ChangeRow {
        image: change.image,
        old: if change.old.is_empty() { "none".to_owned() } else { change.old },
        new: change.new,
    });
    let gates = read_gates(context).await?;
    let console = context.shared.options.console.as_ref().map(|root| Link {
        text: "Open in the console".to_owned(),
        url: Some(format!("{}/{}/{}", root.trim_end_matches('/'), context.step.namespace(), spec.pipeline)),
    });
    Ok(PromotionSummary {
        kind,
        urgency: if bundle.is_emergency() { PromotionUrgency::Emergency } else { PromotionUrgency::Normal },
        pipeline: spec.pipeline.clone(),
        environment: match &spec.region {
            Some(region) => format!("{} ({region})", spec.environment),
            None => spec.environment.clone(),
        },
        version: bundle.spec.version(),
        marker: marker(context).await?,
        gates: gate_rows(&gates),
        artifacts: artifacts.collect(),
        upstreams: upstream_rows(bundle, &spec.upstream_environments, context.now()),
        changes: changes.collect(),
        compare: None,
        config: config_change(context),
        rollback_command: Some(format!(
            "slipway pipeline rollback {} --env {}",
            spec.pipeline, spec.environment
        )),
        console,
    })
}

/// The marker by which the pull request is known again.
async fn marker(context: &StepContext<'_>) -> Result<StepMarker, StepError> {
    let (step, cluster) = (context.step, &context.shared.cluster);
    let marker = StepMarker::new(&step.metadata.uid, context.bundle.name(), &place(context));
    let pipeline = kinds::get::<PipelineSpec>(cluster, step.namespace(), &step.spec.pipeline).await?;
    Ok(match pipeline {
        Some(pipeline) => marker.of_pipeline(&pipeline.metadata.uid),
        None => marker,
    })
}

/// The environment with its region, for the marker.
fn place(context: &StepContext<'_>) -> String {
    match &context.step.spec.region {
        Some(region) => format!("{}/{region}", context.step.spec.environment),
        None => context.step.spec.environment.clone(),
    }
}

async fn failed_version(context: &StepContext<'_>, name: &str) -> Result<String, StepError> {
    let failed = kinds::get::<BundleSpec>(&context.shared.cluster, context.step.namespace(), name).await?;
    Ok(failed.map_or_else(|| name.to_owned(), |bundle| bundle.spec.version()))
}

/// The page of a source commit, beside the run that built it.
fn source_url(ci_run: &Option<String>, commit: &str) -> Option<String> {
    let run = ci_run.as_deref()?;
    let repository = run.split_once("/actions/").or_else(|| run.split_once("/-/"))?.0;
    Some(format!("{repository}/commit/{commit}"))
}

fn run_name(url: &str) -> String {
    let last = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if last.chars().all(|c| c.is_ascii_digit()) && !last.is_empty() {
        format!("Run {last}")
    } else {
        url.to_owned()
    }
}

fn config_change(context: &StepContext<'_>) -> Option<ConfigChange> {
    let commit = context.bundle.spec.artifacts.git_commit.as_ref()?;
    let short = CommitPrefix::parse(&commit.sha).ok()?;
    let files = context.output("mergedFiles").unwrap_or_default();
    Some(ConfigChange {
        commit: Link { text: short.as_str().chars().take(7).collect(), url: None },
        message: commit.message.clone().unwrap_or_default(),
        files: files.split(',').filter(|file| !file.is_empty()).map(str::to_owned).collect(),
    })
}

/// Environments the bundle has passed; soak counts for those directly before.
fn upstream_rows(bundle: &Bundle, direct: &[String], now: Timestamp) -> Vec<UpstreamRow> {
    let verified =
        bundle.status.environments.iter().filter(|(_, status)| status.state == Some(StepState::Verified));
    let mut rows: Vec<(Timestamp, UpstreamRow)> = verified
        .filter_map(|(name, status)| {
            let at = status.verified_at?;
            let since = status.soak_since.unwrap_or(at);
            let soak = direct.contains(name).then(|| short_time(now, since));
            let verified = format!("{} ago", short_time(now, at));
            Some((at, UpstreamRow { environment: name.clone(), verified, soak }))
        })
        .collect();
    rows.sort_by_key(|(at, _)| *at);
    rows.into_iter().map(|(_, row)| row).collect()
}

/// `45m`, `2h10m`, `3d`.
fn short_time(now: Timestamp, since: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, minutes) => format!("{minutes}m"),
        (0, hours, 0) => format!("{hours}h"),
        (0, hours, minutes) => format!("{hours}h{minutes}m"),
        (days, 0, _) => format!("{days}d"),
        (days, hours, _) => format!("{days}d{hours}h"),
    }
}

/// Reads the gates of a step; one that is gone is shown as such.
pub(super) async fn read_gates(context: &StepContext<'_>) -> Result<Vec<RequiredGate>, StepError> {
    let mut gates = Vec::new();
    for name in &context.step.spec.required_gates {
        let at = GateRef::parse(name, context.step.namespace());
        let gate = kinds::get::<PolicyGateSpec>(&context.shared.cluster, &at.namespace, &at.name).await?;
        gates.push(RequiredGate { name: name.clone(), gate });
    }
    Ok(gates)
}

/// A gate a step needs, if it exists.
pub(super) struct RequiredGate {
    pub(super) name: String,
    pub(super) gate: Option<PolicyGate>,
}

impl RequiredGate {
    /// The name people know the gate by: that of its template.
    pub(super) fn shown_name(&self) -> String {
        let template = self.gate.as_ref().and_then(|gate| {
            let named = gate.spec.template_ref.as_ref().map(|template| template.name.clone());
            named.or_else(|| gate.metadata.label(labels::GATE_NAME).map(str::to_owned))
        });
        template.unwrap_or_else(|| self.name.clone())
    }

    pub(super) fn scope(&self) -> Option<GateScope> {
        self.gate.as_ref().and_then(|gate| gate.spec.scope)
    }

    fn row(&self) -> GateRow {
        let scope = match self.scope() {
            Some(GateScope::Org) => "org",
            Some(GateScope::System) => "system",
            Some(GateScope::Contract) => "contract",
            Some(GateScope::Group) => "group",
            Some(GateScope::Team) | None => "team",
        };
        let (status, detail) = match &self.gate {
            None => (GateStatus::Unknown, "the gate is gone".to_owned()),
            Some(gate) => {
                let reason = gate.status.reason.clone().unwrap_or_default();
                let status = match (gate.status.phase, gate.status.ready) {
                    (Some(GatePhase::Overridden), true) => GateStatus::Override,
                    (_, true) => GateStatus::Pass,
                    (None, false) => GateStatus::Unknown,
                    (Some(_), false) => GateStatus::Block,
                };
                (status, reason)
            }
        };
        GateRow { name: self.shown_name(), scope: scope.to_owned(), status, detail }
    }
}

fn gate_rows(gates: &[RequiredGate]) -> Vec<GateRow> {
    gates.iter().map(RequiredGate::row).collect()
}

/// Shows how gates stand: a commit status at once, the comment at most once a minute.
pub(super) async fn publish_gates(context: &mut StepContext<'_>) -> Result<GateStanding, StepError> {
    let gates = read_gates(context).await?;
    let rows = gate_rows(&gates);
    let blocking: Vec<&str> = rows
        .iter()
        .filter(|row| !matches!(row.status, GateStatus::Pass | GateStatus::Override))
        .map(|row| row.name.as_str())
        .collect();
    let standing = if blocking.is_empty() { GateStanding::Open } else { GateStanding::Closed };
    let (state, description) = match (context.pause, standing) {
        (Some(reason), _) => (CheckState::Failure, format!("paused: {reason}")),
        (None, GateStanding::Closed) => (CheckState::Failure, format!("closed: {}", blocking.join(", "))),
        (None, GateStanding::Open) => (CheckState::Success, "all gates are open".to_owned()),
    };
    let access = context.access().await?;
    let (Some(number), Some(head)) = (context.status.pr_number, context.status.head_sha.clone()) else {
        return Ok(standing);
    };
    let scm = access.scm()?;
    let now = context.now();
    let check = format!("{head} {state:?} {description}");
    let table = labels::short_hash(&format!("{rows:?}"), 16);
    let before = context.status.published_gates.clone().unwrap_or_default();
    let mut published = before.clone();
    if before.check != check {
        set_check(scm, &head, CommitCheck { context: CHECK.to_owned(), state, url: None, description })
            .await?;
        published.check = check;
    }
    let is_due = before.at.is_none_or(|at| now.duration_since(at) >= COMMENT_PAUSE);
    if before.table != table && is_due {
        scm.upsert_comment(number, COMMENT_MARKER, &gates_comment(&rows, now)).await?;
        published.table = table;
        published.at = Some(now);
    }
    context.status.published_gates = Some(published);
    Ok(standing)
}

async fn set_check(scm: &dyn ScmProvider, head: &str, check: CommitCheck) -> Result<(), StepError> {
    let Ok(commit) = CommitId::parse(head) else { return Ok(()) };
    match scm.set_check(&commit, &check).await {
        // Tokens often may not set statuses; nothing but the look of the page depends on it.
        Err(error) if matches!(error.class(), slipway_scm::ErrorClass::Transient { .. }) => Err(error.into()),
        _ => Ok(()),
    }
}
