//! Layouts, gates, pauses, webhooks and conflicts with a real Gitea.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_cluster::ListOptions;
use slipway_http::{ClientOptions, HeaderName, HeaderValue, HttpClient, HttpRequest, Method, parse_url};
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::{
    self, ConditionStatus, PolicyGate, PolicyGateSpec, StepState, find_condition,
};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::gitea::Gitea;
use crate::rig::{HOOK_SECRET, NAMESPACE, Rig, deployment, environment_files, run_controller, until};
use crate::{Failure, case};

/// Plays those that are chosen by name.
pub(crate) async fn run(gitea: &Gitea, is_chosen: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let mut rig = Rig::start().await?;
    rig.create_credentials(gitea).await?;
    for name in NAMES.iter().copied().filter(|name| is_chosen(name)) {
        match name {
            "hygiene" => hygiene(gitea, &rig).await,
            "fan" => fan(gitea, &rig).await,
            "rendered" => rendered(gitea, &rig).await,
            "recorded" => merged_by_controller(gitea, &rig).await,
            "smuggled" => smuggled(gitea, &rig).await,
            "weekend" => weekend(gitea, &rig).await,
            "paused" => paused(gitea, &rig).await,
            "frozen" => paused_in_health_check(gitea, &rig).await,
            "forged" => forged(gitea, &rig).await,
            "conflict" => conflict(gitea, &rig).await,
            "people" => conflict_of_people(gitea, &rig).await,
            "shared" => ten_pipelines(gitea, &rig).await,
            "twice" => two_controllers(gitea, &mut rig).await,
            _ => lost_webhook(gitea, &mut rig).await,
        }?;
    }
    Ok(())
}

/// The scenarios by the names of their repositories.
pub(crate) const NAMES: [&str; 14] = [
    "hygiene", "fan", "rendered", "recorded", "smuggled", "weekend", "paused", "frozen", "forged",
    "conflict", "people", "shared", "twice", "silent",
];

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
    rig.wait_for_verified("hygiene-1").await?;
    let wanted = text.replacen("'1.0.0'", "'1.10'", 1).replace(&digest("a"), &digest("b"));
    let found = gitea.file("hygiene", path).await?;
    case("a promotion changes the tag and the digest and no other byte", found == wanted, &found)
}

/// A04: environments side by side, and one that waits for both.
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
    rig.wait_until_settled().await?;
    case("what comes after both waits for both", rig.step(&bundle, "smoke").await?.is_none(), ())?;
    merge(gitea, rig, "fan", &bundle, "eu").await?;
    rig.wait_for_verified(&bundle).await
}

/// A12: manifests rendered to a branch of their own.
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
    rig.wait_for_verified(&first).await?;
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
    rig.wait_for_verified(&second).await?;
    let old = gitea.file_on("rendered", "env/prod", "configmap-prod-old.yaml").await;
    case("the file of an object that is gone is removed", old.is_none(), old)
}

/// A16: a pull request for the record.
async fn merged_by_controller(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    prepare(gitea, rig, "recorded", environment_files(&["prod"]), json!([{"name": "prod", "pr": true}]))
        .await?;
    let bundle = rig.create_bundle("recorded", "1.1.0").await?;
    rig.wait_for_verified(&bundle).await?;
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

/// B01: a weekend gate opens by time alone.
async fn weekend(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    rig.create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": "no-weekend", "namespace": NAMESPACE, "labels": {"kardinal.io/scope": "team", "kardinal.io/applies-to": "monday"}},
        "spec": {"expression": "!schedule.isWeekend", "message": "not at the weekend"}}))
    .await?;
    let environments = json!([{"name": "monday", "approval": "pr-review"}]);
    prepare(gitea, rig, "weekend", environment_files(&["monday"]), environments).await?;
    rig.clock.set("2030-06-01T12:00:00Z".parse()?); // a Saturday
    rig.tell_of_clock();
    let bundle = rig.create_bundle("weekend", "1.1.0").await?;
    let instance = async || -> Result<Option<PolicyGate>, Failure> {
        let gates =
            kinds::list::<PolicyGateSpec>(&rig.cluster, Some(NAMESPACE), &ListOptions::default()).await?;
        let is_of_it =
            |gate: &PolicyGate| gate.spec.template_ref.is_some() && gate.name().contains("weekend-1-1-0");
        Ok(gates.into_iter().find(is_of_it))
    };
    let judged = async || Ok(instance().await?.is_some_and(|gate| gate.status.last_evaluated_at.is_some()));
    until("the gate is judged", judged).await?;
    rig.wait_until_settled().await?;
    let gate = instance().await?.ok_or("the gate is gone")?.status;
    let monday: jiff::Timestamp = "2030-06-03T00:00:00Z".parse()?;
    case(
        "a weekend gate says why it is closed and until when",
        !gate.ready
            && gate.values.get("schedule.isWeekend") == Some(&json!(true))
            && gate.eta == Some(monday),
        &gate,
    )?;
    case("a weekend gate holds the environment", rig.step(&bundle, "monday").await?.is_none(), ())?;
    rig.clock.set("2030-06-02T23:59:55Z".parse()?);
    rig.tell_of_clock();
    let step = rig.wait_for(&bundle, "monday", StepState::WaitingForMerge).await?;
    let opened = step.status.started_at;
    let late = opened.is_some_and(|at| (0..=5).contains(&at.duration_since(monday).as_secs()));
    case("it opens within five seconds of Monday, by time alone", late, opened)?;
    merge(gitea, rig, "weekend", &bundle, "monday").await?;
    rig.wait_for_verified(&bundle).await?;
    rig.clock.set(jiff::Timestamp::now());
    rig.tell_of_clock();
    Ok(())
}

/// B12: a pause holds what is in flight, custom steps and environments without a gate among it.
async fn paused(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    let calls = Arc::new(AtomicUsize::new(0));
    let (custom, serving) = answer_calls(calls.clone()).await?;
    let smoke = json!([{"uses": "git-clone"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"}, {"uses": "git-push"},
        {"uses": "open-pr"}, {"uses": "wait-for-merge"}, {"uses": "smoke", "webhook": {"url": custom}}, {"uses": "health-check"}]);
    let environments = json!([{"name": "staging", "approval": "pr-review", "steps": smoke}, {"name": "prod", "approval": "pr-review"}]);
    prepare(gitea, rig, "paused", environment_files(&["staging", "prod"]), environments).await?;
    let bundle = rig.create_bundle("paused", "1.1.0").await?;
    rig.wait_for(&bundle, "staging", StepState::WaitingForMerge).await?;
    let freeze = freeze("paused");
    let at = ObjectRef::of(&freeze);
    rig.create(freeze).await?;
    rig.wait_until_settled().await?;
    merge(gitea, rig, "paused", &bundle, "staging").await?;
    let merged = async || {
        let step = rig.step(&bundle, "staging").await?;
        Ok(step.is_some_and(|step| {
            step.status.merge_sha.is_some() && step.status.reason.as_deref() == Some("Paused")
        }))
    };
    until("the merge is seen, and the step is held", merged).await?;
    rig.pass_time(Duration::from_secs(60));
    rig.wait_until_settled().await?;
    let count = calls.load(Ordering::SeqCst);
    case("a pause holds a custom step back", count == 0, count)?;
    rig.delete(&at).await?;
    rig.wait_for(&bundle, "staging", StepState::Verified).await?;
    let count = calls.load(Ordering::SeqCst);
    case("a custom step is called once the pause ends", count == 1, count)?;
    rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    merge(gitea, rig, "paused", &bundle, "prod").await?;
    serving.abort();
    rig.wait_for_verified(&bundle).await
}

/// B12: what was pushed before a pause may prove its health; nothing follows, gate or not.
async fn paused_in_health_check(gitea: &Gitea, rig: &Rig) -> Result<(), Failure> {
    gitea.create_repository("frozen", &environment_files(&["staging", "prod"])).await?;
    gitea.create_hook("frozen", &rig.hook, HOOK_SECRET).await?;
    let mut workload = deployment("staging");
    workload["metadata"]["name"] = json!("frozen");
    rig.create(workload).await?;
    let environments = json!([{"name": "staging", "health": {"type": "resource", "timeout": "10m"}},
        {"name": "prod", "approval": "pr-review", "health": {"type": "none"}}]);
    rig.create_pipeline(gitea, "frozen", "frozen", environments).await?;
    let bundle = rig.create_bundle("frozen", "1.1.0").await?;
    rig.wait_for(&bundle, "staging", StepState::HealthChecking).await?;
    let freeze = freeze("frozen");
    let at = ObjectRef::of(&freeze);
    rig.create(freeze).await?;
    rig.wait_until_settled().await?;
    rig.set_image("staging", "frozen", "ghcr.io/acme/app:1.1.0").await?;
    rig.wait_for(&bundle, "staging", StepState::Verified).await?;
    rig.pass_time(Duration::from_secs(60));
    rig.wait_until_settled().await?;
    let open = gitea.pull_requests("frozen", "all").await?.len();
    let state = rig.step(&bundle, "prod").await?.map(|step| step.state());
    case(
        "a pause lets what was pushed settle and opens nothing",
        open == 0 && matches!(state, None | Some(StepState::Pending)),
        (open, state),
    )?;
    rig.delete(&at).await?;
    merge(gitea, rig, "frozen", &bundle, "prod").await?;
    rig.wait_for_verified(&bundle).await?;
    case("the end of a pause lets it go on", true, ())
}

/// The gate that pauses a pipeline.
fn freeze(pipeline: &str) -> Value {
    json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "PolicyGate",
        "metadata": {"name": format!("freeze-{pipeline}"), "namespace": NAMESPACE, "labels": {"kardinal.io/freeze": "true",
            "kardinal.io/scope": "team", "kardinal.io/type": "gate", "kardinal.io/pipeline": pipeline}},
        "spec": {"expression": "false", "message": "release freeze", "recheckInterval": "30s", "appliesTo": ["*"]}})
}

/// A server of custom steps that counts its calls and has nothing against anything.
async fn answer_calls(calls: Arc<AtomicUsize>) -> Result<(String, JoinHandle<()>), Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}/smoke", listener.local_addr()?);
    let serving = tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let calls = calls.clone();
            let service = service_fn(move |_: hyper::Request<hyper::body::Incoming>| {
                calls.fetch_add(1, Ordering::SeqCst);
                let answer = Full::new(Bytes::from_static(b"{\"result\": \"pass\"}"));
                std::future::ready(Ok::<_, std::convert::Infallible>(hyper::Response::new(answer)))
            });
            let server = hyper::server::conn::http1::Builder::new();
            tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
        }
    });
    Ok((address, serving))
}

/// D05: deliveries that are forged, untrue or repeated.
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
    rig.wait_until_settled().await?;
    let state = rig.step(&bundle, "prod").await?.map(|step| step.state());
    let unmoved = state == Some(StepState::WaitingForMerge) && (said, again) == (200, 200);
    case("a signed lie and its repetition change nothing", unmoved, (said, again, state))?;
    gitea.merge("forged", number, "merge").await?;
    rig.wait_for_verified(&bundle).await
}

/// D09: somebody changes the same line of the base.
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
        rig.pass_time(Duration::from_secs(10));
        let now = rig.step(&bundle, "prod").await?;
        Ok(now.is_some_and(|step| step.status.head_sha != head))
    };
    until("the branch is rebuilt on the new base", rebuilt).await?;
    gitea.merge("conflict", number, "merge").await?;
    rig.wait_for_verified(&bundle).await?;
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

/// D03: many who push to one branch.
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
        rig.wait_for_verified(bundle).await?;
    }
    let subjects = gitea.subjects("shared", "main").await?;
    let landed = |start: &str| subjects.iter().filter(|subject| subject.starts_with(start)).count();
    let counts = (landed("[kardinal] Promote"), landed("by hand"), landed("Merge"));
    case("ten pipelines and a person push to one branch", counts == (10, 3, 0), counts)?;
    let commits = gitea.commits("shared").await?;
    // The first commit has no parent.
    let parents: Vec<usize> =
        commits.iter().map(|commit| commit["parents"].as_array().map_or(0, Vec::len)).collect();
    let is_linear = parents.iter().rev().skip(1).all(|count| *count == 1);
    case("the history of the branch is linear", is_linear, &parents)?;
    for name in &names {
        let text = gitea.file("shared", &format!("environments/{name}/kustomization.yaml")).await?;
        if !text.contains("\"1.1.0\"") {
            return Err(format!("the change of {name} was lost: {text}").into());
        }
    }
    for round in 0..3 {
        gitea.file("shared", &format!("notes/{round}")).await?;
    }
    case("no change to the branch was lost", true, ())
}

/// Two controllers that know nothing of each other; with a Lease between them see `kills`.
async fn two_controllers(gitea: &Gitea, rig: &mut Rig) -> Result<(), Failure> {
    let stop = CancellationToken::new();
    let other = run_controller(rig.make_controller(&stop).await?);
    let environments =
        json!([{"name": "dev"}, {"name": "staging", "pr": true}, {"name": "prod", "approval": "pr-review"}]);
    prepare(gitea, rig, "twice", environment_files(&["dev", "staging", "prod"]), environments).await?;
    for version in ["1.1.0", "1.2.0"] {
        let bundle = rig.create_bundle("twice", version).await?;
        rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
        let one = async || Ok(gitea.pull_requests("twice", "open").await?.len() == 1);
        until("one pull request is open", one).await?;
        merge(gitea, rig, "twice", &bundle, "prod").await?;
        rig.wait_for_verified(&bundle).await?;
    }
    stop.cancel();
    let _ = other.await;
    let subjects = gitea.subjects("twice", "main").await?;
    let mut promoted: Vec<&String> =
        subjects.iter().filter(|one| one.starts_with("[kardinal] Promote")).collect();
    let count = promoted.len();
    promoted.sort();
    promoted.dedup();
    let pulls = gitea.pull_requests("twice", "all").await?;
    // Gitea looks for an open pull request of the branch before the transaction that creates one, and nothing in its database keeps
    // two apart: two requests at the same time both find none. Whoever gets the higher number closes it again at once.
    let is_duplicate = |pull: &&Value| {
        let is_told =
            pull["body"].as_str().is_some_and(|text| text.starts_with("<!-- kardinal:duplicate -->"));
        pull["state"] == "closed" && pull["merged"] == false && is_told
    };
    let duplicates = pulls.iter().filter(is_duplicate).count();
    let mut merged: Vec<&str> = pulls
        .iter()
        .filter(|pull| pull["merged"] == true)
        .filter_map(|pull| pull["title"].as_str())
        .collect();
    let merges = merged.len();
    merged.sort_unstable();
    merged.dedup();
    case(
        &format!(
            "two controllers that both think they lead commit, open and merge everything once ({duplicates} opened twice, and closed)"
        ),
        (count, promoted.len(), merges, merged.len(), pulls.len()) == (6, 6, 4, 4, 4 + duplicates),
        (subjects, pulls),
    )
}

/// D04: merges nobody tells of.
async fn lost_webhook(gitea: &Gitea, rig: &mut Rig) -> Result<(), Failure> {
    gitea.create_repository("silent", &environment_files(&["prod"])).await?;
    let environments = json!([{"name": "prod", "approval": "pr-review", "health": {"type": "none"}}]);
    rig.create_pipeline(gitea, "silent", "silent", environments).await?;
    let bundle = rig.create_bundle("silent", "1.1.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    rig.stop_controller().await;
    gitea.merge("silent", step.status.pr_number.unwrap_or_default(), "merge").await?;
    rig.start_controller().await?;
    let began = tokio::time::Instant::now();
    rig.wait_for_verified(&bundle).await?;
    let took = began.elapsed();
    case("a merge nobody told of is found at the start", took < Duration::from_secs(60), took)?;
    // Without a restart the safety poll finds it, five minutes later.
    let bundle = rig.create_bundle("silent", "1.2.0").await?;
    let step = rig.wait_for(&bundle, "prod", StepState::WaitingForMerge).await?;
    gitea.merge("silent", step.status.pr_number.unwrap_or_default(), "merge").await?;
    rig.pass_time(Duration::from_secs(301));
    rig.wait_for_verified(&bundle).await?;
    case("a merge nobody told of is found by the safety poll", true, ())
}
