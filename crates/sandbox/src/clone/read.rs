//! From a live cluster to a list of clean objects.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use http::Request;
use serde_json::Value;

use super::clean::{self, Kept};
use super::{CloneError, Collected, Progress, Reference, Selection};

/// The pauses before a read is repeated: from this, doubling, to that.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_millis(1600);

/// Whether the same request may well work a moment later.
fn passes(error: &kube::Error) -> bool {
    match error {
        kube::Error::Api(status) => matches!(status.code, 429 | 500 | 502..=504),
        kube::Error::HyperError(_) | kube::Error::Service(_) => true,
        _ => false,
    }
}

const PAGE: usize = 500;

/// A kind the cluster serves, in its preferred version.
#[derive(Debug, Clone)]
struct Resource {
    group: String,
    api_version: String,
    plural: String,
    kind: String,
    singular: String,
    short_names: Vec<String>,
    namespaced: bool,
    listable: bool,
}

impl Resource {
    /// Whether a word of the user's names it.
    fn is_named(&self, word: &str) -> bool {
        let word = word.to_lowercase();
        word == self.plural
            || word == self.full()
            || word == self.kind.to_lowercase()
            || word == self.singular
            || word == format!("{}.{}", self.kind.to_lowercase(), self.group)
            || self.short_names.contains(&word)
    }

    /// `deployments.apps`.
    fn full(&self) -> String {
        if self.group.is_empty() { self.plural.clone() } else { format!("{}.{}", self.plural, self.group) }
    }

    fn path(&self, namespace: Option<&str>) -> String {
        let root = if self.group.is_empty() { "/api" } else { "/apis" };
        match namespace.filter(|_| self.namespaced) {
            Some(namespace) => {
                format!("{root}/{}/namespaces/{}/{}", self.api_version, encode(namespace), self.plural)
            }
            None => format!("{root}/{}/{}", self.api_version, self.plural),
        }
    }
}

/// Reads and cleans the selected objects. Kinds that cannot be read are named in the report.
pub async fn collect(
    source: &kube::Client,
    selection: &Selection,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Collected, CloneError> {
    let mut reader = Reader { source, selection, progress, collected: Collected::default() };
    let resources = reader.discover().await?;
    match &selection.objects {
        Some(objects) => reader.objects(&resources, objects).await?,
        None => reader.everything(&resources).await?,
    }
    Ok(reader.collected)
}

struct Reader<'r> {
    source: &'r kube::Client,
    selection: &'r Selection,
    progress: &'r mut (dyn FnMut(Progress) + Send),
    collected: Collected,
}

impl Reader<'_> {
    /// Reads a path; a server that is busy or restarts is asked again for a few seconds.
    async fn get(&self, path: &str) -> Result<Value, kube::Error> {
        let mut pause = FIRST_PAUSE;
        loop {
            let request = Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
            match self.source.request(request).await {
                Err(error) if passes(&error) && pause <= LONGEST_PAUSE => {
                    tokio::time::sleep(pause).await;
                    pause *= 2;
                }
                answer => return answer,
            }
        }
    }

    /// What the cluster serves. A group whose server is away is left out and named in the report.
    async fn discover(&mut self) -> Result<Vec<Resource>, CloneError> {
        let groups = self.get("/apis").await.map_err(|e| CloneError::Discovery(Box::new(e)))?;
        let mut versions = vec![(String::new(), "v1".to_owned())];
        for group in groups["groups"].as_array().into_iter().flatten() {
            let name = group["name"].as_str().unwrap_or("").to_owned();
            let preferred = group["preferredVersion"]["groupVersion"].as_str().unwrap_or("").to_owned();
            versions.push((name, preferred));
        }
        let mut out: Vec<Resource> = Vec::new();
        for (group, api_version) in versions {
            let root = if group.is_empty() { "/api" } else { "/apis" };
            let list = match self.get(&format!("{root}/{api_version}")).await {
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
                out.push(Resource {
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

    /// The kinds to read: those the user named, or all that are not the cluster's own business.
    fn chosen<'a>(&self, resources: &'a [Resource]) -> Result<Vec<&'a Resource>, CloneError> {
        let words = &self.selection.kinds;
        if words.is_empty() {
            let scoped = !self.selection.namespaces.is_empty();
            return Ok(resources
                .iter()
                .filter(|r| r.listable && !clean::is_own_business(&r.group, &r.plural))
                .filter(|r| r.namespaced || !scoped)
                .filter(|r| r.full() != DEFINITIONS && r.full() != "namespaces")
                .collect());
        }
        let mut out: Vec<&Resource> = Vec::new();
        for word in words {
            let mut found = resources.iter().filter(|r| r.listable && r.is_named(word)).peekable();
            if found.peek().is_none() {
                let known = resources.iter().filter(|r| r.listable).map(Resource::full).collect();
                return Err(CloneError::UnknownKind { kind: word.clone(), known });
            }
            // One word may name kinds of several groups; the first group listed is what kubectl takes.
            if let Some(resource) = found.next()
                && !out.iter().any(|r| r.full() == resource.full())
            {
                out.push(resource);
            }
        }
        Ok(out)
    }

    async fn everything(&mut self, resources: &[Resource]) -> Result<(), CloneError> {
        let chosen = self.chosen(resources)?;
        (self.progress)(Progress::Kinds(chosen.len()));
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
                for object in self.list(resource, place.as_deref(), labels.as_deref()).await {
                    let namespace = object["metadata"]["namespace"].as_str().unwrap_or("").to_owned();
                    let system = self.selection.namespaces.is_empty() && namespace.starts_with("kube-");
                    if !system && self.keep(object) {
                        count += 1;
                        if !namespace.is_empty() {
                            namespaces.insert(namespace);
                        }
                    }
                }
            }
            groups.insert((resource.group.clone(), resource.plural.clone()));
            (self.progress)(Progress::Read { resource: resource.full(), objects: count });
        }
        let all_definitions = self.selection.kinds.is_empty();
        self.definitions(resources, |group, plural| {
            all_definitions || groups.contains(&(group.to_owned(), plural.to_owned()))
        })
        .await;
        if !self.selection.namespaces.is_empty() && self.selection.kinds.is_empty() {
            self.classes(resources).await;
        }
        self.namespaces(namespaces).await
    }

    async fn objects(&mut self, resources: &[Resource], objects: &[Reference]) -> Result<(), CloneError> {
        (self.progress)(Progress::Kinds(objects.len()));
        let mut namespaces: BTreeSet<String> = BTreeSet::new();
        let mut groups: BTreeSet<(String, String)> = BTreeSet::new();
        let wanted: BTreeSet<&Reference> = objects.iter().collect();
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
            let path = format!("{}/{}", resource.path(place), encode(&reference.name));
            match self.get(&path).await {
                Ok(object) => {
                    self.keep(object);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.collected.report.absent.push(reference.clone());
                }
                Err(e) => return Err(CloneError::Read { what: reference.to_string(), why: Box::new(e) }),
            }
        }
        self.definitions(resources, |group, plural| groups.contains(&(group.to_owned(), plural.to_owned())))
            .await;
        for resource in
            resources.iter().filter(|r| r.group.is_empty() && SURROUNDINGS.contains(&r.plural.as_str()))
        {
            for namespace in &namespaces {
                for object in self.list(resource, Some(namespace), None).await {
                    self.keep_once(object);
                }
            }
        }
        self.classes(resources).await;
        self.namespaces(namespaces).await
    }

    /// Classes decide how pods and volumes are admitted, wherever they are.
    async fn classes(&mut self, resources: &[Resource]) {
        for resource in resources.iter().filter(|r| CLASSES.contains(&r.full().as_str())) {
            for object in self.list(resource, None, None).await {
                self.keep_once(object);
            }
        }
    }

    /// The definitions of the custom resources that were read.
    async fn definitions(&mut self, resources: &[Resource], wanted: impl Fn(&str, &str) -> bool) {
        let Some(resource) = resources.iter().find(|r| r.full() == DEFINITIONS) else { return };
        for definition in self.list(resource, None, None).await {
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            let (group, plural) =
                (text(&definition["spec"]["group"]), text(&definition["spec"]["names"]["plural"]));
            if wanted(&group, &plural) {
                self.keep(definition);
            }
        }
    }

    async fn namespaces(&mut self, names: BTreeSet<String>) -> Result<(), CloneError> {
        for name in names {
            match self.get(&format!("/api/v1/namespaces/{}", encode(&name))).await {
                Ok(object) => {
                    self.keep(object);
                }
                Err(kube::Error::Api(status)) if status.code == 404 => {
                    self.collected.report.absent.push(Reference::new("v1", "Namespace", "", &name));
                }
                // Whoever may not read namespaces may still read what is in them.
                Err(kube::Error::Api(status)) if status.code == 403 => {
                    let bare = serde_json::json!({
                        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                    });
                    self.keep(bare);
                }
                Err(e) => {
                    return Err(CloneError::Read { what: format!("namespace {name}"), why: Box::new(e) });
                }
            }
        }
        Ok(())
    }

    /// Every object of a kind, page by page.
    async fn list(
        &mut self,
        resource: &Resource,
        namespace: Option<&str>,
        labels: Option<&str>,
    ) -> Vec<Value> {
        let mut out = Vec::new();
        let mut next = String::new();
        loop {
            let mut path = format!("{}?limit={PAGE}", resource.path(namespace));
            if let Some(labels) = labels {
                path.push_str(&format!("&labelSelector={}", encode(labels)));
            }
            if !next.is_empty() {
                path.push_str(&format!("&continue={}", encode(&next)));
            }
            let mut page = match self.get(&path).await {
                Ok(page) => page,
                Err(e) => {
                    self.collected.report.unreadable.insert(resource.full(), e.to_string());
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
        let reference = Reference::of(&object);
        if !self.collected.objects.iter().any(|o| Reference::of(o) == reference) {
            self.keep(object);
        }
    }

    /// Cleans an object and keeps it, or says why not.
    fn keep(&mut self, object: Value) -> bool {
        let reference = Reference::of(&object);
        match clean::clean(object, self.selection.secrets) {
            Ok(Kept { object, secret_replaced, finalizers_dropped }) => {
                let report = &mut self.collected.report;
                report.secrets_replaced += usize::from(secret_replaced);
                report.finalizers_dropped += finalizers_dropped;
                self.collected.objects.push(object);
                true
            }
            Err(reason) => {
                self.collected.report.skip(reference, reason);
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
fn encode(text: &str) -> String {
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
pub(super) fn by_kind<'o>(objects: impl Iterator<Item = &'o Value>) -> BTreeMap<String, usize> {
    let mut out = BTreeMap::new();
    for object in objects {
        *out.entry(object["kind"].as_str().unwrap_or("").to_owned()).or_default() += 1;
    }
    out
}
