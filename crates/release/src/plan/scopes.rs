//! Kinds and namespaces that are there, or will be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;
use slipway_cluster::helm::ReleaseHistory;
use slipway_cluster::{Cluster, ErrorClass, ServedKinds};
use slipway_manifest::{Gvk, ObjectRef, object};
use slipway_problem::{Problem, Problems, nearest_name};

use super::compile::WantedResource;
use crate::failure::Failure;
use crate::resource::{KindScope, Resource, is_crd, is_namespace};
use slipway_source::Document;

/// The scopes of kinds: the cluster knows them, or definitions of the release do.
pub(super) struct KindScopes {
    known: BTreeMap<Gvk, KindScope>,
    /// Kinds the release defines itself, by group and kind.
    own: BTreeMap<(String, String), KindScope>,
    /// All the cluster serves, asked for where something is missing.
    served: Option<Arc<ServedKinds>>,
}

impl KindScopes {
    /// Asks for the kinds of `documents`, whose own definitions count, and of `previous` ones.
    pub(super) async fn discover_kinds(
        cluster: &Cluster,
        documents: &[Document],
        previous: &[Document],
    ) -> Result<KindScopes, Failure> {
        let mut own = BTreeMap::new();
        let mut wanted: BTreeSet<Gvk> =
            previous.iter().map(|document| object::gvk(&document.object)).collect();
        for document in documents {
            let gvk = object::gvk(&document.object);
            if is_crd(&gvk) {
                let text = |path: &str| document.object.pointer(path).and_then(Value::as_str);
                if let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) {
                    let namespaced = text("/spec/scope") == Some("Namespaced");
                    let scope = if namespaced { KindScope::Namespaced } else { KindScope::Cluster };
                    own.insert((group.to_owned(), kind.to_owned()), scope);
                }
            }
            wanted.insert(gvk);
        }
        let mut known = BTreeMap::new();
        for gvk in wanted {
            let scope = match cluster.find_kind(&gvk).await? {
                Some(kind) if kind.namespaced => KindScope::Namespaced,
                Some(_) => KindScope::Cluster,
                None => continue,
            };
            known.insert(gvk, scope);
        }
        let is_missing =
            |gvk: &Gvk| !known.contains_key(gvk) && !own.contains_key(&(gvk.group.clone(), gvk.kind.clone()));
        let served = if documents.iter().any(|document| is_missing(&object::gvk(&document.object))) {
            Some(cluster.served_kinds().await?)
        } else {
            None
        };
        Ok(KindScopes { known, own, served })
    }

    pub(super) fn is_served(&self, gvk: &Gvk) -> bool {
        self.known.contains_key(gvk)
    }

    pub(super) fn scope_of(&self, gvk: &Gvk) -> KindScope {
        self.known.get(gvk).copied().unwrap_or_else(|| {
            self.own.get(&(gvk.group.clone(), gvk.kind.clone())).copied().unwrap_or(KindScope::Unknown)
        })
    }

    /// Kinds neither the cluster nor the release knows.
    pub(super) fn unknown_kinds(&self, resources: &[Resource]) -> Problems {
        let missing = resources.iter().filter(|resource| self.scope_of(&resource.gvk) == KindScope::Unknown);
        missing
            .map(|resource| {
                let gvk = &resource.gvk;
                let problem = Problem::error(format!(
                    "{}: the cluster serves no kind {} in {}",
                    resource.id,
                    gvk.kind,
                    gvk.api_version()
                ))
                .hint(self.advice_for(gvk));
                resource.origin.place_problem(&resource.object, "apiVersion", problem)
            })
            .collect()
    }

    /// The hint for a kind that is not served.
    fn advice_for(&self, gvk: &Gvk) -> String {
        let all = || self.served.iter().flat_map(|served| served.iter()).map(|kind| &kind.gvk);
        let mut places: Vec<String> =
            all().filter(|served| served.kind == gvk.kind).map(Gvk::api_version).collect();
        places.sort_unstable();
        places.dedup();
        if !places.is_empty() {
            return format!("it is served in {}: correct apiVersion", places.join(", "));
        }
        let alike = all().filter(|served| served.group == gvk.group).map(|served| served.kind.as_str());
        match nearest_name(&gvk.kind, alike) {
            Some(kind) => format!("did you mean `{kind}`?"),
            None => "install the definition of the kind first, or correct apiVersion and kind".to_owned(),
        }
    }

    pub(super) fn at(&self, resource: &Resource, release_namespace: &str) -> ObjectRef {
        let namespace = match self.scope_of(&resource.gvk) {
            KindScope::Cluster => None,
            _ if resource.id.namespace.is_empty() => Some(release_namespace),
            _ => Some(resource.id.namespace.as_str()),
        };
        ObjectRef::new(resource.gvk.clone(), namespace, resource.id.name.as_str())
    }
}

/// The namespaces that are missing.
pub(super) struct MissingNamespaces {
    missing: BTreeSet<String>,
    /// Missing ones that come about before anything is put into them.
    coming: BTreeSet<String>,
}

impl MissingNamespaces {
    /// Looks for the namespaces of a release. Its own is there if the release is recorded in it.
    pub(super) async fn discover_missing(
        cluster: &Cluster,
        own: &str,
        history: &ReleaseHistory,
        wanted: &[WantedResource],
    ) -> Result<MissingNamespaces, Failure> {
        let mut names: BTreeSet<String> =
            wanted.iter().map(|wanted| wanted.resource.id.namespace.clone()).collect();
        names.remove("");
        if history.releases.is_empty() {
            names.insert(own.to_owned());
        } else {
            names.remove(own);
        }
        let names: Vec<String> = names.into_iter().collect();
        let found = futures::future::join_all(names.iter().map(|name| async move {
            cluster.get(&ObjectRef::new(Gvk::new("", "v1", "Namespace"), None, name.as_str())).await
        }))
        .await;
        let mut missing = BTreeSet::new();
        for (name, found) in names.into_iter().zip(found) {
            match found {
                Ok(Some(_)) => {}
                Ok(None) => {
                    missing.insert(name);
                }
                // Who may not see namespaces may still work in one.
                Err(error) if error.class == ErrorClass::Forbidden => {}
                Err(error) => return Err(error.into()),
            }
        }
        let resources = wanted.iter().map(|wanted| &wanted.resource);
        let made = resources.filter(|resource| is_namespace(&resource.gvk));
        let mut coming: BTreeSet<String> = made.map(|resource| resource.id.name.clone()).collect();
        // The plan makes the release's own.
        coming.insert(own.to_owned());
        Ok(MissingNamespaces { missing, coming })
    }

    /// Objects in namespaces that neither exist nor will.
    pub(super) fn missing_for(&self, wanted: &[WantedResource]) -> Problems {
        let lost = wanted.iter().map(|wanted| &wanted.resource).filter(|resource| {
            let namespace = &resource.id.namespace;
            self.missing.contains(namespace) && !self.coming.contains(namespace)
        });
        lost.map(|resource| {
            let namespace = &resource.id.namespace;
            let problem = Problem::error(format!(
                "{}: namespace `{namespace}` does not exist, and the release does not create it",
                resource.id
            ))
            .hint(format!(
                "keep the release there too with `-n {namespace}`, add a Namespace to it, create it first, or \
                 correct `metadata.namespace`"
            ));
            resource.origin.place_problem(&resource.object, "namespace:", problem)
        })
        .collect()
    }

    pub(super) fn is_missing(&self, namespace: &str) -> bool {
        self.missing.contains(namespace)
    }

    pub(super) fn has_namespace_of(&self, at: &ObjectRef) -> bool {
        at.namespace.as_ref().is_none_or(|namespace| !self.missing.contains(namespace))
    }
}
