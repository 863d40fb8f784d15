//! Ways around gates of the org, none of which leads anywhere.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_promotion::kinds::{BundlePhase, KindSpec, PolicyGateSpec, StepState};

use super::world::{NAMESPACE, POLICY, World};

const MINUTE: Duration = Duration::from_secs(60);

/// A pipeline whose production is closed by the org.
async fn closed_production() -> World {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "closed", "prod", "false").await;
    world.pipeline_with(json!([{"name": "dev"}, {"name": "prod"}]), json!({"policyNamespaces": []})).await;
    // Bundles are younger than the gate.
    world.advance(Duration::from_secs(5));
    world
}

async fn assert_production_unchanged(world: &World) {
    world.pass_time(5 * MINUTE).await;
    let touched: Vec<String> =
        world.forge.subjects("main").into_iter().filter(|subject| subject.ends_with("to prod")).collect();
    assert_eq!(touched, Vec::<String>::new());
    assert!(world.forge.pulls().is_empty());
}

fn step(name: &str, world: &World, gates: Value) -> Value {
    json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
        "metadata": {"name": name, "namespace": NAMESPACE,
            "labels": {"kardinal.io/pipeline": "app", "kardinal.io/bundle": "app-1", "kardinal.io/environment": "prod"}},
        "spec": {"pipeline": "app", "environment": "prod", "bundleRef": "app-1", "path": "environments/prod",
            "git": {"url": world.forge.url(), "provider": "gitea", "secretRef": "forge"}, "health": {"type": "none"},
            "requiredGates": gates}})
}

/// B03: leaving the policy namespaces out of a pipeline changes nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_pipeline_cannot_leave_policy_namespaces_out() {
    let world = closed_production().await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    assert_production_unchanged(&world).await;
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_made_by_hand_is_not_carried_out() {
    let world = closed_production().await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    world.create(step("by-hand", &world, json!([]))).await;
    // A gate of one's own, labelled as if it were one of the org.
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "mine", "namespace": NAMESPACE, "labels": {"kardinal.io/instance": "true",
                "kardinal.io/scope": "org", "kardinal.io/gate-name": "closed", "kardinal.io/bundle": "app-1"}},
            "spec": {"expression": "true", "scope": "org", "bundleRef": "app-1", "pipeline": "app", "environment": "prod",
                "templateRef": {"namespace": POLICY, "name": "closed"}}}))
        .await;
    world.create(step("with-own-gate", &world, json!(["mine"]))).await;
    assert_production_unchanged(&world).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_graph_made_by_hand_reaches_neither_production_nor_the_gates_of_the_org() {
    let world = closed_production().await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    let gate = &world.gates(POLICY).await[0];
    let opened = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": gate.name(), "namespace": POLICY}, "spec": {"expression": "true"}});
    let permission = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "let-me", "namespace": POLICY, "labels": {
            "kardinal.io/scope": "org", "kardinal.io/type": "skip-permission", "kardinal.io/applies-to": "prod"}},
        "spec": {"expression": "true"}});
    let graph = World::graph_at("by-hand");
    world
        .create(json!({"apiVersion": graph.gvk.api_version(), "kind": "Graph",
        "metadata": {"name": "by-hand", "namespace": NAMESPACE},
        "spec": {"nodes": [
            {"id": "opened", "patch": opened}, {"id": "permission", "template": permission},
            {"id": "prod", "template": step("by-hand", &world, json!([]))},
        ]}}))
        .await;
    assert_production_unchanged(&world).await;
    assert_eq!(world.cluster.get(&PolicyGateSpec::at(POLICY, "let-me")).await.unwrap(), None);
    assert_eq!(world.gates(POLICY).await[0].spec.expression, "false");
}

/// Sets fields of a spec, by path.
fn with(spec: &Value, changes: &[(&str, Value)]) -> Value {
    let mut spec = spec.clone();
    for (path, value) in changes {
        *spec.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value.clone();
    }
    spec
}

/// Gates bind environments by name, so that a step has to be the one its bundle was admitted with in every part.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_of_an_open_environment_writes_nowhere_else() {
    let world = closed_production().await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    let dev = json!(world.step("app-1", "dev").await.expect("exists").spec);
    let step = |name: &str, labels: Value, spec: Value| {
        let mut all = json!({"kardinal.io/pipeline": "app", "kardinal.io/bundle": "app-1"});
        for (key, value) in labels.as_object().into_iter().flatten() {
            all[key] = value.clone();
        }
        json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
            "metadata": {"name": name, "namespace": NAMESPACE, "labels": all}, "spec": spec})
    };
    let elsewhere = world.forge.url().replace(".git", "-copy.git");
    let mut more = dev.clone();
    more["shard"] = json!("eu");
    more["region"] = json!("us");
    more["inputs"] = json!({});
    more["requiredGates"] = json!([]);
    more["upstreamEnvironments"] = json!([]);
    let ways: Vec<(&str, Value)> = vec![
        ("directory", with(&dev, &[("/path", json!("environments/prod"))])),
        ("directory-above", with(&dev, &[("/path", json!("environments"))])),
        ("directory-dots", with(&dev, &[("/path", json!("environments/dev/../prod"))])),
        ("directory-root", with(&dev, &[("/path", json!(""))])),
        ("branch", with(&dev, &[("/git/branch", json!("release"))])),
        (
            "rendered-branch",
            with(&dev, &[("/layout", json!("branch")), ("/git/branchPrefix", json!("env/prod-"))]),
        ),
        ("repository", with(&dev, &[("/git/url", json!(elsewhere))])),
        ("credentials", with(&dev, &[("/git/secretRef", json!({"name": "other"}))])),
        (
            "values-file",
            with(
                &dev,
                &[("/update", json!({"strategy": "helm", "helm": {"valuesFile": "../prod/values.yaml"}}))],
            ),
        ),
        (
            "replaced-file",
            with(
                &dev,
                &[(
                    "/update",
                    json!({"strategy": "replace",
            "replace": {"rules": [{"file": "../prod/kustomization.yaml", "regex": "newTag: (.*)"}]}}),
                )],
            ),
        ),
        (
            "steps",
            with(
                &dev,
                &[(
                    "/steps",
                    json!([{"uses": "git-clone"},
            {"uses": "kustomize-set-image", "config": {"path": "../prod"}}, {"uses": "git-commit"}, {"uses": "git-push"}]),
                )],
            ),
        ),
        (
            "own-step",
            with(
                &dev,
                &[("/steps", json!([{"uses": "deploy-prod", "webhook": {"url": "http://127.0.0.1:9/"}}]))],
            ),
        ),
        ("approval", with(&dev, &[("/approval", json!("pr-review"))])),
        ("environment", with(&dev, &[("/environment", json!("qa"))])),
        (
            "gated-environment",
            with(&dev, &[("/environment", json!("prod")), ("/path", json!("environments/prod"))]),
        ),
        ("pipeline", with(&dev, &[("/pipeline", json!("other"))])),
        ("region", with(&more, &[("/shard", Value::Null)])),
        (
            "inputs",
            with(
                &more,
                &[
                    ("/shard", Value::Null),
                    ("/region", Value::Null),
                    ("/inputs", json!({"environment": "prod"})),
                ],
            ),
        ),
        (
            "upstreams",
            with(
                &more,
                &[
                    ("/shard", Value::Null),
                    ("/region", Value::Null),
                    ("/upstreamEnvironments", json!(["prod"])),
                ],
            ),
        ),
        (
            "gates",
            with(
                &more,
                &[("/shard", Value::Null), ("/region", Value::Null), ("/requiredGates", json!(["mine"]))],
            ),
        ),
    ];
    for (name, spec) in &ways {
        world.create(step(name, json!({}), spec.clone())).await;
    }
    world.create(step("shard", json!({}), with(&more, &[("/region", Value::Null)]))).await;
    world.create(step("shard-label", json!({"kardinal.io/shard": "eu"}), dev.clone())).await;
    // A bundle that was refused has no steps.
    world.bundle_with("app-2", "1.30.0", json!({}), json!({"intent": {"target": "nowhere"}})).await;
    world.create(step("not-admitted", json!({}), with(&dev, &[("/bundleRef", json!("app-2"))]))).await;
    world.create(step("as-planned", json!({}), dev)).await;
    let head = world.forge.subjects("main");
    assert_production_unchanged(&world).await;
    assert_eq!(world.forge.subjects("main"), head);
    let read = async |name: &str| world.read_step(name).await;
    for name in ways.iter().map(|(name, _)| *name).chain(["not-admitted"]) {
        let step = read(name).await;
        let found = (step.state(), step.status.reason.as_deref());
        assert_eq!(found, (StepState::Pending, Some("NotDefined")), "{name}: {:?}", step.status);
        assert!(step.metadata.finalizers.is_empty(), "{name}");
    }
    // Nobody carries another shard's steps out here.
    assert_eq!(read("shard").await.status.state, None);
    assert_eq!(read("shard-label").await.status.state, None);
    assert_eq!(read("as-planned").await.state(), StepState::Verified);
    // None of them counts for the bundle.
    assert_eq!(world.read_bundle("app-1").await.phase(), BundlePhase::Promoting);
}

/// A step is held as soon as it is edited, and goes on once it is as it was.
#[tokio::test(flavor = "multi_thread")]
async fn a_step_that_was_edited_is_held_until_it_is_as_it_was() {
    let world = World::new(&["dev", "prod"]).await;
    world.gate(POLICY, "closed", "prod", "false").await;
    world.pipeline(json!([{"name": "dev", "approval": "pr-review"}, {"name": "prod"}])).await;
    world.advance(Duration::from_secs(5));
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::WaitingForMerge).await;
    let step = world.step("app-1", "dev").await.expect("exists");
    world.patch(&step.reference(), json!({"spec": {"path": "environments/prod"}})).await;
    let held = async || {
        world.step("app-1", "dev").await.expect("exists").status.reason.as_deref() == Some("NotDefined")
    };
    world.until("the step is held", held).await;
    world.merge("app-1", "dev").await;
    world.settle().await;
    assert_eq!(world.state("app-1", "dev").await, Some(StepState::WaitingForMerge));
    world.patch(&step.reference(), json!({"spec": {"path": "environments/dev"}})).await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    assert!(!world.forge.subjects("main").iter().any(|subject| subject.ends_with("to prod")));
}

/// The Graph of a bundle is the team's to edit; what comes of it is not carried out.
#[tokio::test(flavor = "multi_thread")]
async fn an_edited_graph_changes_no_step_that_counts() {
    let world = closed_production().await;
    world
        .pipeline_edit(json!([{"name": "dev", "approval": "pr-review", "health": {"type": "none"}},
        {"name": "prod", "health": {"type": "none"}}]))
        .await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::WaitingForMerge).await;
    let mut graph = world.graph("app-1").await.expect("exists");
    let nodes = graph["spec"]["nodes"].as_array_mut().expect("has nodes");
    nodes.retain(|node| node["template"]["kind"] != "PolicyGate" && node["ref"]["kind"] != "PolicyGate");
    for node in nodes.iter_mut().filter(|node| node["template"]["kind"] == "PromotionStep") {
        node["template"]["spec"]["path"] = json!("environments/prod");
        node["template"]["spec"]["requiredGates"] = json!([]);
        node["template"]["spec"]["upstreamStates"] = json!([]);
        if let Some(spec) = node["template"]["spec"].as_object_mut() {
            spec.remove("upstreamVerified");
        }
    }
    world.patch(&World::graph_at("app-1"), json!({"spec": graph["spec"]})).await;
    let is_held = async |environment: &str| {
        let step = world.step("app-1", environment).await;
        step.is_some_and(|step| step.status.reason.as_deref() == Some("NotDefined"))
    };
    world.until("both steps are held", async || is_held("dev").await && is_held("prod").await).await;
    let pulls = world.forge.pulls().len();
    world.pass_time(5 * MINUTE).await;
    assert!(!world.forge.subjects("main").iter().any(|subject| subject.ends_with("to prod")));
    assert_eq!(world.forge.pulls().len(), pulls);
}

/// The instance of an org gate stands where only the org may write; what a team makes in its place is not looked at.
#[tokio::test(flavor = "multi_thread")]
async fn the_gates_of_a_bundle_are_out_of_a_teams_reach() {
    let world = closed_production().await;
    world.gate(NAMESPACE, "our-own", "prod", "true").await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "dev", StepState::Verified).await;
    let own = async || world.gates(NAMESPACE).await.iter().any(|gate| gate.status.ready);
    world.until("the team's gate is evaluated", own).await;
    assert!(
        world
            .gates(NAMESPACE)
            .await
            .iter()
            .all(|gate| gate.spec.template_ref.as_ref().unwrap().name == "our-own")
    );
    // Everything the team may edit.
    for gate in world.gates(NAMESPACE).await {
        world
            .patch(
                &gate.reference(),
                json!({"spec": {"expression": "true", "scope": "org",
            "templateRef": {"namespace": POLICY, "name": "closed"}}}),
            )
            .await;
    }
    assert_production_unchanged(&world).await;
}
