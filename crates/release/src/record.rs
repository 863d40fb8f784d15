//! The release record: from documents to what Helm stores, and back.

use std::collections::BTreeMap;

use data_encoding::HEXLOWER;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use slipway_cluster::helm::{ChartRecord, Hook, HookRun, Info, Release, Status, Time};
use slipway_manifest::{ObjectId, object};
use slipway_problem::{Problem, Problems};
use slipway_source::{Document, Origin, RenderedSource, Stored};

use crate::name::Revision;
use crate::resource::annotations::{self, HOOK_EVENTS, ReadMode};
use crate::resource::{DeployType, KindScope, Resource, is_webhook_configuration, normalise};

/// The beginning of a revision.
#[derive(Clone, Debug)]
pub struct RevisionHeading<'a> {
    pub name: &'a str,
    pub namespace: &'a str,
    pub revision: Revision,
    pub deploy_type: DeployType,
    pub now: Timestamp,
    pub first_deployed: Option<Time>,
}

/// Builds the record of a new revision, pending. Documents must be transformed; their order becomes the
/// record's: by how they are stored, kind, group, version, namespace and name.
pub fn build(
    rendered: &RenderedSource,
    documents: &mut [Document],
    heading: &RevisionHeading<'_>,
) -> Release {
    documents.sort_by_cached_key(|document| {
        let gvk = object::gvk(&document.object);
        let id = ObjectId::of(&document.object);
        (document.stored, gvk.kind, gvk.group, gvk.version, id.namespace, id.name)
    });
    let mut manifest = String::new();
    let mut hooks = Vec::new();
    for document in documents.iter() {
        match document.stored {
            Stored::Aside => {}
            Stored::Regular => {
                manifest.push_str("---\n");
                manifest.push_str(&text(document));
            }
            Stored::Hook => hooks.push(hook(document)),
        }
    }
    let now = Time::from(heading.now);
    let status = match heading.deploy_type {
        DeployType::Upgrade => Status::PendingUpgrade,
        DeployType::Rollback => Status::PendingRollback,
        _ => Status::PendingInstall,
    };
    Release {
        name: heading.name.to_owned(),
        namespace: heading.namespace.to_owned(),
        version: heading.revision.get(),
        info: Info {
            first_deployed: heading.first_deployed.clone().unwrap_or_else(|| now.clone()),
            last_deployed: now,
            description: "Deployment under way".to_owned(),
            status,
            notes: rendered.notes.clone(),
            ..Info::default()
        },
        chart: chart_record(rendered),
        config: rendered.values.clone(),
        manifest,
        hooks,
        apply_method: "ssa".to_owned(),
        ..Release::default()
    }
}

/// The chart as a record keeps it; templates and files are left out to save room.
fn chart_record(rendered: &RenderedSource) -> ChartRecord {
    ChartRecord {
        metadata: rendered.metadata.clone(),
        values: rendered.default_values.clone(),
        templates: json!([]),
        files: json!([]),
        ..ChartRecord::default()
    }
}

fn text(document: &Document) -> String {
    let mut text = String::new();
    if !document.origin.path.is_empty() {
        text.push_str(&format!("# Source: {}\n", document.origin.path));
    }
    // What was read as YAML can be written as YAML.
    text.push_str(&slipway_yaml::to_string(&document.object).unwrap_or_else(|_| document.object.to_string()));
    if !text.ends_with('\n') {
        text.push('\n');
    }
    text
}

fn hook(document: &Document) -> Hook {
    let object = &document.object;
    let words = |key: &str| -> Vec<String> {
        let text = object::annotation(object, key).unwrap_or_default();
        text.split(',').map(|word| word.trim().to_lowercase()).filter(|word| !word.is_empty()).collect()
    };
    let mut events = words("helm.sh/hook");
    events.retain(|event| HOOK_EVENTS.contains(&event.as_str()));
    for event in &mut events {
        if event == "test-success" {
            "test".clone_into(event);
        }
    }
    let weight = object::annotation(object, "helm.sh/hook-weight");
    Hook {
        name: object::name(object).unwrap_or_default().to_owned(),
        kind: object::kind(object).unwrap_or_default().to_owned(),
        path: document.origin.path.to_string(),
        manifest: text(document),
        events,
        last_run: HookRun::default(),
        weight: weight.and_then(|text| text.trim().parse().ok()).unwrap_or(0),
        delete_policies: words("helm.sh/hook-delete-policy"),
        output_log_policies: words("helm.sh/hook-output-log-policy"),
        ..Hook::default()
    }
}

/// Reads a record back into documents; what cannot be read is left out and told.
pub fn documents(release: &Release) -> (Vec<Document>, Problems) {
    let mut problems = Problems::new();
    let mut found = Vec::new();
    let mut read = |text: &str, path: Option<&str>, stored: Stored| {
        let source = path.map(str::to_owned).or_else(|| {
            text.lines().find_map(|line| line.strip_prefix("# Source: ")).map(|path| path.trim().to_owned())
        });
        match slipway_yaml::from_str_helm(text) {
            Ok(Value::Null) => {}
            Ok(object) if object.is_object() => {
                let origin = Origin::new(source.unwrap_or_default());
                for object in object::expand_lists(vec![object]) {
                    found.push(Document { object, origin: origin.clone(), stored });
                }
            }
            Ok(_) => {}
            Err(error) => problems.push(Problem::warning(format!(
                "revision {} of release {} holds a document that cannot be read: {error}",
                release.version, release.name
            ))),
        }
    };
    for part in slipway_chart::split(release.manifest.as_bytes()) {
        read(&String::from_utf8_lossy(part), None, Stored::Regular);
    }
    for hook in &release.hooks {
        read(&hook.manifest, Some(&hook.path), Stored::Hook);
    }
    (found, problems)
}

/// Types documents: identity, annotations. Every problem of every document is told.
pub fn resources(
    documents: Vec<Document>,
    release_namespace: &str,
    scope: impl Fn(&slipway_manifest::Gvk) -> KindScope,
    reading: ReadMode,
) -> (Vec<Resource>, Problems) {
    let mut problems = Problems::new();
    let mut all = Vec::with_capacity(documents.len());
    for document in documents {
        let Document { mut object, origin, stored } = document;
        let gvk = object::gvk(&object);
        let id = normalise(&mut object, release_namespace, scope(&gvk));
        let (settings, found) = annotations::read(&object, stored, &origin, release_namespace, reading);
        problems.extend(found);
        all.push(Resource { object, gvk, id, stored, origin, settings });
    }
    (all, problems)
}

/// Problems between the resources of a release: duplicates, its own namespace.
pub fn check_together(resources: &[Resource], release_namespace: &str) -> Problems {
    let mut problems = Problems::new();
    let mut seen: BTreeMap<&ObjectId, Vec<&Resource>> = BTreeMap::new();
    for resource in resources {
        if crate::resource::is_namespace(&resource.gvk) && resource.id.name == release_namespace {
            let problem =
                Problem::error(format!("the release contains its own namespace `{release_namespace}`"))
                    .hint("leave the Namespace out: it is created when it is missing");
            problems.push(resource.origin.blame(&resource.object, "", problem));
        }
        if is_webhook_configuration(&resource.gvk) {
            continue;
        }
        let same = seen.entry(&resource.id).or_default();
        if let Some(first) = same.first() {
            let mut problem = Problem::error(format!("{} is there twice", resource.id));
            let earlier = same.iter().filter(|other| other.origin.path == resource.origin.path).count();
            if !first.origin.path.is_empty() {
                let other = first.origin.occurrence(&first.object, 0);
                let is_here = earlier > 0 && other == resource.origin.occurrence(&resource.object, earlier);
                problem = problem.hint(if is_here && other.line > 0 {
                    "both come from this document: a loop that gives them one name?".to_owned()
                } else {
                    format!("the other is at {other}")
                });
            }
            problems.push(resource.origin.blame_occurrence(&resource.object, earlier, problem));
        }
        same.push(resource);
    }
    problems
}

/// Hashes of what counts when two revisions are compared: every object without what changes by itself.
pub fn content_hashes(release: &Release) -> BTreeMap<String, String> {
    let (documents, _) = documents(release);
    let mut hashes = BTreeMap::new();
    for mut document in documents {
        let id = normalise(&mut document.object, &release.namespace, KindScope::Unknown);
        let cleaned = clean(&document.object);
        let hash = Sha256::digest(canonical(&cleaned).as_bytes());
        let kind = if document.stored == Stored::Hook { "hook" } else { "object" };
        hashes.insert(format!("{kind} {id}"), HEXLOWER.encode(&hash));
    }
    hashes
}

/// Drops owners, runtime data and the annotations tools renew with every run.
fn clean(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(map) = object.as_object_mut() {
        map.shift_remove("status");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in
            ["managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "finalizers"]
        {
            metadata.shift_remove(field);
        }
        for (field, runtime) in [
            ("annotations", ["meta.helm.sh/release-name", "meta.helm.sh/release-namespace"].as_slice()),
            ("labels", ["app.kubernetes.io/managed-by"].as_slice()),
        ] {
            if let Some(pairs) = metadata.get_mut(field).and_then(Value::as_object_mut) {
                pairs.retain(|key, _| {
                    !runtime.contains(&key.as_str())
                        && !key.contains("ci.werf.io/")
                        && !key.starts_with("project.werf.io/")
                        && key != "werf.io/version"
                        && key != "werf.io/release-channel"
                });
                if pairs.is_empty() {
                    metadata.shift_remove(field);
                }
            }
        }
    }
    object
}

/// JSON with sorted keys: equal objects have equal texts.
pub fn canonical(value: &Value) -> String {
    fn sorted(value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let mut pairs: Vec<(&String, &Value)> = map.iter().collect();
                pairs.sort_by_key(|(key, _)| *key);
                Value::Object(pairs.into_iter().map(|(key, value)| (key.clone(), sorted(value))).collect())
            }
            Value::Array(items) => Value::Array(items.iter().map(sorted).collect()),
            other => other.clone(),
        }
    }
    sorted(value).to_string()
}

/// The reason for a revision although no object changes.
pub fn reason(previous: Option<&Release>, new: &Release) -> Option<&'static str> {
    let Some(previous) = previous else { return Some("there is no release yet") };
    if previous.info.status != Status::Deployed {
        return Some("the last revision is not deployed");
    }
    if previous.info.notes.trim_end() != new.info.notes.trim_end() {
        return Some("the notes changed");
    }
    if canonical(&Value::Object(previous.config.clone())) != canonical(&Value::Object(new.config.clone())) {
        return Some("the values changed");
    }
    let chart = |release: &Release| {
        let chart = &release.chart;
        (chart.name().to_owned(), chart.version().to_owned(), chart.app_version().to_owned())
    };
    if chart(previous) != chart(new) {
        return Some("the chart's version changed");
    }
    let told = |release: &Release| -> Vec<(String, String)> {
        release.hooks.iter().map(|hook| (hook.path.clone(), hook.manifest.clone())).collect()
    };
    if previous.manifest == new.manifest && told(previous) == told(new) {
        // The same text is the same content; there is no need to read it all twice.
        return None;
    }
    let (old, new) = (content_hashes(previous), content_hashes(new));
    let hooks = |hashes: &BTreeMap<String, String>| -> Vec<(String, String)> {
        hashes
            .iter()
            .filter(|(key, _)| key.starts_with("hook "))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    if old == new {
        None
    } else if hooks(&old) != hooks(&new) {
        Some("the hooks changed")
    } else {
        Some("the manifests changed")
    }
}
