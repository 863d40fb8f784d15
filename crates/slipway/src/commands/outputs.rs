//! The JSON Schema of what commands print with `-o json`, a definition a form.

use serde_json::{Value, json};

fn object(required: &[&str], properties: Value) -> Value {
    json!({"type": "object", "additionalProperties": false, "required": required, "properties": properties})
}

fn list(items: Value) -> Value {
    json!({"type": "array", "items": items})
}

/// The schema: `$defs` has a definition for each form, with the commands that print it.
pub fn output_schema() -> Value {
    let text = json!({"type": "string"});
    let texts = list(text.clone());
    let truth = json!({"type": "boolean"});
    let count = json!({"type": "integer", "minimum": 0});
    let about = |mut schema: Value, commands: &str| {
        schema["description"] = format!("Printed by {commands}").into();
        schema
    };
    let change = object(
        &["action", "object", "apiVersion", "kind", "name", "stage", "insignificant", "fields"],
        json!({
            "action": {"enum": ["create", "recreate", "update", "apply", "delete"]},
            "object": text, "apiVersion": text, "kind": text, "namespace": text, "name": text, "stage": text,
            "weight": {"type": "integer"}, "hook": truth, "then": texts, "reason": text, "insignificant": truth,
            "fields": texts, "lines": texts,
        }),
    );
    let kept = object(
        &["object", "kept"],
        json!({"object": text, "kept": {"enum": ["policy", "owner"]}, "by": text}),
    );
    let plan = object(
        &["release", "namespace", "moment", "revision", "empty", "changes", "summary"],
        json!({
            "release": text, "namespace": text,
            "moment": {"enum": ["install", "upgrade", "rollback", "delete", "test"]},
            "revision": count, "empty": truth, "reason": text,
            "changes": list(json!({"$ref": "#/$defs/change"})),
            "kept": list(kept.clone()), "warnings": texts,
            "summary": list(json!({
                "type": "array", "minItems": 2, "maxItems": 2, "prefixItems": [{"type": "string"}, {"type": "integer", "minimum": 1}],
            })),
            "policy": {"type": "object"},
        }),
    );
    let requests = object(
        &["total", "dryRun", "repeated", "byVerb"],
        json!({
            "total": count, "dryRun": count, "repeated": count,
            "byVerb": {
                "type": "object", "additionalProperties": {"type": "integer", "minimum": 1},
                "propertyNames": {"enum": ["get", "list", "watch", "create", "apply", "patch", "replace", "delete", "log", "discover"]},
            },
        }),
    );
    let report = object(
        &[
            "version",
            "release",
            "namespace",
            "revision",
            "status",
            "completedOperations",
            "canceledOperations",
            "failedOperations",
            "requests",
        ],
        json!({
            "version": {"const": 3}, "release": text, "namespace": text, "revision": count,
            "status": {"enum": ["deployed", "failed", "skipped", "uninstalled", "tested"]},
            "completedOperations": texts, "canceledOperations": texts, "failedOperations": texts, "notes": text,
            "rollback": {"$ref": "#/$defs/report"}, "kept": list(kept), "requests": {"$ref": "#/$defs/requests"},
        }),
    );
    let release = object(
        &["name", "namespace", "revision", "updated", "status", "chart", "app_version", "description"],
        json!({
            "name": text, "namespace": text, "revision": count, "updated": text, "status": text, "chart": text,
            "app_version": text, "description": text,
        }),
    );
    let status = json!({
        "type": "object",
        "required": ["name", "namespace", "revision", "status", "updated", "description", "chart", "notes"],
        "properties": {
            "name": text, "namespace": text, "revision": count, "status": text, "updated": text, "description": text,
            "chart": text, "notes": text,
            "objects": list(json!({"type": "object", "required": ["apiVersion", "kind", "name"]})),
        },
    });
    let metadata = object(
        &[
            "name",
            "namespace",
            "revision",
            "status",
            "deployedAt",
            "chart",
            "version",
            "appVersion",
            "applyMethod",
            "labels",
            "annotations",
        ],
        json!({
            "name": text, "namespace": text, "revision": count, "status": text, "deployedAt": text, "chart": text, "version": text,
            "appVersion": text, "applyMethod": text, "labels": {"type": "object"}, "annotations": {"type": "object"},
        }),
    );
    let finding =
        object(&["severity", "file", "message"], json!({"severity": text, "file": text, "message": text}));
    let lint = object(
        &["chart", "failed", "failure", "findings"],
        json!({"chart": text, "failed": truth, "failure": {"type": ["string", "null"]}, "findings": list(finding)}),
    );
    let setting =
        object(&["setting", "value", "from"], json!({"setting": text, "value": text, "from": text}));
    let node = object(&["id", "needs"], json!({"id": text, "needs": texts}));
    let validation = json!({
        "type": "object",
        "required": ["file", "valid", "errors", "warnings"],
        "properties": {"file": text, "valid": truth, "errors": {"type": "array"}, "warnings": {"type": "array"}},
    });
    let sandbox = json!({"type": "object", "required": ["running"], "properties": {"running": truth}});
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What commands of slipway print with -o json",
        "$defs": {
            "plan": about(plan, "`plan` and `apply --dry-run`"),
            "change": change,
            "changes": about(list(json!({"$ref": "#/$defs/change"})), "`diff`"),
            "report": about(report, "`apply`, `rollback`, `delete`, `test` and in --save-report-to"),
            "requests": requests,
            "releases": about(list(release), "`list` and `history`"),
            "status": about(status, "`status`"),
            "metadata": about(metadata, "`get metadata`"),
            "lint": about(list(lint), "`lint`"),
            "settings": about(list(setting), "`config`"),
            "waves": about(object(&["waves"], json!({"waves": list(list(node))})), "`graph`"),
            "validation": about(validation, "`run validate`"),
            "sandbox": about(sandbox, "`sandbox status`"),
        },
    })
}
