//! The files whole promotions write: images, values, configuration and rendered branches.

use serde_json::json;
use slipway_promotion::kinds::{BundlePhase, StepState};

use super::world::World;
use crate::forge::git;
use crate::steps::world::KUSTOMIZATION;

/// The lines a commit takes away and adds.
fn changed_lines(world: &World, range: &str) -> Vec<String> {
    let diff = git(&world.forge.repository(), &["diff", "--unified=0", range]).expect("is compared");
    let is_change = |line: &&str| {
        (line.starts_with('+') || line.starts_with('-'))
            && !line.starts_with("+++")
            && !line.starts_with("---")
    };
    diff.lines().filter(is_change).map(str::to_owned).collect()
}

/// Comments, indentation and quotes stay: the difference is the tag, in every environment.
#[tokio::test(flavor = "multi_thread")]
async fn a_promotion_changes_the_line_with_the_tag_and_no_other() {
    let world = World::new(&["dev", "prod"]).await;
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let old = "-      newTag: \"1.28.0\"   # do not touch by hand";
    let new = "+      newTag: \"1.29.0\"   # do not touch by hand";
    let root = git(&world.forge.repository(), &["rev-list", "--max-parents=0", "main"]).expect("has a root");
    let lines = changed_lines(&world, &format!("{root}..main"));
    let mut sorted = lines.clone();
    sorted.sort();
    // The reference names a repository that the file does not have: it is put in.
    sorted.retain(|line| !line.contains("newName"));
    assert_eq!(sorted, [new, new, old, old], "{lines:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn images_that_share_their_last_word_are_promoted_apart() {
    let before = "images:\n- name: team-a/api\n  newTag: v1\n- name: team-b/api # theirs\n  newTag: v1\n";
    let world = World::with_files(&["dev"], &[("environments/dev/kustomization.yaml", before)]).await;
    world.pipeline(json!([{"name": "dev"}])).await;
    let images = json!({"artifacts": {"images": [
        {"name": "team-b/api", "reference": "team-b/api:v2"}, {"name": "team-a/api", "reference": "team-a/api:v3"},
    ]}});
    world.bundle_with("app-1", "v2", json!({}), images).await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let after = world.forge.file("main", "environments/dev/kustomization.yaml").expect("is there");
    let expected = "images:\n- name: team-a/api\n  newTag: v3\n- name: team-b/api # theirs\n  newTag: v2";
    assert_eq!(after, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_of_two_images_are_promoted_and_keep_their_comments() {
    let before = "# values\nweb:\n  tag: '1.9'   # mirrored\nworker: {image: {tag: \"1.9\"}}\n";
    let world = World::with_files(&["dev"], &[("environments/dev/values.yaml", before)]).await;
    let update = json!({"strategy": "helm", "helm": {"images": [
        {"repository": "reg.io/web", "tagPath": ".web.tag"}, {"repository": "worker", "tagPath": "worker.image.tag"}]}});
    world.pipeline(json!([{"name": "dev", "update": update}])).await;
    let images = json!({"artifacts": {"images": [
        {"name": "reg.io/web", "reference": "reg.io/web:1.10"}, {"name": "worker", "reference": "worker:1.10"}]}});
    world.bundle_with("app-1", "1.10", json!({}), images).await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    let after = world.forge.file("main", "environments/dev/values.yaml").expect("is there");
    assert_eq!(after, "# values\nweb:\n  tag: '1.10'   # mirrored\nworker: {image: {tag: \"1.10\"}}");
}

const LIMITS: &str = "cpu: 1\na: 1\nb: 1\nc: 1\nmemory: 1\n";

/// The configuration branch: a first commit, and one that raises a limit and touches another directory.
fn raise_limits(world: &World) -> String {
    let raised = LIMITS.replace("cpu: 1", "cpu: 2");
    world.forge.person("config", "First", &[("config/limits.yaml", LIMITS), ("other/file", "1\n")]);
    let files =
        [("config/limits.yaml", raised.as_str()), ("other/file", "2\n"), ("config/new.yaml", "n: 1\n")];
    world.forge.person("config", "Raise limits", &files)
}

/// Only the filtered directory; what others changed stays in one way and is written over in the other.
#[tokio::test(flavor = "multi_thread")]
async fn configuration_is_picked_or_copied_into_environments() {
    let ours = LIMITS.replace("memory: 1", "memory: 7");
    let files =
        [("environments/dev/limits.yaml", ours.as_str()), ("environments/prod/limits.yaml", ours.as_str())];
    let world = World::with_files(&["dev", "prod"], &files).await;
    let overlay = json!({"config": {"strategy": "overlay"}});
    world.pipeline(json!([{"name": "dev"}, {"name": "prod", "update": overlay}])).await;
    let sha = raise_limits(&world);
    world.config_bundle("conf-1", &sha, json!([])).await;
    world.until_phase("conf-1", BundlePhase::Verified).await;
    let file = |name: &str| world.forge.file("main", &format!("environments/{name}")).unwrap_or_default();
    assert_eq!(file("dev/limits.yaml"), ours.replace("cpu: 1", "cpu: 2").trim_end());
    assert_eq!(file("prod/limits.yaml"), LIMITS.replace("cpu: 1", "cpu: 2").trim_end());
    assert_eq!((file("dev/new.yaml"), file("prod/new.yaml")), ("n: 1".to_owned(), "n: 1".to_owned()));
    let changed =
        git(&world.forge.repository(), &["diff", "--name-only", "main~2", "main"]).expect("is compared");
    assert!(changed.lines().all(|file| file.starts_with("environments/")), "{changed}");
    // Somebody else has changed the same line: nothing is pushed.
    world.forge.person(
        "main",
        "By hand",
        &[("environments/dev/limits.yaml", &ours.replace("cpu: 1", "cpu: 9"))],
    );
    let third = LIMITS.replace("cpu: 1", "cpu: 3");
    let sha = world.forge.person("config", "More", &[("config/limits.yaml", &third)]);
    let head = world.forge.subjects("main");
    world.config_bundle("conf-2", &sha, json!([])).await;
    world.until_phase("conf-2", BundlePhase::Failed).await;
    let step = world.step("conf-2", "dev").await.expect("the step stays");
    assert_eq!(step.status.reason.as_deref(), Some("MergeConflict"));
    assert_eq!(world.forge.subjects("main"), head);
}

/// A rollback of configuration takes the failed commit back and keeps what people did since.
#[tokio::test(flavor = "multi_thread")]
async fn configuration_that_fails_is_taken_out_again() {
    let world = World::with_files(&["prod"], &[("environments/prod/limits.yaml", LIMITS)]).await;
    let absent =
        json!({"type": "resource", "timeout": "5m", "resource": {"name": "absent", "namespace": "default"}});
    world.pipeline(json!([{"name": "prod"}])).await;
    world.forge.person("config", "First", &[("config/limits.yaml", LIMITS)]);
    let raised = LIMITS.replace("cpu: 1", "cpu: 2");
    let first = world.forge.person("config", "Two", &[("config/limits.yaml", &raised)]);
    world.config_bundle("conf-1", &first, json!([])).await;
    world.until_phase("conf-1", BundlePhase::Verified).await;
    world.advance(std::time::Duration::from_secs(5));
    world.pipeline_edit(json!([{"name": "prod", "health": absent}])).await;
    let files = [
        ("config/limits.yaml", raised.replace("cpu: 2", "cpu: 4")),
        ("config/extra.yaml", "x: 1\n".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let second = world.forge.person("config", "Four", &files);
    world.config_bundle("conf-2", &second, json!([])).await;
    world.until_state("conf-2", "prod", StepState::HealthChecking).await;
    let file = |name: &str| world.forge.file("main", &format!("environments/prod/{name}"));
    assert_eq!(file("limits.yaml").as_deref(), Some(LIMITS.replace("cpu: 1", "cpu: 4").trim_end()));
    let edited = LIMITS.replace("cpu: 1", "cpu: 4").replace("memory: 1", "memory: 8");
    world.forge.person("main", "By hand", &[("environments/prod/limits.yaml", &edited)]);
    // The rollback itself is not checked.
    let failed = async || {
        world.state("conf-2", "prod").await == Some(StepState::RollingBack)
            || world.read_bundle("conf-2").await.phase() == BundlePhase::Failed
    };
    world.pass(std::time::Duration::from_secs(20 * 60), "the second one fails", failed).await;
    let restored =
        async || file("limits.yaml").as_deref() == Some(edited.replace("cpu: 4", "cpu: 2").trim_end());
    world.pass(std::time::Duration::from_secs(20 * 60), "the files are as before", restored).await;
    assert_eq!(file("extra.yaml"), None);
}

/// One commit holds both, so that nobody runs the version without its configuration.
#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_bundle_is_one_commit_in_each_environment() {
    let world = World::with_files(&["dev"], &[("environments/dev/limits.yaml", LIMITS)]).await;
    world.pipeline(json!([{"name": "dev"}])).await;
    let sha = raise_limits(&world);
    let image = json!([{"name": "app", "reference": "ghcr.io/acme/app:1.29.0"}]);
    world.config_bundle("mixed-1", &sha, image).await;
    world.until_phase("mixed-1", BundlePhase::Verified).await;
    assert_eq!(world.forge.promotion_commits(), 1);
    let changed =
        git(&world.forge.repository(), &["diff", "--name-only", "main~1", "main"]).expect("is compared");
    let expected =
        ["environments/dev/kustomization.yaml", "environments/dev/limits.yaml", "environments/dev/new.yaml"];
    assert_eq!(changed.lines().collect::<Vec<_>>(), expected);
}

/// The pull request of a rendered environment is against its branch, and loses the file of an object that is gone.
#[tokio::test(flavor = "multi_thread")]
async fn a_rendered_environment_is_promoted_to_a_branch_of_its_own() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n";
    let images = &KUSTOMIZATION[KUSTOMIZATION.find("images").expect("has images")..];
    let both = format!("resources: [deployment.yaml, old.yaml]\n{images}");
    let files =
        [("environments/prod/kustomization.yaml", both.as_str()), ("environments/prod/old.yaml", config)];
    let world = World::with_files(&["prod"], &files).await;
    world.pipeline(json!([{"name": "prod", "layout": "branch", "approval": "pr-review"}])).await;
    let listed = |branch: &str| {
        git(&world.forge.repository(), &["ls-tree", "-r", "--name-only", branch]).expect("is listed")
    };
    world.bundle("app-1", "1.29.0").await;
    world.until_state("app-1", "prod", StepState::WaitingForMerge).await;
    world.merge("app-1", "prod").await;
    world.until_phase("app-1", BundlePhase::Verified).await;
    assert_eq!(listed("env/prod"), "configmap-old.yaml\ndeployment-app.yaml");
    let only = both.replace(", old.yaml", "");
    world.forge.person("main", "remove", &[("environments/prod/kustomization.yaml", &only)]);
    world.bundle("app-2", "1.30.0").await;
    world.until_state("app-2", "prod", StepState::WaitingForMerge).await;
    let pulls = world.forge.pulls();
    let pull = pulls.last().expect("there is one");
    assert_eq!(pull.base, "env/prod");
    world.merge("app-2", "prod").await;
    world.until_phase("app-2", BundlePhase::Verified).await;
    assert_eq!(listed("env/prod"), "deployment-app.yaml");
    let shown = world.forge.file("env/prod", "deployment-app.yaml").expect("is there");
    assert!(shown.contains("image: ghcr.io/acme/app:1.30.0"), "{shown}");
    assert!(!world.forge.subjects("main").iter().any(|subject| subject.starts_with("[kardinal]")));
}
