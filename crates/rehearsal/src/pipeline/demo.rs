//! A pipeline to look at: three environments, a gate and a bundle on a cluster of this process, in real time.

use std::path::Path;
use std::time::Duration;

use slipway_cluster::ListOptions;
use slipway_git::{BranchName, GitError, LocalFile};
use slipway_promotion::PromotionSettings;
use slipway_promotion::act::{NewBundle, PipelineConfig, parse_image, scaffold_files};
use slipway_promotion::files::PromotionFiles;
use slipway_promotion::kinds::{
    self, ApprovalMode, BundleSpec, GoDuration, HealthSpec, HealthType, Pipeline, PromotionStepSpec,
    ResourceHealth, ScmProvider, StepState,
};
use slipway_sandbox::Sandbox;
use tokio_util::sync::CancellationToken;

use super::stage::PromotionStage;
use super::sync::GitOpsSync;
use crate::RehearsalError;

/// The time between two looks of the GitOps tool.
const LOOK_EVERY: Duration = Duration::from_secs(1);
const IMAGE: &str = "ghcr.io/example/my-app";
const NAMESPACE: &str = "default";

/// The gate of the demonstration: a minute in staging before production.
const GATE: &str = "
apiVersion: kardinal.io/v1alpha1
kind: PolicyGate
metadata:
  name: staging-soak
  namespace: platform-policies
  labels:
    kardinal.io/scope: org
    kardinal.io/applies-to: prod
spec:
  expression: bundle.isRollback || bundle.upstreamSoakMinutes >= 1
  message: A version runs in staging for a minute first
  recheckInterval: 10s
";

/// A demonstration that runs.
pub struct PipelineDemo {
    pub pipeline: Pipeline,
    /// The address of the GitOps repository.
    pub repository: String,
    /// The version that is promoted first.
    pub version: String,
    stage: PromotionStage,
}

impl PipelineDemo {
    /// Brings everything up on a sandbox; the repository is kept below `place`.
    pub async fn start(sandbox: &Sandbox, place: &Path) -> Result<Self, RehearsalError> {
        let branch = BranchName::parse("main").map_err(GitError::from)?;
        let config = PipelineConfig {
            app: "my-app".to_owned(),
            image: IMAGE.to_owned(),
            environments: ["dev", "staging", "prod"].map(str::to_owned).to_vec(),
            prod_approval: ApprovalMode::PrReview,
            provider: Some(ScmProvider::None),
            ..PipelineConfig::default()
        };
        let mut pipeline = config.pipeline(NAMESPACE);
        let scaffolded = scaffold_files(&pipeline, IMAGE).into_iter();
        let files: Vec<LocalFile> = scaffolded
            .map(|file| LocalFile { path: file.path, content: file.content.into_bytes() })
            .collect();
        let stage =
            PromotionStage::open(sandbox, place, &branch, &files, PromotionSettings::default()).await?;
        for namespace in [NAMESPACE, "platform-policies", "dev", "staging", "prod"] {
            stage.prepare_namespace(namespace).await?;
        }
        let repository = stage.forge.repository().url();
        pipeline.spec.git.url.clone_from(&repository);
        // Nobody tells of approvals: they are looked for.
        pipeline.spec.git.webhook_mode = kinds::WebhookMode::Polling;
        pipeline.spec.git.poll_interval = Some(GoDuration::from_secs(10));
        for environment in &mut pipeline.spec.environments {
            let (name, namespace) = (Some("my-app".to_owned()), Some(environment.name.clone()));
            let resource = ResourceHealth { name, namespace, ..ResourceHealth::default() };
            environment.health = Some(HealthSpec {
                adapter: Some(HealthType::Resource),
                resource: Some(resource),
                ..HealthSpec::default()
            });
        }
        let mut gates = PromotionFiles::default();
        gates.read(GATE, "gate.yaml").map_err(RehearsalError::Failed)?;
        for object in &gates.objects {
            stage.create(object).await?;
        }
        let pipeline = kinds::create(&stage.cluster, &pipeline).await?;
        let version = "1.1.0".to_owned();
        let images = parse_image(&format!("{IMAGE}:{version}")).into_iter().collect();
        let request = NewBundle {
            pipeline: pipeline.name().to_owned(),
            namespace: NAMESPACE.to_owned(),
            images,
            ..NewBundle::default()
        };
        kinds::create(&stage.cluster, &request.into_bundle(stage.now())).await?;
        Ok(Self { pipeline, repository, version, stage })
    }

    /// Plays the GitOps tool until it is told to stop.
    pub async fn run(self, stop: &CancellationToken) -> Result<(), RehearsalError> {
        let mut synced = std::collections::BTreeSet::new();
        while !stop.is_cancelled() {
            let steps = kinds::list::<PromotionStepSpec>(
                &self.stage.cluster,
                Some(NAMESPACE),
                &ListOptions::default(),
            )
            .await?;
            for step in steps.iter().filter(|step| step.state() == StepState::HealthChecking) {
                if !synced.insert(step.metadata.uid.clone()) {
                    continue;
                }
                let bundle =
                    kinds::get::<BundleSpec>(&self.stage.cluster, NAMESPACE, &step.spec.bundle_ref).await?;
                let Some(bundle) = bundle else { continue };
                let sync = GitOpsSync::Unobserved;
                sync.apply(&self.stage.cluster, self.pipeline.name(), &step.spec.environment, &bundle)
                    .await?;
            }
            stop.run_until_cancelled(tokio::time::sleep(LOOK_EVERY)).await;
        }
        self.stage.close().await;
        Ok(())
    }
}
