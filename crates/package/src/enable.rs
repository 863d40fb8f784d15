//! Decides which patches apply, and in which order.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap};
use std::fmt;

use slipway_graph::{Defect, Graph};
use slipway_problem::{Location, Problems};

use crate::apply::bool_value;
use crate::params::{LayerKind, ParamData, ParamLookup, ResolvedParams};
use crate::patches::{EnabledCondition, Patch, PatchOrigin};
use crate::report::{coded_error, coded_note, coded_warning};
use crate::template::ParamPath;

/// The state of a patch, and what decided it.
#[derive(Clone, Debug, PartialEq)]
pub enum PatchState {
    /// Its own `enabled` says so.
    On(EnabledReason),
    /// Another patch needs it.
    Required {
        by: String,
    },
    Off(EnabledReason),
    /// It and another exclude each other.
    Conflict {
        with: String,
    },
}

/// The reason an `enabled` gives.
#[derive(Clone, Debug, PartialEq)]
pub enum EnabledReason {
    Always,
    Literal(bool),
    Parameter { path: String, value: String },
    Broken,
}

impl fmt::Display for EnabledReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always enabled"),
            Self::Literal(value) => write!(f, "enabled: {value}"),
            Self::Parameter { path, value } => write!(f, "{path}={value}"),
            Self::Broken => f.write_str("enabled cannot be read"),
        }
    }
}

impl fmt::Display for PatchState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::On(reason) | Self::Off(reason) => reason.fmt(f),
            Self::Required { by } => write!(f, "required by {by}"),
            Self::Conflict { with } => write!(f, "conflicts with {with}"),
        }
    }
}

impl PatchState {
    /// Returns true if the patch applies.
    pub fn is_on(&self) -> bool {
        matches!(self, Self::On(_) | Self::Required { .. })
    }

    /// The mark of reports, and its ASCII form.
    pub fn mark(&self) -> (&'static str, &'static str) {
        match self {
            Self::On(_) => ("✓", "+"),
            Self::Required { .. } => ("→", ">"),
            Self::Off(_) => ("○", "o"),
            Self::Conflict { .. } => ("✗", "x"),
        }
    }
}

/// The decision on every patch.
#[derive(Clone, Debug, Default)]
pub struct PatchDecision {
    /// One for each patch.
    pub states: Vec<PatchState>,
    /// The patches that apply, in the order they do.
    pub order: Vec<usize>,
}

/// Decides on all patches. Whether names exist is checked for disabled ones as well.
pub(crate) fn decide_patches(
    patches: &[Patch],
    params: &ResolvedParams,
    problems: &mut Problems,
) -> PatchDecision {
    let mut decision = PatchDecision { states: Vec::with_capacity(patches.len()), order: Vec::new() };
    for patch in patches {
        let state = own_state(patch, params, problems);
        decision.states.push(state);
    }
    for origin in [PatchOrigin::Package, PatchOrigin::Local] {
        let members: Vec<usize> =
            (0..patches.len()).filter(|&index| patches[index].origin == origin).collect();
        decide_set(patches, &members, params, &mut decision, problems);
    }
    decision
}

fn own_state(patch: &Patch, params: &ResolvedParams, problems: &mut Problems) -> PatchState {
    match &patch.enabled {
        EnabledCondition::Always => PatchState::On(EnabledReason::Always),
        EnabledCondition::Broken => PatchState::Off(EnabledReason::Broken),
        EnabledCondition::Literal(true) => PatchState::On(EnabledReason::Literal(true)),
        EnabledCondition::Literal(false) => PatchState::Off(EnabledReason::Literal(false)),
        EnabledCondition::When(path) => {
            let at = patch.enabled_at.clone().unwrap_or_else(|| Location::file(&*patch.file));
            let ParamLookup::Value(param) = params.find(path) else {
                problems.push(params.undefined(path, at));
                return PatchState::Off(EnabledReason::Broken);
            };
            if matches!(param.data, ParamData::Broken) {
                return PatchState::Off(EnabledReason::Broken);
            }
            match bool_value(param) {
                Some(value) => {
                    let reason =
                        EnabledReason::Parameter { path: path.to_string(), value: value.to_string() };
                    if value { PatchState::On(reason) } else { PatchState::Off(reason) }
                }
                None => {
                    let json = param.to_json();
                    let shown = match &json {
                        serde_json::Value::Object(_) | serde_json::Value::Array(_) => {
                            crate::val::type_name(&json).to_owned()
                        }
                        other => other.to_string(),
                    };
                    let place = params.location(param.pos);
                    let message = format!(
                        "`{path}` must be true or false to enable a patch, not {shown} ({}:{})",
                        place.file, place.line
                    );
                    problems.push(coded_error("KD003", message).at(at));
                    PatchState::Off(EnabledReason::Broken)
                }
            }
        }
    }
}

/// The graph of requirements. The graph kernel names its cycles; enabled or not, a cycle is a mistake.
/// Patches on a cycle lose their requirements, so that the run goes on and shows the other mistakes too.
fn requirement_graph<'p>(
    patches: &'p [Patch],
    by_id: &HashMap<&'p str, usize>,
    requires: &mut BTreeMap<usize, Vec<usize>>,
    problems: &mut Problems,
) -> Graph<usize> {
    let mut members: Vec<usize> = by_id.values().copied().collect();
    members.sort_unstable();
    loop {
        let mut builder = Graph::builder();
        for &index in &members {
            let needs: Vec<&str> =
                requires.get(&index).into_iter().flatten().map(|&other| patches[other].id.as_str()).collect();
            builder.add(patches[index].id.as_str(), index, needs);
        }
        let defects = match builder.try_build() {
            Ok(graph) => return graph,
            Err(defects) => defects,
        };
        let before = requires.len();
        for defect in defects {
            let Defect::Cycle { path, .. } = defect else { continue };
            let mut names: Vec<&str> = path.iter().map(slipway_graph::Id::as_str).collect();
            for index in names.iter().filter_map(|name| by_id.get(name)) {
                requires.remove(index);
            }
            let first = names.first().copied().unwrap_or_default();
            let at = by_id
                .get(first)
                .and_then(|&index| {
                    patches[index].requires.iter().find(|(id, _)| names.contains(&id.as_str()))
                })
                .map(|(_, at)| at.clone());
            names.push(first);
            let problem = coded_error("KD020", format!("circular dependency: {}", names.join(" -> ")));
            problems.push(match at {
                Some(at) => problem.at(at),
                None => problem,
            });
        }
        if requires.len() == before {
            // No cycle was named: nothing can be ordered by requirements.
            requires.clear();
        }
    }
}

fn decide_set(
    patches: &[Patch],
    members: &[usize],
    params: &ResolvedParams,
    decision: &mut PatchDecision,
    problems: &mut Problems,
) {
    let by_id: HashMap<&str, usize> =
        members.iter().map(|&index| (patches[index].id.as_str(), index)).collect();
    let local = members.first().is_some_and(|&index| patches[index].origin == PatchOrigin::Local);
    let of_package: BTreeSet<&str> = if local {
        patches
            .iter()
            .filter(|patch| patch.origin == PatchOrigin::Package)
            .map(|patch| patch.id.as_str())
            .collect()
    } else {
        BTreeSet::new()
    };
    let mut requires: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut conflicts: BTreeSet<(usize, usize)> = BTreeSet::new();
    let known = || by_id.keys().copied();
    for &index in members {
        let patch = &patches[index];
        for (id, at) in &patch.requires {
            match by_id.get(id.as_str()) {
                Some(&other) => requires.entry(index).or_default().push(other),
                None if of_package.contains(id.as_str()) => problems.push(
                    coded_error("KD030", format!("a local patch cannot require the package's `{id}`"))
                        .at(at.clone())
                        .hint("set the parameter that enables it"),
                ),
                None => problems.push(
                    coded_error("KD005", format!("required patch `{id}` does not exist"))
                        .at(at.clone())
                        .did_you_mean(id, known()),
                ),
            }
        }
        for (id, at) in &patch.conflicts {
            match by_id.get(id.as_str()) {
                Some(&other) => {
                    conflicts.insert((index.min(other), index.max(other)));
                    if !patches[other].conflicts.iter().any(|(back, _)| *back == patch.id) {
                        let message = format!("`{id}` does not declare the conflict with `{}`", patch.id);
                        problems.push(coded_note("KD023", message).at(at.clone()));
                    }
                }
                None if of_package.contains(id.as_str()) => problems.push(
                    coded_error("KD030", format!("a local patch cannot conflict with the package's `{id}`"))
                        .at(at.clone()),
                ),
                None => problems.push(
                    coded_warning("KD006", format!("conflicting patch `{id}` does not exist"))
                        .at(at.clone())
                        .did_you_mean(id, known()),
                ),
            }
        }
    }
    let graph = requirement_graph(patches, &by_id, &mut requires, problems);
    enable_required(patches, members, &requires, params, decision, problems);
    for &(a, b) in &conflicts {
        if decision.states[a].is_on() && decision.states[b].is_on() {
            report_conflict(patches, a, b, params, decision, problems);
        }
    }
    // Kahn's algorithm over the enabled ones, smallest id first.
    let mut waiting: HashMap<usize, usize> = HashMap::new();
    let mut ready: BinaryHeap<Reverse<(&str, usize)>> = BinaryHeap::new();
    for &index in members {
        // Those in conflict run too: nothing is written, but what else is wrong with them shows.
        if decision.states[index].is_on() || matches!(decision.states[index], PatchState::Conflict { .. }) {
            let needs = requires.get(&index).map_or(0, Vec::len);
            waiting.insert(index, needs);
            if needs == 0 {
                ready.push(Reverse((patches[index].id.as_str(), index)));
            }
        }
    }
    while let Some(Reverse((id, index))) = ready.pop() {
        decision.order.push(index);
        for dependent in graph.node(id).into_iter().flat_map(slipway_graph::NodeRef::dependents) {
            let dependent = *dependent.value();
            if let Some(needs) = waiting.get_mut(&dependent) {
                *needs -= 1;
                if *needs == 0 {
                    ready.push(Reverse((patches[dependent].id.as_str(), dependent)));
                }
            }
        }
    }
}

/// Enables what enabled patches require, transitively and in id order.
fn enable_required(
    patches: &[Patch],
    members: &[usize],
    requires: &BTreeMap<usize, Vec<usize>>,
    params: &ResolvedParams,
    decision: &mut PatchDecision,
    problems: &mut Problems,
) {
    let mut pending: Vec<usize> =
        members.iter().copied().filter(|&index| decision.states[index].is_on()).collect();
    pending.reverse();
    while let Some(index) = pending.pop() {
        let mut needs = requires.get(&index).cloned().unwrap_or_default();
        needs.sort_by(|&a, &b| patches[a].id.cmp(&patches[b].id));
        for need in needs {
            if decision.states[need].is_on() {
                continue;
            }
            if let EnabledCondition::When(path) = &patches[need].enabled
                && let Some(at) = user_place(path, params)
            {
                let message = format!(
                    "{} was switched off by {}:{} but is required by {}",
                    patches[need].shown(),
                    at.file,
                    at.line,
                    patches[index].shown()
                );
                problems.push(coded_warning("KD021", message).at(at));
            }
            decision.states[need] = PatchState::Required { by: patches[index].short().to_owned() };
            pending.push(need);
        }
    }
}

/// The place a user, not the package, gave a parameter its value at.
fn user_place(path: &ParamPath, params: &ResolvedParams) -> Option<Location> {
    let chain = params.chain(path);
    let (_, pos) = chain.iter().find(|(_, pos)| {
        params.layers().get(usize::from(pos.layer)).is_some_and(|layer| layer.kind != LayerKind::Package)
    })?;
    Some(params.location(*pos))
}

fn report_conflict(
    patches: &[Patch],
    a: usize,
    b: usize,
    params: &ResolvedParams,
    decision: &mut PatchDecision,
    problems: &mut Problems,
) {
    let why = |index: usize| -> String {
        let state = &decision.states[index];
        let place = match (&patches[index].enabled, state) {
            (EnabledCondition::When(path), PatchState::On(_)) => params.get(path).map(|param| {
                let at = params.location(param.pos);
                if at.line == 0 { format!(", {}", at.file) } else { format!(", {}:{}", at.file, at.line) }
            }),
            _ => None,
        };
        format!("{} ({state}{})", patches[index].short(), place.unwrap_or_default())
    };
    let message = format!("{} conflicts with {}", why(a), why(b));
    let declared = [(a, b), (b, a)].into_iter().find_map(|(one, other)| {
        patches[one].conflicts.iter().find(|(id, _)| *id == patches[other].id).map(|(_, at)| at.clone())
    });
    let problem = coded_error("KD022", message).hint("switch one of them off");
    problems.push(match declared {
        Some(at) => problem.at(at),
        None => problem,
    });
    let (name_a, name_b) = (patches[a].short().to_owned(), patches[b].short().to_owned());
    decision.states[a] = PatchState::Conflict { with: name_b };
    decision.states[b] = PatchState::Conflict { with: name_a };
}
