//! AWS against a server that checks every signature itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use base64::Engine as _;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::servers::{SeenRequest, TestAnswer, TestServer, json as answer, text};
use crate::support::{references, run};

pub(crate) const KEY_ID: &str = "AKIDTEST";
pub(crate) const SECRET_KEY: &str = "secret-key-of-tests/canary";

/// Checks a signature as AWS does, written again from its documentation; gives the names of the signed headers.
pub(crate) fn verify_signature(request: &SeenRequest, region: &str, service: &str) -> Vec<String> {
    let secret = match request.header("x-amz-security-token") {
        Some("session-of-role") => "role-secret-key",
        _ => SECRET_KEY,
    };
    let header = request.header("authorization").expect("is signed");
    let rest = header.strip_prefix("AWS4-HMAC-SHA256 ").expect("version 4");
    let part = |name: &str| {
        rest.split(", ").find_map(|part| part.strip_prefix(&format!("{name}="))).unwrap().to_owned()
    };
    let time = request.header("x-amz-date").unwrap();
    let scope = format!("{}/{region}/{service}/aws4_request", &time[..8]);
    let credential = part("Credential");
    assert!(
        credential == format!("{KEY_ID}/{scope}") || credential == format!("ROLEKEY/{scope}"),
        "{credential}"
    );
    let names: Vec<String> = part("SignedHeaders").split(';').map(str::to_owned).collect();
    for needed in ["host", "x-amz-date"] {
        assert!(names.iter().any(|name| name == needed), "{names:?}");
    }
    let lines: String =
        names.iter().map(|name| format!("{name}:{}\n", request.header(name).unwrap().trim())).collect();
    let hash =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let canonical = format!(
        "{}\n{}\n{}\n{lines}\n{}\n{}",
        request.method,
        request.path,
        request.query,
        names.join(";"),
        hash(&request.body)
    );
    let to_sign = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hash(canonical.as_bytes()));
    let mac = |key: &[u8], message: &str| {
        let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
        mac.update(message.as_bytes());
        mac.finalize().into_bytes().to_vec()
    };
    let key = [&time[..8], region, service, "aws4_request"]
        .iter()
        .fold(format!("AWS4{secret}").into_bytes(), |key, part| mac(&key, part));
    let expected: String = mac(&key, &to_sign).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(part("Signature"), expected, "the signature is right");
    names
}

fn refusal(kind: &str, message: &str) -> TestAnswer {
    answer(400, &json!({"__type": format!("com.amazonaws#{kind}"), "message": message}))
}

async fn secrets_manager() -> TestServer {
    TestServer::start(|request| {
        verify_signature(request, "eu-west-1", "secretsmanager");
        let body = request.json();
        let secret = |id: &str| json!({"Name": id, "ARN": format!("arn:{id}"), "VersionId": "v-1", "SecretString": format!("{{\"k\":\"value-of-{id}\"}}")});
        match request.header("x-amz-target").unwrap() {
            "secretsmanager.GetSecretValue" => match body["SecretId"].as_str().unwrap() {
                "gone" => refusal("InvalidRequestException", "You can't perform this operation: it was marked for deletion."),
                "denied" => refusal("AccessDeniedException", "canary"),
                "kms" => refusal("DecryptionFailure", "canary"),
                "missing" => refusal("ResourceNotFoundException", "canary"),
                "binary" => answer(200, &json!({"Name": "binary", "SecretBinary": base64::engine::general_purpose::STANDARD.encode([0xff, 0xfe, 1]), "VersionId": "b"})),
                id if body["VersionId"] == "old" => answer(200, &json!({"Name": id, "SecretString": "old-version-value", "VersionId": "old"})),
                id if body["VersionStage"] == "AWSPREVIOUS" => answer(200, &json!({"Name": id, "SecretString": "previous-value", "VersionId": "p"})),
                id => {
                    assert_eq!(body["VersionStage"], "AWSCURRENT");
                    answer(200, &secret(id))
                }
            },
            "secretsmanager.BatchGetSecretValue" => {
                let ids: Vec<&str> = body["SecretIdList"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
                assert!(ids.len() <= 20);
                let (missing, found): (Vec<&str>, Vec<&str>) = ids.into_iter().partition(|id| id.contains("missing"));
                let errors: Vec<Value> = missing.iter().map(|id| json!({"SecretId": id, "ErrorCode": "ResourceNotFoundException", "Message": "x"})).collect();
                answer(200, &json!({"SecretValues": found.iter().map(|id| secret(id)).collect::<Vec<_>>(), "Errors": errors}))
            }
            "secretsmanager.ListSecrets" => match body["NextToken"].as_str() {
                None => answer(200, &json!({"SecretList": [{"Name": "app/a"}], "NextToken": "2"})),
                Some(_) => answer(200, &json!({"SecretList": [{"Name": "app/b"}]})),
            },
            other => panic!("{other}"),
        }
    })
    .await
}

fn config(kind: &str, server: &TestServer, more: &str) -> String {
    format!(
        "secrets: {{providers: {{a: {{type: {kind}, region: eu-west-1, endpoint: '{}', accessKeyId: {KEY_ID}, secretAccessKey: env:K{more}}}}}}}",
        server.url()
    )
}

const KEYS: &[(&str, &str)] = &[("K", SECRET_KEY)];

#[tokio::test]
async fn secrets_manager_reads_singly_and_in_batches() {
    let server = secrets_manager().await;
    let run = run(&config("aws-secrets-manager", &server, ""), KEYS);
    assert_eq!(run.text("secret://a/app/db#k").await, "value-of-app/db");
    assert_eq!(run.text("secret://a/app/db?version=old").await, "old-version-value");
    assert_eq!(run.text("secret://a/app/db?stage=AWSPREVIOUS").await, "previous-value");
    assert_eq!(run.text("secret://a/binary?encoding=base64").await, "//4B");
    let texts: Vec<String> = (0..45).map(|n| format!("secret://a/many/{n}#k")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let before = server.seen().len();
    assert_eq!(run.resolver.resolve(&references(&texts)).await.unwrap().len(), 45);
    assert_eq!(server.seen().len() - before, 3, "45 secrets are three batches");
    let error = run
        .resolver
        .resolve(&references(&["secret://a/x/missing1", "secret://a/x/there", "secret://a/x/missing2"]))
        .await
        .unwrap_err();
    assert_eq!(error.problems().len(), 2, "{error}");
}

#[tokio::test]
async fn refusals_of_aws_become_ours() {
    let server = secrets_manager().await;
    let run = run(&config("aws-sm", &server, ""), KEYS);
    for (reference, expected) in [
        ("secret://a/gone", "not found: secretsmanager:GetSecretValue gone: scheduled for deletion"),
        ("secret://a/denied", "forbidden: secretsmanager:GetSecretValue denied: AccessDeniedException"),
        ("secret://a/kms", "forbidden: secretsmanager:GetSecretValue kms: DecryptionFailure"),
        ("secret://a/missing", "not found: secretsmanager:GetSecretValue missing: ResourceNotFoundException"),
        ("secret://a/binary", "it is not UTF-8 text"),
    ] {
        let text = run.failure(reference).await;
        assert!(text.contains(expected) && text.contains("hint:") && !text.contains("canary"), "{text}");
    }
}

#[tokio::test]
async fn batches_that_are_not_allowed_become_single_reads() {
    let batches = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&batches);
    let server = TestServer::start(move |request| {
        if request.header("x-amz-target").unwrap().ends_with("BatchGetSecretValue") {
            counter.fetch_add(1, Ordering::SeqCst);
            return refusal("AccessDeniedException", "no");
        }
        answer(200, &json!({"SecretString": "single-value", "VersionId": "1"}))
    })
    .await;
    let run = run(&config("aws-sm", &server, ""), KEYS);
    run.resolver.resolve(&references(&["secret://a/1", "secret://a/2"])).await.unwrap();
    run.resolver.resolve(&references(&["secret://a/3", "secret://a/4"])).await.unwrap();
    assert_eq!(batches.load(Ordering::SeqCst), 1, "remembered");
}

#[tokio::test]
async fn throttling_is_waited_out() {
    let tries = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&tries);
    let server = TestServer::start(move |_| match counter.fetch_add(1, Ordering::SeqCst) {
        0 | 1 => refusal("ThrottlingException", "Rate exceeded"),
        _ => answer(200, &json!({"SecretString": "patient-value", "VersionId": "1"})),
    })
    .await;
    assert_eq!(run(&config("aws-sm", &server, ""), KEYS).text("secret://a/x").await, "patient-value");
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn parameters_are_read_in_batches_of_ten_with_versions_and_labels() {
    let server = TestServer::start(|request| {
        verify_signature(request, "eu-west-1", "ssm");
        let body = request.json();
        assert_eq!(request.header("x-amz-target"), Some("AmazonSSM.GetParameters"));
        assert_eq!(body["WithDecryption"], true);
        let names: Vec<&str> = body["Names"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        assert!(names.len() <= 10);
        let parameter = |full: &str| {
            let (name, selector) = full.split_once(':').map_or((full, None), |(name, selector)| (name, Some(selector)));
            let version = selector.and_then(|selector| selector.parse::<u64>().ok()).unwrap_or(9);
            let mut parameter = json!({"Name": name, "Version": version, "Type": "SecureString", "Value": format!("value-of-{full}")});
            if name.ends_with("list") {
                parameter["Type"] = "StringList".into();
                parameter["Value"] = "first-of-list,second-of-list".into();
            }
            if let Some(selector) = selector {
                parameter["Selector"] = format!(":{selector}").into();
            }
            parameter
        };
        let found: Vec<Value> = names.iter().filter(|name| !name.contains("none")).map(|name| parameter(name)).collect();
        answer(200, &json!({"Parameters": found, "InvalidParameters": []}))
    })
    .await;
    let run = run(&config("aws-ssm", &server, ""), KEYS);
    let texts: Vec<String> = (0..25).map(|n| format!("secret://a/app/p{n}")).collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    run.resolver.resolve(&references(&texts)).await.unwrap();
    assert_eq!(server.seen().len(), 3, "25 names are three calls");
    assert_eq!(run.text("secret://a/app/x").await, "value-of-/app/x", "hierarchical names are rooted");
    assert_eq!(run.text("secret://a/plain").await, "value-of-plain");
    assert_eq!(run.text("secret://a/app/x?version=3").await, "value-of-/app/x:3");
    assert_eq!(run.text("secret://a/app/x?stage=blue").await, "value-of-/app/x:blue");
    assert_eq!(run.text("secret://a/app/list").await, "first-of-list,second-of-list");
    let list = run.value("secret://a/app/list?type=json").await.unwrap();
    assert_eq!(list, json!(["first-of-list", "second-of-list"]));
    assert_eq!(run.text("secret://a/app/list#/1").await, "second-of-list");
    let text = run.failure("secret://a/app/none").await;
    assert!(text.contains("aws-ssm not found: ssm:GetParameters /app/none"), "{text}");
}

#[tokio::test]
async fn roles_are_assumed_and_identities_shown() {
    let sts = "<R><Credentials><AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>role-secret-key</SecretAccessKey>\
               <SessionToken>session-of-role</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></R>";
    let server = TestServer::start(move |request| match request.form("Action").as_deref() {
        Some("AssumeRole") => {
            verify_signature(request, "eu-west-1", "sts");
            assert_eq!(request.form("RoleArn").as_deref(), Some("arn:aws:iam::1:role/r"));
            assert_eq!(request.form("ExternalId").as_deref(), Some("ext"));
            text(200, sts)
        }
        Some("GetCallerIdentity") => {
            verify_signature(request, "eu-west-1", "sts");
            text(200, "<R><Arn>arn:aws:sts::1:assumed-role/r/slipway</Arn></R>")
        }
        _ => {
            assert_eq!(request.header("x-amz-security-token"), Some("session-of-role"));
            verify_signature(request, "eu-west-1", "secretsmanager");
            answer(200, &json!({"SecretString": "role-value", "VersionId": "1"}))
        }
    })
    .await;
    let role =
        format!(", roleArn: 'arn:aws:iam::1:role/r', externalId: ext, stsEndpoint: '{}'", server.url());
    let run = run(&config("aws-sm", &server, &role), KEYS);
    assert_eq!(run.text("secret://a/x").await, "role-value");
    assert_eq!(run.text("secret://a/y").await, "role-value");
    assert_eq!(
        server.seen().iter().filter(|request| request.form("Action").is_some()).count(),
        1,
        "one role a run"
    );
    let info = run.resolver.login(&slipway_secrets::ProviderName::parse("a").unwrap()).await.unwrap();
    assert_eq!(info.identity, "arn:aws:sts::1:assumed-role/r/slipway");
}

#[tokio::test]
async fn names_are_listed_page_by_page() {
    let server = secrets_manager().await;
    let run = run(&config("aws-sm", &server, ""), KEYS);
    let entries =
        run.resolver.list(&slipway_secrets::ProviderName::parse("a").unwrap(), "app/").await.unwrap();
    assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["app/a", "app/b"]);
}

#[tokio::test]
async fn missing_regions_and_credentials_are_explained() {
    let text = run("secrets: {}", &[]).failure("secret://aws-secrets-manager/my-app/db").await;
    assert!(text.contains("the region is not known") && text.contains("AWS_REGION"), "{text}");
    let variables = [("AWS_REGION", "eu-west-1"), ("AWS_EC2_METADATA_DISABLED", "true")];
    let text = run("secrets: {}", &variables).failure("secret://aws-secrets-manager/my-app/db").await;
    assert!(text.contains("there are no AWS credentials"), "{text}");
    let text = run("secrets: {}", &[("AWS_REGION", "x.evil/")]).failure("secret://aws-ssm/db").await;
    assert!(text.contains("characters it cannot have"), "{text}");
}

#[tokio::test]
async fn the_users_environment_makes_a_provider_without_configuration() {
    let server = secrets_manager().await;
    let variables = [
        ("AWS_REGION", "eu-west-1"),
        ("AWS_ENDPOINT_URL", &server.url()),
        ("AWS_ACCESS_KEY_ID", KEY_ID),
        ("AWS_SECRET_ACCESS_KEY", SECRET_KEY),
    ];
    assert_eq!(
        run("secrets: {}", &variables).text("secret://aws-secrets-manager/my-app/db-password#k").await,
        "value-of-my-app/db-password"
    );
}
