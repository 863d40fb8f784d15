//! Storage of releases where Helm keeps them: in Secrets or ConfigMaps, named and labelled as Helm does, or in its tables of
//! a database.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use slipway_event::{Clock, SystemClock};
use slipway_manifest::selector::LabelSelector;
use slipway_manifest::{ObjectRef, object};

use super::codec;
use super::codec::CodecError;
use super::sql::{RecordFilter, SqlDatabase, SqlRecord, SqlRecords, check_labels};
use super::{Release, RevisionStatus};
use crate::kinds::ServedKind;
use crate::{Cluster, DeleteOptions, DeleteOutcome, Error, ErrorClass, ListOptions, WriteOptions};

/// Labels that are Helm's own.
const SYSTEM_LABELS: &[&str] = &["name", "owner", "status", "version", "createdAt", "modifiedAt"];
const MANAGER: &str = "helm";
/// The most bytes a record grows by during a run: the reason of a failure, times of hooks.
const GROWTH_LIMIT: usize = 4096;

/// Tells that a label is Helm's own.
pub(super) fn is_system_label(label: &str) -> bool {
    SYSTEM_LABELS.contains(&label)
}

/// The name of the object, and the key of the row, that holds a revision.
pub(super) fn record_key(name: &str, revision: u32) -> String {
    format!("sh.helm.release.v1.{name}.v{revision}")
}

/// The place releases are stored in, in the words of `HELM_DRIVER`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StorageDriver {
    #[default]
    Secret,
    ConfigMap,
    /// The database that the handle on the cluster knows: [`Cluster::with_release_storage`].
    Sql,
}

/// The place of a cluster's releases: the driver for engines that are not told one, and the database, if there is one.
#[derive(Clone, Debug, Default)]
pub struct ReleasePlace {
    pub driver: StorageDriver,
    pub database: Option<SqlDatabase>,
}

/// The namespaces to look for releases in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageScope {
    /// The storage's own namespace.
    Namespace,
    Everywhere,
}

/// The facts the labels of a stored revision tell without unpacking it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StoredRevision {
    pub name: String,
    pub namespace: String,
    pub revision: u32,
    pub status: RevisionStatus,
    /// Unix seconds of the last write, as far as known.
    pub written_at: Option<i64>,
    /// Labels that are not Helm's own.
    pub labels: BTreeMap<String, String>,
}

/// A stored revision that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedRevision {
    pub revision: u32,
    pub why: String,
}

/// Every revision of a release, oldest first.
#[derive(Clone, Debug, Default)]
pub struct ReleaseHistory {
    pub releases: Vec<Release>,
    pub damaged: Vec<DamagedRevision>,
}

impl ReleaseHistory {
    /// The highest revision number in use, readable or not.
    pub fn last_revision(&self) -> u32 {
        let readable = self.releases.iter().map(|release| release.version);
        readable.chain(self.damaged.iter().map(|damaged| damaged.revision)).max().unwrap_or(0)
    }

    pub fn last_release(&self) -> Option<&Release> {
        self.releases.last()
    }

    /// The newest revision that is deployed.
    pub fn last_deployed(&self) -> Option<&Release> {
        self.releases.iter().rev().find(|release| release.info.status == RevisionStatus::Deployed)
    }
}

/// The releases of one namespace.
#[derive(Clone)]
pub struct ReleaseStorage {
    cluster: Cluster,
    driver: StorageDriver,
    namespace: String,
    clock: Arc<dyn Clock>,
}

impl ReleaseStorage {
    pub fn new(cluster: Cluster, driver: StorageDriver, namespace: impl Into<String>) -> ReleaseStorage {
        ReleaseStorage { cluster, driver, namespace: namespace.into(), clock: Arc::new(SystemClock) }
    }

    /// Takes the time from somewhere else.
    pub fn with_clock(mut self, clock: Arc<dyn Clock>) -> ReleaseStorage {
        self.clock = clock;
        self
    }

    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The way to the records.
    fn backend(&self) -> Result<Backend<'_>, Error> {
        let objects =
            |form, kind| Ok(Backend::Objects(Box::new(ObjectRecords { storage: self, form, kind })));
        match self.driver {
            StorageDriver::Secret => {
                objects(ObjectForm::Secret, ServedKind::built_in("", "v1", "Secret", "secrets", true))
            }
            StorageDriver::ConfigMap => objects(
                ObjectForm::ConfigMap,
                ServedKind::built_in("", "v1", "ConfigMap", "configmaps", true),
            ),
            StorageDriver::Sql => match &self.cluster.release_place().database {
                Some(database) => Ok(Backend::Database(SqlRecords { database, cluster: &self.cluster })),
                None => {
                    let message = "releases are to be kept in a database, and none is named";
                    let error = Error::new(ErrorClass::Invalid, "find the records of releases", message);
                    let hint = "set HELM_DRIVER_SQL_CONNECTION_STRING: host=HOST user=USER password=… dbname=NAME, or a URL";
                    Err(Error { hint: Some(hint.into()), ..error })
                }
            },
        }
    }

    fn own_filter<'a>(&'a self, name: &'a str) -> RecordFilter<'a> {
        RecordFilter { namespace: Some(&self.namespace), name: Some(name) }
    }

    /// Every revision of a release, unpacked.
    pub async fn read_history(&self, name: &str) -> Result<ReleaseHistory, Error> {
        let read: Vec<(u32, Result<Release, CodecError>)> = match self.backend()? {
            Backend::Objects(objects) => {
                let items = objects.find_items(format!("name={name},owner=helm")).await?;
                let unpacked = |item| (StoredRevision::from_item(item).revision, objects.unpack_item(item));
                items.iter().map(unpacked).collect()
            }
            Backend::Database(rows) => {
                let records = rows.read_records(self.own_filter(name)).await?;
                records.into_iter().map(|record| (record.stored.revision, unpack_record(record))).collect()
            }
        };
        let mut history = ReleaseHistory::default();
        for (revision, unpacked) in read {
            match unpacked {
                Ok(release) => history.releases.push(release),
                Err(why) => history.damaged.push(DamagedRevision { revision, why: why.to_string() }),
            }
        }
        history.releases.sort_by_key(|release| release.version);
        Ok(history)
    }

    /// One revision of a release.
    pub async fn read_revision(&self, name: &str, revision: u32) -> Result<Option<Release>, Error> {
        let unpacked = match self.backend()? {
            Backend::Objects(objects) => {
                let at = objects.at(name, revision);
                let Some(item) = self.cluster.get(&at).await? else { return Ok(None) };
                objects.unpack_item(&item)
            }
            Backend::Database(rows) => match rows.read_record(&self.namespace, name, revision).await? {
                Some(record) => unpack_record(record),
                None => return Ok(None),
            },
        };
        unpacked.map(Some).map_err(|why| {
            let action = format!("read revision {revision} of release {name}");
            Error::new(ErrorClass::Invalid, action, why.to_string())
        })
    }

    /// Lists the revisions of a release, without their content.
    pub async fn list_revisions(&self, name: &str) -> Result<Vec<StoredRevision>, Error> {
        self.list_stored(self.own_filter(name), "").await
    }

    /// Lists the revisions of releases of this name in all namespaces.
    pub async fn list_revisions_everywhere(&self, name: &str) -> Result<Vec<StoredRevision>, Error> {
        self.list_stored(RecordFilter { namespace: None, name: Some(name) }, "").await
    }

    /// Lists the revisions of all releases, without their content.
    pub async fn list_all(&self, scope: StorageScope) -> Result<Vec<StoredRevision>, Error> {
        self.list_labelled(scope, "").await
    }

    async fn list_labelled(&self, scope: StorageScope, labels: &str) -> Result<Vec<StoredRevision>, Error> {
        let namespace = match scope {
            StorageScope::Namespace => Some(self.namespace.as_str()),
            StorageScope::Everywhere => None,
        };
        self.list_stored(RecordFilter { namespace, name: None }, labels).await
    }

    async fn list_stored(
        &self,
        filter: RecordFilter<'_>,
        labels: &str,
    ) -> Result<Vec<StoredRevision>, Error> {
        let mut all = match self.backend()? {
            Backend::Objects(objects) => objects.list_items(filter, labels).await?,
            Backend::Database(rows) => {
                let selector = LabelSelector::parse(labels).map_err(|error| {
                    Error::new(ErrorClass::Invalid, "list releases", format!("`{labels}`: {error}"))
                })?;
                let mut all = rows.list_records(filter).await?;
                all.retain(|stored| stored.matches(&selector));
                all
            }
        };
        all.sort_by(|a, b| (&a.namespace, &a.name, a.revision).cmp(&(&b.namespace, &b.name, b.revision)));
        Ok(all)
    }

    /// The newest revision of each release, unpacked; `None` where it cannot be read.
    pub async fn latest_revisions(
        &self,
        scope: StorageScope,
    ) -> Result<Vec<(StoredRevision, Option<Release>)>, Error> {
        self.latest_labelled(scope, "").await
    }

    /// The newest of those revisions of each release that have labels.
    pub async fn latest_labelled(
        &self,
        scope: StorageScope,
        labels: &str,
    ) -> Result<Vec<(StoredRevision, Option<Release>)>, Error> {
        let mut newest: BTreeMap<(String, String), StoredRevision> = BTreeMap::new();
        for stored in self.list_labelled(scope, labels).await? {
            newest.insert((stored.namespace.clone(), stored.name.clone()), stored);
        }
        let read = newest.into_values().map(|stored| async move {
            let storage = ReleaseStorage { namespace: stored.namespace.clone(), ..self.clone() };
            match storage.read_revision(&stored.name, stored.revision).await {
                Ok(release) => Ok((stored, release)),
                Err(e) if e.class == ErrorClass::Invalid => Ok((stored, None)),
                Err(e) => Err(e),
            }
        });
        join_all(read).await.into_iter().collect()
    }

    /// Checks that a record can be stored, with what a run adds to it, without storing it.
    pub fn check_size(&self, release: &Release) -> Result<(), Error> {
        self.pack_release(release, GROWTH_LIMIT).map(drop)
    }

    /// A record as it is stored, if it may be and leaves so much room.
    fn pack_release(&self, release: &Release, room: usize) -> Result<String, Error> {
        let action = format!("store revision {} of release {}", release.version, release.name);
        let refuse = |message: String| Error::new(ErrorClass::Invalid, action.as_str(), message);
        if let Some(label) = release.labels.keys().find(|label| is_system_label(label)) {
            return Err(refuse(format!("the label `{label}` is Helm's own")));
        }
        let packed = codec::encode_release(release).map_err(|e| refuse(e.to_string()))?;
        match self.driver {
            StorageDriver::Secret | StorageDriver::ConfigMap => {
                if packed.len() + room > codec::SIZE_LIMIT {
                    let size = packed.len() / 1024;
                    return Err(refuse(format!(
                        "the record is too large: {size} KiB packed, and the cluster stores 1024 KiB at most; \
                         smaller manifests, notes or values are needed, or fewer of them"
                    )));
                }
            }
            StorageDriver::Sql => check_labels(release).map_err(refuse)?,
        }
        Ok(packed)
    }

    /// Stores a new revision; an error of class `AlreadyExists` if somebody else took the number.
    pub async fn create(&self, release: &Release) -> Result<(), Error> {
        let packed = self.pack_release(release, 0)?;
        match self.backend()? {
            Backend::Objects(objects) => {
                let (at, item) = objects.build_item(release, &packed, "createdAt");
                self.cluster.create(&at, &item, &WriteOptions::for_manager(MANAGER)).await.map(|_| ())
            }
            Backend::Database(rows) => rows.create(&self.namespace, release, &packed, self.now()).await,
        }
    }

    /// Stores a revision anew, whatever is there.
    pub async fn update(&self, release: &Release) -> Result<(), Error> {
        let packed = self.pack_release(release, 0)?;
        match self.backend()? {
            Backend::Objects(objects) => {
                let (at, item) = objects.build_item(release, &packed, "modifiedAt");
                self.cluster.replace(&at, &item, &WriteOptions::for_manager(MANAGER)).await.map(|_| ())
            }
            Backend::Database(rows) => rows.update(&self.namespace, release, &packed, self.now()).await,
        }
    }

    pub async fn delete(&self, name: &str, revision: u32) -> Result<DeleteOutcome, Error> {
        match self.backend()? {
            Backend::Objects(objects) => {
                self.cluster.delete(&objects.at(name, revision), &DeleteOptions::default()).await
            }
            Backend::Database(rows) => {
                rows.delete(&self.namespace, name, revision).await.map(|()| DeleteOutcome::Gone)
            }
        }
    }

    /// The time in seconds, as records have it.
    fn now(&self) -> i64 {
        self.clock.now().as_second()
    }

    /// Makes room for one more revision: deletes the oldest until fewer than `limit` are left, but never
    /// the newest deployed one. Zero means no limit. Gives the revisions deleted.
    pub async fn prune_history(&self, name: &str, limit: u32) -> Result<Vec<u32>, Error> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let stored = self.list_revisions(name).await?;
        let doomed = surplus_revisions(&stored, limit as usize - 1);
        for deleted in join_all(doomed.iter().map(|revision| self.delete(name, *revision))).await {
            deleted?;
        }
        Ok(doomed)
    }
}

/// The two ways records are kept.
enum Backend<'a> {
    Objects(Box<ObjectRecords<'a>>),
    Database(SqlRecords<'a>),
}

/// The form of a record in an object.
#[derive(Clone, Copy)]
enum ObjectForm {
    Secret,
    ConfigMap,
}

/// Records in objects of one kind.
struct ObjectRecords<'a> {
    storage: &'a ReleaseStorage,
    form: ObjectForm,
    kind: ServedKind,
}

impl ObjectRecords<'_> {
    /// The object a revision is stored in.
    fn at(&self, name: &str, revision: u32) -> ObjectRef {
        let namespace = Some(self.storage.namespace.as_str());
        ObjectRef::new(self.kind.gvk.clone(), namespace, record_key(name, revision))
    }

    async fn find_items(&self, selector: String) -> Result<Vec<Value>, Error> {
        let options = ListOptions::with_labels(selector);
        let namespace = Some(self.storage.namespace.as_str());
        let mut items = self.storage.cluster.list(&self.kind, namespace, &options).await?.items;
        items.sort_by_key(|item| StoredRevision::from_item(item).revision);
        Ok(items)
    }

    /// Lists what is stored, by what its metadata tells.
    async fn list_items(&self, filter: RecordFilter<'_>, labels: &str) -> Result<Vec<StoredRevision>, Error> {
        let name = filter.name.map(|name| format!("name={name}"));
        let own = [name.as_deref().unwrap_or_default(), "owner=helm", labels];
        let own: Vec<&str> = own.into_iter().filter(|part| !part.is_empty()).collect();
        let options = ListOptions { labels: own.join(","), metadata_only: true, ..ListOptions::default() };
        let listed = self.storage.cluster.list(&self.kind, filter.namespace, &options).await?;
        Ok(listed.items.iter().map(StoredRevision::from_item).collect())
    }

    fn unpack_item(&self, item: &Value) -> Result<Release, CodecError> {
        let text = item["data"]["release"].as_str().ok_or(CodecError::NoRelease)?;
        let packed = match self.form {
            ObjectForm::Secret => STANDARD.decode(text)?,
            ObjectForm::ConfigMap => text.as_bytes().to_vec(),
        };
        let mut release = codec::decode_release(&packed)?;
        release.labels = StoredRevision::from_item(item).labels;
        if release.namespace.is_empty() {
            release.namespace.clone_from(&self.storage.namespace);
        }
        Ok(release)
    }

    /// The object of a packed record, with the label of the moment it is written.
    fn build_item(&self, release: &Release, packed: &str, moment: &str) -> (ObjectRef, Value) {
        let at = self.at(&release.name, release.version);
        let mut labels: Map<String, Value> =
            release.labels.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        for (key, value) in [
            (moment, self.storage.now().to_string()),
            ("name", release.name.clone()),
            ("owner", "helm".to_owned()),
            ("status", release.info.status.to_string()),
            ("version", release.version.to_string()),
        ] {
            labels.insert(key.to_owned(), value.into());
        }
        let mut item = json!({
            "apiVersion": "v1",
            "kind": self.kind.gvk.kind,
            "metadata": {"name": at.name, "namespace": self.storage.namespace, "labels": labels},
        });
        match self.form {
            ObjectForm::Secret => {
                item["type"] = "helm.sh/release.v1".into();
                item["data"] = json!({"release": STANDARD.encode(packed)});
            }
            ObjectForm::ConfigMap => item["data"] = json!({"release": packed}),
        }
        (at, item)
    }
}

fn unpack_record(record: SqlRecord) -> Result<Release, CodecError> {
    let SqlRecord { stored, body } = record;
    let mut release = codec::decode_release(body.as_bytes())?;
    release.labels = stored.labels;
    if release.namespace.is_empty() {
        release.namespace = stored.namespace;
    }
    Ok(release)
}

/// The oldest revisions beyond `keep`, without the newest deployed one.
fn surplus_revisions(stored: &[StoredRevision], keep: usize) -> Vec<u32> {
    let revisions: BTreeSet<u32> = stored.iter().map(|stored| stored.revision).collect();
    let deployed = stored
        .iter()
        .filter(|stored| stored.status == RevisionStatus::Deployed)
        .map(|stored| stored.revision)
        .max();
    let excess = revisions.len().saturating_sub(keep);
    revisions.into_iter().filter(|revision| Some(*revision) != deployed).take(excess).collect()
}

impl StoredRevision {
    /// Tells that a selector chooses it by its own labels or those Helm gives every record.
    fn matches(&self, selector: &LabelSelector) -> bool {
        let version = self.revision.to_string();
        selector.matches(|label| match label {
            "name" => Some(self.name.as_str()),
            "owner" => Some("helm"),
            "status" => Some(self.status.as_str()),
            "version" => Some(version.as_str()),
            other => self.labels.get(other).map(String::as_str),
        })
    }

    fn from_item(item: &Value) -> StoredRevision {
        let label = |key: &str| object::label(item, key);
        let number = |key: &str| label(key).and_then(|text| text.parse::<i64>().ok());
        let own = object::labels(item).filter(|(key, _)| !is_system_label(key));
        let stored_name = object::name(item).unwrap_or_default();
        let from_name = stored_name.rsplit_once(".v").and_then(|(_, revision)| revision.parse().ok());
        StoredRevision {
            name: label("name").unwrap_or_default().to_owned(),
            namespace: object::namespace(item).unwrap_or_default().to_owned(),
            revision: label("version").and_then(|text| text.parse().ok()).or(from_name).unwrap_or(0),
            status: RevisionStatus::from(label("status").unwrap_or_default()),
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
        let stored = |list: &[(u32, RevisionStatus)]| -> Vec<StoredRevision> {
            let one = |(revision, status): &(u32, RevisionStatus)| StoredRevision {
                name: "a".into(),
                namespace: "b".into(),
                revision: *revision,
                status: *status,
                written_at: None,
                labels: BTreeMap::new(),
            };
            list.iter().map(one).collect()
        };
        use RevisionStatus::{Deployed, Failed, Superseded};
        for (list, keep, doomed) in [
            (stored(&[(1, Superseded), (2, Superseded), (3, Deployed)]), 2, vec![1]),
            (stored(&[(1, Superseded), (2, Superseded), (3, Deployed)]), 3, vec![]),
            (stored(&[(1, Deployed), (2, Failed), (3, Failed)]), 1, vec![2, 3]),
            (stored(&[(1, Deployed), (2, Failed)]), 0, vec![2]),
            (stored(&[(1, Deployed), (2, Deployed), (3, Failed)]), 1, vec![1, 3]),
        ] {
            assert_eq!(surplus_revisions(&list, keep), doomed);
        }
    }
}
