//! Encrypted values and references to secrets reach templates, and nothing a release records or anybody is shown.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use slipway_chart::UserValues;
use slipway_chart::secret::{self, EncryptionKey};
use slipway_event::Redactor;
use slipway_problem::{Problem, Problems};
use slipway_secrets::NodeContext;
use slipway_source::{
    Decryption, LoadContext, LoadError, NoSecrets, ResolveError, ResolvedValues, SecretResolver,
    SourceRequest,
};

use crate::support::{ABOUT, folder, level, load, render, template, write};

const KEY: &str = "00112233445566778899aabbccddeeff";

fn key() -> EncryptionKey {
    EncryptionKey::parse(KEY).expect("is a key")
}

fn encrypted(text: &str) -> String {
    secret::encrypt(text, &key()).expect("encrypts")
}

fn with_key() -> LoadContext {
    LoadContext { decryption: Decryption::Decrypt(Arc::new(key())), ..LoadContext::default() }
}

fn values(files: &[(&str, &str)], set: &[&str]) -> UserValues {
    UserValues {
        files: files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec())).collect(),
        set: set.iter().map(|text| (*text).to_owned()).collect(),
        ..UserValues::default()
    }
}

#[test]
fn encrypted_values_stand_where_they_belong_and_are_not_recorded() {
    let place = folder(&[
        ("demo/Chart.yaml", ABOUT),
        ("demo/secret-values.yaml", &encrypted("level: own-secret\n")),
        ("named.yaml", &encrypted("level: named-secret\n")),
        ("demo/templates/a.yaml", &template(".Values.level")),
    ]);
    let named = vec![place.path().join("named.yaml")];
    let file: &[(&str, &str)] = &[("v.yaml", "level: file\n")];
    for (files, secret_values, set, expected, recorded) in [
        (&[][..], vec![], &[][..], "own-secret", None),
        (file, vec![], &[], "file", Some("file")),
        (file, named.clone(), &[], "named-secret", Some("file")),
        (file, named, &["level=flag"], "flag", Some("flag")),
    ] {
        let context = with_key();
        let request = SourceRequest { values: values(files, set), secret_values, ..SourceRequest::default() };
        let loaded = load(&place.path().join("demo"), request, &context).expect("loads");
        let rendered = render(&loaded);
        assert_eq!(level(&rendered), expected);
        assert_eq!(rendered.values.get("level").and_then(Value::as_str), recorded);
        assert_eq!(loaded.recorded_values(), &rendered.values);
        assert!(!context.redactor.redact("it is own-secret").contains("own-secret"));
    }
}

#[test]
fn encrypted_files_are_read_by_templates() {
    let file = secret::encrypt_file(b"BEGIN PRIVATE", &key()).expect("encrypts");
    let place = folder(&[
        ("demo/Chart.yaml", ABOUT),
        ("demo/secret/tls.key", &file),
        ("demo/templates/a.yaml", &template("werf_secret_file \"tls.key\"")),
    ]);
    let context = with_key();
    let loaded = load(&place.path().join("demo"), SourceRequest::default(), &context).expect("loads");
    assert_eq!(level(&render(&loaded)), "BEGIN PRIVATE");
    assert!(!context.redactor.redact("BEGIN PRIVATE").contains("PRIVATE"));
}

#[test]
fn a_missing_or_wrong_key_is_told_without_a_value() {
    let place = folder(&[
        ("demo/Chart.yaml", ABOUT),
        ("demo/secret-values.yaml", &encrypted("level: own-secret\n")),
        ("named.yaml", &encrypted("level: named-secret\n")),
        ("demo/templates/a.yaml", &template(".Values.level | default \"none\"")),
    ]);
    let chart = place.path().join("demo");
    let named =
        || SourceRequest { secret_values: vec![place.path().join("named.yaml")], ..SourceRequest::default() };
    let without = LoadContext::default();
    let rendered = render(&load(&chart, SourceRequest::default(), &without).expect("loads"));
    assert_eq!(level(&rendered), "none");
    let told = rendered.warnings.to_string();
    assert!(told.contains("secret-values.yaml is left out: there is no secret key"), "{told}");
    let error = load(&chart, named(), &without).expect_err("needs a key");
    assert!(matches!(error, LoadError::NoKey(_)) && error.is_secret(), "{error:?}");

    let as_they_are = LoadContext { decryption: Decryption::LeaveEncrypted, ..LoadContext::default() };
    let rendered = render(&load(&chart, named(), &as_they_are).expect("loads"));
    assert!(level(&rendered).starts_with("1000"), "{}", level(&rendered));

    let other = EncryptionKey::parse(&"ab".repeat(16)).expect("is a key");
    let wrong = LoadContext { decryption: Decryption::Decrypt(Arc::new(other)), ..LoadContext::default() };
    let error = load(&chart, SourceRequest::default(), &wrong).expect_err("does not fit");
    assert!(matches!(&error, LoadError::Decrypt { file, .. } if file == "secret-values.yaml"), "{error:?}");
    assert!(error.is_secret() && error.into_problems().to_string().contains("does not fit"));
}

/// Resolves one reference.
#[derive(Debug)]
struct Vault(Redactor);

impl SecretResolver for Vault {
    fn resolve(
        &self,
        values: &Map<String, Value>,
        _: &NodeContext,
    ) -> Result<Option<ResolvedValues>, ResolveError> {
        let mut problems = Problems::new();
        let (mut used, mut masked, mut varied) = (values.clone(), values.clone(), values.clone());
        for (key, value) in values {
            match value.as_str() {
                Some("secret://vault/level") => {
                    self.0.register("hunter22");
                    used.insert(key.clone(), "hunter22".into());
                    masked.insert(key.clone(), "⟦secret:vault/level⟧".into());
                    varied.insert(key.clone(), "⟦secret:vault/level⟧~".into());
                }
                Some(other) if other.starts_with("secret://") => {
                    problems.push(Problem::error(format!("there is no secret `{other}`")));
                }
                _ => {}
            }
        }
        problems.into_result(Some(ResolvedValues { used, masked, varied })).map_err(ResolveError::from)
    }
}

#[test]
fn references_are_resolved_for_rendering_and_recorded_as_they_are() {
    let package = "kurel:\n  name: demo\n  version: 1.0.0\n  appVersion: \"1\"\nlevel: low\n";
    let place = folder(&[
        ("demo/Chart.yaml", ABOUT),
        ("demo/templates/a.yaml", &template(".Values.level")),
        ("demo.kurel/parameters.yaml", package),
        ("demo.kurel/patches/00-base.kpatch", "[configmap.settings]\ndata.level: \"${level}\"\n"),
    ]);
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {level: low}\n";
    write(place.path(), "demo.kurel/resources/a.yaml", map);
    let redactor = Redactor::new();
    let context =
        LoadContext { resolver: Some(Arc::new(Vault(redactor.clone()))), redactor, ..LoadContext::default() };
    let request =
        |text: &str| SourceRequest { values: values(&[("v.yaml", text)], &[]), ..SourceRequest::default() };
    for source in ["demo", "demo.kurel"] {
        let path = place.path().join(source);
        let loaded = load(&path, request("level: secret://vault/level\n"), &context).expect("resolves");
        let rendered = render(&loaded);
        assert_eq!(level(&rendered), "hunter22", "{source}");
        assert_eq!(Value::Object(rendered.values), json!({"level": "secret://vault/level"}), "{source}");
        let wrong = "level: secret://vault/a\nother: secret://vault/b\n";
        let error = load(&path, request(wrong), &context).expect_err("names nothing");
        let told = error.to_string();
        assert!(error.is_secret() && told.contains("vault/a") && told.contains("vault/b"), "{told}");
        let none = LoadContext { resolver: Some(Arc::new(NoSecrets)), ..LoadContext::default() };
        let loaded = load(&path, request("level: secret://vault/level\n"), &none).expect("leaves it");
        assert_eq!(level(&render(&loaded)), "secret://vault/level", "{source}");
    }
}
