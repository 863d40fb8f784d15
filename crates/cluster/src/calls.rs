//! Counts requests by verb.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

/// The verb of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RequestVerb {
    Get,
    List,
    Watch,
    Create,
    Apply,
    Patch,
    Replace,
    Delete,
    Log,
    Discover,
}

const VERBS: [(RequestVerb, &str); 10] = [
    (RequestVerb::Get, "get"),
    (RequestVerb::List, "list"),
    (RequestVerb::Watch, "watch"),
    (RequestVerb::Create, "create"),
    (RequestVerb::Apply, "apply"),
    (RequestVerb::Patch, "patch"),
    (RequestVerb::Replace, "replace"),
    (RequestVerb::Delete, "delete"),
    (RequestVerb::Log, "log"),
    (RequestVerb::Discover, "discover"),
];

impl RequestVerb {
    pub(crate) fn is_write(self) -> bool {
        matches!(
            self,
            RequestVerb::Create
                | RequestVerb::Apply
                | RequestVerb::Patch
                | RequestVerb::Replace
                | RequestVerb::Delete
        )
    }
}

impl fmt::Display for RequestVerb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(VERBS[*self as usize].1)
    }
}

#[derive(Debug, Default)]
pub(crate) struct CallCounters {
    real: [AtomicU64; VERBS.len()],
    dry: [AtomicU64; VERBS.len()],
    repeated: AtomicU64,
}

impl CallCounters {
    pub(crate) fn count_call(&self, verb: RequestVerb, dry_run: bool, is_repeat: bool) {
        let row = if dry_run { &self.dry } else { &self.real };
        row[verb as usize].fetch_add(1, Ordering::Relaxed);
        if is_repeat {
            self.repeated.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn snapshot_counts(&self) -> CallCounts {
        let load = |row: &[AtomicU64; VERBS.len()]| std::array::from_fn(|i| row[i].load(Ordering::Relaxed));
        CallCounts {
            real: load(&self.real),
            dry: load(&self.dry),
            repeated: self.repeated.load(Ordering::Relaxed),
        }
    }
}

/// Requests sent so far; prints as `12 calls: get 3, apply 4 (4 more dry-run), list 1; 1 repeated`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(into = "CallCountsForm")]
pub struct CallCounts {
    real: [u64; VERBS.len()],
    dry: [u64; VERBS.len()],
    repeated: u64,
}

impl CallCounts {
    /// Requests of a verb that were not dry runs.
    pub fn count_of(&self, verb: RequestVerb) -> u64 {
        self.real[verb as usize]
    }

    /// Dry-run requests of a verb.
    pub fn dry_run_count_of(&self, verb: RequestVerb) -> u64 {
        self.dry[verb as usize]
    }

    /// Requests sent again after an error; they count under their verb too.
    pub fn repeated(&self) -> u64 {
        self.repeated
    }

    pub fn total(&self) -> u64 {
        self.real.iter().chain(&self.dry).sum()
    }

    /// Requests that changed or may have changed something.
    pub fn write_count(&self) -> u64 {
        VERBS.iter().filter(|(verb, _)| verb.is_write()).map(|(verb, _)| self.count_of(*verb)).sum()
    }

    /// Returns the requests sent since an earlier snapshot.
    pub fn since(&self, earlier: &CallCounts) -> CallCounts {
        let minus = |now: &[u64; VERBS.len()], then: &[u64; VERBS.len()]| {
            std::array::from_fn(|i| now[i].saturating_sub(then[i]))
        };
        CallCounts {
            real: minus(&self.real, &earlier.real),
            dry: minus(&self.dry, &earlier.dry),
            repeated: self.repeated.saturating_sub(earlier.repeated),
        }
    }
}

impl std::ops::Add for CallCounts {
    type Output = CallCounts;

    fn add(self, more: CallCounts) -> CallCounts {
        CallCounts {
            real: std::array::from_fn(|i| self.real[i] + more.real[i]),
            dry: std::array::from_fn(|i| self.dry[i] + more.dry[i]),
            repeated: self.repeated + more.repeated,
        }
    }
}

/// Requests in numbers: `{"total": 12, "dryRun": 4, "repeated": 1, "byVerb": {"get": 3, "apply": 8, "list": 1}}`.
#[derive(Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "RequestCounts")]
struct CallCountsForm {
    total: u64,
    dry_run: u64,
    /// Requests sent again after an error; they count under their verb too.
    repeated: u64,
    /// Dry runs count under their verb too; verbs that were not used are left out.
    by_verb: BTreeMap<&'static str, u64>,
}

impl From<CallCounts> for CallCountsForm {
    fn from(counts: CallCounts) -> Self {
        let count = |verb| counts.count_of(verb) + counts.dry_run_count_of(verb);
        let by_verb = VERBS.iter().map(|(verb, name)| (*name, count(*verb)));
        Self {
            total: counts.total(),
            dry_run: counts.dry.iter().sum(),
            repeated: counts.repeated,
            by_verb: by_verb.filter(|(_, count)| *count > 0).collect(),
        }
    }
}

impl fmt::Display for CallCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.total();
        write!(f, "{total} call{}", if total == 1 { "" } else { "s" })?;
        let mut separator = ": ";
        for (verb, name) in VERBS {
            match (self.count_of(verb), self.dry_run_count_of(verb)) {
                (0, 0) => continue,
                (real, 0) => write!(f, "{separator}{name} {real}")?,
                (0, dry) => write!(f, "{separator}{name} {dry} dry-run")?,
                (real, dry) => write!(f, "{separator}{name} {real} (and {dry} dry-run)")?,
            }
            separator = ", ";
        }
        match self.repeated {
            0 => Ok(()),
            repeated => write!(f, "; {repeated} repeated"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_print_as_one_line() {
        let counters = CallCounters::default();
        assert_eq!(counters.snapshot_counts().to_string(), "0 calls");
        counters.count_call(RequestVerb::Get, false, false);
        let first = counters.snapshot_counts();
        assert_eq!(first.to_string(), "1 call: get 1");
        counters.count_call(RequestVerb::Apply, true, false);
        counters.count_call(RequestVerb::Apply, false, false);
        counters.count_call(RequestVerb::Create, true, true);
        let calls = counters.snapshot_counts();
        assert_eq!(
            calls.to_string(),
            "4 calls: get 1, create 1 dry-run, apply 1 (and 1 dry-run); 1 repeated"
        );
        assert_eq!((calls.write_count(), calls.since(&first).total()), (1, 3));
        assert_eq!(
            serde_json::to_value(calls).unwrap(),
            serde_json::json!({
                "total": 4, "dryRun": 2, "repeated": 1, "byVerb": {"apply": 2, "create": 1, "get": 1},
            })
        );
    }
}
