//! From a live cluster to a list of clean objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Request;
use serde_json::Value;

use super::clean::{self, CleanedObject};
use super::{CloneError, CloneProgress, CloneSelection, CollectedObjects, ObjectReference};

/// The pauses before a read is repeated: from this, doubling, to that.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(1600);

/// Returns true if the same request may succeed a moment later.
fn is_transient(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502..=504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

const PAGE: usize = 500;

/// A kind the cluster serves, in its preferred version.
#[derive(Debug, Clone)]
struct ClusterResource {
    group: String,
    api_version: String,
    plural: String,
    kind: String,
    singular: String,
    short_names: Vec<String>,
    namespaced: bool,
    listable: bool,
}

impl ClusterResource {
    /// Returns true if a word of the user names it.
    fn is_named(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        word == self.plural
            || word == self.full_name()
            || word == self.kind.to_lowercase()
            || word == self.singular
            || word == format!("{}.{}", self.kind.to_lowercase(), self.group)
            || self.short_names.contains(&word)
    }

    /// `deployments.apps`.
    fn full_name(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn list_path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => {
                format!(
                    "{root}/{}/namespaces/{}/{}",
                    self.api_version,
                    percent_encode(namespace),
                    self.plural
                )
            }
            None => format!("{root}/{}/{}", self.api_version, self.plural),
        }
    }
}

/// Reads and cleans the selected objects. Kinds that cannot be read are named in the report.
pub async fn collect(
    source: &kube::Client,
    selection: &CloneSelection,
    progress: &mut (dyn FnMut(CloneProgress) + Send),
) -> Result<CollectedObjects, CloneError> {
    let mut reader = ClusterReader { source, selection, progress, collected: CollectedObjects::default() };
    let resources = reader.discover_resources().await?;
    match &selection.objects {
        Some(objects) => reader.read_objects(&resources, objects).await?,
        None => reader.read_everything(&resources).await?,
    }
    Ok(reader.collected)
}

struct ClusterReader<'r> {
    source: &'r kube::Client,
    selection: &'r CloneSelection,
    progress: &'r mut (dyn FnMut(CloneProgress) + Send),
    collected: CollectedObjects,
}

impl ClusterReader<'_> {
    /// Reads a path; a server that is busy or restarts is asked again for a few seconds.
    async fn get_path(&self, path: &str) -> Result<Value, kube::Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            match self.source.request(request).await {
                Err(error) if is_transient(&error) && pause <= LONGEST_PAUSE => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
    }

    /// Lists the resources of the cluster. A group whose server is away is left out and named in the report.
    async fn discover_resources(&mut self) -> Result<Vec<ClusterResource>, CloneError> {
        let groups = self.get_path("/apis").await.map_err(|e| CloneError::Discovery(Box::new(e)))?;
        let mut versions = vec![(String::new(), "v1".to_owned())];
        for group in groups["groups"].as_array().into_iter().flatten() {
            let name = group["name"].as_str().unwrap_or("").to_owned();
            let preferred = group["preferredVersion"]["groupVersion"].as_str().unwrap_or("").to_owned();
            versions.push((name, preferred));
        }
        let mut out: Vec<ClusterResource> = Vec::new();
        for (group, api_version) in versions {
            let root = if group.is_empty() { "/api" } else { "/apis" };
            let list = match self.get_path(&format!("{root}/{api_version}")).await {
                Ok(list) => list,
                Err(e) => {
                    self.collected.report.unreadable.insert(api_version, e.to_string());
                    continue;
                }
            };
            for resource in list["resources"].as_array().into_iter().flatten() {
                let text = |key: &str| resource[key].as_str().unwrap_or("").to_owned();
                let list = |key: &str| -> Vec<String> {
                    let all = resource[key].as_array().into_iter().flatten();
                    all.filter_map(Value::as_str).map(str::to_owned).collect()
                };
                if text("name").contains('/') {
                    continue;
                }
                out.push(ClusterResource {
                    group: group.clone(),
                    api_version: api_version.clone(),
                    plural: text("name"),
                    kind: text("kind"),
                    singular: text("singularName"),
                    short_names: list("shortNames"),
                    namespaced: resource["namespaced"] == true,
                    listable: list("verbs").iter().any(|v| v == "list"),
                });
            }
        }
        Ok(out)
    }

    /// Returns the kinds to read: those the user named, or all that the cluster does not fill by itself.
    fn chosen_resources<'a>(
        &self,
        resources: &'a [ClusterResource],
    ) -> Result<Vec<&'a ClusterResource>, CloneError> {
        let words = &self.selection.kinds;
        if words.is_empty() {
            let scoped = !self.selection.namespaces.is_empty();
            return Ok(resources
                .iter()
                .filter(|r| r.listable && !clean::is_own_business(&r.group, &r.plural))
                .filter(|r| r.namespaced || !scoped)
                .filter(|r| r.full_name() != DEFINITIONS && r.full_name() != "namespaces")
                .collect());
        }
        let mut out: Vec<&ClusterResource> = Vec::new();
        for word in words {
            let mut found = resources.iter().filter(|r| r.listable && r.is_named(word)).peekable();
            if found.peek().is_none() {
                let known = resources.iter().filter(|r| r.listable).map(ClusterResource::full_name).collect();
                return Err(CloneError::UnknownKind { kind: word.clone(), known });
            }
            // One word may name kinds of several groups; the first group listed is what kubectl takes.
            if let Some(resource) = found.next()
                && !out.iter().any(|r| r.full_name() == resource.full_name())
            {
                out.push(resource);
            }
        }
        Ok(out)
    }

    async fn read_everything(&mut self, resources: &[ClusterResource]) -> Result<(), CloneError> {
        let chosen = self.chosen_resources(resources)?;
        (self.progress)(CloneProgress::Kinds(chosen.len()));
        let mut namespaces: BTreeSet<String> = self.selection.namespaces.iter().cloned().collect();
        let mut groups: BTreeSet<(String, String)> = BTreeSet::new();
        for resource in chosen {
            let places: Vec<Option<String>> = if self.selection.namespaces.is_empty() || !resource.namespaced
            {
                vec![None]
            } else {
                self.selection.namespaces.iter().cloned().map(Some).collect()
            };
            let mut count = 0;
            for place in places {
                let labels = self.selection.labels.clone();
                for object in self.list_resource(resource, place.as_deref(), labels.as_deref()).await {
                    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("").to_owned();
                    let system = self.selection.namespaces.is_empty() && namespace.starts_with("kube-");
                    if !system && self.clean_and_keep(object) {
                        count += 1;
                        if !namespace.is_empty() {
                            namespaces.insert(namespace);
                        }
                    }
                }
            }
            groups.insert((resource.group.clone(), resource.plural.clone()));
            (self.progress)(CloneProgress::Read { resource: resource.full_name(), objects: count });
        }
        let all_definitions = self.selection.kinds.is_empty();
        self.read_definitions(resources, |group, plural| {
            all_definitions || groups.contains(&(group.to_owned(), plural.to_owned()))
        })
        .await;
        if !self.selection.namespaces.is_empty() && self.selection.kinds.is_empty() {
            self.read_classes(resources).await;
        }
        self.read_namespaces(namespaces).await
    }

    async fn read_objects(
        &mut self,
        resources: &[ClusterResource],
        objects: &[ObjectReference],
    ) -> Result<(), CloneError> {
        (self.progress)(CloneProgress::Kinds(objects.len()));
        let mut namespaces: BTreeSet<String> = BTreeSet::new();
        let mut groups: BTreeSet<(String, String)> = BTreeSet::new();
        let wanted: BTreeSet<&ObjectReference> = objects.iter().collect();
        for reference in wanted {
            let group = slipway_manifest::object::split_api_version(&reference.api_version).0;
            let found = resources.iter().find(|r| r.group == group && r.kind == reference.kind);
            if !reference.namespace.is_empty() {
                namespaces.insert(reference.namespace.clone());
            }
            let Some(resource) = found else {
                self.collected.report.absent.push(reference.clone());
                continue;
            };
            groups.insert((resource.group.clone(), resource.plural.clone()));
            if resource.plural == "namespaces" && resource.group.is_empty() {
                namespaces.insert(reference.name.clone());
                continue;
            }
            let place = Some(reference.namespace.as_str()).filter(|n| !n.is_empty());
            // The version asked for may differ from the preferred one; the object is the same.
            let path = format!("{}/{}", resource.list_path(place), percent_encode(&reference.name));
            match self.get_path(&path).await {
                Ok(object) => {
                    self.clean_and_keep(object);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.collected.report.absent.push(reference.clone());
                }
                Err(e) => return Err(CloneError::Read { what: reference.to_string(), why: Box::new(e) }),
            }
        }
        self.read_definitions(resources, |group, plural| {
            groups.contains(&(group.to_owned(), plural.to_owned()))
        })
        .await;
        for resource in
            resources.iter().filter(|r| r.group.is_empty() && SURROUNDINGS.contains(&r.plural.as_str()))
        {
            for namespace in &namespaces {
                for object in self.list_resource(resource, Some(namespace), None).await {
                    self.keep_once(object);
                }
            }
        }
        self.read_classes(resources).await;
        self.read_namespaces(namespaces).await
    }

    /// Classes decide how pods and volumes are admitted, wherever they are.
    async fn read_classes(&mut self, resources: &[ClusterResource]) {
        for resource in resources.iter().filter(|r| CLASSES.contains(&r.full_name().as_str())) {
            for object in self.list_resource(resource, None, None).await {
                self.keep_once(object);
            }
        }
    }

    /// The definitions of the custom resources that were read.
    async fn read_definitions(&mut self, resources: &[ClusterResource], wanted: impl Fn(&str, &str) -> bool) {
        let Some(resource) = resources.iter().find(|r| r.full_name() == DEFINITIONS) else { return };
        for definition in self.list_resource(resource, None, None).await {
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            let (group, plural) =
                (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
            if wanted(&group, &plural) {
                self.clean_and_keep(definition);
            }
        }
    }

    async fn read_namespaces(&mut self, names: BTreeSet<String>) -> Result<(), CloneError> {
        for name in names {
            match self.get_path(&format!("/api/v1/namespaces/{}", percent_encode(&name))).await {
                Ok(object) => {
                    self.clean_and_keep(object);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.collected.report.absent.push(ObjectReference::new("v1", "Namespace", "", &name));
                }
                // A user who may not read namespaces may still read their content.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    let bare = serde_json::json!({
                        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                    });
                    self.clean_and_keep(bare);
                }
                Err(e) => {
                    return Err(CloneError::Read { what: format!("namespace {name}"), why: Box::new(e) });
                }
            }
        }
        Ok(())
    }

    /// Every object of a kind, page by page.
    async fn list_resource(
        &mut self,
        resource: &ClusterResource,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Vec<Value> {
        let mut out = Vec::new();
        let mut next = String::new();
        loop {
            let mut path = format!("{}?limit={PAGE}", resource.list_path(namespace));
            if let Some(labels) = labels {
                path.push_str(&format!("&labelSelector={}", percent_encode(labels)));
            }
            if !next.is_empty() {
                path.push_str(&format!("&continue={}", percent_encode(&next)));
            }
            let mut page = match self.get_path(&path).await {
                Ok(page) => page,
                Err(e) => {
                    self.collected.report.unreadable.insert(resource.full_name(), e.to_string());
                    return out;
                }
            };
            next = page["metadata"]["continue"].as_str().unwrap_or("").to_owned();
            if let Value::Array(items) = page["items"].take() {
                for mut item in items {
                    item["apiVersion"] = resource.api_version.as_str().into();
                    item["kind"] = resource.kind.as_str().into();
                    out.push(item);
                }
            }
            if next.is_empty() {
                return out;
            }
        }
    }

    /// Keeps an object unless it is already there.
    fn keep_once(&mut self, object: Value) {
        let reference = ObjectReference::of(&object);
        if !self.collected.objects.iter().any(|o| ObjectReference::of(o) == reference) {
            self.clean_and_keep(object);
        }
    }

    /// Cleans an object and keeps it, or says why not.
    fn clean_and_keep(&mut self, object: Value) -> bool {
        let reference = ObjectReference::of(&object);
        match clean::clean_object(object, self.selection.secrets) {
            Ok(CleanedObject { object, secret_replaced, finalizers_dropped }) => {
                let report = &mut self.collected.report;
                report.secrets_replaced += usize::from(secret_replaced);
                report.finalizers_dropped += finalizers_dropped;
                self.collected.objects.push(object);
                true
            }
            Err(reason) => {
                self.collected.report.add_skipped(reference, reason);
                false
            }
        }
    }
}

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const CLASSES: &[&str] = &[
    "priorityclasses.scheduling.k8s.io",
    "storageclasses.storage.k8s.io",
    "ingressclasses.networking.k8s.io",
    "runtimeclasses.node.k8s.io",
];
const SURROUNDINGS: &[&str] = &["serviceaccounts", "limitranges", "resourcequotas"];

/// Percent-encodes a segment or a query value.
fn percent_encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => out.push(byte as char),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// Counts objects by kind, as reports show them.
pub(super) fn count_by_kind<'o>(objects: impl Iterator<Item = &'o Value>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for object in objects {
        *out.entry(object["kind"].as_str().unwrap_or("").to_owned()).or_default() += 1;
    }
    out
}
