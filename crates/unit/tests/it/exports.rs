//! Exports for GitOps: the same files every time, no secrets, objects that other tools read.

use std::collections::BTreeMap;

use slipway_source::LoadContext;
use slipway_unit::*;

use crate::support::*;

fn options(format: ExportFormat) -> ExportOptions {
    ExportOptions {
        format,
        secrets: ExportSecrets::References,
        repository: Some("deploy".into()),
        directory: "apps/shop".into(),
    }
}

async fn unit(place: &std::path::Path, values: &[&str]) -> UnitFile {
    let source = shop();
    let path = place.join("u");
    let request = BundleRequest {
        values: set(values),
        images: vec![ImageInput::parse(&format!("shop=acme/shop:2@{DIGEST}")).expect("is an image")],
        ..request_for(&source.path().join("shop"))
    };
    make(request, &LoadContext::default(), &path).await.unwrap_or_else(|error| panic!("{error}"));
    open(&path)
}

#[tokio::test]
async fn exporting_twice_changes_nothing_and_a_change_is_found() {
    let place = tempfile::tempdir().expect("a directory");
    let unit = unit(place.path(), &["greeting=hi"]).await;
    for format in [
        ExportFormat::Values,
        ExportFormat::Rendered,
        ExportFormat::ArgoCd,
        ExportFormat::Flux,
        ExportFormat::Kustomize,
    ] {
        let directory = place.path().join(format!("{format:?}"));
        let files =
            export_unit(&unit, &options(format)).unwrap_or_else(|error| panic!("{format:?}: {error}"));
        assert!(write_export(&files, &directory).expect("is written") > 1);
        assert_eq!(write_export(&files, &directory).expect("is written"), 0, "{format:?}");
        verify_export(&unit, &options(format), &directory)
            .unwrap_or_else(|error| panic!("{format:?}: {error}"));
        std::fs::write(directory.join("unit.json"), "{}").expect("is written");
        let error = verify_export(&unit, &options(format), &directory).expect_err("was changed");
        assert!(
            error.to_string().contains("unit.json: is not what the unit says")
                || error.to_string().contains("is not what the unit says"),
            "{error}"
        );
    }
    // Another format in the same place leaves nothing of the first.
    let directory = place.path().join("Flux");
    write_export(&export_unit(&unit, &options(ExportFormat::Rendered)).expect("is made"), &directory)
        .expect("is written");
    assert!(!directory.join("helmrelease.yaml").exists());
}

#[test]
fn nothing_is_written_outside_of_an_export() {
    let place = tempfile::tempdir().expect("a directory");
    let directory = place.path().join("export");
    for name in
        ["../evil", "chart/../../evil", "/evil", "objects/000-a/../../../evil.yaml", "a\\\\..\\\\evil", ""]
    {
        let files = BTreeMap::from([("fine".to_owned(), b"x".to_vec()), (name.to_owned(), b"x".to_vec())]);
        let error = write_export(&files, &directory).expect_err(name);
        assert!(error.to_string().contains("outside of an export"), "{name}: {error}");
        assert!(!directory.exists(), "{name}");
    }
}

#[tokio::test]
async fn flux_and_argo_objects_deploy_the_pinned_chart() {
    let place = tempfile::tempdir().expect("a directory");
    let unit = unit(place.path(), &["password=secret://vault/app/db#password"]).await;
    let stores = BTreeMap::from([("vault".to_owned(), SecretStoreName::parse("prod-vault"))]);
    let flux =
        ExportOptions { secrets: ExportSecrets::ExternalSecrets(stores), ..options(ExportFormat::Flux) };
    let files = export_unit(&unit, &flux).unwrap_or_else(|error| panic!("{error}"));
    let text = |name: &str| String::from_utf8(files[name].clone()).expect("is text");
    let release: serde_json::Value = slipway_yaml::from_str_helm(&text("helmrelease.yaml")).expect("is YAML");
    assert_eq!(release["spec"]["values"]["image"]["tag"], format!("2@{DIGEST}"));
    assert_eq!(release["spec"]["valuesFrom"][0]["targetPath"], "password");
    assert!(release["spec"]["values"].get("password").is_none());
    assert_eq!(release["spec"]["chart"]["spec"]["chart"], "./apps/shop/chart/shop");
    let external: serde_json::Value =
        slipway_yaml::from_str_helm(&text("externalsecret.yaml")).expect("is YAML");
    assert_eq!(external["spec"]["data"][0]["remoteRef"]["property"], "password");
    assert!(files.contains_key("chart/shop/templates/deployment.yaml"));
    let argo = export_unit(&unit, &options(ExportFormat::ArgoCd)).expect("is made");
    let argo: serde_json::Value =
        slipway_yaml::from_str_helm(std::str::from_utf8(&argo["application.yaml"]).expect("is text"))
            .expect("is YAML");
    assert_eq!(argo["spec"]["source"]["helm"]["valuesObject"]["password"], "secret://vault/app/db#password");
    let refused = export_unit(&unit, &options(ExportFormat::Rendered)).expect_err("has secrets");
    assert!(refused.to_string().contains("Secret shop holds secrets"), "{refused}");
    let none = ExportOptions { secrets: ExportSecrets::ExternalSecrets(BTreeMap::new()), ..flux };
    assert!(
        export_unit(&unit, &none)
            .expect_err("lacks a store")
            .to_string()
            .contains("no store is given for provider `vault`")
    );
}

#[tokio::test]
async fn an_export_is_committed_once_with_the_unit_in_its_trailer() {
    let place = tempfile::tempdir().expect("a directory");
    let unit = unit(place.path(), &["greeting=hi"]).await;
    let remote = place.path().join("remote.git");
    let git = |arguments: &[&str], directory: &std::path::Path| {
        let mut command = std::process::Command::new("git");
        command
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"])
            .args(arguments);
        let output = command.current_dir(directory).output().expect("git runs");
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    git(&["init", "-q", "--bare", "remote.git"], place.path());
    git(&["clone", "-q", "remote.git", "seed"], place.path());
    git(&["commit", "-q", "--allow-empty", "-m", "first"], &place.path().join("seed"));
    git(&["push", "-q", "origin", "HEAD:main"], &place.path().join("seed"));
    let address = format!("file://{}", remote.display());
    let address =
        slipway_git::RepositoryAddress::parse(&address, slipway_git::TransportPolicy::NetworkAndFiles)
            .expect("is an address");
    let cache = slipway_git::RepositoryCache::open(
        place.path().join("cache"),
        slipway_git::CacheOptions::default(),
        std::sync::Arc::new(slipway_git::Git::default()),
        std::sync::Arc::new(slipway_event::SystemClock),
        tokio_util::sync::CancellationToken::new(),
    )
    .expect("opens");
    let repository = cache.repository(address, slipway_git::GitCredential::Anonymous);
    let request = |branch: &str| PublishRequest {
        repository: &repository,
        base: slipway_git::BranchName::parse("main").expect("is a branch"),
        branch: slipway_git::BranchName::parse(branch).expect("is a branch"),
        directory: slipway_git::TreePath::parse("apps/shop").expect("is a path"),
        author: slipway_git::CommitIdentity::new("alice", "alice@laptop"),
        time: jiff::Timestamp::UNIX_EPOCH,
        summary: String::new(),
        provider: None,
    };
    let files = export_unit(&unit, &options(ExportFormat::Flux)).expect("is made");
    let first =
        publish_export(&unit, &files, &request("unit/shop")).await.unwrap_or_else(|error| panic!("{error}"));
    let again =
        publish_export(&unit, &files, &request("unit/shop")).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(first, again);
    let message = git(&["log", "-1", "--format=%B", "unit/shop"], &remote);
    assert!(message.contains(&format!("Ktl-Unit: {}", unit.digest())), "{message}");
    let listed = git(&["ls-tree", "-r", "--name-only", "unit/shop"], &remote);
    assert!(listed.contains("apps/shop/helmrelease.yaml"), "{listed}");
    publish_export(&unit, &files, &request("main")).await.unwrap_or_else(|error| panic!("{error}"));
    let unchanged =
        publish_export(&unit, &files, &request("unit/other")).await.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(unchanged, PublishOutcome::Unchanged);
}
