//! Layouts, gates, pauses, webhooks and conflicts with a real Gitea.

use std::collections::BTreeMap;
use std::time::Duration;

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_http::{ClientOptions, HeaderName, HeaderValue, HttpClient, HttpRequest, Method, parse_url};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::kinds::{BundlePhase, ConditionStatus, StepState, find_condition};
use tokio_util::sync::CancellationToken;

use crate::gitea::Gitea;
use crate::rig::{HOOK_SECRET, NAMESPACE, Rig, environment_files, run_controller};
use crate::{Failure, PATIENCE, PAUSE, case};

pub(crate) async fn run(gitea: &Gitea) -> Result<(), Failure> {
    let mut rig = Rig::start().await?;
    rig.create_credentials(gitea).await?;
    hygiene(gitea, &rig).await?;
    fan(gitea, &rig).await?;
    rendered(gitea, &rig).await?;
    merged_by_controller(gitea, &rig).await?;
    smuggled(gitea, &rig).await?;
    weekend(gitea, &rig).await?;
    paused(gitea, &rig).await?;
    forged(gitea, &rig).await?;
    conflict(gitea, &rig).await?;
    conflict_of_people(gitea, &rig).await?;
    ten_pipelines(gitea, &rig).await?;
    two_controllers(gitea, &mut rig).await?;
    lost_webhook(gitea, &mut rig).await
}

/// Waits until something holds.
async fn until(what: &str, holds: impl AsyncFn() -> Result<bool, Failure>) -> Result<(), Failure> {
    let end = tokio::time::Instant::now() + PATIENCE;
    while !holds().await? {
        if tokio::time::Instant::now() > end {
            return Err(format!("{what}: not in time").into());
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

async fn verified(rig: &Rig, bundle: &str) -> Result<(), Failure> {
    let what = format!("{bundle} is verified");
    until(&what, async || match rig.bundle(bundle).await?.phase() {
        BundlePhase::Verified => Ok(true),
        BundlePhase::Available | BundlePhase::Promoting => Ok(false),
        other => Err(format!("{bundle} is {other:?}").into()),
    })
    .await
}

/// A repository with these environments, a webhook, and a pipeline; health is not looked at.
async fn prepare(
    gitea: &Gitea,
    rig: &Rig,
    name: &str,
    files: BTreeMap<String, String>,
    mut environments: Value,
) -> Result<(), Failure> {
    gitea.create_repository(name, &files).await?;
    gitea.create_hook(name, &rig.hook, HOOK_SECRET).await?;
    for environment in environments.as_array_mut().into_iter().flatten() {
        environment["health"] = json!({"type": "none"});
    }
    rig.create_pipeline(gitea, name, name, environments).await
}

async fn merge(gitea: &Gitea, rig: &Rig, name: &str, bundle: &str, environment: &str) -> Result<(), Failure> {
    let step = rig.wait_for(bundle, environment, StepState::WaitingForMerge).await?;
    gitea.merge(name, step.status.pr_number.unwrap_or_default(), "merge").await
}

/// A03: comments, odd indentation and quotes stay; the lines with the tag and the digest change, and no other.
async fn hygiene(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let path = "environments/prod/kustomization.yaml";
    let digest = |digit: &str| format!("sha256:{}", digit.repeat(64));
    let text = format!(
        "# Ask the shop team.\nresources:\n- deployment.yaml # the app\nimages:\n    # promoted by a robot\n    \
         - name: ghcr.io/acme/app\n      newTag: '1.0.0'   # do not touch\n      digest: \"{}\" # nor this\n    \
         - name: redis\n      newTag: \"1.0.0\"\n\n# the end\n",
        digest("a")
    );
    let mut files = environment_files(&["prod"]);
    files.insert(path.to_owned(), text.clone());
    prepare(gitea, rig, "hygiene", files, json!([{"name": "prod", "approval": "pr-review"}])).await?;
    let image =
        json!({"name": "ghcr.io/acme/app", "reference": "ghcr.io/acme/app:1.10", "digest": digest("b")});
    rig.create(json!({
        "apiVersion": "kardinal.io/v1alpha1", "kind": "Bundle",
        "metadata": {"name": "hygiene-1", "namespace": NAMESPACE, "labels": {"kardinal.io/pipeline": "hygiene"}},
        "spec": {"artifacts": {"images": [image]}},
    }))
    .await?;
    merge(gitea, rig, "hygiene", "hygiene-1", "prod").await?;
    verified(rig, "hygiene-1").await?;
    let wanted = text.replacen("'1.0.0'", "'1.10'", 1).replace(&digest("a"), &digest("b"));
    let found = gitea.file("hygiene", path).await?;
    case("a promotion changes the tag and the digest and no other byte", found == wanted, &found)
}

async fn fan(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let environments = json!([
        {"name": "staging"}, {"name": "us", "dependsOn": ["staging"], "approval": "pr-review"},
        {"name": "eu", "dependsOn": ["staging"], "approval": "pr-review"}, {"name": "smoke", "dependsOn": ["us", "eu"]},
    ]);
    let files = environment_files(&["staging", "us", "eu", "smoke"]);
    prepare(gitea, rig, "fan", files, environments).await?;
    let bundle = rig.create_bundle("fan", "1.1.0").await?;
    let us = rig.wait_for(&bundle, "us", StepState::WaitingForMerge).await?;
    let eu = rig.wait_for(&bundle, "eu", StepState::WaitingForMerge).await?;
    let apart = us
        .status
        .started_at
        .zip(eu.status.started_at)
        .map(|(one, two)| one.duration_since(two).abs().as_secs());
    case(
        "two environments start within five seconds of each other",
        apart.is_some_and(|apart| apart <= 5),
        apart,
    )?;
    for (environment, step) in [("us", &us), ("eu", &eu)] {
        let number = step.status.pr_number.unwrap_or_default();
        let path = format!("repos/{}/fan/pulls/{number}/files", gitea.user);
        let changed = gitea.ask(Method::GET, &path, None, None).await?;
        let changed: Vec<&str> =
            changed.as_array().into_iter().flatten().filter_map(|file| file["filename"].as_str()).collect();
        let own = format!("environments/{environment}/kustomization.yaml");
        case(
            &format!("the pull request of {environment} holds its own change"),
            changed == [own.as_str()],
            &changed,
        )?;
    }
    merge(gitea, rig, "fan", &bundle, "us").await?;
    rig.wait_for(&bundle, "us", StepState::Verified).await?;
    case("what comes after both waits for both", rig.step(&bundle, "smoke").await?.is_none(), ())?;
    merge(gitea, rig, "fan", &bundle, "eu").await?;
    verified(rig, &bundle).await
}

async fn rendered(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let mut files = environment_files(&["prod"]);
    let config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: old}\n";
    files.insert("environments/prod/old.yaml".to_owned(), config.to_owned());
    let path = "environments/prod/kustomization.yaml";
    let both = files[path].replace("[deployment.yaml]", "[deployment.yaml, old.yaml]");
    files.insert(path.to_owned(), both.clone());
    let environments = json!([{"name": "prod", "layout": "branch", "approval": "pr-review"}]);
    prepare(gitea, rig, "rendered", files, environments).await?;
    let first = rig.create_bundle("rendered", "1.1.0").await?;
    let step = rig.wait_for(&first, "prod", StepState::WaitingForMerge).await?;
    let number = step.status.pr_number.unwrap_or_default();
    let pull = format!("repos/{}/rendered/pulls/{number}", gitea.user);
    let pull = gitea.ask(Method::GET, &pull, None, None).await?;
    case(
        "the pull request is against the rendered branch",
        pull["base"]["ref"] == "env/prod",
        &pull["base"],
    )?;
    gitea.merge("rendered", number, "merge").await?;
    verified(rig, &first).await?;
    let shown =
        gitea.file_on("rendered", "env/prod", "deployment-prod-my-app.yaml").await.unwrap_or_default();
    case(
        "the rendered branch has the manifest with its image",
        shown.contains("ghcr.io/acme/app:1.1.0"),
        &shown,
    )?;
    gitea.write("rendered", path, Some(&both.replace(", old.yaml", ""))).await?;
    let second = rig.create_bundle("rendered", "1.2.0").await?;
    merge(gitea, rig, "rendered", &second, "prod").await?;
    verified(rig, &second).await?;
    let old = gitea.file_on("rendered", "env/prod", "configmap-prod-old.yaml").await;
    case("the file of an object that is gone is removed", old.is_none(), old)
}

async fn merged_by_controller(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    prepare(gitea, rig, "recorded", environment_files(&["prod"]), json!([{"name": "prod", "pr": true}]))
        .await?;
    let bundle = rig.create_bundle("recorded", "1.1.0").await?;
    verified(rig, &bundle).await?;
    let pulls = gitea.pull_requests("recorded", "all").await?;
    // Lists do not say who merged.
    let path = format!("repos/{}/recorded/pulls/1", gitea.user);
    let pull = gitea.ask(Method::GET, &path, None, None).await?;
    let merged =
        pulls.len() == 1 && pull["merged"] == true && pull["merged_by"]["login"] == gitea.user.as_str();
    case(
        "a pull request for the record is merged by the controller",
        merged,
        (pulls.len(), &pull["merged_by"]),
    )
}

/// A16: a commit somebody pushes before the controller can merge is not merged with it.
async fn smuggled(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    prepare(gitea, rig, "smuggled", environment_files(&["prod"]), json!([{"name": "prod", "pr": true}]))
        .await?;
    gitea.require_approval("smuggled").await?;
    let bundle = rig.create_bundle("smuggled", "1.1.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    let number = step.status.pr_number.unwrap_or_default();
    let branch = step.status.head_branch.clone().unwrap_or_default();
    let evil = "environments/prod/evil.yaml";
    gitea.write_on("smuggled", &branch, evil, Some("a: 1\n")).await?;
    // Nothing but the commit itself keeps it from being merged now.
    gitea.approve("smuggled", number).await?;
    let left = async || {
        rig.nudge(&step);
        let message = rig.step(&bundle, "prod").await?.and_then(|step| step.status.message);
        Ok(message.is_some_and(|message| message.contains("has commits of others")))
    };
    until("the commit of somebody else is seen", left).await?;
    let open = gitea.pull_requests("smuggled", "open").await?.len();
    let on_main = gitea.file_on("smuggled", "main", evil).await;
    case(
        "a commit that was smuggled in is not merged by the controller",
        open == 1 && on_main.is_none(),
        (open, on_main),
    )
}

async fn weekend(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    rig.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "no-weekend", "namespace": NAMESPACE, "labels": {"kardinal.io/scope": "team", "kardinal.io/applies-to": "monday"}},
        "spec": {"expression": "!schedule.isWeekend", "message": "not at the weekend"}}))
    .await?;
    prepare(
        gitea,
        rig,
        "weekend",
        environment_files(&["monday"]),
        json!([{"name": "monday", "approval": "pr-review"}]),
    )
    .await?;
    let clock = &rig.clock;
    let moved = || rig.controller.iter().for_each(slipway_promotion::PromotionController::clock_moved);
    clock.set("2030-06-02T23:59:50Z".parse()?); // a Sunday
    moved();
    let bundle = rig.create_bundle("weekend", "1.1.0").await?;
    tokio::time::sleep(Duration::from_secs(4)).await;
    case("a weekend gate holds the environment", rig.step(&bundle, "monday").await?.is_none(), ())?;
    let step = rig.wait_for(&bundle, "monday", StepState::WaitingForMerge).await?;
    let opened = step.status.started_at.map(|at| at.to_string());
    let late = step.status.started_at.is_some_and(|at| {
        let monday: jiff::Timestamp = "2030-06-03T00:00:00Z".parse().unwrap_or_default();
        (0..=5).contains(&at.duration_since(monday).as_secs())
    });
    case("it opens within five seconds of Monday, by time alone", late, opened)?;
    merge(gitea, rig, "weekend", &bundle, "monday").await?;
    verified(rig, &bundle).await?;
    clock.set(jiff::Timestamp::now());
    moved();
    Ok(())
}

async fn paused(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let environments =
        json!([{"name": "staging", "approval": "pr-review"}, {"name": "prod", "approval": "pr-review"}]);
    prepare(gitea, rig, "paused", environment_files(&["staging", "prod"]), environments).await?;
    let bundle = rig.create_bundle("paused", "1.1.0").await?;
    rig.wait_for(&bundle, "staging", StepState::WaitingForMerge).await?;
    rig.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "freeze-paused", "namespace": NAMESPACE, "labels": {"kardinal.io/freeze": "true",
            "kardinal.io/scope": "team", "kardinal.io/type": "gate", "kardinal.io/pipeline": "paused"}},
        "spec": {"expression": "false", "message": "release freeze", "recheckInterval": "30s", "appliesTo": ["*"]}}))
    .await?;
    merge(gitea, rig, "paused", &bundle, "staging").await?;
    rig.wait_for(&bundle, "staging", StepState::Verified).await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let open = gitea.pull_requests("paused", "open").await?.len();
    case("a pause lets what was merged settle and opens nothing", open == 0, open)?;
    rig.delete(&ObjectRef::new(
        Gvk::new("kardinal.io", "v1alpha1", "PolicyGate"),
        Some(NAMESPACE),
        "freeze-paused",
    ))
    .await?;
    merge(gitea, rig, "paused", &bundle, "prod").await?;
    verified(rig, &bundle).await
}

async fn forged(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    prepare(
        gitea,
        rig,
        "forged",
        environment_files(&["prod"]),
        json!([{"name": "prod", "approval": "pr-review"}]),
    )
    .await?;
    let bundle = rig.create_bundle("forged", "1.1.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    let number = step.status.pr_number.unwrap_or_default();
    let body = json!({"action": "closed", "number": number, "pull_request": {"number": number, "merged": true, "state": "closed"},
        "repository": {"full_name": format!("{}/forged", gitea.user)}})
    .to_string();
    let sign = |secret: &str| -> Result<String, Failure> {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes())?;
        mac.update(body.as_bytes());
        Ok(HEXLOWER.encode(&mac.finalize().into_bytes()))
    };
    let http = HttpClient::new(&ClientOptions::default())?;
    let deliver = async |signature: &str, id: &str| -> Result<u16, Failure> {
        let mut request = HttpRequest::new(Method::POST, parse_url(&rig.hook)?);
        for (name, value) in
            [("x-gitea-event", "pull_request"), ("x-gitea-signature", signature), ("x-gitea-delivery", id)]
        {
            request.headers.insert(HeaderName::from_static(name), HeaderValue::from_str(value)?);
        }
        request.content = Some(body.clone().into_bytes());
        Ok(http.send_request(request).await?.status_code().as_u16())
    };
    case("a forged delivery is refused", deliver(&sign("guess")?, "1").await? == 401, ())?;
    let said = deliver(&sign(HOOK_SECRET)?, "2").await?;
    let again = deliver(&sign(HOOK_SECRET)?, "2").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let state = rig.step(&bundle, "prod").await?.map(|step| step.state());
    let unmoved = state == Some(StepState::WaitingForMerge) && (said, again) == (200, 200);
    case("a signed lie and its repetition change nothing", unmoved, (said, again, state))?;
    gitea.merge("forged", number, "merge").await?;
    verified(rig, &bundle).await
}

async fn conflict(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let files = environment_files(&["prod"]);
    let path = "environments/prod/kustomization.yaml";
    let text = files[path].clone();
    let mut environments = json!([{"name": "prod", "approval": "pr-review"}]);
    environments[0]["health"] = json!({"type": "none"});
    gitea.create_repository("conflict", &files).await?;
    let url = format!("{}/{}/conflict.git", gitea.root, gitea.user);
    rig.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "conflict", "namespace": NAMESPACE},
        "spec": {"git": {"url": url, "provider": "gitea", "secretRef": {"name": "gitops"}, "webhookMode": "polling", "pollInterval": "10s"},
            "environments": environments}}))
    .await?;
    let bundle = rig.create_bundle("conflict", "1.1.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    let (number, head) = (step.status.pr_number.unwrap_or_default(), step.status.head_sha);
    gitea.write("conflict", path, Some(&text.replace("1.0.0", "1.0.1"))).await?;
    let rebuilt = async || {
        let now = rig.step(&bundle, "prod").await?;
        Ok(now.is_some_and(|step| step.status.head_sha != head))
    };
    until("the branch is rebuilt on the new base", rebuilt).await?;
    gitea.merge("conflict", number, "merge").await?;
    verified(rig, &bundle).await?;
    let pulls = gitea.pull_requests("conflict", "all").await?.len();
    let now = gitea.file("conflict", path).await?;
    case(
        "a conflict is resolved in the same pull request",
        pulls == 1 && now.contains("\"1.1.0\""),
        (pulls, now),
    )
}

/// D09: a branch people have worked on is left to them.
async fn conflict_of_people(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let files = environment_files(&["prod"]);
    let path = "environments/prod/kustomization.yaml";
    let text = files[path].clone();
    prepare(gitea, rig, "people", files, json!([{"name": "prod", "approval": "pr-review"}])).await?;
    let bundle = rig.create_bundle("people", "1.1.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    let branch = step.status.head_branch.clone().unwrap_or_default();
    gitea.write_on("people", &branch, "environments/prod/extra.yaml", Some("a: 1\n")).await?;
    let head = gitea.subjects("people", &branch).await?;
    gitea.write("people", path, Some(&text.replace("1.0.0", "1.0.1"))).await?;
    let told = async || {
        rig.nudge(&step);
        let found = rig.step(&bundle, "prod").await?.map(|step| step.status.conditions).unwrap_or_default();
        let conflict = find_condition(&found, "PRConflict");
        Ok(conflict.is_some_and(|conflict| conflict.status == ConditionStatus::True))
    };
    until("the conflict is told", told).await?;
    let now = gitea.subjects("people", &branch).await?;
    case("a conflict on a branch of people is told and left to them", now == head, now)
}

async fn ten_pipelines(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let names: Vec<String> = (0..10).map(|number| format!("team-{number}")).collect();
    let words: Vec<&str> = names.iter().map(String::as_str).collect();
    gitea.create_repository("shared", &environment_files(&words)).await?;
    for name in &names {
        let environments = json!([{"name": name, "health": {"type": "none"}}]);
        rig.create_pipeline(gitea, name, "shared", environments).await?;
    }
    let mut bundles = Vec::new();
    for name in &names {
        bundles.push(rig.create_bundle(name, "1.1.0").await?);
    }
    for round in 0..3 {
        gitea.write("shared", &format!("notes/{round}"), Some("by hand\n")).await?;
    }
    for bundle in &bundles {
        verified(rig, bundle).await?;
    }
    let subjects = gitea.subjects("shared", "main").await?;
    let landed = |start: &str| subjects.iter().filter(|subject| subject.starts_with(start)).count();
    let counts = (landed("[kardinal] Promote"), landed("by hand"), landed("Merge"));
    case("ten pipelines and a person push to one branch", counts == (10, 3, 0), counts)
}

async fn two_controllers(gitea: &Gitea, rig: &mut Rig) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let client = rig.sandbox.client();
    let other = run_controller(rig.make_controller(client, &stop)?);
    let environments =
        json!([{"name": "dev"}, {"name": "staging", "pr": true}, {"name": "prod", "approval": "pr-review"}]);
    prepare(gitea, rig, "twice", environment_files(&["dev", "staging", "prod"]), environments).await?;
    for version in ["1.1.0", "1.2.0"] {
        let bundle = rig.create_bundle("twice", version).await?;
        merge(gitea, rig, "twice", &bundle, "prod").await?;
        verified(rig, &bundle).await?;
    }
    stop.cancel();
    let _ = other.await;
    let subjects = gitea.subjects("twice", "main").await?;
    let pulls = gitea.pull_requests("twice", "all").await?.len();
    let mut promoted: Vec<&String> =
        subjects.iter().filter(|one| one.starts_with("[kardinal] Promote")).collect();
    let count = promoted.len();
    promoted.sort();
    promoted.dedup();
    case(
        "two controllers at once do everything once",
        (count, promoted.len(), pulls) == (6, 6, 4),
        (subjects, pulls),
    )
}

async fn lost_webhook(gitea: &Gitea, rig: &mut Rig) -> Result<(), Failure> {
    gitea.create_repository("silent", &environment_files(&["prod"])).await?;
    let environments = json!([{"name": "prod", "approval": "pr-review", "health": {"type": "none"}}]);
    rig.create_pipeline(gitea, "silent", "silent", environments).await?;
    let bundle = rig.create_bundle("silent", "1.1.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    rig.stop_controller().await;
    gitea.merge("silent", step.status.pr_number.unwrap_or_default(), "merge").await?;
    rig.start_controller()?;
    let began = tokio::time::Instant::now();
    verified(rig, &bundle).await?;
    let took = began.elapsed();
    case("a merge nobody told of is found at the start", took < Duration::from_secs(60), took)?;
    // Without a restart the safety poll finds it, five minutes later.
    let bundle = rig.create_bundle("silent", "1.2.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    gitea.merge("silent", step.status.pr_number.unwrap_or_default(), "merge").await?;
    rig.clock.set(jiff::Timestamp::now() + Duration::from_secs(301));
    rig.controller.iter().for_each(slipway_promotion::PromotionController::clock_moved);
    verified(rig, &bundle).await?;
    case("a merge nobody told of is found by the safety poll", true, ())
}
