//! Helm's tables: their definitions, as its migrations make them, and what of them is there.
//!
//! The texts and types are part of what Helm reads: its own driver finds a migration applied by its id.

use tokio_postgres::Client;

use super::error::SqlFault;
use super::statement::Statement;

/// One step of the definition, with the id Helm records it by.
struct Migration {
    id: &'static str,
    definition: &'static str,
}

/// The table Helm's library for migrations keeps their ids in.
const MIGRATIONS_TABLE: &str = r#"CREATE TABLE IF NOT EXISTS "gorp_migrations" (
    "id" text NOT NULL PRIMARY KEY, "applied_at" timestamp with time zone);"#;

const RELEASES: Migration = Migration {
    id: "init",
    definition: "CREATE TABLE releases_v1 (
    key VARCHAR(90), type VARCHAR(64) NOT NULL, body TEXT NOT NULL, name VARCHAR(64) NOT NULL,
    namespace VARCHAR(64) NOT NULL, version INTEGER NOT NULL, status TEXT NOT NULL, owner TEXT NOT NULL,
    createdAt INTEGER NOT NULL, modifiedAt INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (key, namespace));
CREATE INDEX ON releases_v1 (key, namespace);
CREATE INDEX ON releases_v1 (version);
CREATE INDEX ON releases_v1 (status);
CREATE INDEX ON releases_v1 (owner);
CREATE INDEX ON releases_v1 (createdAt);
CREATE INDEX ON releases_v1 (modifiedAt);
GRANT ALL ON releases_v1 TO PUBLIC;
ALTER TABLE releases_v1 ENABLE ROW LEVEL SECURITY;",
};

const CUSTOM_LABELS: Migration = Migration {
    id: "custom_labels",
    definition: "CREATE TABLE custom_labels_v1 (
    releaseKey VARCHAR(64), releaseNamespace VARCHAR(67), key VARCHAR(317), value VARCHAR(63));
CREATE INDEX ON custom_labels_v1 (releaseKey, releaseNamespace);
GRANT ALL ON custom_labels_v1 TO PUBLIC;
ALTER TABLE custom_labels_v1 ENABLE ROW LEVEL SECURITY;",
};

/// The most characters of a record's key, a label's name and its value that go into the table of labels.
pub(super) const LABEL_LIMITS: [usize; 3] = [64, 317, 63];

/// The tables a database has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tables {
    Missing,
    /// As Helm made them before releases had labels of their own.
    WithoutLabels,
    Complete,
}

/// Looks which of the tables are there. Needs no right on them.
pub(super) async fn find_tables(client: &Client) -> Result<Tables, SqlFault> {
    let statement = Statement::new(
        "SELECT to_regclass('releases_v1') IS NOT NULL, to_regclass('custom_labels_v1') IS NOT NULL",
    );
    let rows = statement.run(client, Tables::Missing).await?;
    let Some(row) = rows.first() else { return Ok(Tables::Missing) };
    Ok(match (row.try_get(0)?, row.try_get(1)?) {
        (false, _) => Tables::Missing,
        (true, false) => Tables::WithoutLabels,
        (true, true) => Tables::Complete,
    })
}

/// Makes the tables that are missing, all or none.
pub(super) async fn create_tables(client: &Client, present: Tables) -> Result<(), SqlFault> {
    let missing: &[Migration] = match present {
        Tables::Complete => return Ok(()),
        Tables::WithoutLabels => &[CUSTOM_LABELS],
        Tables::Missing => &[RELEASES, CUSTOM_LABELS],
    };
    // Statements of one message are one transaction.
    let mut text = MIGRATIONS_TABLE.to_owned();
    for Migration { id, definition } in missing {
        text.push_str(definition);
        text.push_str(&format!(
            "INSERT INTO gorp_migrations (id, applied_at) VALUES ('{id}', now()) ON CONFLICT (id) DO NOTHING;"
        ));
    }
    Ok(client.batch_execute(&text).await?)
}
