//! Groups as gates: the order between pipelines becomes gates of each member's bundle.
//!
//! A member is promoted by a bundle and a Graph of its own, since Graphs write in their own namespace only and members
//! may stand in several. What ties them together is read from the group's bundle, by the variable `group` of gates.

use std::collections::{BTreeMap, BTreeSet};

use super::EnvironmentOrder;
use crate::kinds::{
    GoDuration, GroupFailurePolicy, GroupMode, GroupPlace, Metadata, Pipeline, PipelineGroup, PolicyGate,
    PolicyGateSpec, labels,
};

/// A fault of a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GroupProblem {
    #[error("member {alias}: there is no pipeline {namespace}/{pipeline}")]
    NoPipeline { alias: String, namespace: String, pipeline: String },
    #[error(
        "member {alias}: pipeline {namespace}/{pipeline} does not allow the group's namespace: see the annotation {}",
        labels::ALLOW_NAMESPACES
    )]
    NotAllowed { alias: String, namespace: String, pipeline: String },
    #[error("{place}: there is no such environment of a member")]
    NoPlace { place: GroupPlace },
    #[error("the environments wait for each other: {}", cycle.join(" → "))]
    Cycle { cycle: Vec<String> },
    #[error("two members are called {alias}")]
    Repeated { alias: String },
}

/// A group with the pipelines of its members, by alias.
#[derive(Clone, Copy, Debug)]
pub struct GroupInput<'a> {
    pub group: &'a PipelineGroup,
    pub pipelines: &'a BTreeMap<String, Pipeline>,
}

impl GroupInput<'_> {
    /// Everything that is wrong with the group.
    pub fn problems(&self) -> Vec<GroupProblem> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        for member in &self.group.spec.members {
            let alias = member.alias.clone();
            if !seen.insert(alias.clone()) {
                found.push(GroupProblem::Repeated { alias: alias.clone() });
            }
            let namespace = self.group.namespace_of(member).to_owned();
            let pipeline = member.pipeline.clone();
            match self.pipelines.get(&alias) {
                None => found.push(GroupProblem::NoPipeline { alias, namespace, pipeline }),
                Some(known)
                    if namespace != self.group.namespace() && !allows(known, self.group.namespace()) =>
                {
                    found.push(GroupProblem::NotAllowed { alias, namespace, pipeline });
                }
                Some(_) => {}
            }
        }
        let places = self.places();
        let ends = self.group.spec.edges.iter().flat_map(|edge| [&edge.from, &edge.to]);
        let unknown: BTreeSet<&GroupPlace> = ends.filter(|place| !places.contains_key(place)).collect();
        found.extend(unknown.into_iter().map(|place| GroupProblem::NoPlace { place: place.clone() }));
        if found.is_empty()
            && let Some(cycle) = self.find_cycle(&places)
        {
            found.push(GroupProblem::Cycle { cycle });
        }
        found
    }

    /// Every environment of every member, with those of its own pipeline that come directly before it.
    fn places(&self) -> BTreeMap<GroupPlace, Vec<GroupPlace>> {
        let mut found = BTreeMap::new();
        for (alias, pipeline) in self.pipelines {
            let Ok(order) = EnvironmentOrder::of(&pipeline.spec) else { continue };
            let place = |name: &str| GroupPlace { alias: alias.clone(), environment: name.to_owned() };
            for environment in &pipeline.spec.environments {
                let before = order.upstreams(&environment.name).iter().map(|name| place(name)).collect();
                found.insert(place(&environment.name), before);
            }
        }
        found
    }

    /// The places a place waits for by an edge or, in an atomic group, by its barrier.
    fn waits_for(&self, place: &GroupPlace, before: &[GroupPlace]) -> BTreeSet<GroupPlace> {
        let edges = self.group.spec.edges.iter().filter(|edge| edge.to == *place);
        let mut found: BTreeSet<GroupPlace> = edges.map(|edge| edge.from.clone()).collect();
        if self.group.spec.mode == GroupMode::Atomic {
            for left in before {
                let others = self.pipelines.iter().filter(|(alias, pipeline)| {
                    **alias != place.alias
                        && pipeline.spec.environments.iter().any(|one| one.name == left.environment)
                });
                found.extend(others.map(|(alias, _)| GroupPlace {
                    alias: alias.clone(),
                    environment: left.environment.clone(),
                }));
            }
        }
        found
    }

    fn find_cycle(&self, places: &BTreeMap<GroupPlace, Vec<GroupPlace>>) -> Option<Vec<String>> {
        let mut open: BTreeMap<&GroupPlace, BTreeSet<GroupPlace>> = places
            .iter()
            .map(|(place, before)| {
                let mut needs = self.waits_for(place, before);
                needs.extend(before.iter().cloned());
                (place, needs)
            })
            .collect();
        // Places nobody has to wait for are taken away until none is left; what stays waits for itself.
        loop {
            let free: BTreeSet<GroupPlace> = open
                .iter()
                .filter(|(_, needs)| needs.is_empty())
                .map(|(place, _)| (*place).clone())
                .collect();
            if free.is_empty() {
                break;
            }
            open.retain(|place, _| !free.contains(place));
            open.values_mut().for_each(|needs| needs.retain(|need| !free.contains(need)));
        }
        let mut at = (*open.keys().next()?).clone();
        let mut path: Vec<GroupPlace> = Vec::new();
        while !path.contains(&at) {
            path.push(at.clone());
            at = open.get(&at)?.iter().find(|need| open.contains_key(need))?.clone();
        }
        let first = path.iter().position(|place| *place == at)?;
        let mut cycle: Vec<String> = path[first..].iter().map(ToString::to_string).collect();
        cycle.reverse();
        cycle.extend(cycle.first().cloned());
        Some(cycle)
    }

    /// The gate templates of one member's bundle.
    pub fn gates(&self, alias: &str) -> Vec<PolicyGate> {
        let mut found = Vec::new();
        for (place, before) in self.places().iter().filter(|(place, _)| place.alias == alias) {
            for needed in self.waits_for(place, before) {
                let message = format!("waits for {} in {}", needed.alias, needed.environment);
                let expression = format!("\"{needed}\" in group.verified");
                let name = format!("after-{}-{}", needed.alias, needed.environment);
                found.push(self.gate(&name, &place.environment, expression, message));
            }
            if self.group.spec.failure_policy == GroupFailurePolicy::HaltAll && self.pipelines.len() > 1 {
                let message = format!("a member of group {} has failed", self.group.name());
                let name = format!("group-{}", self.group.name());
                found.push(self.gate(
                    &name,
                    &place.environment,
                    "group.failed.size() == 0".to_owned(),
                    message,
                ));
            }
        }
        found
    }

    fn gate(&self, name: &str, environment: &str, expression: String, message: String) -> PolicyGate {
        let group = self.group;
        let mut metadata = Metadata::named(group.namespace(), labels::bounded_name(name, name));
        metadata.uid.clone_from(&group.metadata.uid);
        metadata.generation = group.metadata.generation;
        metadata.labels.insert(labels::SCOPE.to_owned(), "group".to_owned());
        let spec = PolicyGateSpec {
            expression,
            message,
            applies_to: vec![environment.to_owned()],
            recheck_interval: GoDuration::from_mins(1),
            ..PolicyGateSpec::default()
        };
        PolicyGate::new(metadata, spec)
    }
}

/// A gate that stays closed: the bundle belongs to a group that is gone.
pub fn orphan_gates(pipeline: &Pipeline, group: &str) -> Vec<PolicyGate> {
    let gate = |environment: &crate::kinds::EnvironmentSpec| {
        let mut metadata = Metadata::named(pipeline.namespace(), "group-missing");
        metadata.labels.insert(labels::SCOPE.to_owned(), "group".to_owned());
        let spec = PolicyGateSpec {
            expression: "false".to_owned(),
            message: format!("the group of the bundle is gone: {group}"),
            applies_to: vec![environment.name.clone()],
            recheck_interval: GoDuration::from_mins(5),
            ..PolicyGateSpec::default()
        };
        PolicyGate::new(metadata, spec)
    };
    pipeline.spec.environments.iter().map(gate).collect()
}

/// A pipeline lists the namespaces whose groups may promote it.
fn allows(pipeline: &Pipeline, namespace: &str) -> bool {
    let allowed = pipeline.metadata.annotation(labels::ALLOW_NAMESPACES).unwrap_or_default();
    allowed.split(',').map(str::trim).any(|one| one == namespace || one == "*")
}
