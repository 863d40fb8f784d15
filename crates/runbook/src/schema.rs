//! The JSON Schema editors use. It describes files as they are written, so a reference may stand wherever
//! a value goes.

use serde_json::{Map, Value, json};

use crate::steps::STEP_TYPES;

/// The schema of a document.
pub fn schema() -> Value {
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://khook.io/schema/v1/khook.json",
        "title": "Khook",
        "$ref": "#/$defs/Document",
        "$defs": {
            "BoolOrRef": or_reference(json!({ "type": "boolean" })),
            "Defaults": object(&[], knobs()),
            "Document": document(),
            "DurationOrRef": or_reference(json!({ "type": "string", "pattern": DURATION })),
            "PositiveDurationOrRef": or_reference(json!({
                "type": "string", "pattern": DURATION, "not": { "pattern": "^\\+?(0|[.0nuµμmsh])*$" },
            })),
            "HelmAuth": object(&["username", "password"], vec![
                ("username", filled("The user's name.")),
                ("password", filled("The password or token; pass it as a variable.")),
            ]),
            "IntOrRef": or_reference(json!({ "type": "integer", "minimum": 0 })),
            "ManifestSource": with(object(&[], vec![
                ("inline", filled("The manifests themselves, as YAML text.")),
                ("file", filled("A file beside the document.")),
                ("url", like("An HTTP(S) URL.", ADDRESS)),
                ("kustomize", like("A local kustomization directory.", PATH)),
            ]), "oneOf", one_of(&["inline", "file", "url", "kustomize"])),
            "Metadata": object(&["name"], vec![("name", filled("The name of the document and of its record."))]),
            "Reference": { "type": "string", "pattern": "\\$\\{[A-Za-z_]" },
            "State": object(&[], vec![
                ("enabled", described("BoolOrRef", "Whether a record is kept.")),
                ("namespace", like("The namespace of the record.", LABEL)),
                ("name", at_most(253, like("The name of the record.", SUBDOMAIN_OR_NONE))),
                ("ignoreAuth", described("BoolOrRef", "Whether rotated credentials leave a step unchanged.")),
            ]),
            "Step": step(),
            "ValuesSource": with(object(&[], vec![
                ("file", filled("A file beside the document.")),
                ("url", like("An HTTP(S) URL.", ADDRESS)),
            ]), "oneOf", one_of(&["file", "url"])),
        },
    });
    if let Some(definitions) = schema["$defs"].as_object_mut() {
        for kind in STEP_TYPES {
            definitions.insert(kind.definition.to_owned(), (kind.schema)());
        }
        definitions.sort_keys();
    }
    schema
}

/// Go's notation of durations, without a sign that is negative.
pub(crate) const DURATION: &str = "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
/// A DNS label.
pub(crate) const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
/// The same where a field that is empty counts as absent.
pub(crate) const LABEL_OR_NONE: &str = "^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$";
pub(crate) const SUBDOMAIN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$";
pub(crate) const SUBDOMAIN_OR_NONE: &str =
    "^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$";
pub(crate) const ENDS_A_SUBDOMAIN: &str = "^[a-z0-9-]*[a-z0-9](\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$";
pub(crate) const ADDRESS: &str = "^https?://.";
pub(crate) const ADDRESS_OR_NONE: &str = "^(https?://.+)?$";
/// A name with or without a version, an OCI reference with a host and a repository, or a path.
pub(crate) const CHART: &str =
    "^([A-Za-z0-9._-]+(:[^:]+)?|oci://[^/]+/(.*/)?[^/:@]+(:[A-Za-z0-9._+-]+)?(@[^/]*)?|(\\./|\\.\\./|/).*)$";
pub(crate) const PATH: &str = "^(\\./|\\.\\./|/)";
/// `TYPE` or `TYPE/NAME`.
pub(crate) const RESOURCE: &str = "^[^/]+(/[^/]+)?$";
pub(crate) const NAMED_RESOURCE: &str = "^[^/]+/[^/]+$";
pub(crate) const WORKLOAD: &str = "^([dD][eE][pP][lL][oO][yY][mM][eE][nN][tT]|[dD][aA][eE][mM][oO][nN][sS][eE][tT]|[sS][tT][aA][tT][eE][fF][uU][lL][sS][eE][tT])/[^/]+$";
pub(crate) const UNTIL: &str = "^(delete|condition=[^=]+(=.+)?|jsonpath=.+)$";

pub(crate) type Property = (&'static str, Value);

pub(crate) fn object(required: &[&str], properties: Vec<Property>) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut object = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

pub(crate) fn with(mut schema: Value, key: &str, value: Value) -> Value {
    schema[key] = value;
    schema
}

pub(crate) fn one_of(keys: &[&str]) -> Value {
    keys.iter().map(|key| json!({ "required": [key] })).collect()
}

pub(crate) fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

/// A text that says something.
pub(crate) fn filled(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": description })
}

/// A text of a certain form, or one with a reference in it.
pub(crate) fn like(description: &str, pattern: &str) -> Value {
    json!({
        "type": "string", "description": description,
        "anyOf": [{ "pattern": pattern }, { "$ref": "#/$defs/Reference" }],
    })
}

pub(crate) fn at_most(length: usize, schema: Value) -> Value {
    let mut schema = schema;
    schema["anyOf"][0]["maxLength"] = length.into();
    schema
}

/// A namespace and all of them exclude each other, and a name goes with neither all namespaces nor selectors.
pub(crate) fn one_scope(key: &str) -> Value {
    let all = json!({ "properties": { "allNamespaces": { "const": true } }, "required": ["allNamespaces"] });
    let is_filled = |key: &str| json!({ "properties": { key: { "minLength": 1 } }, "required": [key] });
    let named = json!({ "properties": { key: { "pattern": NAMED_RESOURCE, "not": { "$ref": "#/$defs/Reference" } } }, "required": [key] });
    let no_selection =
        json!({ "not": { "anyOf": [all.clone(), is_filled("selector"), is_filled("fieldSelector")] } });
    json!([
        { "not": { "allOf": [all, is_filled("namespace")] } },
        { "if": named, "then": no_selection },
    ])
}

pub(crate) fn described(definition: &str, description: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}"), "description": description })
}

pub(crate) fn list_of(definition: &str, description: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/$defs/{definition}") }, "description": description })
}

pub(crate) fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

pub(crate) fn or_reference(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "$ref": "#/$defs/Reference" }] })
}

pub(crate) fn word(words: &[&str], description: &str) -> Value {
    let mut schema = or_reference(json!({ "enum": words }));
    schema["description"] = description.into();
    schema
}

fn knobs() -> Vec<Property> {
    vec![
        ("timeout", described("PositiveDurationOrRef", "How long one attempt may take.")),
        ("retries", described("IntOrRef", "Further attempts after a failed one.")),
        ("retryDelay", described("DurationOrRef", "The pause between attempts.")),
        ("onError", word(&["fail", "continue"], "Whether a failure stops the run.")),
    ]
}

pub(crate) fn selection() -> Vec<Property> {
    vec![
        ("namespace", like("The namespace looked in.", LABEL_OR_NONE)),
        ("allNamespaces", described("BoolOrRef", "Whether every namespace is looked in.")),
        ("selector", text("A label selector.")),
        ("fieldSelector", text("A field selector.")),
    ]
}

fn document() -> Value {
    let schema = object(
        &["apiVersion", "kind", "metadata", "steps"],
        vec![
            ("apiVersion", json!({ "const": "khook.io/v1", "description": "The version of the format." })),
            ("kind", json!({ "const": "Khook", "description": "The kind of the document." })),
            ("metadata", described("Metadata", "Who the document is.")),
            ("defaults", described("Defaults", "What steps do unless they say otherwise.")),
            ("state", described("State", "Keeps a record in the cluster, so that a run can be resumed.")),
            ("steps", with(list_of("Step", "What is done."), "minItems", json!(1))),
        ],
    );
    // The record is called after the document unless it has a name of its own.
    let unnamed = json!({ "type": "object", "not": { "properties": { "name": { "minLength": 1 } }, "required": ["name"] } });
    let name = at_most(241, like("A name the record can be called after.", ENDS_A_SUBDOMAIN));
    with(
        schema,
        "allOf",
        json!([{
            "if": { "properties": { "state": unnamed }, "required": ["state"] },
            "then": { "properties": { "metadata": { "properties": { "name": name } } } },
        }]),
    )
}

fn step() -> Value {
    let mut properties = vec![
        (
            "name",
            json!({
                "type": "string", "maxLength": 63, "description": "The step's name, unique in the document.",
                "anyOf": [{ "pattern": "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$" }, { "$ref": "#/$defs/Reference" }],
            }),
        ),
        ("needs", texts("Steps that must have succeeded before.")),
        ("when", text("A CEL condition over `vars`.")),
    ];
    properties.extend(knobs());
    properties.extend(STEP_TYPES.iter().map(|kind| (kind.key, described(kind.definition, kind.about))));
    let keys: Vec<&str> = STEP_TYPES.iter().map(|kind| kind.key).collect();
    let schema = with(object(&["name"], properties), "oneOf", one_of(&keys));
    // A release is called after its step unless it has a name of its own.
    let unnamed = json!({ "type": "object", "not": { "properties": { "release": { "minLength": 1 } }, "required": ["release"] } });
    with(
        schema,
        "allOf",
        json!([{
            "if": { "properties": { "helm": unnamed }, "required": ["helm"] },
            "then": { "properties": { "name": { "anyOf": [{ "maxLength": 53 }, { "$ref": "#/$defs/Reference" }] } } },
        }]),
    )
}
