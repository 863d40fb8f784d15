//! Dependencies between operations: those written by hand, and those found in the objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slipway_graph::Id;
use slipway_manifest::object;
use slipway_problem::{Problem, Problems};

use super::build::{DeletionNodes, ObjectNodes};
use super::{GraphInput, ObjectReference};
use crate::plan::{DeletionIndex, Indexed, ObjectIndex, PlannedObject};
use crate::resource::depends::{self, Bindings, Users};
use crate::resource::{NeedState, ObjectNeed, ObjectSelector, Resource, Stored, is_webhook_configuration};
use crate::stage::Stage;

const WEIGHT: &str = "werf.io/weight";

/// Finds resources by what selectors say.
pub(super) struct ResourceIndex<'a, I> {
    resources: Vec<(I, &'a Resource)>,
    by_name: HashMap<&'a str, Vec<(I, &'a Resource)>>,
}

impl<'a, I: Copy> ResourceIndex<'a, I> {
    pub(super) fn new(resources: impl Iterator<Item = (I, &'a Resource)>) -> Self {
        let resources: Vec<(I, &Resource)> = resources.collect();
        let mut by_name: HashMap<&str, Vec<(I, &Resource)>> = HashMap::new();
        for &(index, resource) in &resources {
            by_name.entry(&resource.id.name).or_default().push((index, resource));
        }
        Self { resources, by_name }
    }

    pub(super) fn find(&self, selector: &ObjectSelector) -> Vec<I> {
        let candidates = match &selector.name {
            Some(name) => self.by_name.get(name.as_str()).map_or(&[][..], Vec::as_slice),
            None => &self.resources,
        };
        let fitting = candidates.iter().filter(|(_, resource)| selector.matches(&resource.gvk, &resource.id));
        fitting.map(|(index, _)| *index).collect()
    }
}

/// Finds dependencies between the operations on objects and deletions.
pub(super) struct DependencyFinder<'a> {
    pub(super) release_namespace: &'a str,
    pub(super) objects: &'a [ObjectNodes<'a>],
    pub(super) deletions: &'a [DeletionNodes<'a>],
    pub(super) in_objects: &'a ResourceIndex<'a, ObjectIndex>,
    pub(super) in_deletions: &'a ResourceIndex<'a, DeletionIndex>,
}

/// Dependencies nobody wrote down.
#[derive(Default)]
pub(super) struct AutomaticDependencies {
    /// Needs that may be left out.
    pub(super) wishes: Vec<(Id, Id)>,
    /// The fields they come from.
    pub(super) references: Vec<ObjectReference>,
}

impl DependencyFinder<'_> {
    /// Dependencies annotations ask for; those without effect are told.
    pub(super) fn by_hand(&self, needs: &mut Vec<(Id, Id)>, warnings: &mut Problems) {
        for (index, nodes) in self.objects.indexed() {
            for need in &nodes.object.resource.settings.needs {
                let found = self.in_objects.find(&need.selector).into_iter();
                let found: Vec<&ObjectNodes<'_>> =
                    found.filter(|other| *other != index).map(|other| self.objects.at(other)).collect();
                warnings.extend(against_weight(nodes.object, need, &found));
                self.wait_for(nodes, need, &found, needs, warnings);
            }
        }
    }

    /// Lets an object wait for those a need selects, in every stage they share.
    fn wait_for(
        &self,
        nodes: &ObjectNodes<'_>,
        need: &ObjectNeed,
        found: &[&ObjectNodes<'_>],
        needs: &mut Vec<(Id, Id)>,
        warnings: &mut Problems,
    ) {
        let mut in_stage = false;
        for own in &nodes.visits {
            let Some(deploy) = &own.deploy else { continue };
            for theirs in found.iter().flat_map(|other| &other.visits) {
                if theirs.visit.stage != own.visit.stage {
                    continue;
                }
                in_stage = true;
                let on = match need.state {
                    NeedState::Ready => theirs.ready.as_ref().or(theirs.deploy.as_ref()),
                    _ => theirs.deploy.as_ref(),
                };
                needs.extend(on.map(|on| (deploy.clone(), on.clone())));
            }
        }
        if nodes.is_deployed() && !in_stage {
            let why = if found.is_empty() {
                "nothing of the release matches"
            } else {
                "what matches is deployed in another stage"
            };
            let resource = &nodes.object.resource;
            let problem = Problem::warning(format!(
                "{}: annotation `{}` ({}) has no effect: {why}",
                resource.id, need.annotation, need.selector
            ));
            warnings.push(resource.origin.blame(&resource.object, &need.annotation, problem));
        }
    }

    /// Dependencies of deletions on what has to be gone before.
    pub(super) fn before_deletions(&self, needs: &mut Vec<(Id, Id)>) {
        for (index, own) in self.deletions.indexed() {
            for need in &own.deletion.resource.settings.delete_needs {
                let others = self.in_deletions.find(&need.selector).into_iter();
                for other in others.filter(|other| *other != index).map(|other| self.deletions.at(other)) {
                    if other.deletion.stage == own.deletion.stage {
                        needs.push((own.delete.clone(), other.gone.clone()));
                    }
                }
                for other in self.in_objects.find(&need.selector) {
                    for nodes in &self.objects.at(other).visits {
                        if nodes.visit.stage.cleanup() == own.deletion.stage {
                            needs.extend(nodes.gone.clone().map(|gone| (own.delete.clone(), gone)));
                        }
                    }
                }
            }
        }
    }

    /// Dependencies the objects themselves name.
    pub(super) fn automatic(&self) -> AutomaticDependencies {
        let mut found = AutomaticDependencies::default();
        let resources = self.objects.iter().map(|nodes| &nodes.object.resource);
        let bindings = Bindings::of(resources, self.release_namespace);
        for (index, nodes) in self.objects.indexed().filter(|(_, nodes)| nodes.is_deployed()) {
            let resource = &nodes.object.resource;
            for reference in depends::references(resource, &bindings, self.release_namespace) {
                for other in self.in_objects.find(&reference.selector) {
                    if other != index {
                        found.between(nodes, self.objects.at(other), &reference.field);
                    }
                }
            }
        }
        hook_order(self.objects, &mut found.wishes);
        let resources = self.deletions.iter().map(|nodes| &nodes.deletion.resource);
        let users = Users::of(resources, self.release_namespace);
        for (index, own) in self.deletions.indexed() {
            for reference in depends::delete_references(&own.deletion.resource, &users) {
                let others = self.in_deletions.find(&reference.selector).into_iter();
                for other in others.filter(|other| *other != index).map(|other| self.deletions.at(other)) {
                    if other.deletion.stage == own.deletion.stage {
                        found.wishes.push((own.delete.clone(), other.gone.clone()));
                    }
                }
            }
        }
        webhooks_first(self.deletions, &mut found.wishes);
        found
    }
}

impl AutomaticDependencies {
    /// Lets one object wait for another in every stage both are deployed in.
    fn between(&mut self, dependent: &ObjectNodes<'_>, dependency: &ObjectNodes<'_>, field: &str) {
        for own in &dependent.visits {
            for theirs in &dependency.visits {
                if let (true, Some(id), Some(need)) =
                    (own.visit.stage == theirs.visit.stage, &own.deploy, &theirs.deploy)
                {
                    self.wishes.push((id.clone(), need.clone()));
                    self.references.push(ObjectReference {
                        dependent: dependent.object.resource.id.to_string(),
                        dependency: dependency.object.resource.id.to_string(),
                        field: field.to_owned(),
                    });
                }
            }
        }
    }
}

/// A dependency beats a weight; where the two say the opposite, whoever wrote them is told.
fn against_weight(object: &PlannedObject, need: &ObjectNeed, found: &[&ObjectNodes<'_>]) -> Option<Problem> {
    let resource = &object.resource;
    let weight: i64 = object::annotation(&resource.object, WEIGHT)?.trim().parse().ok()?;
    let later = found.iter().map(|other| &other.object.resource);
    let later = later
        .filter(|other| other.settings.weight.is_some_and(|other| other > weight))
        .min_by_key(|other| &other.id)?;
    let problem = Problem::warning(format!(
        "{}: annotation `{WEIGHT}` ({weight}) is ignored: annotation `{}` makes it wait for {}, whose weight is {}",
        resource.id,
        need.annotation,
        later.id,
        later.settings.weight.unwrap_or_default()
    ));
    Some(resource.origin.blame(&resource.object, WEIGHT, problem))
}

/// Pairs of hooks beyond which Helm's kind order is not kept within one weight.
const MOST_HOOK_PAIRS: usize = 4096;

/// Hooks of one weight keep Helm's order of kinds: an account before the job that uses it.
fn hook_order(objects: &[ObjectNodes<'_>], wishes: &mut Vec<(Id, Id)>) {
    type Ranked<'a> = BTreeMap<(usize, &'a str), Vec<&'a Id>>;
    let mut groups: BTreeMap<(Stage, i64), Ranked<'_>> = BTreeMap::new();
    for ObjectNodes { object, visits } in objects {
        let (Stored::Hook, Some(weight)) = (object.resource.stored, object.resource.settings.weight) else {
            continue;
        };
        for nodes in visits {
            if let Some(deploy) = &nodes.deploy {
                let rank = slipway_chart::install_rank(&object.resource.gvk.kind);
                groups.entry((nodes.visit.stage, weight)).or_default().entry(rank).or_default().push(deploy);
            }
        }
    }
    for ranks in groups.into_values() {
        let ranks: Vec<Vec<&Id>> = ranks.into_values().collect();
        for pair in ranks.windows(2) {
            if pair[0].len() * pair[1].len() > MOST_HOOK_PAIRS {
                continue;
            }
            for later in &pair[1] {
                wishes.extend(pair[0].iter().map(|earlier| ((*later).clone(), (*earlier).clone())));
            }
        }
    }
}

/// Webhook configurations are gone before anything else of their stage goes: without what serves them they
/// would refuse the rest.
fn webhooks_first(deletions: &[DeletionNodes<'_>], wishes: &mut Vec<(Id, Id)>) {
    let is_webhook = |nodes: &DeletionNodes<'_>| is_webhook_configuration(&nodes.deletion.resource.gvk);
    for webhook in deletions.iter().filter(|nodes| is_webhook(nodes)) {
        let others = deletions
            .iter()
            .filter(|other| other.deletion.stage == webhook.deletion.stage && !is_webhook(other));
        wishes.extend(others.map(|other| (other.delete.clone(), webhook.gone.clone())));
    }
}

/// Objects that wait, as annotations say, directly or not, for one that comes last: it cannot come after them.
pub(super) fn even_later(
    input: &GraphInput<'_>,
    in_objects: &ResourceIndex<'_, ObjectIndex>,
) -> BTreeSet<ObjectIndex> {
    let mut waiting: BTreeMap<ObjectIndex, Vec<ObjectIndex>> = BTreeMap::new();
    let mut pending: Vec<ObjectIndex> = Vec::new();
    for (index, object) in input.objects.indexed() {
        let settings = &object.resource.settings;
        for other in settings.needs.iter().flat_map(|need| in_objects.find(&need.selector)) {
            waiting.entry(other).or_default().push(index);
        }
        if settings.comes_last {
            pending.push(index);
        }
    }
    let mut later = BTreeSet::new();
    while let Some(index) = pending.pop() {
        let next = waiting.get(&index).into_iter().flatten().copied();
        pending.extend(next.filter(|index| later.insert(*index)));
    }
    later
}

/// Marks what something in the same stage waits to be ready: it is waited for whatever it says itself.
pub fn force_readiness(objects: &mut [PlannedObject]) {
    let mut forced: BTreeSet<(ObjectIndex, Stage)> = BTreeSet::new();
    let in_objects = ResourceIndex::new(objects.indexed().map(|(index, object)| (index, &object.resource)));
    for (index, object) in objects.indexed() {
        let needs = object.resource.settings.needs.iter();
        for need in needs.filter(|need| need.state == NeedState::Ready) {
            for other in in_objects.find(&need.selector).into_iter().filter(|other| *other != index) {
                let changing = object.visits.iter().filter(|visit| !visit.change.is_none());
                forced.extend(changing.map(|visit| (other, visit.stage)));
            }
        }
    }
    for (index, stage) in forced {
        let object = objects.at_mut(index);
        if object.resource.is_crd() {
            continue;
        }
        let exists = object.live.is_some();
        for visit in object.visits.iter_mut().filter(|visit| visit.stage == stage) {
            if !visit.change.is_skipped() && (exists || !visit.change.is_none()) {
                visit.follow.track = true;
                visit.must_be_ready = true;
            }
        }
    }
}
