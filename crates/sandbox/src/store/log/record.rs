//! One write as it is kept: the object after it, and where it lives.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::store::{Change, Key, Object};

/// The payload of a record that changes nothing: it only finds out whether the disk takes writes.
pub(super) const PROBE: &[u8] = b"null";

#[derive(Serialize, Deserialize)]
struct Line<'a> {
    #[serde(rename = "t")]
    table: Cow<'a, str>,
    #[serde(rename = "n")]
    namespace: Cow<'a, str>,
    #[serde(rename = "m")]
    name: Cow<'a, str>,
    #[serde(rename = "r")]
    rev: u64,
    /// `a`dded, `m`odified, `d`eleted, `s`napshot.
    #[serde(rename = "c")]
    change: char,
    #[serde(rename = "o", borrow)]
    object: &'a RawValue,
}

/// One record read back.
pub(in crate::store) struct Record {
    pub table: String,
    pub key: Key,
    pub rev: u64,
    /// `None` for a line of the snapshot.
    pub change: Option<Change>,
    pub tail: Bytes,
    /// The snapshot's revision.
    pub floor: u64,
}

/// Writes a record's payload. `None` says that the object is part of a snapshot.
pub(super) fn encode(table: &str, change: Option<Change>, object: &Object) -> Vec<u8> {
    let mut whole = String::with_capacity(object.tail.len() + 1);
    whole.push('{');
    whole.push_str(std::str::from_utf8(&object.tail).unwrap_or("}"));
    let Ok(raw) = RawValue::from_string(whole) else { return PROBE.to_vec() };
    let line = Line {
        table: table.into(),
        namespace: (&*object.key.namespace).into(),
        name: (&*object.key.name).into(),
        rev: object.rev,
        change: match change {
            Some(Change::Added) => 'a',
            Some(Change::Modified) => 'm',
            Some(Change::Deleted) => 'd',
            None => 's',
        },
        object: &raw,
    };
    serde_json::to_vec(&line).unwrap_or_else(|_| PROBE.to_vec())
}

pub(super) fn decode(payload: &[u8], floor: u64) -> Option<Record> {
    let line: Line<'_> = serde_json::from_slice(payload).ok()?;
    let change = match line.change {
        'a' => Some(Change::Added),
        'm' => Some(Change::Modified),
        'd' => Some(Change::Deleted),
        _ => None,
    };
    Some(Record {
        table: line.table.into_owned(),
        key: Key::new(&line.namespace, &line.name),
        rev: line.rev,
        change,
        // The object is kept whole in the record; its tail starts after the brace.
        tail: Bytes::copy_from_slice(line.object.get().as_bytes().get(1..)?),
        floor,
    })
}
