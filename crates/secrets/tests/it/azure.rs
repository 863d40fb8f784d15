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
