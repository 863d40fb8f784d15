//! What waits for what: dependencies written by hand, and those found in the objects.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use slipway_graph::Id;
use slipway_manifest::object;
use slipway_problem::{Problem, Problems};

use super::build::Ids;
use super::{Deployed, Parts};
use crate::resource::depends::{self, Bindings, Users};
use crate::resource::{Need, NeedState, Resource, Selector, Stored, is_webhook_configuration};
use crate::stage::Stage;

const WEIGHT: &str = "werf.io/weight";

/// Finds resources by what selectors say.
pub(super) struct Index<'a> {
    resources: Vec<&'a Resource>,
    by_name: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Index<'a> {
    pub(super) fn new(resources: impl Iterator<Item = &'a Resource>) -> Self {
        let resources: Vec<&Resource> = resources.collect();
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, resource) in resources.iter().enumerate() {
            by_name.entry(&resource.id.name).or_default().push(number);
        }
        Self { resources, by_name }
    }

    pub(super) fn find(&self, selector: &Selector) -> Vec<usize> {
        let fits =
            |number: &usize| selector.matches(&self.resources[*number].gvk, &self.resources[*number].id);
        match &selector.name {
            Some(name) => self
                .by_name
                .get(name.as_str())
                .into_iter()
                .flatten()
                .copied()
                .filter(|number| fits(number))
                .collect(),
            None => (0..self.resources.len()).filter(fits).collect(),
        }
    }
}

/// Everything dependencies are looked for in, and the operations they are between.
pub(super) struct Found<'a> {
    pub(super) parts: &'a Parts<'a>,
    pub(super) index: &'a Index<'a>,
    pub(super) gone_index: &'a Index<'a>,
    pub(super) visited: &'a [Vec<Ids>],
    pub(super) removed: &'a [(Id, Id)],
}

/// Needs that may be left out, and what they come from: who, whom, through which field.
type Wishes = (Vec<(Id, Id)>, Vec<(String, String, String)>);

impl Found<'_> {
    /// What annotations of an item say; what has no effect is told.
    pub(super) fn by_hand(
        &self,
        number: usize,
        item: &Deployed,
        needs: &mut Vec<(Id, Id)>,
        warnings: &mut Problems,
    ) {
        let Found { parts, index, visited, .. } = *self;
        for need in &item.resource.settings.needs {
            let found: Vec<usize> =
                index.find(&need.selector).into_iter().filter(|other| *other != number).collect();
            let mut in_stage = false;
            warnings.extend(self.against_weight(item, need, &found));
            for (visit, ids) in item.visits.iter().zip(&visited[number]) {
                let Some(deploy) = &ids.deploy else { continue };
                for &other in &found {
                    for (theirs, their_ids) in parts.items[other].visits.iter().zip(&visited[other]) {
                        if theirs.stage != visit.stage {
                            continue;
                        }
                        in_stage = true;
                        let on = match need.state {
                            NeedState::Ready => their_ids.ready.as_ref().or(their_ids.deploy.as_ref()),
                            _ => their_ids.deploy.as_ref(),
                        };
                        needs.extend(on.map(|on| (deploy.clone(), on.clone())));
                    }
                }
            }
            let deploys = visited[number].iter().any(|ids| ids.deploy.is_some());
            if deploys && !in_stage {
                let why = if found.is_empty() {
                    "nothing of the release matches"
                } else {
                    "what matches is deployed in another stage"
                };
                let problem = Problem::warning(format!(
                    "{}: annotation `{}` ({}) has no effect: {why}",
                    item.resource.human(),
                    need.annotation,
                    need.selector
                ));
                warnings.push(item.resource.origin.blame(&item.resource.object, &need.annotation, problem));
            }
        }
    }

    /// A dependency beats a weight; where the two say the opposite, whoever wrote them is told.
    fn against_weight(&self, item: &Deployed, need: &Need, found: &[usize]) -> Option<Problem> {
        let Resource { object, origin, .. } = &item.resource;
        let weight: i64 = object::annotation(object, WEIGHT)?.trim().parse().ok()?;
        let later = found.iter().map(|other| &self.parts.items[*other].resource);
        let later = later
            .filter(|other| other.settings.weight.is_some_and(|other| other > weight))
            .min_by_key(|other| &other.id)?;
        let problem = Problem::warning(format!(
            "{}: annotation `{WEIGHT}` ({weight}) is ignored: annotation `{}` makes it wait for {}, whose weight is {}",
            item.resource.human(),
            need.annotation,
            later.human(),
            later.settings.weight.unwrap_or_default()
        ));
        Some(origin.blame(object, WEIGHT, problem))
    }

    /// What has to be gone before something else is deleted.
    pub(super) fn before_removals(&self, needs: &mut Vec<(Id, Id)>) {
        let Found { parts, index, gone_index, visited, removed } = *self;
        for (number, removal) in parts.removals.iter().enumerate() {
            for need in &removal.resource.settings.delete_needs {
                for other in gone_index.find(&need.selector) {
                    if other != number && parts.removals[other].stage == removal.stage {
                        needs.push((removed[number].0.clone(), removed[other].1.clone()));
                    }
                }
                for other in index.find(&need.selector) {
                    for (visit, ids) in parts.items[other].visits.iter().zip(&visited[other]) {
                        if visit.stage.cleanup() == removal.stage {
                            needs.extend(ids.gone.clone().map(|gone| (removed[number].0.clone(), gone)));
                        }
                    }
                }
            }
        }
    }

    /// What the objects themselves say of each other.
    pub(super) fn automatic(&self) -> Wishes {
        let Found { parts, index, gone_index, visited, removed } = *self;
        let mut wishes = Vec::new();
        let mut references = Vec::new();
        let bindings = Bindings::of(parts.items.iter().map(|item| &item.resource), parts.release_namespace);
        for (number, item) in parts.items.iter().enumerate() {
            if visited[number].iter().all(|ids| ids.deploy.is_none()) {
                continue;
            }
            for reference in depends::references(&item.resource, &bindings, parts.release_namespace) {
                for other in index.find(&reference.selector) {
                    if other == number {
                        continue;
                    }
                    for (visit, ids) in item.visits.iter().zip(&visited[number]) {
                        for (theirs, their_ids) in parts.items[other].visits.iter().zip(&visited[other]) {
                            if let (true, Some(id), Some(need)) =
                                (visit.stage == theirs.stage, &ids.deploy, &their_ids.deploy)
                            {
                                wishes.push((id.clone(), need.clone()));
                                references.push((
                                    item.resource.human(),
                                    parts.items[other].resource.human(),
                                    reference.field.clone(),
                                ));
                            }
                        }
                    }
                }
            }
        }
        hook_order(parts, visited, &mut wishes);
        let users =
            Users::of(parts.removals.iter().map(|removal| &removal.resource), parts.release_namespace);
        for (number, removal) in parts.removals.iter().enumerate() {
            for reference in depends::delete_references(&removal.resource, &users) {
                for other in gone_index.find(&reference.selector) {
                    if other != number && parts.removals[other].stage == removal.stage {
                        wishes.push((removed[number].0.clone(), removed[other].1.clone()));
                    }
                }
            }
        }
        webhooks_first(parts, removed, &mut wishes);
        (wishes, references)
    }
}

/// Pairs of hooks beyond which Helm's kind order is not kept within one weight.
const MOST_HOOK_PAIRS: usize = 4096;

/// Hooks of one weight keep Helm's order of kinds: an account before the job that uses it.
fn hook_order(parts: &Parts<'_>, visited: &[Vec<Ids>], wishes: &mut Vec<(Id, Id)>) {
    type Ranked<'a> = BTreeMap<(usize, &'a str), Vec<&'a Id>>;
    let mut groups: BTreeMap<(Stage, i64), Ranked<'_>> = BTreeMap::new();
    for (item, visits) in parts.items.iter().zip(visited) {
        let (Stored::Hook, Some(weight)) = (item.resource.stored, item.resource.settings.weight) else {
            continue;
        };
        for (visit, ids) in item.visits.iter().zip(visits) {
            if let Some(deploy) = &ids.deploy {
                let rank = slipway_chart::install_rank(&item.resource.gvk.kind);
                groups.entry((visit.stage, weight)).or_default().entry(rank).or_default().push(deploy);
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
fn webhooks_first(parts: &Parts<'_>, removed: &[(Id, Id)], wishes: &mut Vec<(Id, Id)>) {
    let all = || parts.removals.iter().zip(removed);
    for (webhook, (_, gone)) in all().filter(|(removal, _)| is_webhook_configuration(&removal.resource.gvk)) {
        let others = all().filter(|(other, _)| {
            other.stage == webhook.stage && !is_webhook_configuration(&other.resource.gvk)
        });
        wishes.extend(others.map(|(_, (delete, _))| (delete.clone(), gone.clone())));
    }
}

/// Items that wait, as annotations say, directly or not, for one that comes last: it cannot come after them.
pub(super) fn even_later(parts: &Parts<'_>, index: &Index<'_>) -> BTreeSet<usize> {
    let settings = |number: usize| &parts.items[number].resource.settings;
    let mut waiting: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for number in 0..parts.items.len() {
        for other in settings(number).needs.iter().flat_map(|need| index.find(&need.selector)) {
            waiting.entry(other).or_default().push(number);
        }
    }
    let mut pending: Vec<usize> = (0..parts.items.len()).filter(|item| settings(*item).comes_last).collect();
    let mut later = BTreeSet::new();
    while let Some(item) = pending.pop() {
        let next = waiting.get(&item).into_iter().flatten().copied();
        pending.extend(next.filter(|item| later.insert(*item)));
    }
    later
}

/// Marks what something in the same stage waits to be ready: it is waited for whatever it says itself.
pub fn force_readiness(items: &mut [Deployed]) {
    let mut forced: Vec<(usize, Stage)> = Vec::new();
    {
        let index = Index::new(items.iter().map(|item| &item.resource));
        for (number, item) in items.iter().enumerate() {
            for need in item.resource.settings.needs.iter().filter(|need| need.state == NeedState::Ready) {
                for other in index.find(&need.selector).into_iter().filter(|other| *other != number) {
                    let stages = item.visits.iter().filter(|visit| !visit.decision.is_none());
                    forced.extend(stages.map(|visit| (other, visit.stage)));
                }
            }
        }
    }
    for (number, stage) in forced {
        let item = &mut items[number];
        if item.resource.is_crd() {
            continue;
        }
        for visit in item.visits.iter_mut().filter(|visit| visit.stage == stage) {
            if !visit.decision.is_skipped() && (item.exists || !visit.decision.is_none()) {
                visit.follow.track = true;
                visit.must_be_ready = true;
            }
        }
    }
}
