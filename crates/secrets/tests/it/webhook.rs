//! The audit webhook: lines arrive before values are used, and what their loss means.

use serde_json::{Value, json};
use slipway_secrets::{ConfigOrigin, SecretsConfig, SecretsError};

use crate::servers::{TestServer, json as answer};
use crate::support::{layer, references, run};

fn config(address: &str, closed: bool, folder: &std::path::Path) -> String {
    std::fs::write(folder.join("dev.yaml"), "a: audited-canary\nb: audited-canary-2\n").unwrap();
    format!(
        "secrets: {{limits: {{retries: 0}}, audit: {{webhook: '{address}/hook', webhookToken: env:T, failClosed: {closed}}}, \
         policy: {{rules: [{{id: no, deny: {{paths: [forbidden*]}}}}]}}, \
         providers: {{l: {{type: file, path: {}/dev.yaml}}}}}}",
        folder.display()
    )
}

const TOKEN: &[(&str, &str)] = &[("T", "hook-token-canary")];

#[tokio::test]
async fn lines_are_sent_before_values_are_given_out() {
    let server = TestServer::start(|request| {
        assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/hook"));
        assert_eq!(request.header("authorization"), Some("Bearer hook-token-canary"));
        assert_eq!(request.header("content-type"), Some("application/x-ndjson"));
        answer(202, &Value::Null)
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let run = run(&config(&server.url(), true, folder.path()), TOKEN);
    run.resolver.resolve(&references(&["secret://l/a", "secret://l/b"])).await.unwrap();
    let refused = run.resolver.resolve(&references(&["secret://l/forbidden"])).await;
    assert!(matches!(refused, Err(SecretsError::Refused(_))));
    assert!(run.resolver.finish().await.is_empty());
    let seen = server.seen();
    assert_eq!(seen.len(), 2, "one request a batch of lines");
    let text = String::from_utf8(seen.iter().flat_map(|request| request.body.clone()).collect()).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let told: Vec<(&str, &str)> =
        lines.iter().map(|line| (line["ref"].as_str().unwrap(), line["result"].as_str().unwrap())).collect();
    assert_eq!(told, [("secret://l/a", "ok"), ("secret://l/b", "ok"), ("secret://l/forbidden", "denied")]);
    assert!(!text.contains("audited-canary"), "{text}");
}

#[tokio::test]
async fn without_its_audit_a_secret_is_used_only_where_that_is_allowed() {
    let server = TestServer::start(|_| answer(500, &json!({"message": "canary-body"}))).await;
    let folder = tempfile::tempdir().unwrap();
    for (address, reason) in [(server.url(), "HTTP 500"), ("http://127.0.0.1:1".to_owned(), "")] {
        let closed = run(&config(&address, true, folder.path()), TOKEN);
        let error = closed.resolver.resolve(&references(&["secret://l/a"])).await.unwrap_err();
        let text = error.problems().to_string();
        assert!(matches!(error, SecretsError::Audit(_)), "{error:?}");
        assert!(text.contains("/hook") && text.contains(reason) && text.contains("hint:"), "{text}");
        assert!(!text.contains("canary"), "{text}");
        let open = run(&config(&address, false, folder.path()), TOKEN);
        let resolved = open.resolver.resolve(&references(&["secret://l/a"])).await.unwrap();
        assert!(resolved.warnings().to_string().contains("cannot send the audit"), "{}", resolved.warnings());
    }
}

#[test]
fn a_repository_cannot_say_where_lines_go() {
    let text = "secrets: {audit: {webhook: 'https://elsewhere.example'}}";
    let layers = [layer(text, std::path::Path::new("/repo"), ConfigOrigin::Repository)];
    let problems = SecretsConfig::load(&layers).unwrap_err().to_string();
    assert!(problems.contains("a repository cannot say where audit lines are sent"), "{problems}");
}
