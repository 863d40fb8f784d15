//! Rate limits, the breaker, conditional requests and tokens of apps.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use slipway_event::{Clock as _, ManualClock};
use slipway_git::GitCredential;
use slipway_scm::{
    AppCredential, BreakerState, ErrorClass, ProviderKind, ScmConnections, ScmCredential, ScmError,
    ScmProvider,
};

use crate::contract::{connections, options, remote};
use crate::model::{Call, Forge, Reply, Server, TOKEN};
use crate::servers::github;

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at("2026-11-17T05:00:00Z".parse().unwrap()))
}

fn github(server: &Server, connections: &ScmConnections) -> Arc<dyn ScmProvider> {
    let repository = remote(ProviderKind::GitHub, &server.root, "org/app");
    connections.connect(repository, ScmCredential::Token(TOKEN.to_owned().into()), &options()).unwrap()
}

async fn server_with_pull() -> Server {
    let server = Server::start(github::handle).await;
    server.forge.lock().unwrap().add("t", "b", "other", "main");
    server
}

#[tokio::test]
async fn a_rate_limit_stops_requests_until_it_ends() {
    for (reply, seconds) in [
        (Reply::new(429, json!({})).header("retry-after", "30"), 30),
        (Reply::new(403, json!({})).header("retry-after", "30"), 30),
        (
            Reply::new(403, json!({}))
                .header("x-ratelimit-remaining", "0")
                .header("x-ratelimit-reset", "1794891900"),
            300,
        ),
        (Reply::new(429, json!({})), 60),
    ] {
        let (server, clock) = (server_with_pull().await, clock());
        let connections = connections(clock.clone());
        let provider = github(&server, &connections);
        server.forge.lock().unwrap().faults.push_back(reply);
        let until = clock.now() + Duration::from_secs(seconds);
        for _ in 0..3 {
            let error = provider.get(1).await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Transient { retry_at: Some(until) }, "{error}");
        }
        assert_eq!(server.forge.lock().unwrap().requests.len(), 1, "nothing is sent while the limit lasts");
        assert_eq!(connections.report()[0].limited_until, Some(until));
        clock.advance(Duration::from_secs(seconds));
        provider.get(1).await.unwrap();
    }
}

#[tokio::test]
async fn the_breaker_opens_after_five_failures_and_lets_one_probe_through() {
    let (server, clock) = (server_with_pull().await, clock());
    let connections = connections(clock.clone());
    let provider = github(&server, &connections);
    let fail = |count: usize| {
        let mut forge = server.forge.lock().unwrap();
        forge.faults.extend((0..count).map(|_| Reply::new(502, json!({}))));
    };
    let sent = || server.forge.lock().unwrap().requests.len();
    fail(5);
    for _ in 0..5 {
        assert!(matches!(provider.get(1).await, Err(ScmError::Unavailable { status: 502, .. })));
    }
    assert!(matches!(provider.get(1).await, Err(ScmError::CircuitOpen { .. })));
    assert_eq!(sent(), 5);
    assert!(matches!(connections.report()[0].breaker, BreakerState::Open { .. }));
    // The probe fails: twice the pause.
    clock.advance(Duration::from_secs(30));
    assert_eq!(connections.report()[0].breaker, BreakerState::HalfOpen);
    fail(1);
    assert!(matches!(provider.get(1).await, Err(ScmError::Unavailable { .. })));
    clock.advance(Duration::from_secs(59));
    assert!(matches!(provider.get(1).await, Err(ScmError::CircuitOpen { .. })));
    clock.advance(Duration::from_secs(1));
    provider.get(1).await.unwrap();
    assert_eq!(connections.report()[0].breaker, BreakerState::Closed);
    // Others of the same server with the same credentials know it too.
    fail(5);
    for _ in 0..5 {
        provider.get(1).await.unwrap_err();
    }
    let other = github(&server, &connections);
    assert!(matches!(other.get(1).await, Err(ScmError::CircuitOpen { .. })));
}

#[tokio::test]
async fn a_refusal_is_no_failure_of_the_server() {
    let server = server_with_pull().await;
    let connections = connections(clock());
    let provider = github(&server, &connections);
    for _ in 0..3 {
        assert!(matches!(provider.get(99).await, Err(ScmError::NotFound { .. })));
    }
    assert_eq!(connections.report()[0].breaker, BreakerState::Closed);
}

/// GitHub with entity tags.
fn tagged(forge: &mut Forge, call: &Call) -> Option<Reply> {
    let reply = github::handle(forge, call)?;
    let tag = format!("\"{}\"", reply.body.to_string().len());
    if call.method == "GET" && call.header("if-none-match") == tag {
        return Some(Reply::new(304, Value::Null));
    }
    Some(reply.header("etag", tag))
}

#[tokio::test]
async fn what_has_not_changed_is_not_sent_again() {
    let server = Server::start(tagged).await;
    server.forge.lock().unwrap().add("t", "b", "other", "main");
    let provider = github(&server, &connections(clock()));
    let first = provider.get(1).await.unwrap();
    assert_eq!(provider.get(1).await.unwrap(), first);
    server.forge.lock().unwrap().pulls[0].title = "changed".to_owned();
    assert_eq!(provider.get(1).await.unwrap().title, "changed");
}

/// A GitHub that knows one app.
fn with_app(forge: &mut Forge, call: &Call) -> Option<Reply> {
    if call.path != ["api", "v3", "app", "installations", "77", "access_tokens"] {
        return github::handle(forge, call);
    }
    let token = call.header("authorization").strip_prefix("Bearer ")?;
    let parts: Vec<&str> = token.split('.').collect();
    let [header, claims, _] = parts.as_slice() else { return None };
    let read = |part: &str| serde_json::from_slice::<Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let (header, claims) = (read(header)?, read(claims)?);
    let number = |name: &str| claims[name].as_i64().unwrap_or_default();
    let is_right = header == json!({"alg": "RS256", "typ": "JWT"})
        && claims["iss"] == "12345"
        && number("exp") - number("iat") <= 660
        && number("exp") > number("iat");
    // An hour of life, from a minute before the claims were made.
    let expires = jiff::Timestamp::from_second(number("iat") + 60 + 3600).ok()?;
    is_right.then(|| Reply::new(201, json!({"token": TOKEN, "expires_at": expires.to_string()})))
}

#[tokio::test]
async fn an_app_trades_its_key_for_tokens_and_renews_them_in_time() {
    let (server, clock) = (Server::start(with_app).await, clock());
    server.forge.lock().unwrap().add("t", "b", "other", "main");
    let key = std::process::Command::new("openssl")
        .args(["genpkey", "-quiet", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048"])
        .output()
        .unwrap();
    let key = String::from_utf8(key.stdout).unwrap();
    let credential = |private_key: &str| {
        ScmCredential::App(AppCredential {
            app_id: "12345".to_owned(),
            installation_id: "77".to_owned(),
            private_key: private_key.to_owned().into(),
        })
    };
    let connections = connections(clock.clone());
    let repository = || remote(ProviderKind::GitHub, &server.root, "org/app");
    let provider = connections.connect(repository(), credential(&key), &options()).unwrap();
    let exchanges = || {
        let forge = server.forge.lock().unwrap();
        forge.requests.iter().filter(|request| request.contains("access_tokens")).count()
    };
    for _ in 0..3 {
        provider.get(1).await.unwrap();
    }
    assert_eq!(exchanges(), 1);
    clock.advance(Duration::from_secs(47 * 60));
    provider.get(1).await.unwrap();
    assert_eq!(exchanges(), 1);
    clock.advance(Duration::from_secs(2 * 60));
    provider.get(1).await.unwrap();
    assert_eq!(exchanges(), 2, "renewed when a fifth of its life is left");
    let git = provider.git_credential().await.unwrap();
    assert!(matches!(git, GitCredential::Login { password, .. } if password.expose_secret() == TOKEN));
    assert_eq!(server.forge.lock().unwrap().violations, Vec::<String>::new());
    let broken = connections.connect(repository(), credential("no key"), &options()).unwrap();
    let error = broken.get(1).await.unwrap_err();
    assert_eq!(error.class(), ErrorClass::Denied, "{error}");
    assert!(!STANDARD.encode(error.to_string()).is_empty() && !error.to_string().contains("no key"));
}
