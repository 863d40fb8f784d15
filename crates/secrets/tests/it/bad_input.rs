//! Wrong configurations: all at once, located, with hints, and never a credential.

use std::path::Path;

use slipway_secrets::{ConfigOrigin, SecretsConfig};

use crate::support::layer;

/// Providers with a mistake, and a part of what is said.
const PROVIDERS: &[(&str, &str)] = &[
    ("{path: x}", "missing key `type`"),
    ("{type: valt}", "unknown type of provider `valt`"),
    ("{type: zzz}", "unknown type of provider `zzz`"),
    ("{type: file}", "missing key `path`"),
    ("{type: file, path: x, format: ini}", "`format` must be"),
    ("{type: file, path: x, keySeparator: ''}", "`keySeparator` is empty"),
    ("{type: file, pth: x, path: y}", "unknown key `pth`"),
    ("{type: env, prefix: [a]}", "`prefix` must be a string"),
    ("{type: exec}", "`command` names no program"),
    ("{type: exec, command: []}", "`command` names no program"),
    ("{type: exec, command: /bin/x}", "`command` must be a list"),
    ("{type: exec, command: [/bin/x], timeout: 5}", "`timeout` is no duration"),
    ("{type: exec, command: [/bin/x], timeout: 0s}", "`timeout` is no duration"),
    ("{type: vault, adress: 'https://h'}", "unknown key `adress`"),
    ("{type: vault, address: h}", "`address` is no address"),
    ("{type: vault, address: 'ftp://h'}", "neither http:// nor https://"),
    ("{type: vault, address: 'https://u:pw-canary@h'}", "has credentials in it"),
    ("{type: vault, address: 'https://h?token=canary'}", "has a query"),
    ("{type: vault, address: ['https://a', b]}", "an address of `address` is no address"),
    ("{type: vault, address: ['https://u:pw-canary@h']}", "has credentials in it"),
    ("{type: exec, command: [/bin/x], persistent: often}", "`persistent` must be"),
    ("{type: azure-kv, vault: a, clientSecret: 'env:X', clientCertificate: c.pem}", "exclude each other"),
    ("{type: vault, kvVersion: 3}", "`kvVersion` is unknown"),
    ("{type: vault, mount: /}", "`mount` is empty"),
    ("{type: vault, authMethod: ldap}", "`authMethod` must be"),
    ("{type: vault, authMethod: approle}", "missing key `roleId`"),
    ("{type: vault, authMethod: kubernetes}", "missing key `kubernetesRole`"),
    ("{type: vault, authMethod: jwt}", "missing key `jwt`"),
    (
        "{type: vault, authMethod: approle, roleId: r-canary, secretId: a-canary, secretIdWrapped: b-canary}",
        "exclude each other",
    ),
    ("{type: vault, token: 12345678}", "`token` must be a string"),
    ("{type: vault, token: ''}", "`token` is empty"),
    ("{type: vault, token: 'env:'}", "names no variable"),
    ("{type: vault, token: 'env:A B'}", "that is no variable"),
    ("{type: vault, token: 'file:'}", "names no file"),
    ("{type: vault, token: 'cmd:vault print'}", "no list of words"),
    ("{type: vault, token: canary-token, tlsSkipVerify: canary}", "`tlsSkipVerify` must be"),
    ("{type: aws-sm, region: 'eu west'}", "`region` has characters"),
    ("{type: aws-sm, region: a.b/c}", "`region` has characters"),
    ("{type: aws-sm, accessKeyId: canary-id}", "belong together"),
    ("{type: aws-sm, withDecryption: true}", "unknown key `withDecryption`"),
    ("{type: aws-ssm, batch: true}", "unknown key `batch`"),
    ("{type: aws-ssm, endpoint: 'localhost:4566'}", "`endpoint`"),
    ("{type: gcp-sm, project: 'a/b'}", "`project` has characters"),
    ("{type: gcp-sm, location: 'x.evil'}", "`location` has characters"),
    ("{type: azure-kv}", "missing key `vault`"),
    ("{type: azure-kv, vault: a, vaultUrl: 'https://h'}", "exclude each other"),
    ("{type: azure-kv, vault: a.b}", "`vault` has characters"),
    ("{type: azure-kv, vault: a, cloud: moon}", "`cloud` must be"),
    ("{type: azure-kv, vault: a, clientSecret: [canary]}", "`clientSecret` must be a string"),
];

/// Other mistakes of the section.
const SECTIONS: &[(&str, &str)] = &[
    ("defaultProvider: 'a b'", "`defaultProvider` is no provider's name"),
    ("providers: {'a_b': {type: env}}", "`a_b` is no name of a provider"),
    ("providers: [a]", "`providers` must be a mapping"),
    ("limits: {concurrency: 0}", "`concurrency` must be from 1 to 256"),
    ("limits: {retries: 99}", "`retries` must be from 0 to 10"),
    ("limits: {maxBytes: 0}", "`maxBytes` must be"),
    ("limits: {timeout: soon}", "`timeout` is no duration"),
    ("audit: {}", "`audit` names no place for its lines"),
    ("audit: {webhook: 'mailto:x'}", "neither http:// nor https://"),
    ("audit: {file: x, failClose: true}", "unknown key `failClose`"),
    ("standins: {'app/*': x}", "no pattern of references"),
    ("standins: {'secret://a/[': x}", "no pattern of references"),
    ("standins: {'secret://a/b': {c: d}}", "must be a string"),
    ("provider: {}", "unknown key `provider`"),
    ("policy: {rules: [{id: a}]}", "the rule `a` says nothing"),
    ("policy: {rules: [{deny: {types: [file]}}]}", "missing key `id`"),
    ("policy: {rules: [{id: a, deny: {types: [fil]}}]}", "unknown type of provider `fil`"),
    ("policy: {rules: [{id: a, deny: {}}]}", "`deny` names no references"),
    ("policy: {rules: [{id: a, allow: {paths: ['[']}}]}", "no valid pattern"),
    (
        "policy: {rules: [{id: a, require: {version: true}}, {id: a, require: {version: true}}]}",
        "two rules `a`",
    ),
    ("policy: {approvedTypes: [vaults]}", "unknown type of provider `vaults`"),
    ("policy: {approvedProviders: ['a b']}", "is no name of a provider"),
    ("policy: {approved: []}", "unknown key `approved`"),
    ("trustedRepos: here", "`trustedRepos` must be a list"),
];

fn problems(text: &str) -> slipway_problem::Problems {
    SecretsConfig::load(&[layer(text, Path::new("/conf"), ConfigOrigin::User)]).expect_err(text)
}

#[test]
fn every_mistake_of_a_provider_is_located_and_explained() {
    for (provider, expected) in PROVIDERS {
        let problems = problems(&format!("secrets:\n  providers:\n    p: {provider}\n"));
        check(provider, expected, &problems, 3);
    }
}

#[test]
fn every_mistake_of_the_section_is_located_and_explained() {
    for (section, expected) in SECTIONS {
        let problems = problems(&format!("secrets:\n  {section}\n"));
        check(section, expected, &problems, 2);
    }
}

fn check(input: &str, expected: &str, problems: &slipway_problem::Problems, line: u32) {
    let text = problems.to_string();
    assert!(text.contains(expected), "{input}: {text}");
    assert!(
        problems.iter().all(|problem| problem.at.as_ref().is_some_and(|at| at.line == line && at.column > 0)),
        "{input}: {text}"
    );
    assert!(
        problems.iter().all(|problem| problem.excerpt.is_none()),
        "no line with a credential is quoted: {input}"
    );
    let whole = format!("{text} {problems:?}");
    assert!(!whole.contains("canary") && !whole.contains("12345678"), "{input}: {whole}");
    assert!(problems.iter().all(|problem| problem.hint.is_some()), "{input}: {text}");
}

#[test]
fn all_mistakes_of_all_files_come_at_once() {
    let providers: String = PROVIDERS
        .iter()
        .enumerate()
        .map(|(index, (provider, _))| format!("    p{index}: {provider}\n"))
        .collect();
    let first = layer(&format!("secrets:\n  providers:\n{providers}"), Path::new("/a"), ConfigOrigin::User);
    let sections: Vec<_> = SECTIONS
        .iter()
        .enumerate()
        .map(|(index, (section, _))| {
            layer(&format!("secrets:\n  {section}\n"), Path::new(&format!("/b{index}")), ConfigOrigin::User)
        })
        .collect();
    let problems = SecretsConfig::load(&[vec![first], sections].concat()).unwrap_err();
    let errors =
        problems.iter().filter(|problem| problem.severity == slipway_problem::ProblemSeverity::Error).count();
    assert!(errors >= PROVIDERS.len() + SECTIONS.len(), "{errors}");
    assert!(PROVIDERS.len() + SECTIONS.len() >= 60);
}

#[test]
fn literal_credentials_are_warned_of_without_being_shown() {
    let text = "secrets: {providers: {v: {type: vault, token: canary-token}}}";
    let config = SecretsConfig::load(&[layer(text, Path::new("/conf"), ConfigOrigin::User)]).unwrap();
    let warning = config.warnings.to_string();
    assert!(warning.contains("plaintext credential in /conf/slipway.yaml: `token`"), "{warning}");
    assert!(!format!("{warning}{config:?}").contains("canary"), "{config:?}");
}

/// Every message, for reading them as a user does.
#[test]
fn messages_of_wrong_configurations_read_well() {
    let inputs = PROVIDERS.iter().map(|(provider, _)| format!("secrets:\n  providers:\n    p: {provider}\n"));
    let sections = SECTIONS.iter().map(|(section, _)| format!("secrets:\n  {section}\n"));
    let said: Vec<String> = inputs.chain(sections).map(|text| problems(&text).to_string()).collect();
    insta::assert_snapshot!(said.join("\n\n"));
}
