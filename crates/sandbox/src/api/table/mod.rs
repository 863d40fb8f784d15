//! Server-side tables and partial metadata: what `kubectl get` prints.

mod cells;

use std::collections::HashMap;
use std::sync::OnceLock;

use serde_json::{Value, json};

use crate::api::resource::ServedResource;
use crate::core::Core;

static COLUMNS: &str = include_str!("../../../data/tables.json");

/// Column definitions of built-in resources, by `apiVersion resource`.
fn built_in_columns() -> &'static HashMap<String, Vec<Value>> {
    static PARSED: OnceLock<HashMap<String, Vec<Value>>> = OnceLock::new();
    PARSED.get_or_init(|| {
        // Name, type, format, priority, description.
        type Row = (String, String, String, i64, String);
        let raw: HashMap<String, Vec<Row>> = serde_json::from_str(COLUMNS).unwrap_or_default();
        raw.into_iter()
            .map(|(key, columns)| {
                let columns = columns
                    .into_iter()
                    .map(|(name, kind, format, priority, description)| {
                        json!({
                            "name": name, "type": kind, "format": format, "description": description,
                            "priority": priority,
                        })
                    })
                    .collect();
                (key, columns)
            })
            .collect()
    })
}

const NAME_TEXT: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const AGE_TEXT: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

fn column_definitions(served: &ServedResource) -> Vec<Value> {
    if let Some(custom) = &served.custom {
        let mut out = vec![json!({
            "name": "Name", "type": "string", "format": "name", "description": NAME_TEXT, "priority": 0,
        })];
        for column in &custom.columns {
            let path = column["jsonPath"].as_str().unwrap_or("");
            let text = column["description"].as_str().filter(|d| !d.is_empty()).map_or_else(
                || format!("Custom resource definition column (in JSONPath format): {path}"),
                str::to_owned,
            );
            out.push(json!({
                "name": column["name"], "type": column["type"],
                "format": column["format"].as_str().unwrap_or(""),
                "description": text, "priority": column["priority"].as_i64().unwrap_or(0),
            }));
        }
        if custom.columns.is_empty() {
            out.push(json!({
                "name": "Age", "type": "date", "format": "", "description": AGE_TEXT, "priority": 0,
            }));
        }
        return out;
    }
    built_in_columns().get(&format!("{} {}", served.api_version(), served.def.plural)).cloned().unwrap_or_else(|| {
        vec![
            json!({"name": "Name", "type": "string", "format": "name", "description": NAME_TEXT, "priority": 0}),
            json!({"name": "Created At", "type": "date", "format": "", "description": AGE_TEXT, "priority": 0}),
        ]
    })
}

/// A table of one scale.
pub(crate) fn scale_table(core: &Core, scale: Value, include: &str, beta: bool) -> Value {
    let column = |name: &str, kind: &str, text: &str| json!({"name": name, "type": kind, "format": "", "description": text, "priority": 0});
    let metadata = &scale["metadata"];
    let replicas = |part: &str| scale[part]["replicas"].as_i64().unwrap_or(0);
    let age = cells::age_since(&metadata["creationTimestamp"], core.clock.now());
    let cells = json!([metadata["name"], replicas("spec"), replicas("status"), age]);
    let version = json!({"resourceVersion": metadata["resourceVersion"]});
    let shown = match include {
        "None" => Value::Null,
        "Object" => scale,
        _ => partial_metadata(scale, beta),
    };
    let desired = "replicas is the desired number of instances for the scaled object.";
    let actual = "replicas is the actual number of observed instances of the scaled object.";
    json!({
        "kind": "Table",
        "apiVersion": if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" },
        "metadata": version,
        "columnDefinitions": [
            column("Name", "string", NAME_TEXT),
            column("Desired", "integer", desired),
            column("Available", "integer", actual),
            column("Age", "string", AGE_TEXT),
        ],
        "rows": [{"cells": cells, "object": shown}],
    })
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial_metadata(mut value: Value, beta: bool) -> Value {
    if value["kind"] == "DaemonSet"
        && let Some(Value::Object(annotations)) = value.pointer_mut("/metadata/annotations")
    {
        // Made when the whole object is printed; metadata alone does not have it.
        annotations.shift_remove("deprecated.daemonset.template.generation");
        if annotations.is_empty() {
            crate::write::admit::meta::metadata_mut(&mut value).shift_remove("annotations");
        }
    }
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" },
        "metadata": value["metadata"].take(),
    })
}

/// A table of objects.
pub(crate) fn object_table(
    core: &Core,
    served: &ServedResource,
    objects: Vec<Value>,
    include: &str,
    beta: bool,
    version: Value,
) -> Value {
    let definitions = column_definitions(served);
    let now = core.clock.now();
    let rows: Vec<Value> = objects
        .into_iter()
        .map(|object| {
            let cells = match &served.custom {
                Some(custom) => cells::custom_row(custom, &object, now),
                // The older version of an autoscaler has no room for most of what it shows.
                None if &*served.table == "horizontalpodautoscalers.autoscaling" => {
                    let stored = crate::write::convert::to_storage(served, object.clone());
                    cells::built_in_row(&served.table, &stored, now, definitions.len())
                }
                None => cells::built_in_row(&served.table, &object, now, definitions.len()),
            };
            let conditions = cells::row_conditions(&served.table, &object);
            let shown = match include {
                "None" => Value::Null,
                "Object" => object,
                _ => partial_metadata(object, beta),
            };
            match conditions {
                Some(conditions) => json!({"cells": cells, "conditions": conditions, "object": shown}),
                None => json!({"cells": cells, "object": shown}),
            }
        })
        .collect();
    let mut metadata = json!({});
    if version.is_string() {
        metadata["resourceVersion"] = version;
    }
    json!({
        "kind": "Table",
        "apiVersion": if beta { "meta.k8s.io/v1beta1" } else { "meta.k8s.io/v1" },
        "metadata": metadata,
        "columnDefinitions": definitions,
        "rows": rows,
    })
}
