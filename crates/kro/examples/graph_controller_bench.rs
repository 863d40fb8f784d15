//! Prints what a number of live Graphs costs, one JSON object a line.
//!
//! Every Graph is a promotion of three environments with a gate: six nodes, of which four are objects when it is at
//! rest. The cluster is the sandbox of the same process; the controller's own memory is the difference it makes.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectPatch, WriteOptions, crd};
use slipway_event::{Clock, ManualClock, SystemClock};
use slipway_kro::{ApiGroup, ControllerOptions, GraphController, definitions};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

type Failure = Box<dyn std::error::Error>;

#[allow(clippy::print_stdout)]
#[tokio::main]
async fn main() -> Result<(), Failure> {
    let graphs: usize = std::env::args().nth(1).ok_or("say how many Graphs")?.parse()?;
    let sandbox = Sandbox::builder().without_workloads().seed(1).build()?;
    let cluster = Cluster::new(sandbox.client());
    furnish(&cluster).await?;
    for number in 0..graphs {
        let options = WriteOptions::default();
        cluster.create(&at("Bundle", number, ""), &bundle(number), &options).await?;
        let reference =
            ObjectRef::new(ApiGroup::Experimental.graph(), Some("default"), format!("app-{number}"));
        cluster.create(&reference, &graph(number), &options).await?;
    }
    // A first controller brings every Graph to rest: dev and staging verified, the gate closed.
    let first = Running::start(&sandbox, Arc::new(SystemClock));
    settle(&first.controller, graphs).await;
    for env in ["dev", "staging"] {
        for number in 0..graphs {
            let patch = ObjectPatch::Merge(json!({"status": {"state": "Verified"}}));
            cluster.patch(&at("Step", number, env), &patch, &WriteOptions::default(), Some("status")).await?;
        }
        settle(&first.controller, graphs).await;
    }
    first.stop().await;
    let before = resident();
    // The one that is measured knows nothing of all that.
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    let began = Instant::now();
    let running = Running::start(&sandbox, clock.clone());
    settle(&running.controller, graphs).await;
    let cold = began.elapsed();
    let start_writes = running.cluster.call_counts().write_count();
    let memory = resident();
    // Half an hour in which nothing happens, resync included.
    let minutes = 40_u32;
    for _ in 0..minutes {
        clock.advance(Duration::from_secs(60));
        running.controller.clock_moved();
        tokio::task::yield_now().await;
    }
    settle(&running.controller, graphs).await;
    let idle = running.cluster.call_counts().write_count() - start_writes;
    let mut flips = Vec::new();
    for number in (0..graphs).step_by((graphs / 20).max(1)) {
        let patch = ObjectPatch::Merge(json!({"status": {"ready": true}}));
        let began = Instant::now();
        cluster.patch(&at("Gate", number, "gate"), &patch, &WriteOptions::default(), Some("status")).await?;
        while cluster.get(&at("Step", number, "prod")).await?.is_none() {
            tokio::time::sleep(Duration::from_micros(500)).await;
        }
        flips.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    flips.sort_by(f64::total_cmp);
    let megabytes = |memory: Option<f64>| memory.map(f64::round);
    println!(
        "{}",
        json!({
            "Graphs": graphs,
            "cold start, s": cold.as_secs_f64(),
            "writes at start": start_writes,
            "whole process, MB": megabytes(memory),
            "controller, MB": megabytes(memory.zip(before).map(|(after, before)| after - before)),
            "idle writes a minute": idle as f64 / f64::from(minutes),
            "flip to object, ms": flips[flips.len() / 2],
            "slowest, ms": flips.last(),
        })
    );
    running.stop().await;
    Ok(())
}

struct Running {
    controller: GraphController,
    cluster: Cluster,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(sandbox: &Sandbox, clock: Arc<dyn Clock>) -> Running {
        let cluster = Cluster::new(sandbox.client());
        let controller = GraphController::new(&cluster, clock, ControllerOptions::default());
        let stop = CancellationToken::new();
        let (running, token) = (controller.clone(), stop.clone());
        let task = tokio::spawn(async move {
            if let Err(error) = running.run(token).await {
                panic!("{error}");
            }
        });
        Running { controller, cluster, stop, task }
    }

    async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Waits until every Graph was walked and nothing is left to do.
async fn settle(controller: &GraphController, graphs: usize) {
    let mut quiet = 0;
    let mut walks = 0;
    // Nothing more for a while: what the last writes caused has been seen, too.
    while quiet < 20 {
        tokio::time::sleep(Duration::from_millis(10)).await;
        let is_quiet =
            controller.is_idle() && controller.graphs().len() == graphs && controller.walks() == walks;
        walks = controller.walks();
        quiet = if is_quiet { quiet + 1 } else { 0 };
    }
}

fn at(kind: &str, number: usize, suffix: &str) -> ObjectRef {
    let name = if suffix.is_empty() { format!("app-{number}") } else { format!("app-{number}-{suffix}") };
    ObjectRef::new(Gvk::new("test.io", "v1", kind), Some("default"), name)
}

fn bundle(number: usize) -> Value {
    json!({"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": format!("app-{number}")}, "spec": {}})
}

/// A promotion: dev, staging, a gate, prod.
fn graph(number: usize) -> Value {
    let step = |env: &str, more: Value| {
        let mut spec = json!({
            "pipeline": "app", "environment": env, "bundleRef": "${bundle.metadata.name}", "path": format!("environments/{env}"),
            "git": {"url": "https://example.com/team/gitops", "provider": "gitea", "secretRef": "git-token"},
            "update": {"strategy": "kustomize"}, "approval": "auto",
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            spec[key] = value.clone();
        }
        let verified = format!("${{{env}.status.state == \"Verified\"}}");
        json!({
            "id": env, "readyWhen": [verified], "propagateWhen": [verified],
            "template": {"apiVersion": "test.io/v1", "kind": "Step", "metadata": {"name": format!("app-{number}-{env}")}, "spec": spec},
        })
    };
    let nodes = json!([
        {"id": "bundle", "ref": {"apiVersion": "test.io/v1", "kind": "Bundle", "metadata": {"name": format!("app-{number}")}}},
        step("dev", json!({})),
        step("staging", json!({"upstreamVerified": "${dev.status.state}"})),
        {"id": "gate", "readyWhen": ["${gate.status.ready == true}"], "propagateWhen": ["${gate.status.ready == true}"],
         "template": {"apiVersion": "test.io/v1", "kind": "Gate", "metadata": {"name": format!("app-{number}-gate")},
                      "spec": {"expression": "!schedule.isWeekend", "upstreamEnvironment": "${staging.status.state}"}}},
        step("prod", json!({"upstreamVerified": "${staging.status.state}", "requiredGates": ["${gate.metadata.name}"]})),
    ]);
    json!({
        "apiVersion": "experimental.kro.run/v1alpha1", "kind": "Graph", "metadata": {"name": format!("app-{number}")},
        "spec": {"nodes": nodes},
    })
}

async fn furnish(cluster: &Cluster) -> Result<(), Failure> {
    let mut all = definitions(ApiGroup::Experimental);
    for kind in ["Step", "Gate", "Bundle"] {
        let plural = format!("{}s", kind.to_lowercase());
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let schema =
            json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}});
        all.push(json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.test.io")},
            "spec": {"group": "test.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}, "schema": schema}]},
        }));
    }
    for definition in &all {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        cluster.create(&ObjectRef::new(gvk, None, name), definition, &WriteOptions::default()).await?;
        crd::wait_until_served(cluster, definition, Duration::from_secs(20)).await?;
    }
    Ok(())
}

/// How much memory the process holds, in megabytes, where the system tells.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}
