//! Prints what many pipelines cost one controller, as a JSON object: `controller_bench SLIPWAY PIPELINES`.
//!
//! The controller is the program itself in a process of its own, on a sandbox of this process. Every pipeline has a bundle: some
//! wait for a pull request to be merged, the others before a closed gate. Builds then ask for bundles, a thousand a second.
#![allow(clippy::print_stdout)]

#[path = "../../promotion/tests/it/effects.rs"]
#[allow(dead_code, reason = "shared with the tests of promotion, which use more of it")]
mod effects;
#[path = "../../promotion/tests/it/forge.rs"]
#[allow(dead_code, reason = "shared with the tests of promotion, which use more of it")]
mod forge;
#[path = "../tests/it/world.rs"]
#[allow(dead_code, reason = "shared with the tests, which use more of it")]
mod world;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use data_encoding::HEXLOWER;
use futures::StreamExt as _;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_cluster::ListOptions;
use slipway_http::Method;
use slipway_promotion::kinds::{self, Bundle, BundlePhase, BundleSpec, StepState};
use slipway_sandbox::Sandbox;

use forge::WEBHOOK_SECRET;
use world::{API_TOKEN, NAMESPACE, OTHER_TOKEN, SYSTEM, World};

type Failure = Box<dyn std::error::Error>;

/// The longest anything may take: figures of a busy machine are figures as well.
const PATIENCE: Duration = Duration::from_secs(1_200);
/// Pipelines whose bundle waits for a merge, at most.
const WAITING: usize = 20;
/// The requests of builds within a second.
const RATE: usize = 1_000;
/// Requests under way at once.
const AT_ONCE: usize = 256;

/// One request of a build, and the answers that are right.
#[derive(Clone, Copy)]
enum BuildRequest {
    /// One for each pipeline: accepted.
    Fitting(usize),
    /// More than a pipeline may have: accepted or told to wait.
    TooMany,
    WrongToken,
    ForeignPipeline,
    UnknownPipeline,
    InvalidBody,
}

impl BuildRequest {
    fn right_answers(self) -> &'static [u16] {
        match self {
            Self::Fitting(_) => &[201],
            Self::TooMany => &[201, 429],
            Self::WrongToken => &[401],
            Self::ForeignPipeline => &[403],
            Self::UnknownPipeline => &[404],
            Self::InvalidBody => &[400],
        }
    }

    fn body(self) -> Value {
        let pipeline = match self {
            Self::Fitting(number) => pipeline_name(number),
            Self::UnknownPipeline => "nobody".to_owned(),
            _ => pipeline_name(0),
        };
        let mut body = json!({"pipeline": pipeline, "artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:2.0.0"}]}});
        if let Self::InvalidBody = self {
            body["artifacts"] = json!({"images": [{"name": "app", "digest": "sha256:12"}]});
        }
        body
    }

    fn token(self) -> &'static str {
        match self {
            Self::WrongToken => "nobody-knows-it",
            Self::ForeignPipeline => OTHER_TOKEN,
            _ => API_TOKEN,
        }
    }
}

/// The program at work.
struct Controller {
    child: Child,
    api: String,
}

impl Controller {
    async fn start(program: &Path, kubeconfig: &Path, place: &Path) -> Result<Self, Failure> {
        let log = place.join("controller.log");
        let output = std::fs::File::create(&log)?;
        let mut command = Command::new(program);
        command.args(["controller", "run", "--namespace", SYSTEM, "--api-address=127.0.0.1:0"]);
        command.args(["--metrics-address=", "--probe-address=", "--allow-host=127.0.0.1"]);
        command.arg("--kubeconfig").arg(kubeconfig).arg("--git-cache-dir").arg(place.join("git"));
        command.env("NO_PROXY", "127.0.0.1").stdin(Stdio::null());
        let mut child = command.stdout(output.try_clone()?).stderr(output).spawn()?;
        let began = Instant::now();
        loop {
            let said = std::fs::read_to_string(&log)?;
            if let Some(address) = said.lines().find_map(|line| line.split("API on ").nth(1)) {
                return Ok(Self { child, api: format!("http://{}", address.trim()) });
            }
            if child.try_wait()?.is_some() || began.elapsed() > world::PATIENCE {
                return Err(format!("the controller does not start:\n{said}").into());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// A figure of the process in megabytes, where the system tells.
    fn memory(&self, figure: &str) -> Option<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).ok()?;
        let line = status.lines().find(|line| line.starts_with(figure))?;
        Some((line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0).round())
    }
}

impl Drop for Controller {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut args = std::env::args().skip(1);
    let (Some(program), Some(count)) = (args.next(), args.next()) else {
        return Err("usage: controller_bench SLIPWAY PIPELINES".into());
    };
    measure(Path::new(&program), count.parse()?).await
}

async fn measure(program: &Path, pipelines: usize) -> Result<(), Failure> {
    let waiting = WAITING.min(pipelines / 2);
    let sandbox = Sandbox::builder().without_workloads().seed(1).build()?;
    let (address, serving) = sandbox.listen("127.0.0.1:0".parse()?, std::future::pending()).await?;
    tokio::spawn(serving);
    let place = tempfile::tempdir()?;
    let kubeconfig = place.path().join("kubeconfig");
    std::fs::write(&kubeconfig, sandbox.kubeconfig(address))?;
    let names: Vec<String> = (0..waiting).map(|number| format!("reviewed-{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = Arc::new(World::with_sandbox(&names, sandbox).await);
    furnish(&world, pipelines, &names).await;

    let began = Instant::now();
    let controller = Controller::start(program, &kubeconfig, place.path()).await?;
    until("every bundle has come as far as it gets", async || is_settled(&world, pipelines, waiting).await)
        .await;
    let settled = began.elapsed();
    let memory = controller.memory("VmRSS:");

    let mut merges = Vec::new();
    for number in 0..waiting {
        merges.push(merge_one(&world, &controller, number).await?);
    }
    merges.sort_by(f64::total_cmp);
    let load = ask_for_bundles(&world, &controller, pipelines).await?;
    println!(
        "{}",
        json!({
            "pipelines": pipelines,
            "start to rest, s": settled.as_secs_f64(),
            "MB": memory,
            "most MB": controller.memory("VmHWM:"),
            "webhook to state, ms": merges.get(merges.len() / 2),
            "slowest, ms": merges.last(),
            "requests": load.requests,
            "last answer late, s": load.late,
            "slowest answer, ms": load.slowest,
            "accepted": load.accepted,
            "wrong answers": load.wrong,
            "lost bundles": load.lost,
            "all taken up, s": load.taken_up,
        })
    );
    Ok(())
}

fn pipeline_name(number: usize) -> String {
    format!("app-{number}")
}

/// A bundle in each pipeline.
async fn furnish(world: &World, pipelines: usize, reviewed: &[&str]) {
    world.api_secret(None).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
            "metadata": {"name": "closed", "namespace": NAMESPACE,
                "labels": {"kardinal.io/scope": "team", "kardinal.io/applies-to": "one"}},
            "spec": {"expression": "bundle.labels.go == 'yes'"}}))
        .await;
    for number in 0..pipelines {
        let environments = match reviewed.get(number) {
            Some(name) => json!([{"name": name, "approval": "pr-review"}]),
            None => json!([{"name": "one"}, {"name": "two"}, {"name": "three"}]),
        };
        world.pipeline(&pipeline_name(number), environments).await;
        world
            .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
                "metadata": {"name": format!("first-{number}"), "namespace": NAMESPACE,
                    "labels": {"kardinal.io/pipeline": pipeline_name(number)}},
                "spec": {"artifacts": {"images": [{"name": "app", "reference": "ghcr.io/acme/app:1.29.0"}]}}}))
            .await;
    }
}

/// Waits until something holds.
async fn until(what: &str, holds: impl AsyncFn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds().await {
        assert!(Instant::now() < end, "after {} s still not: {what}", PATIENCE.as_secs());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn list_bundles(world: &World) -> Vec<Bundle> {
    kinds::list::<BundleSpec>(&world.cluster, None, &ListOptions::default()).await.expect("are listed")
}

async fn is_settled(world: &World, pipelines: usize, waiting: usize) -> bool {
    let bundles = list_bundles(world).await;
    if bundles.iter().filter(|bundle| bundle.phase() == BundlePhase::Promoting).count() < pipelines {
        tokio::time::sleep(Duration::from_millis(200)).await;
        return false;
    }
    let all = ListOptions::default();
    let gates = kinds::list::<kinds::PolicyGateSpec>(&world.cluster, None, &all).await.expect("are listed");
    let judged = gates.iter().filter(|gate| gate.is_instance() && gate.status.last_evaluated_at.is_some());
    let steps =
        kinds::list::<kinds::PromotionStepSpec>(&world.cluster, None, &all).await.expect("are listed");
    let open = steps.iter().filter(|step| step.state() == StepState::WaitingForMerge);
    judged.count() >= pipelines - waiting && open.count() == waiting
}

/// A person merges, and the server tells of it; returns the time from there to the step's next state, in milliseconds.
async fn merge_one(world: &World, controller: &Controller, number: usize) -> Result<f64, Failure> {
    let (bundle, environment) = (format!("first-{number}"), format!("reviewed-{number}"));
    let step = world.step(&bundle, &environment).await.ok_or("there is no step")?;
    let pull = step.status.pr_number.ok_or("the step has no pull request")?;
    world.forge.merge(pull, "merge", "alice");
    let body = json!({"action": "closed", "number": pull, "pull_request": {"number": pull, "merged": true},
        "repository": {"full_name": "org/app"}})
    .to_string();
    let mut mac = Hmac::<Sha256>::new_from_slice(WEBHOOK_SECRET.as_bytes())?;
    mac.update(body.as_bytes());
    let signature = HEXLOWER.encode(&mac.finalize().into_bytes());
    let delivery = format!("delivery-{number}");
    let headers = [
        ("x-gitea-event", "pull_request"),
        ("x-gitea-delivery", delivery.as_str()),
        ("x-gitea-signature", signature.as_str()),
        ("content-type", "application/json"),
    ];
    let began = Instant::now();
    let url = format!("{}/webhooks/gitea", controller.api);
    let answer = world.send(Method::POST, &url, &headers, Some(body.as_bytes())).await;
    if answer.status != 200 {
        return Err(format!("the delivery was refused: {} {}", answer.status, answer.text).into());
    }
    until("the merge is seen", async || {
        let step = world.step(&bundle, &environment).await;
        step.is_some_and(|step| step.state() != StepState::WaitingForMerge)
    })
    .await;
    Ok(began.elapsed().as_secs_f64() * 1000.0)
}

struct LoadResult {
    requests: usize,
    /// The time from the last request to the last answer.
    late: f64,
    slowest: f64,
    accepted: usize,
    wrong: BTreeMap<String, usize>,
    lost: usize,
    taken_up: f64,
}

/// Builds ask at a steady rate: once for each pipeline, too often for one, and wrongly.
async fn ask_for_bundles(
    world: &Arc<World>,
    controller: &Controller,
    pipelines: usize,
) -> Result<LoadResult, Failure> {
    let fitting = (1..pipelines).map(BuildRequest::Fitting);
    let others = [
        BuildRequest::TooMany,
        BuildRequest::WrongToken,
        BuildRequest::TooMany,
        BuildRequest::ForeignPipeline,
        BuildRequest::UnknownPipeline,
        BuildRequest::InvalidBody,
    ];
    // One that fits, two others: three seconds for a thousand pipelines.
    let mut others = others.into_iter().cycle();
    let requests: Vec<BuildRequest> = fitting
        .flat_map(|fitting| std::iter::once(fitting).chain(others.by_ref().take(2)).collect::<Vec<_>>())
        .collect();
    let (count, pause) = (requests.len(), Duration::from_secs(1) / RATE as u32);
    let url = format!("{}/api/v1/bundles", controller.api);
    let began = tokio::time::Instant::now();
    let sent = requests.into_iter().enumerate().map(|(index, request)| {
        let (world, url) = (world.clone(), url.clone());
        async move {
            tokio::time::sleep_until(began + pause * index as u32).await;
            let token = format!("Bearer {}", request.token());
            let headers = [("content-type", "application/json"), ("authorization", token.as_str())];
            let asked = Instant::now();
            let body = request.body().to_string();
            let answer = world.send(Method::POST, &url, &headers, Some(body.as_bytes())).await;
            (request, answer, asked.elapsed())
        }
    });
    let answers: Vec<_> = futures::stream::iter(sent).buffer_unordered(AT_ONCE).collect().await;
    let took = began.elapsed();
    let (mut accepted, mut wrong) = (BTreeSet::new(), BTreeMap::new());
    let mut slowest = Duration::ZERO;
    for (request, answer, time) in &answers {
        slowest = slowest.max(*time);
        let has_wait = answer.status != 429 || answer.retry_after.is_some();
        if !request.right_answers().contains(&answer.status) || !has_wait {
            *wrong.entry(format!("{} {}", answer.status, answer.text)).or_insert(0) += 1;
        }
        if answer.status == 201 {
            accepted.insert(answer.json()["name"].as_str().unwrap_or_default().to_owned());
        }
    }
    let is_asked_for = |bundle: &Bundle| !bundle.name().starts_with("first-");
    let found: BTreeSet<String> = list_bundles(world)
        .await
        .iter()
        .filter(|bundle| is_asked_for(bundle))
        .map(|bundle| bundle.name().to_owned())
        .collect();
    let created = answers.iter().filter(|(_, answer, _)| answer.status == 201).count();
    // A name that two answers share, one that is not there, and one nobody was told of.
    let lost = created - accepted.len() + accepted.symmetric_difference(&found).count();
    let asked = Instant::now();
    until("every bundle is taken up", async || {
        let bundles = list_bundles(world).await;
        let is_untouched =
            |bundle: &&Bundle| is_asked_for(bundle) && bundle.phase() == BundlePhase::Available;
        let left = bundles.iter().filter(is_untouched).count();
        if left > 0 {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        left == 0
    })
    .await;
    Ok(LoadResult {
        requests: count,
        late: (took.saturating_sub(pause * count as u32)).as_secs_f64(),
        slowest: slowest.as_secs_f64() * 1000.0,
        accepted: created,
        wrong,
        lost,
        taken_up: asked.elapsed().as_secs_f64(),
    })
}
