//! Releases stored in PostgreSQL, in Helm's own tables (its driver `sql`).
//!
//! [`SqlSettings`] reads a connection string, [`SqlDatabase`] keeps the connection, `schema` has Helm's tables and
//! `records` what is done to their rows. Every request is one statement, so that it is carried out as a whole or not
//! at all.

mod database;
mod error;
mod records;
mod schema;
mod settings;
mod statement;
mod tls;

pub use database::SqlDatabase;
pub(super) use records::{RecordFilter, SqlRecord, SqlRecords, check_labels};
pub use settings::{ConnectionStringError, SqlSettings};
