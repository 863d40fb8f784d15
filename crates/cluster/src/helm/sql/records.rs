//! Records of releases as rows of Helm's tables.

use std::collections::BTreeMap;

use tokio_postgres::Row;

use super::database::{Access, SqlCall, SqlDatabase};
use super::schema::LABEL_LIMITS;
use super::statement::Statement;
use crate::helm::storage::{StoredRevision, is_system_label, record_key};
use crate::helm::{Release, RevisionStatus};
use crate::request::error_chain;
use crate::{Cluster, Error, ErrorClass};

const OWNER: &str = "helm";
const KIND: &str = "helm.sh/release.v1";

/// A row of the table of releases.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::helm) struct SqlRecord {
    pub(in crate::helm) stored: StoredRevision,
    /// The packed record, where it was asked for.
    pub(in crate::helm) body: String,
}

/// The records of one database, asked for by one handle on a cluster: its deadline and its lock bind them.
pub(in crate::helm) struct SqlRecords<'a> {
    pub(in crate::helm) database: &'a SqlDatabase,
    pub(in crate::helm) cluster: &'a Cluster,
}

/// The rows to read.
#[derive(Clone, Copy, Debug)]
pub(in crate::helm) struct RecordFilter<'a> {
    /// All if none.
    pub(in crate::helm) namespace: Option<&'a str>,
    pub(in crate::helm) name: Option<&'a str>,
}

impl SqlRecords<'_> {
    async fn call(
        &self,
        action: String,
        access: Access,
        statement: Statement,
    ) -> (Result<Vec<Row>, Error>, bool) {
        let sent = self.database.call(self.cluster, &SqlCall { action, access, statement }).await;
        (sent.rows, sent.was_ambiguous)
    }

    async fn read(&self, action: String, statement: Statement) -> Result<Vec<SqlRecord>, Error> {
        let rows = self.call(action.clone(), Access::Read, statement).await.0?;
        let unreadable = |error: tokio_postgres::Error| {
            let message = format!("a row of releases_v1 is not of Helm's types: {}", error_chain(&error));
            Error::new(ErrorClass::Invalid, action.as_str(), message)
        };
        let mut records = Vec::with_capacity(rows.len());
        for row in &rows {
            records.push(read_row(row).map_err(unreadable)?);
        }
        Ok(records)
    }

    /// Every revision that a filter lets through, with its packed record.
    pub(in crate::helm) async fn read_records(
        &self,
        filter: RecordFilter<'_>,
    ) -> Result<Vec<SqlRecord>, Error> {
        let statement = Statement::new(
            "SELECT r.namespace, r.name, r.version, r.status, r.createdAt, r.modifiedAt, :labels, r.body
             FROM releases_v1 r WHERE r.owner = 'helm'
             AND ($1::text IS NULL OR r.namespace = $1) AND ($2::text IS NULL OR r.name = $2)
             ORDER BY r.namespace, r.name, r.version",
        );
        let action = describe("read", filter);
        self.read(action, statement.optional_text(filter.namespace).optional_text(filter.name)).await
    }

    /// The same without the packed records.
    pub(in crate::helm) async fn list_records(
        &self,
        filter: RecordFilter<'_>,
    ) -> Result<Vec<StoredRevision>, Error> {
        let statement = Statement::new(
            "SELECT r.namespace, r.name, r.version, r.status, r.createdAt, r.modifiedAt, :labels, ''
             FROM releases_v1 r WHERE r.owner = 'helm'
             AND ($1::text IS NULL OR r.namespace = $1) AND ($2::text IS NULL OR r.name = $2)
             ORDER BY r.namespace, r.name, r.version",
        );
        let action = describe("list", filter);
        let read = self.read(action, statement.optional_text(filter.namespace).optional_text(filter.name));
        Ok(read.await?.into_iter().map(|record| record.stored).collect())
    }

    /// One revision.
    pub(in crate::helm) async fn read_record(
        &self,
        namespace: &str,
        name: &str,
        revision: u32,
    ) -> Result<Option<SqlRecord>, Error> {
        let statement = Statement::new(
            "SELECT r.namespace, r.name, r.version, r.status, r.createdAt, r.modifiedAt, :labels, r.body
             FROM releases_v1 r WHERE r.key = $1 AND r.namespace = $2",
        );
        let action = format!("read revision {revision} of release {name} from the database");
        let read = self.read(action, statement.text(record_key(name, revision)).text(namespace));
        Ok(read.await?.pop())
    }

    /// Stores a new revision with its labels, both or none. A number somebody else took is refused by the table's key.
    pub(in crate::helm) async fn create(
        &self,
        namespace: &str,
        release: &Release,
        body: &str,
        now: i64,
    ) -> Result<(), Error> {
        let key = record_key(&release.name, release.version);
        let action =
            format!("store revision {} of release {} in the database", release.version, release.name);
        let (labels, values): (Vec<String>, Vec<String>) =
            release.labels.iter().filter(|(label, _)| !is_system_label(label)).map(owned).unzip();
        let statement = Statement::new(
            "WITH made AS (INSERT INTO releases_v1
                 (key, type, body, name, namespace, version, status, owner, createdAt)
                 VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) RETURNING key, namespace)
             INSERT INTO custom_labels_v1 (releaseKey, releaseNamespace, key, value)
             SELECT made.key, made.namespace, label.key, label.value
             FROM made, unnest($10, $11) AS label (key, value)",
        );
        let statement = statement
            .text(key.as_str())
            .text(KIND)
            .text(body)
            .text(release.name.as_str())
            .text(namespace)
            .number(row_number(release.version))
            .text(release.info.status.as_str())
            .text(OWNER)
            .number(row_time(now))
            .texts(labels)
            .texts(values);
        let (answer, was_ambiguous) = self.call(action, Access::Write, statement).await;
        match answer {
            Err(error) if error.class == ErrorClass::AlreadyExists => {
                // Perhaps it is our own, whose answer was lost.
                let stored = match was_ambiguous {
                    true => self.read_record(namespace, &release.name, release.version).await?,
                    false => None,
                };
                let is_ours = stored.is_some_and(|record| record.body == body);
                if is_ours { Ok(()) } else { Err(taken(release, error)) }
            }
            answer => answer.map(drop),
        }
    }

    /// Stores a revision anew; labels stay as they are.
    pub(in crate::helm) async fn update(
        &self,
        namespace: &str,
        release: &Release,
        body: &str,
        now: i64,
    ) -> Result<(), Error> {
        let action =
            format!("store revision {} of release {} in the database", release.version, release.name);
        let statement = Statement::new(
            "UPDATE releases_v1 SET body = $3, name = $4, version = $5, status = $6, owner = $7, modifiedAt = $8
             WHERE key = $1 AND namespace = $2 RETURNING 1",
        );
        let statement = statement
            .text(record_key(&release.name, release.version))
            .text(namespace)
            .text(body)
            .text(release.name.as_str())
            .number(row_number(release.version))
            .text(release.info.status.as_str())
            .text(OWNER)
            .number(row_time(now));
        let changed = self.call(action.clone(), Access::Write, statement).await.0?;
        if changed.is_empty() {
            return Err(Error::new(ErrorClass::NotFound, action, "the revision is gone"));
        }
        Ok(())
    }

    /// Deletes a revision with its labels, if it is there.
    pub(in crate::helm) async fn delete(
        &self,
        namespace: &str,
        name: &str,
        revision: u32,
    ) -> Result<(), Error> {
        let action = format!("delete revision {revision} of release {name} from the database");
        let statement = Statement::new(
            "WITH labels AS (DELETE FROM custom_labels_v1 WHERE releaseKey = $1 AND releaseNamespace = $2)
             DELETE FROM releases_v1 WHERE key = $1 AND namespace = $2",
        );
        let statement = statement.text(record_key(name, revision)).text(namespace);
        self.call(action, Access::Write, statement).await.0.map(drop)
    }
}

/// Tells why a table of Helm's cannot hold the labels of a release, if so.
pub(in crate::helm) fn check_labels(release: &Release) -> Result<(), String> {
    let [longest_key, longest_name, longest_value] = LABEL_LIMITS;
    let key = record_key(&release.name, release.version);
    if !release.labels.is_empty() && key.chars().count() > longest_key {
        return Err(format!(
            "Helm's table of labels holds keys of {longest_key} characters at most, and `{key}` is longer; \
             a shorter name of the release, or no labels, is needed"
        ));
    }
    let is_long = |(name, value): &(&String, &String)| {
        name.chars().count() > longest_name || value.chars().count() > longest_value
    };
    match release.labels.iter().find(is_long) {
        Some((name, _)) => Err(format!("the label `{name}` is too long for Helm's table of labels")),
        None => Ok(()),
    }
}

fn owned((key, value): (&String, &String)) -> (String, String) {
    (key.clone(), value.clone())
}

/// A revision in the table's type.
fn row_number(revision: u32) -> i32 {
    i32::try_from(revision).unwrap_or(i32::MAX)
}

/// A moment in the table's type, which ends in 2038.
fn row_time(seconds: i64) -> i32 {
    i32::try_from(seconds).unwrap_or(i32::MAX)
}

fn taken(release: &Release, error: Error) -> Error {
    let message = format!("revision {} exists already: another run stored it", release.version);
    Error { message, hint: Some("run the command again".into()), ..error }
}

fn describe(verb: &str, filter: RecordFilter<'_>) -> String {
    match filter.name {
        Some(name) => format!("{verb} release {name} in the database"),
        None => format!("{verb} releases in the database"),
    }
}

fn read_row(row: &Row) -> Result<SqlRecord, tokio_postgres::Error> {
    let columns = RecordColumns {
        namespace: row.try_get(0)?,
        name: row.try_get(1)?,
        version: row.try_get(2)?,
        status: row.try_get(3)?,
        created_at: row.try_get(4)?,
        modified_at: row.try_get(5)?,
        labels: row.try_get(6)?,
    };
    Ok(SqlRecord { stored: columns.into(), body: row.try_get(7)? })
}

/// The columns of a row that say what it is.
struct RecordColumns {
    namespace: String,
    name: String,
    version: i32,
    status: String,
    created_at: i32,
    /// Zero until the row is written again.
    modified_at: i32,
    /// An object of labels as JSON.
    labels: Option<String>,
}

impl From<RecordColumns> for StoredRevision {
    fn from(columns: RecordColumns) -> StoredRevision {
        let labels: BTreeMap<String, String> =
            columns.labels.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let written = if columns.modified_at > 0 { columns.modified_at } else { columns.created_at };
        StoredRevision {
            name: columns.name,
            namespace: columns.namespace,
            revision: u32::try_from(columns.version).unwrap_or(0),
            status: RevisionStatus::from(columns.status.as_str()),
            written_at: Some(i64::from(written)),
            labels: labels.into_iter().filter(|(label, _)| !is_system_label(label)).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(modified_at: i32, labels: Option<&str>) -> RecordColumns {
        RecordColumns {
            namespace: "shop".into(),
            name: "web".into(),
            version: 3,
            status: "pending-upgrade".into(),
            created_at: 100,
            modified_at,
            labels: labels.map(str::to_owned),
        }
    }

    #[test]
    fn rows_are_read() {
        let stored = StoredRevision::from(columns(0, Some(r#"{"team": "a", "owner": "somebody"}"#)));
        assert_eq!((stored.revision, stored.status), (3, RevisionStatus::PendingUpgrade));
        assert_eq!(stored.written_at, Some(100));
        assert_eq!(stored.labels, BTreeMap::from([("team".to_owned(), "a".to_owned())]));
        let stored = StoredRevision::from(columns(200, None));
        assert_eq!((stored.written_at, stored.labels.len()), (Some(200), 0));
    }

    #[test]
    fn labels_that_do_not_fit_are_told() {
        let labels = |name: &str, value: &str| BTreeMap::from([(name.to_owned(), value.to_owned())]);
        let release =
            |name: &str, labels| Release { name: name.into(), version: 12, labels, ..Release::default() };
        assert!(check_labels(&release(&"a".repeat(50), BTreeMap::new())).is_ok());
        assert!(check_labels(&release("web", labels("team", "a"))).is_ok());
        let told = check_labels(&release(&"a".repeat(50), labels("team", "a"))).unwrap_err();
        assert!(told.contains("64 characters"), "{told}");
        let told = check_labels(&release("web", labels("team", &"a".repeat(64)))).unwrap_err();
        assert!(told.contains("`team`"), "{told}");
    }
}
