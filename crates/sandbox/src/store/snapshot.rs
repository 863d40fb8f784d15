//! A whole sandbox as one file: JSON lines, a header and then an object each.

use std::io::{self, BufRead, Write};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Key, Object, Store};

#[derive(Serialize, Deserialize)]
struct Header {
    format: String,
    revision: u64,
}

#[derive(Serialize, Deserialize)]
struct Line {
    resource: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
    revision: u64,
    object: Box<RawValue>,
}

const FORMAT: &str = "slipway-sandbox/v1";

/// Writes every object of the store.
pub(crate) fn write(store: &Store, out: &mut dyn Write) -> io::Result<()> {
    let (revision, objects) = store.dump();
    serde_json::to_writer(&mut *out, &Header { format: FORMAT.into(), revision })?;
    out.write_all(b"\n")?;
    for (table, object) in objects {
        let mut text = String::with_capacity(object.tail.len() + 1);
        text.push('{');
        text.push_str(std::str::from_utf8(&object.tail).map_err(io::Error::other)?);
        let line = Line {
            resource: table.to_string(),
            namespace: object.namespace().into(),
            name: object.name().into(),
            revision: object.rev,
            object: RawValue::from_string(text)?,
        };
        serde_json::to_writer(&mut *out, &line)?;
        out.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads what [`write`] wrote: the revision and each object with its table.
pub(crate) fn read(input: &mut dyn BufRead) -> io::Result<(u64, Vec<(String, Object)>)> {
    let mut text = String::new();
    input.read_line(&mut text)?;
    let header: Header = serde_json::from_str(&text)?;
    if header.format != FORMAT {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the file says it is `{}`; expected `{FORMAT}`", header.format),
        ));
    }
    let mut objects = Vec::new();
    for line in input.lines() {
        let line: Line = serde_json::from_str(&line?)?;
        let tail = Bytes::copy_from_slice(line.object.get().as_bytes().get(1..).unwrap_or_default());
        let key = Key::new(&line.namespace, &line.name);
        if let Some(object) = Object::restore(key, line.revision, tail) {
            objects.push((line.resource, object));
        }
    }
    Ok((header.revision, objects))
}
