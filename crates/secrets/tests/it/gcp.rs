//! Google Cloud Secret Manager: checksums, resource names, service accounts.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::servers::{TestServer, json as answer};
use crate::support::run;

/// CRC-32C of `google-value`, computed by another program.
const CRC: &str = "1694576693";

async fn server() -> TestServer {
    TestServer::start(|request| {
        let payload = |crc: &str| {
            json!({"name": "projects/1/secrets/s/versions/5", "payload": {"data": STANDARD.encode("google-value"), "dataCrc32c": crc}})
        };
        let error = |status: u16, code: &str| answer(status, &json!({"error": {"status": code, "message": "canary"}}));
        match request.path.as_str() {
            "/v1/projects/p1/secrets/good/versions/latest:access" => answer(200, &payload(CRC)),
            "/v1/projects/p2/secrets/good/versions/3:access" => answer(200, &payload(CRC)),
            "/v1/projects/p1/secrets/damaged/versions/latest:access" => answer(200, &payload("1")),
            "/v1/projects/p1/secrets/off/versions/latest:access" => error(400, "FAILED_PRECONDITION"),
            "/v1/projects/p1/secrets/denied/versions/latest:access" => error(403, "PERMISSION_DENIED"),
            "/v1/projects/p1/secrets" => match request.query_value("pageToken") {
                None => answer(200, &json!({"secrets": [{"name": "projects/1/secrets/a"}], "nextPageToken": "n"})),
                Some(_) => answer(200, &json!({"secrets": [{"name": "projects/1/secrets/b"}]})),
            },
            _ => error(404, "NOT_FOUND"),
        }
    })
    .await
}

fn config(server: &TestServer) -> String {
    format!(
        "secrets: {{providers: {{g: {{type: gcp-secret-manager, project: p1, endpoint: '{}'}}}}}}",
        server.url()
    )
}

#[tokio::test]
async fn names_versions_and_checksums_are_honoured() {
    let server = server().await;
    let run = run(&config(&server), &[]);
    assert_eq!(run.text("secret://g/good").await, "google-value");
    assert_eq!(run.text("secret://g/p2/good?version=3").await, "google-value");
    assert_eq!(run.text("secret://g/projects/p2/secrets/good?version=3").await, "google-value");
    assert_eq!(run.audit.0.lock().unwrap()[0].version.as_deref(), Some("5"));
    for (reference, expected) in [
        ("secret://g/damaged", "checksum"),
        ("secret://g/off", "disabled or destroyed"),
        ("secret://g/denied", "forbidden"),
        ("secret://g/none", "not found"),
        ("secret://g/a/b/c", "is no name of a secret"),
        ("secret://g/good?stage=x", "no stages"),
    ] {
        let text = run.failure(reference).await;
        assert!(
            text.contains(expected) && text.contains("hint:") && !text.contains("canary"),
            "{reference}: {text}"
        );
    }
    assert!(
        server.seen().iter().all(|request| request.header("authorization").is_none()),
        "an address that is not Google's gets no ambient token"
    );
    let entries = run.resolver.list(&slipway_secrets::ProviderName::parse("g").unwrap(), "").await.unwrap();
    assert_eq!(entries.len(), 2);
}

#[tokio::test]
async fn ambient_credentials_never_go_to_another_address() {
    let server = server().await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("adc.json");
    std::fs::write(&file, r#"{"type":"authorized_user","client_id":"c","client_secret":"s","refresh_token":"r","token_uri":"http://127.0.0.1:1/"}"#).unwrap();
    let run = run(&config(&server), &[("GOOGLE_APPLICATION_CREDENTIALS", file.to_str().unwrap())]);
    assert_eq!(run.text("secret://g/good").await, "google-value");
    assert!(server.seen().iter().all(|request| request.header("authorization").is_none()));
}

#[tokio::test]
async fn a_service_account_signs_for_its_token_once() {
    let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&key).unwrap();
    let public = aws_lc_rs::signature::KeyPair::public_key(&key).as_ref().to_vec();
    let pem = format!(
        "-----BEGIN PRIVATE KEY-----\n{}\n-----END PRIVATE KEY-----\n",
        STANDARD.encode(der.as_ref())
    );
    let server = TestServer::start(move |request| {
        if request.path == "/token" {
            let assertion = request.form("assertion").unwrap();
            let (message, signature) = assertion.rsplit_once('.').unwrap();
            let engine = base64::engine::general_purpose::URL_SAFE_NO_PAD;
            let signature = engine.decode(signature).unwrap();
            let verifier = aws_lc_rs::signature::UnparsedPublicKey::new(
                &aws_lc_rs::signature::RSA_PKCS1_2048_8192_SHA256,
                &public,
            );
            verifier.verify(message.as_bytes(), &signature).expect("the signature is right");
            let claims: serde_json::Value =
                serde_json::from_slice(&engine.decode(message.split('.').nth(1).unwrap()).unwrap()).unwrap();
            assert_eq!(claims["iss"], "sa@p1.iam");
            return answer(200, &json!({"access_token": "google-token", "expires_in": 3600}));
        }
        assert_eq!(request.header("authorization"), Some("Bearer google-token"));
        answer(200, &json!({"name": "x/versions/1", "payload": {"data": STANDARD.encode("signed-value")}}))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("key.json");
    let account = json!({"type": "service_account", "client_email": "sa@p1.iam", "private_key": pem, "private_key_id": "1", "token_uri": format!("{}/token", server.url())});
    std::fs::write(&file, account.to_string()).unwrap();
    let text = format!(
        "secrets: {{providers: {{g: {{type: gcp-sm, project: p1, endpoint: '{}', credentialsFile: {}}}}}}}",
        server.url(),
        file.display()
    );
    let run = run(&text, &[]);
    assert_eq!(run.text("secret://g/a").await, "signed-value");
    assert_eq!(run.text("secret://g/b").await, "signed-value");
    assert_eq!(server.count("/token"), 1);
}
