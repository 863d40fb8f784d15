//! Rows of sealed tables as JSON objects: one way in, one way out, one form to hash.

use rusqlite::types::{Value as SqlValue, ValueRef};
use rusqlite::{Connection, params_from_iter};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::blobs::ContentHash;
use super::schema::{ColumnType, TableSchema};
use crate::error::UnitError;

pub(crate) type Row = Map<String, Value>;

/// Writes the rows of a table.
pub(crate) fn insert_rows(
    connection: &Connection,
    table: &TableSchema,
    rows: &[Row],
) -> Result<(), UnitError> {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let marks: Vec<String> = (1..=names.len()).map(|index| format!("?{index}")).collect();
    let sql = format!("INSERT INTO {} ({}) VALUES ({})", table.name, names.join(", "), marks.join(", "));
    let mut statement = connection.prepare(&sql).map_err(UnitError::database("write the unit"))?;
    for row in rows {
        let cells = table.columns.iter().map(|(name, kind)| sql_value(row.get(*name), *kind));
        statement.execute(params_from_iter(cells)).map_err(UnitError::database("write the unit"))?;
    }
    Ok(())
}

fn sql_value(value: Option<&Value>, kind: ColumnType) -> SqlValue {
    match (value, kind) {
        (None | Some(Value::Null), _) => SqlValue::Null,
        (Some(Value::String(text)), ColumnType::Hash) => {
            ContentHash::parse(text).map_or(SqlValue::Null, |hash| SqlValue::Blob(hash.0.to_vec()))
        }
        (Some(Value::String(text)), _) => SqlValue::Text(text.clone()),
        (Some(Value::Bool(truth)), _) => SqlValue::Integer(i64::from(*truth)),
        (Some(Value::Number(number)), _) => number.as_i64().map_or(SqlValue::Null, SqlValue::Integer),
        (Some(other), _) => SqlValue::Text(canonical_text(other)),
    }
}

/// Reads the rows of a table in the order of their keys.
pub(crate) fn read_rows(connection: &Connection, table: &TableSchema) -> Result<Vec<Row>, UnitError> {
    let names: Vec<&str> = table.columns.iter().map(|(name, _)| *name).collect();
    let sql = format!("SELECT {} FROM {} ORDER BY {}", names.join(", "), table.name, table.key.join(", "));
    let failed = |_: rusqlite::Error| UnitError::tampered(table.name, "cannot be read");
    let mut statement = connection.prepare(&sql).map_err(UnitError::database("read the unit"))?;
    let mut found = statement.query([]).map_err(failed)?;
    let mut rows = Vec::new();
    while let Some(row) = found.next().map_err(failed)? {
        let mut cells = Row::new();
        for (index, (name, kind)) in table.columns.iter().enumerate() {
            let cell = row.get_ref(index).map_err(failed)?;
            let value = json_value(cell, *kind).ok_or_else(|| {
                UnitError::tampered(table.name, format!("has a wrong value in column `{name}`"))
            })?;
            cells.insert((*name).to_owned(), value);
        }
        rows.push(cells);
    }
    Ok(rows)
}

fn json_value(cell: ValueRef<'_>, kind: ColumnType) -> Option<Value> {
    match (cell, kind) {
        (ValueRef::Null, _) => Some(Value::Null),
        (ValueRef::Integer(number), ColumnType::Integer) => Some(number.into()),
        (ValueRef::Text(text), ColumnType::Text) => Some(std::str::from_utf8(text).ok()?.into()),
        (ValueRef::Blob(bytes), ColumnType::Hash) => {
            Some(ContentHash(bytes.try_into().ok()?).to_string().into())
        }
        _ => None,
    }
}

/// The row of a typed value.
pub(crate) fn to_row(value: &impl Serialize) -> Row {
    match serde_json::to_value(value) {
        Ok(Value::Object(row)) => row,
        _ => Row::new(),
    }
}

/// The typed value of a row.
pub(crate) fn from_row<T: DeserializeOwned>(row: Row, table: &str) -> Result<T, UnitError> {
    serde_json::from_value(Value::Object(row))
        .map_err(|error| UnitError::tampered(table, format!("has a row that cannot be read: {error}")))
}

/// Canonical JSON of a value.
pub(crate) fn canonical_text(value: &Value) -> String {
    let mut text = String::new();
    slipway_journal::digest::canonical(value, &mut text);
    text
}
