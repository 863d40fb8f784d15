//! The user stops a run: it ends soon, and backends get back what they lent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slipway_http::NetworkOptions;
use slipway_secrets::{Resolver, ResolverOptions, SecretsError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::servers::{TestServer, json as answer};
use crate::support::{config, environment, references};

/// A limit no test should come near.
const LONG: Duration = Duration::from_secs(300);

fn stoppable(text: &str, stop: &CancellationToken) -> Resolver {
    let options = ResolverOptions {
        environment: environment(&[("PATH", "/usr/bin:/bin")]),
        network: NetworkOptions { stop: stop.clone(), ..NetworkOptions::default() },
        ..ResolverOptions::default()
    };
    Resolver::new(config(text), options)
}

/// A Vault that lends a password at once and never answers for `slow`. It tells when that was asked for.
async fn lending_vault(asked: Arc<Notify>) -> TestServer {
    TestServer::start_async(move |request| {
        let asked = Arc::clone(&asked);
        Box::pin(async move {
            match request.path.as_str() {
                "/v1/auth/approle/login" => {
                    answer(200, &json!({"auth": {"client_token": "issued-token", "lease_duration": 600}}))
                }
                "/v1/database/creds/quick" => answer(
                    200,
                    &json!({"lease_id": "database/creds/quick/1", "data": {"password": "lent-password"}}),
                ),
                "/v1/database/creds/slow" => {
                    asked.notify_one();
                    std::future::pending().await
                }
                "/v1/sys/leases/revoke" | "/v1/auth/token/revoke-self" => answer(204, &json!({})),
                other => panic!("{other} was asked for"),
            }
        })
    })
    .await
}

fn vault_config(server: &TestServer) -> String {
    format!(
        "secrets: {{limits: {{timeout: 50s, concurrency: 1}}, providers: {{v: {{type: vault, address: '{}', authMethod: approle, roleId: role, secretId: id}}}}}}",
        server.url()
    )
}

#[tokio::test]
async fn a_stopped_run_ends_and_gives_back_leases_and_tokens() {
    let asked = Arc::new(Notify::new());
    let server = lending_vault(Arc::clone(&asked)).await;
    let stop = CancellationToken::new();
    let resolver = stoppable(&vault_config(&server), &stop);
    let quick = references(&["secret://v/read:database/creds/quick#password"]);
    resolver.resolve(&quick).await.unwrap();
    let slow = references(&["secret://v/read:database/creds/slow#password"]);
    let (waiting, both) = (resolver.clone(), slow.clone());
    let running = tokio::spawn(async move { waiting.resolve(&both).await });
    asked.notified().await;
    stop.cancel();
    let ended = tokio::time::timeout(LONG, running).await.expect("it ends").unwrap();
    assert!(matches!(ended, Err(SecretsError::Interrupted)), "{ended:?}");
    let problems = tokio::time::timeout(LONG, resolver.finish()).await.expect("giving back ends");
    assert!(problems.is_empty(), "{problems}");
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for request in server.seen() {
        *counts.entry(request.path).or_default() += 1;
    }
    assert_eq!(counts["/v1/sys/leases/revoke"], 1, "{counts:?}");
    assert_eq!(counts["/v1/auth/token/revoke-self"], 1, "{counts:?}");
    let revoked = server.seen().into_iter().find(|request| request.path.ends_with("leases/revoke")).unwrap();
    assert_eq!(revoked.json()["lease_id"], "database/creds/quick/1");
    assert_eq!(revoked.header("x-vault-token"), Some("issued-token"));
}

#[tokio::test]
async fn a_lease_nobody_waited_for_is_given_back_too() {
    let asked = Arc::new(Notify::new());
    let server = lending_vault(asked).await;
    let resolver = stoppable(&vault_config(&server), &CancellationToken::new());
    let quick = references(&["secret://v/read:database/creds/quick#password"]);
    // The node that asked is dropped in the middle of its read.
    let mut first = Box::pin(resolver.resolve(&quick));
    assert!(futures::poll!(&mut first).is_pending());
    drop(first);
    let lent = async {
        while server.count("creds/quick") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, lent).await.unwrap();
    tokio::time::timeout(LONG, resolver.finish()).await.unwrap();
    assert_eq!(server.count("leases/revoke"), 1);
    assert_eq!(server.count("revoke-self"), 1);
}

#[tokio::test]
async fn a_backend_that_takes_nothing_back_does_not_hold_up_the_end() {
    let server = TestServer::start_async(|request| {
        Box::pin(async move {
            match request.path.as_str() {
                "/v1/auth/approle/login" => answer(200, &json!({"auth": {"client_token": "issued-token"}})),
                "/v1/secret/data/a" => answer(200, &json!({"data": {"data": {"k": "some-value"}}})),
                _ => std::future::pending().await,
            }
        })
    })
    .await;
    let text = vault_config(&server)
        .replace("timeout: 50s", "timeout: 5s")
        .replace("type: vault", "type: vault, kvVersion: 2");
    let resolver = stoppable(&text, &CancellationToken::new());
    resolver.resolve(&references(&["secret://v/a#k"])).await.unwrap();
    let problems = tokio::time::timeout(LONG, resolver.finish()).await.expect("it ends");
    let text = problems.to_string();
    assert!(text.contains("did not take everything back") && text.contains("hint:"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_program_is_ended_when_the_user_stops() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().unwrap();
    let (path, started) = (folder.path().join("plugin"), folder.path().join("started"));
    std::fs::write(&path, format!("#!/bin/sh\ntouch {}\nexec sleep 600\n", started.display())).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let stop = CancellationToken::new();
    let text = format!(
        "secrets: {{providers: {{x: {{type: exec, command: ['{}'], timeout: 50s}}}}}}",
        path.display()
    );
    let resolver = stoppable(&text, &stop);
    let waiting = resolver.clone();
    let running = tokio::spawn(async move { waiting.resolve(&references(&["secret://x/a"])).await });
    let begun = async {
        while !started.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(LONG, begun).await.unwrap();
    stop.cancel();
    let ended = tokio::time::timeout(LONG, running).await.expect("it ends").unwrap();
    assert!(matches!(ended, Err(SecretsError::Interrupted)), "{ended:?}");
    tokio::time::timeout(LONG, resolver.finish()).await.expect("it ends");
}
