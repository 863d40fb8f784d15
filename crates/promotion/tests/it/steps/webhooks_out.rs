//! Steps that are not built in: what they are sent, and what becomes of their answers.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_promotion::kinds::{StepProgressState, StepState};

use super::world::{World, ended};

/// One request as it came in.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) delivery: String,
    signature: String,
    authorization: String,
    pub(crate) body: Value,
    raw: Vec<u8>,
}

/// A server that gives prepared answers and remembers what it was asked.
pub(crate) struct Stub {
    pub(crate) address: String,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl Stub {
    pub(crate) async fn start(answers: Vec<(u16, &'static str)>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}/step", listener.local_addr().unwrap());
        let calls: Arc<Mutex<Vec<Call>>> = Arc::default();
        let (seen, answers) = (calls.clone(), Arc::new(answers));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (seen, answers) = (seen.clone(), answers.clone());
                let service = service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
                    let (seen, answers) = (seen.clone(), answers.clone());
                    async move {
                        let (head, body) = request.into_parts();
                        let raw = body.collect().await.unwrap().to_bytes().to_vec();
                        let header = |name: &str| {
                            head.headers
                                .get(name)
                                .map_or_else(String::new, |v| v.to_str().unwrap().to_owned())
                        };
                        let call = Call {
                            delivery: header("x-kardinal-delivery"),
                            signature: header("x-kardinal-signature"),
                            authorization: header("authorization"),
                            body: serde_json::from_slice(&raw).unwrap(),
                            raw,
                        };
                        let mut seen = seen.lock().unwrap();
                        seen.push(call);
                        let (status, text) = answers[(seen.len() - 1).min(answers.len() - 1)];
                        let mut response = hyper::Response::builder().status(status);
                        if status == 302 {
                            response = response.header("location", "http://169.254.169.254/latest/");
                        }
                        Ok::<_, std::convert::Infallible>(
                            response.body(Full::new(Bytes::from(text))).unwrap(),
                        )
                    }
                });
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Self { address, calls }
    }

    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

fn steps_with(custom: Value) -> Value {
    json!([{"uses": "git-clone"}, {"uses": "kustomize-set-image"}, custom,
        {"uses": "git-commit"}, {"uses": "git-push"}, {"uses": "health-check"}])
}

/// The same with the custom step first: the repository of the tests is on this machine and may be refused as well.
fn asked_first(custom: Value) -> Value {
    json!([custom, {"uses": "git-clone"}, {"uses": "kustomize-set-image"},
        {"uses": "git-commit"}, {"uses": "git-push"}, {"uses": "health-check"}])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_step_is_asked_again_after_trouble_with_one_idempotency_key_a_call() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    world.secret("hook", &[("hmacKey", "k3y-of-hook"), ("token", "t0k-of-hook")]).await;
    let stub =
        Stub::start(vec![(500, ""), (503, ""), (200, r#"{"success": true, "outputs": {"report": "r-1"}}"#)])
            .await;
    let mut spec = world.spec("app-1", "dev");
    spec["steps"] = steps_with(json!({"uses": "run-tests",
        "config": {"url": stub.address, "timeout": "5s", "secretRef": "hook", "suite": "smoke"}}));
    let step = world.step("app-1-dev", spec).await;
    let started = world.now();
    let done = world.until(&step, StepState::Verified).await;
    let calls = stub.calls();
    assert_eq!(calls.len(), 3);
    let uid = &done.metadata.uid;
    let keys: Vec<&str> = calls.iter().map(|call| call.delivery.as_str()).collect();
    assert_eq!(keys, [format!("{uid}/2/1"), format!("{uid}/2/2"), format!("{uid}/2/3")]);
    let waited = world.now().duration_since(started).as_secs();
    assert!((60..70).contains(&waited), "{waited}");
    for call in &calls {
        let mut mac = Hmac::<Sha256>::new_from_slice(b"k3y-of-hook").unwrap();
        mac.update(&call.raw);
        assert_eq!(call.signature, format!("sha256={}", HEXLOWER.encode(&mac.finalize().into_bytes())));
        assert_eq!(call.authorization, "Bearer t0k-of-hook");
        let text = call.body.to_string();
        assert!(!text.contains("k3y-of-hook") && !text.contains("t0k-of-hook"), "{text}");
        assert_eq!(call.body["pipeline"], "app");
        assert_eq!(call.body["bundle"]["version"], "1.29.0");
        assert_eq!(call.body["config"], json!({"suite": "smoke"}));
        assert_eq!(call.body["context"]["previousVersion"], "1.28.0");
    }
    assert_eq!(done.status.outputs["report"], "r-1");
    assert_eq!(done.status.outputs["run-tests.report"], "r-1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_step_that_says_no_ends_the_promotion() {
    for (answer, reason) in [
        ((200, r#"{"success": false, "message": "tests are red"}"#), "CustomStepFailed"),
        ((200, r#"{"result": "fail"}"#), "CustomStepFailed"),
        ((403, ""), "CustomStepFailed"),
        ((302, ""), "CustomStepFailed"),
        ((200, "fine"), "BadResponse"),
    ] {
        let world = World::new().await;
        world.bundle("app-1", "1.29.0").await;
        let stub = Stub::start(vec![answer]).await;
        let mut spec = world.spec("app-1", "dev");
        spec["steps"] = steps_with(json!({"uses": "run-tests", "config": {"url": stub.address}}));
        let step = world.step("app-1-dev", spec).await;
        let failed = world.settle(&step).await;
        assert_eq!(ended(&failed), (StepState::Failed, reason), "{answer:?}");
        assert_eq!(failed.status.steps[3].state, StepProgressState::Pending);
        assert_eq!(world.forge.subjects("main"), ["first"]);
        assert_eq!(stub.calls().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_step_may_take_its_time_and_is_not_asked_twice_at_once() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let stub = Stub::start(vec![
        (202, ""),
        (200, r#"{"status": "pending", "retryAfterSeconds": 90}"#),
        (200, r#"{"success": true}"#),
    ])
    .await;
    let mut spec = world.spec("app-1", "dev");
    spec["steps"] = steps_with(json!({"uses": "soak", "webhook": {"url": stub.address}}));
    let step = world.step("app-1-dev", spec).await;
    world.reconcile(&step).await;
    world.reconcile(&step).await;
    assert_eq!(stub.calls().len(), 1, "not before its time");
    world.clock.advance(Duration::from_secs(30));
    world.reconcile(&step).await;
    assert_eq!(stub.calls().len(), 2);
    let done = world.until(&step, StepState::Verified).await;
    assert_eq!(stub.calls().len(), 3);
    assert_eq!(done.status.steps[2].attempts, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_after_the_merge_runs_before_the_environment_is_verified() {
    let world = World::new().await;
    world.bundle("app-1", "1.29.0").await;
    let stub = Stub::start(vec![(200, r#"{"success": true}"#)]).await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    spec["steps"] = json!([{"uses": "git-clone"}, {"uses": "kustomize-set-image"}, {"uses": "git-commit"},
        {"uses": "git-push"}, {"uses": "open-pr"}, {"uses": "wait-for-merge"},
        {"uses": "announce", "config": {"url": stub.address}}, {"uses": "health-check"}]);
    let step = world.step("app-1-prod", spec).await;
    assert_eq!(world.settle(&step).await.state(), StepState::WaitingForMerge);
    assert!(stub.calls().is_empty());
    let merge = world.forge.merge(2, "merge", "alice");
    world.reconciler().nudge(&step);
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    assert_eq!(stub.calls()[0].body["outputs_so_far"]["mergeSHA"], merge);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_the_machine_and_its_cloud_are_not_called() {
    let mut world = World::new().await;
    world.options.outbound.addresses.allowed_hosts.clear();
    world.restart();
    world.bundle("app-1", "1.29.0").await;
    for (number, url) in [
        "http://169.254.169.254/latest/meta-data",
        "http://127.0.0.1:8080/",
        "http://[::1]/",
        "http://localhost/",
        "http://[fd00:ec2::254]/",
        "http://[::ffff:169.254.169.254]/",
        "http://2852039166/",
        "http://0xA9FEA9FE/",
    ]
    .into_iter()
    .enumerate()
    {
        let mut spec = world.spec("app-1", "dev");
        spec["pipeline"] = json!(format!("p{number}"));
        spec["steps"] = asked_first(json!({"uses": "probe", "config": {"url": url}}));
        let step = world.step(&format!("probe-{number}"), spec).await;
        assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "ForbiddenAddress"), "{url}");
    }
    let mut spec = world.spec("app-1", "dev");
    spec["steps"] = asked_first(json!({"uses": "nowhere"}));
    let step = world.step("nowhere", spec).await;
    assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "MissingURL"));
}

/// The addresses of repositories and of their servers are the pipeline's as well.
#[tokio::test(flavor = "multi_thread")]
async fn repositories_of_the_machine_and_its_cloud_are_not_reached() {
    let mut world = World::new().await;
    world.options.outbound.addresses.allowed_hosts.clear();
    world.restart();
    world.bundle("app-1", "1.29.0").await;
    let own = world.forge.url();
    for (number, url) in [
        own.as_str(),
        "http://169.254.169.254/org/app.git",
        "ssh://git@localhost/org/app.git",
        "https://0xA9FEA9FE/org/app.git",
    ]
    .into_iter()
    .enumerate()
    {
        let mut spec = world.spec("app-1", "dev");
        spec["pipeline"] = json!(format!("p{number}"));
        spec["git"]["url"] = json!(url);
        let step = world.step(&format!("probe-{number}"), spec).await;
        assert_eq!(ended(&world.settle(&step).await), (StepState::Failed, "ForbiddenAddress"), "{url}");
    }
    assert!(world.forge.state.lock().unwrap().requests.is_empty(), "nobody was asked");
}
