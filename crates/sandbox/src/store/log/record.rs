//! One write as it is kept: the object after it, and where it lives.

use std::borrow::Cow;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::store::{ChangeType, ObjectKey, StoredObject};

/// The payload of a record that changes nothing: it only finds out whether the disk takes writes.
pub(super) const PROBE: &[u8] = b"null";

#[derive(Serialize, Deserialize)]
struct RecordLine<'a> {
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
pub(in crate::store) struct LogRecord {
    pub table: String,
    pub key: ObjectKey,
    pub rev: u64,
    /// `None` for a line of the snapshot.
    pub change: Option<ChangeType>,
    pub tail: Bytes,
    /// The snapshot's revision.
    pub floor: u64,
}

/// Writes a record's payload. `None` says that the object is part of a snapshot.
pub(super) fn encode_record(table: &str, change: Option<ChangeType>, object: &StoredObject) -> Vec<u8> {
    let mut whole = String::with_capacity(object.tail.len() + 1);
    whole.push('{');
    whole.push_str(std::str::from_utf8(&object.tail).unwrap_or("}"));
    let Ok(raw) = RawValue::from_string(whole) else { return PROBE.to_vec() };
    let line = RecordLine {
        table: table.into(),
        namespace: (&*object.key.namespace).into(),
        name: (&*object.key.name).into(),
        rev: object.rev,
        change: match change {
            Some(ChangeType::Added) => 'a',
            Some(ChangeType::Modified) => 'm',
            Some(ChangeType::Deleted) => 'd',
            None => 's',
        },
        object: &raw,
    };
    serde_json::to_vec(&line).unwrap_or_else(|_| PROBE.to_vec())
}

pub(super) fn decode_record(payload: &[u8], floor: u64) -> Option<LogRecord> {
    let line: RecordLine<'_> = serde_json::from_slice(payload).ok()?;
    let change = match line.change {
        'a' => Some(ChangeType::Added),
        'm' => Some(ChangeType::Modified),
        'd' => Some(ChangeType::Deleted),
        _ => None,
    };
    Some(LogRecord {
        table: line.table.into_owned(),
        key: ObjectKey::new(&line.namespace, &line.name),
        rev: line.rev,
        change,
        // The object is kept whole in the record; its tail starts after the brace.
        tail: Bytes::copy_from_slice(line.object.get().as_bytes().get(1..)?),
        floor,
    })
}
