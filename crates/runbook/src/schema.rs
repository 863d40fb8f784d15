//! The JSON Schema editors use. It describes files as they are written, so a reference may stand wherever
//! a value goes.

use serde_json::{Map, Value, json};

/// The schema of a document.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://khook.io/schema/v1/khook.json",
        "title": "Khook",
        "$ref": "#/$defs/Document",
        "$defs": {
            "ApplyOp": apply(),
            "BoolOrRef": or_reference(json!({ "type": "boolean" })),
            "Defaults": object(&[], knobs()),
            "DeleteOp": delete(),
            "Document": document(),
            "DurationOrRef": or_reference(json!({
                "type": "string", "pattern": "^(0|\\+?([0-9]+(\\.[0-9]*)?(ns|us|µs|μs|ms|s|m|h))+)$",
            })),
            "HelmAuth": object(&["username", "password"], vec![
                ("username", text("The user's name.")),
                ("password", text("The password or token; pass it as a variable.")),
            ]),
            "HelmOp": helm(),
            "IntOrRef": or_reference(json!({ "type": "integer", "minimum": 0 })),
            "JobOp": job(),
            "ManifestSource": with(object(&[], vec![
                ("inline", text("The manifests themselves, as YAML text.")),
                ("file", text("A file beside the document.")),
                ("url", text("An HTTP(S) URL.")),
                ("kustomize", text("A local kustomization directory.")),
            ]), "oneOf", one_of(&["inline", "file", "url", "kustomize"])),
            "Metadata": object(&["name"], vec![("name", text("The name of the document and of its record."))]),
            "PatchOp": patch(),
            "Reference": { "type": "string", "pattern": "\\$\\{[A-Za-z_]" },
            "RolloutOp": with(object(&["namespace"], vec![
                ("restart", text("The workload to restart, such as `deployment/web`.")),
                ("status", text("The workload whose rollout is awaited.")),
                ("namespace", text("The workload's namespace.")),
            ]), "oneOf", one_of(&["restart", "status"])),
            "State": object(&[], vec![
                ("enabled", described("BoolOrRef", "Whether a record is kept.")),
                ("namespace", text("The namespace of the record.")),
                ("name", text("The name of the record.")),
                ("ignoreAuth", described("BoolOrRef", "Whether rotated credentials leave a step unchanged.")),
            ]),
            "Step": step(),
            "ValuesSource": with(object(&[], vec![
                ("file", text("A file beside the document.")),
                ("url", text("An HTTP(S) URL.")),
            ]), "oneOf", one_of(&["file", "url"])),
            "WaitOp": with(object(&["for", "on"], [
                ("for", text("`condition=NAME[=VALUE]`, `jsonpath=EXPR[=VALUE]` or `delete`.")),
                ("on", text("A type (`pods`) or a type and a name (`deployment/web`).")),
            ].into_iter().chain(selection()).collect()), "not", json!({ "required": ["namespace", "allNamespaces"] })),
        },
    })
}

type Property = (&'static str, Value);

fn object(required: &[&str], properties: Vec<Property>) -> Value {
    let properties: Map<String, Value> =
        properties.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    let mut object = json!({ "type": "object", "additionalProperties": false, "properties": properties });
    if !required.is_empty() {
        object["required"] = json!(required);
    }
    object
}

fn with(mut schema: Value, key: &str, value: Value) -> Value {
    schema[key] = value;
    schema
}

fn one_of(keys: &[&str]) -> Value {
    keys.iter().map(|key| json!({ "required": [key] })).collect()
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn described(definition: &str, description: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}"), "description": description })
}

fn list_of(definition: &str, description: &str) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/$defs/{definition}") }, "description": description })
}

fn texts(description: &str) -> Value {
    json!({ "type": "array", "items": { "type": "string" }, "description": description })
}

fn or_reference(schema: Value) -> Value {
    json!({ "anyOf": [schema, { "$ref": "#/$defs/Reference" }] })
}

fn word(words: &[&str], description: &str) -> Value {
    let mut schema = or_reference(json!({ "enum": words }));
    schema["description"] = description.into();
    schema
}

fn knobs() -> Vec<Property> {
    vec![
        ("timeout", described("DurationOrRef", "How long one attempt may take.")),
        ("retries", described("IntOrRef", "Further attempts after a failed one.")),
        ("retryDelay", described("DurationOrRef", "The pause between attempts.")),
        ("onError", word(&["fail", "continue"], "Whether a failure stops the run.")),
    ]
}

fn selection() -> Vec<Property> {
    vec![
        ("namespace", text("The namespace looked in.")),
        ("allNamespaces", described("BoolOrRef", "Whether every namespace is looked in.")),
        ("selector", text("A label selector.")),
        ("fieldSelector", text("A field selector.")),
    ]
}

fn document() -> Value {
    object(
        &["apiVersion", "kind", "metadata", "steps"],
        vec![
            ("apiVersion", json!({ "const": "khook.io/v1", "description": "The version of the format." })),
            ("kind", json!({ "const": "Khook", "description": "The kind of the document." })),
            ("metadata", described("Metadata", "Who the document is.")),
            ("defaults", described("Defaults", "What steps do unless they say otherwise.")),
            ("state", described("State", "Keeps a record in the cluster, so that a run can be resumed.")),
            ("steps", with(list_of("Step", "What is done."), "minItems", json!(1))),
        ],
    )
}

fn step() -> Value {
    let actions = [
        ("helm", "HelmOp", "Installs or upgrades a chart."),
        ("apply", "ApplyOp", "Applies manifests."),
        ("delete", "DeleteOp", "Removes objects or a release."),
        ("patch", "PatchOp", "Changes an object in place."),
        ("wait", "WaitOp", "Waits until something holds."),
        ("rollout", "RolloutOp", "Restarts a workload or waits for its rollout."),
        ("job", "JobOp", "Runs a container to its end."),
    ];
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
    properties
        .extend(actions.map(|(key, definition, description)| (key, described(definition, description))));
    let keys: Vec<&str> = actions.iter().map(|(key, _, _)| *key).collect();
    with(object(&["name"], properties), "oneOf", one_of(&keys))
}

fn helm() -> Value {
    let schema = object(
        &["chart"],
        vec![
            ("chart", text("A name in `repo`, `oci://…`, or a path starting with `./`, `../` or `/`.")),
            ("repo", text("The URL of the repository of a chart given by its name.")),
            ("version", text("The chart's version.")),
            ("auth", described("HelmAuth", "Credentials for the repository or registry.")),
            ("release", text("The release's name; the step's unless told.")),
            ("namespace", text("The release's namespace.")),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("atomic", described("BoolOrRef", "Undoes a release that fails; implies `wait`.")),
            ("wait", described("BoolOrRef", "Waits until everything is ready.")),
            ("skipIf", word(&["installed"], "Leaves an installed release alone.")),
            ("values", json!({ "type": "object", "description": "Values of the chart." })),
            ("valuesFrom", list_of("ValuesSource", "Values read from elsewhere; later ones win.")),
        ],
    );
    let starts =
        |pattern: &str| json!({ "properties": { "chart": { "pattern": pattern } }, "required": ["chart"] });
    let forbid = |keys: &[&str]| json!({ "not": { "anyOf": one_of(keys) } });
    with(
        schema,
        "allOf",
        json!([
            { "if": starts("^oci://"), "then": forbid(&["repo"]) },
            { "if": starts("^(\\./|\\.\\./|/)"), "then": forbid(&["repo", "version", "auth"]) },
            { "if": starts("^[A-Za-z0-9._-]+(:[^:]+)?$"), "then": { "required": ["repo"] } },
        ]),
    )
}

/// `createNamespace: true` means nothing without a namespace.
fn needs_namespace() -> Value {
    json!({
        "if": { "properties": { "createNamespace": { "const": true } }, "required": ["createNamespace"] },
        "then": { "required": ["namespace"] },
    })
}

fn apply() -> Value {
    let schema = object(
        &["manifests"],
        vec![
            (
                "manifests",
                with(list_of("ManifestSource", "What is applied, in order."), "minItems", json!(1)),
            ),
            ("namespace", text("The namespace of objects that name none.")),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("skipIf", word(&["exists"], "Writes nothing if everything exists.")),
            ("serverSide", described("BoolOrRef", "Applies on the server's side.")),
            ("waitFor", text("What every applied object must reach; see `wait.for`.")),
        ],
    );
    with(schema, "allOf", json!([needs_namespace()]))
}

fn delete() -> Value {
    let mut properties = vec![
        ("manifests", with(list_of("ManifestSource", "Deletes what these define."), "minItems", json!(1))),
        ("resource", text("A type (`pods`) or a type and a name (`daemonset/aws-node`).")),
        ("release", text("A Helm release to uninstall.")),
        ("ignoreNotFound", described("BoolOrRef", "Whether absence is success.")),
    ];
    properties.extend(selection());
    let schema = with(object(&[], properties), "oneOf", one_of(&["manifests", "resource", "release"]));
    with(schema, "not", json!({ "required": ["namespace", "allNamespaces"] }))
}

fn patch() -> Value {
    let schema = object(
        &["target", "patch"],
        vec![
            ("target", text("A type and a name, such as `daemonset/aws-node`.")),
            ("namespace", text("The target's namespace.")),
            ("type", word(&["strategic", "merge", "json"], "How the patch is read.")),
            ("patch", json!({ "type": ["object", "array"], "description": "The patch itself." })),
        ],
    );
    let body = |kind: &str| json!({ "properties": { "patch": { "type": kind } } });
    let is_json = json!({ "properties": { "type": { "const": "json" } }, "required": ["type"] });
    let is_reference =
        json!({ "properties": { "type": { "$ref": "#/$defs/Reference" } }, "required": ["type"] });
    with(
        schema,
        "allOf",
        json!([
            { "if": is_json, "then": body("array"), "else": { "if": is_reference, "else": body("object") } },
        ]),
    )
}

fn job() -> Value {
    object(
        &["image"],
        vec![
            ("image", text("The container's image.")),
            ("command", texts("Replaces the image's entry point.")),
            ("args", texts("The container's arguments.")),
            (
                "env",
                json!({
                    "type": "object", "additionalProperties": { "type": "string" },
                    "description": "Environment variables.",
                }),
            ),
            ("namespace", text("The Job's namespace.")),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("serviceAccount", text("The pod's service account.")),
            ("skipIf", word(&["succeeded"], "Leaves a Job that succeeded alone.")),
        ],
    )
}
