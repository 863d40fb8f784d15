//! Repositories that are not trusted: nothing of the user's goes where their files say.

use std::path::Path;
use std::sync::Arc;

use slipway_secrets::{
    ConfigOrigin, ConfigPlaces, RepositoryTrust, Resolver, ResolverOptions, SecretsConfig, SecretsError,
    find_layers,
};

use crate::servers::{TestServer, json};
use crate::support::{AuditMemory, environment, layer, references};

fn resolver(text: &str, root: &Path, trust: RepositoryTrust) -> Resolver {
    let config = SecretsConfig::load(&[layer(text, root, ConfigOrigin::Repository)]).unwrap();
    let options = ResolverOptions {
        environment: environment(&[
            ("VAULT_TOKEN", "ambient-token"),
            ("AWS_ACCESS_KEY_ID", "A"),
            ("AWS_SECRET_ACCESS_KEY", "s"),
        ]),
        audit: Arc::new(AuditMemory::default()),
        repository: Some(root.to_owned()),
        trust,
        ..ResolverOptions::default()
    };
    Resolver::new(config, options)
}

#[tokio::test]
async fn an_untrusted_repository_gets_no_connection() {
    let server = TestServer::start(|_| {
        json(200, &serde_json::json!({"data": {"data": {"k": "value-of-vault"}, "metadata": {"version": 1}}}))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let text =
        format!("secrets: {{providers: {{v: {{type: vault, address: '{}', kvVersion: 2}}}}}}", server.url());
    let wanted = references(&["secret://v/a#k"]);
    let error =
        resolver(&text, folder.path(), RepositoryTrust::Untrusted).resolve(&wanted).await.unwrap_err();
    assert!(matches!(error, SecretsError::Refused(_)));
    let shown = error.problems().to_string();
    assert!(
        shown.contains("untrusted repo config: provider `v` sets address") && shown.contains("trustedRepos"),
        "{shown}"
    );
    assert_eq!(server.seen().len(), 0);
    resolver(&text, folder.path(), RepositoryTrust::Trusted).resolve(&wanted).await.unwrap();
    assert_eq!(server.seen()[0].header("x-vault-token"), Some("ambient-token"));
}

#[test]
fn every_way_out_of_an_untrusted_repository_is_closed() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("token"), "t").unwrap();
    let refused = [
        "{type: exec, command: [/bin/sh]}",
        "{type: vault, address: 'http://h'}",
        "{type: vault, address: 'http://h', token: env:VAULT_TOKEN}",
        "{type: vault, token: 'cmd:[\"id\"]'}",
        "{type: vault, token: 'file:/etc/hostname'}",
        "{type: vault, address: 'http://h', token: 'file:../x'}",
        "{type: vault, tlsSkipVerify: true}",
        "{type: vault, caCert: ca.pem}",
        "{type: vault, address: 'http://h', authMethod: kubernetes, kubernetesRole: r}",
        "{type: vault, authMethod: kubernetes, kubernetesRole: r, kubernetesTokenPath: /etc/hostname}",
        "{type: vault, address: 'http://h', authMethod: aws}",
        "{type: vault, authMethod: aws, stsEndpoint: 'http://h'}",
        "{type: vault, address: 'http://h', authMethod: approle, roleId: env:R}",
        "{type: vault, address: 'http://h', authMethod: jwt, jwt: env:J}",
        "{type: aws-sm, region: r, endpoint: 'http://h'}",
        "{type: aws-ssm, region: r, stsEndpoint: 'http://h'}",
        "{type: aws-sm, region: r, endpoint: 'http://h', accessKeyId: env:A, secretAccessKey: env:B}",
        "{type: aws-sm, region: r, roleArn: x, webIdentityTokenFile: /etc/hostname}",
        "{type: gcp-sm, credentialsFile: /etc/hostname}",
        "{type: azure-kv, vaultUrl: 'https://h'}",
        "{type: azure-kv, vault: v, endpoint: 'https://h'}",
        "{type: azure-kv, vault: v, federatedTokenFile: /etc/hostname}",
        "{type: file, path: /etc/hostname}",
        "{type: file, path: ../outside.yaml}",
    ];
    let allowed = [
        "{type: vault}",
        "{type: vault, address: 'http://h', token: literal}",
        "{type: vault, address: 'http://h', token: 'file:token'}",
        "{type: aws-sm, region: r}",
        "{type: aws-sm, region: r, endpoint: 'http://h', accessKeyId: a, secretAccessKey: b}",
        "{type: gcp-sm, endpoint: 'http://h'}",
        "{type: azure-kv, vault: v}",
        "{type: file, path: dev.yaml}",
        "{type: env}",
    ];
    let check = |provider: &str, trust| {
        let text = format!("secrets: {{providers: {{p: {provider}}}}}");
        resolver(&text, folder.path(), trust).check(&references(&["secret://p/a"]))
    };
    for provider in refused {
        let error = check(provider, RepositoryTrust::Untrusted).expect_err(provider);
        assert!(matches!(&error, SecretsError::Refused(_)), "{provider}: {error}");
        assert!(error.to_string().contains("slipway.yaml:1:"), "located: {error}");
        check(provider, RepositoryTrust::Trusted).unwrap_or_else(|error| panic!("{provider}: {error}"));
    }
    for provider in allowed {
        check(provider, RepositoryTrust::Untrusted).unwrap_or_else(|error| panic!("{provider}: {error}"));
    }
}

#[cfg(unix)]
#[test]
fn links_do_not_lead_out_of_a_repository() {
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link.yaml")).unwrap();
    let text = "secrets: {providers: {p: {type: file, path: link.yaml}}}";
    let error = resolver(text, folder.path(), RepositoryTrust::Untrusted)
        .check(&references(&["secret://p/a"]))
        .unwrap_err();
    assert!(error.to_string().contains("outside of the repository"), "{error}");
}

#[test]
fn the_audit_of_a_repository_stays_inside_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let load = |file: &str, origin| {
        let text = format!("secrets: {{audit: {{file: {file}}}}}");
        SecretsConfig::load(&[layer(&text, folder.path(), origin)])
    };
    for file in ["/tmp/x.jsonl", "../x.jsonl", ".git/hooks/pre-commit", "a/../../x.jsonl"] {
        let problems = load(file, ConfigOrigin::Repository).expect_err(file);
        assert!(problems.to_string().contains("inside of it"), "{problems}");
        load(file, ConfigOrigin::User).unwrap();
    }
    load(".slipway/audit.jsonl", ConfigOrigin::Repository).unwrap();
}

#[test]
fn layers_are_found_and_only_the_user_can_trust() {
    let folder = tempfile::tempdir().unwrap();
    let (root, home) = (folder.path().join("repo"), folder.path().join("home.yaml"));
    std::fs::create_dir_all(root.join("charts/web")).unwrap();
    std::fs::write(root.join(".git"), "gitdir: elsewhere").unwrap();
    std::fs::write(
        root.join("slipway.yaml"),
        "secrets: {defaultProvider: a, providers: {a: {type: env}, b: {type: env}}}",
    )
    .unwrap();
    std::fs::write(
        root.join("secrets.yaml"),
        "defaultProvider: b\nproviders: {a: {type: exec, command: [/x]}}",
    )
    .unwrap();
    std::fs::write(
        &home,
        format!("context: other\nsecrets: {{trustedRepos: [{}], defaultProvider: c}}", root.display()),
    )
    .unwrap();
    let places = ConfigPlaces { user: Some(home.clone()), start: root.join("charts/web"), only: None };
    let layers = find_layers(&places).unwrap();
    assert_eq!(layers.len(), 3);
    let config = SecretsConfig::load(&layers).unwrap();
    assert_eq!(config.default_provider.as_ref().unwrap().as_str(), "b");
    let options = ResolverOptions { repository: Some(root.clone()), ..ResolverOptions::default() };
    Resolver::new(config, options)
        .check(&references(&["secret://a/x"]))
        .expect("trusted by the user's own file");
    // The file of values of the same name is none of ours.
    std::fs::write(root.join("secrets.yaml"), "password: x\n").unwrap();
    SecretsConfig::load(&find_layers(&places).unwrap()).unwrap();
    // A named file replaces all others.
    let only = ConfigPlaces { only: Some(home), ..places };
    assert_eq!(find_layers(&only).unwrap().len(), 1);
    let text = "secrets: {trustedRepos: [/]}";
    let problems = SecretsConfig::load(&[layer(text, &root, ConfigOrigin::Repository)]).unwrap_err();
    assert!(problems.to_string().contains("cannot say that it is trusted"), "{problems}");
}
