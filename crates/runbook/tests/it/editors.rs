//! The schema for editors agrees with the loader.

use boon::{Compiler, Schemas};
use slipway_yaml::YamlReader;

fn accepts(source: &str) -> Result<(), String> {
    let mut compiler = Compiler::new();
    let mut schemas = Schemas::new();
    compiler.add_resource("khook.json", slipway_runbook::schema()).map_err(|error| error.to_string())?;
    let index = compiler.compile("khook.json", &mut schemas).map_err(|error| error.to_string())?;
    let document =
        YamlReader::new().read_one(source, "f.yaml").map_err(|problems| problems.to_string())?.to_json();
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

/// Scenario S-14 of the specification.
#[test]
fn examples_and_references() {
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

/// Whether the loader takes a document, and the codes of its errors.
fn refusals(source: &str) -> Vec<String> {
    let loaded = slipway_runbook::load(
        "f.yaml",
        source,
        &Default::default(),
        Default::default(),
        &slipway_event::Redactor::new(),
    );
    let found = loaded.err().into_iter().flat_map(|found| found.errors().cloned().collect::<Vec<_>>());
    found.filter_map(|found| found.problem.code).collect()
}

/// Every rule a schema can express, with a document that breaks it and nothing else.
#[test]
fn the_schema_refuses_what_validate_refuses() {
    let long = "a".repeat(54);
    let whole = [
        (
            "E020",
            "apiVersion: khook.io/v2\nkind: Khook\nmetadata: {name: a}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
        (
            "E021",
            "apiVersion: khook.io/v1\nkind: Hook\nmetadata: {name: a}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
        (
            "E022",
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: ''}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
        (
            "E040",
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nstate: {namespace: A}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
        (
            "E041",
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nstate: {name: a_b}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
        (
            "E042",
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: My Cluster}\nstate: {}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
        ("E050", "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\nsteps: []\n"),
        (
            "E032",
            "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: a}\ndefaults: {timeout: 0s}\nsteps: [{name: a, job: {image: i}}]\n",
        ),
    ];
    let of_steps = [
        ("E051", "{job: {image: i}}"),
        ("E052", "{name: A, job: {image: i}}"),
        ("E055", "{name: a}"),
        ("E056", "{name: a, job: {image: i}, wait: {for: delete, on: pods}}"),
        ("E007", "{name: a, colour: red, job: {image: i}}"),
        ("E030", "{name: a, timeout: 5d, job: {image: i}}"),
        ("E031", "{name: a, retryDelay: -5s, job: {image: i}}"),
        ("E032", "{name: a, timeout: 0h0m, job: {image: i}}"),
        ("E033", "{name: a, retries: -1, job: {image: i}}"),
        ("E034", "{name: a, onError: maybe, job: {image: i}}"),
        ("E008", "{name: a, needs: [1], job: {image: i}}"),
        ("E200", "{name: a, helm: {chart: ''}}"),
        ("E201", "{name: a, helm: {chart: x, version: '1', repo: ''}}"),
        ("E202", "{name: a, helm: {chart: x, version: '1', repo: 'ftp://x'}}"),
        ("E203", "{name: a, helm: {chart: ./x, repo: 'https://x'}}"),
        ("E204", "{name: a, helm: {chart: 'x:1', version: '1', repo: 'https://x'}}"),
        ("E204", "{name: a, helm: {chart: 'oci://h/x:1', version: '1'}}"),
        ("E204", "{name: a, helm: {chart: 'oci://h:5000/a/x@sha256:0', version: '1'}}"),
        ("E205", "{name: a, helm: {chart: ./x, version: '1'}}"),
        ("E206", "{name: a, helm: {chart: ./x, auth: {username: u, password: p}}}"),
        ("E207", "{name: a, helm: {chart: 'x:1', repo: 'https://u:p@x', auth: {username: u, password: p}}}"),
        ("E208", "{name: a, helm: {chart: 'x:1', repo: 'https://x', auth: {username: '', password: p}}}"),
        ("E209", "{name: a, helm: {chart: 'x:1:2', repo: 'https://x'}}"),
        ("E210", "{name: a, helm: {chart: 'oci://host'}}"),
        ("E210", "{name: a, helm: {chart: 'oci://host/a/'}}"),
        ("E211", "{name: a, helm: {chart: ./x, valuesFrom: [{file: ''}]}}"),
        ("E212", "{name: a, helm: {chart: ./x, valuesFrom: [{url: x}]}}"),
        ("E213", "{name: a, helm: {chart: ./x, release: a_b}}"),
        ("E214", "{name: a, helm: {chart: ./x, namespace: A}}"),
        ("E215", "{name: a, helm: {chart: ./x, skipIf: exists}}"),
        ("E216", "{name: a, helm: {chart: 'a/b', version: '1', repo: 'https://x'}}"),
        ("E300", "{name: a, apply: {manifests: []}}"),
        ("E301", "{name: a, apply: {manifests: [{inline: ''}]}}"),
        ("E302", "{name: a, apply: {manifests: [{kustomize: x}]}}"),
        ("E303", "{name: a, apply: {manifests: [{url: x}]}}"),
        ("E304", "{name: a, apply: {manifests: [{file: x}], createNamespace: true}}"),
        ("E305", "{name: a, apply: {manifests: [{file: x}], waitFor: Ready}}"),
        ("E306", "{name: a, apply: {manifests: [{file: x}], waitFor: delete}}"),
        ("E307", "{name: a, apply: {manifests: [{file: x}], skipIf: installed}}"),
        ("E308", "{name: a, apply: {manifests: [{file: x}], namespace: A}}"),
        ("E320", "{name: a, delete: {release: ''}}"),
        ("E321", "{name: a, delete: {release: a, selector: a=b}}"),
        ("E321", "{name: a, delete: {manifests: [{file: x}], allNamespaces: false}}"),
        ("E322", "{name: a, delete: {resource: pods, namespace: a, allNamespaces: true}}"),
        ("E323", "{name: a, delete: {resource: pods/a, selector: a=b}}"),
        ("E324", "{name: a, delete: {resource: pods/a, allNamespaces: true}}"),
        ("E325", "{name: a, delete: {resource: a/b/c}}"),
        ("E213", "{name: a, delete: {release: A}}"),
        ("E340", "{name: a, patch: {target: pods, patch: {}}}"),
        ("E341", "{name: a, patch: {target: a/b, type: other, patch: {}}}"),
        ("E342", "{name: a, patch: {target: a/b}}"),
        ("E343", "{name: a, patch: {target: a/b, patch: []}}"),
        ("E344", "{name: a, patch: {target: a/b, type: json, patch: [{op: set, path: /a}]}}"),
        ("E344", "{name: a, patch: {target: a/b, type: json, patch: [{op: add, path: a, value: 1}]}}"),
        ("E344", "{name: a, patch: {target: a/b, type: json, patch: [{op: add, path: /a}]}}"),
        ("E344", "{name: a, patch: {target: a/b, type: json, patch: [{op: move, path: /a}]}}"),
        ("E360", "{name: a, wait: {for: delete, on: ''}}"),
        ("E361", "{name: a, wait: {for: Ready, on: pods}}"),
        ("E361", "{name: a, wait: {for: 'condition=', on: pods}}"),
        ("E362", "{name: a, wait: {for: delete, on: pods, namespace: a, allNamespaces: true}}"),
        ("E363", "{name: a, wait: {for: delete, on: pods/a, fieldSelector: a=b}}"),
        ("E364", "{name: a, wait: {for: delete, on: pods/a, allNamespaces: true}}"),
        ("E365", "{name: a, wait: {for: delete, on: /a}}"),
        ("E380", "{name: a, rollout: {namespace: n}}"),
        ("E381", "{name: a, rollout: {restart: deployment/a}}"),
        ("E381", "{name: a, rollout: {restart: deployment/a, namespace: ''}}"),
        ("E382", "{name: a, rollout: {restart: pods/a, namespace: n}}"),
        ("E400", "{name: a, job: {image: ''}}"),
        ("E401", "{name: a, job: {image: i, env: {1A: b}}}"),
        ("E402", "{name: a, job: {image: i, skipIf: exists}}"),
        ("E403", "{name: a, job: {image: i, namespace: A}}"),
    ];
    let mut cases: Vec<(&str, String)> =
        whole.iter().map(|(code, source)| (*code, (*source).to_owned())).collect();
    cases.extend(of_steps.iter().map(|(code, step)| (*code, steps(&format!("  - {step}\n")))));
    cases.push(("E213", steps(&format!("  - {{name: {long}, helm: {{chart: ./x}}}}\n"))));
    cases.push(("E053", steps(&format!("  - {{name: {}, job: {{image: i}}}}\n", "a".repeat(64)))));
    let mut wrong = Vec::new();
    for (code, source) in cases {
        let found = refusals(&source);
        if !found.iter().any(|found| found == code) {
            wrong.push(format!("validate finds {found:?}, not {code}: {source}"));
        }
        if accepts(&source).is_ok() {
            wrong.push(format!("the schema takes {code}: {source}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A schema that refuses what runs is worse than one that misses a mistake.
#[test]
fn the_schema_takes_what_validate_takes() {
    let long = "a".repeat(54);
    let mut wrong = Vec::new();
    for step in [
        "{name: a, timeout: .5s, retryDelay: '0', job: {image: i}}".to_owned(),
        "{name: a, wait: {for: delete, on: pods, namespace: a, allNamespaces: false}}".to_owned(),
        "{name: a, wait: {for: 'condition=Ready=Unknown', on: pods/a}}".to_owned(),
        "{name: a, wait: {for: 'jsonpath={.a[?(@.b==\"c\")]}=x', on: deployments.v1.apps}}".to_owned(),
        "{name: a, rollout: {status: DaemonSet/x, namespace: n}}".to_owned(),
        "{name: a, helm: {chart: 'oci://u:p@h:5000/a/x:1.0.0+b'}}".to_owned(),
        "{name: a, helm: {chart: 'oci://h/x@sha256:0', auth: {username: u, password: p}}}".to_owned(),
        "{name: a, helm: {chart: 'x:1', repo: 'https://u:p@x', namespace: ''}}".to_owned(),
        "{name: a, delete: {release: a.b, namespace: n}}".to_owned(),
        "{name: a, delete: {resource: pods, allNamespaces: true, selector: a=b}}".to_owned(),
        "{name: a, patch: {target: a/b, type: json, patch: [{op: move, from: /a, path: ''}]}}".to_owned(),
        "{name: a, job: {image: i, env: {_A.b-c1: x}}}".to_owned(),
        format!("{{name: {long}, helm: {{chart: ./x, release: a}}}}"),
    ] {
        let source = steps(&format!("  - {step}\n"));
        let found = refusals(&source);
        if !found.is_empty() {
            wrong.push(format!("validate finds {found:?}: {source}"));
        }
        if let Err(error) = accepts(&source) {
            wrong.push(format!("the schema refuses {source}: {error}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
