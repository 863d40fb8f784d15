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
            "DurationOrRef": or_reference(json!({ "type": "string", "pattern": DURATION })),
            "PositiveDurationOrRef": or_reference(json!({
                "type": "string", "pattern": DURATION, "not": { "pattern": "^\\+?(0|[.0nuµμmsh])*$" },
            })),
            "HelmAuth": object(&["username", "password"], vec![
                ("username", filled("The user's name.")),
                ("password", filled("The password or token; pass it as a variable.")),
            ]),
            "HelmOp": helm(),
            "IntOrRef": or_reference(json!({ "type": "integer", "minimum": 0 })),
            "JobOp": job(),
            "ManifestSource": with(object(&[], vec![
                ("inline", filled("The manifests themselves, as YAML text.")),
                ("file", filled("A file beside the document.")),
                ("url", like("An HTTP(S) URL.", ADDRESS)),
                ("kustomize", like("A local kustomization directory.", PATH)),
            ]), "oneOf", one_of(&["inline", "file", "url", "kustomize"])),
            "Metadata": object(&["name"], vec![("name", filled("The name of the document and of its record."))]),
            "PatchOp": patch(),
            "Reference": { "type": "string", "pattern": "\\$\\{[A-Za-z_]" },
            "RolloutOp": with(object(&["namespace"], vec![
                ("restart", like("The workload to restart, such as `deployment/web`.", WORKLOAD)),
                ("status", like("The workload whose rollout is awaited.", WORKLOAD)),
                ("namespace", like("The workload's namespace.", LABEL)),
            ]), "oneOf", one_of(&["restart", "status"])),
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
            "WaitOp": with(object(&["for", "on"], [
                ("for", like("`condition=NAME[=VALUE]`, `jsonpath=EXPR[=VALUE]` or `delete`.", UNTIL)),
                ("on", like("A type (`pods`) or a type and a name (`deployment/web`).", RESOURCE)),
            ].into_iter().chain(selection()).collect()), "allOf", one_scope("on")),
        },
    })
}

/// Go's notation of durations, without a sign that is negative.
const DURATION: &str = "^\\+?(0|(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";
/// A DNS label.
const LABEL: &str = "^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$";
/// The same where a field that is empty counts as absent.
const LABEL_OR_NONE: &str = "^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$";
const SUBDOMAIN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$";
const SUBDOMAIN_OR_NONE: &str = "^([a-z0-9]([a-z0-9-]*[a-z0-9])?(\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*)?$";
const ENDS_A_SUBDOMAIN: &str = "^[a-z0-9-]*[a-z0-9](\\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$";
const ADDRESS: &str = "^https?://.";
const ADDRESS_OR_NONE: &str = "^(https?://.+)?$";
/// A name with or without a version, an OCI reference with a host and a repository, or a path.
const CHART: &str =
    "^([A-Za-z0-9._-]+(:[^:]+)?|oci://[^/]+/(.*/)?[^/:@]+(:[A-Za-z0-9._+-]+)?(@[^/]*)?|(\\./|\\.\\./|/).*)$";
const PATH: &str = "^(\\./|\\.\\./|/)";
/// `TYPE` or `TYPE/NAME`.
const RESOURCE: &str = "^[^/]+(/[^/]+)?$";
const NAMED_RESOURCE: &str = "^[^/]+/[^/]+$";
const WORKLOAD: &str = "^([dD][eE][pP][lL][oO][yY][mM][eE][nN][tT]|[dD][aA][eE][mM][oO][nN][sS][eE][tT]|[sS][tT][aA][tT][eE][fF][uU][lL][sS][eE][tT])/[^/]+$";
const UNTIL: &str = "^(delete|condition=[^=]+(=.+)?|jsonpath=.+)$";

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

/// A text that says something.
fn filled(description: &str) -> Value {
    json!({ "type": "string", "minLength": 1, "description": description })
}

/// A text of a certain form, or one with a reference in it.
fn like(description: &str, pattern: &str) -> Value {
    json!({
        "type": "string", "description": description,
        "anyOf": [{ "pattern": pattern }, { "$ref": "#/$defs/Reference" }],
    })
}

fn at_most(length: usize, schema: Value) -> Value {
    let mut schema = schema;
    schema["anyOf"][0]["maxLength"] = length.into();
    schema
}

/// A namespace and all of them exclude each other, and a name goes with neither all namespaces nor selectors.
fn one_scope(key: &str) -> Value {
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
        ("timeout", described("PositiveDurationOrRef", "How long one attempt may take.")),
        ("retries", described("IntOrRef", "Further attempts after a failed one.")),
        ("retryDelay", described("DurationOrRef", "The pause between attempts.")),
        ("onError", word(&["fail", "continue"], "Whether a failure stops the run.")),
    ]
}

fn selection() -> Vec<Property> {
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

fn helm() -> Value {
    let schema = object(
        &["chart"],
        vec![
            (
                "chart",
                like("A name in `repo`, `oci://…`, or a path starting with `./`, `../` or `/`.", CHART),
            ),
            ("repo", like("The URL of the repository of a chart given by its name.", ADDRESS_OR_NONE)),
            ("version", text("The chart's version.")),
            ("auth", described("HelmAuth", "Credentials for the repository or registry.")),
            ("release", at_most(53, like("The release's name; the step's unless told.", SUBDOMAIN_OR_NONE))),
            ("namespace", like("The release's namespace.", LABEL_OR_NONE)),
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
            { "if": starts("^[A-Za-z0-9._-]+(:[^:]+)?$"), "then": {
                "required": ["repo"], "properties": { "repo": { "minLength": 1 } },
            } },
            // A version stands in one place only, and so do credentials.
            {
                "if": starts("^([A-Za-z0-9._-]+:[^:]+|oci://[^/]+/(.*/)?[^/]*[:@][^/]*)$"),
                "then": { "not": { "properties": { "version": { "minLength": 1 } }, "required": ["version"] } },
            },
            {
                "if": { "anyOf": [
                    starts("^oci://[^/]*@"),
                    { "properties": { "repo": { "pattern": "^https?://[^/?#]*@" } }, "required": ["repo"] },
                ] },
                "then": forbid(&["auth"]),
            },
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
            ("namespace", like("The namespace of objects that name none.", LABEL_OR_NONE)),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("skipIf", word(&["exists"], "Writes nothing if everything exists.")),
            ("serverSide", described("BoolOrRef", "Applies on the server's side.")),
            (
                "waitFor",
                like(
                    "What every applied object must reach; see `wait.for`.",
                    "^(condition=[^=]+(=.+)?|jsonpath=.+)?$",
                ),
            ),
        ],
    );
    with(schema, "allOf", json!([needs_namespace()]))
}

fn delete() -> Value {
    let mut properties = vec![
        ("manifests", with(list_of("ManifestSource", "Deletes what these define."), "minItems", json!(1))),
        ("resource", like("A type (`pods`) or a type and a name (`daemonset/aws-node`).", RESOURCE)),
        ("release", at_most(53, like("A Helm release to uninstall.", SUBDOMAIN))),
        ("ignoreNotFound", described("BoolOrRef", "Whether absence is success.")),
    ];
    properties.extend(selection());
    let schema = with(object(&[], properties), "oneOf", one_of(&["manifests", "resource", "release"]));
    let selects = |keys: &[&str]| json!({ "anyOf": one_of(keys) });
    let mut rules = one_scope("resource");
    if let Some(rules) = rules.as_array_mut() {
        rules.push(json!({
            "if": selects(&["selector", "fieldSelector", "allNamespaces"]), "then": { "required": ["resource"] },
        }));
    }
    with(schema, "allOf", rules)
}

fn patch() -> Value {
    let schema = object(
        &["target", "patch"],
        vec![
            ("target", like("A type and a name, such as `daemonset/aws-node`.", NAMED_RESOURCE)),
            ("namespace", like("The target's namespace.", LABEL_OR_NONE)),
            ("type", word(&["strategic", "merge", "json"], "How the patch is read.")),
            ("patch", json!({ "type": ["object", "array"], "description": "The patch itself." })),
        ],
    );
    let body = |kind: &str| json!({ "properties": { "patch": { "type": kind } } });
    let needs = |words: &[&str], key: &str| {
        json!({
            "if": { "properties": { "op": { "enum": words } } }, "then": { "required": [key] },
        })
    };
    let operations = json!({
        "type": "array",
        "items": {
            "type": "object", "required": ["op", "path"],
            "properties": {
                "op": or_reference(json!({ "enum": ["add", "remove", "replace", "move", "copy", "test"] })),
                "path": { "type": "string", "anyOf": [{ "pattern": "^(/.*)?$" }, { "$ref": "#/$defs/Reference" }] },
                "from": { "type": "string" },
            },
            "allOf": [needs(&["add", "replace", "test"], "value"), needs(&["move", "copy"], "from")],
        },
    });
    let is_json = json!({ "properties": { "type": { "const": "json" } }, "required": ["type"] });
    let is_reference =
        json!({ "properties": { "type": { "$ref": "#/$defs/Reference" } }, "required": ["type"] });
    with(
        schema,
        "allOf",
        json!([
            { "if": is_json, "then": { "properties": { "patch": operations } }, "else": { "if": is_reference, "else": body("object") } },
        ]),
    )
}

fn job() -> Value {
    object(
        &["image"],
        vec![
            ("image", filled("The container's image.")),
            ("command", texts("Replaces the image's entry point.")),
            ("args", texts("The container's arguments.")),
            (
                "env",
                json!({
                    "type": "object", "additionalProperties": { "type": "string" },
                    "propertyNames": { "anyOf": [
                        { "pattern": "^[A-Za-z._-][A-Za-z0-9._-]*$" }, { "$ref": "#/$defs/Reference" },
                    ] },
                    "description": "Environment variables.",
                }),
            ),
            ("namespace", like("The Job's namespace.", LABEL_OR_NONE)),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("serviceAccount", text("The pod's service account.")),
            ("skipIf", word(&["succeeded"], "Leaves a Job that succeeded alone.")),
        ],
    )
}
