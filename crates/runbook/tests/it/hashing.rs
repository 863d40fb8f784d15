//! The same input gives the same digest, however it is written.

use std::path::Path;

use slipway_event::Redactor;
use slipway_runbook::hash::Credentials;
use slipway_runbook::{LoadOptions, Variables, hash, load};

fn digest_in(step: &str, base: &Path) -> Option<String> {
    digest_with(step, base, Credentials::Counted)
}

fn digest_with(step: &str, base: &Path, credentials: Credentials) -> Option<String> {
    let source = format!("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: a}}\nsteps:\n{step}");
    let loaded = load("f.yaml", &source, &Variables::default(), LoadOptions::default(), &Redactor::new());
    let loaded = loaded.unwrap_or_else(|found| panic!("{step}: {}", found.into_problems()));
    hash::input(&loaded.document.steps[0], base, credentials)
}

fn digest(step: &str) -> String {
    digest_in(step, Path::new(".")).expect("no files")
}

#[test]
fn vectors() {
    assert_eq!(
        digest("  - {name: a, wait: {for: condition=Ready, on: pods, allNamespaces: true}}\n"),
        "sha256:97dac1d5bab0acd3ab27bee63aefe78b977aea1706520732b27b3b75a9852362"
    );
    assert_eq!(
        digest(
            "  - name: a\n    helm: {chart: cilium, repo: 'https://helm.cilium.io/', version: 1.18.4, values: {a: 1.5, replicas: 2.0, hubble: {enabled: true}, é: x}}\n"
        ),
        "sha256:2260067e8ffae22fcfff011566bc85a69294763e7bf7f5cfb6525df9d32fc43d"
    );
    let place = tempfile::tempdir().expect("a directory");
    std::fs::write(place.path().join("cm.yaml"), "a: 1\n").expect("written");
    let apply = "  - {name: a, apply: {manifests: [{file: ./cm.yaml}]}}\n";
    assert_eq!(
        digest_in(apply, place.path()).as_deref(),
        Some("sha256:6badc8d53e39bb18fe141df962125b35f8f37684ad0e44379d2ec1e21eb64c42")
    );
    assert_eq!(digest_in("  - {name: a, apply: {manifests: [{file: ./no.yaml}]}}\n", place.path()), None);
    // The digest of the specification's directory, inside that of the step.
    std::fs::create_dir(place.path().join("k")).expect("made");
    std::fs::write(place.path().join("k/a.yaml"), "a: 1\n").expect("written");
    std::fs::write(place.path().join("k/kustomization.yaml"), "resources: [a.yaml]\n").expect("written");
    assert_eq!(
        digest_in("  - {name: a, apply: {manifests: [{kustomize: ./k}]}}\n", place.path()).as_deref(),
        Some("sha256:608548372d2548745eb2f1de6d0566b3cb79c213b345200b4c54865c310f4968")
    );
}

#[test]
fn how_it_is_written_does_not_count() {
    let same = [
        "  - {name: a, apply: {manifests: [{inline: 'x: 1'}], namespace: n}}\n",
        "  - {name: b, timeout: 1m, apply: {namespace: \"n\", serverSide: false, skipIf: , manifests: [{inline: \"x: 1\"}]}}\n",
        "  - name: a # comment\n    apply:\n      manifests:\n      - inline: 'x: 1'\n      namespace: n\n      createNamespace: false\n",
    ];
    assert_eq!(digest(same[0]), digest(same[1]));
    assert_eq!(digest(same[0]), digest(same[2]));
    let different = [
        "  - {name: a, apply: {manifests: [{inline: 'x:  1'}], namespace: n}}\n",
        "  - {name: a, apply: {manifests: [{inline: 'x: 1'}], namespace: n, serverSide: true}}\n",
        "  - {name: a, apply: {manifests: [{inline: 'x: 1'}, {inline: 'y: 1'}], namespace: n}}\n",
    ];
    for step in different {
        assert_ne!(digest(same[0]), digest(step), "{step}");
    }
}

#[test]
fn bases_of_a_kustomization_count() {
    let place = tempfile::tempdir().expect("a directory");
    let write = |path: &str, text: &str| {
        let file = place.path().join(path);
        std::fs::create_dir_all(file.parent().expect("inside")).expect("made");
        std::fs::write(file, text).expect("written");
    };
    let base = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n";
    write("base/kustomization.yaml", "resources: [cm.yaml]\n");
    write("base/cm.yaml", base);
    write("base/unread.txt", "x");
    write("over/kustomization.yaml", "resources: [../base]\n");
    let step = "  - {name: a, apply: {manifests: [{kustomize: ./over}]}}\n";
    let first = digest_in(step, place.path());
    assert!(first.is_some());
    write("base/unread.txt", "y");
    assert_eq!(digest_in(step, place.path()), first);
    write("base/cm.yaml", &format!("{base}data: {{a: b}}\n"));
    assert_ne!(digest_in(step, place.path()), first);
}

#[test]
fn credentials_count_unless_they_are_said_not_to() {
    let step =
        |source: &str, password: &str| format!("  - {{name: a, {}}}\n", source.replace("PASSWORD", password));
    for source in [
        "helm: {chart: c, repo: 'https://x.example', version: '1', auth: {username: u, password: PASSWORD}}",
        "helm: {chart: c, repo: 'https://u:PASSWORD@x.example/charts', version: '1'}",
        "helm: {chart: 'oci://u:PASSWORD@x.example/c:1'}",
        "helm: {chart: ./c, valuesFrom: [{url: 'https://u:PASSWORD@x.example/v'}]}",
        "apply: {manifests: [{url: 'https://u:PASSWORD@x.example/m'}]}",
    ] {
        let of = |password, credentials| {
            let place = tempfile::tempdir().expect("a directory");
            std::fs::create_dir(place.path().join("c")).expect("made");
            digest_with(&step(source, password), place.path(), credentials).expect("is readable")
        };
        assert_ne!(of("old", Credentials::Counted), of("new", Credentials::Counted), "{source}");
        assert_eq!(of("old", Credentials::Ignored), of("new", Credentials::Ignored), "{source}");
    }
    // What a chart or an object is given is not a credential of its source.
    for source in [
        "helm: {chart: c, repo: 'https://x.example', version: '1', values: {auth: PASSWORD, repo: 'https://u:PASSWORD@x'}}",
        "apply: {manifests: [{inline: 'auth: PASSWORD'}]}",
        "patch: {target: cm/a, patch: {data: {url: 'https://u:PASSWORD@x'}}}",
    ] {
        let of = |password| digest_with(&step(source, password), Path::new("."), Credentials::Ignored);
        assert_ne!(of("old"), of("new"), "{source}");
    }
    // Nothing changes for steps without credentials.
    let plain = "  - {name: a, wait: {for: condition=Ready, on: pods, allNamespaces: true}}\n";
    assert_eq!(digest_with(plain, Path::new("."), Credentials::Ignored).as_deref(), Some(&*digest(plain)));
}

#[test]
fn saying_the_default_release_leaves_a_step_done() {
    let plain = digest("  - {name: web, helm: {chart: x, version: '1', repo: 'https://x'}}\n");
    let said = digest("  - {name: web, helm: {chart: x, version: '1', repo: 'https://x', release: web}}\n");
    let other = digest("  - {name: web, helm: {chart: x, version: '1', repo: 'https://x', release: api}}\n");
    assert_eq!(plain, said);
    assert_ne!(plain, other);
}
