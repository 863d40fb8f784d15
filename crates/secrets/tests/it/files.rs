//! The file and environment providers, and what references make of values.

use serde_json::json;
use slipway_secrets::ResolvedSecrets;

use crate::support::run;

fn write(name: &str, text: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let config = format!(
        "secrets: {{defaultProvider: local, providers: {{local: {{type: file, path: {}}}}}}}",
        path.display()
    );
    (folder, config)
}

#[tokio::test]
async fn yaml_files_are_descended_by_path_or_key() {
    let text = "db: {password: hunter2-long, port: 5432, hosts: [a.example, b.example]}\nflag: true\nplain: some-text-here\n";
    let (_folder, config) = write("dev.yaml", text);
    let run = run(&config, &[]);
    assert_eq!(run.text("secret://local/db/password").await, "hunter2-long");
    assert_eq!(run.text("secret:///db#password").await, "hunter2-long", "the default provider, a key");
    assert_eq!(run.text("secret://local/db/hosts/1").await, "b.example");
    assert_eq!(run.text("secret://local/db#port").await, "5432", "numbers become text");
    assert_eq!(run.value("secret://local/db?type=int#port").await.unwrap(), json!(5432));
    assert_eq!(run.value("secret://local/flag?type=bool").await.unwrap(), json!(true));
    assert_eq!(
        run.value("secret://local/db?type=json#/hosts").await.unwrap(),
        json!(["a.example", "b.example"])
    );
    assert_eq!(run.text("secret://local/plain?encoding=base64").await, "c29tZS10ZXh0LWhlcmU=");
    assert_eq!(run.text("secret://local/db#/hosts/0").await, "a.example");
}

#[tokio::test]
async fn env_files_and_variables_are_read_by_name() {
    let (_folder, config) = write("dev.env", "export DB_PASSWORD='p w'\nPEM=\"a\\nb\\n\"\n");
    let run = run(&config, &[]);
    assert_eq!(run.text("secret://local/DB_PASSWORD").await, "p w");
    assert_eq!(run.text("secret://local/PEM?trim=newline").await, "a\nb");
    let run = crate::support::run(
        "secrets: {providers: {e: {type: env, prefix: APP_}}}",
        &[("APP_TOKEN", "t0ken-value")],
    );
    assert_eq!(run.text("secret://e/TOKEN").await, "t0ken-value");
    let text = run.failure("secret://e/NONE").await;
    assert!(text.contains("env not found: the variable `APP_NONE` is not set"), "{text}");
}

#[tokio::test]
async fn a_missing_key_fails_with_the_names_and_never_a_value() {
    let (_folder, config) = write(
        "dev.json",
        r#"{"db": {"value": "x-canary-value", "user": "u"}, "one": {"only": "v-canary-value"}, "none": {}}"#,
    );
    let run = run(&config, &[]);
    let cases = [
        ("secret://local/db#password", "it has no key `password`; there are user, value"),
        ("secret://local/db", "holds several keys (user, value); add #<key>"),
        ("secret://local/nope", "has no `nope`"),
        ("secret://local/db/value#x", "it is a single value and has no key `x`"),
        ("secret://local/db?type=int#value", "it is text, not a whole number"),
        ("secret://local/db?encoding=base64d#value", "it is not base64"),
        ("secret://local/db?version=1#value", "a file has no versions"),
        ("secret://local/none", "it holds no keys"),
    ];
    for (reference, expected) in cases {
        let text = run.failure(reference).await;
        assert!(text.contains(expected), "{reference}: {text}");
        assert!(text.contains(&format!("secret {reference}: file ")), "{text}");
        assert!(text.contains("hint:"), "{reference}: {text}");
        assert!(!text.contains("canary"), "{text}");
    }
    assert_eq!(run.text("secret://local/one").await, "v-canary-value", "a single key needs no name");
}

#[tokio::test]
async fn files_that_cannot_be_used_are_explained() {
    let (folder, config) = write("enc.yaml", "a: ENC[x]\nsops: {mac: y}\n");
    let text = run(&config, &[]).failure("secret://local/a").await;
    assert!(text.contains("encrypted by SOPS") && text.contains("sops --decrypt"), "{text}");
    std::fs::remove_file(folder.path().join("enc.yaml")).unwrap();
    let text = run(&config, &[]).failure("secret://local/a").await;
    assert!(text.contains("enc.yaml") && text.contains("hint:"), "names the absolute path: {text}");
}

#[tokio::test]
async fn every_value_is_known_to_the_redactor_and_audited() {
    let (_folder, config) = write("dev.yaml", "db: {password: s3nt1nel-canary, pin: '42'}\n");
    let run = run(&config, &[]);
    let mut values = json!({"a": "secret://local/db#password", "b": "secret://local/db#pin", "c": "secret://local/db#password"});
    let resolved = run.resolver.resolve_values(&mut values).await.unwrap();
    assert_eq!(values["a"], "s3nt1nel-canary");
    assert_eq!(run.redactor.redact("x=s3nt1nel-canary"), format!("x={}", slipway_event::MASK));
    assert_eq!(run.redactor.redact("czNudDFuZWwtY2FuYXJ5"), slipway_event::MASK, "in base64 as well");
    let types = resolved.iter().map(|(_, secret)| secret.provider_type);
    assert_eq!(ResolvedSecrets::count_by_type(types), "resolved 2 references (file 2)");
    assert!(resolved.warnings().to_string().contains("too short"), "{}", resolved.warnings());
    assert!(!format!("{resolved:?}").contains("canary"), "{resolved:?}");
    let lines = run.audit.0.lock().unwrap().clone();
    assert_eq!(lines.len(), 2, "one a distinct reference");
    let text = serde_json::to_string(&lines).unwrap();
    assert!(
        text.contains("\"ref\":\"secret://local/db#password\"") && text.contains("\"cache\":\"miss\""),
        "{text}"
    );
    assert!(!text.contains("canary"), "{text}");
}

#[tokio::test]
async fn secrets_over_the_limit_are_refused() {
    let (_folder, config) = write("big.yaml", &format!("a: {}\n", "x".repeat(70_000)));
    let text = run(&config, &[]).failure("secret://local/a").await;
    assert!(text.contains("larger than 65536 bytes") && text.contains("maxBytes"), "{text}");
}
