//! Who is at work, and what becomes of the work when that changes.

use serde_json::json;
use slipway_cluster::election::read_lease;
use slipway_promotion::kinds::{BundlePhase, StepState};

use crate::world::{PATIENCE, Process, SYSTEM, World, until};

/// D02: two replicas, the leader killed twenty times while versions are promoted.
#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_is_killed_twenty_times_leaves_one_commit_a_promotion() {
    let world = World::new(&["dev", "staging", "prod"]).await;
    world
        .pipeline(
            "app",
            json!([{"name": "dev"}, {"name": "staging"}, {"name": "prod", "approval": "pr-review"}]),
        )
        .await;
    let mut replicas = Replicas { world: &world, running: Vec::new(), started: 0 };
    let mut versions = 0;
    for kills in 0..20 {
        if kills % 5 == 0 {
            versions += 1;
            if versions > 1 {
                replicas.until_waiting(versions - 1).await;
            }
            world.bundle(&format!("app-{versions}"), &format!("1.30.{versions}")).await;
        }
        // Each version meets several ends of the leader on its way, each a little later than the one before.
        let leader = replicas.take_leader().await;
        tokio::time::sleep(std::time::Duration::from_millis(60 * (kills % 5))).await;
        leader.kill().await;
        world.expire_lease().await;
    }
    replicas.until_waiting(versions).await;
    let last = format!("app-{versions}");
    let step = world.step(&last, "prod").await.expect("the step exists");
    world.forge.merge(step.status.pr_number.expect("has a pull request"), "merge", "alice");
    let leader = replicas.take_leader().await;
    leader.handle.working().expect("leads").nudge_step("default", step.name());
    replicas.running.push(leader);
    replicas
        .until("the last bundle is verified", async || world.is_in(&last, BundlePhase::Verified).await)
        .await;
    let subjects = world.forge.subjects("main");
    for version in 1..=versions {
        for environment in ["dev", "staging"] {
            let subject = format!("[kardinal] Promote app 1.30.{version} to {environment}");
            let count = subjects.iter().filter(|known| **known == subject).count();
            assert_eq!(count, 1, "{subject}: {subjects:?}");
        }
    }
    let pulls = world.forge.pulls();
    assert_eq!(pulls.len() as u64, versions, "one pull request a version");
    assert_eq!(world.forge.violations(), Vec::<String>::new());
    let lease = read_lease(&world.cluster, SYSTEM, "kardinal-controller").await.expect("is read");
    assert!(lease.expect("exists").transitions >= 20, "every kill was a change of the leader");
}

/// Two replicas at any time: those that end are replaced, as a cluster does it.
struct Replicas<'w> {
    world: &'w World,
    running: Vec<Process>,
    started: u32,
}

impl Replicas<'_> {
    async fn replace(&mut self) {
        self.running.retain(|process| !process.has_ended());
        while self.running.len() < 2 {
            self.started += 1;
            let identity = format!("life-{}", self.started);
            self.running.push(self.world.start(&identity).await);
        }
    }

    async fn until(&mut self, what: &str, holds: impl AsyncFn() -> bool) {
        let end = tokio::time::Instant::now() + PATIENCE;
        while !holds().await {
            if tokio::time::Instant::now() >= end {
                panic!("still not: {what}\n{}", self.world.show().await);
            }
            self.replace().await;
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    async fn until_waiting(&mut self, version: u64) {
        let (world, name) = (self.world, format!("app-{version}"));
        self.until("prod waits for its reviewer", async || {
            world.step(&name, "prod").await.is_some_and(|step| step.state() == StepState::WaitingForMerge)
        })
        .await;
    }

    async fn take_leader(&mut self) -> Process {
        let end = tokio::time::Instant::now() + PATIENCE;
        loop {
            assert!(tokio::time::Instant::now() < end, "nobody leads");
            self.replace().await;
            if let Some(place) = self.running.iter().position(|process| process.handle.is_leader()) {
                return self.running.swap_remove(place);
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_not_renewed_is_taken_over() {
    let world = World::new(&["dev"]).await;
    let first = world.start("first").await;
    until("it leads", async || first.handle.is_leader()).await;
    let second = world
        .start_with("second", |options| options.election.duration = std::time::Duration::from_secs(1))
        .await;
    first.kill().await;
    until("another leads", async || second.handle.is_leader()).await;
    let lease = read_lease(&world.cluster, SYSTEM, "kardinal-controller").await.expect("is read");
    assert_eq!(lease.expect("exists").transitions, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_is_taken_ends_and_writes_nothing_more() {
    let world = World::new(&["dev"]).await;
    let leader = world.start("first").await;
    until("it leads", async || leader.handle.is_leader()).await;
    let at = slipway_manifest::ObjectRef::new(
        slipway_manifest::Gvk::new("coordination.k8s.io", "v1", "Lease"),
        Some(SYSTEM),
        "kardinal-controller",
    );
    let patch = slipway_cluster::ObjectPatch::Merge(
        json!({"spec": {"holderIdentity": "somebody", "leaseTransitions": 7}}),
    );
    world.cluster.patch(&at, &patch, &Default::default(), None).await.expect("is patched");
    let ended = leader.wait().await;
    assert!(matches!(ended, Err(slipway_controller::ControllerError::LeaseLost)), "{ended:?}");
    let lease = read_lease(&world.cluster, SYSTEM, "kardinal-controller").await.expect("is read");
    assert_eq!(lease.expect("exists").holder, "somebody");
}

#[tokio::test(flavor = "multi_thread")]
async fn standbys_answer_requests_and_do_no_work() {
    let world = World::new(&["dev"]).await;
    world.api_secret(None).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    let leader = world.start("first").await;
    until("it leads", async || leader.handle.is_leader()).await;
    let standby = world.start("second").await;
    let probe = |path: &str| format!("http://{}{path}", standby.handle.probes.expect("probes are served"));
    until("it is ready", async || world.get(&probe("/readyz")).await.status == 200).await;
    assert_eq!(world.get(&probe("/healthz")).await.status, 200);
    let body = json!({"pipeline": "app", "artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:2.0.0"}]}});
    let made = world.post(&standby, &body, &[]).await;
    assert_eq!(made.status, 201, "{}", made.text);
    let name = made.json()["name"].as_str().expect("has a name").to_owned();
    until("the leader promotes it", async || world.is_in(&name, BundlePhase::Verified).await).await;
    assert!(!standby.handle.is_leader());
    leader.end().await.expect("ends well");
    let lease = read_lease(&world.cluster, SYSTEM, "kardinal-controller").await.expect("is read");
    assert_ne!(lease.expect("exists").holder, "first", "a process that is told to stop gives its lease back");
    until("the standby takes over at once", async || standby.handle.is_leader()).await;
    standby.end().await.expect("ends well");
}
