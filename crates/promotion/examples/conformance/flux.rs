//! Real Flux: no promotion is verified before the cluster runs the merged commit.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::{ObjectPatch, WriteOptions};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::StepState;

use crate::gitea::Gitea;
use crate::rig::{Rig, environment_files};
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
    let environments = json!([{"name": "dev", "approval": "auto", "health": {"timeout": "2m"}}]);
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

async fn promote_often(rig: &Rig, gitea: &Gitea, runs: u64) -> Result<(), Failure> {
    let mut early = 0;
    for round in 1..=runs {
        let version = format!("2.0.{round}");
        let bundle = rig.create_bundle("my-app", &version).await?;
        rig.wait_for(&bundle, "dev", StepState::HealthChecking).await?;
        // A delay that looks random and is the same in every run.
        let delay =
            Duration::from_millis(round.wrapping_mul(6_364_136_223_846_793_005) >> 33).as_millis() % 3_000;
        let delay = Duration::from_millis(u64::try_from(delay)?);
        let sync = async {
            tokio::time::sleep(delay).await;
            request_sync(rig, round).await
        };
        let watch = async {
            let end = tokio::time::Instant::now() + PATIENCE;
            loop {
                // First the step, then the cluster: a step that is verified too early is seen.
                let step = rig.step(&bundle, "dev").await?.ok_or("the step is gone")?;
                let image = rig.image("dev").await?;
                match step.state() {
                    StepState::Verified => {
                        return Ok::<(Value, bool), Failure>((
                            json!(step.status.health),
                            image.ends_with(&version),
                        ));
                    }
                    state if state.is_terminal() => {
                        return Err(format!("{state:?}: {:?}", step.status).into());
                    }
                    _ if tokio::time::Instant::now() > end => {
                        return Err(format!("waits: {:?}", step.status.health).into());
                    }
                    _ => tokio::time::sleep(PAUSE / 4).await,
                }
            }
        };
        let (synced, watched) = tokio::join!(sync, watch);
        synced?;
        let (health, is_live) = watched?;
        early += u64::from(!is_live);
        if round == 1 {
            case("Flux proves the revision", health["adapter"] == "flux", &health)?;
        }
    }
    let commits = gitea.commits(REPOSITORY).await?.len();
    case("every version is one commit", commits as u64 == runs.min(48) + 2, commits)?;
    case(&format!("none of {runs} promotions was verified before the cluster ran it"), early == 0, early)
}
