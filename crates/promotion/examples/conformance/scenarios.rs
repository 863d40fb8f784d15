//! A version on its way through three environments of a real Gitea, and back (A01, C01, C04).

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_promotion::kinds::{Bundle, BundlePhase, GateResult, PromotionStep, StepState};

use crate::gitea::{Gitea, REVIEWER, labels};
use crate::player::{Stuck, play};
use crate::rig::{HOOK_SECRET, NAMESPACE, Rig, deployment, environment_files, until};
use crate::{Failure, case};

const REPOSITORY: &str = "gitops";
const ENVIRONMENTS: &[&str] = &["dev", "staging", "prod"];
/// The time a version has to become healthy; moved by hand where it is to run out.
const HEALTH_LIMIT: Duration = Duration::from_secs(120);

pub(crate) async fn run(gitea: &Gitea) -> Result<(), Failure> {
    let rig = Rig::start().await?;
    gitea.create_repository(REPOSITORY, &environment_files(ENVIRONMENTS)).await?;
    gitea.create_hook(REPOSITORY, &rig.hook, HOOK_SECRET).await?;
    rig.create_credentials(gitea).await?;
    for environment in ENVIRONMENTS {
        rig.create(deployment(environment)).await?;
    }
    rig.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "known-version", "namespace": NAMESPACE,
            "labels": {"kardinal.io/scope": "team", "kardinal.io/applies-to": "prod"}},
        "spec": {"expression": "bundle.version != ''", "message": "a version has a name"}}))
        .await?;
    let stuck = Stuck::default();
    let player =
        tokio::spawn(play(gitea.clone(), REPOSITORY, rig.cluster.clone(), ENVIRONMENTS, stuck.clone()));
    // Merges must be noticed by webhooks: the safety poll comes after five minutes.
    let health = json!({"type": "resource", "timeout": format!("{}s", HEALTH_LIMIT.as_secs())});
    let environments = json!([
        {"name": "dev", "approval": "auto", "health": health},
        {"name": "staging", "approval": "auto", "health": health},
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
        self.fail_and_return().await?;
        self.fail_twice().await
    }

    /// The pull request of a bundle for production, once it is as people find it.
    async fn pull_request(&self, bundle: &str) -> Result<(PromotionStep, Value), Failure> {
        let step = self.rig.wait_for(bundle, "prod", StepState::WaitingForMerge).await?;
        let number = step.status.pr_number.unwrap_or_default();
        Ok((step, self.gitea.pull_request(REPOSITORY, number).await?))
    }

    async fn merge(&self, bundle: &str, how: &str) -> Result<(), Failure> {
        let (step, _) = self.pull_request(bundle).await?;
        self.gitea.merge(REPOSITORY, step.status.pr_number.unwrap_or_default(), how).await
    }

    /// A01: from the bundle to production.
    async fn promote(&self) -> Result<(), Failure> {
        let before = self.gitea.commits(REPOSITORY).await?.len();
        let bundle = self.rig.create_bundle("my-app", "1.1.0").await?;
        let dev = self.rig.wait_for(&bundle, "dev", StepState::Verified).await?;
        let image = self.rig.image("dev").await?;
        case("dev runs the version when it is verified", image.ends_with(":1.1.0"), image)?;
        let staging = self.rig.wait_for(&bundle, "staging", StepState::Verified).await?;
        let order = dev.status.verified_at.zip(staging.status.started_at);
        case("staging begins after dev", order.is_some_and(|(dev, staging)| dev <= staging), order)?;
        let (_, pull) = self.pull_request(&bundle).await?;
        let open = self.gitea.pull_requests(REPOSITORY, "all").await?.len();
        case("one pull request is opened, for production", open == 1, open)?;
        let commits = self.gitea.commits(REPOSITORY).await?;
        case("one commit each went to dev and staging", commits.len() == before + 2, commits.len())?;
        for (environment, commit) in [("staging", &commits[0]), ("dev", &commits[1])] {
            let files = commit["files"].as_array().into_iter().flatten();
            let files: Vec<&str> = files.filter_map(|file| file["filename"].as_str()).collect();
            let own = format!("environments/{environment}/kustomization.yaml");
            case(&format!("the commit of {environment} touches it alone"), files == [own.as_str()], &files)?;
        }
        let text = self.gitea.file(REPOSITORY, "environments/dev/kustomization.yaml").await?;
        let kept = text.contains("newTag: \"1.1.0\" # set by promotion")
            && text.starts_with("# The dev environment.");
        case("comments and quotes stay", kept, text)?;
        let labels = labels(&pull);
        let labelled = labels.contains(&"kardinal") && labels.contains(&"kardinal/promotion");
        case("the pull request is labelled", labelled, &labels)?;
        case("the pull request is against main", pull["base"]["ref"] == "main", &pull["base"])?;
        self.merge(&bundle, "merge").await?;
        let prod = self.rig.wait_for(&bundle, "prod", StepState::Verified).await?;
        let by = prod.status.merged_by.as_deref();
        case("the merge was noticed by its webhook", by == Some(REVIEWER), &prod.status)?;
        let image = self.rig.image("prod").await?;
        case("prod runs the version when it is verified", image.ends_with(":1.1.0"), image)?;
        self.rig.wait_for_verified(&bundle).await?;
        let found = self.rig.bundle(&bundle).await?;
        let evidence = found.status.environments.get("prod").and_then(|record| record.evidence.clone());
        let evidence = evidence.unwrap_or_default();
        let approved = evidence.approved_by.contains(&REVIEWER.to_owned());
        case("the bundle records who approved", approved, &found.status)?;
        let gates = &evidence.policy_gates;
        let passed = gates.iter().any(|gate| gate.name == "known-version" && gate.result == GateResult::Pass);
        case("the bundle records the gates", passed, gates)?;
        let graphs = self.rig.graphs_of(&bundle).await?;
        case("the Graph of the bundle is still there", graphs.len() == 1, &graphs)
    }

    async fn squash(&self) -> Result<(), Failure> {
        let bundle = self.rig.create_bundle("my-app", "1.2.0").await?;
        self.merge(&bundle, "squash").await?;
        let prod = self.rig.wait_for(&bundle, "prod", StepState::Verified).await?;
        let merged = prod.status.merge_sha.clone();
        let is_own = merged.is_some() && merged != prod.status.head_sha;
        case("a squashed merge is verified at its own commit", is_own, &prod.status)?;
        self.rig.wait_for_verified(&bundle).await
    }

    /// C01: a newer bundle takes over from one that waits for a person.
    async fn supersede(&self) -> Result<(), Failure> {
        let older = self.rig.create_bundle("my-app", "1.3.0").await?;
        let (step, first) = self.pull_request(&older).await?;
        let newer = self.rig.create_bundle("my-app", "1.4.0").await?;
        let (_, second) = self.pull_request(&newer).await?;
        let number = first["number"].as_u64().unwrap_or_default();
        let closed = async || {
            Ok(self.gitea.pull_request(REPOSITORY, number).await?["state"].as_str() == Some("closed"))
        };
        until("a newer version closes the pull request of the older", closed).await?;
        let gone = async || {
            let left = self.rig.steps_of(&older).await?.len() + self.rig.graphs_of(&older).await?.len();
            Ok(left == 0)
        };
        until("the older version's Graph and steps are gone", gone).await?;
        let now = self.gitea.pull_request(REPOSITORY, number).await?;
        case("the pull request of the older version was not merged", now["merged"] == false, &now["merged"])?;
        let comments = self.gitea.comments(REPOSITORY, number).await?;
        let named = comments.iter().any(|text| text.contains("superseded by") && text.contains(&newer));
        case("a comment names the newer version", named, &comments)?;
        let branch = step.status.head_branch.unwrap_or_default();
        let branches = self.gitea.branches(REPOSITORY).await?;
        case("the branch of the older version is gone", !branches.contains(&branch), &branches)?;
        let open: Vec<Option<u64>> = self
            .gitea
            .pull_requests(REPOSITORY, "open")
            .await?
            .iter()
            .map(|pull| pull["number"].as_u64())
            .collect();
        case("one pull request is open, that of the newer", open == [second["number"].as_u64()], &open)?;
        let found = self.rig.bundle(&older).await?;
        case("the older version is superseded", found.phase() == BundlePhase::Superseded, found.phase())?;
        let evidence = found.status.environments.get("dev").and_then(|record| record.evidence.as_ref());
        case("what is known of the older version is kept", evidence.is_some(), &found.status)?;
        self.merge(&newer, "merge").await?;
        self.rig.wait_for_verified(&newer).await
    }

    /// Merges a version that nobody brings into production, and lets its time run out.
    async fn fail_in_production(&self, bundle: &str) -> Result<PromotionStep, Failure> {
        self.pull_request(bundle).await?;
        self.stuck.set("prod");
        self.merge(bundle, "merge").await?;
        self.rig.wait_for(bundle, "prod", StepState::HealthChecking).await?;
        self.rig.pass_time(HEALTH_LIMIT);
        let failed = async || {
            let step = self.rig.step(bundle, "prod").await?;
            Ok(step.is_some_and(|step| step.state() == StepState::Failed))
        };
        until("prod fails", failed).await?;
        Ok(self.rig.step(bundle, "prod").await?.ok_or("the step is gone")?)
    }

    /// The bundles that take one back.
    async fn rollbacks_of(&self, bundle: &str) -> Result<Vec<Bundle>, Failure> {
        let takes_back = |other: &Bundle| {
            other.spec.provenance.as_ref().is_some_and(|from| from.rollback_of.as_deref() == Some(bundle))
        };
        Ok(self.rig.bundles().await?.into_iter().filter(takes_back).collect())
    }

    /// The bundle that takes production back.
    async fn rollback_of(&self, bundle: &str) -> Result<Bundle, Failure> {
        let is_of_prod = |other: &Bundle| other.spec.intent().target.as_deref() == Some("prod");
        let exists = async || Ok(self.rollbacks_of(bundle).await?.iter().any(is_of_prod));
        until("production is taken back", exists).await?;
        Ok(self.rollbacks_of(bundle).await?.into_iter().find(is_of_prod).ok_or("the rollback is gone")?)
    }

    /// C04: a version that does not become healthy is taken back.
    async fn fail_and_return(&self) -> Result<(), Failure> {
        let bundle = self.rig.create_bundle("my-app", "1.5.0").await?;
        let failed = self.fail_in_production(&bundle).await?;
        let reason = failed.status.reason.as_deref();
        case("prod fails at its deadline", reason == Some("HealthTimeout"), &failed.status)?;
        self.stuck.clear();
        let back = self.rollback_of(&bundle).await?;
        case("the rollback has the version before", back.spec.version() == "1.4.0", back.spec.version())?;
        let (_, pull) = self.pull_request(back.name()).await?;
        let labels = labels(&pull);
        let labelled = labels.contains(&"kardinal/rollback");
        case("the rollback opens a pull request of its own", labelled, &labels)?;
        self.merge(back.name(), "merge").await?;
        self.rig.wait_for_verified(back.name()).await?;
        let image = self.rig.image("prod").await?;
        case("prod runs the version before", image.ends_with(":1.4.0"), image)?;
        let phase = self.rig.bundle(&bundle).await?.phase();
        case("the version that failed has failed", phase == BundlePhase::Failed, phase)?;
        let all = self.rollbacks_of(&bundle).await?;
        for one in &all {
            self.rig.wait_for_verified(one.name()).await?;
        }
        let targets: BTreeSet<String> = all.iter().filter_map(|one| one.spec.intent().target).collect();
        let is_once = all.len() == 3 && targets.iter().map(String::as_str).eq(["dev", "prod", "staging"]);
        case("it was taken back once in each environment", is_once, &targets)
    }

    /// C04: a rollback that fails is not taken back.
    async fn fail_twice(&self) -> Result<(), Failure> {
        let bundle = self.rig.create_bundle("my-app", "1.6.0").await?;
        self.fail_in_production(&bundle).await?;
        let back = self.rollback_of(&bundle).await?;
        // The version is in production after all, and nobody brings the one before back.
        self.rig.set_image("prod", "my-app", "ghcr.io/acme/app:1.6.0").await?;
        self.fail_in_production(back.name()).await?;
        let phase = async || Ok(self.rig.bundle(back.name()).await?.phase() == BundlePhase::Failed);
        until("the rollback fails", phase).await?;
        for other in self.rollbacks_of(&bundle).await?.iter().filter(|other| other.name() != back.name()) {
            self.rig.wait_for_verified(other.name()).await?;
        }
        self.rig.pass_time(HEALTH_LIMIT);
        self.rig.wait_until_settled().await?;
        let (first, second) =
            (self.rollbacks_of(&bundle).await?.len(), self.rollbacks_of(back.name()).await?.len());
        case("a rollback that fails is not taken back", (first, second) == (3, 0), (first, second))?;
        let open = self.gitea.pull_requests(REPOSITORY, "open").await?.len();
        case("nothing is open afterwards", open == 0, open)
    }
}
