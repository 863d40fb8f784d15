//! Time limits against a cluster that refuses, breaks off or says nothing: kept, and their errors name the cause.

use std::time::Duration;

use slipway_cluster::{Cluster, ErrorClass, RetryPolicy};
use slipway_release::ReleaseStatus;
use slipway_release::{Failure, FailureCause, ReleaseContent, RunTimeout};
use slipway_sandbox::{Fault, FaultLayer, FaultRule, Status as Answer};
use tokio::time::Instant;
use tower::Layer;

use crate::tap::Tap;
use crate::world::{World, config_map};

/// Shorter than twelve attempts take: it is the limit that ends a run.
const LIMIT: Duration = Duration::from_secs(12);
/// How much later than its limit a run may end.
const SLACK: Duration = Duration::from_secs(2);

fn limited(world: World, faults: &FaultLayer) -> World {
    let client = kube::Client::new(faults.layer(world.sandbox.service()), "default");
    let mut world = World { cluster: Cluster::new(client), ..world };
    world.apply.timeout = Some(RunTimeout::new(LIMIT, "12s"));
    world
}

fn class_of(failure: &Failure) -> Option<ErrorClass> {
    match failure.cause() {
        FailureCause::Cluster(class) => Some(class),
        _ => None,
    }
}

/// What goes wrong for good, the class it has, and what the message says of it.
fn troubles() -> [(Fault, ErrorClass, &'static str); 5] {
    [
        (Fault::TooManyRequests { retry_after: 5 }, ErrorClass::Throttled, "429"),
        (Fault::ServerError(500), ErrorClass::Server, "500"),
        (Fault::ServerError(503), ErrorClass::Server, "503"),
        (Fault::Reset, ErrorClass::Transport, "connection reset"),
        (Fault::Delay(Duration::from_secs(3600)), ErrorClass::Timeout, "no answer within"),
    ]
}

#[tokio::test(start_paused = true)]
async fn the_timeout_holds_wherever_in_a_run_the_trouble_begins() {
    // From the first request on; discovery; the lock; an object; the record of the revision.
    let places: [(&str, Option<&str>); 5] = [
        ("", None),
        ("/namespaces/t1", None),
        ("werf-synchronization", None),
        ("/configmaps/a", Some("patch")),
        ("/secrets", Some("create")),
    ];
    for (part, verb) in places {
        for (fault, class, says) in troubles() {
            let world = World::bare();
            world.deployed(&[config_map("a", "0")]).await;
            let faults = FaultLayer::new(1);
            let mut rule = FaultRule::new(fault.clone()).path_contains(part);
            if let Some(verb) = verb {
                rule = rule.verb(verb);
            }
            faults.add(rule);
            let world = limited(world, &faults);
            let started = Instant::now();
            let failure = world.failed(&[config_map("a", "1")]).await;
            let (elapsed, told) = (started.elapsed(), failure.to_string());
            assert!(elapsed <= LIMIT + SLACK, "{part} {fault:?}: {elapsed:?}: {told}");
            assert_eq!(class_of(&failure), Some(class), "{part} {fault:?}: {told}");
            assert!(told.contains(says), "{part} {fault:?}: {told}");
            assert!(told.contains("the timeout of 12s passed"), "{part} {fault:?}: {told}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_timeout_holds_for_deletes_too() {
    for (fault, class, says) in troubles() {
        let world = World::bare();
        world.deployed(&[config_map("a", "0")]).await;
        let faults = FaultLayer::new(1);
        faults.add(FaultRule::new(fault.clone()));
        let world = limited(world, &faults);
        let started = Instant::now();
        let failure = world.run(&world.with(ReleaseContent::Nothing)).await.expect_err("fails");
        assert!(started.elapsed() <= LIMIT + SLACK, "{fault:?}: {:?}", started.elapsed());
        assert_eq!(class_of(&failure), Some(class), "{fault:?}: {failure}");
        assert!(failure.to_string().contains(says), "{fault:?}: {failure}");
    }
}

/// Without a limit of its own a run gives up when retries do, and not thirty times that.
#[tokio::test(start_paused = true)]
async fn sustained_refusals_end_a_run_without_a_timeout() {
    for (fault, class, says) in troubles().into_iter().take(4) {
        let world = World::bare();
        world.deployed(&[config_map("a", "0")]).await;
        let faults = FaultLayer::new(1);
        faults.add(FaultRule::new(fault.clone()).path_contains("/configmaps/a"));
        let client = kube::Client::new(faults.layer(world.sandbox.service()), "default");
        let world = World { cluster: Cluster::new(client), ..world };
        let started = Instant::now();
        let failure = world.failed(&[config_map("a", "1")]).await;
        let most = RetryPolicy::default().patience * 2;
        assert!(started.elapsed() <= most, "{fault:?}: {:?}", started.elapsed());
        assert_eq!(class_of(&failure), Some(class), "{fault:?}: {failure}");
        assert!(failure.to_string().contains(says), "{fault:?}: {failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_webhook_is_named_by_plan_and_apply() {
    let webhook = "failed calling webhook \"guard.example.com\"";
    let refusing = |part: &'static str| {
        move |seen: &crate::tap::Seen| {
            let is_guarded = seen.path.contains(part) && seen.method != http::Method::GET;
            let message = format!(
                "Internal error occurred: {webhook}: failed to call webhook: Post \
                 \"https://guard.t1.svc:443/\": dial tcp 10.96.0.9:443: connect: connection refused"
            );
            is_guarded.then(|| Answer::new(500, "InternalError", &message))
        }
    };
    for part in ["/configmaps/a", "werf-synchronization"] {
        let world = World::bare();
        world.deployed(&[config_map("a", "0")]).await;
        let tap = Tap::on(world.sandbox.service()).answer(refusing(part));
        let mut world = World { cluster: Cluster::new(tap.client()), ..world };
        world.apply.timeout = Some(RunTimeout::new(LIMIT, "12s"));
        let plan = world.plan(&[config_map("a", "1")]).await.expect("plans");
        let warned = plan.warnings.iter().any(|warning| warning.message.contains(webhook));
        assert_eq!(warned, part == "/configmaps/a", "{:?}", plan.warnings);
        let started = Instant::now();
        let failure = world.failed(&[config_map("a", "1")]).await;
        assert!(started.elapsed() <= LIMIT + SLACK, "{part}: {:?}", started.elapsed());
        assert_eq!(class_of(&failure), Some(ErrorClass::WebhookUnavailable), "{part}: {failure}");
        assert!(failure.to_string().contains(webhook), "{part}: {failure}");
        assert!(failure.to_string().contains("the timeout of 12s passed"), "{part}: {failure}");
    }
}

/// One request in twenty, and every second one: a run ends well, or in time and with a reason.
#[tokio::test(start_paused = true)]
async fn passing_trouble_is_survived_or_named() {
    let mut ends = std::collections::BTreeMap::new();
    for (probability, seeds) in [(0.05, 0..10_u64), (0.5, 10..30)] {
        for seed in seeds {
            let world = World::bare();
            world.deployed(&[config_map("a", "0")]).await;
            let faults = FaultLayer::new(seed);
            for rule in FaultRule::passing_trouble(probability) {
                faults.add(rule);
            }
            let world = limited(world, &faults);
            let started = Instant::now();
            // Nothing is deleted: the garbage collector runs in real time.
            let mut objects: Vec<_> = (0..8).map(|n| config_map(&format!("c{n}"), "1")).collect();
            objects.push(config_map("a", "1"));
            let ended = world.apply(&objects).await;
            let elapsed = started.elapsed();
            // A cluster that answers, if slowly, is given the grace to record a failure in.
            let is_late = matches!(&ended, Err(failure) if failure.cause() == FailureCause::Timeout);
            let most = if is_late { LIMIT + world.apply.grace } else { LIMIT + SLACK };
            assert!(elapsed <= most + SLACK, "{probability} {seed}: {elapsed:?}");
            match ended {
                Ok(report) => assert_eq!(report.status, ReleaseStatus::Deployed),
                Err(failure) => {
                    let told = failure.to_string();
                    assert!(probability > 0.1, "{seed}: {told}");
                    let class = class_of(&failure);
                    let is_late = failure.cause() == FailureCause::Timeout;
                    let is_trouble = class.is_some_and(ErrorClass::is_transient);
                    assert!(is_late || is_trouble, "{seed}: {class:?} {told}");
                    // Whoever asks again and again may give up before that.
                    let says_so = told.contains("the timeout of 12s passed");
                    assert!(says_so || elapsed < LIMIT, "{seed}: {elapsed:?}: {told}");
                    *ends.entry(class).or_insert(0) += 1;
                }
            }
        }
    }
    assert!(ends.values().sum::<i32>() < 20, "most runs end well: {ends:?}");
}
