//! Gates somebody else decides.

use serde_json::{Value, json};
use slipway_promotion::Requeue;
use slipway_promotion::gate::{PushError, parse_answer, store_answer};
use slipway_promotion::kinds::GatePhase;

use super::support::time;
use super::world::{Server, World};

#[tokio::test]
async fn a_polled_gate_opens_by_the_answer() {
    let server = Server::start().await;
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "board", "namespace": "platform-policies"},
        "stringData": {"token": "t0ken", "hmacKey": "k3y"}});
    world.create(secret).await;
    let spec = json!({"expression": "externalApproval.self.approved && externalApproval.board.data.risk < 5",
        "recheckInterval": "5m",
        "external": {"url": format!("{}/ask", server.address), "secretRef": {"name": "board"}, "interval": "1m"}});
    let template = world.template("board", spec).await;
    let gate = world.instance(&template, &[]).await;

    server.answers(200, json!({"approved": false, "comment": "later"}));
    let (gate, requeue) = world.reconcile(&gate).await;
    assert_eq!((gate.status.ready, gate.status.phase), (false, Some(GatePhase::Block)));
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:01:00Z")));
    let request = server.requests().pop().expect("was asked");
    let head = request.to_ascii_lowercase();
    assert!(head.starts_with("post /ask ") && head.contains("authorization: bearer t0ken"), "{request}");
    assert!(
        head.contains("x-kardinal-signature: sha256=") && head.contains("x-kardinal-event: gate"),
        "{request}"
    );
    let body: Value =
        serde_json::from_str(request.split_once("\r\n\r\n").expect("has a body").1).expect("is JSON");
    assert_eq!(
        (&body["pipeline"], &body["environment"], &body["bundle"]["version"]),
        (&json!("shop"), &json!("prod"), &json!("1.29.0"))
    );

    // Not asked again before its time.
    world.advance(30);
    world.reconcile(&gate).await;
    assert_eq!(server.requests().len(), 1);

    server.answers(200, json!({"approved": true, "approvedBy": "eve", "expiresAt": "2026-04-13T09:01:40Z", "data": {"risk": 3}}));
    world.advance(30);
    let (gate, requeue) = world.reconcile(&gate).await;
    assert!(gate.status.ready, "{:?}", gate.status.reason);
    assert_eq!(gate.status.external.as_ref().and_then(|answer| answer.approved_by.as_deref()), Some("eve"));
    // An answer counts until it expires.
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:01:40Z")));
    server.answers(200, json!({"approved": false}));
    world.advance_to(requeue);
    assert!(!world.reconcile(&gate).await.0.status.ready);

    for (status, body, reason) in [
        (500, String::new(), "ExternalError: the external system: answered with status 500"),
        (200, "no json".to_owned(), "ExternalError: the external system: the answer is not as it should be"),
        (
            200,
            json!({"approved": "yes"}).to_string(),
            "ExternalError: the external system: the answer is not as it should be",
        ),
    ] {
        server.answers(status, body);
        world.advance(60);
        let (gate, _) = world.reconcile(&gate).await;
        assert_eq!((gate.status.ready, gate.status.phase), (false, Some(GatePhase::Error)));
        let found = gate.status.reason.unwrap_or_default();
        assert!(found.starts_with(reason), "{found}");
        assert!(!found.contains("t0ken") && !found.contains("k3y"));
    }
}

#[tokio::test]
async fn an_answer_that_does_not_come_in_time_is_none() {
    let server = Server::start().await;
    server.hangs();
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let external = json!({"url": server.address, "timeout": "50ms"});
    let template = world.template("board", json!({"external": external})).await;
    let gate = world.instance(&template, &[]).await;
    let (gate, _) = world.reconcile(&gate).await;
    assert_eq!((gate.status.ready, gate.status.phase), (false, Some(GatePhase::Error)));
    assert_eq!(
        gate.status.reason.as_deref(),
        Some("ExternalError: the external system: no answer within 50ms")
    );
}

#[tokio::test]
async fn a_pushed_answer_is_kept_until_it_expires() {
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    let template =
        world.template("tickets", json!({"recheckInterval": "5m", "external": {"mode": "push"}})).await;
    let gate = world.instance(&template, &[]).await;
    let (gate, _) = world.reconcile(&gate).await;
    assert_eq!(gate.status.phase, Some(GatePhase::Pending));
    assert_eq!(
        gate.status.reason.as_deref(),
        Some("ExternalPending: no answer from the external system yet")
    );
    let answer =
        json!({"approved": true, "approvedBy": "eve", "expiresAt": "2026-04-13T09:03:00Z"}).to_string();
    let push = async |name: &str, body: &str| {
        store_answer(&world.cluster, "platform-policies", name, body.as_bytes(), world.now()).await
    };
    push(gate.name(), &answer).await.expect("is kept");
    let (gate, requeue) = world.reconcile(&gate).await;
    assert!(gate.status.ready, "{:?}", gate.status.reason);
    assert_eq!(requeue, Requeue::At(time("2026-04-13T09:03:00Z")));
    world.advance_to(requeue);
    let (gate, _) = world.reconcile(&gate).await;
    assert_eq!(gate.status.phase, Some(GatePhase::Pending));
    assert!(matches!(push("nothing", &answer).await, Err(PushError::NoGate { .. })));
    // A template stands for all bundles: nobody can approve them all at once.
    assert!(matches!(push("tickets", &answer).await, Err(PushError::NotExternal(_))));
    assert!(matches!(push(gate.name(), "{}").await, Err(PushError::Malformed(_))));
}

#[test]
fn an_answer_is_read_as_it_is_written() {
    let now = time("2026-04-13T09:00:00Z");
    let answer =
        parse_answer(br#"{"approved": true, "comment": "ok", "more": 1}"#, now).expect("is an answer");
    assert_eq!(
        (answer.approved, answer.comment.as_deref(), answer.answered_at),
        (Some(true), Some("ok"), Some(now))
    );
    for wrong in ["", "[]", "{\"approved\": 1}", "{\"approved\": true, \"expiresAt\": \"soon\"}", "null"] {
        assert!(parse_answer(wrong.as_bytes(), now).is_err(), "{wrong}");
    }
}

/// Whoever writes gates and checks must not have the controller ask its own machine or cloud.
#[tokio::test]
async fn addresses_of_the_machine_and_its_cloud_are_not_asked() {
    let inner = Server::start().await;
    inner.answers(200, json!({"approved": true}));
    let port = inner.address.rsplit_once(':').expect("has a port").1;
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    for (number, url) in [
        "http://169.254.169.254/latest/meta-data".to_owned(),
        "http://[fd00:ec2::254]/".to_owned(),
        "http://[::ffff:169.254.169.254]/".to_owned(),
        "http://2852039166/".to_owned(),
        "http://0xA9FEA9FE/".to_owned(),
        "http://metadata.example/".to_owned(),
        format!("http://127.0.0.2:{port}/"),
        format!("http://[::1]:{port}/"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("board-{number}");
        let template = world.template(&name, json!({"external": {"url": url}})).await;
        let gate = world.instance(&template, &[]).await;
        let (gate, _) = world.reconcile(&gate).await;
        assert_eq!((gate.status.ready, gate.status.phase), (false, Some(GatePhase::Error)), "{url}");
        let reason = gate.status.reason.unwrap_or_default();
        assert!(reason.contains("which may not be called from here"), "{url}: {reason}");

        let spec = json!({"provider": {"type": "prometheus", "address": url}, "query": "vector(1)",
            "successCondition": "> 0"});
        let check = world.metric_check(&format!("check-{number}"), spec).await;
        let (check, _) = world.reconcile_metric(&check).await;
        let reason = check.status.latest.reason.unwrap_or_default();
        assert!(reason.contains("which may not be called from here"), "{url}: {reason}");
    }
    assert!(inner.requests().is_empty());
}

#[tokio::test]
async fn a_server_that_may_be_asked_cannot_send_on_to_one_that_may_not() {
    let (entry, inner) = (Server::start().await, Server::start().await);
    inner.answers(200, json!({"approved": true}));
    let port = inner.address.rsplit_once(':').expect("has a port").1.to_owned();
    let world = World::start("2026-04-13T09:00:00Z").await;
    world.bundle("shop-1", json!({})).await;
    for (number, host) in
        ["127.0.0.2", "metadata.example", "0x7f000002", "[::ffff:127.0.0.2]"].into_iter().enumerate()
    {
        entry.redirects(&format!("http://{host}:{port}/"));
        let template =
            world.template(&format!("board-{number}"), json!({"external": {"url": entry.address}})).await;
        let gate = world.instance(&template, &[]).await;
        let (gate, _) = world.reconcile(&gate).await;
        assert_eq!((gate.status.ready, gate.status.phase), (false, Some(GatePhase::Error)), "{host}");
        let reason = gate.status.reason.unwrap_or_default();
        assert!(reason.contains("which may not be called from here"), "{host}: {reason}");
    }
    assert!(inner.requests().is_empty());
}
