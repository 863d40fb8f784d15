//! A source is read once, whatever it is, and rendered as often as wanted.

use std::path::Path;

use slipway_chart::UserValues;
use slipway_source::{DefaultValues, LoadContext, LoadError, RecordPart, SourceRequest};

use crate::support::{ABOUT, folder, level, load, render, set, template, write};

const MAP: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\ndata:\n  level: low\n";

/// A source of some kind: its files, what the user sets, and what comes of it.
struct Case<'c> {
    name: &'c str,
    files: Vec<(&'c str, &'c str)>,
    set: Option<&'c str>,
    level: &'c str,
    version: &'c str,
}

#[test]
fn what_was_loaded_is_rendered_without_its_files() {
    let chart = template(".Values.level");
    let package = "kurel:\n  name: demo\n  version: 1.0.0\n  appVersion: \"1\"\nlevel: low\n";
    let patch = "[configmap.settings]\ndata.level: \"${level}\"\n";
    let plain = |name, files| Case { name, files, set: None, level: "low", version: "0.0.0" };
    let valued = |name, files| Case { name, files, set: Some("level=high"), level: "high", version: "1.0.0" };
    for case in [
        valued(
            "demo",
            vec![("Chart.yaml", ABOUT), ("values.yaml", "level: low\n"), ("templates/a.yaml", &chart)],
        ),
        valued(
            "demo.kurel",
            vec![("parameters.yaml", package), ("resources/a.yaml", MAP), ("patches/00.kpatch", patch)],
        ),
        plain("over", vec![("kustomization.yaml", "resources: [a.yaml]\n"), ("a.yaml", MAP)]),
        plain("plain", vec![("a.yaml", MAP)]),
    ] {
        let (place, name) = (folder(&[]), case.name);
        case.files.iter().for_each(|(file, text)| write(place.path(), &format!("{name}/{file}"), text));
        let values = case.set.map_or_else(UserValues::default, set);
        let request = SourceRequest { values, ..SourceRequest::default() };
        let loaded = load(&place.path().join(name), request, &LoadContext::default()).expect("loads");
        drop(place);
        let (first, second) = (render(&loaded), render(&loaded));
        assert_eq!(level(&first), case.level, "{name}");
        assert_eq!(first.documents[0].object, second.documents[0].object, "{name}");
        assert_eq!(first.documents[0].stored, RecordPart::Regular, "{name}");
        assert_eq!(first.metadata["version"], case.version, "{name}");
        assert_eq!(first.values.contains_key("level"), case.set.is_some(), "{name}: values are recorded");
    }
}

#[test]
fn a_chart_is_changed_as_its_user_asks() {
    let place = folder(&[
        ("demo/Chart.yaml", &format!("{ABOUT}appVersion: \"1\"\ndeprecated: true\n")),
        ("demo/values.yaml", "level: low\n"),
        (
            "demo/templates/a.yaml",
            &template("printf \"%s %s\" .Chart.AppVersion (.Values.level | default \"none\")"),
        ),
    ]);
    let request = SourceRequest {
        app_version: Some("2".into()),
        default_values: DefaultValues::LeaveOut,
        ..SourceRequest::default()
    };
    let loaded = load(&place.path().join("demo"), request, &LoadContext::default()).expect("loads");
    let rendered = render(&loaded);
    assert_eq!(level(&rendered), "2 none");
    assert_eq!(rendered.metadata["appVersion"], "2");
    assert!(rendered.default_values.is_empty());
    assert!(rendered.warnings.to_string().contains("chart `demo` is deprecated"), "{}", rendered.warnings);
}

#[test]
fn every_unreadable_manifest_is_a_problem_with_its_place() {
    let place = folder(&[("plain/a.yaml", "a: [\n"), ("plain/b.yaml", "b: }\n"), ("plain/c.yaml", MAP)]);
    let error = load(&place.path().join("plain"), SourceRequest::default(), &LoadContext::default());
    let Err(LoadError::Problems(problems)) = error else { panic!("{error:?}") };
    let told = problems.to_string();
    assert_eq!(problems.len(), 2, "{told}");
    assert!(told.contains("plain/a.yaml: ") && told.contains("plain/b.yaml: "), "{told}");
}

fn packed(place: &Path) -> (std::path::PathBuf, String) {
    let chart = slipway_chart::Chart::load(&*place.join("demo"), &slipway_chart::LoadOptions::default());
    let package = slipway_chart::package_chart(&chart.expect("loads"), &Default::default()).expect("packs");
    let path = place.join("demo-1.0.0.tgz");
    std::fs::write(&path, &package.bytes).expect("writes");
    let digest = slipway_journal::digest::bytes(&package.bytes);
    (path, digest)
}

#[test]
fn an_archive_is_used_only_with_the_digest_that_was_planned() {
    let place = folder(&[("demo/Chart.yaml", ABOUT), ("demo/templates/a.yaml", &template("\"packed\""))]);
    let (path, digest) = packed(place.path());
    let with = |digest: &str| SourceRequest { digest: Some(digest.into()), ..SourceRequest::default() };
    let loaded = load(&path, with(&digest), &LoadContext::default()).expect("is the one");
    assert_eq!(level(&render(&loaded)), "packed");
    let error = load(&path, with("sha256:00"), &LoadContext::default()).expect_err("is another");
    assert!(matches!(&error, LoadError::Digest { digest, .. } if digest == "sha256:00"), "{error:?}");
}
