//! A controller that is killed again and again, with a real Gitea: one commit and one pull request for each bundle and environment.
//!
//! A life ends right after one of its writes to the cluster, or right before one: then something happened outside that nobody has
//! written down. What was under way is dropped where it stands, and the next life has an empty cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use slipway_cluster::{Cluster, ListOptions};
use slipway_promotion::kinds::{Bundle, BundlePhase, BundleSpec, list};
use tokio_util::sync::CancellationToken;
use tower::{Service as _, service_fn};

use crate::gitea::Gitea;
use crate::rig::{Rig, deployment, environment_files};
use crate::{Failure, PATIENCE, PAUSE, case};

const REPOSITORY: &str = "killed";

/// The pipeline whose versions are taken back.
const RETURNING: &str = "returning";

/// What lives are led for.
#[derive(Clone, Copy)]
enum Goal<'a> {
    /// The bundle is verified.
    Verified(&'a str),
    /// The bundle has failed, and the one that takes it back is verified.
    TakenBack(&'a str),
}

/// How far the goal is.
enum Reach {
    Reached,
    OnTheWay,
    Missed(String),
}

/// When a life ends.
#[derive(Clone, Copy, Debug)]
enum Death {
    /// Right after so many writes.
    After(usize),
    /// After so many writes, right before the next.
    Before(usize),
    Never,
}

pub(crate) async fn run(gitea: &Gitea) -> Result<(), Failure> {
    let kills: usize = std::env::var("KILLS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let mut rig = Rig::prepare().await?;
    rig.create_credentials(gitea).await?;
    gitea.create_repository(REPOSITORY, &environment_files(&["dev", "staging", "prod"])).await?;
    let health = json!({"type": "none"});
    let environments = json!([{"name": "dev", "health": health}, {"name": "staging", "pr": true, "health": health},
        {"name": "prod", "approval": "pr-review", "health": health}]);
    rig.create_pipeline(gitea, REPOSITORY, REPOSITORY, environments).await?;
    let reviewer = tokio::spawn(review(gitea.clone()));
    let mut killed = Vec::new();
    // Every write of a promotion is the last of a life once, and every one is missed once.
    for (version, death) in [("1.1.0", Death::After(1)), ("1.2.0", Death::Before(1))] {
        let bundle = rig.create_bundle(REPOSITORY, version).await?;
        killed.push(pursue(&mut rig, Goal::Verified(&bundle), || death).await?);
        check(gitea, version).await?;
        case(&format!("killed {death:?} again and again ({} lives)", killed.len()), true, ())?;
    }
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = move |most: u64| {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % most) as usize
    };
    let (mut done, mut minor) = (0, 3);
    while done < kills {
        let version = format!("1.{minor}.0");
        let bundle = rig.create_bundle(REPOSITORY, &version).await?;
        let lives = pursue(&mut rig, Goal::Verified(&bundle), || match random(2) {
            0 => Death::After(1 + random(8)),
            _ => Death::Before(1 + random(8)),
        })
        .await?;
        check(gitea, &version).await?;
        (done, minor) = (done + lives, minor + 1);
    }
    reviewer.abort();
    killed.extend(take_back(gitea, &mut rig).await?);
    let points = killed.iter().sum::<usize>();
    case(
        &format!("one commit and one pull request each after {points} chosen and {done} random kills"),
        true,
        (),
    )
}

/// Approves and merges whatever waits for a person.
async fn review(gitea: Gitea) {
    loop {
        for pull in gitea.pull_requests(REPOSITORY, "open").await.unwrap_or_default() {
            let is_prod = pull["head"]["ref"].as_str().is_some_and(|name| name.contains("/prod/"));
            if let Some(number) = pull["number"].as_u64().filter(|_| is_prod) {
                let _ = gitea.merge(REPOSITORY, number, "merge").await;
            }
        }
        tokio::time::sleep(PAUSE * 3).await;
    }
}

/// A version that fails after its push is taken back once, wherever the controller dies meanwhile.
async fn take_back(gitea: &Gitea, rig: &mut Rig) -> Result<[usize; 2], Failure> {
    gitea.create_repository(RETURNING, &environment_files(&["prod"])).await?;
    // The cluster stays at the first version: nobody syncs the others.
    let mut workload = deployment("prod");
    workload["metadata"]["name"] = json!(RETURNING);
    rig.create(workload).await?;
    let health = json!({"type": "resource", "timeout": "5s"});
    let environments = json!([{"name": "prod", "health": health}]);
    rig.create_pipeline(gitea, RETURNING, RETURNING, environments).await?;
    let first = rig.create_bundle(RETURNING, "1.0.0").await?;
    pursue(rig, Goal::Verified(&first), || Death::Never).await?;
    let mut kills = [0; 2];
    for (at, (version, death)) in
        [("1.1.0", Death::After(1)), ("1.2.0", Death::Before(1))].into_iter().enumerate()
    {
        let bundle = rig.create_bundle(RETURNING, version).await?;
        kills[at] = pursue(rig, Goal::TakenBack(&bundle), || death).await?;
        let subjects = gitea.subjects(RETURNING, "main").await?;
        let mut counts = [0; 2];
        for (count, start) in counts.iter_mut().zip(["[kardinal] Promote", "[kardinal] Rollback"]) {
            *count = subjects.iter().filter(|one| one.starts_with(start) && one.contains(version)).count();
        }
        let of_it = |bundle: &Bundle| {
            bundle
                .spec
                .provenance
                .as_ref()
                .is_some_and(|from| from.rollback_of.as_deref() == Some(bundle_name(version).as_str()))
        };
        let rollbacks = rig.bundles().await?.iter().filter(|bundle| of_it(bundle)).count();
        case(
            &format!("taken back once, killed {death:?} again and again ({} lives)", kills[at]),
            rollbacks == 1 && counts[0] == 1,
            (rollbacks, counts, &subjects),
        )?;
    }
    Ok(kills)
}

fn bundle_name(version: &str) -> String {
    format!("{RETURNING}-{}", version.replace('.', "-"))
}

/// Says how far a goal is.
async fn reach(cluster: &Cluster, goal: Goal<'_>) -> Result<Reach, Failure> {
    let all = list::<BundleSpec>(cluster, Some(crate::rig::NAMESPACE), &ListOptions::default()).await?;
    let (Goal::Verified(name) | Goal::TakenBack(name)) = goal;
    let Some(bundle) = all.iter().find(|bundle| bundle.name() == name) else {
        return Err(format!("there is no bundle {name}").into());
    };
    let takes_back = |other: &&Bundle| {
        other.spec.provenance.as_ref().is_some_and(|from| from.rollback_of.as_deref() == Some(name))
    };
    Ok(match (goal, bundle.phase()) {
        (_, BundlePhase::Available | BundlePhase::Promoting) => Reach::OnTheWay,
        (Goal::Verified(_), BundlePhase::Verified) => Reach::Reached,
        (Goal::TakenBack(_), BundlePhase::Failed) => match all.iter().find(takes_back).map(Bundle::phase) {
            Some(BundlePhase::Verified) => Reach::Reached,
            None | Some(BundlePhase::Available | BundlePhase::Promoting) => Reach::OnTheWay,
            Some(other) => Reach::Missed(format!("the rollback of {name} is {other:?}")),
        },
        (_, other) => Reach::Missed(format!("{name} is {other:?}: {:?}", bundle.status)),
    })
}

/// Lives as many lives as a goal takes; returns how many were killed.
async fn pursue(rig: &mut Rig, goal: Goal<'_>, mut death: impl FnMut() -> Death) -> Result<usize, Failure> {
    let mut kills = 0;
    let end = tokio::time::Instant::now() + PATIENCE * 4;
    loop {
        // A promotion that only ever dies would not end.
        let how = if tokio::time::Instant::now() > end { Death::Never } else { death() };
        let was_killed = live(rig, goal, how).await?;
        kills += usize::from(was_killed);
        match reach(&rig.cluster, goal).await? {
            Reach::Reached => return Ok(kills),
            Reach::OnTheWay if was_killed => {}
            Reach::OnTheWay => return Err("the goal was not reached in time".into()),
            Reach::Missed(why) => return Err(why.into()),
        }
    }
}

/// One life of a controller; true if it was killed before its goal was reached.
async fn live(rig: &mut Rig, goal: Goal<'_>, death: Death) -> Result<bool, Failure> {
    let (writes, died) = (Arc::new(AtomicUsize::new(0)), CancellationToken::new());
    let api = rig.sandbox.service();
    let (count, end) = (writes.clone(), died.clone());
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let (mut api, count, end) = (api.clone(), count.clone(), end.clone());
        async move {
            let is_write = request.method() != http::Method::GET;
            let number = if is_write { count.fetch_add(1, Ordering::SeqCst) + 1 } else { 0 };
            if matches!(death, Death::Before(last) if number > last) {
                end.cancel();
                std::future::pending::<()>().await;
            }
            let answer = api.call(request).await;
            if matches!(death, Death::After(last) if number >= last) && is_write {
                end.cancel();
                std::future::pending::<()>().await;
            }
            answer
        }
    });
    let client = kube::Client::new(service, crate::rig::NAMESPACE);
    let stop = CancellationToken::new();
    let controller = rig.make_controller(client, &stop)?;
    // A runtime of its own: when it goes, everything that was under way goes with it.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let running = controller.clone();
    runtime.spawn(async move {
        let _ = running.run().await;
    });
    let cluster = rig.cluster.clone();
    let reached = async {
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            if !matches!(reach(&cluster, goal).await, Ok(Reach::OnTheWay)) {
                return;
            }
            // Nobody delivers webhooks to a process that is about to die: it looks by itself.
            for step in controller.steps().catch_up().await.unwrap_or_default() {
                controller.nudge_step(step.namespace.as_deref().unwrap_or_default(), &step.name);
            }
            tokio::time::sleep(PAUSE * 3).await;
        }
    };
    let was_killed = tokio::select! {
        () = died.cancelled() => true,
        () = reached => false,
    };
    if !was_killed {
        stop.cancel();
    }
    runtime.shutdown_background();
    Ok(was_killed)
}

/// One commit and at most one pull request for each environment.
async fn check(gitea: &Gitea, version: &str) -> Result<(), Failure> {
    let subjects = gitea.subjects(REPOSITORY, "main").await?;
    for environment in ["dev", "staging", "prod"] {
        let wanted = format!("[kardinal] Promote {REPOSITORY} {version} to {environment}");
        let count = subjects.iter().filter(|subject| **subject == wanted).count();
        if count != 1 {
            return Err(format!("{count} commits `{wanted}`: {subjects:?}").into());
        }
        let pulls = gitea.pull_requests(REPOSITORY, "all").await?;
        let start = format!("kardinal/{REPOSITORY}/{environment}/{version}-");
        let own = pulls.iter().filter(|pull| {
            // The branch is gone once the step has ended; the label of the pull request still says it.
            pull["head"]["label"]
                .as_str()
                .or(pull["head"]["ref"].as_str())
                .is_some_and(|name| name.starts_with(&start))
                || pull["title"].as_str() == Some(wanted.as_str())
        });
        let count = own.count();
        if count != usize::from(environment != "dev") {
            return Err(format!("{count} pull requests for {version} in {environment}").into());
        }
    }
    Ok(())
}
