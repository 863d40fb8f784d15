//! The paths of a resource in an OpenAPI document, with the parameters clients look for.

use serde_json::{Map, Value, json};
use slipway_manifest::object::join_api_version;

use super::schemas::{SchemaCollector, custom_name};
use crate::api::resource::ServedResource;

pub(super) fn add_paths(
    served: &ServedResource,
    paths: &mut Map<String, Value>,
    schemas: &mut SchemaCollector,
) {
    let def = &served.def;
    let base = if def.group.is_empty() {
        format!("/api/{}", def.version)
    } else {
        format!("/apis/{}", join_api_version(&def.group, &def.version))
    };
    let gvk = json!({"group": def.group, "kind": def.kind, "version": def.version});
    let query =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let reference = match &served.custom {
        Some(_) => json!({"$ref": format!("{}{}", schemas.prefix, custom_name(served, &def.kind))}),
        None => schemas.named_reference(served.type_ref(), None),
    };
    let operation = |action: &str, parameters: Vec<Value>, body: Option<&[&str]>| {
        let ok = json!({"description": "OK", "content": {"application/json": {"schema": reference}}});
        let mut out = json!({
            "responses": {"200": ok},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": gvk,
        });
        if !parameters.is_empty() {
            out["parameters"] = json!(parameters);
        }
        if let Some(types) = body {
            let content: Map<String, Value> =
                types.iter().map(|t| ((*t).to_owned(), json!({"schema": reference}))).collect();
            out["requestBody"] = json!({"content": content});
        }
        out
    };
    let writing = || vec![query("dryRun"), query("fieldManager"), query("fieldValidation")];
    let mut collection = Map::new();
    let mut item = Map::new();
    for verb in &def.verbs {
        match verb.as_str() {
            "list" => {
                collection.insert("get".into(), operation("list", vec![query("labelSelector")], None));
            }
            "create" => {
                collection.insert("post".into(), operation("post", writing(), Some(&["*/*"])));
            }
            "deletecollection" => {
                collection
                    .insert("delete".into(), operation("deletecollection", vec![query("dryRun")], None));
            }
            "get" => {
                item.insert("get".into(), operation("get", vec![], None));
            }
            "update" => {
                item.insert("put".into(), operation("put", writing(), Some(&["*/*"])));
            }
            "patch" => {
                let mut types = vec![
                    "application/apply-patch+yaml",
                    "application/json-patch+json",
                    "application/merge-patch+json",
                ];
                if served.custom.is_none() {
                    types.push("application/strategic-merge-patch+json");
                }
                let mut parameters = writing();
                parameters.push(query("force"));
                item.insert("patch".into(), operation("patch", parameters, Some(&types)));
            }
            "delete" => {
                item.insert("delete".into(), operation("delete", vec![query("dryRun")], None));
            }
            _ => {}
        }
    }
    let place = if def.namespaced { format!("{base}/namespaces/{{namespace}}") } else { base.clone() };
    if !collection.is_empty() {
        if def.namespaced
            && let Some(list) = collection.get("get")
        {
            paths.insert(format!("{base}/{}", def.plural), json!({"get": list}));
        }
        paths.insert(format!("{place}/{}", def.plural), Value::Object(collection));
    }
    if !item.is_empty() {
        paths.insert(format!("{place}/{}/{{name}}", def.plural), Value::Object(item));
    }
}
