//! The chart: installed by our own engine into a cluster that enforces roles and admission policies.

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_chart::UserValues;
use slipway_cluster::{Cluster, DeleteOptions, Error, ErrorClass, ObjectPatch, WriteOptions};
use slipway_controller::chart::{chart_files, write_chart};
use slipway_event::Events;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest, apply};
use slipway_sandbox::{Sandbox, User};
use slipway_source::{LoadContext, LoadedSource, SourcePath, SourceRequest};
use tokio_util::sync::CancellationToken;

const SYSTEM: &str = "kardinal-system";

fn request(chart: &std::path::Path, set: &[&str]) -> ReleaseRequest {
    let values =
        UserValues { set: set.iter().map(|one| (*one).to_owned()).collect(), ..UserValues::default() };
    let wanted = SourceRequest { values, ..SourceRequest::default() };
    let source = LoadedSource::load(
        &SourcePath::Chart(chart.to_owned()),
        wanted,
        &LoadContext::default(),
        &mut Vec::new(),
    );
    let source = source.unwrap_or_else(|error| panic!("{error}"));
    ReleaseRequest {
        name: "kardinal".into(),
        namespace: SYSTEM.into(),
        content: ReleaseContent::Source(Arc::new(source)),
        options: PlanOptions {
            missing_namespace: slipway_release::MissingNamespace::Create,
            no_final_tracking: true,
            ..PlanOptions::default()
        },
    }
}

async fn carry_out(cluster: &Cluster, request: &ReleaseRequest) {
    let ended =
        apply(cluster, request, &ExecuteOptions::default(), &Events::silent(), CancellationToken::new())
            .await;
    ended.unwrap_or_else(|failure| panic!("{failure:#?}"));
}

/// A cluster as somebody with a role of the chart sees it.
async fn somebody(sandbox: &Sandbox, admin: &Cluster, name: &str, role: &str) -> Cluster {
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": name}, "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]});
    create(admin, binding).await.expect("is bound");
    acting(sandbox, name)
}

fn acting(sandbox: &Sandbox, name: &str) -> Cluster {
    let user = User::new(name, &["system:authenticated"]);
    Cluster::new(kube::Client::new(sandbox.service_as(user), "default"))
}

async fn create(cluster: &Cluster, object: Value) -> Result<Value, Error> {
    cluster.create(&ObjectRef::of(&object), &object, &WriteOptions::default()).await
}

fn class<T>(result: Result<T, Error>) -> Option<ErrorClass> {
    result.err().map(|error| error.class)
}

fn gate(namespace: &str, name: &str, scope: &str, expression: &str) -> Value {
    json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": name, "namespace": namespace, "labels": {"kardinal.io/scope": scope, "kardinal.io/applies-to": "prod"}},
        "spec": {"expression": expression}})
}

fn step(name: &str) -> Value {
    json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PromotionStep", "metadata": {"name": name, "namespace": "default"},
        "spec": {"pipeline": "app", "environment": "dev", "bundleRef": "app-1", "git": {"url": "https://example.com/a.git"}}})
}

fn audit_event(name: &str) -> Value {
    json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "AuditEvent", "metadata": {"name": name, "namespace": "default"},
        "spec": {"timestamp": "2026-01-01T00:00:00Z", "bundleName": "app-1", "pipelineName": "app", "action": "PRMerged", "outcome": "Success"}})
}

/// F07 and F08.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_installs_and_its_roles_and_policies_hold() {
    let sandbox = Sandbox::builder().seed(1).rbac(true).build().expect("the sandbox starts");
    let cluster = Cluster::new(sandbox.client());
    let place = tempfile::tempdir().expect("a directory");
    write_chart(place.path()).expect("is written");
    let wanted =
        request(place.path(), &["replicaCount=2", "agent.accounts={eu}", "controller.distributed=true"]);
    create(
        &cluster,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "platform-policies"}}),
    )
    .await
    .expect("is created");
    carry_out(&cluster, &wanted).await;
    // Again: definitions are part of the release and upgraded with it.
    carry_out(&cluster, &wanted).await;
    cluster.invalidate_kinds().await;
    let deployment = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some(SYSTEM), "kardinal");
    let deployment = cluster.get(&deployment).await.expect("is read").expect("exists");
    let pod = &deployment["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let container = &pod["containers"][0];
    assert_eq!(container["securityContext"]["readOnlyRootFilesystem"], true);
    assert_eq!(container["securityContext"]["capabilities"]["drop"], json!(["ALL"]));
    assert!(container["args"].as_array().is_some_and(|args| args.contains(&json!("--distributed"))));

    let dev = somebody(&sandbox, &cluster, "dana", "kardinal-developer").await;
    let platform = somebody(&sandbox, &cluster, "paula", "kardinal-platform").await;
    let viewer = somebody(&sandbox, &cluster, "vera", "kardinal-viewer").await;
    let controller = acting(&sandbox, "system:serviceaccount:kardinal-system:kardinal");
    let agent = acting(&sandbox, "system:serviceaccount:kardinal-system:kardinal-agent-eu");
    let bundle = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "app-1", "namespace": "default", "labels": {"kardinal.io/pipeline": "app"}},
        "spec": {"artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:1"}]}}});
    create(&dev, bundle.clone()).await.expect("developers create bundles");
    let refused = Some(ErrorClass::Forbidden);
    let mut second = bundle;
    second["metadata"]["name"] = "app-2".into();
    assert_eq!(class(create(&viewer, second.clone()).await), refused, "viewers look");
    assert_eq!(class(create(&agent, second).await), refused, "agents write no bundles");

    create(&platform, gate("platform-policies", "org", "org", "true"))
        .await
        .expect("the platform team writes gates of the org");
    create(&dev, gate("default", "team", "team", "true")).await.expect("teams have gates of their own");
    assert!(
        create(&dev, gate("default", "org", "org", "true")).await.is_err(),
        "a gate of the org stands in a policy namespace"
    );
    assert!(
        create(&platform, gate("platform-policies", "empty", "org", " ")).await.is_err(),
        "a gate has an expression"
    );
    let mut instance = gate("default", "made-up", "team", "true");
    instance["metadata"]["labels"]["kardinal.io/instance"] = "true".into();
    assert!(create(&dev, instance).await.is_err(), "gates of bundles are made by the controller");

    assert!(create(&dev, step("by-hand")).await.is_err(), "steps are made by the controller");
    create(&controller, step("made")).await.expect("the controller writes steps");
    let at = ObjectRef::of(&step("made"));
    let change = ObjectPatch::Merge(json!({"metadata": {"annotations": {"a": "b"}}}));
    assert!(dev.patch(&at, &change, &WriteOptions::default(), None).await.is_err());
    agent.patch(&at, &change, &WriteOptions::default(), None).await.expect("agents annotate steps");

    let template = ObjectRef::core("ConfigMap", Some("default"), "app-graph");
    controller.get(&template).await.expect("the controller reads Graphs that were written for bundles");
    assert_eq!(class(agent.get(&template).await), refused, "agents need them not");

    create(&controller, audit_event("one")).await.expect("the controller records");
    assert!(create(&platform, audit_event("forged")).await.is_err(), "nobody else records");
    let entry = ObjectRef::of(&audit_event("one"));
    let change = ObjectPatch::Merge(json!({"spec": {"actor": "mallory"}}));
    for who in [&cluster, &controller, &platform] {
        assert!(
            who.patch(&entry, &change, &WriteOptions::default(), None).await.is_err(),
            "entries never change"
        );
        assert!(who.delete(&entry, &DeleteOptions::default()).await.is_err(), "entries never go");
    }

    // Deleting the release leaves the definitions and what people created.
    let gone = ReleaseRequest { content: ReleaseContent::Nothing, ..wanted };
    carry_out(&cluster, &gone).await;
    let definition = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let at = ObjectRef::new(definition, None, "bundles.kardinal.io");
    assert!(cluster.get(&at).await.expect("is read").is_some());
    let bundle = ObjectRef::new(Gvk::new("kardinal.io", "v1alpha1", "Bundle"), Some("default"), "app-1");
    assert!(cluster.get(&bundle).await.expect("is read").is_some());
    let deployment = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some(SYSTEM), "kardinal");
    assert!(cluster.get(&deployment).await.expect("is read").is_none());
}

/// F08: the definitions of another controller's Graphs are neither taken over nor used.
#[tokio::test(flavor = "multi_thread")]
async fn the_chart_installs_beside_another_controller_of_graphs() {
    let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
    let cluster = Cluster::new(sandbox.client());
    let place = tempfile::tempdir().expect("a directory");
    write_chart(place.path()).expect("is written");
    let theirs = slipway_kro::definitions(slipway_kro::ApiGroup::Experimental);
    let mut before = Vec::new();
    for definition in &theirs {
        before.push(create(&cluster, definition.clone()).await.expect("is created"));
    }
    let planned = slipway_release::plan(&cluster, &request(place.path(), &[]), &Events::silent()).await;
    assert!(planned.is_err(), "what belongs to nobody known is not taken over");
    carry_out(&cluster, &request(place.path(), &["graph.group=graph.kardinal.io"])).await;
    cluster.invalidate_kinds().await;
    for (definition, before) in theirs.iter().zip(before) {
        let now = cluster.get(&ObjectRef::of(definition)).await.expect("is read").expect("is there");
        assert_eq!(now["spec"], before["spec"]);
        assert_eq!(now["metadata"]["annotations"], before["metadata"]["annotations"]);
    }
    let served = cluster.find_kind(&slipway_kro::ApiGroup::Embedded.graph()).await.expect("is asked");
    assert!(served.is_some(), "Graphs have a group of their own");
    let role = ObjectRef::new(Gvk::new("rbac.authorization.k8s.io", "v1", "ClusterRole"), None, "kardinal");
    let role = cluster.get(&role).await.expect("is read").expect("exists").to_string();
    assert!(role.contains("graph.kardinal.io") && !role.contains("kro.run"), "{role}");
    let deployment = ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some(SYSTEM), "kardinal");
    let deployment = cluster.get(&deployment).await.expect("is read").expect("exists").to_string();
    assert!(deployment.contains("--graph-group=graph.kardinal.io"), "{deployment}");
}

#[test]
fn the_chart_in_the_program_is_the_one_of_the_repository() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/chart");
    for (path, text) in chart_files() {
        let stored = std::fs::read_to_string(format!("{root}/{path}")).unwrap_or_default();
        let fits = if path.starts_with("files/graph") {
            stored.trim_start_matches("---\n") == text
        } else {
            stored == text
        };
        assert!(fits, "{path} is stale");
    }
}

#[tokio::test]
async fn values_are_held_against_their_schema() {
    let sandbox = Sandbox::builder().seed(1).without_workloads().build().expect("the sandbox starts");
    let cluster = Cluster::new(sandbox.client());
    let place = tempfile::tempdir().expect("a directory");
    write_chart(place.path()).expect("is written");
    for set in [
        "replicaCount=many",
        "image.repository=",
        "service.apiPort=70000",
        "graph.group=kro.run",
        "nothing.like=this",
    ] {
        let wanted = request(place.path(), &[set]);
        let planned = slipway_release::plan(&cluster, &wanted, &Events::silent()).await;
        assert!(planned.is_err(), "{set}");
    }
}
