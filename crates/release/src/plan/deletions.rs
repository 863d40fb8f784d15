//! Plans the deletion of what earlier revisions left.

use std::collections::{BTreeSet, HashSet};

use slipway_cluster::{DeleteOptions, ErrorClass};
use slipway_manifest::{ObjectId, ObjectRef, object};
use slipway_problem::Problems;

use super::observe::{ClusterObserver, denial_problem};
use super::planned::{KeptObject, PlannedDeletion};
use crate::decide::{self, KeptReason};
use crate::failure::Failure;
use crate::record;
use crate::resource::annotations::ReadMode;
use crate::resource::{Ownership, Resource, is_crd, is_namespace, is_webhook_configuration};
use crate::stage::Stage;
use slipway_source::Document;

/// The objects of earlier revisions that the release no longer has.
#[derive(Default)]
pub(super) struct ObsoleteObjects {
    pub(super) deletions: Vec<PlannedDeletion>,
    pub(super) kept: Vec<KeptObject>,
}

impl ClusterObserver<'_> {
    /// Finds what of earlier revisions has to go.
    pub(super) async fn plan_deletions(
        &self,
        deployed: &HashSet<ObjectId>,
        in_release: &HashSet<ObjectId>,
        live_uids: &HashSet<String>,
        stage: Stage,
        problems: &mut Problems,
    ) -> Result<ObsoleteObjects, Failure> {
        let (name, namespace, scopes) = (&self.request.name, &self.request.namespace, self.scopes);
        // Of thousands most are still there: only what is not is looked at closely.
        let is_deployed = |document: &Document| {
            let gvk = object::gvk(&document.object);
            deployed.contains(&crate::resource::identify(&document.object, namespace, scopes.scope_of(&gvk)))
        };
        let documents = self.previous.iter().filter(|document| !is_deployed(document)).cloned().collect();
        let (resources, _) =
            record::read_resources(documents, namespace, |gvk| scopes.scope_of(gvk), ReadMode::Lenient);
        let mut candidates: Vec<Resource> = Vec::new();
        let mut kept = Vec::new();
        for resource in resources {
            if resource.settings.ownership == Ownership::Anyone {
                continue;
            }
            if resource.settings.skip_delete {
                kept.push(KeptObject { object: resource.id.to_string(), why: KeptReason::Policy });
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
        let places: Vec<ObjectRef> =
            candidates.iter().map(|resource| scopes.at(resource, namespace)).collect();
        let found = self.cluster.get_many(&places).await;
        let mut deletions = Vec::new();
        for ((resource, at), live) in candidates.into_iter().zip(places).zip(found) {
            let live = match live {
                Ok(Some(live)) => live,
                Ok(None) => continue,
                Err(error) => {
                    problems.push(denial_problem(&resource, "be looked at", error)?);
                    continue;
                }
            };
            if object::uid(&live).is_some_and(|uid| live_uids.contains(uid)) {
                continue;
            }
            if let Err(why) = decide::may_delete(&live, name, namespace) {
                kept.push(KeptObject { object: resource.id.to_string(), why });
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
            deletions.push(PlannedDeletion { resource, at, live, stage, excluded });
        }
        self.try_deleting(&deletions, problems).await?;
        Ok(ObsoleteObjects { deletions, kept })
    }

    /// Tries deleting, without effect, on one object of each kind and namespace: it may be forbidden.
    async fn try_deleting(
        &self,
        deletions: &[PlannedDeletion],
        problems: &mut Problems,
    ) -> Result<(), Failure> {
        let mut tried = BTreeSet::new();
        for deletion in deletions {
            if !tried.insert((deletion.at.gvk.clone(), deletion.at.namespace.clone())) {
                continue;
            }
            let delete = DeleteOptions {
                uid: object::uid(&deletion.live).map(str::to_owned),
                dry_run: true,
                ..DeleteOptions::default()
            };
            match self.cluster.delete(&deletion.at, &delete).await {
                Err(error) if error.class == ErrorClass::Forbidden => {
                    problems.push(denial_problem(&deletion.resource, "be deleted", error)?);
                }
                // Whatever else there is may be over by the time it counts.
                _ => {}
            }
        }
        Ok(())
    }
}
