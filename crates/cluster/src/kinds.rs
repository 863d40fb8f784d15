//! The kinds a cluster serves, and how people name them.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_manifest::{Gvk, ObjectRef, object};

/// One served kind.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kind {
    pub gvk: Gvk,
    /// What stands in a URL: `deployments`.
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: Vec<String>,
    /// Without the resource in front: `status`, `scale`, `log`.
    pub subresources: Vec<String>,
    /// The kinds subresources take or give where it is not this one: `Scale`, `Eviction`.
    #[serde(default)]
    pub subresource_kinds: Vec<String>,
}

impl Kind {
    /// A kind known without asking.
    pub(crate) fn known(group: &str, version: &str, kind: &str, plural: &str, namespaced: bool) -> Kind {
        Kind {
            gvk: Gvk::new(group, version, kind),
            plural: plural.to_owned(),
            singular: kind.to_lowercase(),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced,
            verbs: ["create", "delete", "get", "list", "patch", "update", "watch"].map(Into::into).to_vec(),
            subresources: Vec::new(),
            subresource_kinds: Vec::new(),
        }
    }

    /// `deployments.apps`, or `pods` for the core group.
    pub fn resource(&self) -> String {
        match self.gvk.group.as_str() {
            "" => self.plural.clone(),
            group => format!("{}.{group}", self.plural),
        }
    }

    /// Refers to the object of a manifest: in its own namespace or else the default, in none if the kind has none.
    pub fn object_ref(&self, manifest: &Value, default_namespace: &str) -> ObjectRef {
        let namespace = self.namespaced.then(|| object::namespace(manifest).unwrap_or(default_namespace));
        ObjectRef::new(self.gvk.clone(), namespace, object::name(manifest).unwrap_or_default())
    }

    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|known| known == verb)
    }

    /// The URL path of the collection, in a namespace or of the whole cluster.
    pub(crate) fn collection(&self, namespace: Option<&str>) -> String {
        let Gvk { group, version, .. } = &self.gvk;
        let root =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        match namespace {
            Some(namespace) if self.namespaced => format!("{root}/namespaces/{namespace}/{}", self.plural),
            _ => format!("{root}/{}", self.plural),
        }
    }
}

/// The few kinds the engines themselves write, which every server has: no discovery for them.
pub(crate) fn well_known(gvk: &Gvk) -> Option<Arc<Kind>> {
    if !gvk.group.is_empty() || gvk.version != "v1" {
        return None;
    }
    let (plural, namespaced) = match gvk.kind.as_str() {
        "Secret" => ("secrets", true),
        "ConfigMap" => ("configmaps", true),
        "Pod" => ("pods", true),
        "Event" => ("events", true),
        "Namespace" => ("namespaces", false),
        _ => return None,
    };
    Some(Arc::new(Kind::known("", "v1", &gvk.kind, plural, namespaced)))
}

/// Everything a cluster serves, in the server's order of preference.
#[derive(Clone, Debug, Default)]
pub struct Kinds {
    all: Vec<Arc<Kind>>,
    by_gvk: HashMap<Gvk, usize>,
    /// Groups and versions that could not be read, with the reason.
    pub warnings: Vec<String>,
}

impl Kinds {
    pub(crate) fn new(all: Vec<Kind>, warnings: Vec<String>) -> Kinds {
        let mut kinds = Kinds { warnings, ..Kinds::default() };
        for kind in all {
            // A kind may be served under several resources; the first is the one meant.
            kinds.by_gvk.entry(kind.gvk.clone()).or_insert(kinds.all.len());
            kinds.all.push(Arc::new(kind));
        }
        kinds
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.iter()
    }

    pub fn by_gvk(&self, gvk: &Gvk) -> Option<&Arc<Kind>> {
        self.by_gvk.get(gvk).map(|index| &self.all[*index])
    }

    /// Finds a kind by group and kind, in the version the server prefers.
    pub fn preferred(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.all.iter().find(|known| known.gvk.group == group && known.gvk.kind == kind)
    }

    /// Finds what a person calls `deploy`, `deployments`, `Deployment`, `deployments.apps` or
    /// `deploy.v1.apps`. Where several fit, the core group and then the server's order decide.
    pub fn by_name(&self, name: &str) -> Option<&Arc<Kind>> {
        let (word, rest) = match name.split_once('.') {
            Some((word, rest)) => (word, Some(rest)),
            None => (name, None),
        };
        if word.is_empty() {
            return None;
        }
        let lower = word.to_lowercase();
        let fits = |kind: &Kind| {
            kind.plural == lower || kind.singular == lower || kind.gvk.kind.to_lowercase() == lower
        };
        let is_short = |kind: &Kind| kind.short_names.contains(&lower);
        let in_place = |kind: &Kind| match rest {
            None => true,
            Some(rest) => match rest.split_once('.') {
                Some((version, group)) if version == kind.gvk.version && group == kind.gvk.group => true,
                // A prefix of a group is enough, as it is for kubectl.
                _ => kind.gvk.group == rest || (rest == kind.gvk.version && kind.gvk.group.is_empty()),
            },
        };
        let mut candidates: Vec<&Arc<Kind>> = self.all.iter().filter(|kind| in_place(kind)).collect();
        candidates.sort_by_key(|kind| !kind.gvk.group.is_empty());
        candidates
            .iter()
            .find(|kind| fits(kind))
            .or_else(|| candidates.iter().find(|kind| is_short(kind)))
            .copied()
    }

    /// `v1`, `apps/v1` and `apps/v1/Deployment`, for Helm's `.Capabilities.APIVersions`; sorted. Kinds of
    /// subresources count as kinds of the version they stand under, as they do in Helm.
    pub fn api_versions(&self) -> Vec<String> {
        let mut versions = BTreeSet::new();
        for kind in &self.all {
            let api_version = kind.gvk.api_version();
            for name in kind.subresource_kinds.iter().chain([&kind.gvk.kind]) {
                versions.insert(format!("{api_version}/{name}"));
            }
            versions.insert(api_version);
        }
        versions.into_iter().collect()
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(|item| item.as_str().map(str::to_owned)).collect()
}

/// Reads one document of aggregated discovery.
pub(crate) fn read_aggregated(document: &Value, all: &mut Vec<Kind>, warnings: &mut Vec<String>) {
    for item in document["items"].as_array().into_iter().flatten() {
        let group = item["metadata"]["name"].as_str().unwrap_or_default();
        for version in item["versions"].as_array().into_iter().flatten() {
            let name = version["version"].as_str().unwrap_or_default();
            if version["freshness"] == "Stale" {
                let api_version = object::join_api_version(group, name);
                warnings.push(format!("{api_version}: its server does not answer; kinds may be missing"));
            }
            for resource in version["resources"].as_array().into_iter().flatten() {
                let response = &resource["responseKind"];
                let part = |field: &str, default: &str| match response[field].as_str() {
                    Some(text) if !text.is_empty() => text.to_owned(),
                    _ => default.to_owned(),
                };
                let kind = part("kind", "");
                if kind.is_empty() {
                    continue;
                }
                let plural = resource["resource"].as_str().unwrap_or_default().to_owned();
                let subresources = || resource["subresources"].as_array().into_iter().flatten();
                all.push(Kind {
                    // The URL decides the group and version; the response kind may differ for odd resources.
                    gvk: Gvk::new(group, name, kind.clone()),
                    singular: match resource["singularResource"].as_str() {
                        Some(singular) if !singular.is_empty() => singular.to_owned(),
                        _ => kind.to_lowercase(),
                    },
                    plural,
                    short_names: texts(&resource["shortNames"]),
                    categories: texts(&resource["categories"]),
                    namespaced: resource["scope"] == "Namespaced",
                    verbs: texts(&resource["verbs"]),
                    subresources: subresources()
                        .filter_map(|sub| sub["subresource"].as_str().map(str::to_owned))
                        .collect(),
                    subresource_kinds: other_kinds(
                        &kind,
                        subresources().map(|sub| &sub["responseKind"]["kind"]),
                    ),
                });
            }
        }
    }
}

/// Reads one `APIResourceList` of the older discovery.
pub(crate) fn read_resources(group: &str, version: &str, list: &Value, all: &mut Vec<Kind>) {
    let resources = || list["resources"].as_array().into_iter().flatten();
    for resource in resources() {
        let plural = resource["name"].as_str().unwrap_or_default();
        let kind = resource["kind"].as_str().unwrap_or_default();
        if plural.is_empty() || plural.contains('/') || kind.is_empty() {
            continue;
        }
        let prefix = format!("{plural}/");
        all.push(Kind {
            gvk: Gvk::new(group, version, kind),
            plural: plural.to_owned(),
            singular: match resource["singularName"].as_str() {
                Some(singular) if !singular.is_empty() => singular.to_owned(),
                _ => kind.to_lowercase(),
            },
            short_names: texts(&resource["shortNames"]),
            categories: texts(&resource["categories"]),
            namespaced: resource["namespaced"] == true,
            verbs: texts(&resource["verbs"]),
            subresources: resources()
                .filter_map(|other| other["name"].as_str()?.strip_prefix(&prefix).map(str::to_owned))
                .collect(),
            subresource_kinds: other_kinds(
                kind,
                resources()
                    .filter(|other| other["name"].as_str().is_some_and(|name| name.starts_with(&prefix)))
                    .map(|other| &other["kind"]),
            ),
        });
    }
}

/// The kinds that are not `kind`, each once.
fn other_kinds<'k>(kind: &str, kinds: impl Iterator<Item = &'k Value>) -> Vec<String> {
    let others = kinds.filter_map(Value::as_str).filter(|other| !other.is_empty() && *other != kind);
    others.collect::<BTreeSet<_>>().into_iter().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn kinds() -> Kinds {
        let document = json!({"items": [
            {"metadata": {}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                {"resource": "pods", "responseKind": {"group": "", "version": "v1", "kind": "Pod"},
                 "scope": "Namespaced", "singularResource": "pod", "shortNames": ["po"], "verbs": ["get"],
                 "subresources": [{"subresource": "log", "responseKind": {"kind": "Pod"}},
                                  {"subresource": "eviction", "responseKind": {"group": "policy", "version": "v1", "kind": "Eviction"}}]},
                {"resource": "events", "responseKind": {"kind": "Event"}, "scope": "Namespaced", "shortNames": ["ev"]},
            ]}]},
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "freshness": "Current", "resources": [
                {"resource": "deployments", "responseKind": {"group": "apps", "version": "v1", "kind": "Deployment"},
                 "scope": "Namespaced", "singularResource": "deployment", "shortNames": ["deploy"]},
            ]}]},
            {"metadata": {"name": "events.k8s.io"}, "versions": [{"version": "v1", "freshness": "Stale", "resources": [
                {"resource": "events", "responseKind": {"kind": "Event"}, "scope": "Namespaced"},
            ]}]},
        ]});
        let (mut all, mut warnings) = (Vec::new(), Vec::new());
        read_aggregated(&document, &mut all, &mut warnings);
        Kinds::new(all, warnings)
    }

    #[test]
    fn kinds_are_found_by_what_people_call_them() {
        let kinds = kinds();
        let found = |name: &str| kinds.by_name(name).map(|kind| kind.resource()).unwrap_or_default();
        for (name, resource) in [
            ("po", "pods"),
            ("Pod", "pods"),
            ("pods", "pods"),
            ("pods.v1", "pods"),
            ("deploy", "deployments.apps"),
            ("Deployment", "deployments.apps"),
            ("deployments.apps", "deployments.apps"),
            ("deploy.v1.apps", "deployments.apps"),
            ("deploy.v2.apps", ""),
            ("events", "events"),
            ("events.events.k8s.io", "events.events.k8s.io"),
            ("ev", "events"),
            ("nothing", ""),
            ("", ""),
            (".apps", ""),
        ] {
            assert_eq!(found(name), resource, "{name}");
        }
        assert_eq!(kinds.warnings.len(), 1);
        let versions = [
            "apps/v1",
            "apps/v1/Deployment",
            "events.k8s.io/v1",
            "events.k8s.io/v1/Event",
            "v1",
            "v1/Event",
            "v1/Eviction",
            "v1/Pod",
        ];
        assert_eq!(kinds.api_versions(), versions);
    }

    #[test]
    fn places_print_for_people() {
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        let at = kind.object_ref(&json!({"metadata": {"name": "web"}}), "shop");
        assert_eq!(at.to_string(), "Deployment shop/web");
        assert_eq!(kind.collection(Some("shop")), "/apis/apps/v1/namespaces/shop/deployments");
        let node = Kind::known("", "v1", "Node", "nodes", false);
        let at = node.object_ref(&json!({"metadata": {"name": "a", "namespace": "wrong"}}), "shop");
        assert_eq!(at.to_string(), "Node/a");
        assert_eq!(node.collection(Some("shop")), "/api/v1/nodes");
    }
}
