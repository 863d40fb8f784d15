//! Steps that edit files: what they change, and what they leave alone.

use serde_json::{Value, json};
use slipway_promotion::kinds::{StepProgressState, StepState};

use super::world::{KUSTOMIZATION, World, ended};
use crate::forge::git;

fn images(list: Value) -> Value {
    json!({"type": "image", "pipeline": "app", "artifacts": {"images": list}})
}

/// Promotes a bundle into `environments/x`, and gives the text of a file afterwards.
async fn promoted(world: &World, bundle: Value, update: Value, file: &str) -> String {
    world.bundle_with("b", bundle).await;
    let mut spec = world.spec("b", "x");
    spec["update"] = update;
    let step = world.step("b-x", spec).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    world.forge.file("main", &format!("environments/x/{file}")).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn images_that_share_their_last_word_are_told_apart() {
    let before = "images:\n- name: team-a/api\n  newTag: v1\n- name: team-b/api # theirs\n  newTag: v1\n  digest: sha256:old\n";
    let world = World::with_files(&[("environments/x/kustomization.yml", before)]).await;
    let digest = format!("sha256:{}", "a".repeat(64));
    let bundle = images(json!([
        {"name": "team-b/api", "reference": "team-b/api:v2"},
        {"name": "team-c/api", "reference": "reg.io/team-c/api:v9", "digest": digest},
    ]));
    let after = promoted(&world, bundle, json!({}), "kustomization.yml").await;
    assert_eq!(
        format!("{after}\n"),
        format!(
            "images:\n- name: team-a/api\n  newTag: v1\n- name: team-b/api # theirs\n  newTag: v2\n- name: team-c/api\n  newName: reg.io/team-c/api\n  newTag: v9\n  digest: {digest}\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_without_a_kustomization_fails_and_gets_none() {
    let world = World::with_files(&[("environments/x/README", "nothing here\n")]).await;
    world.bundle("app-1", "1.29.0").await;
    let step = world.step("x", world.spec("app-1", "x")).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "KustomizationNotFound"));
    assert_eq!(world.forge.subjects("main"), ["first"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn values_get_their_paths_set_and_keep_their_style() {
    let before = "# values of prod\nweb:\n  image:\n    repository: reg.io/web   # mirrored\n    tag: '1.9'\nworker: {image: {tag: \"1.9\", digest: \"sha256:old\"}}\nreplicas: 3\n";
    let world = World::with_files(&[("environments/x/values.yaml", before)]).await;
    let bundle = images(json!([
        {"name": "web", "reference": "reg.io/web:1.10"},
        {"name": "worker", "reference": "reg.io/worker:1.10"},
    ]));
    let update = json!({"strategy": "helm", "helm": {"images": [
        {"repository": "reg.io/web", "repositoryPath": ".web.image.repository", "tagPath": ".web.image.tag"},
        {"repository": "worker", "tagPath": "worker.image.tag", "digestPath": "worker.image.digest"},
    ]}});
    let after = promoted(&world, bundle, update, "values.yaml").await;
    assert_eq!(
        after,
        "# values of prod\nweb:\n  image:\n    repository: reg.io/web   # mirrored\n    tag: '1.10'\nworker: {image: {tag: \"1.10\", digest: \"\"}}\nreplicas: 3"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_values_path_that_is_missing_fails_unless_it_may_be_made() {
    let world = World::with_files(&[
        ("environments/x/values.yaml", "a: 1\n"),
        ("environments/y/values.yaml", "a: 1\n"),
    ])
    .await;
    world.bundle_with("b", images(json!([{"name": "web", "reference": "web:1.10"}]))).await;
    let mut spec = world.spec("b", "x");
    spec["update"] = json!({"strategy": "helm"});
    let step = world.step("b-x", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "ValuesPathNotFound"));
    let mut spec = world.spec("b", "y");
    spec["update"] = json!({"strategy": "helm", "helm": {"createIfMissing": true}});
    let step = world.step("b-y", spec).await;
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    let text = world.forge.file("main", "environments/y/values.yaml").unwrap();
    assert_eq!(text, "a: 1\nimage:\n  tag: \"1.10\"");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_replaces_its_group_and_nothing_else() {
    let world = World::with_files(&[(
        "environments/x/app.tf",
        "image = \"web:1.9\" # image = keep\nother = \"1.9\"\n",
    )])
    .await;
    let bundle = images(json!([{"name": "web", "reference": "web:1.10"}]));
    let update =
        json!({"strategy": "replace", "replace": {"rules": [{"file": "app.tf", "regex": "web:([^\"]+)"}]}});
    let after = promoted(&world, bundle, update, "app.tf").await;
    assert_eq!(after, "image = \"web:1.10\" # image = keep\nother = \"1.9\"");
    let mut spec = world.spec("b", "x");
    spec["pipeline"] = json!("other");
    spec["update"] =
        json!({"strategy": "replace", "replace": {"rules": [{"file": "app.tf", "regex": "nothing:(x)"}]}});
    let step = world.step("none", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "NoMatch"));
}

/// A commit of the same repository that changes files below `config`.
fn config_commit(world: &World, files: &[(&str, &str)]) -> String {
    world.forge.person("config", "Raise limits", files)
}

fn config_bundle(world: &World, sha: &str, kind: &str, images: Value) -> Value {
    json!({"type": kind, "pipeline": "app", "artifacts": {"images": images, "gitCommit":
        {"repository": world.forge.url(), "sha": sha, "message": "Raise limits", "path": "config", "secretRef": "forge"}}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_commit_is_merged_line_by_line() {
    let lines = "cpu: 1\na: 1\nb: 1\nc: 1\nmemory: 1\n";
    let ours = lines.replace("memory: 1", "memory: 7");
    let world = World::with_files(&[("environments/x/limits.yaml", &ours)]).await;
    config_commit(&world, &[("config/limits.yaml", lines), ("other/file", "1\n")]);
    let sha = config_commit(
        &world,
        &[
            ("config/limits.yaml", &lines.replace("cpu: 1", "cpu: 2")),
            ("other/file", "2\n"),
            ("config/new.yaml", "n: 1\n"),
        ],
    );
    world.bundle_with("b", config_bundle(&world, &sha[..10], "config", json!([]))).await;
    let step = world.step("b-x", world.spec("b", "x")).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    let text = world.forge.file("main", "environments/x/limits.yaml").unwrap();
    assert!(text.contains("cpu: 2") && text.contains("memory: 7"), "{text}");
    assert_eq!(world.forge.file("main", "environments/x/new.yaml").as_deref(), Some("n: 1"));
    let changed = git(&world.forge.repository(), &["diff", "--name-only", "main~1", "main"]).unwrap();
    assert_eq!(changed, "environments/x/limits.yaml\nenvironments/x/new.yaml");
    assert_eq!(done.status.outputs["mergedFiles"], "environments/x/limits.yaml,environments/x/new.yaml");
    // Once more: it is there already.
    let mut spec = world.spec("b", "x");
    spec["pipeline"] = json!("again");
    let step = world.step("again", spec).await;
    let done = world.settle(&step).await;
    assert_eq!((done.state(), done.status.outputs["noChange"].as_str()), (StepState::Verified, "true"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conflicting_configuration_commit_is_not_pushed() {
    let world = World::with_files(&[("environments/x/limits.yaml", "cpu: 9\n")]).await;
    config_commit(&world, &[("config/limits.yaml", "cpu: 1\n")]);
    let sha = config_commit(&world, &[("config/limits.yaml", "cpu: 2\n")]);
    world.bundle_with("b", config_bundle(&world, &sha, "config", json!([]))).await;
    let step = world.step("b-x", world.spec("b", "x")).await;
    let failed = world.settle(&step).await;
    assert_eq!(ended(&failed), (StepState::Failed, "MergeConflict"));
    assert!(failed.status.message.unwrap().contains("environments/x/limits.yaml"));
    assert_eq!(world.forge.subjects("main"), ["first"]);
    // Overlay takes the files as they are.
    let mut spec = world.spec("b", "x");
    spec["pipeline"] = json!("overlay");
    spec["update"] = json!({"config": {"strategy": "overlay"}});
    let step = world.step("overlay", spec).await;
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    assert_eq!(world.forge.file("main", "environments/x/limits.yaml").as_deref(), Some("cpu: 2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_configuration_commit_is_named() {
    let world = World::new().await;
    world.bundle_with("b", config_bundle(&world, "0123456789", "config", json!([]))).await;
    let step = world.step("b-dev", world.spec("b", "dev")).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "BadConfigCommit"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mixed_bundle_makes_one_commit() {
    let world = World::new().await;
    let sha = config_commit(&world, &[("config/limits.yaml", "cpu: 2\n")]);
    let list = json!([{"name": "app", "reference": "app:1.29.0"}]);
    world.bundle_with("b", config_bundle(&world, &sha, "mixed", list)).await;
    let step = world.step("b-dev", world.spec("b", "dev")).await;
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    let changed = git(&world.forge.repository(), &["diff", "--name-only", "main~1", "main"]).unwrap();
    assert_eq!(changed, "environments/dev/kustomization.yaml\nenvironments/dev/limits.yaml");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rendered_branch_gets_manifests_and_loses_those_of_removed_objects() {
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n";
    let both = format!(
        "resources: [deployment.yaml, old.yaml]\n{}",
        &KUSTOMIZATION[KUSTOMIZATION.find("images").unwrap()..]
    );
    let world = World::with_files(&[
        ("environments/prod/kustomization.yaml", &both),
        ("environments/prod/old.yaml", config),
    ])
    .await;
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["layout"] = json!("branch");
    let first = world.step("first", spec.clone()).await;
    let done = world.settle(&first).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    let files =
        |branch: &str| git(&world.forge.repository(), &["ls-tree", "-r", "--name-only", branch]).unwrap();
    assert_eq!(files("env/prod"), "configmap-old.yaml\ndeployment-app.yaml");
    assert!(
        world
            .forge
            .file("env/prod", "deployment-app.yaml")
            .unwrap()
            .contains("image: ghcr.io/acme/app:1.29.0")
    );
    assert_eq!(world.forge.subjects("main"), ["first"], "the sources stay as people wrote them");
    let only = both.replace(", old.yaml", "");
    world.forge.person("main", "remove", &[("environments/prod/kustomization.yaml", &only)]);
    world.bundle("app-2", "1.30.0").await;
    spec["bundleRef"] = json!("app-2");
    spec["approval"] = json!("pr-review");
    let second = world.step("second", spec).await;
    let waiting = world.settle(&second).await;
    assert_eq!(waiting.state(), StepState::WaitingForMerge, "{:?}", waiting.status);
    assert_eq!(world.forge.pulls()[0].base, "env/prod");
    assert_eq!(files(&waiting.status.head_branch.unwrap()), "deployment-app.yaml");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_is_rendered_beside_its_values() {
    let template = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}\ndata:\n  tag: {{ .Values.image.tag | quote }}\n";
    let world = World::with_files(&[
        ("charts/app/Chart.yaml", "apiVersion: v2\nname: app\nversion: 0.1.0\n"),
        ("charts/app/templates/config.yaml", template),
        ("environments/x/values.yaml", "image:\n  tag: '1.9' # by robot\n"),
    ])
    .await;
    world.bundle_with("b", images(json!([{"name": "web", "reference": "web:1.10"}]))).await;
    let mut spec = world.spec("b", "x");
    spec["update"] = json!({"strategy": "helm"});
    spec["steps"] = json!([{"uses": "git-clone"}, {"uses": "helm-set-image"},
        {"uses": "helm-template", "config": {"chart": "charts/app"}}, {"uses": "git-commit"}, {"uses": "git-push"},
        {"uses": "health-check"}]);
    let step = world.step("b-x", spec).await;
    let done = world.settle(&step).await;
    assert_eq!(done.state(), StepState::Verified, "{:?}", done.status);
    let text = world.forge.file("main", "environments/x/rendered/manifest.yaml").unwrap();
    assert!(text.contains("tag: \"1.10\"") && text.contains("name: app"), "{text}");
    assert!(done.status.steps.iter().all(|step| step.state == StepProgressState::Completed));
}
