//! `slipway unit`: the example of the guide, from the bundle to production.

use std::path::Path;

use serde_json::{Value, json};
use slipway_journal::digest::bytes as digest_of;

use crate::charts::{Store, serve};
use crate::sandbox::Down;
use crate::support::Place;

const DIGEST: &str = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

/// A place with a sandbox and the files of `examples/units`.
fn furnished() -> Place {
    let place = Place::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/units");
    place.copy_from(Path::new(example));
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    place
}

#[test]
fn one_file_goes_from_the_bundle_to_production() {
    let place = furnished();
    let _down = Down(&place);
    let image = format!("shop=ghcr.io/acme/shop:1.4@{DIGEST}");
    let bundle =
        ["unit", "bundle", "shop", "./shop", "-n", "shop", "-f", "values.yaml", "--settings", "unit.yaml"];
    let made = place.run(&[&bundle[..], &["--image", &image, "-O", "shop.unit.sqlite"]].concat()).ok();
    assert!(made.contains("in Deployment/shop[shop]"), "{made}");

    let key = place.run(&["unit", "generate-key", "release.key"]).ok();
    place.run(&["unit", "sign", "shop.unit.sqlite", "--key", "release.key"]).ok();
    let trusted = ["--trusted-key", key.trim()];
    let unsigned = place.run(&[
        "unit",
        "inspect",
        "shop.unit.sqlite",
        "--trusted-key",
        &format!("ed25519:{}", "0".repeat(64)),
    ]);
    assert_eq!(unsigned.code, Some(15), "{}", unsigned.err);

    let plan =
        place.run(&["unit", "plan", "shop.unit.sqlite", "--sandbox", "--to", "staging", "-o", "json"]).ok();
    let plan: Value = serde_json::from_str(&plan).unwrap();
    assert_eq!(plan["apiVersion"], "ktl.dev/unit-plan/v1");
    assert_eq!(plan["images"][0]["new"], format!("ghcr.io/acme/shop:1.4@{DIGEST}"));

    let promote = [
        "unit",
        "promote",
        "shop.unit.sqlite",
        "--sandbox",
        "--to",
        "prod",
        "--overlay",
        "prod.yaml",
        "--soak",
        "0s",
        "-q",
    ];
    let early = place.run(&promote);
    assert_eq!(early.code, Some(15), "{}", early.err);
    assert!(early.err.contains("the unit is not verified in staging"), "{}", early.err);
    let apply = ["unit", "apply", "shop.unit.sqlite", "--sandbox", "--to", "staging", "--soak", "0s", "-q"];
    let applied = place.run(&[&apply[..], &trusted].concat());
    assert_eq!(applied.code, Some(0), "{}\n{}", applied.out, applied.err);
    assert!(applied.out.contains("digests"), "{}", applied.out);
    let again = place.run(&apply);
    assert!(again.err.contains("already applied (revision 1)"), "{}", again.err);
    let promoted = place.run(&promote);
    assert_eq!(promoted.code, Some(0), "{}\n{}", promoted.out, promoted.err);

    let replay = place.run(&["unit", "replay", "shop.unit.sqlite"]).ok();
    assert!(replay.contains("apply.finished succeeded"), "{replay}");
    let summary: Value =
        serde_json::from_str(&place.run(&["unit", "inspect", "shop.unit.sqlite", "-o", "json"]).ok())
            .unwrap();
    assert_eq!(summary["applies"].as_array().map(Vec::len), Some(2));
    place.run(&["unit", "export", "shop.unit.sqlite", "--format", "flux", "--to-dir", "gitops"]).ok();
    place.run(&["unit", "verify", "shop.unit.sqlite", "--gitops", "gitops", "--format", "flux"]).ok();
}

#[test]
fn what_is_no_unit_is_refused_with_its_reason() {
    let place = Place::new();
    place.write("text.unit.sqlite", "not a database");
    let ran = place.run(&["unit", "inspect", "text.unit.sqlite"]);
    assert_eq!(ran.code, Some(10), "{}", ran.err);
    assert!(ran.err.contains("is not a SQLite database"), "{}", ran.err);
}

/// A place with a chart of two images, a registry that has them, and a login for it.
fn with_registry() -> (Place, Store, String) {
    let (place, store) = (Place::new(), Store::default());
    let host = serve(&store);
    place.write("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
    place.write("shop/values.yaml", format!("image: {{repository: {host}/acme/shop, tag: '1.3'}}\n"));
    place.write(
        "shop/templates/pod.yaml",
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: shop}}\nspec:\n  containers:\n    \
             - {{name: shop, image: '{{{{ .Values.image.repository }}}}:{{{{ .Values.image.tag }}}}'}}\n    \
             - {{name: side, image: '{host}/lib/side:1'}}\n"
        ),
    );
    let platform = |architecture: &str, digit: &str| {
        json!({
            "digest": format!("sha256:{}", digit.repeat(64)), "size": 1,
            "platform": {"os": "linux", "architecture": architecture},
        })
    };
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [platform("amd64", "c"), platform("arm64", "d")],
    });
    let single = json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json"});
    let mut held = store.lock().unwrap();
    held.insert("/v2/acme/shop/manifests/1.4".to_owned(), index.to_string().into_bytes());
    held.insert("/v2/lib/side/manifests/1".to_owned(), single.to_string().into_bytes());
    drop(held);
    place.run(&["chart", "registry", "login", &host, "-u", "u", "-p", "p", "--plain-http"]).ok();
    (place, store, host)
}

#[test]
fn tags_are_looked_up_and_everything_else_is_pinned() {
    let (place, store, host) = with_registry();
    let image = format!("shop={host}/acme/shop:1.4");
    let words =
        ["unit", "bundle", "shop", "./shop", "--plain-http", "--image", &image, "-O", "shop.unit.sqlite"];
    let made = place.run(&[&words[..], &["--pin-all"]].concat()).ok();
    assert!(made.contains("Pod/shop[shop]") && made.contains("is pinned to"), "{made}");
    let summary = place.run(&["unit", "inspect", "shop.unit.sqlite", "-o", "json"]).ok();
    let summary: Value = serde_json::from_str(&summary).unwrap();
    let held = store.lock().unwrap();
    let expected = |name: &str, tag: &str| {
        let digest = digest_of(&held[&format!("/v2/{name}/manifests/{tag}")]);
        format!("{host}/{name}:{tag}@{digest}")
    };
    let images: Vec<&str> =
        summary["images"].as_array().unwrap().iter().map(|used| used["ref"].as_str().unwrap()).collect();
    assert_eq!(images, [expected("acme/shop", "1.4"), expected("lib/side", "1")]);
    drop(held);

    let unknown = format!("shop={host}/acme/shop:9");
    let ran =
        place.run(&["unit", "bundle", "shop", "./shop", "--plain-http", "--image", &unknown, "-O", "none"]);
    assert_ne!(ran.code, Some(0));
    assert!(ran.err.contains("acme/shop:9") && !place.path().join("none").exists(), "{}", ran.err);
}

#[test]
fn a_unit_goes_to_a_registry_and_comes_back() {
    let (place, store, host) = with_registry();
    let image = format!("shop={host}/acme/shop:1.4");
    let words =
        ["unit", "bundle", "shop", "./shop", "--plain-http", "--image", &image, "-O", "shop.unit.sqlite"];
    place.run(&words).ok();
    let reference = format!("oci://{host}/units/shop:1.4");
    let pushed = place.run(&["unit", "push", "shop.unit.sqlite", &reference, "--plain-http"]).ok();
    let path = "/v2/units/shop/manifests/1.4";
    let manifest = store.lock().unwrap()[path].clone();
    assert_eq!(pushed.trim(), format!("{host}/units/shop:1.4@{}", digest_of(&manifest)));
    let pull = |file: &str, more: &[&str]| {
        let words = ["unit", "pull", &reference, "--plain-http", "-O", file];
        place.run(&[&words[..], more].concat())
    };
    let unit = place.run(&["unit", "inspect", "shop.unit.sqlite", "-o", "json"]).ok();
    let unit: Value = serde_json::from_str(&unit).unwrap();
    assert_eq!(Some(pull("pulled.unit.sqlite", &[]).ok().trim()), unit["digest"].as_str());
    let read = |name: &str| std::fs::read(place.path().join(name)).unwrap();
    assert_eq!(read("pulled.unit.sqlite"), read("shop.unit.sqlite"));

    // Whatever is wrong with it, nothing is kept.
    let refused = |what: &str, more: &[&str]| {
        let ran = pull("refused.unit.sqlite", more);
        assert!(ran.code != Some(0) && ran.err.contains("error:"), "{what}: {}", ran.err);
        assert!(!place.path().join("refused.unit.sqlite").exists(), "{what}");
        assert!(!place.path().join("refused.unit.sqlite.tmp").exists(), "{what}");
    };
    refused("another digest is wanted", &["--expect-digest", &format!("sha256:{}", "0".repeat(64))]);
    refused("it is not signed", &["--trusted-key", &format!("ed25519:{}", "0".repeat(64))]);
    let layer = digest_of(&read("shop.unit.sqlite"));
    let blob = format!("/v2/units/shop/blobs/{layer}");
    let content = store.lock().unwrap().insert(blob.clone(), b"something else".to_vec()).unwrap();
    refused("the blob is another", &[]);
    store.lock().unwrap().insert(blob, content);
    let other =
        String::from_utf8(manifest.clone()).unwrap().replace("vnd.ktl.unit.v1\"", "vnd.ktl.other.v1\"");
    store.lock().unwrap().insert(path.to_owned(), other.into_bytes());
    refused("it is no unit", &[]);
    store.lock().unwrap().remove(path);
    refused("it is not there", &[]);
}

/// A colleague who has the file but not the ledger promotes it, since the cluster tells what was verified.
#[test]
fn a_cluster_is_asked_for_evidence_the_ledger_does_not_have() {
    let place = furnished();
    let _down = Down(&place);
    let image = format!("shop=ghcr.io/acme/shop:1.4@{DIGEST}");
    let bundle =
        ["unit", "bundle", "shop", "./shop", "-n", "shop", "--settings", "unit.yaml", "--image", &image];
    place.run(&[&bundle[..], &["-O", "mine"]].concat()).ok();
    std::fs::copy(place.path().join("mine"), place.path().join("copy")).unwrap();
    let promote = ["unit", "promote", "copy", "--sandbox", "--to", "prod", "--soak", "0s", "-q"];
    let early = place.run(&promote);
    assert_eq!(early.code, Some(15), "{}", early.err);
    let applied = place.run(&["unit", "apply", "mine", "--sandbox", "--to", "staging", "--soak", "0s", "-q"]);
    assert_eq!(applied.code, Some(0), "{}\n{}", applied.out, applied.err);
    let promoted = place.run(&promote);
    assert_eq!(promoted.code, Some(0), "{}\n{}", promoted.out, promoted.err);
}

/// Staging may take secrets from anywhere; production only from what its policies approve, whoever wrote them.
#[test]
fn a_promotion_takes_secrets_from_approved_providers_alone() {
    let place = furnished();
    let _down = Down(&place);
    let settings = std::fs::read_to_string(place.path().join("slipway.yaml")).unwrap();
    let with_policy = |policy: &str| {
        let providers =
            "providers: {local: {type: file, path: dev.yaml}, vault-dev: {type: file, path: dev.yaml}}";
        place.write("slipway.yaml", format!("{settings}secrets: {{{providers}, policy: {{{policy}}}}}\n"));
    };
    with_policy("");
    let rules = "rules: [{ id: approved, secrets: { approvedProviders: ['vault-*'] } }]";
    place
        .write("dev.yaml", "shop: {password: correct-horse}\n")
        .write("secrets.yaml", "database: {password: secret://local/shop#password}\n")
        .write(
            "approved.yaml",
            format!("apiVersion: ktl.dev/policy/v1\nmatch: {{ envs: [prod] }}\n{rules}\n"),
        );
    let image = format!("shop=ghcr.io/acme/shop:1.4@{DIGEST}");
    let bundle = |unit: &str, values: &str, more: &[&str]| {
        let words =
            ["unit", "bundle", "shop", "./shop", "-n", "shop", "--image", &image, "-f", values, "-O", unit];
        place.run(&[&words[..], more].concat()).ok();
        let apply = ["unit", "apply", unit, "--sandbox", "--to", "staging", "--soak", "0s", "-q"];
        let applied = place.run(&apply);
        assert_eq!(applied.code, Some(0), "{unit}: {}\n{}", applied.out, applied.err);
    };
    let promote = |unit: &str, more: &[&str]| {
        let words = ["unit", "promote", unit, "--sandbox", "--to", "prod", "--soak", "0s", "-q"];
        place.run(&[&words[..], more].concat())
    };
    bundle("plain", "secrets.yaml", &[]);
    bundle("sealed", "secrets.yaml", &["--env", "staging", "--policy", "approved.yaml"]);

    // The backend is gone: whoever asked it would fail for another reason.
    std::fs::remove_file(place.path().join("dev.yaml")).unwrap();
    let refused = |what: &str, unit: &str, more: &[&str], message: &str| {
        let ran = promote(unit, more);
        assert_eq!(ran.code, Some(15), "{what}: {}", ran.err);
        assert!(ran.err.contains(message) && ran.err.contains("secret://local/shop"), "{what}: {}", ran.err);
    };
    refused("by a policy of the run", "plain", &["--policy", "approved.yaml"], "rule `approved`");
    refused("by the sealed policy", "sealed", &[], "rule `approved`");
    with_policy("approvedProviders: [vault-dev]");
    refused("by the settings", "plain", &[], "denied by rule `approvedProviders`");
    with_policy("");
    let unreachable = promote("plain", &[]);
    assert_eq!(unreachable.code, Some(16), "{}", unreachable.err);
    let listed = place.run(&["list", "--sandbox", "-n", "shop", "-o", "json"]).ok();
    assert_eq!(listed, "[]\n", "nothing of production was written");

    place
        .write("dev.yaml", "shop: {password: correct-horse}\n")
        .write("secrets.yaml", "database: {password: secret://vault-dev/shop#password}\n");
    bundle("approved", "secrets.yaml", &["--env", "staging", "--policy", "approved.yaml"]);
    with_policy("approvedProviders: [vault-dev]");
    let promoted = promote("approved", &["--policy", "approved.yaml"]);
    assert_eq!(promoted.code, Some(0), "{}\n{}", promoted.out, promoted.err);
}
