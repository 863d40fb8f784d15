//! One stored object: its serialised form and the few facts that lists and watches filter by.

use bytes::Bytes;
use serde_json::Value;

/// The key of an object in its table. Cluster-scoped objects have an empty namespace.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    pub namespace: Box<str>,
    pub name: Box<str>,
}

impl ObjectKey {
    pub fn new(namespace: &str, name: &str) -> ObjectKey {
        ObjectKey { namespace: namespace.into(), name: name.into() }
    }
}

/// An object at one revision. Only its text is kept: a parsed tree costs several times as much memory,
/// and lists and watches never need it.
#[derive(Debug)]
pub struct StoredObject {
    pub key: ObjectKey,
    pub rev: u64,
    pub uid: Box<str>,
    pub labels: Box<[(Box<str>, Box<str>)]>,
    /// UIDs of the objects that own this one.
    pub owners: Box<[Box<str>]>,
    pub deleting: bool,
    /// The JSON members after `kind` and `apiVersion`, up to and including the closing brace. The two
    /// leading members differ between list items, served versions and single objects.
    pub tail: Bytes,
}

impl StoredObject {
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.iter().find(|(k, _)| &**k == key).map(|(_, v)| &**v)
    }

    pub fn name(&self) -> &str {
        &self.key.name
    }

    pub fn namespace(&self) -> &str {
        &self.key.namespace
    }

    /// The members after kind and apiVersion, parsed.
    pub fn value(&self) -> Value {
        let mut text = Vec::with_capacity(self.tail.len() + 1);
        text.push(b'{');
        text.extend_from_slice(&self.tail);
        serde_json::from_slice(&text).unwrap_or(Value::Null)
    }

    /// Builds the stored form of `value` (without kind and apiVersion) at `rev`.
    pub(crate) fn build_at(key: ObjectKey, draft: &ObjectDraft, rev: u64) -> StoredObject {
        StoredObject {
            key,
            rev,
            uid: draft.uid.clone(),
            labels: draft.labels.clone(),
            owners: draft.owners.clone(),
            deleting: draft.deleting,
            tail: draft.tail.text_at(rev),
        }
    }

    pub(crate) fn from_record(key: ObjectKey, rev: u64, tail: Bytes) -> Option<StoredObject> {
        let mut object = StoredObject {
            key,
            rev,
            uid: "".into(),
            labels: Box::default(),
            owners: Box::default(),
            deleting: false,
            tail,
        };
        let facts = ObjectFacts::of(&object.value());
        (object.uid, object.labels, object.owners, object.deleting) =
            (facts.uid, facts.labels, facts.owners, facts.deleting);
        Some(object)
    }
}

struct ObjectFacts {
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    owners: Box<[Box<str>]>,
    deleting: bool,
}

impl ObjectFacts {
    fn of(value: &Value) -> ObjectFacts {
        let meta = &value["metadata"];
        let labels = meta["labels"]
            .as_object()
            .map(|m| m.iter().map(|(k, v)| (k.as_str().into(), v.as_str().unwrap_or("").into())).collect())
            .unwrap_or_default();
        let owners = meta["ownerReferences"]
            .as_array()
            .map(|refs| refs.iter().filter_map(|r| r["uid"].as_str()).map(Box::from).collect())
            .unwrap_or_default();
        ObjectFacts {
            uid: meta["uid"].as_str().unwrap_or("").into(),
            labels,
            owners,
            deleting: meta["deletionTimestamp"].is_string(),
        }
    }
}

/// An object ready to be stored: serialised outside the store's lock, lacking only its revision.
pub struct ObjectDraft {
    uid: Box<str>,
    labels: Box<[(Box<str>, Box<str>)]>,
    owners: Box<[Box<str>]>,
    deleting: bool,
    tail: SplicedText,
}

/// Text with a gap where the revision goes.
struct SplicedText {
    before: Vec<u8>,
    after: Vec<u8>,
}

/// Stands for the revision while serialising. It is not JSON, so no member can contain it.
const GAP_JSON: &[u8] = b"\x01rev\x01";

impl ObjectDraft {
    /// Returns true if `object` is an earlier or the same state of this one.
    pub(crate) fn is_of(&self, object: &StoredObject) -> bool {
        self.uid == object.uid
    }

    /// Returns true if `object` has the same content.
    pub(crate) fn is_stored_as(&self, object: &StoredObject) -> bool {
        self.tail.text_at(object.rev) == object.tail
    }

    /// Serialises `value`; its `kind`, `apiVersion` and any `metadata.resourceVersion` are replaced.
    pub fn new(value: &Value) -> ObjectDraft {
        let facts = ObjectFacts::of(value);
        let mut text = Vec::with_capacity(1024);
        let mut first = true;
        if let Value::Object(members) = value {
            for (name, member) in members {
                if name == "kind" || name == "apiVersion" {
                    continue;
                }
                if !first {
                    text.push(b',');
                }
                first = false;
                write_json(&mut text, &Value::String(name.clone()));
                text.push(b':');
                if name == "metadata" {
                    write_metadata(&mut text, member);
                } else {
                    write_json(&mut text, member);
                }
            }
        }
        text.push(b'}');
        let at = find_bytes(&text, GAP_JSON).unwrap_or(text.len());
        let after = text.get(at + GAP_JSON.len()..).unwrap_or_default().to_vec();
        text.truncate(at);
        ObjectDraft {
            uid: facts.uid,
            labels: facts.labels,
            owners: facts.owners,
            deleting: facts.deleting,
            tail: SplicedText { before: text, after },
        }
    }
}

impl SplicedText {
    fn text_at(&self, rev: u64) -> Bytes {
        let number = rev.to_string();
        let mut out = Vec::with_capacity(self.before.len() + self.after.len() + number.len() + 2);
        out.extend_from_slice(&self.before);
        out.push(b'"');
        out.extend_from_slice(number.as_bytes());
        out.push(b'"');
        out.extend_from_slice(&self.after);
        Bytes::from(out)
    }
}

fn write_json(out: &mut Vec<u8>, value: &Value) {
    // Writing to a vector cannot fail and a Value always has a JSON form.
    let _ = serde_json::to_writer(out, value);
}

/// Metadata with the gap where `resourceVersion` is, or after `uid` when there is none yet.
fn write_metadata(out: &mut Vec<u8>, meta: &Value) {
    let empty = serde_json::Map::new();
    let members = meta.as_object().unwrap_or(&empty);
    let has_version = members.contains_key("resourceVersion");
    let gap_after = if has_version { None } else { members.keys().position(|k| k == "uid") };
    let mut first = true;
    let mut write = |out: &mut Vec<u8>, name: &str, value: Option<&Value>| {
        if !std::mem::take(&mut first) {
            out.push(b',');
        }
        write_json(out, &Value::from(name));
        out.push(b':');
        match value {
            Some(value) => write_json(out, value),
            None => out.extend_from_slice(GAP_JSON),
        }
    };
    out.push(b'{');
    for (i, (name, value)) in members.iter().enumerate() {
        let value = (name != "resourceVersion").then_some(value);
        write(out, name, value);
        if gap_after == Some(i) {
            write(out, "resourceVersion", None);
        }
    }
    if !has_version && gap_after.is_none() {
        write(out, "resourceVersion", None);
    }
    out.push(b'}');
}

fn find_bytes(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|w| w == needle)
}
