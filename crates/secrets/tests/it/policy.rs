//! Policies, approved providers, implicit providers, audit that must not fail.

use std::sync::Arc;

use slipway_secrets::{
    AuditFile, Automation, NodeContext, PolicyTarget, Resolver, ResolverOptions, SecretsError, read_audit,
};

use crate::support::{config, references, run};

const CONFIG: &str = "
secrets:
  providers:
    vault-prod: {type: vault, address: 'http://127.0.0.1:1', token: env:T}
    local: {type: file, path: /nowhere/dev.yaml}
  policy:
    implicitProviders: false
    rules:
      - {id: prod-vault-only, when: {cluster: ['prod-*']}, allow: {providers: [vault-prod], paths: ['apps/*']}}
      - {id: no-local-in-ci, when: {ci: true}, deny: {types: [file, env, exec]}}
      - {id: pin-versions, when: {profile: [prod]}, require: {version: true}}
";

fn target(cluster: &str, profile: &str, automation: Automation) -> NodeContext {
    let some = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let target = PolicyTarget {
        cluster: some(cluster),
        namespace: Some("app".into()),
        profile: some(profile),
        automation,
    };
    NodeContext { node: Some("prod/app/web".into()), target }
}

#[test]
fn rules_decide_before_any_backend_is_asked() {
    let run = run(CONFIG, &[]);
    let person = Automation::Interactive;
    let cases = [
        (target("dev", "", person), "secret://local/db", None),
        (target("dev", "", Automation::Ci), "secret://local/db", Some("no-local-in-ci")),
        (target("prod-1", "", person), "secret://vault-prod/apps/web/db", None),
        (target("prod-1", "", person), "secret://vault-prod/infra/root", Some("prod-vault-only")),
        (target("prod-1", "", person), "secret://local/db", Some("prod-vault-only")),
        (target("dev", "prod", person), "secret://vault-prod/apps/x", Some("pin-versions")),
        (target("dev", "prod", person), "secret://vault-prod/apps/x?version=3", None),
    ];
    for (node, reference, denied) in cases {
        let result = run.resolver.for_node(node.clone()).check(&references(&[reference]));
        match (result, denied) {
            (Ok(()), None) => {}
            (Err(SecretsError::Refused(problems)), Some(rule)) => {
                let text = problems.to_string();
                assert!(text.contains(&format!("denied by rule `{rule}` for prod/app/web")), "{text}");
            }
            (result, _) => panic!("{reference} {node:?}: {result:?}"),
        }
    }
}

#[test]
fn providers_nobody_configured_need_the_policys_leave() {
    let refused = run(CONFIG, &[])
        .resolver
        .check(&references(&["secret://aws-secrets-manager/my-app/db"]))
        .unwrap_err();
    assert!(matches!(&refused, SecretsError::Refused(_)), "{refused}");
    run("secrets: {}", &[]).resolver.check(&references(&["secret://aws-secrets-manager/my-app/db"])).unwrap();
    for name in ["file", "env", "exec", "azure-key-vault", "aws-sm", "valt"] {
        let text = format!("secret://{name}/x");
        let unknown = run("secrets: {}", &[]).resolver.check(&references(&[&text])).unwrap_err();
        assert!(matches!(&unknown, SecretsError::Invalid(_)), "{name}: {unknown}");
    }
    let missing = run("secrets: {}", &[]).resolver.check(&references(&["secret:///x"])).unwrap_err();
    assert!(missing.to_string().contains("needs a default provider"), "{missing}");
}

#[test]
fn approved_lists_and_literal_credentials_are_enforced() {
    let text = "secrets: {providers: {v: {type: vault, token: plain-canary}, l: {type: file, path: x}}, \
                policy: {approvedProviders: [v], forbidLiteralCredentials: true}}";
    let error = run(text, &[])
        .resolver
        .check(&references(&["secret://v/a", "secret://l/a"]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("denied by rule `approvedProviders`"), "{error}");
    assert!(error.contains("credential in plain text") && !error.contains("canary"), "{error}");
}

#[tokio::test]
async fn refusals_are_audited_and_nothing_is_fetched() {
    let run = run(CONFIG, &[]);
    let node = run.resolver.for_node(target("dev", "", Automation::Ci));
    let error = node.resolve(&references(&["secret://local/db"])).await.unwrap_err();
    assert!(matches!(error, SecretsError::Refused(_)));
    let lines = run.audit.0.lock().unwrap();
    assert_eq!(serde_json::to_value(&lines[0]).unwrap()["result"], "denied");
    assert_eq!(lines[0].node_id.as_deref(), Some("prod/app/web"));
}

#[tokio::test]
async fn an_audit_that_must_not_fail_stops_the_use() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("dev.yaml"), "a: audited-value\n").unwrap();
    let blocked = folder.path().join("dev.yaml/audit.jsonl");
    let audit = folder.path().join("logs/audit.jsonl");
    for (file, closed, works) in [(&blocked, true, false), (&blocked, false, true), (&audit, true, true)] {
        let text = format!(
            "secrets: {{audit: {{file: {}, failClosed: {closed}}}, providers: {{l: {{type: file, path: {}/dev.yaml}}}}}}",
            file.display(),
            folder.path().display()
        );
        let sink = Arc::new(AuditFile::new(file.clone()));
        let resolver =
            Resolver::new(config(&text), ResolverOptions { audit: sink, ..ResolverOptions::default() });
        let result = resolver.resolve(&references(&["secret://l/a"])).await;
        assert_eq!(result.is_ok(), works, "{result:?}");
        if let Err(error) = &result {
            assert!(
                matches!(error, SecretsError::Audit(_))
                    && error.problems().to_string().contains("audit.jsonl")
            );
        }
        resolver.finish().await;
    }
    let log = read_audit(&audit).unwrap();
    assert_eq!((log.lines.len(), log.damaged), (1, 0));
    assert_eq!(log.lines[0].reference, "secret://l/a");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(std::fs::metadata(&audit).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
