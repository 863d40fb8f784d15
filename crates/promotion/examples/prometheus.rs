//! Metric checks against a real Prometheus: `cargo xtask conformance promotion-metrics`.
//!
//! Prints `case: ok`, or the case and what differs.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{Cluster, WriteOptions, crd};
use slipway_event::SystemClock;
use slipway_http::{ClientOptions, HttpClient};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{self, KindSpec, MetricCheckSpec, MetricResult};
use slipway_promotion::metric::{MetricReconciler, PrometheusError, query_prometheus};
use slipway_promotion::{OutboundClients, OutboundPolicy};
use slipway_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let address = std::env::args().nth(1).ok_or("the address of Prometheus is missing")?;
    let http = HttpClient::new(&ClientOptions::default())?;
    wait_until_ready(&http, &address).await?;
    let mut policy = OutboundPolicy::default();
    policy.addresses.allowed_hosts.insert("127.0.0.1".to_owned());
    let outbound = OutboundClients::new(policy, CancellationToken::new());
    queries(&outbound, &address).await;
    checks(&outbound, &address).await
}

/// It listens before it answers queries.
async fn wait_until_ready(http: &HttpClient, address: &str) -> Outcome {
    for _ in 0..300 {
        if http.get(&format!("{address}/-/ready"), None).await.is_ok() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Err("Prometheus did not become ready".into())
}

fn report(case: &str, found: &str, expected: &str) {
    if found == expected {
        println!("{case}: ok");
    } else {
        println!("{case}: {found}, not {expected}");
    }
}

/// Answers of every kind.
async fn queries(outbound: &OutboundClients, address: &str) {
    for (query, expected) in [
        ("vector(0.998)", "0.998"),
        ("scalar(vector(3))", "3"),
        ("1 + 1", "2"),
        ("vector(1) / 0", "inf"),
        ("-vector(1) / 0", "-inf"),
        ("vector(0) / 0", "no data"),
        ("nothing{app=\"shop\"}", "no data"),
        (
            "sum(rate(nothing{app=\"shop\",status!~\"5..\"}[5m])) / sum(rate(nothing{app=\"shop\"}[5m]))",
            "no data",
        ),
        ("vector(1) or label_replace(vector(1), \"a\", \"b\", \"\", \"\")", "2 series"),
        ("nothing[5m]", "a matrix"),
        ("\"text\"", "a string"),
        ("sum(", "refused"),
    ] {
        let found = match query_prometheus(outbound, address, None, query).await {
            Ok(number) => number.to_string(),
            Err(PrometheusError::NoData) => "no data".to_owned(),
            Err(PrometheusError::ManySeries(count)) => format!("{count} series"),
            Err(PrometheusError::WrongType(found)) => format!("a {found}"),
            Err(PrometheusError::Refused(_)) => "refused".to_owned(),
            Err(error) => error.to_string(),
        };
        report(&format!("query {}", query.replace(": ", ":")), &found, expected);
    }
}

/// Whole checks, by their reconciler.
async fn checks(outbound: &OutboundClients, address: &str) -> Outcome {
    let sandbox = Sandbox::builder().without_workloads().seed(1).build()?;
    let cluster = Cluster::new(sandbox.client());
    for definition in kinds::definitions() {
        let kind = definition["spec"]["names"]["kind"].as_str().unwrap_or_default();
        if kind == MetricCheckSpec::KIND {
            create(&cluster, &definition).await?;
            crd::wait_until_served(&cluster, &definition, Duration::from_secs(20)).await?;
        }
    }
    let reconciler = MetricReconciler::new(cluster.clone(), Arc::new(SystemClock), outbound.clone());
    for (name, query, behavior, expected) in [
        ("passes", "vector(0.998)", "hold", MetricResult::Pass),
        ("is-unclear", "vector(0.97)", "hold", MetricResult::Inconclusive),
        ("fails", "vector(0.90)", "hold", MetricResult::Fail),
        ("is-held", "nothing", "hold", MetricResult::Inconclusive),
        ("counts-as-pass", "nothing", "pass", MetricResult::Pass),
        ("counts-as-failure", "sum(", "fail", MetricResult::Fail),
    ] {
        let check = json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "MetricCheck",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"provider": {"type": "prometheus", "address": address}, "query": query,
                "successCondition": ">= 0.99", "failureCondition": "< 0.95", "noDataBehavior": behavior}});
        let at = create(&cluster, &check).await?;
        reconciler.reconcile(&at).await?;
        let found = kinds::get::<MetricCheckSpec>(&cluster, "default", name).await?;
        let result = found.and_then(|check| check.status.latest.result);
        report(&format!("check {name}"), &format!("{result:?}"), &format!("{:?}", Some(expected)));
    }
    Ok(())
}

async fn create(cluster: &Cluster, object: &Value) -> Result<ObjectRef, Box<dyn Error>> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let gvk = Gvk::new(group, version, object["kind"].as_str().unwrap_or_default());
    let metadata = &object["metadata"];
    let at =
        ObjectRef::new(gvk, metadata["namespace"].as_str(), metadata["name"].as_str().unwrap_or_default());
    cluster.create(&at, object, &WriteOptions::default()).await?;
    Ok(at)
}
