//! Connections to the files of this crate: as distrustful as SQLite can be told to be.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};

use super::schema::{FORMAT_VERSION, FileKind, PAGE_SIZE, read_schema};
use crate::error::UnitError;

/// The largest file that is opened.
pub(crate) const LARGEST_FILE: u64 = 1 << 30;
/// The longest text or blob of a row.
const LONGEST_CELL: i32 = 1 << 29;

/// The use a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// The ledger is written.
    Append,
}

/// Opens a file after a look at its header, and checks its pages and schema. Nothing of its content is used before.
pub(crate) fn open_checked(path: &Path, kind: FileKind, access: Access) -> Result<Connection, UnitError> {
    recover_interrupted_write(path)?;
    check_header(path, kind)?;
    let refused = |error: rusqlite::Error| UnitError::not_a_unit(path, sqlite_reason(&error));
    let mode = match access {
        Access::Read => OpenFlags::SQLITE_OPEN_READ_ONLY,
        Access::Append => OpenFlags::SQLITE_OPEN_READ_WRITE,
    };
    // No flag for URIs: a name is a name.
    let connection =
        Connection::open_with_flags(path, mode | OpenFlags::SQLITE_OPEN_NO_MUTEX).map_err(refused)?;
    protect(&connection).map_err(refused)?;
    let checked: String =
        connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(|error| {
            UnitError::not_a_unit(path, format!("its pages are damaged ({})", sqlite_reason(&error)))
        })?;
    if checked != "ok" {
        return Err(UnitError::not_a_unit(path, "its pages are damaged"));
    }
    let schema = read_schema(&connection).map_err(refused)?;
    if schema != kind.expected_schema() {
        return Err(UnitError::not_a_unit(path, "its tables, views or triggers are not those of a unit"));
    }
    if access == Access::Read {
        connection.pragma_update(None, "query_only", true).map_err(refused)?;
    }
    Ok(connection)
}

/// Undoes a write that was cut short, which SQLite does by itself where it may write. Everything is checked afterwards: the
/// journal comes from elsewhere just as the file does.
fn recover_interrupted_write(path: &Path) -> Result<(), UnitError> {
    let mut journal = path.as_os_str().to_owned();
    journal.push("-journal");
    if !std::fs::metadata(&journal).is_ok_and(|about| about.len() > 0) {
        return Ok(());
    }
    let recovered =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).and_then(|connection| {
            protect(&connection)?;
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get::<_, i64>(0))
        });
    match recovered {
        Ok(_) => Ok(()),
        Err(error) => {
            let why =
                format!("a write to it was interrupted and cannot be undone ({})", sqlite_reason(&error));
            Err(UnitError::not_a_unit(path, why))
        }
    }
}

/// Makes the settings of a connection that reads what others wrote.
fn protect(connection: &Connection) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DML, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DQS_DDL, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_CELL)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "foreign_keys", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    Ok(())
}

/// Reads the first bytes of a file, which say what it is.
fn check_header(path: &Path, kind: FileKind) -> Result<(), UnitError> {
    let about = std::fs::metadata(path).map_err(UnitError::io("open", path))?;
    if !about.is_file() {
        return Err(UnitError::not_a_unit(path, "it is not a file"));
    }
    if about.len() > LARGEST_FILE {
        return Err(UnitError::not_a_unit(path, "it is larger than 1 GiB"));
    }
    let mut header = [0_u8; 100];
    let mut file = File::open(path).map_err(UnitError::io("open", path))?;
    if file.read_exact(&mut header).is_err() || !header.starts_with(b"SQLite format 3\0") {
        return Err(UnitError::not_a_unit(path, "it is not a SQLite database"));
    }
    let number = |at: usize| i32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let why = if number(68) != kind.application_id() {
        "it is a SQLite database of another program".to_owned()
    } else if number(60) != FORMAT_VERSION {
        format!("its format is version {}; this program reads version {FORMAT_VERSION}", number(60))
    } else if u16::from_be_bytes([header[16], header[17]]) != PAGE_SIZE || header[18] != 1 || header[19] != 1
    {
        "its pages or its journal are of another kind".to_owned()
    } else if number(56) != 1 {
        "its texts are not UTF-8".to_owned()
    } else {
        return Ok(());
    };
    Err(UnitError::not_a_unit(path, why))
}

/// The reason of a refusal in SQLite's words, which hold nothing of the content.
fn sqlite_reason(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(failure, _) => failure.to_string(),
        other => other.to_string(),
    }
}
