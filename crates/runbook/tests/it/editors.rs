//! The schema for editors agrees with the loader.

use boon::{Compiler, Schemas};
use slipway_yaml::Reader;

fn accepts(source: &str) -> Result<(), String> {
    let mut compiler = Compiler::new();
    let mut schemas = Schemas::new();
    compiler.add_resource("khook.json", slipway_runbook::schema()).map_err(|error| error.to_string())?;
    let index = compiler.compile("khook.json", &mut schemas).map_err(|error| error.to_string())?;
    let document =
        Reader::new().read_one(source, "f.yaml").map_err(|problems| problems.to_string())?.to_json();
    schemas.validate(&document, index).map_err(|error| error.to_string())
}

fn steps(steps: &str) -> String {
    format!("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\nsteps:\n{steps}")
}

#[test]
fn files_as_they_are_written() {
    for step in [
        "  - {name: a, retries: '${N}', timeout: '${T:-5m}', helm: {chart: ./x, wait: '${W}'}}\n",
        "  - {name: a, helm: {chart: 'x:1', repo: 'https://x', valuesFrom: [{file: a}]}}\n",
        "  - {name: a, helm: {chart: '${CHART}'}}\n",
        "  - {name: a, apply: {manifests: [{inline: x}], createNamespace: false}}\n",
        "  - {name: a, delete: {resource: pods, selector: a=b}}\n",
        "  - {name: a, patch: {target: a/b, type: json, patch: [{op: remove, path: /a}]}}\n",
        "  - {name: a, patch: {target: a/b, patch: {a: 1}}}\n",
        "  - {name: a, wait: {for: delete, on: pods, allNamespaces: true}}\n",
        "  - {name: a, rollout: {restart: deployment/x, namespace: n}}\n",
        "  - {name: '${NAME}', job: {image: x, env: {A: b}}}\n",
    ] {
        assert_eq!(accepts(&steps(step)), Ok(()), "{step}");
    }
}

#[test]
fn s14_examples_and_references() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/runbooks");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).expect("there are examples").flatten() {
        if entry.path().extension().is_some_and(|extension| extension == "yaml") {
            let source = std::fs::read_to_string(entry.path()).expect("can be read");
            assert_eq!(accepts(&source), Ok(()), "{}", entry.path().display());
            seen += 1;
        }
    }
    assert!(seen >= 2, "{seen} examples");
    for value in ["retries: ${N:-2}", "timeout: ${T}", "onError: ${E:-fail}", "retryDelay: ${D|lower}"] {
        let step = format!("  - name: a\n    {value}\n    job: {{image: i}}\n");
        assert_eq!(accepts(&steps(&step)), Ok(()), "{value}");
    }
    for value in ["retries: many", "timeout: soon", "onError: maybe", "retryDelay: 5"] {
        let step = format!("  - name: a\n    {value}\n    job: {{image: i}}\n");
        assert!(accepts(&steps(&step)).is_err(), "{value}");
    }
    // The mistakes of scenarios 2, 9 and 13 a schema can express.
    for step in [
        "  - {name: a, helm: }\n",
        "  - {name: a, job: {image: i, colour: red}}\n",
        "  - {name: a, helm: {repo: 'https://x'}}\n",
        "  - {name: a, helm: {chart: ./x, version: '1'}}\n",
        "  - {name: a, helm: {chart: ./x, auth: {username: u, password: p}}}\n",
        "  - {name: a, helm: {chart: 'x:1', repo: 'https://x', auth: {password: p}}}\n",
        "  - {name: a, helm: {chart: ./x, valuesFrom: [{}]}}\n",
        "  - {name: a, helm: {chart: ./x, skipIf: exists}}\n",
        "  - {name: a, rollout: {restart: deployment/x}}\n",
        "  - {name: a, wait: {on: pods}}\n",
    ] {
        assert!(accepts(&steps(step)).is_err(), "{step}");
    }
    // What is published is what is built.
    let published =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/runbook.schema.json");
    let published = std::fs::read_to_string(published).expect("it is published");
    let published: serde_json::Value = serde_json::from_str(&published).expect("is JSON");
    assert_eq!(published, slipway_runbook::schema());
}

#[test]
fn mistakes_an_editor_can_see() {
    for step in [
        "  - {name: a}\n",
        "  - {name: A, job: {image: x}}\n",
        "  - {name: a, job: {image: x}, wait: {for: delete, on: pods}}\n",
        "  - {name: a, timeout: 5, job: {image: x}}\n",
        "  - {name: a, timeout: 5d, job: {image: x}}\n",
        "  - {name: a, retries: -1, job: {image: x}}\n",
        "  - {name: a, helm: {chart: x}}\n",
        "  - {name: a, helm: {chart: ./x, repo: 'https://x'}}\n",
        "  - {name: a, helm: {chart: 'oci://x/y', repo: 'https://x'}}\n",
        "  - {name: a, apply: {manifests: []}}\n",
        "  - {name: a, apply: {manifests: [{file: a, url: b}]}}\n",
        "  - {name: a, apply: {manifests: [{file: a}], createNamespace: true}}\n",
        "  - {name: a, delete: {}}\n",
        "  - {name: a, patch: {target: a/b, type: json, patch: {}}}\n",
        "  - {name: a, patch: {target: a/b, patch: []}}\n",
        "  - {name: a, wait: {for: delete, on: pods, namespace: a, allNamespaces: true}}\n",
        "  - {name: a, rollout: {restart: a, status: b, namespace: n}}\n",
        "  - {name: a, job: {image: x, env: {A: 1}}}\n",
        "  - {name: a, jbo: {image: x}}\n",
    ] {
        assert!(accepts(&steps(step)).is_err(), "{step}");
    }
}
