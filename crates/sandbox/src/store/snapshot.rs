//! A whole sandbox as a value, and as one file: JSON lines, a header and then an object each.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ObjectKey, PlacedObject, Store, StoredObject};

#[derive(Serialize, Deserialize)]
struct SnapshotHeader {
    format: String,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
struct SnapshotLine {
    resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    revision: u64,
    object: Box<RawValue>,
}

const FORMAT: &str = "slipway-sandbox/v1";

/// Every object of a sandbox at one moment. Cheap to take: objects are shared, not copied.
#[derive(Clone, Default)]
pub struct Snapshot {
    pub(crate) revision: u64,
    pub(crate) objects: Vec<PlacedObject>,
}

impl Snapshot {
    pub(crate) fn of(store: &Store) -> Snapshot {
        let (revision, objects) = store.all_objects();
        Snapshot { revision, objects }
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Writes it as a file that [`Snapshot::read`] understands.
    pub fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        serde_json::to_writer(&mut *out, &SnapshotHeader { format: FORMAT.into(), revision: self.revision })?;
        out.write_all(b"\n")?;
        for (table, object) in &self.objects {
            let mut text = String::with_capacity(object.tail.len() + 1);
            text.push('{');
            text.push_str(std::str::from_utf8(&object.tail).map_err(io::Error::other)?);
            let line = SnapshotLine {
                resource: table.to_string(),
                namespace: object.namespace().into(),
                name: object.name().into(),
                revision: object.rev,
                object: RawValue::from_string(text)?,
            };
            if object.uid.is_empty() {
                let what = format!("{table} {}/{} has no metadata.uid", object.namespace(), object.name());
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            serde_json::to_writer(&mut *out, &line)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Reads what [`Snapshot::write`] wrote. A wrong line is named by its number.
    pub fn read(input: &mut dyn BufRead) -> io::Result<Snapshot> {
        let wrong = |number: usize, why: &dyn std::fmt::Display| {
            io::Error::new(io::ErrorKind::InvalidData, format!("line {number}: {why}"))
        };
        let mut text = String::new();
        input.read_line(&mut text)?;
        let header: SnapshotHeader = serde_json::from_str(&text)
            .map_err(|_| wrong(1, &"this is no snapshot of a sandbox; `slipway sandbox save` writes one"))?;
        if header.format != FORMAT {
            return Err(wrong(1, &format!("the format is `{}`; expected `{FORMAT}`", header.format)));
        }
        let mut snapshot = Snapshot { revision: header.revision, objects: Vec::new() };
        for (index, line) in input.lines().enumerate() {
            let (number, line) = (index + 2, line?);
            if line.is_empty() {
                continue;
            }
            let line: SnapshotLine = serde_json::from_str(&line).map_err(|e| wrong(number, &e))?;
            let object = line.object.get();
            let Some(tail) = object.strip_prefix('{') else {
                return Err(wrong(number, &"the object is not a JSON object"));
            };
            let key = ObjectKey::new(&line.namespace, &line.name);
            let restored =
                StoredObject::from_record(key, line.revision, Bytes::copy_from_slice(tail.as_bytes()));
            let Some(object) = restored.filter(|o| !o.uid.is_empty()) else {
                return Err(wrong(number, &"the object has no metadata.uid"));
            };
            snapshot.objects.push((line.resource.into(), Arc::new(object)));
        }
        Ok(snapshot)
    }
}
