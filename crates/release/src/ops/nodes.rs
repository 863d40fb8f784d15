//! The operations of each part of a plan: records, removals, waits for what is outside, objects.

use std::collections::BTreeSet;

use slipway_graph::Id;

use super::build::{Builder, Ids, Slot};
use super::{Act, Records};
use crate::stage::Stage;

impl Builder<'_> {
    pub(super) fn records(&mut self) {
        let Records { create, supersede, delete, forget, keep } = self.parts.records.clone();
        let mut deployed = None;
        if let Some(revision) = create {
            let (first, last) =
                (Id::from("create release"), Id::from(format!("update release: v{revision} deployed")));
            self.add(&first, Stage::Init, Slot::Free, Act::CreateRevision, None);
            self.add(&last, Stage::Final, Slot::Free, Act::FinishRevision, None);
            deployed = Some(last);
        }
        for revision in supersede {
            let id = Id::from(format!("update release: v{revision} superseded"));
            // Not before another one is deployed: a release always has one that is.
            self.add(&id, Stage::Final, Slot::Free, Act::Supersede { revision }, deployed.as_ref());
        }
        if let Some(revision) = delete {
            let id = Id::from(format!("update release: v{revision} uninstalling"));
            self.add(&id, Stage::Init, Slot::Free, Act::BeginDelete { revision }, None);
        }
        let id = |revision: i64| Id::from(format!("delete release: v{revision}"));
        for &revision in &forget {
            self.add(&id(revision), Stage::Final, Slot::Free, Act::Forget { revision }, None);
            // The one that says that the release goes is the last to go.
            if let Some(last) = delete.filter(|last| *last != revision && forget.contains(last)) {
                self.graph.need(id(last), id(revision));
            }
        }
        if let Some(revision) = keep {
            let id = Id::from(format!("update release: v{revision} uninstalled"));
            self.add(&id, Stage::Final, Slot::Free, Act::KeepHistory { revision }, None);
        }
    }

    pub(super) fn removals(&mut self) -> Vec<(Id, Id)> {
        let mut ids = Vec::with_capacity(self.parts.removals.len());
        for (number, removal) in self.parts.removals.iter().enumerate() {
            let what = removal.resource.human();
            let delete = self.id("delete", &what, 0);
            let gone = self.id("track absence", &what, 0);
            self.add(&delete, removal.stage, Slot::Free, Act::Remove { removal: number }, None);
            self.add(&gone, removal.stage, Slot::Free, Act::Removed { removal: number }, Some(&delete));
            ids.push((delete, gone));
        }
        ids
    }

    /// Waits for what is outside, each once, in the earliest stage that needs it.
    pub(super) fn awaited(&mut self) -> Vec<Option<Id>> {
        let mut first: Vec<Option<Stage>> = vec![None; self.parts.awaited.len()];
        for (item, awaits) in self.parts.items.iter().zip(self.parts.item_awaits) {
            let stages =
                item.visits.iter().filter(|visit| !visit.decision.is_none()).map(|visit| visit.stage);
            let Some(stage) = stages.min() else { continue };
            for &awaited in awaits {
                first[awaited] = Some(first[awaited].map_or(stage, |known| known.min(stage)));
            }
        }
        let mut ids = Vec::with_capacity(first.len());
        for (number, stage) in first.into_iter().enumerate() {
            let awaited = &self.parts.awaited[number];
            let id = stage.map(|stage| {
                let mut what = format!("{}/{}", awaited.gvk.kind, awaited.name);
                if !awaited.namespace.is_empty() {
                    what.push_str(&format!(" (namespace={})", awaited.namespace));
                }
                let id = self.id("track presence", &what, 0);
                self.add(&id, stage, Slot::Free, Act::Present { awaited: number }, None);
                id
            });
            ids.push(id);
        }
        ids
    }

    /// Deletes what was deployed and waits until it is gone.
    pub(super) fn clean_up(
        &mut self,
        what: &str,
        iteration: u32,
        stage: Stage,
        item: usize,
        visit: usize,
    ) -> Id {
        let delete = self.id("delete", what, iteration);
        let gone = self.id("track absence", what, iteration);
        self.add(&delete, stage, Slot::Free, Act::CleanUp { item, visit }, None);
        self.add(&gone, stage, Slot::Free, Act::CleanedUp { item, visit }, Some(&delete));
        gone
    }

    pub(super) fn items(&mut self, awaited: &[Option<Id>], even_later: &BTreeSet<usize>) -> Vec<Vec<Ids>> {
        let mut all = Vec::with_capacity(self.parts.items.len());
        for (number, item) in self.parts.items.iter().enumerate() {
            let what = item.resource.human();
            let mut visits = Vec::with_capacity(item.visits.len());
            for (at, visit) in item.visits.iter().enumerate() {
                let mut ids = Ids::default();
                let (stage, slot) = (visit.stage, Slot::of(&item.resource.settings));
                if !visit.decision.is_none() {
                    let id = self.id(visit.decision.verb(), &what, visit.iteration);
                    self.add(&id, stage, slot, Act::Deploy { item: number, visit: at }, None);
                    for external in self.parts.item_awaits.get(number).into_iter().flatten() {
                        if let Some(present) = &awaited[*external] {
                            self.graph.need(id.clone(), present.clone());
                        }
                    }
                    ids.deploy = Some(id);
                }
                if visit.follow.track {
                    let id = self.id("track readiness", &what, visit.iteration);
                    let after = ids.deploy.clone();
                    self.add(&id, stage, slot, Act::Ready { item: number, visit: at }, after.as_ref());
                    ids.ready = Some(id);
                }
                if even_later.contains(&number) {
                    self.even_later.extend([&ids.deploy, &ids.ready].into_iter().flatten().cloned());
                }
                if visit.follow.delete_on_success {
                    ids.gone = Some(self.clean_up(&what, visit.iteration, stage.cleanup(), number, at));
                }
                visits.push(ids);
            }
            all.push(visits);
        }
        all
    }
}
