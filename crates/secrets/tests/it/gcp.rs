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

/// Google's token service, the one that lends tokens of accounts, and Secret Manager in one.
async fn federation() -> TestServer {
    TestServer::start(|request| {
        if request.path == "/sts" {
            assert_eq!(
                request.form("grant_type").as_deref(),
                Some("urn:ietf:params:oauth:grant-type:token-exchange")
            );
            assert_eq!(request.form("audience").as_deref(), Some("//iam/pool"));
            return match request.form("subject_token").as_deref() {
                Some("workload-token") => answer(200, &json!({"access_token": "federated-token", "expires_in": 3600})),
                Some(signed) if signed.starts_with("%7B") => {
                    verify_aws_request(signed);
                    answer(200, &json!({"access_token": "federated-token", "expires_in": 3600}))
                }
                _ => answer(400, &json!({"error": "invalid_grant", "error_description": "canary"})),
            };
        }
        if request.path == "/workload" {
            assert_eq!(request.header("x-flavor"), Some("ci"));
            return answer(200, &json!({"value": "workload-token"}));
        }
        if request.path.ends_with(":generateAccessToken") {
            assert_eq!(request.header("authorization"), Some("Bearer federated-token"));
            assert_eq!(request.json()["scope"][0], "https://www.googleapis.com/auth/cloud-platform");
            let account = request.path.split('/').next_back().unwrap().split(':').next().unwrap().to_owned();
            return answer(200, &json!({"accessToken": format!("token-of-{account}"), "expireTime": "2100-01-01T00:00:00Z"}));
        }
        let token = request.header("authorization").unwrap_or_default().to_owned();
        answer(200, &json!({"name": "x/versions/1", "payload": {"data": STANDARD.encode(format!("value for {token}"))}}))
    })
    .await
}

/// Checks the request to AWS that Google would send in our name.
fn verify_aws_request(encoded: &str) {
    let decoded =
        url::form_urlencoded::parse(format!("t={encoded}").as_bytes()).next().unwrap().1.into_owned();
    let signed: serde_json::Value = serde_json::from_str(&decoded).unwrap();
    let headers = signed["headers"].as_array().unwrap().iter().map(|header| {
        (header["key"].as_str().unwrap().to_lowercase(), header["value"].as_str().unwrap().to_owned())
    });
    let request = crate::servers::SeenRequest {
        method: signed["method"].as_str().unwrap().to_owned(),
        path: "/".to_owned(),
        query: "Action=GetCallerIdentity&Version=2011-06-15".to_owned(),
        headers: headers.collect(),
        body: Vec::new(),
    };
    assert_eq!(request.header("host"), Some("sts.eu-west-1.amazonaws.com"));
    let names = crate::aws::verify_signature(&request, "eu-west-1", "sts");
    assert!(names.contains(&"x-goog-cloud-target-resource".to_owned()), "{names:?}");
}

#[tokio::test]
async fn workload_identities_are_traded_for_googles_tokens() {
    let server = federation().await;
    let url = server.url();
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    std::fs::write(&token, "workload-token\n").unwrap();
    let account = format!("{url}/v1/projects/-/serviceAccounts/sa@p1:generateAccessToken");
    let external = |source: serde_json::Value| {
        json!({"type": "external_account", "audience": "//iam/pool", "token_url": format!("{url}/sts"),
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt", "credential_source": source})
    };
    let acting = |mut file: serde_json::Value| {
        file["service_account_impersonation_url"] = account.as_str().into();
        file
    };
    let cases = [
        (external(json!({"file": token})), "", "value for Bearer federated-token"),
        (acting(external(json!({"file": token}))), "", "value for Bearer token-of-sa@p1"),
        (external(json!({"file": token})), ", impersonate: other@p1", "value for Bearer token-of-other@p1"),
        (
            external(json!({"url": format!("{url}/workload"), "headers": {"X-Flavor": "ci"},
                "format": {"type": "json", "subject_token_field_name": "value"}})),
            "",
            "value for Bearer federated-token",
        ),
        (external(json!({"environment_id": "aws1"})), "", "value for Bearer federated-token"),
        (
            json!({"type": "impersonated_service_account", "service_account_impersonation_url": account,
                "source_credentials": external(json!({"file": token}))}),
            "",
            "value for Bearer token-of-sa@p1",
        ),
        (
            external(json!({"executable": {"command": "x"}})),
            "",
            "names no source of tokens that is supported",
        ),
        (external(json!({"file": token, "format": {"type": "json"}})), "", "has no token"),
        (json!({"type": "gdch"}), "", "credentials of the type `gdch`"),
    ];
    for (file, more, expected) in cases {
        let path = folder.path().join("wif.json");
        std::fs::write(&path, file.to_string()).unwrap();
        let text = format!(
            "secrets: {{providers: {{g: {{type: gcp-sm, project: p1, endpoint: '{url}', credentialsFile: {}{more}}}}}}}",
            path.display()
        );
        let keys = [
            ("AWS_REGION", "eu-west-1"),
            ("AWS_ACCESS_KEY_ID", crate::aws::KEY_ID),
            ("AWS_SECRET_ACCESS_KEY", crate::aws::SECRET_KEY),
        ];
        let run = run(&text, &keys);
        let found = match run.value("secret://g/a").await {
            Ok(value) => value.as_str().unwrap().to_owned(),
            Err(error) => error.problems().to_string(),
        };
        assert!(found.contains(expected) && !found.contains("canary"), "{file}: {found}");
    }
}

#[test]
fn a_repository_cannot_take_tokens_from_elsewhere() {
    let repository = tempfile::tempdir().unwrap();
    let file = repository.path().join("wif.json");
    let text = "secrets: {providers: {g: {type: gcp-sm, project: p1, credentialsFile: wif.json}}}";
    let check = |kind: &str| {
        std::fs::write(&file, format!("{{\"type\": \"{kind}\"}}")).unwrap();
        let layers =
            [crate::support::layer(text, repository.path(), slipway_secrets::ConfigOrigin::Repository)];
        let config = slipway_secrets::SecretsConfig::load(&layers).unwrap();
        let resolver = slipway_secrets::Resolver::new(config, slipway_secrets::ResolverOptions::default());
        resolver.check(&crate::support::references(&["secret://g/a"]))
    };
    assert!(check("service_account").is_ok());
    for kind in ["external_account", "impersonated_service_account"] {
        let text = check(kind).unwrap_err().problems().to_string();
        assert!(text.contains("takes tokens from elsewhere"), "{kind}: {text}");
    }
}
