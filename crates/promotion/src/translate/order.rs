//! Puts the environments of a pipeline in order.

use std::collections::{BTreeMap, BTreeSet};

use slipway_graph::{Defect, Graph, GraphBuilder};
use slipway_problem::nearest_name;

use crate::kinds::{EnvironmentSpec, PipelineSpec};

/// Something wrong with the order of environments.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OrderProblem {
    #[error("the pipeline has no environments")]
    NoEnvironments,
    #[error("two environments are named `{name}`")]
    DuplicateEnvironment { name: String },
    #[error("{environment} depends on `{dependency}`, which is no environment{}", nearest.as_ref().map(|nearest| format!(" (did you mean `{nearest}`?)")).unwrap_or_default())]
    UnknownDependency { environment: String, dependency: String, nearest: Option<String> },
    /// Each environment of the path comes after the next, the last after the first.
    #[error("environments depend on each other in a circle: {}; remove `{}` from the dependencies of `{}`", shown(.path), path.get(1).or(path.first()).map_or("", String::as_str), path.first().map_or("", String::as_str))]
    CircularDependency { path: Vec<String> },
}

fn shown(path: &[String]) -> String {
    path.iter().chain(path.first()).map(String::as_str).collect::<Vec<_>>().join(" → ")
}

impl OrderProblem {
    /// The reason conditions name.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoEnvironments => "NoEnvironments",
            Self::DuplicateEnvironment { .. } => "DuplicateEnvironment",
            Self::UnknownDependency { .. } => "UnknownDependency",
            Self::CircularDependency { .. } => "CircularDependency",
        }
    }
}

/// The environments of a pipeline in an order in which each follows its upstreams.
///
/// Of environments that could go next the one declared first does, so that the order is stable.
#[derive(Clone, Debug)]
pub(crate) struct EnvironmentOrder<'p> {
    /// By position in the order.
    environments: Vec<&'p EnvironmentSpec>,
    upstreams: BTreeMap<&'p str, Vec<&'p str>>,
}

impl<'p> EnvironmentOrder<'p> {
    /// Orders the environments; or returns everything that is wrong.
    pub(crate) fn of(spec: &'p PipelineSpec) -> Result<Self, Vec<OrderProblem>> {
        if spec.environments.is_empty() {
            return Err(vec![OrderProblem::NoEnvironments]);
        }
        let upstreams = declared_upstreams(&spec.environments);
        let mut builder: GraphBuilder<()> = Graph::builder();
        for (environment, upstreams) in spec.environments.iter().zip(&upstreams) {
            builder.add(environment.name.as_str(), (), upstreams.iter().copied());
        }
        builder.try_build().map_err(|defects| defects.iter().filter_map(problem).collect::<Vec<_>>())?;
        let upstreams: BTreeMap<&str, Vec<&str>> =
            spec.environments.iter().map(|environment| environment.name.as_str()).zip(upstreams).collect();
        let mut done = BTreeSet::new();
        let mut environments = Vec::with_capacity(spec.environments.len());
        while environments.len() < spec.environments.len() {
            let is_next = |environment: &&EnvironmentSpec| {
                !done.contains(environment.name.as_str())
                    && upstreams[environment.name.as_str()].iter().all(|upstream| done.contains(upstream))
            };
            // There is one: the graph has no cycle.
            let Some(next) = spec.environments.iter().find(is_next) else { break };
            done.insert(next.name.as_str());
            environments.push(next);
        }
        Ok(Self { environments, upstreams })
    }

    pub(crate) fn environments(&self) -> &[&'p EnvironmentSpec] {
        &self.environments
    }

    pub(crate) fn upstreams(&self, name: &str) -> &[&'p str] {
        self.upstreams.get(name).map_or(&[], Vec::as_slice)
    }

    /// The environment whose name is nearest to a misspelt one.
    pub(crate) fn nearest(&self, name: &str) -> Option<String> {
        nearest_name(name, self.environments.iter().map(|environment| environment.name.as_str()))
            .map(str::to_owned)
    }

    /// An environment and everything before it.
    pub(crate) fn ancestors(&self, name: &'p str) -> BTreeSet<&'p str> {
        let mut reached = BTreeSet::from([name]);
        let mut open = vec![name];
        while let Some(name) = open.pop() {
            open.extend(self.upstreams(name).iter().copied().filter(|upstream| reached.insert(upstream)));
        }
        reached
    }

    /// An environment and everything behind it.
    pub(crate) fn descendants(&self, name: &'p str) -> BTreeSet<&'p str> {
        let mut reached = BTreeSet::from([name]);
        for environment in &self.environments {
            if self.upstreams(&environment.name).iter().any(|upstream| reached.contains(upstream)) {
                reached.insert(&environment.name);
            }
        }
        reached
    }
}

/// The environments each one names or follows by wave or position, in declaration order, each once.
fn declared_upstreams(environments: &[EnvironmentSpec]) -> Vec<Vec<&str>> {
    let waves: BTreeSet<u32> = environments.iter().filter_map(|environment| environment.wave).collect();
    environments
        .iter()
        .enumerate()
        .map(|(index, environment)| {
            let mut upstreams: Vec<&str> = match (&environment.depends_on, environment.wave) {
                (Some(named), _) => named.iter().map(String::as_str).collect(),
                (None, Some(_)) => Vec::new(),
                (None, None) => index
                    .checked_sub(1)
                    .map(|before| environments[before].name.as_str())
                    .into_iter()
                    .collect(),
            };
            if let Some(before) = environment.wave.and_then(|wave| waves.range(..wave).next_back()) {
                let members = environments.iter().filter(|other| other.wave == Some(*before));
                upstreams.extend(members.map(|other| other.name.as_str()));
            }
            let mut seen = BTreeSet::new();
            upstreams.retain(|upstream| seen.insert(*upstream));
            upstreams
        })
        .collect()
}

fn problem(defect: &Defect) -> Option<OrderProblem> {
    Some(match defect {
        Defect::Duplicate { id, .. } => OrderProblem::DuplicateEnvironment { name: id.to_string() },
        Defect::SelfNeed { id, .. } => OrderProblem::CircularDependency { path: vec![id.to_string()] },
        Defect::UnknownNeed { id, need, nearest, .. } | Defect::UnknownNode { id, need, nearest } => {
            OrderProblem::UnknownDependency {
                environment: id.to_string(),
                dependency: need.to_string(),
                nearest: nearest.clone(),
            }
        }
        Defect::Cycle { path, .. } => {
            OrderProblem::CircularDependency { path: path.iter().map(ToString::to_string).collect() }
        }
        Defect::MoreCycles { .. } => return None,
    })
}
