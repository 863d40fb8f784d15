//! Missing rights, manifests that are huge or hostile, kinds that come later, documents that are odd.

use serde_json::json;
use slipway_event::Redactor;
use slipway_runbook::{ErrorKind, Inputs, LoadOptions, RunError, Variables, load};
use slipway_sandbox::{Sandbox, User};

use crate::world::{World, error, map_step};

/// A user with these rights in `default` and nowhere else.
async fn limited(rules: serde_json::Value) -> World {
    let sandbox = Sandbox::builder().seed(1).rbac(true).build().unwrap();
    let world = World::on(sandbox.clone(), User::new("alice", &["system:authenticated"]));
    world.put(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "r", "namespace": "default"}, "rules": rules})).await;
    world.put(json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": {"name": "r", "namespace": "default"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]})).await;
    world
}

#[tokio::test]
async fn missing_rights_are_named() {
    let maps = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "create", "patch"]}]);
    let world = limited(maps).await;
    assert!(world.apply(&map_step("a", "")).await.is_success());
    // The record needs Secrets, and says so before anything is done.
    let document = world.document("state: {}", &map_step("b", ""));
    let RunError::State(told) = world.try_apply(&document).await.unwrap_err() else { panic!() };
    assert!(told.to_string().contains("cannot read the record"), "{told}");
    assert!(slipway_runbook::state::store_hint(&told).unwrap().contains("Secrets"));
    assert!(world.config_map("b").await.is_none());
    for (steps, what) in [
        ("  - {name: d, delete: {resource: configmap/a}}\n", "delete"),
        ("  - {name: d, timeout: 5s, job: {image: i}}\n", "jobs"),
        ("  - {name: d, timeout: 5s, wait: {for: condition=Ready, on: pods}}\n", "pods"),
        (
            "  - {name: d, patch: {target: namespace/default, patch: {metadata: {labels: {a: b}}}}}\n",
            "namespaces",
        ),
        ("  - {name: d, rollout: {restart: deployment/x, namespace: default}}\n", "deployments"),
        (
            "  - {name: d, apply: {namespace: other, createNamespace: true, manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: x}}'}]}}\n",
            "namespaces",
        ),
    ] {
        let report = world.apply(steps).await;
        let told = error(&report, "d");
        assert_eq!(report.step("d").unwrap().error_kind, Some(ErrorKind::Forbidden), "{steps}: {told}");
        assert!(told.contains(what) && told.contains("alice"), "{told}");
    }
}

#[tokio::test]
async fn hostile_manifests_are_refused_quickly() {
    let world = World::new();
    let deep = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: x}}\ndata: {}{}\n",
        "[".repeat(5000),
        "]".repeat(5000)
    );
    let bomb: String = std::iter::once("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned())
        .chain((1..10).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(", "))))
        .collect();
    let twice = "apiVersion: v1\nkind: ConfigMap\nkind: Secret\nmetadata: {name: x}\n".to_owned();
    for (name, text) in
        [("deep", deep), ("bomb", bomb), ("twice", twice), ("tag", "!!python/object x\n".to_owned())]
    {
        world.file(&format!("{name}.yaml"), &text);
        let report = world
            .apply(&format!("  - {{name: a, retries: 3, apply: {{manifests: [{{file: {name}.yaml}}]}}}}\n"))
            .await;
        assert!(!report.is_success(), "{name}");
    }
    let file = std::fs::File::create(world.dir.path().join("huge.yaml")).unwrap();
    file.set_len(64 << 20).unwrap();
    let report = world.apply("  - {name: a, apply: {manifests: [{file: huge.yaml}]}}\n").await;
    assert!(error(&report, "a").contains("larger than 32 MiB"), "{report:?}");
    // Names that would lead elsewhere.
    for name in ["../../secrets/x", "a/b", "x?dryRun=All", "%2e%2e"] {
        let report = world.apply(&format!("  - {{name: a, apply: {{manifests: [{{inline: '{{apiVersion: v1, kind: ConfigMap, metadata: {{name: \"{name}\"}}}}'}}]}}}}\n")).await;
        assert!(!report.is_success(), "{name}");
    }
}

#[tokio::test]
async fn kinds_that_appear_while_the_run_is_under_way() {
    let world = World::new();
    // A chart brings the definition, a later step uses it.
    world.chart("operator", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: operator}\n");
    world.file("operator/crds/x.yaml", "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: xs.demo.io}\nspec:\n  group: demo.io\n  scope: Cluster\n  names: {plural: xs, singular: x, kind: X}\n  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}]\n");
    let steps = "  - {name: operator, timeout: 30s, helm: {chart: ./operator}}
  - {name: use, needs: [operator], timeout: 60s, retries: 3, retryDelay: 10ms, apply: {manifests: [{inline: '{apiVersion: demo.io/v1, kind: X, metadata: {name: one}, spec: {a: 1}}'}]}}
  - {name: tune, needs: [use], patch: {target: x/one, type: merge, patch: {spec: {b: 2}}}}
  - {name: seen, needs: [tune], timeout: 60s, wait: {for: 'jsonpath={.spec.b}=2', on: xs}}
  - {name: gone, needs: [seen], timeout: 60s, delete: {resource: xs.demo.io/one}}
";
    let report = world.apply(steps).await;
    assert!(report.is_success(), "{report:#?}");
}

fn codes(text: &str, set: &[&str], environment: &[(&str, &str)]) -> Vec<String> {
    let inputs = Inputs {
        set: set.iter().map(|flag| (*flag).to_owned()).collect(),
        environment: environment
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect(),
        ..Inputs::default()
    };
    let variables = Variables::gather(&inputs).unwrap();
    let found = match load("f.yaml", text, &variables, LoadOptions::default(), &Redactor::new()) {
        Ok(loaded) => loaded.warnings,
        Err(found) => found,
    };
    found
        .iter()
        .map(|found| {
            let line = found.problem.at.as_ref().map_or(0, |at| at.line);
            format!("{line} {}", found.problem.code.as_deref().unwrap_or("?"))
        })
        .collect()
}

type Case =
    (String, &'static [&'static str], &'static [(&'static str, &'static str)], &'static [&'static str]);

#[test]
fn warnings_of_the_catalogue() {
    let head = "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: demo}\n";
    let map = "{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}'}";
    let cases: Vec<Case> = vec![
        ("state: {}\nsteps:\n  - {name: a, apply: {manifests: [{url: 'https://x.example/a'}]}}\n".to_owned(), &[], &[], &["6 W004"]),
        ("state: {}\nsteps:\n  - {name: a, helm: {chart: c, repo: 'https://x.example', version: 1.0.0, valuesFrom: [{url: 'https://x.example/v'}]}}\n".to_owned(), &[], &[], &["6 W004"]),
        ("steps:\n  - {name: a, apply: {manifests: [{url: 'https://x.example/a'}]}}\n".to_owned(), &[], &[], &[]),
        (format!("steps:\n  - {{name: a, when: 'true || ${{X}} == \"a\"', apply: {{manifests: [{map}]}}}}\n"), &["X=\"a\""], &[], &["5 W005"]),
        (format!("steps:\n  - {{name: a, apply: {{manifests: [{map}]}}}}\n"), &["TYPO=1"], &[], &["0 W006"]),
        (format!("steps:\n  - {{name: a, when: 'vars.get(\"SEEN\", \"\") == \"1\"', apply: {{manifests: [{map}]}}}}\n"), &["SEEN=1"], &[], &[]),
        ("steps:\n  - {name: a, apply: {manifests: [{inline: 'a: b: c'}]}}\n".to_owned(), &[], &[], &["5 W008"]),
        ("steps:\n  - {name: a, apply: {manifests: [{inline: 'metadata: {name: x}'}]}}\n".to_owned(), &[], &[], &["5 W008"]),
        ("steps:\n  - {name: a, job: {image: i, env: {T: '${TOKEN}'}}}\n".to_owned(), &[], &[("KHOOK_SECRET_TOKEN", "hunter2secret")], &["5 W009"]),
        ("steps:\n  - {name: a, job: {image: i, args: ['${TOKEN|b64enc}']}}\n".to_owned(), &[], &[("KHOOK_SECRET_TOKEN", "hunter2secret")], &["5 W009"]),
        ("steps:\n  - name: a\n    job: {image: i, args: [\"${X}\"]}\n".to_owned(), &["X=one\n  two"], &[], &["6 W011"]),
        ("steps:\n  - name: a\n    job:\n      image: i\n      args:\n        - |\n          ${X|nindent 10}\n".to_owned(), &["X=one\ntwo"], &[], &[]),
        ("state:\nsteps:\n  - {name: a, job: {image: i}}\n".to_owned(), &[], &[], &["4 W012"]),
        ("state: {}\nsteps:\n  - {name: a, job: {image: i, skipIf: succeeded}}\n".to_owned(), &[], &[], &["6 W014"]),
        ("steps:\n  - {name: a, timeout: 30s, helm: {chart: ./c, atomic: true}}\n".to_owned(), &[], &[], &["5 W015"]),
    ];
    for (body, set, environment, expected) in cases {
        assert_eq!(codes(&format!("{head}{body}"), set, environment), expected, "{body}");
    }
}

#[tokio::test]
async fn local_files_can_be_looked_at_before_anything_runs() {
    let world = World::new();
    world.file("good.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n");
    world.file("bad.yaml", "apiVersion: v1\nkind: [\n");
    world.file("nameless.yaml", "apiVersion: v1\nkind: ConfigMap\n");
    world.file("k/kustomization.yaml", "resources: [none.yaml]\n");
    world.file("list.yaml", "- a\n");
    world.chart("app", "", "");
    world.file("no-chart/README", "");
    let found = |step: &str| -> Vec<String> {
        let document = world.document("", &format!("  - {{name: a, {step}}}\n"));
        let found = slipway_runbook::check::files(&document, world.dir.path(), &world.redactor);
        found
            .iter()
            .map(|found| format!("{} {}", found.problem.code.as_deref().unwrap(), found.path))
            .collect()
    };
    let of = |source: &str| found(&format!("apply: {{manifests: [{source}]}}"));
    assert_eq!(of("{file: good.yaml}"), [""; 0]);
    assert_eq!(of("{file: good.yaml}, {url: 'https://x.example/never-asked'}"), [""; 0]);
    assert_eq!(of("{file: none.yaml}"), ["E001 steps[0].apply.manifests"]);
    assert_eq!(of("{file: bad.yaml}"), ["E003 steps[0].apply.manifests"]);
    assert_eq!(of("{file: nameless.yaml}"), ["E003 steps[0].apply.manifests"]);
    assert_eq!(of("{kustomize: ./k}"), ["E003 steps[0].apply.manifests"]);
    assert_eq!(of("{inline: 'a: b: c'}"), ["E003 steps[0].apply.manifests"]);
    assert_eq!(found("when: 'false', apply: {manifests: [{file: none.yaml}]}"), [""; 0]);
    assert_eq!(found("delete: {manifests: [{file: none.yaml}]}"), ["E001 steps[0].delete.manifests"]);
    assert_eq!(found("helm: {chart: ./app}"), [""; 0]);
    assert_eq!(found("helm: {chart: ./nothing}"), ["E001 steps[0].helm.chart"]);
    assert_eq!(found("helm: {chart: ./no-chart}"), ["E003 steps[0].helm.chart"]);
    assert_eq!(
        found("helm: {chart: ./app, valuesFrom: [{file: good.yaml}, {file: list.yaml}, {file: none.yaml}]}"),
        ["E003 steps[0].helm.valuesFrom[1]", "E001 steps[0].helm.valuesFrom[2]"]
    );
}

/// Opening a pipe nobody writes to waits for ever, and a device never ends.
#[cfg(unix)]
#[tokio::test]
async fn refuses_pipes_and_devices_where_a_file_is_named() {
    let world = World::new();
    let pipe = world.dir.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("there is mkfifo").success());
    world.chart("web", "", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n");
    std::os::unix::fs::symlink("/dev/zero", world.dir.path().join("zero")).expect("can be linked");
    for file in ["./pipe", "./zero"] {
        let steps = format!(
            "  - {{name: manifest, onError: continue, apply: {{manifests: [{{file: {file}}}]}}}}
  - {{name: values, onError: continue, helm: {{chart: ./web, valuesFrom: [{{file: {file}}}]}}}}
  - {{name: chart, onError: continue, helm: {{chart: {file}}}}}
  - {{name: delete, delete: {{manifests: [{{file: {file}}}]}}}}
"
        );
        // The record takes the digests of the files too.
        let report = world.apply_with("state: {}", &steps).await;
        for step in ["manifest", "values", "chart", "delete"] {
            let error = error(&report, step);
            assert!(error.contains("regular file"), "{file} {step}: {error}");
        }
        let document = world.document("state: {}", &steps);
        let found = slipway_runbook::check::files(&document, world.dir.path(), &world.redactor);
        assert_eq!(found.errors().count(), 4, "{found:?}");
        let planned = slipway_runbook::plan::plan(&document, world.place(), Default::default(), None);
        assert_eq!(crate::world::soon(planned).await.expect("is planned").steps.len(), 4);
    }
}

/// A template that never ends does not outlast the step.
#[tokio::test(flavor = "multi_thread")]
async fn a_steps_timeout_ends_a_chart_that_renders_for_ever() {
    let world = World::new();
    world.chart("slow", "", "{{ range until 1000000000 }}{{ sha256sum (toString .) | repeat 100 }}{{ end }}");
    let report = world.apply("  - {name: a, timeout: 500ms, helm: {chart: ./slow}}\n").await;
    assert!(!report.is_success(), "{report:?}");
}
