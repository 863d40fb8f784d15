//! The API: every code, limits, idempotency.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_cluster::ListOptions;
use slipway_http::Method;
use slipway_promotion::kinds::{self, BundleSpec};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::world::{API_TOKEN, HMAC_KEY, OTHER_TOKEN, World, until};

fn images(version: &str) -> Value {
    json!({"images": [{"name": "app", "reference": format!("ghcr.io/acme/app:{version}")}]})
}

/// F01: one row a rule.
#[tokio::test(flavor = "multi_thread")]
async fn requests_for_bundles_are_answered_by_the_table() {
    let world = World::new(&["dev", "prod"]).await;
    world.api_secret(None).await;
    world.pipeline("app", json!([{"name": "dev"}, {"name": "prod", "approval": "pr-review"}])).await;
    let process = world.start("one").await;
    let rows: Vec<(&str, Value, u16, &str, &str)> = vec![
        ("a bundle", json!({"pipeline": "app", "artifacts": images("1.0.0")}), 201, "", ""),
        (
            "the older form",
            json!({"pipeline": "app", "images": [{"repository": "ghcr.io/acme/app", "tag": "1.0.1"}], "commitSHA": "abc1234", "author": "alice"}),
            201,
            "",
            "",
        ),
        ("no pipeline", json!({"artifacts": images("1.0.0")}), 400, "invalid", "pipeline"),
        (
            "an unknown field",
            json!({"pipeline": "app", "artifacts": images("1"), "intnet": {}}),
            400,
            "invalid",
            "intnet",
        ),
        (
            "an unknown field below",
            json!({"pipeline": "app", "artifacts": {"images": [{"name": "a", "tag": "1"}]}}),
            400,
            "invalid",
            "artifacts.images[0].tag",
        ),
        (
            "a wrong type",
            json!({"pipeline": "app", "artifacts": images("1"), "intent": {"skip": "dev"}}),
            400,
            "invalid",
            "intent.skip",
        ),
        (
            "a bad digest",
            json!({"pipeline": "app", "artifacts": {"images": [{"name": "a", "digest": "sha256:12"}]}}),
            400,
            "invalid",
            "artifacts.images[0].digest",
        ),
        ("no image", json!({"pipeline": "app"}), 400, "invalid", "artifacts.images"),
        ("no commit", json!({"pipeline": "app", "type": "config"}), 400, "invalid", "artifacts.gitCommit"),
        ("an unknown type", json!({"pipeline": "app", "type": "chart"}), 400, "invalid", "type"),
        (
            "an unknown target",
            json!({"pipeline": "app", "artifacts": images("1"), "intent": {"target": "qa"}}),
            400,
            "invalid",
            "intent.target",
        ),
        (
            "an unknown environment to skip",
            json!({"pipeline": "app", "artifacts": images("1"), "intent": {"skip": ["dev", "qa"]}}),
            400,
            "invalid",
            "intent.skip[1]",
        ),
        (
            "a label of promotion",
            json!({"pipeline": "app", "artifacts": images("1"), "labels": {"kardinal.io/emergency": "true"}}),
            400,
            "invalid",
            "labels[kardinal.io/emergency]",
        ),
        (
            "a bad name",
            json!({"pipeline": "app", "name": "Über", "artifacts": images("1")}),
            400,
            "invalid",
            "name",
        ),
        (
            "an unknown pipeline",
            json!({"pipeline": "nobody", "artifacts": images("1")}),
            404,
            "not-found",
            "",
        ),
        (
            "a namespace the token is not for",
            json!({"pipeline": "app", "namespace": "team", "artifacts": images("1")}),
            403,
            "forbidden",
            "",
        ),
    ];
    for (what, body, status, code, field) in rows {
        let answer = world.post(&process, &body, &[]).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
        let told = answer.json();
        if status == 201 {
            for part in ["name", "namespace", "pipeline", "phase", "statusURL"] {
                assert!(told[part].is_string(), "{what}: {told}");
            }
            continue;
        }
        assert_eq!(told["code"], code, "{what}: {told}");
        assert_eq!(told["field"].as_str().unwrap_or_default(), field, "{what}: {told}");
    }
    let body = json!({"pipeline": "app", "artifacts": images("1.0.0")});
    let url = process.api("/api/v1/bundles");
    for (what, headers, status) in [
        ("no token", vec![("content-type", "application/json")], 401),
        ("a wrong token", vec![("content-type", "application/json"), ("authorization", "Bearer nope")], 401),
        ("another scheme", vec![("content-type", "application/json"), ("authorization", "Basic Y2k6")], 401),
        (
            "an old time",
            vec![
                ("content-type", "application/json"),
                ("authorization", concat!("Bearer ", "ci-0f3a77c1e9")),
                ("x-kardinal-timestamp", "2020-01-01T00:00:00Z"),
            ],
            401,
        ),
        (
            "another content",
            vec![("content-type", "text/plain"), ("authorization", concat!("Bearer ", "ci-0f3a77c1e9"))],
            415,
        ),
    ] {
        let answer = world.send(Method::POST, &url, &headers, Some(body.to_string().as_bytes())).await;
        assert_eq!(answer.status, status, "{what}: {}", answer.text);
    }
    let other = format!("Bearer {OTHER_TOKEN}");
    assert_eq!(world.post(&process, &body, &[("authorization", &other)]).await.status, 403);
    let token = format!("Bearer {API_TOKEN}");
    let large = vec![b' '; (1 << 20) + 1];
    let headers = [("content-type", "application/json"), ("authorization", token.as_str())];
    assert_eq!(world.send(Method::POST, &url, &headers, Some(&large)).await.status, 413);
    assert_eq!(world.send(Method::POST, &url, &headers, Some(b"{")).await.status, 400);
    assert_eq!(world.get(&url).await.status, 405);
    assert_eq!(world.get(&process.api("/api/v1/nothing")).await.status, 404);
    process.end().await.expect("ends well");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_request_makes_one_bundle() {
    let world = World::new(&["dev"]).await;
    world.api_secret(None).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    let (first, second) = (world.start("one").await, world.start("two").await);
    let body = json!({"pipeline": "app", "artifacts": images("1.0.0")});
    let made = world.post(&first, &body, &[("idempotency-key", "run-7")]).await;
    assert_eq!(made.status, 201, "{}", made.text);
    // Another replica knows nothing of the first request but the bundle it made.
    let again = world.post(&second, &body, &[("idempotency-key", "run-7")]).await;
    assert_eq!((again.status, &again.json()["name"]), (200, &made.json()["name"]));
    let other = json!({"pipeline": "app", "artifacts": images("1.0.1")});
    assert_eq!(world.post(&first, &other, &[("idempotency-key", "run-7")]).await.status, 409);
    let named = json!({"pipeline": "app", "name": "app-x", "artifacts": images("1.0.0")});
    assert_eq!(world.post(&first, &named, &[]).await.status, 201);
    assert_eq!(world.post(&second, &named, &[]).await.status, 200);
    let changed = json!({"pipeline": "app", "name": "app-x", "artifacts": images("3.0.0")});
    assert_eq!(world.post(&second, &changed, &[]).await.status, 409);
    let bundles =
        kinds::list::<BundleSpec>(&world.cluster, None, &ListOptions::default()).await.expect("listed");
    assert_eq!(bundles.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_signed_where_there_is_a_key() {
    let world = World::new(&["dev"]).await;
    world.api_secret(Some(HMAC_KEY)).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    let process = world.start("one").await;
    let body = json!({"pipeline": "app", "artifacts": images("1.0.0")});
    let sign = |key: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).expect("any key");
        mac.update(body.to_string().as_bytes());
        format!("sha256={}", HEXLOWER.encode(&mac.finalize().into_bytes()))
    };
    let now = jiff::Timestamp::now().to_string();
    assert_eq!(world.post(&process, &body, &[]).await.status, 401);
    assert_eq!(world.post(&process, &body, &[("x-kardinal-signature", &sign("wrong"))]).await.status, 401);
    let signed = sign(HMAC_KEY);
    let headers = [("x-kardinal-signature", signed.as_str()), ("x-kardinal-timestamp", now.as_str())];
    let made = world.post(&process, &body, &headers).await;
    assert_eq!(made.status, 201, "{}", made.text);
    assert!(
        !process.redactor.redact(&format!("key {HMAC_KEY}")).contains(HMAC_KEY),
        "the key is known to the redactor"
    );
}

/// F01 and the bar of 1,000 requests a second, in a short form: all at once, a hundred for each of two pipelines.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_requests_at_once_are_accepted_and_refused_by_pipeline() {
    let world = World::new(&["dev"]).await;
    world.api_secret(None).await;
    for name in ["app", "web"] {
        world.pipeline(name, json!([{"name": "dev"}])).await;
    }
    // Nobody leads: what is asked for is kept all the same.
    world
        .create(json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "kardinal-controller", "namespace": "kardinal-system"},
            "spec": {"holderIdentity": "nobody", "leaseDurationSeconds": 3600, "renewTime": "2026-01-01T00:00:00.000000Z"}}))
        .await;
    let process = world
        .start_with("one", |options| options.election.duration = std::time::Duration::from_secs(3600))
        .await;
    let asked = (0..1_000).map(|index| {
        let (world, process) = (&world, &process);
        async move {
            let pipeline = if index % 10 == 0 { "web" } else { "app" };
            let body = json!({"pipeline": pipeline, "artifacts": images("1.0.0")});
            let answer = world.post(process, &body, &[]).await;
            (pipeline, answer.status, answer.retry_after)
        }
    });
    let answers: Vec<_> = futures::stream::StreamExt::collect(futures::stream::StreamExt::buffer_unordered(
        futures::stream::iter(asked),
        64,
    ))
    .await;
    let count = |pipeline: &str, status: u16| {
        answers.iter().filter(|(known, code, _)| *known == pipeline && *code == status).count()
    };
    let accepted = count("app", 201);
    // Places come free while the requests are sent.
    assert!((100..300).contains(&accepted), "{accepted}");
    assert_eq!(count("app", 429) + accepted, 900);
    assert_eq!(count("web", 201), 100, "another pipeline has places of its own");
    let refused = answers.iter().filter(|(_, status, _)| *status == 429);
    assert!(
        refused.clone().all(|(_, _, wait)| wait.as_deref().is_some_and(|wait| wait.parse::<u64>().is_ok()))
    );
    let bundles =
        kinds::list::<BundleSpec>(&world.cluster, None, &ListOptions::default()).await.expect("listed");
    assert_eq!(bundles.len(), accepted + 100, "every bundle that was accepted exists, and no other");
}

/// Sends a request on a connection that stays open, and reads the status of its answer.
async fn ask_on(stream: &mut TcpStream, path: &str) -> std::io::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {API_TOKEN}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        answer.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if length.and_then(|length| length.parse().ok()) == Some(body.len()) {
            return Ok(head.lines().next().unwrap_or_default().to_owned());
        }
    }
}

/// A server closes connections of strangers to make room; those of builds are none, however many wait.
#[tokio::test(flavor = "multi_thread")]
async fn builds_that_wait_are_not_cut_off_by_others() {
    let world = World::new(&["dev"]).await;
    world.api_secret(None).await;
    world.pipeline("app", json!([{"name": "dev", "approval": "pr-review"}])).await;
    let process = world.start("one").await;
    world.bundle("app-1", "1.29.0").await;
    let address = process.handle.api.expect("the API is served");
    let mut builds = Vec::new();
    for _ in 0..300 {
        let mut stream = TcpStream::connect(address).await.expect("connects");
        let known = ask_on(&mut stream, "/api/v1/bundles/default/app-1").await.expect("is answered");
        assert_eq!(known, "HTTP/1.1 200 OK");
        builds.push(stream);
    }
    let waits =
        builds.iter_mut().map(|stream| ask_on(stream, "/api/v1/bundles/default/app-1/wait?timeout=1s"));
    let answers = futures::future::join_all(waits).await;
    let cut_off = answers.iter().filter(|answer| answer.is_err()).count();
    assert_eq!(cut_off, 0, "of {} builds", answers.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn builds_read_a_bundle_and_wait_for_it() {
    let world = World::new(&["dev"]).await;
    world.api_secret(None).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    let process = world.start("one").await;
    let made =
        world.post(&process, &json!({"pipeline": "app", "artifacts": images("1.0.0")}), &[]).await.json();
    let status = made["statusURL"].as_str().expect("has an address").to_owned();
    let waited = world.get(&process.api(&format!("{status}/wait?env=dev&timeout=1m"))).await;
    assert_eq!(waited.status, 200, "{}", waited.text);
    let waited = waited.json();
    assert_eq!(
        (waited["outcome"].as_str(), waited["done"].as_bool()),
        (Some("verified"), Some(true)),
        "{waited}"
    );
    let shown = world.get(&process.api(&status)).await.json();
    assert_eq!(shown["environments"]["dev"]["state"], "Verified", "{shown}");
    assert_eq!(world.get(&process.api("/api/v1/bundles/default/nothing")).await.status, 404);
    assert_eq!(world.get(&process.api(&format!("{status}/wait?timeout=soon"))).await.status, 400);
    until("the timeline tells of it", async || {
        let told = world.get(&process.api("/api/v1/timeline?pipeline=app&action=PromotionSucceeded")).await;
        told.status == 200 && told.json()["total"] == 1
    })
    .await;
    let csv = world.get(&process.api("/api/v1/timeline?pipeline=app&format=csv")).await;
    assert!(csv.text.starts_with("time,namespace,pipeline,"), "{}", csv.text);
}
