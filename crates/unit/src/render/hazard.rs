//! Hazards of reproducibility: what a chart asks that has another answer at every rendering.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use serde::Serialize;
use slipway_chart::Chart;
use slipway_gotmpl::{FuncError, GoMap, GoValue, TemplateHost};

/// Something a rendering may depend on besides its source and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Hazard {
    /// `randAlphaNum`, `genCA`, `uuidv4` and the like.
    Random,
    /// `now` and what is computed from it.
    Time,
    /// `lookup`: units are rendered as if there were nothing in the cluster.
    Lookup,
    /// `.Capabilities`: units are rendered for the versions of the bundle.
    Capabilities,
    /// `.Release.IsInstall`, `.Release.IsUpgrade` and `.Release.Revision`: units are rendered as a first install.
    ReleaseState,
}

impl Hazard {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Time => "time",
            Self::Lookup => "lookup",
            Self::Capabilities => "capabilities",
            Self::ReleaseState => "release-state",
        }
    }
}

impl fmt::Display for Hazard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Random => "random values (`randAlphaNum`, `genCA`, `uuidv4`)",
            Self::Time => "the time (`now`)",
            Self::Lookup => "objects of the cluster (`lookup`), which a unit finds none of",
            Self::Capabilities => "`.Capabilities`, which a unit answers with the versions of the bundle",
            Self::ReleaseState => "`.Release.IsInstall`, `.IsUpgrade` or `.Revision`, which a unit answers as for a first install",
        })
    }
}

/// The time of the first rendering; those after it happen years later.
const START: u64 = 1_700_000_000;
const STEP: u64 = 400 * 24 * 3600;

/// Answers templates, notes what they ask, and answers otherwise at the next rendering.
#[derive(Debug, Default)]
pub(crate) struct HazardHost {
    rendering: AtomicU64,
    asked: Mutex<BTreeSet<Hazard>>,
}

impl HazardHost {
    /// Begins another rendering.
    pub(crate) fn next_rendering(&self) {
        self.rendering.fetch_add(1, Ordering::Relaxed);
    }

    /// Everything asked so far.
    pub(crate) fn asked(&self) -> BTreeSet<Hazard> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, hazard: Hazard) {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).insert(hazard);
    }
}

impl TemplateHost for HazardHost {
    fn lookup_object(&self, _: &str, _: &str, _: &str, _: &str) -> Result<GoValue, FuncError> {
        self.note(Hazard::Lookup);
        Ok(GoValue::Map(GoMap::new()))
    }

    fn now(&self) -> SystemTime {
        self.note(Hazard::Time);
        let rendering = self.rendering.load(Ordering::Relaxed);
        SystemTime::UNIX_EPOCH + Duration::from_secs(START + rendering * STEP)
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.note(Hazard::Random);
        // Chance itself: two renderings that agree do so whatever is drawn.
        let _ = aws_lc_rs::rand::fill(bytes);
    }
}

/// The hazards a chart's templates name.
pub(crate) fn named_hazards(chart: &Chart) -> BTreeSet<Hazard> {
    let mut found = BTreeSet::new();
    let mut pending = vec![chart];
    while let Some(chart) = pending.pop() {
        for file in &chart.templates {
            let has = |word: &str| file.data.windows(word.len()).any(|part| part == word.as_bytes());
            if !found.contains(&Hazard::Capabilities) && has(".Capabilities.") {
                found.insert(Hazard::Capabilities);
            }
            let state = [".Release.IsInstall", ".Release.IsUpgrade", ".Release.Revision"];
            if !found.contains(&Hazard::ReleaseState) && state.iter().any(|word| has(word)) {
                found.insert(Hazard::ReleaseState);
            }
        }
        pending.extend(&chart.dependencies);
    }
    found
}
