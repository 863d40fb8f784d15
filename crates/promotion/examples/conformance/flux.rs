//! Real Flux: no promotion is verified before the cluster runs the merged commit.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{PromotionStep, StepState};

use crate::gitea::Gitea;
use crate::rig::{HOOK_SECRET, Rig, environment_files};
use crate::{Failure, PATIENCE, PAUSE, case};

const REPOSITORY: &str = "flux-gitops";

/// The controllers and their definitions.
pub(crate) struct Programs {
    source: PathBuf,
    kustomize: PathBuf,
    definitions: Vec<PathBuf>,
    runs: u64,
}

impl Programs {
    pub(crate) fn from_environment() -> Result<Option<Self>, Failure> {
        let path = |name: &str| std::env::var_os(name).map(PathBuf::from);
        let (Some(source), Some(kustomize)) =
            (path("FLUX_SOURCE_CONTROLLER"), path("FLUX_KUSTOMIZE_CONTROLLER"))
        else {
            return Ok(None);
        };
        let listed = std::env::var_os("FLUX_DEFINITIONS").unwrap_or_default();
        let definitions = std::env::split_paths(&listed).collect();
        let runs = std::env::var("RUNS").ok().and_then(|runs| runs.parse().ok()).unwrap_or(5);
        Ok(Some(Self { source, kustomize, definitions, runs }))
    }
}

/// A program that ends with the run.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(
    program: &Path,
    place: &Path,
    kubeconfig: &Path,
    address: &str,
    more: &[String],
) -> Result<Running, Failure> {
    let log = std::fs::File::create(
        place.join(format!("{}.log", program.file_name().unwrap_or_default().display())),
    )?;
    let mut command = Command::new(program);
    command.args([
        "--enable-leader-election=false",
        "--events-addr=",
        "--log-level=debug",
        "--watch-all-namespaces=true",
    ]);
    command.args(["--metrics-addr=127.0.0.1:0", "--health-addr=127.0.0.1:0"]).args(more);
    command
        .env("KUBECONFIG", kubeconfig)
        .env("RUNTIME_NAMESPACE", "flux-system")
        .env("NO_PROXY", "127.0.0.1");
    command.env("SOURCE_CONTROLLER_LOCALHOST", address).current_dir(place).stdin(Stdio::null());
    Ok(Running(command.stdout(log.try_clone()?).stderr(log).spawn()?))
}

pub(crate) async fn run(gitea: &Gitea, programs: &Programs) -> Result<(), Failure> {
    let rig = Rig::start().await?;
    for directory in &programs.definitions {
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                let text = std::fs::read_to_string(&path)?;
                let definition = slipway_yaml::parse_one(&text, "definition")?.to_json();
                rig.define(&definition).await?;
            }
        }
    }
    let place = tempfile::tempdir()?;
    let kubeconfig = place.path().join("kubeconfig");
    std::fs::write(&kubeconfig, rig.sandbox.kubeconfig(rig.address))?;
    let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let files = format!("127.0.0.1:{port}");
    let storage = place.path().join("storage");
    std::fs::create_dir_all(&storage)?;
    let more = [
        format!("--storage-path={}", storage.display()),
        format!("--storage-addr={files}"),
        format!("--storage-adv-addr={files}"),
    ];
    let _source = start(&programs.source, place.path(), &kubeconfig, &files, &more)?;
    let _kustomize = start(&programs.kustomize, place.path(), &kubeconfig, &files, &[])?;
    gitea.create_repository(REPOSITORY, &environment_files(&["dev"])).await?;
    gitea.create_hook(REPOSITORY, &rig.hook, HOOK_SECRET).await?;
    rig.create_credentials(gitea).await?;
    sync_with_flux(&rig, gitea).await?;
    let result = promote_often(&rig, gitea, programs.runs).await;
    if result.is_err() {
        for name in ["source-controller.log", "kustomize-controller.log"] {
            let log = std::fs::read_to_string(place.path().join(name)).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(20).collect();
            println!("{name}:\n{}", tail.into_iter().rev().collect::<Vec<_>>().join("\n"));
        }
    }
    result
}

async fn sync_with_flux(rig: &Rig, gitea: &Gitea) -> Result<(), Failure> {
    let url = format!("{}/{}/{REPOSITORY}.git", gitea.root, gitea.user);
    rig.create(json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": {"name": "gitops", "namespace": "flux-system"},
        // Syncs when it is asked to: the delay is ours.
        "spec": {"url": url, "interval": "1h", "ref": {"branch": "main"}},
    }))
    .await?;
    rig.create(json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
        "metadata": {"name": "my-app-dev", "namespace": "flux-system"},
        "spec": {"interval": "1h", "path": "./environments/dev", "prune": true,
            "sourceRef": {"kind": "GitRepository", "name": "gitops"}},
    }))
    .await?;
    let end = tokio::time::Instant::now() + PATIENCE;
    while !rig.image("dev").await?.ends_with(":1.0.0") {
        if tokio::time::Instant::now() > end {
            return Err("Flux did not apply the first commit".into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    // By a pull request that the controller merges: the commit that counts is the merge.
    let environments = json!([{"name": "dev", "approval": "auto", "pr": true, "health": {"timeout": "2m"}}]);
    rig.create_pipeline(gitea, "my-app", REPOSITORY, environments).await
}

/// Asks Flux to look at the repository now.
async fn request_sync(rig: &Rig, round: u64) -> Result<(), Failure> {
    let gvk = Gvk::new("source.toolkit.fluxcd.io", "v1", "GitRepository");
    let at = ObjectRef::new(gvk, Some("flux-system"), "gitops");
    let asked =
        json!({"metadata": {"annotations": {"reconcile.fluxcd.io/requestedAt": format!("round-{round}")}}});
    rig.cluster.patch(&at, &ObjectPatch::Merge(asked), &WriteOptions::for_manager("person"), None).await?;
    Ok(())
}

/// Promotes again and again. The order of events in the cluster's store tells whether a promotion was verified too early.
async fn promote_often(rig: &Rig, gitea: &Gitea, runs: u64) -> Result<(), Failure> {
    let mut early = Vec::new();
    for round in 1..=runs {
        let version = format!("2.0.{round}");
        let bundle = rig.create_bundle("my-app", &version).await?;
        let since: u64 = rig.bundle(&bundle).await?.metadata.resource_version.parse()?;
        rig.wait_for(&bundle, "dev", StepState::HealthChecking).await?;
        // A delay that looks random and is the same in every run.
        let delay =
            Duration::from_millis(round.wrapping_mul(6_364_136_223_846_793_005) >> 33).as_millis() % 3_000;
        tokio::time::sleep(Duration::from_millis(u64::try_from(delay)?)).await;
        request_sync(rig, round).await?;
        let step = wait_for_verified(rig, &bundle).await?;
        let health = json!(step.status.health);
        if round == 1 {
            case("Flux proves the revision", health["adapter"] == "flux", &health)?;
        }
        let merged = step.status.merge_sha.clone().ok_or("no commit was merged")?;
        let verified = first_event(rig, "promotionsteps.kardinal.io", since, |object| {
            object["metadata"]["name"] == step.name() && object["status"]["state"] == "Verified"
        })?;
        let applied = first_event(rig, "kustomizations.kustomize.toolkit.fluxcd.io", since, |object| {
            let revision = object["status"]["lastAppliedRevision"].as_str();
            revision.is_some_and(|revision| revision.ends_with(&merged))
        })?;
        let runs_it = first_event(rig, "deployments.apps", since, |object| {
            let image = object.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
            image.is_some_and(|image| image.ends_with(&format!(":{version}")))
        })?;
        if verified <= applied.max(runs_it) {
            early.push(format!(
                "{version}: verified at {verified}, applied at {applied}, runs since {runs_it}"
            ));
        }
        let wanted = format!("[kardinal] Promote my-app {version} to dev");
        let pulls = gitea.pull_requests(REPOSITORY, "all").await?;
        let own: Vec<&Value> = pulls.iter().filter(|pull| pull["title"] == wanted.as_str()).collect();
        if own.len() != 1 || own.iter().any(|pull| pull["merge_commit_sha"] != merged.as_str()) {
            return Err(format!("{version}: merged as {merged}, pull requests: {own:?}").into());
        }
        // A hundred take a while.
        if round % 10 == 0 && round < runs {
            case(&format!("none of the first {round} was verified early"), early.is_empty(), &early)?;
        }
    }
    let subjects = gitea.subjects(REPOSITORY, "main").await?;
    let promoted = subjects.iter().filter(|subject| subject.starts_with("[kardinal] Promote ")).count();
    case("every version is one commit", promoted as u64 == runs, promoted)?;
    case(
        &format!("none of {runs} promotions was verified before the cluster ran the merged commit"),
        early.is_empty(),
        early,
    )
}

async fn wait_for_verified(rig: &Rig, bundle: &str) -> Result<PromotionStep, Failure> {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        let step = rig.step(bundle, "dev").await?.ok_or("the step is gone")?;
        match step.state() {
            StepState::Verified => return Ok(step),
            state if state.is_terminal() => return Err(format!("{state:?}: {:?}", step.status).into()),
            _ if tokio::time::Instant::now() > end => {
                return Err(format!("waits: {:?}", step.status.health).into());
            }
            _ => tokio::time::sleep(PAUSE / 4).await,
        }
    }
}

/// The revision of the first change after another that left an object as wanted.
fn first_event(
    rig: &Rig,
    table: &str,
    since: u64,
    is_wanted: impl Fn(&Value) -> bool,
) -> Result<u64, Failure> {
    let events = rig.sandbox.store().events_after(table, since, usize::MAX);
    let events = events.map_err(|_| format!("the history of {table} is gone"))?;
    let found = events.iter().find(|event| is_wanted(&event.object.value()));
    found.map(|event| event.rev).ok_or_else(|| format!("no change of {table} is the one").into())
}
