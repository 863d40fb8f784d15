//! Where releases are kept: Secrets or ConfigMaps, named and labelled as Helm does.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use slipway_event::{Clock, SystemClock};
use slipway_manifest::{ObjectRef, object};

use super::codec;
use super::{Release, Status};
use crate::kinds::Kind;
use crate::{Cluster, Delete, Deleted, Error, ErrorClass, ListOptions, WriteOptions};

/// Labels that are Helm's own.
const SYSTEM_LABELS: &[&str] = &["name", "owner", "status", "version", "createdAt", "modifiedAt"];
const MANAGER: &str = "helm";
/// How much a record grows at most while a run goes on: why it failed, when hooks ran.
const GROWTH: usize = 4096;

/// What a release is kept in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Driver {
    #[default]
    Secret,
    ConfigMap,
}

/// Where to look for releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The storage's own namespace.
    Namespace,
    Everywhere,
}

/// What the labels of a stored revision tell without unpacking it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Stored {
    pub name: String,
    pub namespace: String,
    pub revision: u32,
    pub status: Status,
    /// Unix seconds of the last write, as far as known.
    pub written_at: Option<i64>,
    /// Labels that are not Helm's own.
    pub labels: BTreeMap<String, String>,
}

/// A stored revision that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    pub revision: u32,
    pub why: String,
}

/// Every revision of a release, oldest first.
#[derive(Clone, Debug, Default)]
pub struct History {
    pub releases: Vec<Release>,
    pub damaged: Vec<Damaged>,
}

impl History {
    /// The highest revision number in use, readable or not.
    pub fn last_revision(&self) -> u32 {
        let readable = self.releases.iter().map(|release| release.version);
        readable.chain(self.damaged.iter().map(|damaged| damaged.revision)).max().unwrap_or(0)
    }

    pub fn last(&self) -> Option<&Release> {
        self.releases.last()
    }

    /// The newest revision that is deployed.
    pub fn deployed(&self) -> Option<&Release> {
        self.releases.iter().rev().find(|release| release.info.status == Status::Deployed)
    }
}

/// The releases of one namespace.
#[derive(Clone)]
pub struct Storage {
    cluster: Cluster,
    driver: Driver,
    namespace: String,
    clock: Arc<dyn Clock>,
}

impl Storage {
    pub fn new(cluster: Cluster, driver: Driver, namespace: impl Into<String>) -> Storage {
        Storage { cluster, driver, namespace: namespace.into(), clock: Arc::new(SystemClock) }
    }

    /// Takes the time from somewhere else.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> Storage {
        self.clock = clock;
        self
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    fn kind(&self) -> Kind {
        match self.driver {
            Driver::Secret => Kind::known("", "v1", "Secret", "secrets", true),
            Driver::ConfigMap => Kind::known("", "v1", "ConfigMap", "configmaps", true),
        }
    }

    /// Where a revision is stored.
    pub fn at(&self, name: &str, revision: u32) -> ObjectRef {
        let stored = format!("sh.helm.release.v1.{name}.v{revision}");
        ObjectRef::new(self.kind().gvk, Some(&self.namespace), stored)
    }

    async fn find(&self, selector: String) -> Result<Vec<Value>, Error> {
        let options = ListOptions::labels(selector);
        let mut items = self.cluster.list(&self.kind(), Some(&self.namespace), &options).await?.items;
        items.sort_by_key(|item| Stored::of(item).revision);
        Ok(items)
    }

    /// Every revision of a release, unpacked.
    pub async fn history(&self, name: &str) -> Result<History, Error> {
        let mut history = History::default();
        for item in self.find(format!("name={name},owner=helm")).await? {
            match self.unpack(&item) {
                Ok(release) => history.releases.push(release),
                Err(why) => history.damaged.push(Damaged { revision: Stored::of(&item).revision, why }),
            }
        }
        history.releases.sort_by_key(|release| release.version);
        Ok(history)
    }

    /// One revision of a release.
    pub async fn revision(&self, name: &str, revision: u32) -> Result<Option<Release>, Error> {
        let at = self.at(name, revision);
        let Some(item) = self.cluster.get(&at).await? else { return Ok(None) };
        self.unpack(&item).map(Some).map_err(|why| {
            let action = format!("read revision {revision} of release {name}");
            Error::new(ErrorClass::Invalid, action, why).at(&at)
        })
    }

    /// What revisions of a release there are, without their content.
    pub async fn revisions(&self, name: &str) -> Result<Vec<Stored>, Error> {
        self.stored(Some(&self.namespace), format!("name={name},owner=helm")).await
    }

    /// What revisions of releases of this name there are in any namespace.
    pub async fn revisions_everywhere(&self, name: &str) -> Result<Vec<Stored>, Error> {
        self.stored(None, format!("name={name},owner=helm")).await
    }

    /// What revisions of all releases there are, without their content.
    pub async fn list(&self, scope: Scope) -> Result<Vec<Stored>, Error> {
        self.list_with(scope, "").await
    }

    async fn list_with(&self, scope: Scope, labels: &str) -> Result<Vec<Stored>, Error> {
        let namespace = match scope {
            Scope::Namespace => Some(self.namespace.as_str()),
            Scope::Everywhere => None,
        };
        let own = if labels.is_empty() { "owner=helm".to_owned() } else { format!("owner=helm,{labels}") };
        self.stored(namespace, own).await
    }

    async fn stored(&self, namespace: Option<&str>, selector: String) -> Result<Vec<Stored>, Error> {
        let options = ListOptions { labels: selector, metadata_only: true, ..ListOptions::default() };
        let listed = self.cluster.list(&self.kind(), namespace, &options).await?;
        let mut all: Vec<Stored> = listed.items.iter().map(Stored::of).collect();
        all.sort_by(|a, b| (&a.namespace, &a.name, a.revision).cmp(&(&b.namespace, &b.name, b.revision)));
        Ok(all)
    }

    /// The newest revision of each release, unpacked; `None` where it cannot be read.
    pub async fn latest(&self, scope: Scope) -> Result<Vec<(Stored, Option<Release>)>, Error> {
        self.latest_with(scope, "").await
    }

    /// The newest of those revisions of each release that have labels.
    pub async fn latest_with(
        &self,
        scope: Scope,
        labels: &str,
    ) -> Result<Vec<(Stored, Option<Release>)>, Error> {
        let mut newest: BTreeMap<(String, String), Stored> = BTreeMap::new();
        for stored in self.list_with(scope, labels).await? {
            newest.insert((stored.namespace.clone(), stored.name.clone()), stored);
        }
        let read = newest.into_values().map(|stored| async move {
            let storage = Storage { namespace: stored.namespace.clone(), ..self.clone() };
            match storage.revision(&stored.name, stored.revision).await {
                Ok(release) => Ok((stored, release)),
                Err(e) if e.class == ErrorClass::Invalid => Ok((stored, None)),
                Err(e) => Err(e),
            }
        });
        join_all(read).await.into_iter().collect()
    }

    fn unpack(&self, item: &Value) -> Result<Release, String> {
        let text = item["data"]["release"].as_str().ok_or("it holds no release")?;
        let packed = match self.driver {
            Driver::Secret => STANDARD.decode(text).map_err(|e| e.to_string())?,
            Driver::ConfigMap => text.as_bytes().to_vec(),
        };
        let mut release = codec::decode(&packed).map_err(|e| e.to_string())?;
        release.labels = Stored::of(item).labels;
        if release.namespace.is_empty() {
            release.namespace = self.namespace.clone();
        }
        Ok(release)
    }

    /// Tells whether a record will be stored, with what a run adds to it, without storing it.
    pub fn check(&self, release: &Release) -> Result<(), Error> {
        self.packed(release, GROWTH).map(drop)
    }

    /// A record as it is stored, if it may be and leaves so much room.
    fn packed(&self, release: &Release, room: usize) -> Result<String, Error> {
        let action = format!("store revision {} of release {}", release.version, release.name);
        let refuse = |message: String| {
            let at = self.at(&release.name, release.version);
            Error::new(ErrorClass::Invalid, action.as_str(), message).at(&at)
        };
        if let Some(label) = release.labels.keys().find(|label| SYSTEM_LABELS.contains(&label.as_str())) {
            return Err(refuse(format!("the label `{label}` is Helm's own")));
        }
        let packed = codec::encode(release).map_err(|e| refuse(e.to_string()))?;
        if packed.len() + room > codec::LIMIT {
            let size = packed.len() / 1024;
            return Err(refuse(format!(
                "the record is too large: {size} KiB packed, and the cluster stores 1024 KiB at most; \
                 smaller manifests, notes or values are needed, or fewer of them"
            )));
        }
        Ok(packed)
    }

    fn pack(&self, release: &Release, moment: &str) -> Result<(ObjectRef, Value), Error> {
        let at = self.at(&release.name, release.version);
        let packed = self.packed(release, 0)?;
        let mut labels: Map<String, Value> =
            release.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        for (key, value) in [
            (moment, self.clock.now().as_second().to_string()),
            ("name", release.name.clone()),
            ("owner", "helm".to_owned()),
            ("status", release.info.status.to_string()),
            ("version", release.version.to_string()),
        ] {
            labels.insert(key.to_owned(), value.into());
        }
        let mut item = json!({
            "apiVersion": "v1",
            "kind": self.kind().gvk.kind,
            "metadata": {"name": at.name, "namespace": self.namespace, "labels": labels},
        });
        match self.driver {
            Driver::Secret => {
                item["type"] = "helm.sh/release.v1".into();
                item["data"] = json!({"release": STANDARD.encode(packed)});
            }
            Driver::ConfigMap => item["data"] = json!({"release": packed}),
        }
        Ok((at, item))
    }

    /// Stores a new revision; an error of class `AlreadyExists` if somebody else took the number.
    pub async fn create(&self, release: &Release) -> Result<(), Error> {
        let (at, item) = self.pack(release, "createdAt")?;
        self.cluster.create(&at, &item, &WriteOptions::manager(MANAGER)).await.map(|_| ())
    }

    /// Stores a revision anew, whatever is there.
    pub async fn update(&self, release: &Release) -> Result<(), Error> {
        let (at, item) = self.pack(release, "modifiedAt")?;
        self.cluster.replace(&at, &item, &WriteOptions::manager(MANAGER)).await.map(|_| ())
    }

    pub async fn delete(&self, name: &str, revision: u32) -> Result<Deleted, Error> {
        self.cluster.delete(&self.at(name, revision), &Delete::default()).await
    }

    /// Makes room for one more revision: deletes the oldest until fewer than `limit` are left, but never
    /// the newest deployed one. Zero means no limit. Gives the revisions deleted.
    pub async fn prune(&self, name: &str, limit: u32) -> Result<Vec<u32>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let stored = self.revisions(name).await?;
        let doomed = surplus(&stored, limit as usize - 1);
        for deleted in join_all(doomed.iter().map(|revision| self.delete(name, *revision))).await {
            deleted?;
        }
        Ok(doomed)
    }
}

/// The oldest revisions beyond `keep`, without the newest deployed one.
fn surplus(stored: &[Stored], keep: usize) -> Vec<u32> {
    let revisions: BTreeSet<u32> = stored.iter().map(|stored| stored.revision).collect();
    let deployed =
        stored.iter().filter(|stored| stored.status == Status::Deployed).map(|stored| stored.revision).max();
    let excess = revisions.len().saturating_sub(keep);
    revisions.into_iter().filter(|revision| Some(*revision) != deployed).take(excess).collect()
}

impl Stored {
    fn of(item: &Value) -> Stored {
        let label = |key: &str| object::label(item, key);
        let number = |key: &str| label(key).and_then(|text| text.parse::<i64>().ok());
        let own = object::labels(item).filter(|(key, _)| !SYSTEM_LABELS.contains(key));
        let stored_name = object::name(item).unwrap_or_default();
        let from_name = stored_name.rsplit_once(".v").and_then(|(_, revision)| revision.parse().ok());
        Stored {
            name: label("name").unwrap_or_default().to_owned(),
            namespace: object::namespace(item).unwrap_or_default().to_owned(),
            revision: label("version").and_then(|text| text.parse().ok()).or(from_name).unwrap_or(0),
            status: Status::from(label("status").unwrap_or_default()),
            written_at: number("modifiedAt").or_else(|| number("createdAt")),
            labels: own.map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_but_the_deployed_stays() {
        let stored = |list: &[(u32, Status)]| -> Vec<Stored> {
            let one = |(revision, status): &(u32, Status)| Stored {
                name: "a".into(),
                namespace: "b".into(),
                revision: *revision,
                status: *status,
                written_at: None,
                labels: BTreeMap::new(),
            };
            list.iter().map(one).collect()
        };
        use Status::{Deployed, Failed, Superseded};
        for (list, keep, doomed) in [
            (stored(&[(1, Superseded), (2, Superseded), (3, Deployed)]), 2, vec![1]),
            (stored(&[(1, Superseded), (2, Superseded), (3, Deployed)]), 3, vec![]),
            (stored(&[(1, Deployed), (2, Failed), (3, Failed)]), 1, vec![2, 3]),
            (stored(&[(1, Deployed), (2, Failed)]), 0, vec![2]),
            (stored(&[(1, Deployed), (2, Deployed), (3, Failed)]), 1, vec![1, 3]),
        ] {
            assert_eq!(surplus(&list, keep), doomed);
        }
    }
}
