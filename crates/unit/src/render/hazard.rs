//! Hazards of reproducibility: what a chart asks that has another answer at every rendering.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::{Duration, SystemTime};

use memchr::memmem;
use serde::Serialize;
use slipway_chart::Chart;
use slipway_gotmpl::{FuncError, GoMap, GoValue, TemplateHost};

/// Something a rendering may depend on besides its source and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, schemars::JsonSchema)]
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

/// The time of the first rendering; the second happens more than a year later.
const START: u64 = 1_700_000_000;
const STEP: u64 = 400 * 24 * 3600;

/// Answers the templates of two renderings, notes what they ask, and answers otherwise in the second.
#[derive(Debug, Default)]
pub(crate) struct HazardHost {
    /// The thread of the second rendering, which may be under way at the same time as the first.
    second: OnceLock<ThreadId>,
    asked: Mutex<BTreeSet<Hazard>>,
}

impl HazardHost {
    /// Makes what this thread renders from now on the second rendering.
    pub(crate) fn begin_second_rendering(&self) {
        let _ = self.second.set(thread::current().id());
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
        let is_second = self.second.get() == Some(&thread::current().id());
        SystemTime::UNIX_EPOCH + Duration::from_secs(if is_second { START + STEP } else { START })
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
            let has = |word: &str| memmem::find(&file.data, word.as_bytes()).is_some();
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
