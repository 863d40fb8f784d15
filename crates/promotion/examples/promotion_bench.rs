//! Prints what translating and promoting cost, one JSON object a line: `promotion_bench translate` or `promotion_bench GRAPHS`.
//!
//! Ten bundles wait in each pipeline of five environments, each before a closed gate with a Graph of its own. The cluster is
//! the sandbox of the same process; the controller's own memory is the difference it makes.
#![allow(clippy::print_stdout)]

#[path = "measure/cpu_time.rs"]
mod cpu_time;

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_cluster::{Cluster, ObjectPatch, WriteOptions, crd};
use slipway_event::{Clock, ManualClock, Redactor, SystemClock};
use slipway_git::{CacheOptions, Git, RepositoryCache};
use slipway_kro::ApiGroup;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{
    self, Bundle, BundleSpec, KindSpec as _, Pipeline, PolicyGate, PromotionStepSpec,
};
use slipway_promotion::translate::{TranslationInput, translate};
use slipway_promotion::{PromotionController, PromotionServices, PromotionSettings};
use slipway_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

use cpu_time::CpuTimer;

type Failure = Box<dyn std::error::Error>;

const NAMESPACE: &str = "default";
/// The bundles of one pipeline.
const BUNDLES: usize = 10;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    match std::env::args().nth(1).as_deref() {
        Some("translate") => measure_translation(),
        Some(count) => measure_promotions(count.parse()?).await,
        None => Err("say `translate`, or how many Graphs".into()),
    }
}

/// A pipeline of a hundred environments with three gates each.
fn measure_translation() -> Result<(), Failure> {
    let environments: Vec<Value> = (0..100).map(|index| json!({"name": format!("env-{index}")})).collect();
    let pipeline: Pipeline = kinds::parse(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": "app", "namespace": NAMESPACE},
        "spec": {"git": {"url": "https://git.example/gitops.git"}, "environments": environments},
    }))?;
    let bundle: Bundle = kinds::parse(bundle_manifest(0, 0))?;
    let gates = (0..3).map(|index| {
        kinds::parse(json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": format!("gate-{index}"), "namespace": "platform-policies", "labels": {"kardinal.io/scope": "org"}},
            "spec": {"expression": "!schedule.isWeekend", "appliesTo": ["*"]},
        }))
    });
    let gates: Vec<PolicyGate> = gates.collect::<Result<_, _>>()?;
    let policy_namespaces = ["platform-policies".to_owned()].into();
    let input = TranslationInput {
        pipeline: &pipeline,
        bundle: &bundle,
        gates: &gates,
        templates: &[],
        policy_namespaces: &policy_namespaces,
        group: ApiGroup::Experimental,
    };
    let mut times = Vec::new();
    let mut nodes = 0;
    for _ in 0..21 {
        let began = CpuTimer::start();
        nodes = translate(&input)?.spec.nodes.len();
        times.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    times.sort_by(f64::total_cmp);
    println!("{}", json!({"environments": 100, "nodes": nodes, "translate, ms": times[times.len() / 2]}));
    Ok(())
}

async fn measure_promotions(graphs: usize) -> Result<(), Failure> {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build()?;
    let cluster = Cluster::new(sandbox.client());
    let place = tempfile::tempdir()?;
    furnish(&cluster).await?;
    let pipelines = graphs.div_ceil(BUNDLES);
    for pipeline in 0..pipelines {
        create(&cluster, pipeline_manifest(pipeline)).await?;
    }
    for number in 0..graphs {
        create(&cluster, bundle_manifest(number % pipelines, number)).await?;
    }
    // A first controller brings every bundle before its gate.
    let first = Running::start(&sandbox, Arc::new(SystemClock), &place.path().join("first"))?;
    settle(&first.controller).await;
    first.stop().await;
    let before = resident();
    let clock = Arc::new(ManualClock::at(SystemClock.now()));
    let began = Instant::now();
    let running = Running::start(&sandbox, clock.clone(), &place.path().join("second"))?;
    settle(&running.controller).await;
    let cold = began.elapsed();
    let start_writes = running.cluster.call_counts().write_count();
    let memory = resident();
    // Nothing happens for a while, rechecks of gates and resyncs of Graphs included.
    let minutes = 40_u32;
    for _ in 0..minutes {
        clock.advance(Duration::from_secs(60));
        running.controller.clock_moved();
        settle(&running.controller).await;
    }
    let idle = running.cluster.call_counts().write_count() - start_writes;
    let mut flips = Vec::new();
    for number in (0..graphs).step_by((graphs / 20).max(1)) {
        let at = BundleSpec::at(NAMESPACE, &format!("bundle-{number}"));
        let step = PromotionStepSpec::at(NAMESPACE, &format!("bundle-{number}-one"));
        let patch = ObjectPatch::Merge(json!({"metadata": {"labels": {"go": "yes"}}}));
        let began = Instant::now();
        cluster.patch(&at, &patch, &WriteOptions::default(), None).await?;
        while cluster.get(&step).await?.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        flips.push(began.elapsed().as_secs_f64() * 1000.0);
    }
    flips.sort_by(f64::total_cmp);
    let megabytes = |memory: Option<f64>| memory.map(f64::round);
    println!(
        "{}",
        json!({
            "Graphs": graphs,
            "pipelines": pipelines,
            "cold start, s": cold.as_secs_f64(),
            "writes at start": start_writes,
            "whole process, MB": megabytes(memory),
            "controller, MB": megabytes(memory.zip(before).map(|(after, before)| after - before)),
            "idle writes a minute": idle as f64 / f64::from(minutes),
            "flip to step, ms": flips[flips.len() / 2],
            "slowest, ms": flips.last(),
        })
    );
    running.stop().await;
    Ok(())
}

struct Running {
    controller: PromotionController,
    cluster: Cluster,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(sandbox: &Sandbox, clock: Arc<dyn Clock>, place: &std::path::Path) -> Result<Self, Failure> {
        let cluster = Cluster::new(sandbox.client());
        let stop = CancellationToken::new();
        let git = Arc::new(Git::default());
        let options = CacheOptions::default();
        let repositories = RepositoryCache::open(place, options, git, clock.clone(), stop.clone())?;
        let services = PromotionServices {
            cluster: cluster.clone(),
            clock,
            repositories,
            redactor: Redactor::new(),
            stop: stop.clone(),
        };
        let mut settings = PromotionSettings::default();
        settings.steps.outbound.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
        let controller = PromotionController::new(services, settings);
        let running = controller.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = running.run().await {
                panic!("{error}");
            }
        });
        Ok(Self { controller, cluster, stop, task })
    }

    async fn stop(self) {
        self.stop.cancel();
        let _ = self.task.await;
    }
}

/// Waits until nothing is left to do but wait for the clock.
async fn settle(controller: &PromotionController) {
    let (mut quiet, mut turns) = (0, 0);
    while quiet < 5 {
        tokio::time::sleep(Duration::from_millis(5)).await;
        let now = controller.turns();
        quiet = if controller.is_idle() && now == turns { quiet + 1 } else { 0 };
        turns = now;
    }
}

async fn create(cluster: &Cluster, object: Value) -> Result<(), Failure> {
    cluster.create(&ObjectRef::of(&object), &object, &WriteOptions::default()).await?;
    Ok(())
}

fn pipeline_manifest(number: usize) -> Value {
    let environments: Vec<Value> = ["one", "two", "three", "four", "five"]
        .iter()
        .map(|name| json!({"name": name, "health": {"type": "none"}}))
        .collect();
    json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": format!("app-{number}"), "namespace": NAMESPACE},
        "spec": {"git": {"url": "https://127.0.0.1:9/team/gitops.git", "provider": "none"}, "supersede": "Never",
            "environments": environments},
    })
}

fn bundle_manifest(pipeline: usize, number: usize) -> Value {
    json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": format!("bundle-{number}"), "namespace": NAMESPACE,
            "labels": {"kardinal.io/pipeline": format!("app-{pipeline}")}},
        "spec": {"artifacts": {"images": [{"name": "app", "reference": format!("ghcr.io/acme/app:1.{number}.0")}]}},
    })
}

async fn furnish(cluster: &Cluster) -> Result<(), Failure> {
    let all = kinds::definitions().into_iter().chain(slipway_kro::definitions(ApiGroup::Experimental));
    for definition in all {
        let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
        let name = definition["metadata"]["name"].as_str().unwrap_or_default();
        cluster.create(&ObjectRef::new(gvk, None, name), &definition, &WriteOptions::default()).await?;
        crd::wait_until_served(cluster, &definition, Duration::from_secs(20)).await?;
    }
    create(
        cluster,
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "platform-policies"}}),
    )
    .await?;
    create(
        cluster,
        json!({
            "apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "go", "namespace": NAMESPACE,
                "labels": {"kardinal.io/scope": "team", "kardinal.io/applies-to": "one"}},
            "spec": {"expression": "bundle.labels.go == 'yes'"},
        }),
    )
    .await
}

/// The memory the process holds, in megabytes, where the system tells.
fn resident() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}
