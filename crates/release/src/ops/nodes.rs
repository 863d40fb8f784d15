//! The operations of each part of a plan: records, deletions, waits for what is outside, objects.

use std::collections::{BTreeMap, BTreeSet};

use slipway_graph::Id;
use slipway_manifest::ObjectRef;

use super::build::{Builder, DeletionNodes, ObjectNodes, Slot, VisitNodes};
use super::{OperationKind, RecordChanges};
use crate::name::Revision;
use crate::plan::{ExternalIndex, Indexed, ObjectIndex, VisitIndex};
use crate::stage::Stage;

impl<'a> Builder<'a> {
    pub(super) fn records(&mut self) {
        let RecordChanges { create, supersede, delete, forget, keep } = self.input.records.clone();
        let mut deployed = None;
        if let Some(revision) = create {
            let (first, last) =
                (Id::from("create release"), Id::from(format!("update release: v{revision} deployed")));
            self.add(&first, Stage::Init, Slot::Free, OperationKind::CreateRevision, None);
            self.add(&last, Stage::Final, Slot::Free, OperationKind::FinishRevision, None);
            deployed = Some(last);
        }
        for revision in supersede {
            let id = Id::from(format!("update release: v{revision} superseded"));
            // Not before another one is deployed: a release always has one that is.
            let kind = OperationKind::SupersedeRevision(revision);
            self.add(&id, Stage::Final, Slot::Free, kind, deployed.as_ref());
        }
        if let Some(revision) = delete {
            let id = Id::from(format!("update release: v{revision} uninstalling"));
            self.add(&id, Stage::Init, Slot::Free, OperationKind::BeginDelete(revision), None);
        }
        let id = |revision: Revision| Id::from(format!("delete release: v{revision}"));
        for &revision in &forget {
            let kind = OperationKind::ForgetRevision(revision);
            self.add(&id(revision), Stage::Final, Slot::Free, kind, None);
            // The one that says that the release goes is the last to go.
            if let Some(last) = delete.filter(|last| *last != revision && forget.contains(last)) {
                self.graph.need(id(last), id(revision));
            }
        }
        if let Some(revision) = keep {
            let id = Id::from(format!("update release: v{revision} uninstalled"));
            self.add(&id, Stage::Final, Slot::Free, OperationKind::KeepHistory(revision), None);
        }
    }

    pub(super) fn deletions(&mut self) -> Vec<DeletionNodes<'a>> {
        let mut all = Vec::with_capacity(self.input.deletions.len());
        for (index, deletion) in self.input.deletions.indexed() {
            let what = deletion.resource.id.to_string();
            let delete = self.id("delete", &what, 0);
            let gone = self.id("track absence", &what, 0);
            self.add(&delete, deletion.stage, Slot::Free, OperationKind::Delete(index), None);
            self.add(&gone, deletion.stage, Slot::Free, OperationKind::TrackAbsence(index), Some(&delete));
            all.push(DeletionNodes { deletion, delete, gone });
        }
        all
    }

    /// Waits for what is outside, each once, in the earliest stage that needs it.
    pub(super) fn externals(&mut self) -> BTreeMap<ExternalIndex, Id> {
        let mut first: BTreeMap<ExternalIndex, Stage> = BTreeMap::new();
        for object in self.input.objects {
            let changing = object.visits.iter().filter(|visit| !visit.change.is_none());
            let Some(stage) = changing.map(|visit| visit.stage).min() else { continue };
            for &external in &object.externals {
                first.entry(external).and_modify(|known| *known = stage.min(*known)).or_insert(stage);
            }
        }
        let mut ids = BTreeMap::new();
        for (index, stage) in first {
            let external = self.input.externals.at(index);
            let (namespace, name) = (external.namespace.as_str(), external.name.as_str());
            let what = ObjectRef::new(external.gvk.clone(), Some(namespace), name).to_string();
            let id = self.id("track presence", &what, 0);
            self.add(&id, stage, Slot::Free, OperationKind::TrackPresence(index), None);
            ids.insert(index, id);
        }
        ids
    }

    /// Deletes what was deployed and waits until it is gone.
    pub(super) fn clean_up(&mut self, what: &str, iteration: u32, stage: Stage, index: VisitIndex) -> Id {
        let delete = self.id("delete", what, iteration);
        let gone = self.id("track absence", what, iteration);
        self.add(&delete, stage, Slot::Free, OperationKind::CleanUp(index), None);
        self.add(&gone, stage, Slot::Free, OperationKind::TrackCleanUp(index), Some(&delete));
        gone
    }

    pub(super) fn objects(
        &mut self,
        externals: &BTreeMap<ExternalIndex, Id>,
        even_later: &BTreeSet<ObjectIndex>,
    ) -> Vec<ObjectNodes<'a>> {
        let mut all = Vec::with_capacity(self.input.objects.len());
        for (index, object) in self.input.objects.indexed() {
            let what = object.resource.id.to_string();
            let slot = Slot::of(&object.resource.settings);
            let mut visits = Vec::with_capacity(object.visits.len());
            for (number, visit) in object.visits.iter().enumerate() {
                let (stage, at) = (visit.stage, VisitIndex { object: index, visit: number });
                let mut nodes = VisitNodes { visit, deploy: None, ready: None, gone: None };
                if !visit.change.is_none() {
                    let id = self.id(visit.change.verb(), &what, visit.iteration);
                    self.add(&id, stage, slot, OperationKind::Deploy(at), None);
                    for present in object.externals.iter().filter_map(|external| externals.get(external)) {
                        self.graph.need(id.clone(), present.clone());
                    }
                    nodes.deploy = Some(id);
                }
                if visit.follow.track {
                    let id = self.id("track readiness", &what, visit.iteration);
                    let after = nodes.deploy.clone();
                    self.add(&id, stage, slot, OperationKind::TrackReadiness(at), after.as_ref());
                    nodes.ready = Some(id);
                }
                if even_later.contains(&index) {
                    self.even_later.extend([&nodes.deploy, &nodes.ready].into_iter().flatten().cloned());
                }
                if visit.follow.delete_on_success {
                    nodes.gone = Some(self.clean_up(&what, visit.iteration, stage.cleanup(), at));
                }
                visits.push(nodes);
            }
            all.push(ObjectNodes { object, visits });
        }
        all
    }
}
