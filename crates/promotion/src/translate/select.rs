//! Narrows the environments of a pipeline to those a Bundle is meant for.

use std::collections::{BTreeMap, BTreeSet};

use super::error::BuildError;
use super::order::EnvironmentOrder;
use crate::kinds::{EnvironmentSpec, Intent};

/// The environments a Bundle passes, in order, each with the environments it waits for.
#[derive(Clone, Debug)]
pub struct Selection<'p> {
    environments: Vec<&'p EnvironmentSpec>,
    upstreams: BTreeMap<&'p str, Vec<&'p EnvironmentSpec>>,
}

impl<'p> Selection<'p> {
    /// Applies an intent: keeps what leads to the target, drops what comes before the start, leaves out what is skipped.
    pub(crate) fn of(order: &EnvironmentOrder<'p>, intent: &Intent) -> Result<Self, BuildError> {
        let mut kept: BTreeSet<&str> =
            order.environments().iter().map(|environment| environment.name.as_str()).collect();
        if let Some(target) = intent.target.as_deref().filter(|target| !target.is_empty()) {
            let target = known(order, target).ok_or_else(|| BuildError::UnknownTarget {
                name: target.to_owned(),
                nearest: order.nearest(target),
            })?;
            kept = order.ancestors(target);
        }
        if let Some(start) = intent.from.as_deref().filter(|start| !start.is_empty()) {
            let start = known(order, start).ok_or_else(|| BuildError::UnknownStart {
                name: start.to_owned(),
                nearest: order.nearest(start),
            })?;
            // A branch beside the start would begin without its upstreams: only what follows the start goes on.
            let behind = order.descendants(start);
            kept.retain(|name| behind.contains(name));
            if kept.is_empty() {
                return Err(BuildError::StartBeyondTarget {
                    start: start.to_owned(),
                    target: intent.target.clone().unwrap_or_default(),
                });
            }
        }
        let mut skipped = BTreeSet::new();
        for name in &intent.skip {
            let name = known(order, name).ok_or_else(|| BuildError::UnknownSkipEnvironment {
                name: name.clone(),
                nearest: order.nearest(name),
            })?;
            skipped.insert(name);
        }
        let environments: Vec<&EnvironmentSpec> = order
            .environments()
            .iter()
            .copied()
            .filter(|environment| {
                kept.contains(environment.name.as_str()) && !skipped.contains(environment.name.as_str())
            })
            .collect();
        if environments.is_empty() {
            return Err(BuildError::AllEnvironmentsSkipped);
        }
        let by_name: BTreeMap<&str, &EnvironmentSpec> =
            environments.iter().map(|environment| (environment.name.as_str(), *environment)).collect();
        let upstreams = environments
            .iter()
            .map(|environment| {
                let names = surviving_upstreams(order, &environment.name, &kept, &skipped);
                let found = names.iter().filter_map(|name| by_name.get(name).copied()).collect();
                (environment.name.as_str(), found)
            })
            .collect();
        Ok(Self { environments, upstreams })
    }

    /// The environments, in order.
    pub fn environments(&self) -> impl Iterator<Item = &'p EnvironmentSpec> {
        self.environments.iter().copied()
    }

    /// The environments, in order, with those each waits for.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'p EnvironmentSpec, Vec<&'p EnvironmentSpec>)> {
        self.environments.iter().map(|environment| {
            let upstreams = self.upstreams.get(environment.name.as_str()).cloned().unwrap_or_default();
            (*environment, upstreams)
        })
    }
}

fn known<'p>(order: &EnvironmentOrder<'p>, name: &str) -> Option<&'p str> {
    order.environments().iter().map(|environment| environment.name.as_str()).find(|known| *known == name)
}

/// The upstreams of an environment that are not skipped; a skipped one hands on its own.
fn surviving_upstreams<'p>(
    order: &EnvironmentOrder<'p>,
    name: &str,
    kept: &BTreeSet<&str>,
    skipped: &BTreeSet<&str>,
) -> Vec<&'p str> {
    let mut found = Vec::new();
    for upstream in order.upstreams(name) {
        if !kept.contains(upstream) {
            continue;
        }
        if !skipped.contains(upstream) {
            if !found.contains(upstream) {
                found.push(*upstream);
            }
            continue;
        }
        for inherited in surviving_upstreams(order, upstream, kept, skipped) {
            if !found.contains(&inherited) {
                found.push(inherited);
            }
        }
    }
    found
}
