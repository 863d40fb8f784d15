//! An install with one request in twenty refused or lost and watches that break.

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, RetryPolicy};
use slipway_event::{Events, Memory, Redactor, RunId, SystemClock};
use slipway_release::ReleaseStatus;
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest, apply};
use slipway_sandbox::{Fault, FaultLayer, FaultRule, Sandbox};
use slipway_source::{Document, DocumentOrigin, RecordPart, RenderedSource};
use tokio_util::sync::CancellationToken;
use tower::Layer;

fn objects() -> Vec<Value> {
    let mut all: Vec<Value> = (0..8)
        .map(|number| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number}")}, "data": {"a": "1"}}))
        .collect();
    all.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {"metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "nginx"}]}}}}));
    all.push(json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate",
        "annotations": {"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": "hook-succeeded"}}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}}));
    all
}

/// Installs one release into a namespace of its own; tells how many requests were hit, or what went wrong.
pub(crate) async fn install(
    sandbox: &Sandbox,
    seed: u64,
    first_pause: std::time::Duration,
) -> Result<u64, String> {
    let faults = FaultLayer::new(seed);
    for fault in [
        Fault::TooManyRequests { retry_after: 0 },
        Fault::ServerError(500),
        Fault::ServerError(503),
        Fault::Reset,
        Fault::LoseAnswer,
    ] {
        faults.add(FaultRule::new(fault).probability(0.01));
    }
    faults.add(FaultRule::new(Fault::DropWatch { after: 1 }).verb("watch").probability(0.5));
    let client = kube::Client::new(faults.layer(sandbox.service()), "default");
    let cluster =
        Cluster::new(client).with_retry(RetryPolicy { first: first_pause, ..RetryPolicy::default() });
    let document = |object: Value| Document {
        stored: if object["kind"] == "Job" { RecordPart::Hook } else { RecordPart::Regular },
        object,
        origin: DocumentOrigin::new("demo/templates/all.yaml"),
    };
    let mut rendered = RenderedSource {
        documents: objects().into_iter().map(document).collect(),
        ..RenderedSource::default()
    };
    let metadata = json!({"apiVersion": "v2", "name": "demo", "version": "1.0.0"});
    rendered.metadata = metadata.as_object().cloned().unwrap_or_default();
    let request = ReleaseRequest {
        name: "demo".into(),
        namespace: format!("foul-{seed}").into(),
        content: ReleaseContent::Rendered(Box::new(rendered)),
        options: PlanOptions::default(),
    };
    let clock = Arc::new(SystemClock);
    let events = Events::new(RunId::generate(&*clock), clock, Redactor::new(), Arc::new(Memory::default()));
    let report =
        apply(&cluster, &request, &ExecuteOptions::default(), &events, CancellationToken::new()).await;
    match report {
        Ok(report) if report.status == ReleaseStatus::Deployed && report.revision == 1 => Ok(faults.hits()),
        Ok(report) => Err(format!("seed {seed}: {report:?}")),
        Err(failure) => Err(format!("seed {seed}: {failure}")),
    }
}
