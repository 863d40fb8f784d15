//! One object, or all of them, as YAML or JSON.

use serde_json::{Map, Value as Json, json};
use slipway_yaml::{KeyOrder, YamlEmitter};

use crate::build::Build;

const TOP: [&str; 8] = ["apiVersion", "kind", "metadata", "spec", "data", "stringData", "binaryData", "type"];
const METADATA: [&str; 4] = ["name", "namespace", "labels", "annotations"];

/// Options of writing objects.
#[derive(Clone, Copy, Debug, Default)]
pub struct Emit {
    /// Sort all keys instead of keeping their order.
    pub sort_keys: bool,
}

/// The object with its top-level keys and its metadata in the usual order.
pub(crate) fn ordered(object: &Json) -> Json {
    let Json::Object(map) = object else { return object.clone() };
    let mut out = Map::with_capacity(map.len());
    for key in TOP {
        if let Some(value) = map.get(key) {
            out.insert(key.to_owned(), value.clone());
        }
    }
    let mut rest: Vec<&String> =
        map.keys().filter(|key| !TOP.contains(&key.as_str()) && *key != "status").collect();
    rest.sort();
    for key in rest {
        out.insert(key.clone(), map[key].clone());
    }
    if let Some(status) = map.get("status") {
        out.insert("status".to_owned(), status.clone());
    }
    if let Some(Json::Object(metadata)) = out.get_mut("metadata") {
        let mut sorted = Map::with_capacity(metadata.len());
        for key in METADATA {
            if let Some(value) = metadata.get(key) {
                sorted.insert(key.to_owned(), value.clone());
            }
        }
        for (key, value) in metadata.iter().filter(|(key, _)| !METADATA.contains(&key.as_str())) {
            sorted.insert(key.clone(), value.clone());
        }
        *metadata = sorted;
    }
    Json::Object(out)
}

impl Emit {
    /// Appends one document.
    pub(crate) fn object(self, object: &Json, out: &mut String) {
        let emitter = YamlEmitter::manifest();
        let emitter = if self.sort_keys { emitter.order(KeyOrder::Bytes) } else { emitter };
        // Only a value nested beyond all limits of the readers could fail.
        let _ = emitter.emit_into(&ordered(object), out);
    }

    /// Several documents with `---` between them.
    pub(crate) fn stream<'j>(self, objects: impl IntoIterator<Item = &'j Json>) -> String {
        let mut out = String::new();
        for object in objects {
            if !out.is_empty() {
                out.push_str("---\n");
            }
            self.object(object, &mut out);
        }
        out
    }
}

impl Build {
    /// All objects as one YAML stream.
    pub fn stream(&self, emit: Emit) -> String {
        emit.stream(self.objects.iter().map(|object| &*object.value))
    }

    /// All objects as a JSON `List`.
    pub fn json_list(&self) -> String {
        let items: Vec<Json> = self.objects.iter().map(|object| ordered(&object.value)).collect();
        let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
        let mut text = serde_json::to_string_pretty(&list).unwrap_or_default();
        text.push('\n');
        text
    }
}
