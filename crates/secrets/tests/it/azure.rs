//! Azure Key Vault: challenges, attributes, paging that stays at home.

use serde_json::json;

use crate::servers::{TestServer, json as answer, text};
use crate::support::run;

/// A vault and its token service in one; `resource` is what its challenge asks for.
async fn vault(resource: &'static str) -> TestServer {
    TestServer::start(move |request| {
        if request.path.ends_with("/oauth2/v2.0/token") {
            assert_eq!(request.form("client_secret").as_deref(), Some("client-canary"));
            let tenant = request.path.split('/').nth(1).unwrap().to_owned();
            return answer(200, &json!({"access_token": format!("token-of-{tenant}"), "expires_in": 3600}));
        }
        if request.header("authorization") != Some("Bearer token-of-tenant-1") {
            let challenge = format!(
                "Bearer authorization=\"https://login.microsoftonline.com/tenant-1\", resource=\"{resource}\""
            );
            return text(401, "").with_header("www-authenticate", challenge);
        }
        assert_eq!(request.query_value("api-version").as_deref(), Some("7.4"));
        let secret = |attributes: serde_json::Value| {
            answer(
                200,
                &json!({"value": "azure-value", "id": "https://v/secrets/x/0123", "attributes": attributes}),
            )
        };
        match request.path.as_str() {
            "/secrets/good" | "/secrets/good/0123" => {
                secret(json!({"enabled": true, "nbf": 1, "exp": 4_102_444_800_i64}))
            }
            "/secrets/off" => secret(json!({"enabled": false})),
            "/secrets/late" => secret(json!({"enabled": true, "exp": 1})),
            "/secrets/early" => secret(json!({"enabled": true, "nbf": 4_102_444_800_i64})),
            "/secrets/denied" => answer(403, &json!({"error": {"code": "Forbidden", "message": "canary"}})),
            "/secrets" => answer(
                200,
                &json!({"value": [{"id": "https://v/secrets/a"}], "nextLink": "http://127.0.0.1:1/secrets"}),
            ),
            _ => answer(404, &json!({"error": {"code": "SecretNotFound", "message": "canary"}})),
        }
    })
    .await
}

fn config(server: &TestServer, tenant: &str) -> String {
    format!(
        "secrets: {{providers: {{z: {{type: azure-key-vault, vaultUrl: '{0}', endpoint: '{0}', tenantId: {tenant}, clientId: c, clientSecret: env:S}}}}}}",
        server.url()
    )
}

const SECRET: &[(&str, &str)] = &[("S", "client-canary")];

#[tokio::test]
async fn secrets_are_read_with_their_attributes_honoured() {
    let server = vault("http://127.0.0.1").await;
    let run = run(&config(&server, "tenant-1"), SECRET);
    assert_eq!(run.text("secret://z/good").await, "azure-value");
    assert_eq!(run.text("secret://z/good?version=0123").await, "azure-value");
    assert_eq!(run.audit.0.lock().unwrap()[0].version.as_deref(), Some("0123"));
    for (reference, expected) in [
        ("secret://z/off", "is disabled"),
        ("secret://z/late", "has expired"),
        ("secret://z/early", "is not valid yet"),
        ("secret://z/denied", "forbidden"),
        ("secret://z/none", "not found"),
        ("secret://z/app/db", "write `app-db` for `app/db`"),
    ] {
        let text = run.failure(reference).await;
        assert!(
            text.contains(expected) && text.contains("hint:") && !text.contains("canary"),
            "{reference}: {text}"
        );
    }
    assert_eq!(server.count("/token"), 1);
    let error = run.resolver.list(&slipway_secrets::ProviderName::parse("z").unwrap(), "").await.unwrap_err();
    assert!(error.to_string().contains("goes on at another host"), "{error}");
}

#[tokio::test]
async fn the_tenant_comes_from_the_challenge_where_nobody_named_it() {
    let server = vault("http://127.0.0.1").await;
    let text = config(&server, "x").replace("tenantId: x, ", "");
    let run = run(&text, SECRET);
    assert_eq!(run.text("secret://z/good").await, "azure-value");
    let paths: Vec<String> = server.seen().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/secrets/good", "/tenant-1/oauth2/v2.0/token", "/secrets/good"]);
}

#[tokio::test]
async fn a_challenge_of_a_foreign_resource_is_refused() {
    let foreign = vault("https://management.azure.com").await;
    let text = run(&config(&foreign, "wrong-tenant"), SECRET).failure("secret://z/good").await;
    assert!(text.contains("asks for a token of another service"), "{text}");
    assert_eq!(foreign.count("/token"), 1, "no second login");
}

#[tokio::test]
async fn a_client_proves_itself_with_its_certificate() {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    let key = aws_lc_rs::rsa::KeyPair::generate(aws_lc_rs::rsa::KeySize::Rsa2048).unwrap();
    let der = aws_lc_rs::encoding::AsDer::<aws_lc_rs::encoding::Pkcs8V1Der<'_>>::as_der(&key).unwrap();
    let public = aws_lc_rs::signature::KeyPair::public_key(&key).as_ref().to_vec();
    // The service compares a thumbprint; what the certificate says is known to it already.
    let certificate = b"a certificate in DER form".to_vec();
    let block = |label: &str, bytes: &[u8]| {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(bytes))
    };
    let pem = block("CERTIFICATE", &certificate) + &block("PRIVATE KEY", der.as_ref());
    let server = TestServer::start(move |request| {
        if !request.path.ends_with("/tenant-1/oauth2/v2.0/token") {
            assert_eq!(request.header("authorization"), Some("Bearer certified-token"));
            return answer(200, &json!({"value": "certified-value", "id": "https://v/secrets/x/1"}));
        }
        assert_eq!(request.form("client_secret"), None);
        assert_eq!(
            request.form("client_assertion_type").as_deref(),
            Some("urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
        );
        let assertion = request.form("client_assertion").unwrap();
        let (message, signature) = assertion.rsplit_once('.').unwrap();
        let part = |index: usize| -> serde_json::Value {
            serde_json::from_slice(&URL_SAFE_NO_PAD.decode(message.split('.').nth(index).unwrap()).unwrap())
                .unwrap()
        };
        let thumbprint = {
            use sha2::Digest as _;
            URL_SAFE_NO_PAD.encode(sha2::Sha256::digest(&certificate))
        };
        assert_eq!(part(0), json!({"alg": "PS256", "typ": "JWT", "x5t#S256": thumbprint}));
        let claims = part(1);
        assert_eq!((&claims["iss"], &claims["sub"]), (&json!("c"), &json!("c")));
        assert!(claims["aud"].as_str().unwrap().ends_with("/tenant-1/oauth2/v2.0/token"), "{claims}");
        assert!(claims["exp"].as_i64() > claims["nbf"].as_i64() && claims["jti"].is_string());
        let verifier = aws_lc_rs::signature::UnparsedPublicKey::new(
            &aws_lc_rs::signature::RSA_PSS_2048_8192_SHA256,
            &public,
        );
        let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
        verifier.verify(message.as_bytes(), &signature).expect("the signature is right");
        answer(200, &json!({"access_token": "certified-token", "expires_in": 3600}))
    })
    .await;
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("client.pem");
    std::fs::write(&file, pem).unwrap();
    let text = config(&server, "tenant-1")
        .replace("clientSecret: env:S", &format!("clientCertificate: {}", file.display()));
    assert_eq!(run(&text, &[]).text("secret://z/good").await, "certified-value");
    std::fs::write(&file, "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n").unwrap();
    let text = run(&text, &[]).failure("secret://z/good").await;
    assert!(text.contains("the client certificate cannot be used") && text.contains("hint:"), "{text}");
}

#[cfg(unix)]
#[tokio::test]
async fn the_login_of_the_az_program_is_the_last_resort() {
    let server = vault("http://127.0.0.1").await;
    let text = config(&server, "x")
        .replace("tenantId: x, clientId: c, clientSecret: env:S", "api: x")
        .replace(", api: x", "");
    let folder = tempfile::tempdir().unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let failed = run(&text, &[("PATH", &path)]).failure("secret://z/good").await;
    assert!(failed.contains("there are no Azure credentials") && failed.contains("az login"), "{failed}");
    crate::support::write_program(
        &folder.path().join("az"),
        "[ \"$*\" = 'account get-access-token --output json --resource http://127.0.0.1 --tenant tenant-1' ] || exit 3\n\
         echo '{\"accessToken\": \"token-of-tenant-1\", \"expires_on\": 4102444800}'",
    );
    assert_eq!(run(&text, &[("PATH", &path)]).text("secret://z/good").await, "azure-value");
    assert_eq!(server.count("/token"), 0, "no login of our own");
}
