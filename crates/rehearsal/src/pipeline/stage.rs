//! Everything a promotion needs, in this process: a cluster, a repository with pull requests, and the controller.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_cluster::{Cluster, ErrorClass, ServedKind, WriteOptions, crd};
use slipway_event::{Clock, Redactor};
use slipway_git::{
    BranchName, CacheOptions, CommitIdentity, Git, LocalFile, LocalRepository, RepositoryCache,
    TransportPolicy,
};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{self, GitSpec, ScmProvider, SecretRef};
use slipway_promotion::{PromotionController, PromotionServices, PromotionSettings};
use slipway_sandbox::{Sandbox, Store};
use slipway_scm::InProcessServer;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::forge::LocalForge;
use crate::RehearsalError;

/// The Secret pipelines of a stage name; nobody checks its token.
const SECRET: &str = "rehearsal";
/// The time the embedded cluster has to serve a kind.
const PATIENCE: Duration = Duration::from_secs(30);
/// The pause between two looks at a controller that does not rest yet.
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// The looks after which a controller that never rests is given up.
const MOST_LOOKS: u32 = 120_000;

/// The clock of a sandbox, for everything that runs on it.
pub(super) struct StageClock(pub(super) Arc<slipway_sandbox::Clock>);

impl Clock for StageClock {
    fn now(&self) -> Timestamp {
        self.0.now()
    }
}

/// A cluster, a repository and a controller that work together.
pub struct PromotionStage {
    pub cluster: Cluster,
    pub forge: LocalForge,
    pub controller: PromotionController,
    clock: Arc<dyn Clock>,
    store: Arc<Store>,
    stop: CancellationToken,
    working: JoinHandle<()>,
}

impl PromotionStage {
    /// Installs the kinds, makes a repository of the files and starts the controller. Everything is kept below `place`.
    pub async fn open(
        sandbox: &Sandbox,
        place: &Path,
        branch: &BranchName,
        files: &[LocalFile],
        mut settings: PromotionSettings,
    ) -> Result<Self, RehearsalError> {
        let cluster = Cluster::new(sandbox.client());
        let clock: Arc<dyn Clock> = Arc::new(StageClock(sandbox.clock().clone()));
        let definitions = kinds::definitions().into_iter().chain(slipway_kro::definitions(settings.group));
        for definition in definitions {
            let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
            let name = definition["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            create_at(&cluster, &ObjectRef::new(gvk, None, &name), &definition).await?;
            crd::wait_until_served(&cluster, &definition, PATIENCE).await?;
        }
        let git = Arc::new(Git::default());
        let repository = LocalRepository::create(git.clone(), &place.join("gitops/app.git"), branch).await?;
        let by = CommitIdentity::new("rehearsal", "rehearsal@rehearsal.invalid");
        repository.commit_files(branch, files, "The environments as they are", &by, clock.now()).await?;
        let forge = LocalForge::new(repository, clock.clone());
        settings.steps.scm.in_process = Some(InProcessServer(Arc::new(forge.clone())));
        settings.steps.scm.settle_pause = Duration::from_millis(1);
        settings.steps.transports = TransportPolicy::NetworkAndFiles;
        let stop = CancellationToken::new();
        let cache = place.join("cache");
        let repositories =
            RepositoryCache::open(cache, CacheOptions::default(), git, clock.clone(), stop.clone())?;
        let services = PromotionServices {
            cluster: Cluster::new(sandbox.client()),
            clock: clock.clone(),
            repositories,
            redactor: Redactor::new(),
            stop: stop.clone(),
        };
        let controller = PromotionController::new(services, settings);
        let running = controller.clone();
        let working = tokio::spawn(async move {
            // It ends with the stage; what went wrong before shows in what it did not do.
            let _ = running.run().await;
        });
        Ok(Self { cluster, forge, controller, clock, store: sandbox.store().clone(), stop, working })
    }

    /// The repository as pipelines of the stage name it.
    pub fn git(&self, own: &GitSpec) -> GitSpec {
        GitSpec {
            url: self.forge.repository().url(),
            provider: ScmProvider::GitLab,
            // Never asked: the forge is in this process.
            api_url: Some("https://rehearsal.invalid/api/v4".to_owned()),
            secret_ref: Some(SecretRef::named(SECRET)),
            commit: None,
            ..own.clone()
        }
    }

    /// Creates a namespace and the Secret pipelines in it name.
    pub async fn prepare_namespace(&self, name: &str) -> Result<(), RehearsalError> {
        self.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).await?;
        self.create(
            &json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": name},
            "data": {"token": BASE64.encode(b"rehearsal")}}),
        )
        .await
    }

    /// Creates an object; one that is there already stays.
    pub async fn create(&self, object: &Value) -> Result<(), RehearsalError> {
        create_at(&self.cluster, &ObjectRef::of(object), object).await
    }

    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Waits until the controller has seen everything there is and has nothing to do but wait for the clock.
    pub async fn settle(&self) -> Result<(), RehearsalError> {
        for _ in 0..MOST_LOOKS {
            if self.controller.is_settled(&|kind, version| has_newer(&self.store, kind, version)) {
                return Ok(());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Err(RehearsalError::Restless)
    }

    /// Ends the controller; what is under way is finished.
    pub async fn close(self) {
        self.stop.cancel();
        let _ = self.working.await;
    }
}

/// Tells that a kind has changed in the embedded cluster since a version.
fn has_newer(store: &Store, kind: &ServedKind, version: u64) -> bool {
    let table = format!("{}.{}", kind.plural, kind.gvk.group);
    store.events_after(&table, version, 1).is_ok_and(|events| !events.is_empty())
}

async fn create_at(cluster: &Cluster, at: &ObjectRef, object: &Value) -> Result<(), RehearsalError> {
    match cluster.create(at, object, &WriteOptions::for_manager("rehearsal")).await {
        Err(error) if error.class == ErrorClass::AlreadyExists => Ok(()),
        Err(source) => Err(RehearsalError::Object { object: at.to_string(), source }),
        Ok(_) => Ok(()),
    }
}
