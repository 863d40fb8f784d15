//! What is where, and why something does not move: objects of a cluster folded into values for people and programs.
//!
//! [`survey_pipeline`] reads everything about one pipeline and changes nothing; everything else here is computed from a
//! [`PipelineSurvey`] or from single objects, without a cluster: an overview a pipeline ([`PipelineOverview`]) and a bundle
//! ([`BundleOverview`]), how each environment stands and why ([`EnvironmentStanding`]), the past ([`HistoryEntry`]), the
//! differences of two bundles ([`compare_bundles`]) and the nodes of a promotion ([`PromotionDiagram`]).

mod bundles;
mod diagram;
mod difference;
mod gates;
mod history;
mod hold;
mod overview;
mod standing;
mod survey;
mod trial;

use jiff::Timestamp;

pub use bundles::{BundleOverview, BundleReach, bundle_reach};
pub use diagram::{DiagramEdge, DiagramNode, DiagramNodeKind, PromotionDiagram};
pub use difference::{ArtifactDifference, compare_bundles};
pub use gates::{GateOverview, applying_gates};
pub use history::{HistoryAction, HistoryEntry, promotion_history};
pub use hold::Hold;
pub use overview::{EnvironmentOverview, PipelineOverview};
pub use standing::{EnvironmentStanding, PipelineStanding, StandingVerdict, StepStanding};
pub use survey::{
    AgentHeartbeat, PipelineSurvey, SurveySettings, list_overviews, list_pipelines, survey_pipeline,
};
pub use trial::{list_windows, read_windows, window_contexts};

/// The age of something in its two largest parts: `3d 4h`, `12m`, `8s`.
pub fn age_text(since: Option<Timestamp>, now: Timestamp) -> String {
    let Some(since) = since else { return "-".to_owned() };
    let seconds = now.duration_since(since).as_secs().max(0);
    if seconds < 60 { format!("{seconds}s") } else { crate::gate::span_text(seconds) }
}

/// A moment as people say it: `Friday 16:00`, with the date where it is far from `from`.
pub fn moment_words(at: Timestamp, from: Timestamp) -> String {
    crate::gate::window_text(at, from).trim_end_matches(" UTC").to_owned()
}
