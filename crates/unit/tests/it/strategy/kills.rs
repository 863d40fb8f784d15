//! Killed at any moment, a rollout is resumed or taken back: nothing of it is left, and its Service always has endpoints.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, object};
use slipway_unit::DeployOutcome;
use slipway_unit::strategy::{MemoryLog, Strategy};

use super::world::{NAMESPACE, World, canary, strategy, version};

/// A future that is dropped after it was woken a number of times: as a process that is killed between two instructions.
struct Mortal<F> {
    work: Pin<Box<F>>,
    lives: usize,
    used: Arc<AtomicUsize>,
}

impl<F: Future> Future for Mortal<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.lives == 0 {
            return Poll::Ready(None);
        }
        self.lives -= 1;
        self.used.fetch_add(1, Ordering::Relaxed);
        self.work.as_mut().poll(cx).map(Some)
    }
}

fn mortal<F: Future>(work: F, lives: usize) -> Mortal<F> {
    Mortal { work: Box::pin(work), lives, used: Arc::default() }
}

/// Counts the ready endpoints of the Service again and again.
struct Watcher {
    stop: Arc<AtomicBool>,
    empty: Arc<Mutex<Vec<String>>>,
    task: tokio::task::JoinHandle<usize>,
}

async fn ready_endpoints(cluster: &Cluster) -> (usize, String) {
    let kind =
        cluster.find_kind(&Gvk::new("discovery.k8s.io", "v1", "EndpointSlice")).await.unwrap().unwrap();
    let slices = cluster
        .list(&kind, Some(NAMESPACE), &ListOptions::with_labels("kubernetes.io/service-name=api"))
        .await
        .unwrap();
    let endpoints = slices.items.iter().flat_map(|slice| slice["endpoints"].as_array().into_iter().flatten());
    let ready = endpoints.filter(|endpoint| endpoint["conditions"]["ready"] != Value::Bool(false)).count();
    let versions: BTreeMap<&str, &Value> = slices
        .items
        .iter()
        .map(|slice| (object::name(slice).unwrap_or_default(), &slice["metadata"]["resourceVersion"]))
        .collect();
    (ready, format!("{versions:?}"))
}

impl Watcher {
    fn start(cluster: Cluster) -> Self {
        let (stop, empty) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Vec::new())));
        let (told, seen) = (Arc::clone(&stop), Arc::clone(&empty));
        let task = tokio::spawn(async move {
            let mut looks = 0;
            while !told.load(Ordering::Relaxed) {
                let (ready, slices) = ready_endpoints(&cluster).await;
                if ready == 0 {
                    seen.lock().unwrap().push(slices);
                }
                looks += 1;
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            looks
        });
        Self { stop, empty, task }
    }

    async fn finish(self) -> usize {
        self.stop.store(true, Ordering::Relaxed);
        let looks = self.task.await.unwrap();
        let empty = self.empty.lock().unwrap();
        assert!(empty.is_empty(), "the Service had no ready endpoints: {empty:?}");
        looks
    }
}

/// Runs the rollout to its end, however often it pauses.
async fn carry_through(world: &World, strategy: &Strategy, objects: &[Value], log: &MemoryLog) {
    for _ in 0..5 {
        match world.deploy(strategy, objects, log).await.unwrap_or_else(|error| panic!("{error}")) {
            DeployOutcome::Deployed(_) => return,
            DeployOutcome::Paused { .. } => {}
            DeployOutcome::TakenBack { why } => panic!("{why}"),
        }
    }
    panic!("the rollout does not end");
}

/// Kills a rollout at random moments and ends it one way or the other. Gives how many were resumed.
async fn kill(strategy: &Strategy, seed: u64, kills: usize) -> usize {
    let mut random = StdRng::seed_from_u64(seed);
    let new = version("api:2", 3);
    // The length of a whole run, in wakings.
    let world = World::with_release(seed, &version("api:1", 3)).await;
    let log = MemoryLog::default();
    let whole = mortal(carry_through(&world, strategy, &new, &log), usize::MAX);
    let used = Arc::clone(&whole.used);
    whole.await.expect("is not killed");
    let length = used.load(Ordering::Relaxed).max(10);
    let mut resumed = 0;
    for number in 0..kills {
        let world = World::with_release(seed + number as u64, &version("api:1", 3)).await;
        let log = MemoryLog::default();
        let watcher = Watcher::start(world.cluster.clone());
        let lives = random.random_range(1..length);
        let killed = mortal(carry_through(&world, strategy, &new, &log), lives).await.is_none();
        let aborted = killed && random.random_bool(0.5) && world.abort(Some(&log)).await.is_ok();
        if !aborted {
            resumed += 1;
            carry_through(&world, strategy, &new, &log).await;
        }
        watcher.finish().await;
        let context =
            format!("seed {seed}, kill {number} after {lives} of {length} wakings, aborted {aborted}");
        assert_eq!(world.leftovers().await, Vec::<String>::new(), "{context}");
        let mut images = Vec::new();
        for name in ["api", "api-green", "api-blue", "api-canary"] {
            images.extend(world.stand(name).await);
        }
        let image = if aborted { "api:1" } else { "api:2" };
        assert_eq!(images, [(image.to_owned(), 3, 3)], "{context}");
        // Endpoints follow pods a moment later.
        let mut ready = 0;
        for _ in 0..500 {
            ready = ready_endpoints(&world.cluster).await.0;
            if ready == 3 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(ready, 3, "{context}");
    }
    resumed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_canary_killed_anywhere_is_resumed_or_taken_back() {
    let strategy = canary("{weight: 30}, {check: verify}, {pause: manual}, {weight: 60}, {weight: 100}");
    let resumed = kill(&strategy, 100, 20).await;
    assert!((1..20).contains(&resumed), "{resumed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blue_green_rollout_killed_anywhere_is_resumed_or_taken_back() {
    let strategy = strategy(
        "type: bluegreen\ntargets: [{name: api}]\nbluegreen: { service: api, preview: api-preview, prePromotion: [verify], scaleDownDelay: 1ms }\n",
    );
    let resumed = kill(&strategy, 200, 20).await;
    assert!((1..20).contains(&resumed), "{resumed}");
}
