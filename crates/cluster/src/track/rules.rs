//! What a user may say about how an object is followed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use regex::Regex;
use slipway_event::NodeId;

use super::Condition;

/// What a failure means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FailMode {
    #[default]
    Fail,
    /// Goes on with a warning; an end that will not come is not waited for either.
    Ignore,
}

/// Settings of a tracker.
#[derive(Clone, Debug)]
pub struct TrackOptions {
    /// Passes on what containers say.
    pub logs: bool,
    /// How long a new custom object may be without any status before it counts as having none.
    pub blank_grace: Duration,
}

impl Default for TrackOptions {
    fn default() -> TrackOptions {
        TrackOptions { logs: true, blank_grace: Duration::from_secs(5) }
    }
}

/// How one object is followed.
#[derive(Clone, Debug)]
pub struct ReadyRules {
    pub fail_mode: FailMode,
    /// By kind when absent: 1 for workloads that run on, 0 for everything else.
    pub allowed_failures_per_replica: Option<u32>,
    /// How long an object without pods may show no sign of life; zero means the usual four minutes.
    pub no_activity_timeout: Duration,
    /// For how long after their start readiness probes of containers may fail; computed when absent.
    pub ignore_probe_failures: BTreeMap<String, Duration>,
    pub logs: LogRules,
    /// Passes on the cluster's events about the object and its pods.
    pub show_events: bool,
    pub ready_when: Option<Condition>,
    pub failed_when: Option<Condition>,
    pub timeout: Option<Duration>,
    /// A Pod that is a hook is done when it has succeeded.
    pub hook: bool,
    /// The node of the graph that events are said about.
    pub node: Option<NodeId>,
    /// The uid it was written with; one of its name that went before is another.
    pub uid: Option<String>,
    /// It was just written: what its pods say is passed on even if it is ready at first sight.
    pub just_written: bool,
}

impl Default for ReadyRules {
    fn default() -> ReadyRules {
        ReadyRules {
            fail_mode: FailMode::Fail,
            allowed_failures_per_replica: None,
            no_activity_timeout: Duration::from_secs(240),
            ignore_probe_failures: BTreeMap::new(),
            logs: LogRules::default(),
            show_events: false,
            ready_when: None,
            failed_when: None,
            timeout: None,
            hook: false,
            node: None,
            uid: None,
            just_written: false,
        }
    }
}

/// Which lines of which containers are passed on.
#[derive(Clone, Debug)]
pub struct LogRules {
    pub skip: bool,
    pub skip_containers: BTreeSet<String>,
    /// Only these, if any.
    pub only_containers: BTreeSet<String>,
    pub regex: Option<Regex>,
    pub regex_for: BTreeMap<String, Regex>,
    pub regex_skip: Option<Regex>,
    pub regex_skip_for: BTreeMap<String, Regex>,
    /// Of how many pods of a workload.
    pub replicas: usize,
}

impl Default for LogRules {
    fn default() -> LogRules {
        LogRules {
            skip: false,
            skip_containers: BTreeSet::new(),
            only_containers: BTreeSet::new(),
            regex: None,
            regex_for: BTreeMap::new(),
            regex_skip: None,
            regex_skip_for: BTreeMap::new(),
            replicas: 1,
        }
    }
}

impl LogRules {
    pub fn wants_container(&self, container: &str) -> bool {
        !self.skip
            && !self.skip_containers.contains(container)
            && (self.only_containers.is_empty() || self.only_containers.contains(container))
    }

    pub fn wants_line(&self, container: &str, line: &str) -> bool {
        let fits = |regex: Option<&Regex>, default: bool| regex.map_or(default, |regex| regex.is_match(line));
        !fits(self.regex_skip.as_ref(), false)
            && !fits(self.regex_skip_for.get(container), false)
            && fits(self.regex.as_ref(), true)
            && fits(self.regex_for.get(container), true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_chosen() {
        let regex = |text: &str| Regex::new(text).unwrap();
        let rules = LogRules {
            skip_containers: BTreeSet::from(["sidecar".to_owned()]),
            regex: Some(regex("keep")),
            regex_skip: Some(regex("drop")),
            regex_for: BTreeMap::from([("b".to_owned(), regex("^b"))]),
            ..LogRules::default()
        };
        assert!(rules.wants_container("a") && !rules.wants_container("sidecar"));
        for (container, line, expected) in [
            ("a", "keep this", true),
            ("a", "keep and drop", false),
            ("a", "other", false),
            ("b", "keep this", false),
            ("b", "b: keep this", true),
        ] {
            assert_eq!(rules.wants_line(container, line), expected, "{container} {line}");
        }
        assert!(!LogRules { skip: true, ..LogRules::default() }.wants_container("a"));
    }
}
