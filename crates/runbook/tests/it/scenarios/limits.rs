//! Steps against a cluster in trouble: their timeouts hold, and their errors name the cause.

use std::time::Duration;

use slipway_sandbox::{Fault, FaultRule, Sandbox, User};
use tokio::time::Instant;

use crate::world::{World, error, map_step};

const LIMIT: Duration = Duration::from_secs(12);
/// How much later than its limit a step may end.
const SLACK: Duration = Duration::from_secs(2);

/// A world without workloads, whose time may be virtual.
fn world() -> World {
    let sandbox = Sandbox::builder().seed(1).without_workloads().build().expect("the sandbox starts");
    let world = World::on(sandbox, User::admin());
    world.chart("app", "{}\n", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: app}\n");
    world
}

fn steps() -> [String; 2] {
    ["  - {name: a, timeout: 12s, helm: {chart: ./app}}\n".to_owned(), map_step("a", ", timeout: 12s")]
}

#[tokio::test(start_paused = true)]
async fn steps_keep_their_timeout_and_name_the_trouble() {
    for (fault, says) in [
        (Fault::TooManyRequests { retry_after: 5 }, "too many requests"),
        (Fault::ServerError(500), "500"),
        (Fault::ServerError(503), "503"),
        (Fault::Reset, "reset"),
    ] {
        for step in steps() {
            let world = world();
            world.faults.add(FaultRule::new(fault.clone()).path_contains("/namespaces/default/"));
            let started = Instant::now();
            let report = world.apply(&step).await;
            let said = error(&report, "a");
            assert!(started.elapsed() <= LIMIT + SLACK, "{fault:?} {step}: {:?}", started.elapsed());
            assert!(said.contains(says), "{fault:?} {step}: {said}");
        }
    }
}

/// One request in twenty, and every second one.
#[tokio::test(start_paused = true)]
async fn steps_survive_passing_trouble_or_end_in_time() {
    for (seed, probability) in [(1, 0.05), (2, 0.05), (3, 0.5), (4, 0.5), (5, 0.5)] {
        for step in steps() {
            let world = world();
            for rule in FaultRule::passing_trouble(probability) {
                world.faults.add(rule.path_contains("/namespaces/default/"));
            }
            let started = Instant::now();
            let report = world.apply(&step).await;
            assert!(started.elapsed() <= LIMIT + SLACK, "{seed} {step}: {:?}", started.elapsed());
            assert!(report.is_success() || probability > 0.1, "{seed} {step}: {report:?}");
        }
    }
}
