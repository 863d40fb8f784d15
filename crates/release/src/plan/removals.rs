//! What of earlier revisions has to go.

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;
use serde_json::Value;
use slipway_cluster::{At, Delete, ErrorClass};
use slipway_manifest::{ObjectId, object};
use slipway_problem::Problems;

use super::look::{Look, denied, uid};
use crate::decide::{self, Kept};
use crate::failure::Failure;
use crate::ops::Removed;
use crate::record;
use crate::resource::settings::Reading;
use crate::resource::{Ownership, Resource, is_crd, is_namespace, is_webhook_configuration};
use crate::stage::Stage;
use slipway_source::Document;

/// The deletion of an object the release no longer has, with what was found out about it.
#[derive(Clone, Debug)]
pub struct PlannedDeletion {
    pub at: At,
    pub live: Value,
    /// Still in the release, but not deployed at this moment.
    pub excluded: bool,
}

/// An object of an earlier revision that stays.
#[derive(Clone, Debug, Serialize)]
pub struct Remaining {
    pub object: String,
    #[serde(flatten)]
    pub why: Kept,
}

impl Look<'_> {
    /// What of earlier revisions has to go.
    pub(super) async fn removals(
        &self,
        deployed: &HashSet<ObjectId>,
        in_release: &HashSet<ObjectId>,
        live_uids: &HashSet<String>,
        stage: Stage,
        problems: &mut Problems,
    ) -> Result<(Vec<Removed>, Vec<PlannedDeletion>, Vec<Remaining>), Failure> {
        let (name, namespace, scopes) = (&self.request.name, &self.request.namespace, self.scopes);
        // Of thousands most are still there: only what is not is looked at closely.
        let is_deployed = |document: &Document| {
            let gvk = object::gvk(&document.object);
            deployed.contains(&crate::resource::identify(&document.object, namespace, scopes.of(&gvk)))
        };
        let documents = self.previous.iter().filter(|document| !is_deployed(document)).cloned().collect();
        let (resources, _) = record::resources(documents, namespace, |gvk| scopes.of(gvk), Reading::Lenient);
        let mut candidates: Vec<Resource> = Vec::new();
        let mut remaining = Vec::new();
        for resource in resources {
            if resource.settings.ownership == Ownership::Anyone {
                continue;
            }
            if resource.settings.skip_delete {
                remaining.push(Remaining { object: resource.human(), why: Kept::Policy });
                continue;
            }
            if scopes.is_served(&resource.gvk) {
                candidates.push(resource);
            }
        }
        candidates.sort_by(|a, b| {
            let key = |resource: &Resource| (resource.gvk.kind.clone(), resource.id.clone());
            key(a).cmp(&key(b))
        });
        let places: Vec<At> = candidates.iter().map(|resource| scopes.at(resource, namespace)).collect();
        let found = self.cluster.get_many(&places).await;
        let (mut removals, mut doomed) = (Vec::new(), Vec::new());
        for ((resource, at), live) in candidates.into_iter().zip(places).zip(found) {
            let live = match live {
                Ok(Some(live)) => live,
                Ok(None) => continue,
                Err(error) => {
                    problems.push(denied(&resource, "be looked at", error)?);
                    continue;
                }
            };
            if uid(&live).is_some_and(|uid| live_uids.contains(&uid)) {
                continue;
            }
            if let Err(why) = decide::may_delete(&live, name, namespace) {
                remaining.push(Remaining { object: resource.human(), why });
                continue;
            }
            // Webhooks go before what serves them, or they would refuse the rest.
            let stage = if stage == Stage::Uninstall && is_webhook_configuration(&resource.gvk) {
                Stage::PreUninstall
            } else if stage == Stage::Uninstall && (is_crd(&resource.gvk) || is_namespace(&resource.gvk)) {
                Stage::PostPostUninstall
            } else {
                stage
            };
            let excluded = in_release.contains(&resource.id);
            removals.push(Removed { resource, stage });
            doomed.push(PlannedDeletion { at, live, excluded });
        }
        self.try_deleting(&removals, &doomed, problems).await?;
        Ok((removals, doomed, remaining))
    }

    /// Whether deleting is allowed, tried without effect on one object of each kind and namespace.
    async fn try_deleting(
        &self,
        removals: &[Removed],
        doomed: &[PlannedDeletion],
        problems: &mut Problems,
    ) -> Result<(), Failure> {
        let mut tried = BTreeSet::new();
        for (removal, doomed) in removals.iter().zip(doomed) {
            if !tried.insert((doomed.at.gvk.clone(), doomed.at.namespace.clone())) {
                continue;
            }
            let delete = Delete { uid: uid(&doomed.live), dry_run: true, ..Delete::default() };
            match self.cluster.delete(&doomed.at, &delete).await {
                Err(error) if error.class == ErrorClass::Forbidden => {
                    problems.push(denied(&removal.resource, "be deleted", error)?);
                }
                // Whatever else there is may be over by the time it counts.
                _ => {}
            }
        }
        Ok(())
    }
}
