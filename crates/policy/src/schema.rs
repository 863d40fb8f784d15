//! The JSON Schema of policy files, for editors.

use serde_json::{Value, json};

use crate::read::{API_VERSION, CHECKS};

/// The schema of a policy file.
pub fn policy_schema() -> Value {
    let texts = |about: &str| json!({"type": "array", "items": {"type": "string"}, "description": about});
    let truth = |about: &str| json!({"type": "boolean", "description": about});
    let count = |about: &str| json!({"type": "integer", "minimum": 0, "description": about});
    let map = |about: &str, properties: Value| json!({"type": "object", "additionalProperties": false, "minProperties": 1, "description": about, "properties": properties});
    let one_check: Vec<Value> = CHECKS.iter().map(|key| json!({"required": [key]})).collect();
    let rule = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["id"],
        "oneOf": one_check,
        "properties": {
            "id": {"type": "string", "description": "Name of the rule in results and exceptions"},
            "forbidKinds": texts("Kinds no object may have: `Kind`, `Kind.group`, `*.group`"),
            "clusterScoped": {"const": "deny", "description": "Refuses objects of the whole cluster"},
            "images": map("Images of pods", json!({
                "requireDigest": truth("Every image has a digest"),
                "registries": texts("Patterns for `registry/repository`; one has to fit"),
                "forbidTags": texts("Patterns for tags that are refused; no tag and no digest is `latest`"),
            })),
            "changes": map("Changes of the plan", json!({
                "maxDestroy": count("Most objects the plan may destroy"),
                "forbidDestroyKinds": texts("Kinds that are neither destroyed nor replaced"),
                "forbidReplace": truth("Nothing is destroyed and created again"),
            })),
            "secrets": map("Secrets that values refer to", json!({
                "approvedProviders": texts("Patterns for names of providers; one has to fit"),
            })),
            "unit": map("Release units; refuses everything else", json!({
                "requireSignedBy": {
                    "type": "array",
                    "items": {"type": "string", "pattern": "^ed25519:.+"},
                    "description": "Keys, one of which has signed the unit",
                },
                "requireVerifiedIn": texts("Environments in which the unit was verified, all of them"),
                "maxAge": {"type": "string", "description": "Oldest unit: `14d`, `36h`"},
                "requireCleanGit": truth("The unit was made from a commit without uncommitted changes"),
            })),
            "time": map("Times at which changes may be made", json!({
                "allow": texts("Windows: `Mon-Thu 08:00-17:00 Europe/Berlin`; the zone is UTC where none is given"),
            })),
            "workloads": map("Workloads and their pods", json!({
                "requireResources": truth("Containers have requests of CPU and memory and a limit of memory"),
                "forbidPrivileged": truth("No container is privileged"),
                "minReplicas": count("Fewest replicas of Deployments, StatefulSets and ReplicaSets"),
            })),
            "cel": {"type": "string", "description": "Expression that must be true, of each object where it reads `object`"},
            "message": {"type": "string", "description": "Text shown where the expression is false"},
        },
    });
    let exception = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["rule", "until", "reason"],
        "properties": {
            "rule": {"type": "string", "description": "Id of the rule"},
            "object": {"type": "string", "description": "Pattern `Kind/namespace/name`; left out for every finding of the rule"},
            "until": {"type": "string", "format": "date", "description": "Last day it holds, in UTC; a finding it covered fails afterwards"},
            "reason": {"type": "string"},
        },
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Slipway policy file",
        "type": "object",
        "additionalProperties": false,
        "required": ["apiVersion", "rules"],
        "properties": {
            "apiVersion": {"const": API_VERSION},
            "kind": {"const": "Policy"},
            "mode": {"enum": ["enforce", "warn"], "description": "Consequence of a finding; `enforce` where left out"},
            "match": map("Targets the policy is for; a list left out fits all", json!({
                "envs": texts("Patterns for names of environments"),
                "clusters": texts("Patterns for names of clusters"),
                "namespaces": texts("Patterns for the release's namespace"),
            })),
            "rules": {"type": "array", "minItems": 1, "items": rule},
            "exceptions": {"type": "array", "items": exception},
        },
    })
}
