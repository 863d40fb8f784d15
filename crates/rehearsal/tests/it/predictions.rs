//! What a rehearsal foretells, against what an apply on the same cluster then does.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures::future::join_all;
use http_body_util::Either;
use serde_json::{Value, json};
use slipway_cluster::{ApplyOptions, Cluster, DeleteOptions, ObjectPatch, RetryPolicy, WriteOptions};
use slipway_event::Events;
use slipway_manifest::{Gvk, ObjectRef, object};
use slipway_rehearsal::rehearse_release;
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest, apply};
use slipway_sandbox::Sandbox;
use slipway_source::{Document, DocumentOrigin, RecordPart, RenderedSource};
use tokio_util::sync::CancellationToken;
use tower::{Service as _, service_fn};

/// What is foretold.
enum Foretold {
    Success,
    /// A failure with these words.
    Failure(&'static str),
    /// A question with these words; the run itself may end either way.
    Question(&'static str),
}
use Foretold::{Failure, Question, Success};

/// How a webhook guards objects named `guarded`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guard {
    None,
    /// It never answers.
    Down,
    /// It answers after a few real requests.
    ComesUp,
}

struct Scenario {
    name: &'static str,
    labels: Value,
    /// What others made before.
    around: Vec<Value>,
    /// What an earlier revision deployed.
    before: Vec<Value>,
    objects: Vec<Value>,
    /// What happens to an object between the revisions: a finalizer, a deletion.
    between: Between,
    guard: Guard,
    foretold: Foretold,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Between {
    Nothing,
    /// `a` gets this finalizer.
    Finalizer(&'static str),
    /// The same, and it is deleted.
    Deleted(&'static str),
}

fn case(name: &'static str, objects: Vec<Value>, foretold: Foretold) -> Scenario {
    let (around, before, labels) = (Vec::new(), Vec::new(), json!({}));
    let (between, guard) = (Between::Nothing, Guard::None);
    Scenario { name, labels, around, before, objects, between, guard, foretold }
}

impl Scenario {
    fn labelled(self, mode: &str, level: &str) -> Self {
        Self { labels: json!({format!("pod-security.kubernetes.io/{mode}"): level}), ..self }
    }

    fn around(self, around: Vec<Value>) -> Self {
        Self { around, ..self }
    }

    fn after(self, before: Vec<Value>) -> Self {
        Self { before, ..self }
    }

    fn between(self, between: Between) -> Self {
        Self { between, ..self }
    }

    fn guarded(self, guard: Guard) -> Self {
        Self { guard, ..self }
    }
}

fn config_map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

fn pod_spec(security: &Value) -> Value {
    json!({"containers": [{"name": "c", "image": "nginx", "securityContext": security}]})
}

fn workload(kind: &str, security: &Value) -> Value {
    json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": {
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod_spec(security)}}})
}

fn deployment() -> Value {
    workload("Deployment", &json!({}))
}

fn fated(mut workload: Value, fate: &str) -> Value {
    workload["spec"]["template"]["metadata"]["annotations"] = json!({"sim/fail": fate});
    workload
}

fn job(annotations: Value) -> Value {
    let mut spec = pod_spec(&json!({}));
    spec["restartPolicy"] = "Never".into();
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "migrate", "annotations": annotations},
        "spec": {"backoffLimit": 0, "template": {"metadata": {}, "spec": spec}}})
}

/// A security context the restricted level lets in.
fn careful() -> Value {
    json!({"allowPrivilegeEscalation": false, "runAsNonRoot": true, "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"}})
}

fn quota(pods: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": pods}}})
}

fn webhook(service: &str) -> Value {
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard"}, "webhooks": [{"name": "guard.example.com", "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "shop", "name": service}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]}]})
}

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}})
}

fn boats() -> Value {
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"kind": "Boat", "plural": "boats", "singular": "boat", "listKind": "BoatList"},
        "versions": [{"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

fn boat() -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Boat", "metadata": {"name": "b"}})
}

fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    if let Some(place) = object.pointer_mut(pointer) {
        *place = value;
    }
    object
}

fn scenarios() -> Vec<Scenario> {
    let relabelled = with(deployment(), "/spec/selector", json!({"matchLabels": {"app": "x"}}));
    let relabelled = with(relabelled, "/spec/template/metadata/labels", json!({"app": "x"}));
    let misspelt = with(deployment(), "/spec/template/spec", json!({"kontainers": []}));
    let negative = with(service("s"), "/spec/ports", json!([{"port": -1}]));
    let privileged = workload("Deployment", &json!({"privileged": true}));
    let restless = with(deployment(), "/spec/template/spec", {
        let mut spec = pod_spec(&json!({}));
        spec["serviceAccountName"] = "nobody".into();
        spec
    });
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": pod_spec(&json!({}))});
    let cron = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "c"}, "spec": {
        "schedule": "0 0 1 1 *", "jobTemplate": {"spec": job(json!({}))["spec"]}}});
    let hook = |policy: &str| json!({"helm.sh/hook": "pre-install", "helm.sh/hook-delete-policy": policy});
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "a"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let held =
        with(config_map("a", "1"), "/metadata", json!({"name": "a", "finalizers": ["example.com/never"]}));
    let waiting = with(
        config_map("w", "1"),
        "/metadata",
        json!({"name": "w",
        "annotations": {"x.external-dependency.werf.io/resource": "secrets/never"}}),
    );
    let restricted = "violates PodSecurity \"restricted:latest\": allowPrivilegeEscalation != false (container \"c\" \
                      must set securityContext.allowPrivilegeEscalation=false)";
    let down = "failed calling webhook \"guard.example.com\"";
    vec![
        case("a new object", vec![config_map("a", "1")], Success),
        case("a changed object", vec![config_map("a", "2")], Success).after(vec![config_map("a", "1")]),
        case("an object that goes", vec![config_map("b", "1")], Success).after(vec![config_map("a", "1")]),
        case("a deployment", vec![deployment()], Question("images can be pulled: nginx")),
        case("a stateful set", vec![workload("StatefulSet", &json!({}))], Success),
        case("a daemon set", vec![workload("DaemonSet", &json!({}))], Success),
        case("a service", vec![service("s")], Success),
        // The reason is the crash or the controller's own limit: simulated time passes quickly.
        case(
            "containers that crash",
            vec![fated(deployment(), "crashloop")],
            Failure("did not become ready"),
        ),
        case("pods that stay pending", vec![fated(deployment(), "pending")], Failure("Deployment/web")),
        case("a hook", vec![job(hook("hook-succeeded"))], Success),
        case(
            "a hook that fails",
            vec![fated(job(hook("before-hook-creation")), "crashloop")],
            Failure("Job"),
        ),
        case("a selector that changes", vec![relabelled], Failure("immutable")).after(vec![deployment()]),
        case("a field nobody knows", vec![misspelt], Failure("kontainers")),
        case("a value out of range", vec![negative], Failure("port")),
        case("a kind nobody serves", vec![boat()], Failure("Boat")),
        case("a kind of the release's own", vec![boats(), boat()], Success),
        case("somebody else's object", vec![config_map("a", "1")], Failure("belongs to no release"))
            .around(vec![config_map("a", "0")]),
        case("a full quota", vec![deployment()], Failure("exceeded quota")).around(vec![quota("0")]),
        case("a quota with room", vec![deployment()], Success).around(vec![quota("5")]),
        case("an account that is missing", vec![restless], Failure("nobody")),
        case("a need that never comes", vec![waiting], Failure("never")),
        case("a restricted namespace", vec![deployment()], Failure(restricted))
            .labelled("enforce", "restricted"),
        case("a careful deployment there", vec![workload("Deployment", &careful())], Success)
            .labelled("enforce", "restricted"),
        case("a pod there", vec![pod], Failure(restricted)).labelled("enforce", "restricted"),
        case("a hook there", vec![job(hook("hook-succeeded"))], Failure("violates PodSecurity"))
            .labelled("enforce", "restricted"),
        case("a cron job there", vec![cron], Success).labelled("enforce", "restricted"),
        case("a namespace that only warns", vec![deployment()], Success).labelled("warn", "restricted"),
        case("a baseline namespace", vec![deployment()], Success).labelled("enforce", "baseline"),
        case(
            "a privileged container there",
            vec![privileged],
            Failure("privileged (container \"c\" must not set"),
        )
        .labelled("enforce", "baseline"),
        case("a webhook that is down", vec![config_map("guarded", "1")], Failure(down))
            .around(vec![webhook("elsewhere")])
            .guarded(Guard::Down),
        case(
            "a webhook that comes along",
            vec![config_map("guarded", "1"), service("own")],
            Question("in time for"),
        )
        .around(vec![webhook("own")])
        .guarded(Guard::ComesUp),
        case("a webhook for others", vec![config_map("a", "1")], Question("guard.example.com"))
            .around(vec![webhook("elsewhere")])
            .guarded(Guard::Down),
        case(
            "a finalizer nobody removes",
            vec![config_map("b", "1")],
            Failure("nobody in this cluster removes its finalizer example.com/never"),
        )
        .after(vec![config_map("a", "1")])
        .between(Between::Finalizer("example.com/never")),
        case(
            "a finalizer of the chart's own",
            vec![config_map("b", "1")],
            Failure("nobody in this cluster removes its finalizer example.com/never"),
        )
        .after(vec![held]),
        case(
            "a finalizer that a controller may remove",
            vec![config_map("b", "1")],
            Question("whether anybody removes the finalizer keep.example.com/tidy"),
        )
        .around(vec![boats()])
        .after(vec![config_map("a", "1")])
        .between(Between::Finalizer("keep.example.com/tidy")),
        case(
            "an object that cannot go",
            vec![config_map("b", "1")],
            Failure("finalizers hold it: example.com/never"),
        )
        .after(vec![config_map("a", "1")])
        .between(Between::Deleted("example.com/never")),
        case("a claim with a finalizer of the cluster's", vec![config_map("b", "1")], Success)
            .after(vec![claim]),
    ]
}

fn request(objects: &[Value]) -> ReleaseRequest {
    let document = |object: &Value| {
        let is_hook = object::annotation(object, "helm.sh/hook").is_some();
        let stored = if is_hook { RecordPart::Hook } else { RecordPart::Regular };
        Document { object: object.clone(), origin: DocumentOrigin::new("demo/templates/all.yaml"), stored }
    };
    let mut rendered =
        RenderedSource { documents: objects.iter().map(document).collect(), ..RenderedSource::default() };
    let metadata = json!({"apiVersion": "v2", "name": "demo", "version": "1.0.0"});
    rendered.metadata = metadata.as_object().cloned().unwrap_or_default();
    let content = ReleaseContent::Rendered(Box::new(rendered));
    ReleaseRequest { name: "demo".into(), namespace: "shop".into(), content, options: PlanOptions::default() }
}

fn options() -> ExecuteOptions {
    ExecuteOptions {
        // All scenarios run at once, perhaps on a busy machine: what comes must have the time to.
        readiness_timeout: Some(Duration::from_secs(15)),
        deletion_timeout: Some(Duration::from_secs(15)),
        // Nobody needs anything that comes.
        presence_timeout: Some(Duration::from_millis(300)),
        ..ExecuteOptions::default()
    }
}

/// The cluster of a scenario, behind a server that asks a webhook about objects named `guarded`.
fn guarded(sandbox: &Sandbox, guard: Guard) -> Cluster {
    let (api, asked) = (sandbox.service(), Arc::new(AtomicU32::new(0)));
    let service = service_fn(move |request: http::Request<kube::client::Body>| {
        let (mut api, asked) = (api.clone(), asked.clone());
        async move {
            let is_guarded =
                request.method() != http::Method::GET && request.uri().path().ends_with("/guarded");
            let is_real = !request.uri().query().unwrap_or_default().contains("dryRun");
            let is_up = guard == Guard::None
                || guard == Guard::ComesUp && is_real && asked.fetch_add(1, Ordering::SeqCst) > 2;
            if !is_guarded || is_up {
                return api.call(request).await.map(|answer| answer.map(Either::Left));
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
                "reason": "InternalError", "message": "Internal error occurred: failed calling webhook \
                    \"guard.example.com\": failed to call webhook: connection refused"});
            let body = Either::Right(kube::client::Body::from(status.to_string().into_bytes()));
            Ok(http::Response::builder().status(500).body(body).expect("an answer"))
        }
    });
    let retry = RetryPolicy {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(20),
        webhooks: Duration::from_secs(5),
        ..RetryPolicy::default()
    };
    Cluster::new(kube::Client::new(service, "default")).with_retry(retry)
}

async fn put(cluster: &Cluster, object: &Value) {
    let kind = cluster.find_kind(&object::gvk(object)).await.expect("can be asked").expect("is served");
    cluster
        .apply(&kind.object_ref(object, "shop"), object, &ApplyOptions::new("others"))
        .await
        .expect("can be written");
}

/// What a scenario says wrong, if anything.
async fn play(scenario: Scenario) -> Option<String> {
    let sandbox = Sandbox::builder().seed(1).build().expect("the sandbox starts");
    let cluster = guarded(&sandbox, scenario.guard);
    let labels = &scenario.labels;
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": labels}});
    put(&cluster, &namespace).await;
    for object in &scenario.around {
        put(&cluster, object).await;
    }
    let (silent, cancel) = (Events::silent(), CancellationToken::new());
    if !scenario.before.is_empty() {
        let before = request(&scenario.before);
        apply(&cluster, &before, &options(), &silent, cancel.clone()).await.expect("the first revision");
    }
    if let Between::Finalizer(finalizer) | Between::Deleted(finalizer) = scenario.between {
        let at = ObjectRef::new(Gvk::new("", "v1", "ConfigMap"), Some("shop"), "a");
        let patch = ObjectPatch::Merge(json!({"metadata": {"finalizers": [finalizer]}}));
        cluster.patch(&at, &patch, &WriteOptions::default(), None).await.expect("can be patched");
        if matches!(scenario.between, Between::Deleted(_)) {
            cluster.delete(&at, &DeleteOptions::default()).await.expect("can be deleted");
        }
    }
    let wanted = request(&scenario.objects);
    let rehearsed = rehearse_release(&cluster, &wanted, &options(), cancel.clone()).await;
    let done = apply(&cluster, &wanted, &options(), &silent, cancel).await;
    let name = scenario.name;
    let told = rehearsed.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
    match (scenario.foretold, rehearsed, done) {
        (Success, Ok(_), Ok(_)) => None,
        (Failure(words), Err(_), Err(_)) if told.contains(words) => None,
        (Question(words), Ok(Some(rehearsed)), _)
            if rehearsed.open_questions.iter().any(|question| question.contains(words)) =>
        {
            None
        }
        (_, Ok(rehearsed), done) => {
            let questions = rehearsed.map(|rehearsed| rehearsed.open_questions);
            Some(format!(
                "{name}: foretold success ({questions:?}); it was {:?}",
                done.map(|done| done.status)
            ))
        }
        (_, Err(_), done) => {
            Some(format!("{name}: foretold {told}; it was {:?}", done.map(|done| done.status)))
        }
    }
}

#[tokio::test]
async fn rehearsals_foretell_what_an_apply_does() {
    let scenarios = scenarios();
    assert!(scenarios.len() >= 30);
    let wrong: Vec<String> = join_all(scenarios.into_iter().map(play)).await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} were wrong:\n{}", wrong.len(), wrong.join("\n"));
}
