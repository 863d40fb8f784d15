//! The examples that ship with the product, run on the sandbox as they are.

use std::path::PathBuf;

use serde_json::json;
use slipway_event::Redactor;
use slipway_runbook::{Document, Inputs, LoadOptions, RunContext, RunOptions, Variables, load};
use tokio_util::sync::CancellationToken;

use crate::world::{World, soon};

fn directory() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/runbooks")
}

fn read(name: &str) -> Document {
    let path = directory().join(name);
    let text = std::fs::read_to_string(&path).expect("the example is there");
    let environment = vec![("KHOOK_SECRET_ADMIN_TOKEN".to_owned(), "only-a-test-token".to_owned())];
    let variables = Variables::gather(&Inputs { environment, ..Inputs::default() }).unwrap();
    match load(name, &text, &variables, LoadOptions::default(), &Redactor::new()) {
        Ok(loaded) => {
            assert_eq!(loaded.warnings.iter().count(), 0, "{:?}", loaded.warnings);
            loaded.document
        }
        Err(found) => panic!("{}", found.into_problems()),
    }
}

async fn run(world: &World, document: &Document) -> slipway_runbook::RunReport {
    let place = RunContext { base: &directory(), ..world.place() };
    soon(slipway_runbook::apply(document, place, &RunOptions::default(), CancellationToken::new()))
        .await
        .expect("runs")
}

#[tokio::test]
async fn the_cni_swap() {
    let world = World::new();
    // What a new EKS cluster comes with.
    world.put(json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "aws-node", "namespace": "kube-system"}, "spec": {
        "selector": {"matchLabels": {"k8s-app": "aws-node"}}, "template": {"metadata": {"labels": {"k8s-app": "aws-node"}},
        "spec": {"containers": [{"name": "aws-node", "image": "cni"}]}}}})).await;
    world.put(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "coredns", "namespace": "kube-system"}, "spec": {
        "selector": {"matchLabels": {"k8s-app": "kube-dns"}}, "template": {"metadata": {"labels": {"k8s-app": "kube-dns"}},
        "spec": {"containers": [{"name": "coredns", "image": "dns"}]}}}})).await;
    let document = read("cni-swap.yaml");
    let report = run(&world, &document).await;
    assert!(report.is_success(), "{report:#?}");
    assert!(world.get("apps/v1", "DaemonSet", "kube-system", "aws-node").await.is_none());
    assert!(world.get("apps/v1", "DaemonSet", "kube-system", "cni-agent").await.is_some());
    let again = run(&world, &document).await;
    assert!(again.is_success());
    assert_eq!(again.state.unwrap().resumed, document.steps.len());
}

#[tokio::test]
async fn the_platform() {
    let world = World::new();
    let document = read("platform.yaml");
    let report = run(&world, &document).await;
    assert!(report.is_success(), "{report:#?}");
    for (api, kind, namespace, name) in [
        ("apps/v1", "DaemonSet", "kube-system", "cni-agent"),
        ("apps/v1", "Deployment", "ingress", "ingress-controller"),
        ("apps/v1", "Deployment", "cert-manager", "cert-manager"),
        ("certs.example.com/v1", "Issuer", "cert-manager", "platform"),
        ("v1", "Secret", "argocd", "repo-credentials"),
        ("apps/v1", "Deployment", "argocd", "argocd-server"),
        ("argo.example.com/v1", "Application", "argocd", "root"),
    ] {
        assert!(world.get(api, kind, namespace, name).await.is_some(), "{kind}/{name}");
    }
}
