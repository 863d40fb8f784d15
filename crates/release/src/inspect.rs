//! Looking at releases: lists, histories, differences between revisions, drift.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_cluster::helm::{Driver, Release, Scope, Storage};
use slipway_event::Events;

use crate::failure::Failure;
use crate::plan::{self, Content, Request};
use crate::record;
use crate::resource::{Scope as KindScope, human, normalise};
use crate::show::{self, Change, differences};

/// One release in a list, under the names Helm gives the columns.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    pub name: String,
    pub namespace: String,
    pub revision: u32,
    pub updated: String,
    pub status: String,
    pub chart: String,
    pub app_version: String,
    pub description: String,
}

impl Row {
    fn of(release: &Release) -> Self {
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

/// The newest revision of every release, of one namespace or of all.
pub async fn list(
    cluster: &Cluster,
    driver: Driver,
    namespace: &str,
    scope: Scope,
) -> Result<Vec<Row>, Failure> {
    let storage = Storage::new(cluster.clone(), driver, namespace);
    let latest = storage.latest(scope).await?;
    Ok(latest.iter().filter_map(|(_, release)| release.as_ref().map(Row::of)).collect())
}

/// Every revision of a release, oldest first.
pub async fn history(
    cluster: &Cluster,
    driver: Driver,
    namespace: &str,
    name: &str,
) -> Result<Vec<Row>, Failure> {
    let history = Storage::new(cluster.clone(), driver, namespace).history(name).await?;
    if history.releases.is_empty() {
        return Err(Failure::NotFound(format!("release `{name}` not found")));
    }
    Ok(history.releases.iter().map(Row::of).collect())
}

/// One revision, the last unless said.
pub async fn revision(
    cluster: &Cluster,
    driver: Driver,
    namespace: &str,
    name: &str,
    wanted: Option<u32>,
) -> Result<Release, Failure> {
    let storage = Storage::new(cluster.clone(), driver, namespace);
    let wanted = match wanted {
        Some(wanted) => wanted,
        None => match storage.revisions(name).await?.last() {
            Some(last) => last.revision,
            None => return Err(Failure::NotFound(format!("release `{name}` not found"))),
        },
    };
    let found = storage.revision(name, wanted).await?;
    found.ok_or_else(|| Failure::NotFound(format!("release `{name}` has no revision {wanted}")))
}

/// How an object differs between two revisions.
#[derive(Clone, Debug, Serialize)]
pub struct Difference {
    pub action: String,
    pub object: String,
    pub fields: Vec<String>,
    pub lines: Vec<String>,
}

/// What differs between two revisions.
pub fn diff(old: &Release, new: &Release, options: &show::Options) -> Vec<Difference> {
    let objects = |release: &Release| -> BTreeMap<String, Value> {
        let documents = record::documents(release).0.into_iter();
        documents
            .map(|mut document| {
                let id = normalise(&mut document.object, &release.namespace, KindScope::Unknown);
                (human(&id), document.object)
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
        let (fields, lines, _) = differences(before, after, options);
        all.push(Difference { action: action.to_owned(), object: name.clone(), fields, lines });
    }
    all
}

/// What someone changed in the cluster since a revision was deployed: what applying it again would do.
pub async fn drift(
    cluster: &Cluster,
    request: &Request,
    wanted: Option<u32>,
    options: &show::Options,
) -> Result<Vec<Change>, Failure> {
    let last = revision(cluster, request.options.driver, &request.namespace, &request.name, wanted).await?;
    let request = Request {
        content: Content::Revision(Some(last.version)),
        options: plan::Options { no_hooks: true, ..request.options.clone() },
        ..request.clone()
    };
    let plan = plan::plan(cluster, &request, &Events::silent()).await?;
    let changes = plan.view(options).changes.into_iter();
    Ok(changes.filter(|change| !change.insignificant && change.action != "recreate").collect())
}
