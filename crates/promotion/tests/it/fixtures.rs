//! Objects of the design's own examples, and small ones for single rules.

use serde_json::{Value, json};
use slipway_promotion::kinds::{
    self, Bundle, BundleSpec, KindSpec, Pipeline, PipelineSpec, PolicyGate, PolicyGateSpec, Resource,
};

/// A file of `tests/fixtures`.
pub(crate) fn fixture(name: &str) -> Value {
    let path = format!("{}/tests/fixtures/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("the fixture is there");
    slipway_yaml::parse_one(&text, name).expect("is YAML").to_json()
}

pub(crate) fn read<S: KindSpec>(object: Value) -> Resource<S> {
    kinds::parse(object).unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error)))
}

/// A pipeline with environments as they are written.
pub(crate) fn pipeline(environments: Value) -> Pipeline {
    read::<PipelineSpec>(json!({
        "metadata": {"name": "my-app", "namespace": "default", "uid": "p1", "generation": 3},
        "spec": {"git": {"url": "https://github.com/myorg/gitops-repo"}, "environments": environments},
    }))
}

/// A bundle of one image with an intent.
pub(crate) fn bundle(intent: Value) -> Bundle {
    read::<BundleSpec>(json!({
        "metadata": {
            "name": "my-app-1", "namespace": "default", "uid": "b1", "labels": {"kardinal.io/pipeline": "my-app"},
        },
        "spec": {"artifacts": {"images": [{"name": "my-app", "reference": "ghcr.io/myorg/my-app:1.29.0"}]}, "intent": intent},
    }))
}

/// A gate template in a namespace.
pub(crate) fn gate(namespace: &str, name: &str, labels: Value, spec: Value) -> PolicyGate {
    read::<PolicyGateSpec>(json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("{namespace}/{name}"), "labels": labels},
        "spec": spec,
    }))
}
