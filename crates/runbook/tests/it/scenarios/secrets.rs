//! Secrets reach neither results nor events nor the record.

use std::sync::Arc;

use slipway_chart::secret::{self, EncryptionKey};
use slipway_runbook::plan::{self, Show};
use slipway_runbook::{Inputs, LoadOptions, Variables, junit, load};
use slipway_source::Decryption;

use crate::world::World;

const TOKEN: &str = "mark3r-token-value";

const STEPS: &str = "  - {name: maps, apply: {manifests: [{inline: '{apiVersion: v1, kind: ConfigMap, metadata: {name: \"${TOKEN}\"}, data: {a: \"${TOKEN}\"}}'}]}}
  - {name: never, when: '\"${TOKEN}\" == \"x\"', job: {image: busybox}}
  - {name: weak, when: '\"${WEAK}\" == \"x\"', job: {image: busybox}}
  - {name: away, needs: [maps], onError: continue, delete: {resource: 'secret/${TOKEN}', ignoreNotFound: false}}
  - {name: seen, needs: [maps], onError: continue, timeout: 100ms, wait: {for: 'jsonpath={.data.a}=x${TOKEN}', on: 'configmap/${TOKEN}'}}
";

fn world() -> World {
    let mut world = World::new();
    // Too common a word for the redactor to find in running text.
    world.environment =
        vec![("KHOOK_SECRET_TOKEN".into(), TOKEN.into()), ("KHOOK_SECRET_WEAK".into(), "admin".into())];
    world
}

#[tokio::test]
async fn secrets_reach_neither_results_nor_events_nor_the_record() {
    let world = world();
    let document = world.document("state: {}", STEPS);
    let mut told = Vec::new();
    let mut tell = |what: &str, text: String| told.push((what.to_owned(), text));
    for round in 0..2 {
        let planned =
            plan::plan(&document, world.place(), Show::Differences, None).await.expect("is planned");
        tell("plan", serde_json::to_string(&planned).unwrap());
        let report = world.try_apply(&document).await.expect("runs");
        assert!(!report.is_success(), "round {round}");
        tell("report", serde_json::to_string(&report).unwrap());
        tell("junit", junit(&report));
        let status = plan::status(&document, world.place()).await.expect("can be read");
        tell("status", serde_json::to_string(&status).unwrap());
        tell("record", world.record().await.expect("is kept").to_string());
    }
    tell("offline", serde_json::to_string(&plan::offline(&document, &world.redactor).unwrap()).unwrap());
    let planned = plan::plan_destroy(&document, world.place(), &world.options).await.expect("is planned");
    tell("destroy plan", serde_json::to_string(&planned).unwrap());
    let report = world.destroy_with("state: {}", STEPS).await;
    tell("destroy", serde_json::to_string(&report).unwrap());
    tell("events", world.said());
    for (what, text) in told {
        assert!(!text.contains("mark3r") && !text.contains("admin"), "{what}: {text}");
    }
}

/// A document's steps are found by their names again, and the record is called after the document.
#[test]
fn refuses_names_made_of_secrets() {
    let head = "apiVersion: khook.io/v1\nkind: Khook\n";
    for (rest, path) in [
        ("metadata: {name: '${WEAK}'}\nsteps: [{name: a, job: {image: x}}]\n", "metadata.name"),
        ("metadata: {name: x}\nsteps: [{name: 'a-${WEAK|upper|lower}', job: {image: x}}]\n", "steps[0].name"),
        (
            "metadata: {name: x}\nstate: {name: '${WEAK}'}\nsteps: [{name: a, job: {image: x}}]\n",
            "state.name",
        ),
        (
            "metadata: {name: x}\nstate: {namespace: '${WEAK}'}\nsteps: [{name: a, job: {image: x}}]\n",
            "state.namespace",
        ),
    ] {
        let environment = vec![("KHOOK_SECRET_WEAK".to_owned(), "admin".to_owned())];
        let variables = Variables::gather(&Inputs { environment, ..Inputs::default() }).expect("are good");
        let source = format!("{head}{rest}");
        let found = load("f.yaml", &source, &variables, LoadOptions::default(), &Default::default());
        let found = found.expect_err("is refused");
        let codes: Vec<_> =
            found.errors().map(|found| (found.problem.code.as_deref(), &*found.path)).collect();
        assert_eq!(codes, [(Some("E108"), path)], "{rest}");
        assert!(!format!("{found:?}").contains("admin"), "{found:?}");
    }
}

#[tokio::test]
async fn encrypted_values_of_a_chart_are_decrypted_and_not_shown() {
    let mut world = World::new();
    let key = EncryptionKey::parse("00112233445566778899aabbccddeeff").expect("is a key");
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {level: {{ .Values.level }}}\n";
    world.chart("web", "level: low\n", template);
    world.file("web/secret-values.yaml", &secret::encrypt("level: mark3r-level\n", &key).expect("encrypts"));
    let steps = "  - {name: web, helm: {chart: ./web, namespace: default}}\n";
    let other = EncryptionKey::parse(&"ab".repeat(16)).expect("is a key");
    world.sources.decryption = Decryption::Decrypt(Arc::new(other));
    let report = world.apply(steps).await;
    let told = serde_json::to_string(&report).unwrap();
    assert!(!report.is_success() && told.contains("decrypt secret-values.yaml"), "{told}");

    world.sources.decryption = Decryption::Decrypt(Arc::new(key));
    let document = world.document("", steps);
    let planned = plan::plan(&document, world.place(), Show::Differences, None).await.expect("is planned");
    let report = world.try_apply(&document).await.expect("runs");
    assert!(report.is_success(), "{report:?}");
    let live = world.get("v1", "ConfigMap", "default", "web").await;
    assert_eq!(live.expect("is there")["data"]["level"], "mark3r-level");
    let told = [serde_json::to_string(&planned), serde_json::to_string(&report)].map(Result::unwrap);
    for text in told.iter().chain([&world.said()]) {
        assert!(!text.contains("mark3r"), "{text}");
    }
}
