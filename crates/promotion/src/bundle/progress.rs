//! Derives how far a Bundle has come from its Graph and steps; without a cluster and without memory.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::kinds::{BundlePhase, PromotionStep, StepState};

/// An environment of a Graph, as the Graph's own spec tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GraphEnvironment {
    pub name: String,
    pub upstreams: Vec<String>,
    /// How many steps it has: one for each region.
    pub steps: usize,
}

/// Reads the environments off a Graph. A pipeline that was edited meanwhile does not count.
pub fn graph_environments(graph: &Value) -> Vec<GraphEnvironment> {
    let nodes = graph["spec"]["nodes"].as_array().into_iter().flatten();
    let steps = nodes.filter(|node| node["template"]["kind"] == "PromotionStep");
    steps
        .filter_map(|node| {
            let spec = &node["template"]["spec"];
            let upstreams = spec["upstreamEnvironments"].as_array().into_iter().flatten();
            Some(GraphEnvironment {
                name: spec["environment"].as_str()?.to_owned(),
                upstreams: upstreams.filter_map(Value::as_str).map(str::to_owned).collect(),
                steps: region_count(node),
            })
        })
        .collect()
}

/// The regions of a repeated step: a list the translator wrote as JSON.
fn region_count(node: &Value) -> usize {
    let text = node["forEach"]["region"].as_str().unwrap_or_default();
    let list = text.strip_prefix("${").and_then(|text| text.strip_suffix('}')).unwrap_or_default();
    serde_json::from_str::<Vec<String>>(list).map_or(1, |regions| regions.len().max(1))
}

/// The state of each environment that has steps; with regions, the state that counts for all of them.
pub fn environment_states<'s>(
    environments: &[GraphEnvironment],
    steps: impl IntoIterator<Item = &'s PromotionStep>,
) -> BTreeMap<String, StepState> {
    let mut by_environment: BTreeMap<&str, Vec<StepState>> = BTreeMap::new();
    for step in steps {
        by_environment.entry(step.spec.environment.as_str()).or_default().push(step.state());
    }
    let expected: BTreeMap<&str, usize> =
        environments.iter().map(|environment| (environment.name.as_str(), environment.steps)).collect();
    let state = |(name, states): (&str, Vec<StepState>)| {
        let missing = expected.get(name).is_some_and(|expected| states.len() < *expected);
        (name.to_owned(), combined_state(&states, missing))
    };
    by_environment.into_iter().map(state).collect()
}

/// One state for several regions: what is left to do comes first, then what went wrong.
fn combined_state(states: &[StepState], is_incomplete: bool) -> StepState {
    let running =
        states.iter().copied().filter(|state| !state.is_terminal()).max_by_key(|state| *state as u8);
    let failed = states.iter().copied().find(|state| state.is_failure() || *state == StepState::Cancelled);
    match (running, failed) {
        (Some(running), _) => running,
        (None, Some(failed)) => failed,
        (None, None) if is_incomplete => StepState::Pending,
        (None, None) => StepState::Verified,
    }
}

/// How far a Bundle has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleProgress {
    pub phase: BundlePhase,
    /// Environments that failed, whether or not others go on.
    pub failed: Vec<String>,
    /// Environments that are not verified, in order.
    pub left: Vec<String>,
}

/// Derives the phase of a Bundle whose Graph has these environments.
///
/// An environment without a step can still get one as long as everything before it can be verified. The Bundle has failed
/// once nothing can go on any more.
pub fn derive_progress(
    environments: &[GraphEnvironment],
    states: &BTreeMap<String, StepState>,
) -> BundleProgress {
    let mut alive: BTreeSet<&str> = BTreeSet::new();
    let mut verified: BTreeSet<&str> = BTreeSet::new();
    let mut failed = Vec::new();
    // In the order of the Graph: upstreams come first.
    for environment in environments {
        let name = environment.name.as_str();
        match states.get(name) {
            Some(StepState::Verified) => {
                verified.insert(name);
            }
            Some(state) if state.is_failure() => failed.push(environment.name.clone()),
            Some(StepState::Cancelled) => {}
            Some(_) => {
                alive.insert(name);
            }
            None => {
                let can_start = |upstream: &String| {
                    verified.contains(upstream.as_str()) || alive.contains(upstream.as_str())
                };
                if environment.upstreams.iter().all(can_start) {
                    alive.insert(name);
                }
            }
        }
    }
    let left: Vec<String> = environments
        .iter()
        .filter(|environment| !verified.contains(environment.name.as_str()))
        .map(|environment| environment.name.clone())
        .collect();
    let phase = if environments.is_empty() || !alive.is_empty() {
        BundlePhase::Promoting
    } else if left.is_empty() {
        BundlePhase::Verified
    } else {
        BundlePhase::Failed
    };
    BundleProgress { phase, failed, left }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(name: &str, upstreams: &[&str]) -> GraphEnvironment {
        let upstreams = upstreams.iter().map(|name| (*name).to_owned()).collect();
        GraphEnvironment { name: name.to_owned(), upstreams, steps: 1 }
    }

    fn progress(states: &[(&str, StepState)]) -> BundleProgress {
        let environments = [
            environment("dev", &[]),
            environment("us", &["dev"]),
            environment("eu", &["dev"]),
            environment("smoke", &["us", "eu"]),
        ];
        let states = states.iter().map(|(name, state)| ((*name).to_owned(), *state)).collect();
        derive_progress(&environments, &states)
    }

    #[test]
    fn a_bundle_goes_on_as_long_as_something_can() {
        use StepState::{Failed, HealthChecking, Verified};
        for (states, phase) in [
            (vec![], BundlePhase::Promoting),
            (vec![("dev", Verified)], BundlePhase::Promoting),
            (vec![("dev", Failed)], BundlePhase::Failed),
            (vec![("dev", Verified), ("us", Failed), ("eu", HealthChecking)], BundlePhase::Promoting),
            (vec![("dev", Verified), ("us", Failed), ("eu", Verified)], BundlePhase::Failed),
            (vec![("dev", Verified), ("us", Verified), ("eu", Verified)], BundlePhase::Promoting),
            (
                vec![("dev", Verified), ("us", Verified), ("eu", Verified), ("smoke", Verified)],
                BundlePhase::Verified,
            ),
        ] {
            assert_eq!(progress(&states).phase, phase, "{states:?}");
        }
        let degraded = progress(&[("dev", Verified), ("us", Failed), ("eu", HealthChecking)]);
        assert_eq!(
            (degraded.failed, degraded.left),
            (vec!["us".into()], vec!["us".into(), "eu".into(), "smoke".into()])
        );
    }

    #[test]
    fn regions_count_as_one_environment() {
        use StepState::{Failed, Pending, Promoting, Verified};
        assert_eq!(combined_state(&[Verified, Promoting, Failed], false), Promoting);
        assert_eq!(combined_state(&[Verified, Failed], false), Failed);
        assert_eq!(combined_state(&[Verified], true), Pending);
        assert_eq!(combined_state(&[Verified, Verified], false), Verified);
    }
}
