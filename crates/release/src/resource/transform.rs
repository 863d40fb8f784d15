//! From rendered documents to objects that can be stored and applied.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};
use slipway_manifest::{depth, object};
use slipway_problem::{Problem, Problems};

use super::{Document, Origin, Stored};

/// Metadata added to every object and kept in the release.
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct ExtraMetadata {
    pub annotations: Vec<(String, String)>,
    pub labels: Vec<(String, String)>,
}

impl ExtraMetadata {
    pub fn is_empty(&self) -> bool {
        self.annotations.is_empty() && self.labels.is_empty()
    }

    pub fn add_to(&self, object: &mut Value) {
        for (key, value) in &self.annotations {
            object::set_annotation(object, key, value);
        }
        for (key, value) in &self.labels {
            object::set_label(object, key, value);
        }
    }
}

/// Expands lists, drops metadata that cannot be, removes nulls, encodes `stringData`, adds metadata. Gives
/// the objects and what the user should know or mend.
pub fn transform(
    documents: Vec<Document>,
    extra: &ExtraMetadata,
    normalise: bool,
) -> (Vec<Document>, Problems) {
    let mut problems = Problems::new();
    let mut done = Vec::with_capacity(documents.len());
    for document in documents {
        let Document { object, origin, stored } = document;
        if depth::check_depth(&object).is_err() {
            problems.push(origin.blame(&object, "", Problem::error("the object is nested too deeply")));
            continue;
        }
        let is_list = object::is_list(&object);
        for mut object in object::expand_lists(vec![object]) {
            clean_metadata(&mut object, &origin, &mut problems);
            if let Err(found) = object::check_identity(&object, None) {
                let named = object.pointer("/metadata/generateName").and_then(Value::as_str).is_some();
                for problem in found {
                    let problem = if named && problem.hint.is_none() {
                        problem.hint("`generateName` cannot be applied; give the object a name")
                    } else {
                        problem
                    };
                    problems.push(origin.blame(&object, "", problem));
                }
                continue;
            }
            if object::name(&object).is_none_or(str::is_empty) {
                let kind = object::kind(&object).unwrap_or_default();
                let problem = Problem::error(format!("this {kind} has no name"))
                    .hint("`generateName` cannot be applied; give the object a name");
                problems.push(origin.blame(&object, "", problem));
                continue;
            }
            let stored = match stored {
                Stored::Aside => Stored::Aside,
                // An item of a list is a hook if it says so itself.
                _ if is_list || stored == Stored::Regular => kind_of(&object),
                other => other,
            };
            remove_nulls(&mut object);
            encode_string_data(&mut object);
            if normalise {
                for field in super::doubles::keep_last(&mut object) {
                    let what = slipway_manifest::ObjectId::of(&object);
                    let problem =
                        Problem::warning(format!("{what}: {field} is there twice; the last counts"));
                    problems.push(origin.blame(&object, "", problem));
                }
            }
            extra.add_to(&mut object);
            done.push(Document { object, origin: origin.clone(), stored });
        }
    }
    (done, problems)
}

fn kind_of(object: &Value) -> Stored {
    if object::annotation(object, "helm.sh/hook").is_some() { Stored::Hook } else { Stored::Regular }
}

/// Annotations and labels that are not text cannot be sent.
fn clean_metadata(object: &mut Value, origin: &Origin, problems: &mut Problems) {
    for field in ["annotations", "labels"] {
        let Some(pairs) = object.pointer(&format!("/metadata/{field}")).and_then(Value::as_object) else {
            continue;
        };
        let bad: Vec<String> =
            pairs.iter().filter(|(_, value)| !value.is_string()).map(|(k, _)| k.clone()).collect();
        for key in bad {
            let value = &object["metadata"][field][&key];
            if !value.is_null() {
                let what = slipway_manifest::ObjectId::of(object);
                let problem =
                    Problem::warning(format!("{what}: {field} `{key}` is not text and is left out"))
                        .hint(format!("write `{key}: \"{value}\"`"));
                problems.push(origin.blame(object, &key, problem));
            }
            if let Some(pairs) = object["metadata"][field].as_object_mut() {
                pairs.shift_remove(&key);
            }
        }
    }
}

/// Removes nulls from maps and lists at every depth; a server rejects them or takes them for deletions.
pub fn remove_nulls(value: &mut Value) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(map) => {
                map.retain(|_, value| !value.is_null());
                pending.extend(map.values_mut());
            }
            Value::Array(items) => {
                items.retain(|item| !item.is_null());
                pending.extend(items.iter_mut());
            }
            _ => {}
        }
    }
}

/// Moves `stringData` of a Secret into `data`: keys taken out of `stringData` later would stay otherwise.
fn encode_string_data(object: &mut Value) {
    let gvk = object::gvk(object);
    if !gvk.group.is_empty() || gvk.kind != "Secret" {
        return;
    }
    let Some(Value::Object(plain)) = object.get("stringData") else { return };
    let texts: Option<Vec<(String, String)>> =
        plain.iter().map(|(key, value)| Some((key.clone(), STANDARD.encode(value.as_str()?)))).collect();
    let Some(texts) = texts else { return };
    let Some(map) = object.as_object_mut() else { return };
    if map.get("data").is_some_and(|data| !data.is_object()) {
        return;
    }
    map.shift_remove("stringData");
    let data = map.entry("data").or_insert_with(|| Value::Object(Map::new()));
    if let Some(data) = data.as_object_mut() {
        data.extend(texts.into_iter().map(|(key, text)| (key, Value::String(text))));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(object: Value) -> Document {
        Document { object, origin: Origin::new("c/templates/x.yaml"), stored: Stored::Regular }
    }

    #[test]
    fn lists_nulls_secrets_and_bad_labels_are_settled() {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a", "labels": {"ok": "x", "bad": true}},
             "stringData": {"k": "v"}, "data": {"k": "old", "other": "bw=="}, "immutable": null},
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b",
             "annotations": {"helm.sh/hook": "pre-install"}}}]});
        let extra = ExtraMetadata { annotations: vec![("team".into(), "x".into())], labels: vec![] };
        let (done, problems) = transform(vec![document(list)], &extra, false);
        assert_eq!(problems.len(), 1);
        assert!(problems.iter().any(|p| p.to_string().contains("labels `bad` is not text")), "{problems}");
        assert_eq!(done[0].object["data"], json!({"k": "dg==", "other": "bw=="}));
        assert_eq!(done[0].object["metadata"]["labels"], json!({"ok": "x"}));
        assert!(done[0].object.get("immutable").is_none() && done[0].object.get("stringData").is_none());
        assert_eq!(done[0].stored, Stored::Regular);
        assert_eq!(done[1].stored, Stored::Hook);
        assert_eq!(done[1].object["metadata"]["annotations"]["team"], "x");
    }

    #[test]
    fn every_object_without_a_name_is_a_problem() {
        let (_, problems) = transform(
            vec![
                document(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "x-"}})),
                document(json!({"kind": "Pod"})),
            ],
            &ExtraMetadata::default(),
            false,
        );
        assert!(problems.len() >= 2, "{problems}");
    }
}
