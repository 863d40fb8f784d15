//! JSON Schemas of the files units are made with, for editors. They are as strict as the readers are; what a schema cannot
//! say is listed with the tests.

use serde_json::{Map, Value, json};

/// Durations as settings write them: `30s`, `1h30m`, `3d`.
const DURATION: &str = r"^(0|[0-9]+d(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))*|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|ms|s|m|h))+)$";

fn text(about: &str) -> Value {
    json!({"type": "string", "description": about})
}

fn texts(about: &str) -> Value {
    json!({"type": "array", "items": {"type": "string"}, "description": about})
}

fn truth(about: &str) -> Value {
    json!({"type": "boolean", "description": about})
}

fn object(about: &str, required: &[&str], properties: Value) -> Value {
    json!({
        "type": "object", "additionalProperties": false, "description": about, "required": required,
        "properties": properties,
    })
}

fn titled(title: &str, mut schema: Value) -> Value {
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = title.into();
    schema
}

/// The schema of a file of settings (`slipway unit bundle --settings`).
pub fn settings_schema() -> Value {
    let slots = json!({
        "type": "object",
        "description": "Values that may differ, by environment: `prod: [replicaCount]`",
        "additionalProperties": {"type": "array", "items": {"type": "string"}},
    });
    let properties = json!({
        "apiVersion": {"const": "ktl.dev/unit/v1"},
        "overlaySlots": slots,
        "strategy": strategy(),
    });
    titled("Slipway unit settings", object("Settings of a release unit", &["apiVersion"], properties))
}

/// The schema of a file that says where images belong (`slipway unit bundle --image-map`).
pub fn image_map_schema() -> Value {
    let rule = object(
        "Containers whose image is replaced: what is left out fits all",
        &[],
        json!({
            "kind": text("Pattern for the kind of the object"),
            "name": text("Pattern for the name of the object"),
            "container": text("Pattern for the name of the container"),
            "repository": text("Repository the image has before"),
            "image": text("Image it has before"),
            "fieldPaths": texts("Fields besides those of containers"),
        }),
    );
    let mut image = object(
        "Places of one image",
        &[],
        json!({
            "set": {
                "type": "object", "additionalProperties": {"type": "string"},
                "description": "Values and the text each gets, with `{{repo}}`, `{{tag}}` and `{{digest}}`",
            },
            "postRender": {"type": "array", "items": rule},
        }),
    );
    image["anyOf"] = json!([
        {"required": ["set"], "properties": {"set": {"minProperties": 1}}},
        {"required": ["postRender"], "properties": {"postRender": {"minItems": 1}}},
    ]);
    let properties = json!({
        "apiVersion": {"const": "ktl.dev/image-map/v1"},
        "images": {"type": "object", "additionalProperties": image, "description": "Images by the name --image gives them"},
        "ignore": texts("Places that look like an image and are none"),
        "autodetect": truth("Whether places are looked for as well; true where left out"),
    });
    titled("Slipway image map", object("Where images belong", &["apiVersion"], properties))
}

/// The sections `environments` and `promotion` of `slipway.yaml`, by their keys.
pub fn environments_schema() -> Map<String, Value> {
    let environment = object(
        "A place with a name",
        &[],
        json!({
            "context": text("Context of the kubeconfig"),
            "cluster": text("The same as `context`"),
            "namespace": text("Namespace there"),
        }),
    );
    let environments =
        json!({"type": "object", "additionalProperties": environment, "description": "Environments by name"});
    let order = texts("Environments in the order units move through them");
    let promotion = object("How units move", &[], json!({"order": order}));
    Map::from_iter([("environments".to_owned(), environments), ("promotion".to_owned(), promotion)])
}

fn strategy() -> Value {
    let duration = |about: &str| json!({"anyOf": [{"type": "string", "pattern": DURATION}, {"const": 0}], "description": about});
    let target = object(
        "A Deployment that is rolled out step by step",
        &["name"],
        json!({"kind": {"const": "Deployment"}, "name": text("Its name")}),
    );
    let mut step = object(
        "One of `weight`, `pause`, `check`",
        &[],
        json!({
            "weight": {"type": "integer", "minimum": 1, "maximum": 100, "description": "Share of the new version in percent"},
            "check": {"const": "verify"},
        }),
    );
    step["properties"]["pause"] = json!({"anyOf": [{"const": "manual"}, duration("Time to wait")], "description": "Time to wait, or `manual`"});
    step["minProperties"] = 1.into();
    step["maxProperties"] = 1.into();
    let canary = object(
        "Steps of a canary",
        &["steps"],
        json!({
            "steps": {"type": "array", "items": step, "contains": {"required": ["weight"]}},
            "maxWeightError": {"type": "integer", "minimum": 0, "maximum": 100, "description": "Most the share may be off, in percent"},
            "provider": {"enum": ["replicas", "gateway-api", "nginx-ingress"], "description": "What divides the traffic; replicas where left out"},
            "service": text("Service whose traffic is divided"),
        }),
    );
    let blue_green = object(
        "A second colour beside the first",
        &["service"],
        json!({
            "service": text("Service that is switched"),
            "preview": text("Service of the new colour before the switch"),
            "prePromotion": {"type": "array", "items": {"const": "verify"}, "description": "Checks before the switch"},
            "scaleDownDelay": duration("Time the old colour stays"),
            "autoPromote": truth("Whether the switch waits for nobody"),
        }),
    );
    let exec = object(
        "A command in a Job",
        &["image", "command"],
        json!({"image": text("Image of the Job"), "command": texts("Words of the command")}),
    );
    let mut probe = object(
        "One of `http`, `tcp`, `exec`",
        &[],
        json!({"http": text("Address that must answer with success"), "tcp": text("HOST:PORT that must take connections"), "exec": exec}),
    );
    probe["minProperties"] = 1.into();
    probe["maxProperties"] = 1.into();
    let signals = object(
        "What is watched while a step lasts",
        &[],
        json!({
            "readiness": truth("Whether the workloads stay ready"),
            "restartBudget": {"type": "integer", "minimum": 0, "description": "Most restarts"},
            "events": truth("Whether warnings of the cluster count"),
            "probes": {"type": "array", "items": probe},
        }),
    );
    let mut strategy = object(
        "How a new version takes over",
        &["type"],
        json!({
            "type": {"enum": ["rolling", "canary", "bluegreen"]},
            "targets": {"type": "array", "items": target},
            "canary": canary,
            "bluegreen": blue_green,
            "signals": signals,
            "onFailure": {"enum": ["rollback", "hold"], "description": "What follows a failure; rollback where left out"},
        }),
    );
    let needs = |kind: &str, targets: Value| {
        json!({
            "if": {"required": ["type"], "properties": {"type": {"const": kind}}},
            "then": {"required": [kind, "targets"], "properties": {"targets": targets}},
        })
    };
    strategy["allOf"] = json!([
        needs("canary", json!({"minItems": 1})),
        needs("bluegreen", json!({"minItems": 1, "maxItems": 1}))
    ]);
    strategy
}
