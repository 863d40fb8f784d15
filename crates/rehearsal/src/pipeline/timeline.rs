//! What happened in a rehearsal, and what it comes to.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use slipway_promotion::kinds::BundlePhase;
use slipway_promotion::view::{EnvironmentStanding, age_text, moment_words};

/// A whole promotion in simulated time.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PipelineTimeline {
    pub pipeline: String,
    pub bundle: String,
    pub version: String,
    pub started_at: Timestamp,
    pub ended_at: Timestamp,
    pub end: RehearsalEnd,
    pub environments: Vec<EnvironmentArrival>,
    pub entries: Vec<TimelineEntry>,
    /// What the rehearsal takes for granted.
    pub assumptions: Vec<String>,
}

/// How a rehearsal ended.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RehearsalEnd {
    /// The version is verified everywhere it is meant for.
    Reached,
    /// An environment did not take it.
    Failed { environment: String, reason: String },
    /// The bundle was refused before it started.
    Refused { phase: BundlePhase, message: String },
    /// Something still waits when the time is over.
    Waiting { standing: Box<EnvironmentStanding> },
}

/// When the version came to an environment, and what it waited for on the way.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EnvironmentArrival {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reached_at: Option<Timestamp>,
    pub because: Vec<ArrivalReason>,
}

/// Something the version waited for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArrivalReason {
    pub what: String,
    pub detail: String,
    pub from: Timestamp,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TimelineEntry {
    pub at: Timestamp,
    pub bundle: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    #[serde(flatten)]
    pub event: TimelineEvent,
}

/// The kinds of things that happen, in the order they do within one moment.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(tag = "event", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum TimelineEvent {
    BundleCreated { version: String },
    BundleHeld { reason: String, message: String },
    RollbackCreated { version: String, takes_back: String },
    GateClosed { gate: String, detail: String, eta: Option<String> },
    GateOpened { gate: String, detail: String },
    Started,
    Pushed,
    PullRequestOpened { number: u64 },
    PullRequestClosed { number: u64 },
    Merged { by: Option<String> },
    Synced { healthy: bool },
    Verified,
    Failed { reason: String, message: String },
    BundleEnded { phase: BundlePhase },
}

impl TimelineEvent {
    /// The place of an event within a moment.
    pub(super) fn rank(&self) -> u8 {
        match self {
            Self::BundleCreated { .. } | Self::RollbackCreated { .. } => 0,
            Self::BundleHeld { .. } => 1,
            Self::GateClosed { .. } | Self::GateOpened { .. } => 2,
            Self::Started => 3,
            Self::Pushed => 4,
            Self::PullRequestOpened { .. } => 5,
            Self::PullRequestClosed { .. } => 6,
            Self::Merged { .. } => 7,
            Self::Synced { .. } => 8,
            Self::Verified | Self::Failed { .. } => 9,
            Self::BundleEnded { .. } => 10,
        }
    }
}

impl fmt::Display for TimelineEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BundleCreated { version } => write!(f, "bundle {version} is created"),
            Self::BundleHeld { reason, message } => write!(f, "the bundle waits: {reason}: {message}"),
            Self::RollbackCreated { version, takes_back } => {
                write!(f, "a rollback to {version} is created, which takes {takes_back} back")
            }
            Self::GateClosed { gate, detail, eta } => {
                write!(f, "gate {gate} is closed: {detail}")?;
                eta.as_ref().map_or(Ok(()), |eta| write!(f, " (ETA {eta})"))
            }
            Self::GateOpened { gate, detail } => write!(f, "gate {gate} is open: {detail}"),
            Self::Started => f.write_str("the promotion begins"),
            Self::Pushed => f.write_str("the change is pushed"),
            Self::PullRequestOpened { number } => write!(f, "pull request {number} is opened"),
            Self::PullRequestClosed { number } => write!(f, "pull request {number} is closed by a reviewer"),
            Self::Merged { by: Some(by) } => write!(f, "merged by {by}"),
            Self::Merged { by: None } => f.write_str("merged"),
            Self::Synced { healthy: true } => f.write_str("synced, and healthy"),
            Self::Synced { healthy: false } => f.write_str("synced, and not healthy"),
            Self::Verified => f.write_str("verified"),
            Self::Failed { reason, message } => write!(f, "failed: {reason}: {message}"),
            Self::BundleEnded { phase } => write!(f, "the bundle is {phase:?}"),
        }
    }
}

fn clock_time(at: Timestamp) -> String {
    at.to_zoned(TimeZone::UTC).strftime("%a %H:%M").to_string()
}

impl PipelineTimeline {
    /// The last environment: where the version is meant to end.
    fn last(&self) -> Option<&EnvironmentArrival> {
        self.environments.last()
    }

    /// The sentence everybody asks for.
    pub fn headline(&self) -> String {
        let created = format!(
            "{} {}, created {},",
            self.pipeline,
            self.version,
            moment_words(self.started_at, self.started_at)
        );
        let Some(last) = self.last() else { return created };
        match (&self.end, last.reached_at) {
            (_, Some(at)) => {
                let after = match at == self.started_at {
                    true => "at once".to_owned(),
                    false => format!("after {}", age_text(Some(self.started_at), at)),
                };
                format!("{created} reaches {} {} ({after})", last.name, moment_words(at, self.started_at))
            }
            (RehearsalEnd::Failed { environment, reason }, None) => {
                format!("{created} never reaches {}: it fails in {environment} ({reason})", last.name)
            }
            (RehearsalEnd::Refused { message, .. }, None) => format!("{created} is refused: {message}"),
            (RehearsalEnd::Waiting { standing }, None) => format!(
                "{created} has not reached {} by {}: {} says {}",
                last.name,
                moment_words(self.ended_at, self.started_at),
                standing.environment,
                standing.result
            ),
            (RehearsalEnd::Reached, None) => format!("{created} is not meant for {}", last.name),
        }
    }
}

impl fmt::Display for PipelineTimeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reasons: Vec<(&str, &ArrivalReason)> = self
            .environments
            .iter()
            .flat_map(|one| one.because.iter().map(|reason| (one.name.as_str(), reason)))
            .collect();
        writeln!(f, "{}{}", self.headline(), if reasons.is_empty() { "" } else { " because" })?;
        for (environment, reason) in reasons {
            let from = moment_words(reason.from, self.started_at);
            let until = match reason.until {
                Some(until) => format!("until {}", moment_words(until, self.started_at)),
                None => "and still does".to_owned(),
            };
            writeln!(f, "  {} holds {environment} from {from} {until}: {}", reason.what, reason.detail)?;
        }
        writeln!(f, "\nTIMELINE (UTC):")?;
        let width = self.environments.iter().map(|one| one.name.chars().count()).max().unwrap_or(0);
        let mut day = None;
        for entry in &self.entries {
            let date = entry.at.to_zoned(TimeZone::UTC).date();
            if day != Some(date) {
                writeln!(f, "  {date}")?;
                day = Some(date);
            }
            let place = entry.environment.as_deref().unwrap_or("");
            let other =
                if entry.bundle == self.bundle { String::new() } else { format!(" [{}]", entry.bundle) };
            writeln!(f, "    {}  {place:width$}  {}{other}", clock_time(entry.at), entry.event)?;
        }
        if let RehearsalEnd::Waiting { standing } = &self.end {
            write!(f, "\n{standing}")?;
        }
        if !self.assumptions.is_empty() {
            writeln!(f, "\nASSUMPTIONS:")?;
        }
        self.assumptions.iter().try_for_each(|text| writeln!(f, "  {text}"))
    }
}
