//! A version on its way through two environments of a real Gitea, and back.

use serde_json::{Value, json};
use slipway_promotion::kinds::{BundlePhase, StepState};

use crate::gitea::{Gitea, REVIEWER};
use crate::player::{Stuck, play};
use crate::rig::{HOOK_SECRET, Rig, deployment, environment_files};
use crate::{Failure, PATIENCE, PAUSE, case};

const REPOSITORY: &str = "gitops";
const ENVIRONMENTS: &[&str] = &["dev", "prod"];

pub(crate) async fn run(gitea: &Gitea) -> Result<(), Failure> {
    let rig = Rig::start().await?;
    gitea.create_repository(REPOSITORY, &environment_files(ENVIRONMENTS)).await?;
    gitea.create_hook(REPOSITORY, &rig.hook, HOOK_SECRET).await?;
    rig.create_credentials(gitea).await?;
    for environment in ENVIRONMENTS {
        rig.create(deployment(environment)).await?;
    }
    let stuck = Stuck::default();
    let player =
        tokio::spawn(play(gitea.clone(), REPOSITORY, rig.cluster.clone(), ENVIRONMENTS, stuck.clone()));
    // Merges must be noticed by webhooks: the safety poll comes after five minutes.
    let health = json!({"type": "resource", "timeout": "45s"});
    let environments = json!([
        {"name": "dev", "approval": "auto", "health": health},
        {"name": "prod", "approval": "pr-review", "health": health},
    ]);
    rig.create_pipeline(gitea, "my-app", REPOSITORY, environments).await?;
    let walk = Walk { gitea, rig: &rig, stuck };
    let result = walk.all().await;
    player.abort();
    result
}

struct Walk<'a> {
    gitea: &'a Gitea,
    rig: &'a Rig,
    stuck: Stuck,
}

impl Walk<'_> {
    async fn all(&self) -> Result<(), Failure> {
        self.promote().await?;
        self.squash().await?;
        self.supersede().await?;
        self.fail_and_return().await
    }

    /// The one open pull request.
    async fn open_pull_request(&self) -> Result<Value, Failure> {
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            let mut open = self.gitea.pull_requests(REPOSITORY, "open").await?;
            match open.len() {
                0 => tokio::time::sleep(PAUSE).await,
                1 => return Ok(open.remove(0)),
                count => return Err(format!("{count} pull requests are open").into()),
            }
        }
        Err("no pull request was opened".into())
    }

    async fn verified(&self, bundle: &str) -> Result<(), Failure> {
        let end = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < end {
            match self.rig.bundle(bundle).await?.phase() {
                BundlePhase::Verified => return Ok(()),
                BundlePhase::Available | BundlePhase::Promoting => tokio::time::sleep(PAUSE).await,
                other => return Err(format!("{bundle} is {other:?}").into()),
            }
        }
        Err(format!("{bundle} was not verified in time").into())
    }

    async fn promote(&self) -> Result<(), Failure> {
        let before = self.gitea.commits(REPOSITORY).await?.len();
        let bundle = self.rig.create_bundle("my-app", "1.1.0").await?;
        self.rig.wait_for(&bundle, "dev", StepState::Verified).await?;
        case(
            "dev runs the version when it is verified",
            self.rig.image("dev").await?.ends_with(":1.1.0"),
            (),
        )?;
        let pull = self.open_pull_request().await?;
        let number = pull["number"].as_u64().unwrap_or_default();
        let commits = self.gitea.commits(REPOSITORY).await?;
        case("one commit went to dev", commits.len() == before + 1, commits.len())?;
        let files: Vec<&str> = commits[0]["files"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|file| file["filename"].as_str())
            .collect();
        case("it touches dev alone", files == ["environments/dev/kustomization.yaml"], &files)?;
        let text = self.gitea.file(REPOSITORY, "environments/dev/kustomization.yaml").await?;
        let kept = text.contains("newTag: \"1.1.0\" # set by promotion")
            && text.starts_with("# The dev environment.");
        case("comments and quotes stay", kept, text)?;
        let labels: Vec<&str> = pull["labels"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|label| label["name"].as_str())
            .collect();
        let labelled = labels.contains(&"kardinal") && labels.contains(&"kardinal/promotion");
        case("the pull request is labelled", labelled, &labels)?;
        self.gitea.merge(REPOSITORY, number, "merge").await?;
        let prod = self.rig.wait_for(&bundle, "prod", StepState::Verified).await?;
        case(
            "the merge was noticed by its webhook",
            prod.status.merged_by.as_deref() == Some(REVIEWER),
            &prod.status,
        )?;
        case(
            "prod runs the version when it is verified",
            self.rig.image("prod").await?.ends_with(":1.1.0"),
            (),
        )?;
        self.verified(&bundle).await?;
        let bundle = self.rig.bundle(&bundle).await?;
        let evidence = bundle.status.environments.get("prod").and_then(|record| record.evidence.clone());
        let approved = evidence.is_some_and(|evidence| evidence.approved_by.contains(&REVIEWER.to_owned()));
        case("the bundle records who approved", approved, &bundle.status)
    }

    async fn squash(&self) -> Result<(), Failure> {
        let bundle = self.rig.create_bundle("my-app", "1.2.0").await?;
        let pull = self.open_pull_request().await?;
        self.gitea.merge(REPOSITORY, pull["number"].as_u64().unwrap_or_default(), "squash").await?;
        let prod = self.rig.wait_for(&bundle, "prod", StepState::Verified).await?;
        let merged = prod.status.merge_sha.clone();
        case(
            "a squashed merge is verified at its own commit",
            merged.is_some() && merged != prod.status.head_sha,
            &prod.status,
        )?;
        self.verified(&bundle).await
    }

    async fn supersede(&self) -> Result<(), Failure> {
        let older = self.rig.create_bundle("my-app", "1.3.0").await?;
        let first = self.open_pull_request().await?["number"].as_u64();
        self.rig.wait_for(&older, "prod", StepState::WaitingForMerge).await?;
        let newer = self.rig.create_bundle("my-app", "1.4.0").await?;
        self.rig.wait_for(&newer, "prod", StepState::WaitingForMerge).await?;
        let end = tokio::time::Instant::now() + PATIENCE;
        while self.gitea.pull_requests(REPOSITORY, "open").await?.len() != 1
            && tokio::time::Instant::now() < end
        {
            tokio::time::sleep(PAUSE).await;
        }
        let open = self.open_pull_request().await?["number"].as_u64();
        case("a newer version closes the pull request of the older", open.is_some() && open != first, open)?;
        let phase = self.rig.bundle(&older).await?.phase();
        case("the older version is superseded", phase == BundlePhase::Superseded, phase)?;
        self.gitea.merge(REPOSITORY, open.unwrap_or_default(), "merge").await?;
        self.verified(&newer).await
    }

    async fn fail_and_return(&self) -> Result<(), Failure> {
        let bundle = self.rig.create_bundle("my-app", "1.5.0").await?;
        let pull = self.open_pull_request().await?;
        self.stuck.set("prod");
        self.gitea.merge(REPOSITORY, pull["number"].as_u64().unwrap_or_default(), "merge").await?;
        let failed = self.rig.wait_for(&bundle, "prod", StepState::Failed).await?;
        case(
            "prod fails at its deadline",
            failed.status.reason.as_deref() == Some("HealthTimeout"),
            &failed.status,
        )?;
        self.stuck.clear();
        let pull = self.open_pull_request().await?;
        let labels: Vec<&str> = pull["labels"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|label| label["name"].as_str())
            .collect();
        case("the rollback opens a pull request of its own", labels.contains(&"kardinal/rollback"), &labels)?;
        self.gitea.merge(REPOSITORY, pull["number"].as_u64().unwrap_or_default(), "merge").await?;
        let bundles = self.rig.bundles().await?;
        let back = bundles
            .iter()
            .find(|bundle| bundle.is_rollback() && bundle.spec.intent().target.as_deref() == Some("prod"));
        let name = back.map(|bundle| bundle.name().to_owned()).ok_or("there is no rollback")?;
        self.verified(&name).await?;
        let image = self.rig.image("prod").await?;
        case("prod runs the version before", image.ends_with(":1.4.0"), image)
    }
}
