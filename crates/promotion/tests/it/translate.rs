//! The Graph of a Bundle.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use slipway_kro::{ApiGroup, GraphSpec, check_spec};
use slipway_promotion::kinds::{
    Bundle, BundleSpec, MetricCheckSpec, Pipeline, PipelineSpec, PolicyGate, PolicyGateSpec,
    PromotionStepSpec,
};
use slipway_promotion::translate::{BuildError, GraphPlan, TranslationInput, adopt_graph, translate};

use crate::fixtures::{bundle, fixture, gate, pipeline, read};

fn plan(pipeline: &Pipeline, bundle: &Bundle, gates: &[PolicyGate]) -> Result<GraphPlan, BuildError> {
    let policy_namespaces = BTreeSet::from(["platform-policies".to_owned()]);
    let group = ApiGroup::Experimental;
    let input = TranslationInput {
        pipeline,
        bundle,
        gates,
        templates: &[],
        policy_namespaces: &policy_namespaces,
        group,
    };
    let plan = translate(&input)?;
    check_spec(&plan.spec).expect("the Graph compiles");
    Ok(plan)
}

fn names(plan: &GraphPlan) -> Vec<&str> {
    plan.environments.iter().map(|environment| environment.name.as_str()).collect()
}

/// The nodes each node reads: by an expression, or by saying so.
fn edges(spec: &GraphSpec) -> BTreeMap<String, BTreeSet<String>> {
    let ids: BTreeSet<&str> = spec.nodes.iter().map(|node| node.id.as_str()).collect();
    let reads = |node: &slipway_kro::NodeSpec| {
        let body = serde_json::to_string(&(&node.template, &node.reference)).expect("has a JSON form");
        let named = |id: &&&str| {
            let word = |at: usize| !body[..at].ends_with(|c: char| c.is_ascii_alphanumeric());
            body.match_indices(&format!("{id}.")).any(|(at, _)| word(at) && body[..at].contains("${"))
        };
        let mut found: BTreeSet<String> = ids.iter().filter(named).map(|id| (*id).to_owned()).collect();
        found.extend(node.depends_on.iter().cloned());
        found
    };
    spec.nodes.iter().map(|node| (node.id.clone(), reads(node))).collect()
}

fn body<'p>(plan: &'p GraphPlan, id: &str) -> &'p Value {
    let node = plan.spec.nodes.iter().find(|node| node.id == id).unwrap_or_else(|| panic!("no node {id}"));
    node.template.as_ref().or(node.reference.as_ref()).expect("has a body")
}

fn org(name: &str, environment: &str) -> PolicyGate {
    let labels = json!({"kardinal.io/scope": "org", "kardinal.io/applies-to": environment});
    gate("platform-policies", name, labels, json!({"expression": "true"}))
}

/// Every object of the design reads as it is written.
#[test]
fn the_examples_of_the_design_are_read_as_they_are_written() {
    read::<PipelineSpec>(fixture("pipeline"));
    let bundle = read::<BundleSpec>(fixture("bundle"));
    assert_eq!((bundle.spec.version().as_str(), bundle.pipeline()), ("1.29.0", Some("my-app")));
    assert_eq!(bundle.status.environments["prod"].evidence.as_ref().unwrap().metrics["success-rate"], 0.998);
    read::<BundleSpec>(fixture("config-bundle"));
    let step = read::<PromotionStepSpec>(fixture("promotion-step"));
    assert_eq!(step.spec.git.secret_ref.unwrap().name, "github-token");
    read::<MetricCheckSpec>(fixture("metric-check"));
    for name in ["no-weekend-deploys", "staging-soak", "allow-staging-skip-for-hotfix"] {
        read::<PolicyGateSpec>(fixture(name));
    }
    let graph: GraphSpec = serde_json::from_value(fixture("graph")["spec"].clone()).expect("is a Graph");
    check_spec(&graph).expect("the design's Graph compiles");
}

#[test]
fn the_generated_graph_has_the_nodes_and_edges_of_the_design() {
    let gates = ["no-weekend-deploys", "staging-soak"].map(|name| read::<PolicyGateSpec>(fixture(name)));
    let plan = plan(&read(fixture("pipeline")), &read(fixture("bundle")), &gates).unwrap();
    let design: GraphSpec = serde_json::from_value(fixture("graph")["spec"].clone()).expect("is a Graph");
    let ids = |spec: &GraphSpec| spec.nodes.iter().map(|node| node.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&plan.spec), ids(&design));
    let (made, drawn) = (edges(&plan.spec), edges(&design));
    for (node, upstreams) in &drawn {
        assert!(made[node].is_superset(upstreams), "{node}: {:?} lacks {upstreams:?}", made[node]);
    }
    // What a gate implies is written all the same: the step's own upstream, and the bundle of a gate.
    assert_eq!(
        made["prod"],
        BTreeSet::from(["bundle", "staging", "noWeekendDeploys", "stagingSoak"].map(str::to_owned))
    );
    assert_eq!(made["noWeekendDeploys"], BTreeSet::from(["bundle", "staging"].map(str::to_owned)));
    let prod = body(&plan, "prod");
    assert_eq!(prod["spec"]["upstreamVerified"], "${staging.status.state}");
    assert_eq!(prod["spec"]["git"]["secretRef"], json!({"name": "github-token"}));
    assert_eq!(prod["spec"]["health"]["timeout"], "15m");
    assert_eq!(prod["metadata"]["labels"]["kardinal.io/shard"], "prod-cluster");
    let soak = plan.spec.nodes.iter().find(|node| node.id == "stagingSoak").unwrap();
    assert_eq!(soak.ready_when, ["${stagingSoak.status.ready == true}"]);
    assert_eq!(
        soak.propagate_when[1],
        "${timestamp(stagingSoak.status.lastEvaluatedAt) > now() - duration(\"2m\")}"
    );
}

/// Gates of the org stand in the namespace of their templates: the Graph only reads them.
#[test]
fn org_gates_are_read_and_team_gates_are_made_by_the_graph() {
    let own = gate(
        "default",
        "qa-signoff",
        json!({"kardinal.io/applies-to": "prod"}),
        json!({"expression": "true"}),
    );
    let gates = [org("no-weekend", "prod"), own];
    let plan =
        plan(&pipeline(json!([{"name": "dev"}, {"name": "prod"}])), &bundle(json!({})), &gates).unwrap();
    let [instance] = plan.org_gates.as_slice() else { panic!("one org gate") };
    assert_eq!(instance.namespace(), "platform-policies");
    assert!(instance.is_instance() && !instance.metadata.labels.contains_key("kardinal.io/applies-to"));
    assert_eq!(instance.spec.template_ref.as_ref().unwrap().uid, "platform-policies/no-weekend");
    assert_eq!(instance.spec.bundle_namespace.as_deref(), Some("default"));
    let read = body(&plan, "noWeekend");
    assert_eq!((&read["metadata"]["name"], &read["spec"]), (&json!(instance.name()), &Value::Null));
    assert_eq!(body(&plan, "qaSignoff")["metadata"]["namespace"], "default");
    assert_eq!(
        body(&plan, "prod")["spec"]["requiredGates"],
        json!([
            "${noWeekend.metadata.namespace + \"/\" + noWeekend.metadata.name}",
            "${qaSignoff.metadata.name}"
        ])
    );
}

/// A04: fan-out and fan-in.
#[test]
fn environments_fan_out_and_in() {
    let pipeline = pipeline(json!([
        {"name": "staging"}, {"name": "prod-us", "dependsOn": ["staging"]}, {"name": "prod-eu", "dependsOn": ["staging"]},
        {"name": "smoke", "dependsOn": ["prod-us", "prod-eu"]},
    ]));
    let gates = [
        org("soak", "prod-us"),
        gate(
            "platform-policies",
            "all",
            json!({"kardinal.io/scope": "org"}),
            json!({"expression": "true", "appliesTo": ["prod-*"]}),
        ),
    ];
    let plan = plan(&pipeline, &bundle(json!({})), &gates).unwrap();
    let edges = edges(&plan.spec);
    assert!(edges["smoke"].is_superset(&BTreeSet::from(["prodUs".to_owned(), "prodEu".to_owned()])));
    assert_eq!(
        body(&plan, "smoke")["spec"]["upstreamStates"],
        json!(["${prodUs.status.state}", "${prodEu.status.state}"])
    );
    assert_eq!(body(&plan, "smoke")["spec"].get("upstreamVerified"), None);
    // One template, an instance of its own for each environment.
    assert_eq!(plan.org_gates.len(), 3);
    let instances: BTreeSet<&str> = plan.org_gates.iter().map(PolicyGate::name).collect();
    assert_eq!(instances.len(), 3);
}

#[test]
fn waves_follow_the_wave_before_them_even_over_a_gap() {
    let pipeline = pipeline(json!([
        {"name": "a", "wave": 1}, {"name": "b", "wave": 1}, {"name": "c", "wave": 3}, {"name": "d", "wave": 3, "dependsOn": ["a"]},
    ]));
    let plan = plan(&pipeline, &bundle(json!({})), &[]).unwrap();
    let upstreams: Vec<Vec<String>> = plan.environments.iter().map(|one| one.upstreams.clone()).collect();
    assert_eq!(
        upstreams,
        [vec![], vec![], vec!["a".to_owned(), "b".to_owned()], vec!["a".to_owned(), "b".to_owned()]]
    );
}

/// A05: a target keeps what leads to it; a start drops what comes before it.
#[test]
fn an_intent_narrows_the_environments() {
    let pipeline = pipeline(json!([
        {"name": "dev"}, {"name": "staging"}, {"name": "us", "dependsOn": ["staging"]}, {"name": "eu", "dependsOn": ["staging"]},
    ]));
    for (intent, expected) in [
        (json!({}), vec!["dev", "staging", "us", "eu"]),
        (json!({"target": "staging"}), vec!["dev", "staging"]),
        (json!({"targetEnvironment": "us"}), vec!["dev", "staging", "us"]),
        (json!({"from": "us", "target": "us"}), vec!["us"]),
        (json!({"from": "staging"}), vec!["staging", "us", "eu"]),
        (json!({"skip": ["staging"]}), vec!["dev", "us", "eu"]),
        (json!({"skipEnvironments": ["dev", "staging"]}), vec!["us", "eu"]),
    ] {
        let plan = plan(&pipeline, &bundle(intent.clone()), &[]).unwrap();
        assert_eq!(names(&plan), expected, "{intent}");
    }
    let skipped = plan(&pipeline, &bundle(json!({"skip": ["staging"]})), &[]).unwrap();
    assert_eq!(
        skipped.environments[1].upstreams,
        ["dev"],
        "the upstream of a skipped environment is inherited"
    );
    assert_eq!(body(&skipped, "us")["spec"]["upstreamStates"], json!(["${dev.status.state}"]));
}

/// A06: everything that cannot be translated has its own reason.
#[test]
fn what_cannot_be_translated_has_a_reason() {
    let line = json!([{"name": "dev"}, {"name": "prod"}]);
    let circle = json!([{"name": "a", "dependsOn": ["c"]}, {"name": "b", "dependsOn": ["a"]}, {"name": "c", "dependsOn": ["b"]}]);
    for (environments, intent, reason) in [
        (json!([]), json!({}), "NoEnvironments"),
        (circle, json!({}), "CircularDependency"),
        (json!([{"name": "a"}, {"name": "a"}]), json!({}), "DuplicateEnvironment"),
        (json!([{"name": "a", "dependsOn": ["b"]}]), json!({}), "UnknownDependency"),
        (line.clone(), json!({"target": "prd"}), "UnknownTarget"),
        (line.clone(), json!({"from": "prd"}), "UnknownStart"),
        (line.clone(), json!({"from": "prod", "target": "dev"}), "StartBeyondTarget"),
        (line.clone(), json!({"skip": ["qa"]}), "UnknownSkipEnvironment"),
        (line.clone(), json!({"skip": ["dev", "prod"]}), "AllEnvironmentsSkipped"),
        (
            json!([{"name": "dev", "promotionTemplate": {"name": "gone"}}]),
            json!({}),
            "UnknownPromotionTemplate",
        ),
    ] {
        let error = plan(&pipeline(environments), &bundle(intent), &[]).unwrap_err();
        assert_eq!(error.reason(), reason, "{error}");
    }
    let error = plan(&pipeline(line), &bundle(json!({"target": "prd"})), &[]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the target `prd` is no environment of the pipeline (did you mean `prod`?)"
    );
    let circle = json!([{"name": "a", "dependsOn": ["b"]}, {"name": "b", "dependsOn": ["a"]}]);
    let error = plan(&pipeline(circle), &bundle(json!({})), &[]).unwrap_err();
    insta::assert_snapshot!(error, @"environments depend on each other in a circle: a → b → a; remove `b` from the dependencies of `a`");
}

/// A07: names that clash as ids, or are words of the expression language.
#[test]
fn odd_names_give_distinct_nodes_that_compile() {
    let names = ["prod-1", "prod1", "bundle", "in", "true", "schedule", "region", "2nd"];
    let environments: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    let gates = names.map(|name| org(name, name));
    let plan = plan(&pipeline(json!(environments)), &bundle(json!({})), &gates).unwrap();
    let ids: BTreeSet<String> = plan.spec.nodes.iter().map(|node| node.id.to_lowercase()).collect();
    assert_eq!(ids.len(), 1 + 2 * names.len());
}

/// B17: texts of users are no expressions.
#[test]
fn texts_with_expressions_in_them_pass_untouched() {
    let own = gate(
        "default",
        "odd",
        json!({"kardinal.io/applies-to": "dev"}),
        json!({"expression": "\"${x}\" == 'a'", "message": "say ${x} and $${y} \"now\""}),
    );
    let pipeline = pipeline(
        json!([{"name": "dev", "steps": [{"uses": "notify", "config": {"url": "https://x", "text": "${y}"}}]}]),
    );
    let plan = plan(&pipeline, &bundle(json!({})), std::slice::from_ref(&own)).unwrap();
    let spec = &body(&plan, "odd")["spec"];
    let back = |value: &Value| {
        let segments = slipway_kro::scan(value.as_str().unwrap()).unwrap();
        let [slipway_kro::Segment::Text(text)] = segments.as_slice() else {
            panic!("an expression: {segments:?}")
        };
        text.to_string()
    };
    assert_eq!((back(&spec["message"]), back(&spec["expression"])), (own.spec.message, own.spec.expression));
    assert_eq!(back(&body(&plan, "dev")["spec"]["steps"][0]["config"]["text"]), "${y}");
}

#[test]
fn regions_repeat_a_step_and_its_dependents_read_all_of_them() {
    let pipeline = pipeline(json!([
        {"name": "prod", "regions": ["eu", "us"], "health": {"argocd": {"name": "my-app-{region}"}}},
        {"name": "smoke"},
    ]));
    let own =
        gate("default", "soak", json!({"kardinal.io/applies-to": "smoke"}), json!({"expression": "true"}));
    let plan = plan(&pipeline, &bundle(json!({})), &[own]).unwrap();
    let prod = body(&plan, "prod");
    assert_eq!(prod["metadata"]["name"], "my-app-1-prod-${region}");
    assert_eq!(
        (&prod["spec"]["path"], &prod["spec"]["region"]),
        (&json!("environments/prod/${region}"), &json!("${region}"))
    );
    assert_eq!(prod["spec"]["health"]["argocd"]["name"], "my-app-${region}");
    assert_eq!(body(&plan, "smoke")["spec"]["upstreamStates"], "${prod.map(s, s.status.state)}");
    assert_eq!(body(&plan, "soak")["spec"]["upstreamEnvironments"], "${prod.map(s, s.status.state)}");
}

/// B04, B16: a scope one gives oneself counts for nothing, and gates of a bundle are no templates.
#[test]
fn gates_are_trusted_by_where_they_stand() {
    let scoped = |namespace: &str, name: &str| {
        gate(
            namespace,
            name,
            json!({"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"}),
            json!({"expression": "true"}),
        )
    };
    let instance = gate(
        "default",
        "old-instance",
        json!({"kardinal.io/instance": "true", "kardinal.io/applies-to": "prod"}),
        json!({"expression": "true"}),
    );
    let frozen = gate(
        "default",
        "freeze-my-app",
        json!({"kardinal.io/freeze": "true"}),
        json!({"expression": "false", "appliesTo": ["*"]}),
    );
    let elsewhere = gate(
        "default",
        "staging-only",
        json!({"kardinal.io/applies-to": "staging"}),
        json!({"expression": "true"}),
    );
    let gates =
        [scoped("default", "self-made"), scoped("platform-policies", "real"), instance, frozen, elsewhere];
    let plan = plan(&pipeline(json!([{"name": "prod"}])), &bundle(json!({})), &gates).unwrap();
    assert_eq!(plan.environments[0].gates, ["real", "selfMade"]);
    assert_eq!(plan.org_gates.len(), 1);
    assert_eq!(body(&plan, "selfMade")["spec"]["scope"], "team");
}

#[test]
fn a_selector_limits_a_gate_to_pipelines_with_its_labels() {
    let mut labelled = pipeline(json!([{"name": "prod"}]));
    labelled.metadata.labels.insert("tier".to_owned(), "critical".to_owned());
    let selective = gate(
        "platform-policies",
        "strict",
        json!({"kardinal.io/scope": "org", "kardinal.io/applies-to": "prod"}),
        json!({"expression": "true", "selector": {"matchLabels": {"tier": "critical"}}}),
    );
    let plain = pipeline(json!([{"name": "prod"}]));
    assert_eq!(
        plan(&labelled, &bundle(json!({})), std::slice::from_ref(&selective)).unwrap().org_gates.len(),
        1
    );
    assert_eq!(plan(&plain, &bundle(json!({})), &[selective]).unwrap().org_gates.len(), 0);
}

#[test]
fn the_graph_belongs_to_its_bundle_and_names_its_pipeline() {
    let (pipeline, mut bundle) = (pipeline(json!([{"name": "dev"}])), bundle(json!({})));
    bundle.metadata.name = format!("my-app-{}", "x".repeat(80));
    let policy_namespaces = BTreeSet::new();
    let group = ApiGroup::Embedded;
    let input = TranslationInput {
        pipeline: &pipeline,
        bundle: &bundle,
        gates: &[],
        templates: &[],
        policy_namespaces: &policy_namespaces,
        group,
    };
    let manifest = translate(&input).unwrap().manifest(&input);
    let metadata = &manifest["metadata"];
    assert_eq!(manifest["apiVersion"], "graph.kardinal.io/v1alpha1");
    assert!(metadata["name"].as_str().unwrap().len() <= 63);
    assert_eq!(metadata["annotations"]["kardinal.io/bundle"], bundle.name());
    assert_eq!(metadata["ownerReferences"][0]["uid"], "b1");
    assert_eq!(metadata["annotations"]["kardinal.io/pipeline-generation"], "3");
}

/// The bar is 5 ms; run with `--nocapture` to see the time of an optimised build.
#[test]
fn a_pipeline_of_a_hundred_environments_is_translated_at_once() {
    let environments: Vec<Value> = (0..100).map(|index| json!({"name": format!("env-{index}")})).collect();
    let gates: Vec<PolicyGate> = (0..3)
        .map(|index| {
            let labels = json!({"kardinal.io/scope": "org"});
            gate(
                "platform-policies",
                &format!("gate-{index}"),
                labels,
                json!({"expression": "true", "appliesTo": ["*"]}),
            )
        })
        .collect();
    let (pipeline, bundle) = (pipeline(json!(environments)), bundle(json!({})));
    let policy_namespaces = BTreeSet::from(["platform-policies".to_owned()]);
    let group = ApiGroup::Experimental;
    let input = TranslationInput {
        pipeline: &pipeline,
        bundle: &bundle,
        gates: &gates,
        templates: &[],
        policy_namespaces: &policy_namespaces,
        group,
    };
    let started = std::time::Instant::now();
    let plan = translate(&input).unwrap();
    let took = started.elapsed();
    assert_eq!(plan.spec.nodes.len(), 401);
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("translated in {took:?}\n").as_bytes());
}

/// A Graph written by hand gets the gates of the org back, and cannot bring its own.
#[test]
fn a_written_graph_gets_the_gates_of_the_org_back() {
    let (pipeline, bundle) = (pipeline(json!([{"name": "dev"}, {"name": "prod"}])), bundle(json!({})));
    let policy_namespaces = BTreeSet::from(["platform-policies".to_owned()]);
    let gates = [org("no-weekend", "prod")];
    let group = ApiGroup::Experimental;
    let input = TranslationInput {
        pipeline: &pipeline,
        bundle: &bundle,
        gates: &gates,
        templates: &[],
        policy_namespaces: &policy_namespaces,
        group,
    };
    let step = |id: &str, labels: Value, environment: &str| {
        json!({"id": id, "template": {"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep",
            "metadata": {"name": id, "labels": labels}, "spec": {"environment": environment, "path": format!("environments/{environment}")}}})
    };
    let own = json!({"kardinal.io/pipeline": "my-app"});
    let authored = |nodes: Value| serde_json::from_value::<GraphSpec>(json!({"nodes": nodes})).unwrap();
    let made = adopt_graph(&input, &authored(json!([step("straight", own.clone(), "prod")]))).unwrap();
    assert_eq!(made.org_gates.len(), 1);
    let prod = body(&made, "straight");
    assert_eq!(prod["metadata"]["name"], "my-app-1-prod");
    assert_eq!(prod["spec"]["requiredGates"].as_array().unwrap().len(), 1);
    let gate = json!({"id": "gate", "template": {"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "no-weekend", "labels": {"kardinal.io/scope": "org"}}, "spec": {"expression": "true"}}});
    let mut elsewhere = step("elsewhere", own.clone(), "dev");
    elsewhere["template"]["spec"]["path"] = json!("environments/prod");
    elsewhere["template"]["spec"]["git"] = json!({"url": "https://git.example/other.git"});
    let misplaced = adopt_graph(&input, &authored(json!([elsewhere]))).unwrap_err();
    let BuildError::InvalidGraphTemplate { problems } = misplaced else { panic!("problems are told") };
    assert_eq!(problems.len(), 2, "{problems:?}");
    let wrong = authored(json!([gate, step("other", json!({}), "qa")]));
    let error = adopt_graph(&input, &wrong).unwrap_err();
    assert_eq!(error.reason(), "InvalidGraphTemplate");
    let BuildError::InvalidGraphTemplate { problems } = error else { panic!("problems are told") };
    assert_eq!(problems.len(), 3, "{problems:?}");
    // Whatever shape a part has that should be an object.
    let shapes = [json!("text"), json!(["list"]), json!(7), json!(true)];
    for (index, shape) in (0..3).flat_map(|index| shapes.iter().map(move |shape| (index, shape))) {
        let mut gate = json!({"id": "odd", "template": {"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "odd", "labels": {}}, "spec": {"expression": "true"}}});
        let template = &mut gate["template"];
        match index {
            0 => template["metadata"] = shape.clone(),
            1 => template["metadata"]["labels"] = shape.clone(),
            _ => template["spec"] = shape.clone(),
        }
        let error =
            adopt_graph(&input, &authored(json!([gate, step("prod", own.clone(), "prod")]))).unwrap_err();
        assert_eq!(error.reason(), "InvalidGraphTemplate");
        assert!(error.to_string().contains("is not an object"), "{error}");
    }
}
