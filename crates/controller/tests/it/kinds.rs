//! Subscriptions and notifications, with a registry and a receiver over real sockets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use slipway_cluster::ListOptions;
use slipway_promotion::is_signed;
use slipway_promotion::kinds::{
    self, Bundle, BundlePhase, BundleSpec, NotificationHookSpec, Subscription, SubscriptionPhase,
    SubscriptionSpec, labels,
};

use crate::world::{World, until};

/// A request as the server saw it.
#[derive(Clone)]
struct Seen {
    path: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// A server that answers as it is told and remembers what it was asked.
#[derive(Clone, Default)]
struct Stub {
    seen: Arc<Mutex<Vec<Seen>>>,
    /// The tags of every repository.
    tags: Arc<Mutex<Vec<String>>>,
    /// Statuses that are answered with first.
    faults: Arc<Mutex<Vec<u16>>>,
}

impl Stub {
    async fn start(&self) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let stub = self.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let stub = stub.clone();
                let service = service_fn(move |request| stub.clone().answer(request));
                let server = hyper::server::conn::http1::Builder::new();
                tokio::spawn(server.serve_connection(TokioIo::new(stream), service));
            }
        });
        address
    }

    async fn answer(
        self,
        request: hyper::Request<hyper::body::Incoming>,
    ) -> Result<hyper::Response<Full<Bytes>>, hyper::Error> {
        let (head, body) = request.into_parts();
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers = head.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let path = head.uri.path().to_owned();
        let body = body.collect().await?.to_bytes().to_vec();
        let fault = self.faults.lock().expect("not poisoned").pop();
        self.seen.lock().expect("not poisoned").push(Seen { path: path.clone(), headers, body });
        let (status, content) = match fault {
            Some(status) => (status, String::new()),
            None if path.ends_with("/tags/list") => {
                (200, json!({"tags": *self.tags.lock().expect("not poisoned")}).to_string())
            }
            None if path.contains("/manifests/") => {
                (200, json!({"schemaVersion": 2, "of": path}).to_string())
            }
            None => (200, "{}".to_owned()),
        };
        Ok(hyper::Response::builder().status(status).body(Full::new(content.into())).expect("an answer"))
    }

    fn seen(&self, part: &str) -> Vec<Seen> {
        let all = self.seen.lock().expect("not poisoned");
        all.iter().filter(|seen| seen.path.contains(part)).cloned().collect()
    }
}

async fn made_by(world: &World, subscription: &str) -> Vec<Bundle> {
    let options = ListOptions::with_labels(format!("{}={subscription}", labels::SUBSCRIPTION));
    kinds::list::<BundleSpec>(&world.cluster, None, &options).await.expect("are listed")
}

async fn subscription(world: &World, name: &str) -> Subscription {
    world.read::<SubscriptionSpec>(name).await.expect("exists")
}

async fn refresh(world: &World, name: &str, mark: &str) {
    let at = <SubscriptionSpec as kinds::KindSpec>::at("default", name);
    let patch =
        slipway_cluster::ObjectPatch::Merge(json!({"metadata": {"annotations": {labels::REFRESH: mark}}}));
    world.cluster.patch(&at, &patch, &Default::default(), None).await.expect("is patched");
    until("it was looked again", async || {
        subscription(world, name).await.status.refreshed.as_deref() == Some(mark)
    })
    .await;
}

fn source(repository: &str, more: Value) -> Value {
    let mut image = json!({"repository": repository, "name": "app", "insecure": true, "interval": "1h"});
    for (key, value) in more.as_object().into_iter().flatten() {
        image[key] = value.clone();
    }
    json!({"type": "image", "image": image})
}

/// F10: baseline, one bundle a new version, none twice after a restart, trouble is waited out.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_version_in_a_registry_becomes_one_bundle() {
    let world = World::new(&["dev"]).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    let registry = Stub::default();
    *registry.tags.lock().expect("not poisoned") =
        ["1.8.0", "1.9.0", "latest", "2.0.0-rc1"].map(str::to_owned).to_vec();
    let address = registry.start().await;
    let repository = format!("{address}/acme/app");
    let make = |name: &str, source: Value| {
        json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Subscription", "metadata": {"name": name, "namespace": "default"},
            "spec": {"pipeline": "app", "source": source, "bundleTemplate": {"labels": {"team": "a", "kardinal.io/emergency": "true"}}}})
    };
    world.create(make("versions", source(&repository, json!({"semver": ">=1.0.0"})))).await;
    world
        .create(make("letters", source(&repository, json!({"strategy": "lexical", "tagFilter": "1\\..*"}))))
        .await;
    let process = world.start("one").await;
    let watches =
        async |name: &str| subscription(&world, name).await.status.phase == Some(SubscriptionPhase::Watching);
    until("both have looked", async || watches("versions").await && watches("letters").await).await;
    assert_eq!(subscription(&world, "versions").await.status.last_seen_tag.as_deref(), Some("1.9.0"));
    assert!(made_by(&world, "versions").await.is_empty(), "the first look is the baseline");
    registry.tags.lock().expect("not poisoned").push("1.10.0".to_owned());
    refresh(&world, "versions", "a").await;
    refresh(&world, "letters", "a").await;
    let bundles = made_by(&world, "versions").await;
    let [bundle] = bundles.as_slice() else { panic!("one bundle: {bundles:?}") };
    assert_eq!(bundle.spec.artifacts.images[0].tag(), Some("1.10.0"));
    assert!(bundle.spec.artifacts.images[0].digest.is_some());
    assert_eq!(bundle.metadata.label("team"), Some("a"));
    assert_eq!(bundle.metadata.label(labels::EMERGENCY), None, "a template gives no labels of promotion");
    assert!(made_by(&world, "letters").await.is_empty(), "1.9.0 comes after 1.10.0 in the order of letters");
    until("it is promoted", async || world.is_in(bundle.name(), BundlePhase::Verified).await).await;

    // A process that ended before it wrote down what it had made.
    process.end().await.expect("ends well");
    let at = <SubscriptionSpec as kinds::KindSpec>::at("default", "versions");
    let lost = slipway_cluster::ObjectPatch::Merge(
        json!({"status": {"lastSeenDigest": "sha256:old", "lastSeenTag": "1.9.0"}}),
    );
    world.cluster.patch(&at, &lost, &Default::default(), Some("status")).await.expect("is patched");
    let process = world.start("two").await;
    refresh(&world, "versions", "b").await;
    assert_eq!(made_by(&world, "versions").await.len(), 1, "the same version makes no second bundle");

    registry.faults.lock().expect("not poisoned").push(429);
    refresh(&world, "versions", "c").await;
    let status = subscription(&world, "versions").await.status;
    assert_eq!((status.phase, status.failures), (Some(SubscriptionPhase::Error), 1), "{status:?}");
    let (next, checked) =
        (status.next_poll_at.expect("looks again"), status.last_checked_at.expect("looked"));
    assert!(next.duration_since(checked).as_secs() >= 3600, "later than usual");
    refresh(&world, "versions", "d").await;
    assert_eq!(subscription(&world, "versions").await.status.failures, 0);
    process.end().await.expect("ends well");
}

/// F10: commits that change nothing of interest make no bundle.
#[tokio::test(flavor = "multi_thread")]
async fn only_commits_that_change_the_path_become_bundles() {
    let world = World::new(&["dev"]).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    world.forge.person("config", "first", &[("config/a.yaml", "a: 1\n"), ("docs/a.md", "a\n")]);
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Subscription", "metadata": {"name": "commits", "namespace": "default"},
            "spec": {"pipeline": "app", "source": {"type": "gitCommit",
                "gitCommit": {"repository": world.forge.url(), "branch": "config", "path": "config", "interval": "1h",
                    "excludePaths": ["**/*.md"], "secretRef": {"name": "forge"}}}}}))
        .await;
    let process = world.start("one").await;
    until("it has looked", async || {
        subscription(&world, "commits").await.status.phase == Some(SubscriptionPhase::Watching)
    })
    .await;
    world.forge.person("config", "docs", &[("docs/a.md", "b\n"), ("config/notes.md", "b\n")]);
    refresh(&world, "commits", "a").await;
    assert!(made_by(&world, "commits").await.is_empty());
    let commit = world.forge.person("config", "config", &[("config/a.yaml", "a: 2\n")]);
    refresh(&world, "commits", "b").await;
    let bundles = made_by(&world, "commits").await;
    let shas: Vec<&str> = bundles
        .iter()
        .filter_map(|bundle| Some(bundle.spec.artifacts.git_commit.as_ref()?.sha.as_str()))
        .collect();
    assert_eq!(shas, [commit.as_str()]);
    process.end().await.expect("ends well");
}

/// F14: each entry once, in order, signed; a failure is tried again before the next.
#[tokio::test(flavor = "multi_thread")]
async fn a_hook_tells_each_event_once() {
    let world = World::new(&["dev"]).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    world.secret("default", "hook", &[("hmacKey", "notify-key")]).await;
    let receiver = Stub::default();
    let address = receiver.start().await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "NotificationHook", "metadata": {"name": "chat", "namespace": "default"},
            "spec": {"webhook": {"url": format!("http://{address}/hook"), "secretRef": {"name": "hook"}},
                "events": ["PromotionStarted", "PromotionSucceeded"]}}))
        .await;
    let process = world.start("one").await;
    let hook = async || world.read::<NotificationHookSpec>("chat").await.expect("exists");
    until("the hook knows where it begins", async || hook().await.status.started).await;
    receiver.faults.lock().expect("not poisoned").push(503);
    world.bundle("app-1", "1.29.0").await;
    until("both events are told", async || hook().await.status.deliveries.len() == 3).await;
    process.end().await.expect("ends well");
    let process = world.start("two").await;
    until("the next leads", async || process.handle.is_leader()).await;
    world.bundle("app-2", "1.30.0").await;
    until("the next two are told", async || hook().await.status.deliveries.len() == 5).await;
    let seen = receiver.seen("/hook");
    let events: Vec<(String, String)> = seen
        .iter()
        .map(|seen| {
            let body: Value = serde_json::from_slice(&seen.body).expect("is JSON");
            (
                body["bundle"].as_str().unwrap_or_default().to_owned(),
                body["event"].as_str().unwrap_or_default().to_owned(),
            )
        })
        .collect();
    let expected = [
        ("app-1", "PromotionStarted"),
        ("app-1", "PromotionStarted"),
        ("app-1", "PromotionSucceeded"),
        ("app-2", "PromotionStarted"),
        ("app-2", "PromotionSucceeded"),
    ];
    assert_eq!(events, expected.map(|(bundle, event)| (bundle.to_owned(), event.to_owned())));
    assert_eq!(
        seen[0].headers["x-kardinal-delivery"], seen[1].headers["x-kardinal-delivery"],
        "a repetition can be told"
    );
    let key = secrecy::SecretString::from("notify-key");
    for one in &seen {
        assert!(is_signed(&key, &one.body, &one.headers["x-kardinal-signature"]));
    }
    process.end().await.expect("ends well");
}

/// Whoever writes hooks and subscriptions must not have the controller ask its own machine or cloud.
#[tokio::test(flavor = "multi_thread")]
async fn hooks_and_subscriptions_do_not_reach_the_machine_or_its_cloud() {
    let world = World::new(&["dev"]).await;
    world.pipeline("app", json!([{"name": "dev"}])).await;
    world
        .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "NotificationHook", "metadata": {"name": "chat", "namespace": "default"},
            "spec": {"webhook": {"url": "http://169.254.169.254/hook"}}}))
        .await;
    let image = |host: &str| json!({"type": "image", "image": {"repository": format!("{host}/org/app"), "insecure": true, "interval": "1h"}});
    let sources = [
        image("169.254.169.254:5000"),
        image("127.0.0.2:5000"),
        json!({"type": "helmChart", "helmChart": {"repoURL": "oci://169.254.169.254/charts", "name": "app", "interval": "1h"}}),
        json!({"type": "gitCommit", "gitCommit": {"repository": "http://169.254.169.254/org/app.git", "interval": "1h"}}),
    ];
    for (number, source) in sources.iter().enumerate() {
        world
            .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Subscription",
                "metadata": {"name": format!("source-{number}"), "namespace": "default"},
                "spec": {"pipeline": "app", "source": source}}))
            .await;
    }
    let process = world.start("one").await;
    let hook = async || world.read::<NotificationHookSpec>("chat").await.expect("exists");
    until("the hook knows where it begins", async || hook().await.status.started).await;
    world.bundle("app-1", "1.29.0").await;
    until("the delivery failed", async || hook().await.status.failure_message.is_some()).await;
    let refused = "which may not be called from here";
    let message = hook().await.status.failure_message.unwrap_or_default();
    assert!(message.contains(refused), "{message}");
    for (number, source) in sources.iter().enumerate() {
        let name = format!("source-{number}");
        until("it has looked", async || {
            subscription(&world, &name).await.status.phase == Some(SubscriptionPhase::Error)
        })
        .await;
        let message = subscription(&world, &name).await.status.message.unwrap_or_default();
        assert!(message.contains(refused), "{source}: {message}");
    }
    process.end().await.expect("ends well");
}
