//! Where AWS keys come from: profiles with roles, single sign-on, programs, containers, web identities.

#![cfg(unix)]

use std::path::Path;

use serde_json::json;

use crate::aws::{KEY_ID, SECRET_KEY, verify_signature};
use crate::servers::{SeenRequest, TestAnswer, TestServer, json as answer, text};
use crate::support::{run_at_home, write_program};

const ROLE_KEYS: &str = "<R><Credentials><AccessKeyId>ROLEKEY</AccessKeyId><SecretAccessKey>role-secret-key</SecretAccessKey>\
    <SessionToken>session-of-role</SessionToken><Expiration>2100-01-01T00:00:00Z</Expiration></Credentials></R>";

/// STS, the portal of single sign-on, the container service and Secrets Manager in one.
async fn amazon() -> TestServer {
    TestServer::start(|request| match request.form("Action").as_deref() {
        Some("AssumeRole") => {
            verify_signature(request, "eu-west-1", "sts");
            text(200, ROLE_KEYS)
        }
        Some("AssumeRoleWithWebIdentity") => {
            assert_eq!(request.form("WebIdentityToken").as_deref(), Some("identity-token"));
            assert!(request.header("authorization").is_none(), "the token itself is the proof");
            text(200, ROLE_KEYS)
        }
        _ => match request.path.as_str() {
            "/federation/credentials" => sign_on(request),
            "/container" if request.header("authorization") != Some("pod-identity") => answer(401, &json!({})),
            "/container" => answer(
                200,
                &json!({"AccessKeyId": KEY_ID, "SecretAccessKey": SECRET_KEY, "Expiration": "2100-01-01T00:00:00Z"}),
            ),
            _ => {
                verify_signature(request, "eu-west-1", "secretsmanager");
                let who = request.header("x-amz-security-token").unwrap_or("own keys");
                answer(200, &json!({"SecretString": format!("value for {who}"), "VersionId": "1"}))
            }
        },
    })
    .await
}

fn sign_on(request: &SeenRequest) -> TestAnswer {
    if request.header("x-amz-sso_bearer_token") != Some("sso-access-token") {
        return answer(401, &json!({"message": "Session token not found or invalid"}));
    }
    if request.query_value("role_name").as_deref() != Some("Reader") {
        return answer(403, &json!({"message": "ForbiddenException canary"}));
    }
    assert_eq!(request.query_value("account_id").as_deref(), Some("111122223333"));
    answer(
        200,
        &json!({"roleCredentials": {"accessKeyId": "ROLEKEY", "secretAccessKey": "role-secret-key",
            "sessionToken": "session-of-role", "expiration": 4_102_444_800_000_i64}}),
    )
}

fn provider(more: &str) -> String {
    format!("secrets: {{providers: {{a: {{type: aws-sm, region: eu-west-1{more}}}}}}}")
}

fn home(config: &str) -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(home.path().join(".aws/sso/cache")).unwrap();
    std::fs::write(home.path().join(".aws/config"), config).unwrap();
    home
}

async fn value(provider_text: &str, server: &TestServer, variables: &[(&str, &str)], home: &Path) -> String {
    let url = server.url();
    let all = [&[("AWS_ENDPOINT_URL", url.as_str()), ("PATH", "/usr/bin:/bin")], variables].concat();
    let run = run_at_home(provider_text, &all, home);
    match run.value("secret://a/x").await {
        Ok(value) => value.as_str().unwrap().to_owned(),
        Err(error) => error.problems().to_string(),
    }
}

#[tokio::test]
async fn a_profile_goes_through_its_roles() {
    let server = amazon().await;
    let home = home(&format!(
        "[profile prod]\nrole_arn = arn:prod\nsource_profile = hub\nexternal_id = ext-1\nrole_session_name = me\n\
         [profile hub]\nrole_arn = arn:hub\nsource_profile = base\n\
         [profile base]\naws_access_key_id = {KEY_ID}\naws_secret_access_key = {SECRET_KEY}\n"
    ));
    assert_eq!(
        value(&provider(", profile: prod"), &server, &[], home.path()).await,
        "value for session-of-role"
    );
    let roles: Vec<_> = server.seen().iter().filter_map(|request| request.form("RoleArn")).collect();
    assert_eq!(roles, ["arn:hub", "arn:prod"]);
    let last = server.seen().into_iter().rfind(|request| request.form("RoleArn").is_some()).unwrap();
    assert_eq!(last.form("ExternalId").as_deref(), Some("ext-1"));
    assert_eq!(last.form("RoleSessionName").as_deref(), Some("me"));
    assert_eq!(
        value(&provider(""), &server, &[("AWS_PROFILE", "base")], home.path()).await,
        "value for own keys"
    );
}

#[tokio::test]
async fn a_login_of_single_sign_on_is_used_while_it_lasts() {
    let server = amazon().await;
    let settings = "sso_account_id = 111122223333\nsso_role_name = Reader\n";
    let home = home(&format!(
        "[profile new]\nsso_session = corp\n{settings}[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp\n\
         [profile old]\nsso_region = eu-west-1\nsso_start_url = https://corp\n{settings}\
         [profile other]\nsso_session = corp\nsso_account_id = 111122223333\nsso_role_name = Admin\n"
    ));
    let token = json!({"accessToken": "sso-access-token", "expiresAt": "2100-01-01T00:00:00Z"}).to_string();
    let cache = home.path().join(".aws/sso/cache");
    let missing = value(&provider(", profile: new"), &server, &[], home.path()).await;
    assert!(missing.contains("aws sso login --profile new"), "{missing}");
    // The name of the file: SHA-1 of the session's name, or of the address where there is no session.
    let (session, address) =
        ("ee0bfd2552fbd840c02cc48b6e823320543c450f", "17da54e8ec4ee05390f1915bb3ef5fea7ebd238e");
    for key in [session, address] {
        std::fs::write(cache.join(format!("{key}.json")), &token).unwrap();
    }
    for profile in ["new", "old"] {
        let found = value(&provider(&format!(", profile: {profile}")), &server, &[], home.path()).await;
        assert_eq!(found, "value for session-of-role", "{profile}");
    }
    let refused = value(&provider(", profile: other"), &server, &[], home.path()).await;
    assert!(refused.contains("refused the role Admin") && !refused.contains("canary"), "{refused}");
    let expired = token.replace("2100", "2020");
    std::fs::write(cache.join(format!("{session}.json")), expired).unwrap();
    let text = value(&provider(", profile: new"), &server, &[], home.path()).await;
    assert!(text.contains("has expired") && text.contains("aws sso login"), "{text}");
}

#[tokio::test]
async fn programs_containers_and_web_identities_lend_keys() {
    let server = amazon().await;
    let place = tempfile::tempdir().unwrap();
    let program = place.path().join("print keys");
    write_program(
        &program,
        &format!(
            "[ \"$1\" = 'two words' ] && echo '{}'",
            json!({"Version": 1, "AccessKeyId": KEY_ID, "SecretAccessKey": SECRET_KEY})
        ),
    );
    let token = place.path().join("identity");
    std::fs::write(&token, "identity-token\n").unwrap();
    let pod = place.path().join("pod");
    std::fs::write(&pod, "pod-identity").unwrap();
    let home = home(&format!(
        "[profile tool]\ncredential_process = '{}' 'two words'\n\
         [profile broken]\ncredential_process = /bin/echo none\n\
         [profile web]\nrole_arn = arn:web\nweb_identity_token_file = {}\n\
         [profile task]\nrole_arn = arn:task\ncredential_source = EcsContainer\n\
         [profile shell]\nrole_arn = arn:shell\ncredential_source = Environment\n",
        program.display(),
        token.display()
    ));
    let container = format!("{}/container", server.url());
    let container: &[(&str, &str)] = &[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", &container),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", pod.to_str().unwrap()),
    ];
    let keys: &[(&str, &str)] = &[("AWS_ACCESS_KEY_ID", KEY_ID), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)];
    let web: &[(&str, &str)] =
        &[("AWS_WEB_IDENTITY_TOKEN_FILE", token.to_str().unwrap()), ("AWS_ROLE_ARN", "arn:ambient")];
    let elsewhere: &[(&str, &str)] = &[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://example.com/keys"),
        ("AWS_EC2_METADATA_DISABLED", "true"),
    ];
    for (settings, variables, expected) in [
        (", profile: tool", &[][..], "value for own keys"),
        (", profile: broken", &[], "printed no keys of version 1"),
        (", profile: web", &[], "value for session-of-role"),
        (", profile: task", container, "value for session-of-role"),
        (", profile: shell", keys, "value for session-of-role"),
        ("", container, "value for own keys"),
        ("", web, "value for session-of-role"),
        ("", keys, "value for own keys"),
        ("", elsewhere, "is no address of a container service"),
        (", profile: nobody", &[], "there is no AWS profile `nobody`"),
    ] {
        let found = value(&provider(settings), &server, variables, home.path()).await;
        assert!(found.contains(expected), "{settings} {variables:?}: {found}");
    }
}
