//! The grammar of references and finding them in values.

use serde_json::json;
use slipway_secrets::{
    Interpolation, ReferencePlaces, SecretReference, SecretsError, Sentinels, distinct, find_references,
};

use crate::support::{config, references, run};

/// Texts with their canonical form.
const VALID: &[(&str, &str)] = &[
    ("secret://vault/app/db#password", "secret://vault/app/db#password"),
    ("secret://Vault/app/db#password", "secret://vault/app/db#password"),
    ("secret:///app/db#password", "secret:///app/db#password"),
    ("secret://aws-secrets-manager/my-app/db-password", "secret://aws-secrets-manager/my-app/db-password"),
    ("secret://ssm//app/db", "secret://ssm//app/db"),
    (
        "secret://aws/arn:aws:secretsmanager:eu-west-1:1:secret:app/db-AbC",
        "secret://aws/arn:aws:secretsmanager:eu-west-1:1:secret:app/db-AbC",
    ),
    ("secret://v/a%2Fb", "secret://v/a/b"),
    ("secret://v/a%20b", "secret://v/a%20b"),
    ("secret://v/a%2cb", "secret://v/a%2Cb"),
    ("secret://v/a,b", "secret://v/a%2Cb"),
    ("secret://v/a=b", "secret://v/a%3Db"),
    ("secret://v/a%23b#k", "secret://v/a%23b#k"),
    ("secret://v/a%3Fb", "secret://v/a%3Fb"),
    ("secret://v/%C3%A9", "secret://v/%C3%A9"),
    ("secret://v/é", "secret://v/%C3%A9"),
    ("secret://v/a?version=3#k", "secret://v/a?version=3#k"),
    ("secret://v/a?version=3&encoding=base64", "secret://v/a?encoding=base64&version=3"),
    ("secret://v/a?type=string&trim=none&encoding=utf8", "secret://v/a"),
    ("secret://v/a?type=int", "secret://v/a?type=int"),
    ("secret://v/a?type=json#/x/y", "secret://v/a?type=json#/x/y"),
    ("secret://v/a?trim=newline", "secret://v/a?trim=newline"),
    ("secret://v/a?keepLease=true", "secret://v/a?keepLease=true"),
    ("secret://v/a?stage=AWSPREVIOUS", "secret://v/a?stage=AWSPREVIOUS"),
    ("secret://v/a#/x~1y/0", "secret://v/a#/x~1y/0"),
    ("secret://v/a#a.b", "secret://v/a#a.b"),
    ("secret://v/a#a%20b", "secret://v/a#a%20b"),
    ("secret://v/mount:kv/app#k", "secret://v/mount:kv/app#k"),
    ("secret://v/read:database/creds/ro#password", "secret://v/read:database/creds/ro#password"),
    ("secret://v/a@b", "secret://v/a@b"),
    ("secret://1/a", "secret://1/a"),
];

/// Wrong texts with a part of the message.
const WRONG: &[(&str, &str)] = &[
    ("secret://vault", "has no path"),
    ("secret://vault/", "has no path"),
    ("secret:///", "has no path"),
    ("secret://", "has no path"),
    ("secret://vault/#k", "has no path"),
    ("secret://vault?version=1", "has no path"),
    ("secret://v/a b", "white space"),
    ("secret://v/a\n b", "white space"),
    ("Secret://v/a", "does not start with"),
    ("secret://v_1/a", "no name"),
    ("secret://-v/a", "no name"),
    ("secret://user@v/a", "no name"),
    ("secret://v:80/a", "no name"),
    ("secret://v/../a", "`..`"),
    ("secret://v/a/%2E%2E/b", "`..`"),
    ("secret://v/./a", "`..`"),
    ("secret://v/a%", "`%` without"),
    ("secret://v/a%g0", "`%` without"),
    ("secret://v/%ff", "not UTF-8"),
    ("secret://v/a%00", "control character"),
    ("secret://v/a#", "no key"),
    ("secret://v/a#k?version=1", "after the key"),
    ("secret://v/a#k#l", "second `#`"),
    ("secret://v/a?ver=1", "unknown parameter"),
    ("secret://v/a?Version=1", "unknown parameter"),
    ("secret://v/a?version", "no value"),
    ("secret://v/a?version=", "no value"),
    ("secret://v/a?version=1&version=2", "twice"),
    ("secret://v/a?version=1&stage=x", "both a version and a stage"),
    ("secret://v/a?type=number", "unknown type"),
    ("secret://v/a?encoding=hex", "unknown encoding"),
    ("secret://v/a?trim=all", "unknown trim"),
    ("secret://v/a?keepLease=1", "unknown keepLease"),
    ("secret://v/a?", "no parameter"),
];

#[test]
fn references_print_in_their_canonical_form() {
    for (text, canonical) in VALID {
        let parsed: SecretReference = text.parse().unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parsed.to_string(), *canonical, "{text}");
        let again: SecretReference = canonical.parse().unwrap();
        assert_eq!(again, parsed, "{text}: the canonical form means the same");
    }
}

#[test]
fn wrong_references_say_what_and_how_to_mend_it() {
    for (text, message) in WRONG {
        let error = text.parse::<SecretReference>().expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert!(error.problem().hint.is_some(), "{text}: {error}");
    }
}

#[test]
fn references_are_found_in_string_values_alone() {
    let values = json!({
        "db": {"password": "secret://vault/app/db#password", "users": [{"name": "secret://vault/app/u#n"}]},
        "secret://not/a-key": "plain",
        "folded": "secret://vault/app/db#password\n",
        "text": "see secret://vault/x",
        "a.b": "secret://vault/dotted",
        "port": 5432,
        "mixed": "postgres://u:${secret://vault/app/db#password}@h",
    });
    let found = find_references(&values, Interpolation::Off).unwrap();
    let places: Vec<&str> = found.iter().map(|found| found.at.as_str()).collect();
    assert_eq!(places, ["db.password", "db.users[0].name", "folded", "a\\.b"]);
    assert_eq!(distinct(&found).len(), 3);
    let found = find_references(&values, Interpolation::On).unwrap();
    assert_eq!(found.len(), 5, "and inside of texts where that is allowed");
}

#[test]
fn every_wrong_reference_of_values_is_reported_at_once() {
    let values =
        json!({"a": "secret://v", "b": ["secret://v/x y"], "c": "${secret://v/x", "ok": "secret://v/x"});
    let problems = find_references(&values, Interpolation::On).unwrap_err();
    assert_eq!(problems.problems().len(), 3);
    let text = problems.to_string();
    for place in ["`a`", "`b[0]`", "`c`"] {
        assert!(text.contains(place), "{text}");
    }
    assert_eq!(text.matches("hint:").count(), 3);
}

#[test]
fn problems_name_the_line_a_reference_was_written_at() {
    let first = "a: secret://v\nb: [1, 'secret://valt/x']\nc: secret://v/overruled\n";
    let second = "c: |\n  secret://v/x y\nd: see ${secret://nobody/x}\n";
    let mut places = ReferencePlaces::default();
    places.add_file("first.yaml", first.as_bytes());
    places.add_file("second.yaml", second.as_bytes());
    let located = |error: SecretsError| {
        let problems = error.located(&places).problems();
        problems.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let values = json!({"a": "secret://v", "c": "secret://v/x y\n", "flag": "secret://v"});
    let wrong = find_references(&values, Interpolation::On).unwrap_err();
    let problems = located(SecretsError::Invalid(wrong));
    assert!(problems[0].starts_with("first.yaml:1:4"), "{problems:?}");
    assert!(problems[1].starts_with("second.yaml:1:4"), "{problems:?}");
    assert!(problems[2].starts_with("first.yaml:1:4"), "the same text, wherever it is: {problems:?}");
    let resolver = run("secrets: {providers: {vault: {type: env}}}", &[]).resolver;
    let unknown = resolver.check(&references(&["secret://valt/x", "secret://nobody/x"])).unwrap_err();
    let problems = located(unknown);
    assert!(problems[0].starts_with("second.yaml:3:4"), "{problems:?}");
    assert!(problems[1].starts_with("first.yaml:2:8"), "{problems:?}");
}

#[test]
fn escaped_interpolations_stay_as_they_are() {
    let config = config("secrets: {interpolate: true}");
    let mut values = json!({"a": "$${secret://v/x} ${other} ${secret://v/x#k}"});
    Sentinels::new(&config).substitute(&mut values);
    assert_eq!(values["a"], "${secret://v/x} ${other} ⟦secret:v/x#k⟧");
}

/// Every message, for reading them as a user does.
#[test]
fn messages_of_wrong_references_read_well() {
    let values: serde_json::Map<String, serde_json::Value> =
        WRONG.iter().enumerate().map(|(index, (text, _))| (format!("v{index:02}"), json!(text))).collect();
    let problems = find_references(&json!(values), Interpolation::Off).unwrap_err();
    assert_eq!(problems.problems().len(), WRONG.len(), "all at once");
    insta::assert_snapshot!(problems.to_string());
}
