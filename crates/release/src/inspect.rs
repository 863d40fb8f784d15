//! Inspects releases: lists, histories, differences between revisions, drift.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_cluster::helm::{Release, ReleaseStorage, StorageDriver, StorageScope};
use slipway_event::Events;
use slipway_manifest::diff::redact::{self, ValueRedactor};
use slipway_manifest::diff::secret_fields::SECRET_FIELDS;

use crate::failure::Failure;
use crate::plan::{self, PlanOptions, ReleaseContent, ReleaseRequest};
use crate::record;
use crate::resource::{KindScope, normalise_namespace};
use crate::show::{ChangeView, ViewOptions, show_differences};

/// One release in a list, under the names Helm gives the columns.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ReleaseRow {
    pub name: String,
    pub namespace: String,
    pub revision: u32,
    pub updated: String,
    pub status: String,
    pub chart: String,
    pub app_version: String,
    pub description: String,
}

impl ReleaseRow {
    fn from_record(release: &Release) -> Self {
        Self {
            name: release.name.clone(),
            namespace: release.namespace.clone(),
            revision: release.version,
            updated: release.info.last_deployed.to_string(),
            status: release.info.status.to_string(),
            chart: format!("{}-{}", release.chart.name(), release.chart.version()),
            app_version: release.chart.app_version().to_owned(),
            description: release.info.description.clone(),
        }
    }
}

/// The newest revision of every release, of one namespace or of all. `labels` select records; all if empty.
pub async fn list_releases(
    cluster: &Cluster,
    driver: StorageDriver,
    namespace: &str,
    scope: StorageScope,
    labels: &str,
) -> Result<Vec<ReleaseRow>, Failure> {
    let storage = ReleaseStorage::new(cluster.clone(), driver, namespace);
    let latest = storage.latest_labelled(scope, labels).await?;
    Ok(latest.iter().filter_map(|(_, release)| release.as_ref().map(ReleaseRow::from_record)).collect())
}

/// Says that a release is not there, and where one of that name is.
pub async fn not_found(cluster: &Cluster, driver: StorageDriver, namespace: &str, name: &str) -> Failure {
    let storage = ReleaseStorage::new(cluster.clone(), driver, namespace);
    let mut message = format!("release `{name}` not found in namespace `{namespace}`");
    // Who may not look everywhere is not told where else it is.
    let mut places: Vec<String> = storage
        .list_revisions_everywhere(name)
        .await
        .unwrap_or_default()
        .into_iter()
        .map(|stored| stored.namespace)
        .collect();
    places.dedup();
    if let Some(first) = places.first() {
        message.push_str(&format!("; there is one in {} (`-n {first}`)", places.join(", ")));
    }
    Failure::NotFound(message)
}

/// Every revision of a release, oldest first.
pub async fn read_history(
    cluster: &Cluster,
    driver: StorageDriver,
    namespace: &str,
    name: &str,
) -> Result<Vec<ReleaseRow>, Failure> {
    let history = ReleaseStorage::new(cluster.clone(), driver, namespace).read_history(name).await?;
    if history.releases.is_empty() {
        return Err(not_found(cluster, driver, namespace, name).await);
    }
    Ok(history.releases.iter().map(ReleaseRow::from_record).collect())
}

/// One revision, the last unless said.
pub async fn read_revision(
    cluster: &Cluster,
    driver: StorageDriver,
    namespace: &str,
    name: &str,
    wanted: Option<u32>,
) -> Result<Release, Failure> {
    let storage = ReleaseStorage::new(cluster.clone(), driver, namespace);
    let wanted = match wanted {
        Some(wanted) => wanted,
        None => match storage.list_revisions(name).await?.last() {
            Some(last) => last.revision,
            None => return Err(not_found(cluster, driver, namespace, name).await),
        },
    };
    let found = storage.read_revision(name, wanted).await?;
    found.ok_or_else(|| Failure::NotFound(format!("release `{name}` has no revision {wanted}")))
}

/// The difference of an object between two revisions.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct ObjectDifference {
    pub action: String,
    pub object: String,
    pub fields: Vec<String>,
    pub lines: Vec<String>,
}

/// Compares two revisions.
pub fn diff_revisions(old: &Release, new: &Release, options: &ViewOptions) -> Vec<ObjectDifference> {
    let objects = |release: &Release| -> BTreeMap<String, Value> {
        let documents = record::read_documents(release).0.into_iter();
        documents
            .map(|mut document| {
                let id = normalise_namespace(&mut document.object, &release.namespace, KindScope::Unknown);
                (id.to_string(), document.object)
            })
            .collect()
    };
    let (old, new) = (objects(old), objects(new));
    let mut all = Vec::new();
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let (before, after) = (old.get(name), new.get(name));
        let action = match (before, after) {
            (None, _) => "create",
            (_, None) => "delete",
            (Some(before), Some(after)) if before == after => continue,
            _ => "update",
        };
        let (fields, lines, _) = show_differences(before, after, options);
        all.push(ObjectDifference { action: action.to_owned(), object: name.clone(), fields, lines });
    }
    all
}

/// Changes someone made in the cluster since a revision was deployed: what applying it again would do.
pub async fn find_drift(
    cluster: &Cluster,
    request: &ReleaseRequest,
    wanted: Option<u32>,
    options: &ViewOptions,
) -> Result<Vec<ChangeView>, Failure> {
    let last =
        read_revision(cluster, request.options.driver, &request.namespace, &request.name, wanted).await?;
    let request = ReleaseRequest {
        content: ReleaseContent::Revision(Some(last.version)),
        options: PlanOptions { no_hooks: true, ..request.options.clone() },
        ..request.clone()
    };
    let plan = plan::plan(cluster, &request, &Events::silent()).await?;
    let mut changes = plan.view(options).changes;
    changes.retain(|change| !change.insignificant && change.action != "recreate");
    for change in changes.iter_mut().filter(|change| change.action == "update" && change.reason.is_none()) {
        let found = plan.objects.iter().find(|object| object.resource.id.to_string() == change.object);
        change.reason = found.and_then(|object| other_writers(object.live.as_ref()?));
    }
    Ok(changes)
}

/// Others that wrote to an object, and when: `written by kubectl-edit on 2026-01-02 03:04:05 UTC`.
fn other_writers(live: &Value) -> Option<String> {
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let entries = live.pointer("/metadata/managedFields").and_then(Value::as_array)?;
    let mut written: Vec<(String, String)> = entries
        .iter()
        .map(|entry| (text(entry, "time"), text(entry, "manager"), text(entry, "subresource")))
        .filter(|(_, manager, part)| part.is_empty() && manager != crate::owners::MANAGER)
        .map(|(time, manager, _)| (time, manager))
        .collect();
    written.sort_unstable();
    let told = written.iter().rev().map(|(time, manager)| match time.parse::<jiff::Timestamp>() {
        Ok(time) => format!("{manager} on {}", time.strftime("%Y-%m-%d %H:%M:%S UTC")),
        Err(_) => manager.clone(),
    });
    let told: Vec<String> = told.collect();
    (!told.is_empty()).then(|| format!("written by {}", told.join(", ")))
}

/// Manifests with the fields that hold secrets of backends hidden; texts without such fields stay as they are, byte for
/// byte.
pub fn without_secrets(manifests: &str) -> String {
    if !manifests.contains(SECRET_FIELDS) {
        return manifests.to_owned();
    }
    let hidden = |part: &[u8]| {
        let text = String::from_utf8_lossy(part);
        if !text.contains(SECRET_FIELDS) {
            return text.into_owned();
        }
        let head = text.lines().take_while(|line| line.starts_with('#')).map(|line| format!("{line}\n"));
        let head: String = head.collect();
        let Ok(object) = slipway_yaml::from_str_helm(&text) else { return head };
        let sensitivity = redact::sensitivity_of(&object);
        let object = ValueRedactor::per_run().redact_object(object, &sensitivity);
        head + &slipway_yaml::to_string(&object).unwrap_or_default()
    };
    let parts = slipway_chart::split_documents(manifests.as_bytes());
    parts.into_iter().map(|part| format!("---\n{}", hidden(part).trim_start_matches("---\n"))).collect()
}
