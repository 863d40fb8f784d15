//! The definitions of both kinds, as a cluster installs them.

use serde_json::{Value, json};

use crate::api::{ApiGroup, VERSION};

/// The most nodes the definition admits.
const MOST_NODES: u32 = 1000;
const STATES: [&str; 9] =
    ["Ready", "NotReady", "Pending", "Held", "Excluded", "Blocked", "Conflict", "Error", "SystemError"];

/// The definitions of Graph and GraphRevision in a group.
pub fn definitions(group: ApiGroup) -> Vec<Value> {
    let columns = json!([
        {"name": "Ready", "type": "string", "jsonPath": r#".status.conditions[?(@.type=="Ready")].status"#},
        {"name": "Compiled", "type": "string", "jsonPath": r#".status.conditions[?(@.type=="Compiled")].status"#},
        {"name": "Message", "type": "string", "priority": 1,
         "jsonPath": r#".status.conditions[?(@.type=="Ready")].message"#},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let revision_columns = json!([
        {"name": "Generation", "type": "string", "jsonPath": r".metadata.labels.internal\.kro\.run/graph-generation"},
        {"name": "Ready", "type": "string", "jsonPath": r#".status.conditions[?(@.type=="Ready")].status"#},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    let spec = json!({
        "type": "object",
        "description": "The nodes of the Graph and how they depend on each other.",
        "required": ["nodes"],
        "properties": {"nodes": nodes()},
    });
    let mut frozen = spec.clone();
    frozen["description"] = "A spec of the Graph as it was carried out.".into();
    frozen["x-kubernetes-validations"] =
        json!([{"rule": "self == oldSelf", "message": "a revision does not change"}]);
    let status = json!({
        "type": "object",
        "properties": {
            "observedGeneration": {"type": "integer", "format": "int64"},
            "conditions": conditions_schema(),
            "topologicalOrder": {"type": "array", "items": {"type": "string"}},
            "nodes": {"type": "array", "items": node_status()},
        },
    });
    let frozen_status = json!({"type": "object", "properties": {"conditions": conditions_schema()}});
    let group = group.name();
    let frame = |kind, plural| DefinitionFrame { group, version: VERSION, kind, plural, scope: "Namespaced" };
    vec![
        frame("Graph", "graphs").definition(&spec, &status, &columns),
        frame("GraphRevision", "graphrevisions").definition(&frozen, &frozen_status, &revision_columns),
    ]
}

/// What a definition says of a kind besides its schemas.
#[derive(Clone, Copy, Debug)]
pub struct DefinitionFrame<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    /// `Namespaced` or `Cluster`.
    pub scope: &'a str,
}

impl DefinitionFrame<'_> {
    /// The definition of a kind with one version and a status that is written apart.
    pub fn definition(&self, spec: &Value, status: &Value, columns: &Value) -> Value {
        let Self { group, version, kind, plural, scope } = self;
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group,
                "scope": scope,
                "names": {
                    "kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase(),
                },
                "versions": [{
                    "name": version, "served": true, "storage": true,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "apiVersion": {"type": "string"},
                            "kind": {"type": "string"},
                            "metadata": {"type": "object"},
                            "spec": spec,
                            "status": status,
                        },
                    }},
                }],
            },
        })
    }
}

fn nodes() -> Value {
    let body = |text: &str| json!({"type": "object", "description": text, "x-kubernetes-preserve-unknown-fields": true});
    let clauses = |text: &str| json!({"type": "array", "description": text, "maxItems": 32, "items": {"type": "string", "maxLength": 4096}});
    let count =
        ["template", "patch", "ref", "watch", "def"].map(|body| format!("(has(self.{body}) ? 1 : 0)"));
    let rule = |rule: String, message: &str| json!({"rule": rule, "message": message});
    json!({
        "type": "array",
        "maxItems": MOST_NODES,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["id"],
        "items": {
            "type": "object",
            "required": ["id"],
            "properties": {
                "id": {
                    "type": "string", "pattern": "^[a-zA-Z][a-zA-Z0-9]*$", "maxLength": 63,
                    "description": "The name other nodes read it by; unique whatever its case.",
                },
                "template": body("An object the Graph owns."),
                "patch": body("Fields of an object somebody else owns."),
                "ref": body("An object that is only read."),
                "watch": body("Objects that are only read, by selector."),
                "def": body("Values without an object."),
                "forEach": {
                    "description": "The collections the node is repeated for: a variable with its list, or several.",
                    "x-kubernetes-preserve-unknown-fields": true,
                },
                "finalizes": {"type": "string", "description": "The node this one is created for before that is removed."},
                "includeWhen": clauses("The node is left out unless all of these hold."),
                "readyWhen": clauses("The node is ready when all of these hold; dependents do not wait for it."),
                "propagateWhen": clauses("The node's data, or the node itself, is held back unless all of these hold."),
                "lifecycle": {
                    "type": "object",
                    "properties": {"apply": {"type": "string", "enum": ["Force"]}},
                },
                "dependsOn": {"type": "array", "items": {"type": "string"}, "description": "Nodes to come after."},
                "recheckAfter": {"type": "string", "description": "How often conditions are looked at again."},
            },
            "x-kubernetes-validations": [
                rule(format!("{} == 1", count.join(" + ")), "exactly one of template, patch, ref, watch and def"),
                rule("!has(self.lifecycle) || has(self.template)".to_owned(), "lifecycle belongs to template"),
                rule("!has(self.finalizes) || self.finalizes != self.id".to_owned(), "a node cannot finalize itself"),
            ],
        },
    })
}

/// The schema of a list of conditions.
pub fn conditions_schema() -> Value {
    json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "required": ["type", "status", "reason", "lastTransitionTime"],
            "properties": {
                "type": {"type": "string"},
                "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "observedGeneration": {"type": "integer", "format": "int64"},
                "lastTransitionTime": {"type": "string", "format": "date-time"},
            },
        },
    })
}

fn node_status() -> Value {
    json!({
        "type": "object",
        "required": ["id", "state"],
        "properties": {
            "id": {"type": "string"},
            "state": {"type": "string", "enum": STATES},
            "reason": {"type": "string"},
            "message": {"type": "string"},
            "since": {"type": "string"},
            "resource": {
                "type": "object",
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "namespace": {"type": "string"},
                    "name": {"type": "string"},
                },
            },
        },
    })
}
