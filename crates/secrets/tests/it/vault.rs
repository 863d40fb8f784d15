//! Vault against a strict server: tokens, namespaces, versions, logins, leases, trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use serde_json::{Value, json};

use crate::aws::verify_signature;
use crate::servers::{SeenRequest, TestAnswer, TestServer, json as answer, text};
use crate::support::{references, run};

const TOKEN: &str = "hvs.test-token-canary";

/// A Vault with a KV 2 mount `secret`, a KV 1 mount `old`, a database engine, and every login we know.
async fn vault() -> TestServer {
    TestServer::start(|request| {
        if request.header("x-vault-request") != Some("true") {
            return answer(400, &json!({"errors": ["no X-Vault-Request"]}));
        }
        if let Some(login) =
            request.path.strip_prefix("/v1/auth/").and_then(|path| path.strip_suffix("/login"))
        {
            return log_in(login, request);
        }
        if request.path == "/v1/sys/wrapping/unwrap" {
            return match request.header("x-vault-token") {
                Some("wrapping-token") => answer(200, &json!({"data": {"secret_id": "unwrapped-id"}})),
                _ => answer(400, &json!({"errors": ["wrapping token is not valid or does not exist"]})),
            };
        }
        if request.header("x-vault-token") != Some(TOKEN) {
            return answer(403, &json!({"errors": ["permission denied"]}));
        }
        read(request)
    })
    .await
}

fn log_in(method: &str, request: &SeenRequest) -> TestAnswer {
    let body = request.json();
    let is_right = match method {
        "approle" => {
            body["role_id"] == "role-1"
                && (body["secret_id"] == "secret-1" || body["secret_id"] == "unwrapped-id")
        }
        "kubernetes" | "team/k8s" => body["role"] == "web" && body["jwt"] == "pod-token",
        "jwt" => body["role"] == "ci" && body["jwt"] == "ci-token",
        "aws" => is_signed_by_aws(&body),
        _ => false,
    };
    if is_right {
        answer(200, &json!({"auth": {"client_token": TOKEN, "lease_duration": 3600}}))
    } else {
        answer(400, &json!({"errors": ["invalid role or secret ID"]}))
    }
}

/// What Vault does with a login of an AWS identity: it checks the server id and lets STS check the signature.
fn is_signed_by_aws(body: &Value) -> bool {
    let decoded = |key: &str| {
        String::from_utf8(STANDARD.decode(body[key].as_str().unwrap_or_default()).unwrap()).unwrap()
    };
    let headers: Value = serde_json::from_str(&decoded("iam_request_headers")).unwrap();
    let headers: Vec<(String, String)> = headers
        .as_object()
        .unwrap()
        .iter()
        .map(|(name, values)| (name.to_lowercase(), values[0].as_str().unwrap().to_owned()))
        .collect();
    let url = decoded("iam_request_url");
    let request = SeenRequest {
        method: body["iam_http_request_method"].as_str().unwrap_or_default().to_owned(),
        path: "/".into(),
        query: String::new(),
        headers,
        body: decoded("iam_request_body").into_bytes(),
    };
    url == "https://sts.eu-west-1.amazonaws.com/"
        && body["role"] == "deployer"
        && request.body == b"Action=GetCallerIdentity&Version=2011-06-15"
        && request.header("x-vault-aws-iam-server-id") == Some("vault.example")
        && request.header("host") == Some("sts.eu-west-1.amazonaws.com")
        && verify_signature(&request, "eu-west-1", "sts").contains(&"x-vault-aws-iam-server-id".to_owned())
}

fn read(request: &SeenRequest) -> TestAnswer {
    let version = |number: u64, fields: Value| json!({"data": {"data": fields, "metadata": {"version": number, "deletion_time": "", "destroyed": false}}});
    match (request.path.as_str(), request.query.as_str()) {
        ("/v1/sys/internal/ui/mounts/secret", _) => {
            answer(200, &json!({"data": {"options": {"version": "2"}}}))
        }
        ("/v1/sys/internal/ui/mounts/old", _) => answer(200, &json!({"data": {"options": {}}})),
        ("/v1/sys/internal/ui/mounts/hidden", _) => answer(403, &json!({"errors": ["preflight"]})),
        ("/v1/secret/data/app/db", "") => answer(
            200,
            &version(
                7,
                (0..10).map(|key| (format!("k{key}"), json!(format!("value-canary-{key}")))).collect(),
            ),
        ),
        ("/v1/secret/data/app/db", "version=3") => answer(200, &version(3, json!({"k0": "old-canary"}))),
        ("/v1/secret/data/app/db", "version=4") => answer(
            404,
            &json!({"data": {"data": null, "metadata": {"version": 4, "deletion_time": "2026-01-01T00:00:00Z", "destroyed": false}}}),
        ),
        ("/v1/secret/data/app/db", "version=5") => answer(
            404,
            &json!({"data": {"data": null, "metadata": {"version": 5, "deletion_time": "", "destroyed": true}}}),
        ),
        ("/v1/hidden/data/x", "") => answer(200, &version(1, json!({"k": "hidden-value"}))),
        ("/v1/secret/data/forbidden", _) => {
            answer(403, &json!({"errors": ["1 error occurred: permission denied canary-body"]}))
        }
        ("/v1/old/app", "") => answer(200, &json!({"data": {"k": "kv-one-value"}})),
        ("/v1/database/creds/ro", "") => answer(
            200,
            &json!({"lease_id": "database/creds/ro/abc", "data": {"username": "u", "password": "dynamic-pass"}}),
        ),
        ("/v1/secret/metadata/app", "list=true") => answer(200, &json!({"data": {"keys": ["db", "sub/"]}})),
        ("/v1/auth/token/lookup-self", "") => answer(
            200,
            &json!({"data": {"display_name": "approle-web", "expire_time": "2026-11-17T12:00:00Z"}}),
        ),
        ("/v1/sys/leases/revoke" | "/v1/auth/token/revoke-self", "") => answer(204, &Value::Null),
        _ => answer(404, &json!({"errors": []})),
    }
}

fn config(server: &TestServer, more: &str) -> String {
    format!("secrets: {{providers: {{v: {{type: vault, address: '{}', {more}}}}}}}", server.url())
}

#[tokio::test]
async fn ten_keys_of_one_path_are_one_read() {
    let server = vault().await;
    let run = run(&config(&server, "kvVersion: 2, token: env:T, namespace: team"), &[("T", TOKEN)]);
    let texts: Vec<String> = (0..10).map(|key| format!("secret://v/app/db#k{key}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    assert_eq!(run.resolver.resolve(&references(&texts)).await.unwrap().len(), 10);
    let seen = server.seen();
    assert_eq!(seen.len(), 1, "no preflight with a version set: {seen:?}");
    assert_eq!(seen[0].header("x-vault-namespace"), Some("team"));
    assert_eq!(run.audit.0.lock().unwrap()[0].version.as_deref(), Some("7"));
}

#[tokio::test]
async fn versions_of_engines_are_found_and_pinned_versions_read() {
    let server = vault().await;
    let run = run(&config(&server, "token: env:T"), &[("T", TOKEN)]);
    assert_eq!(run.text("secret://v/app/db#k1").await, "value-canary-1");
    assert_eq!(run.text("secret://v/app/db?version=3#k0").await, "old-canary");
    assert_eq!(run.text("secret://v/mount:old/app#k").await, "kv-one-value");
    assert_eq!(run.text("secret://v/mount:hidden/x#k").await, "hidden-value", "taken for version 2");
    assert_eq!(server.count("ui/mounts/secret"), 1, "asked once");
    for (reference, expected) in [
        ("secret://v/app/db?version=4#k0", "not found: secret/app/db is deleted (version 4)"),
        ("secret://v/app/db?version=5#k0", "destroyed (version 5)"),
        ("secret://v/mount:old/app?version=1#k", "keeps no versions"),
        ("secret://v/app/none#k", "not found: read secret/app/none: HTTP 404"),
        ("secret://v/forbidden#k", "forbidden: read secret/forbidden: HTTP 403"),
        ("secret://v/app/db#nope", "it has no key `nope`; there are k0, k1"),
        ("secret://v/app/db?stage=x#k", "no stages"),
    ] {
        let text = run.failure(reference).await;
        assert!(text.contains(expected) && text.contains("hint:"), "{reference}: {text}");
        assert!(!text.contains("canary"), "{text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_login_happens_once_for_many_nodes() {
    let logins = [
        "authMethod: approle, roleId: role-1, secretId: env:SECRET_ID",
        "authMethod: approle, roleId: role-1, secretIdWrapped: env:WRAPPED",
        "authMethod: kubernetes, kubernetesRole: web, kubernetesToken: env:POD",
        "authMethod: kubernetes, kubernetesRole: web, kubernetesToken: env:POD, authMount: team/k8s",
        "authMethod: jwt, jwtRole: ci, jwt: env:CI_TOKEN",
        "authMethod: aws, awsRole: deployer, awsRegion: eu-west-1, awsHeaderValue: vault.example",
    ];
    let variables = [
        ("SECRET_ID", "secret-1"),
        ("WRAPPED", "wrapping-token"),
        ("POD", "pod-token"),
        ("CI_TOKEN", "ci-token"),
        ("AWS_ACCESS_KEY_ID", crate::aws::KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", crate::aws::SECRET_KEY),
    ];
    for login in logins {
        let server = vault().await;
        let run = run(&config(&server, &format!("kvVersion: 2, {login}")), &variables);
        let texts: Vec<String> = (0..10)
            .flat_map(|key| ["", "?version=3"].map(|version| format!("secret://v/app/db{version}#k{key}")))
            .collect();
        let wanted: Vec<&str> = texts
            .iter()
            .map(String::as_str)
            .filter(|text| !text.contains("version") || text.ends_with("k0"))
            .collect();
        let wanted = references(&wanted);
        let nodes = (0..20).map(|_| {
            let (resolver, wanted) = (run.resolver.clone(), wanted.clone());
            tokio::spawn(async move { resolver.resolve(&wanted).await.map(|resolved| resolved.len()) })
        });
        for count in join_all(nodes).await {
            assert_eq!(count.unwrap().unwrap_or_else(|error| panic!("{login}: {error}")), 11, "{login}");
        }
        assert_eq!(server.count("/login"), 1, "{login}");
        assert!(run.resolver.finish().await.is_empty());
        assert_eq!(server.count("revoke-self"), 1, "{login}: what we logged in for is revoked");
        assert_eq!(run.redactor.redact(TOKEN), slipway_event::MASK, "tokens are masked");
    }
}

#[tokio::test]
async fn refused_logins_are_explained() {
    let server = vault().await;
    for (login, expected) in [
        ("authMethod: approle, roleId: role-1, secretId: wrong-canary", "login at auth/approle refused"),
        ("authMethod: approle, roleId: role-1, secretIdWrapped: used-canary", "cannot be unwrapped"),
        (
            "authMethod: kubernetes, kubernetesRole: web, kubernetesTokenPath: /nowhere/token",
            "cannot read /nowhere/token",
        ),
        ("token: env:NONE", "the variable `NONE`"),
    ] {
        let text = run(&config(&server, login), &[]).failure("secret://v/a#k").await;
        assert!(
            text.contains(expected) && text.contains("hint:") && !text.contains("canary"),
            "{login}: {text}"
        );
    }
    let text = run("secrets: {}", &[]).failure("secret://vault/a#k").await;
    assert!(text.contains("it has no address") && text.contains("VAULT_ADDR"), "{text}");
    let text = run("secrets: {}", &[("VAULT_ADDR", &server.url())]).failure("secret://vault/a#k").await;
    assert!(text.contains("there is no token"), "{text}");
}

#[tokio::test]
async fn leases_of_raw_reads_are_given_back_unless_kept() {
    for (reference, revoked) in [
        ("secret://v/read:database/creds/ro#password", 1),
        ("secret://v/read:database/creds/ro?keepLease=true#password", 0),
    ] {
        let server = vault().await;
        let run = run(&config(&server, "token: env:T"), &[("T", TOKEN)]);
        assert_eq!(run.text(reference).await, "dynamic-pass");
        assert!(run.resolver.finish().await.is_empty());
        let leases: Vec<Value> = server
            .seen()
            .iter()
            .filter(|request| request.path.ends_with("leases/revoke"))
            .map(SeenRequest::json)
            .collect();
        assert_eq!(leases.len(), revoked, "{reference}");
        assert!(leases.iter().all(|lease| lease["lease_id"] == "database/creds/ro/abc"));
        assert_eq!(server.count("revoke-self"), 0, "the user's own token stays");
    }
}

#[tokio::test]
async fn busy_and_sealed_servers_are_told_apart() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&tries);
    let server = TestServer::start(move |_| match counter.fetch_add(1, Ordering::SeqCst) {
        0 => text(429, "busy").with_header("retry-after", "0"),
        1 => text(500, "trouble"),
        _ => answer(200, &json!({"data": {"k": "after-all-value"}})),
    })
    .await;
    let busy = run(&config(&server, "kvVersion: 1, token: t-token"), &[]);
    assert_eq!(busy.text("secret://v/a#k").await, "after-all-value");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
    let sealed = TestServer::start(|_| answer(503, &json!({"errors": ["Vault is sealed"]}))).await;
    let message = run(&config(&sealed, "kvVersion: 1, token: t-token"), &[]).failure("secret://v/a#k").await;
    assert!(message.contains("unavailable: vault is sealed") && message.contains("unseal"), "{message}");
    assert_eq!(sealed.seen().len(), 1);
    let gone = run(
        "secrets: {limits: {retries: 0}, providers: {v: {type: vault, address: 'http://127.0.0.1:1', kvVersion: 1, token: t-token}}}",
        &[],
    );
    let message = gone.failure("secret://v/app/db#k").await;
    assert!(
        message.contains("secret://v/app/db#k: vault unavailable") && message.contains("hint:"),
        "{message}"
    );
}

#[tokio::test]
async fn tokens_do_not_follow_redirects_to_another_host() {
    let other = TestServer::start(|_| answer(200, &json!({"data": {"k": "x-value-there"}}))).await;
    let target = format!("{}/v1/secret/a", other.url());
    let server = TestServer::start(move |_| text(307, "").with_header("location", target.clone())).await;
    let run = run(&config(&server, "kvVersion: 1, token: t-token"), &[]);
    let _ = run.value("secret://v/a#k").await;
    assert!(other.seen().iter().all(|request| request.header("x-vault-token").is_none()));
}

#[tokio::test]
async fn names_are_listed_and_identities_shown() {
    let server = vault().await;
    let run = run(&config(&server, "kvVersion: 2, token: env:T"), &[("T", TOKEN)]);
    let name = slipway_secrets::ProviderName::parse("v").unwrap();
    let entries = run.resolver.list(&name, "app").await.unwrap();
    let shown: Vec<(&str, bool)> = entries
        .iter()
        .map(|entry| (entry.name.as_str(), entry.kind == slipway_secrets::EntryKind::Folder))
        .collect();
    assert_eq!(shown, [("db", false), ("sub", true)]);
    let info = run.resolver.login(&name).await.unwrap();
    assert_eq!(info.identity, "approle-web");
    assert_eq!(info.expires.unwrap().to_string(), "2026-11-17T12:00:00Z");
}

#[tokio::test]
async fn another_server_of_the_cluster_answers_for_one_that_cannot() {
    let sealed = TestServer::start(|_| answer(503, &json!({"errors": ["Vault is sealed"]}))).await;
    let standby = TestServer::start(|_| answer(429, &Value::Null)).await;
    let active = vault().await;
    let config = format!(
        "secrets: {{providers: {{v: {{type: vault, address: ['http://127.0.0.1:1', '{}', '{}', '{}'], kvVersion: 2, token: env:T}}}}}}",
        sealed.url(),
        standby.url(),
        active.url()
    );
    let run = run(&config, &[("T", TOKEN)]);
    assert_eq!(run.text("secret://v/app/db#k0").await, "value-canary-0");
    assert_eq!(run.text("secret://v/app/db?version=3#k0").await, "old-canary");
    assert_eq!(
        (sealed.seen().len(), standby.seen().len()),
        (1, 1),
        "the server that answered is asked first"
    );
    let text = run.failure("secret://v/nothing#k").await;
    assert!(text.contains("not found"), "an answer is an answer: {text}");
    assert_eq!(sealed.seen().len(), 1);
}

#[tokio::test]
async fn a_cluster_without_a_working_server_is_reported_once() {
    let sealed = TestServer::start(|_| answer(503, &json!({"errors": ["Vault is sealed"]}))).await;
    let config = format!(
        "secrets: {{providers: {{v: {{type: vault, address: ['{0}', '{0}'], kvVersion: 2, token: env:T}}}}}}",
        sealed.url()
    );
    let text = run(&config, &[("T", TOKEN)]).failure("secret://v/app/db#k0").await;
    assert!(text.contains("vault is sealed") && text.contains("hint:"), "{text}");
}

/// A large stack: every release refers to the same thousand keys of fifty paths.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_thousand_references_of_64_nodes_are_fifty_reads_and_one_login() {
    let server = TestServer::start(|request| match request.path.as_str() {
        "/v1/auth/approle/login" => log_in("approle", request),
        "/v1/auth/token/revoke-self" => answer(204, &Value::Null),
        path => {
            assert_eq!(request.header("x-vault-token"), Some(TOKEN));
            let path = path.strip_prefix("/v1/secret/data/").unwrap();
            let fields: serde_json::Map<String, Value> =
                (0..20).map(|key| (format!("k{key}"), json!(format!("value-{path}-{key}")))).collect();
            answer(200, &json!({"data": {"data": fields, "metadata": {"version": 1}}}))
        }
    })
    .await;
    let login = "kvVersion: 2, authMethod: approle, roleId: role-1, secretId: env:SECRET_ID";
    let run = run(&config(&server, login), &[("SECRET_ID", "secret-1")]);
    let texts: Vec<String> =
        (0..50).flat_map(|path| (0..20).map(move |key| format!("secret://v/app/{path}#k{key}"))).collect();
    let wanted = references(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    let nodes = (0..64).map(|_| {
        let (resolver, wanted) = (run.resolver.clone(), wanted.clone());
        tokio::spawn(async move { resolver.resolve(&wanted).await.unwrap().len() })
    });
    for count in join_all(nodes).await {
        assert_eq!(count.unwrap(), 1000);
    }
    assert!(run.resolver.finish().await.is_empty());
    let reads = server.seen().iter().filter(|request| request.path.contains("/data/")).count();
    assert_eq!((reads, server.count("/login"), server.count("revoke-self")), (50, 1, 1));
}
