//! A stack against a cluster in trouble: failures are of the right class, retries follow it, limits hold.

use std::time::Duration;

use slipway_cluster::Cluster;
use slipway_sandbox::{Fault, FaultLayer, FaultRule, Sandbox};
use slipway_stack::record::{EventType, NodeStatus, NodeSummary};
use slipway_stack::{ExecutedRun, RunOptions};
use tokio::time::Instant;
use tower::Layer;

use crate::engine::{One, World};
use crate::support::{Ended, Launch, Place, virtual_time};

const NODE: &str = "default/shop/web";

/// One release of one object that may take 12 seconds.
fn world() -> World {
    let place = Place::new(&[]);
    place
        .chart("chart")
        .write("chart/templates/all.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
        .write(
            "stack.yaml",
            "name: one\ndefaults: {namespace: shop, apply: {wait: true, timeout: 12s}}\nreleases:\n\
             - {name: web, chart: ./chart}\n",
        );
    let sandbox = Sandbox::builder().seed(1).without_workloads().build().expect("the sandbox starts");
    World::on(place, sandbox)
}

/// Runs the stack through trouble; gives the summary of its release and how long it took.
async fn run(world: &World, faults: &FaultLayer, retry: u32) -> (NodeSummary, Duration) {
    let cluster = Cluster::new(kube::Client::new(faults.layer(world.sandbox.service()), "default"));
    let options = RunOptions { retry, ..RunOptions::default() };
    let started = Instant::now();
    let ended = world.run(Launch { options, ..world.launch() }, One::new(cluster)).await.expect("runs");
    let Ended::Ran(ExecutedRun { outcome, .. }) = ended else { panic!("{ended:?}") };
    (outcome.summary.nodes[NODE].clone(), started.elapsed())
}

#[test]
fn sustained_trouble_has_its_class_and_keeps_the_timeout() {
    let cases = [
        (Fault::TooManyRequests { retry_after: 5 }, "RATE_LIMIT", "429"),
        (Fault::ServerError(500), "SERVER_5XX", "500"),
        (Fault::ServerError(503), "SERVER_5XX", "503"),
        (Fault::Reset, "TRANSPORT", "connection reset"),
        (Fault::Delay(Duration::from_secs(3600)), "TRANSPORT", "no answer within"),
    ];
    for (fault, class, says) in cases {
        for part in ["", "/configmaps/web", "werf-synchronization"] {
            virtual_time(async {
                let world = world();
                let faults = FaultLayer::new(1);
                faults.add(FaultRule::new(fault.clone()).path_contains(part));
                let (node, elapsed) = run(&world, &faults, 1).await;
                assert_eq!(node.status, NodeStatus::Failed);
                let told = node.last_error.unwrap_or_default();
                assert_eq!(node.last_error_class.as_deref(), Some(class), "{part} {fault:?}: {told}");
                assert!(told.contains(says), "{part} {fault:?}: {told}");
                assert!(told.contains("the timeout of 12s passed"), "{part} {fault:?}: {told}");
                assert!(elapsed <= Duration::from_secs(14), "{part} {fault:?}: {elapsed:?}");
            });
        }
    }
}

#[test]
fn retries_outlast_trouble_that_passes() {
    // More often than one attempt asks, less often than two do.
    let cases =
        [(Fault::TooManyRequests { retry_after: 5 }, 4), (Fault::ServerError(503), 12), (Fault::Reset, 12)];
    for (fault, times) in cases {
        virtual_time(async {
            let world = world();
            let faults = FaultLayer::new(1);
            faults.add(FaultRule::new(fault.clone()).times(times));
            let (node, elapsed) = run(&world, &faults, 3).await;
            assert_eq!(node.status, NodeStatus::Succeeded, "{fault:?}: {:?}", node.last_error);
            assert!(node.attempt > 1, "{fault:?}");
            assert!(elapsed <= Duration::from_secs(3 * 14 + 60), "{fault:?}: {elapsed:?}");
            let events = world.last().events;
            let scheduled = events.iter().filter(|event| event.kind == EventType::NodeRetryScheduled).count();
            assert_eq!(scheduled as u32 + 1, node.attempt, "{fault:?}");
        });
    }
}

/// One request in twenty, and every second one: a run ends well, or in time with the class of what stopped it.
#[test]
fn passing_trouble_is_survived_or_has_its_class() {
    for (probability, seeds) in [(0.05, 0..10), (0.5, 10..30)] {
        for seed in seeds {
            virtual_time(async {
                let world = world();
                let faults = FaultLayer::new(seed);
                for rule in FaultRule::passing_trouble(probability) {
                    faults.add(rule);
                }
                let (node, elapsed) = run(&world, &faults, 1).await;
                // Giving the lock back is tried a little longer after a success.
                let slack = if node.status == NodeStatus::Succeeded { 5 } else { 2 };
                assert!(
                    elapsed <= Duration::from_secs(12 + slack),
                    "{seed}: {elapsed:?}: {:?}",
                    node.last_error
                );
                if node.status != NodeStatus::Succeeded {
                    assert!(probability > 0.1, "{seed}: {:?}", node.last_error);
                    let class = node.last_error_class.unwrap_or_default();
                    let known = ["RATE_LIMIT", "SERVER_5XX", "TRANSPORT"].contains(&class.as_str());
                    assert!(known, "{seed}: {class}: {:?}", node.last_error);
                }
            });
        }
    }
}
