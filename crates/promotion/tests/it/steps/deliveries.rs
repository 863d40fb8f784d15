//! Webhooks that come in: hints to look, whoever sends them.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;
use slipway_manifest::ObjectRef;
use slipway_promotion::kinds::StepState;
use slipway_promotion::step::{DeliveryError, StepReconciler, WebhookDelivery};
use slipway_scm::WebhookHeaders;

use super::world::World;
use crate::forge::WEBHOOK_SECRET;

fn signature(secret: &str, body: &[u8]) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    mac.update(body);
    HEXLOWER.encode(&mac.finalize().into_bytes())
}

pub(crate) fn merged(number: u64) -> Value {
    json!({"action": "closed", "number": number, "repository": {"full_name": "org/app"},
        "pull_request": {"number": number, "merged": true, "state": "closed"}})
}

async fn deliver(
    world: &World,
    id: &str,
    body: &Value,
    secret: &str,
) -> Result<Vec<ObjectRef>, DeliveryError> {
    send(world.reconciler(), id, body, secret).await
}

/// Delivers a webhook of Gitea, signed with a secret.
pub(crate) async fn send(
    steps: &StepReconciler,
    id: &str,
    body: &Value,
    secret: &str,
) -> Result<Vec<ObjectRef>, DeliveryError> {
    let body = body.to_string().into_bytes();
    let headers: WebhookHeaders = [
        ("X-Gitea-Event", "pull_request".to_owned()),
        ("X-Gitea-Delivery", id.to_owned()),
        ("X-Gitea-Signature", signature(secret, &body)),
    ]
    .into_iter()
    .collect();
    let delivery = WebhookDelivery { provider: None, headers: &headers, body: &body };
    steps.receive_webhook(delivery).await
}

async fn waiting(world: &World) -> ObjectRef {
    world.bundle("app-1", "1.29.0").await;
    let mut spec = world.spec("app-1", "prod");
    spec["approval"] = json!("pr-review");
    let step = world.step("app-1-prod", spec).await;
    assert_eq!(world.settle(&step).await.state(), StepState::WaitingForMerge);
    step
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_says_where_to_look_and_only_the_answer_counts() {
    let world = World::new().await;
    let step = waiting(&world).await;
    // Signed, and a lie.
    assert_eq!(deliver(&world, "1", &merged(2), WEBHOOK_SECRET).await.unwrap(), std::slice::from_ref(&step));
    let before = world.read(&step).await.status;
    assert_eq!(world.settle(&step).await.state(), StepState::WaitingForMerge);
    assert_eq!(world.read(&step).await.status.merge_sha, before.merge_sha);
    // True.
    world.forge.merge(2, "merge", "alice");
    assert_eq!(deliver(&world, "2", &merged(2), WEBHOOK_SECRET).await.unwrap(), std::slice::from_ref(&step));
    assert_eq!(world.settle(&step).await.state(), StepState::Verified);
    // Late.
    assert!(deliver(&world, "3", &merged(2), WEBHOOK_SECRET).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn forged_repeated_and_foreign_deliveries_change_nothing() {
    let world = World::new().await;
    let step = waiting(&world).await;
    world.forge.merge(2, "merge", "alice");
    let asked = world.forge.state.lock().unwrap().requests.len();
    let before = world.read(&step).await;
    let forged = deliver(&world, "1", &merged(2), "guessed").await.unwrap_err();
    assert_eq!(forged.status(), 401);
    let unsigned = WebhookHeaders::from_iter([("X-Gitea-Event", "pull_request")]);
    let body = merged(2).to_string().into_bytes();
    let delivery = WebhookDelivery { provider: None, headers: &unsigned, body: &body };
    assert_eq!(world.reconciler().receive_webhook(delivery).await.unwrap_err().status(), 401);
    // Another pull request, another repository.
    assert!(deliver(&world, "2", &merged(77), WEBHOOK_SECRET).await.unwrap().is_empty());
    let mut foreign = merged(2);
    foreign["repository"]["full_name"] = json!("evil/app");
    assert!(deliver(&world, "3", &foreign, WEBHOOK_SECRET).await.unwrap().is_empty());
    world.settle(&step).await;
    assert_eq!(world.read(&step).await.status, before.status);
    assert_eq!(world.forge.state.lock().unwrap().requests.len(), asked, "nobody was asked");
    // The first true one counts, the same one again does not.
    assert_eq!(deliver(&world, "4", &merged(2), WEBHOOK_SECRET).await.unwrap().len(), 1);
    assert!(deliver(&world, "4", &merged(2), WEBHOOK_SECRET).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repository_may_have_a_secret_of_its_own() {
    let world = World::new().await;
    world.secret("forge", &[("token", crate::forge::TOKEN), ("webhookSecret", "its-own")]).await;
    let step = waiting(&world).await;
    assert_eq!(deliver(&world, "1", &merged(2), "its-own").await.unwrap(), [step]);
    assert_eq!(deliver(&world, "2", &merged(2), "neither").await.unwrap_err().status(), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_secret_nothing_is_taken() {
    let mut world = World::new().await;
    world.options.webhook_secret = None;
    world.restart();
    waiting(&world).await;
    assert_eq!(deliver(&world, "1", &merged(2), "").await.unwrap_err().status(), 503);
}

/// The codes of the specification, whether or not a step waits for a merge.
#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_judged_the_same_when_no_step_waits() {
    let mut world = World::new().await;
    world.options.webhook_secret = None;
    world.restart();
    // Nobody has told a secret yet.
    assert_eq!(deliver(&world, "0", &merged(2), "its-own").await.unwrap_err().status(), 503);
    world.secret("forge", &[("token", crate::forge::TOKEN), ("webhookSecret", "its-own")]).await;
    world.secret("other", &[("token", crate::forge::TOKEN), ("webhookSecret", "of-another")]).await;
    for (name, url, secret) in [
        ("app", world.forge.url(), "forge"),
        ("other", world.forge.url().replace("org/app", "org/other"), "other"),
    ] {
        world
            .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
                "metadata": {"name": name, "namespace": world.namespace},
                "spec": {"git": {"url": url, "provider": "gitea", "secretRef": {"name": secret}},
                    "environments": [{"name": "dev"}]}}))
            .await;
    }
    let foreign = |name: &str| {
        let mut body = merged(2);
        body["repository"]["full_name"] = json!(name);
        body
    };
    for (id, body, secret, expected) in [
        ("1", merged(2), "its-own", None),
        ("2", merged(2), "guessed", Some(401)),
        // The secret of one repository says nothing about another.
        ("3", merged(2), "of-another", Some(401)),
        ("4", foreign("org/other"), "of-another", None),
        // A repository without a pipeline: true deliveries are ignored, others refused.
        ("5", foreign("org/unknown"), "its-own", None),
        ("6", foreign("org/unknown"), "guessed", Some(401)),
    ] {
        let answered = deliver(&world, id, &body, secret).await;
        assert_eq!(answered.as_ref().err().map(DeliveryError::status), expected, "{id}: {answered:?}");
        assert!(answered.unwrap_or_default().is_empty(), "{id}");
    }
}

/// Whoever makes a pipeline for the repository of others, with a secret that nothing can be signed with, stops nobody's webhooks.
#[tokio::test(flavor = "multi_thread")]
async fn a_secret_that_signs_nothing_cuts_no_repository_off() {
    let mut world = World::new().await;
    world.options.webhook_secret = None;
    world.restart();
    world.secret("hostile", &[("token", crate::forge::TOKEN), ("webhookSecret", "whsec_!")]).await;
    world.secret("ours", &[("token", crate::forge::TOKEN), ("webhookSecret", "its-own")]).await;
    for (name, secret) in [("a", "hostile"), ("b", "ours")] {
        world
            .create(json!({"apiVersion": "kardinal.io/v1alpha1", "kind": "Pipeline",
                "metadata": {"name": name, "namespace": world.namespace},
                "spec": {"git": {"url": world.forge.url(), "provider": "gitlab", "secretRef": {"name": secret}},
                    "environments": [{"name": "dev"}]}}))
            .await;
    }
    let body =
        json!({"project": {"path_with_namespace": "org/app"}, "object_attributes": {"iid": 2}}).to_string();
    let time = world.now().as_second().to_string();
    let signed = |key: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key.as_bytes()).unwrap();
        mac.update(format!("1.{time}.{body}").as_bytes());
        format!("v1,{}", data_encoding::BASE64.encode(&mac.finalize().into_bytes()))
    };
    for (key, expected) in [("its-own", None), ("guessed", Some(401)), ("", Some(401))] {
        let headers: WebhookHeaders = [
            ("X-Gitlab-Event", "Merge Request Hook".to_owned()),
            ("webhook-id", "1".to_owned()),
            ("webhook-timestamp", time.clone()),
            ("webhook-signature", signed(key)),
        ]
        .into_iter()
        .collect();
        let delivery = WebhookDelivery { provider: None, headers: &headers, body: body.as_bytes() };
        let answered = world.reconciler().receive_webhook(delivery).await;
        assert_eq!(answered.as_ref().err().map(DeliveryError::status), expected, "`{key}`: {answered:?}");
    }
}
