//! What is written: streams, directories, Flux and Argo CD.

use std::collections::BTreeMap;

use serde_json::Value as Json;
use slipway_package::{
    ArgoApp, EmitOptions, FileLayout, FluxOptions, ForeignFiles, InstallPhase, OutFile, plan_directory,
};

use crate::support::{Kit, field, warnings};

fn phased() -> Kit {
    Kit::web("").patch(
        "00",
        "[namespace.apps]\nmetadata.annotations[\"kurel.gokure.dev/install-phase\"]: \"pre-install\"\n\
         [service.web]\nmetadata.annotations[\"kurel.gokure.dev/install-phase\"]: post-install\n",
    )
}

fn paths(files: &[OutFile]) -> Vec<&str> {
    files.iter().map(|file| file.path.as_str()).collect()
}

/// Scenario A-09 of the specification.
#[test]
fn an_annotation_moves_an_object_to_its_phase() {
    let build = phased().built();
    assert_eq!(
        paths(&build.files(FileLayout::Phases, EmitOptions::default())),
        [
            "main/deployments.yaml",
            "main/kustomization.yaml",
            "post-install/kustomization.yaml",
            "post-install/services.yaml",
            "pre-install/kustomization.yaml",
            "pre-install/namespaces.yaml",
        ]
    );
    let text = &build.phases(EmitOptions::default())[1].text;
    assert_eq!(
        text,
        "# comes after pre-install\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n- deployments.yaml\n"
    );
    let mut auto = Kit::web("");
    auto.inputs.auto_phase = true;
    assert_eq!(auto.built().used_phases(), [InstallPhase::PreInstall, InstallPhase::Main]);
}

#[test]
fn layouts_hold_the_same_objects() {
    let build = phased().built();
    let documents = |files: &[OutFile]| -> Vec<String> {
        let mut all: Vec<String> = files
            .iter()
            .filter(|file| !file.path.ends_with("kustomization.yaml"))
            .flat_map(|file| file.text.split("---\n").map(str::to_owned).collect::<Vec<_>>())
            .collect();
        all.sort();
        all
    };
    let stream = documents(&[OutFile { path: "x".to_owned(), text: build.stream(EmitOptions::default()) }]);
    for layout in [FileLayout::Flat, FileLayout::Phases, FileLayout::ByKind, FileLayout::ByResource] {
        assert_eq!(documents(&build.files(layout, EmitOptions::default())), stream, "{layout:?}");
    }
    assert_eq!(
        paths(&build.files(FileLayout::ByResource, EmitOptions::default())),
        ["deployment-apps-web.yaml", "namespace-apps.yaml", "service-apps-web.yaml"]
    );
    let list: Json = serde_json::from_str(&build.json_list()).unwrap();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(3));
}

/// Scenario A-31 of the specification.
#[test]
fn a_directory_is_rewritten_without_touching_what_is_not_ours() {
    let kit = phased();
    let build = kit.built();
    let files = build.phases(EmitOptions::default());
    let mut disk: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let first = plan_directory(&build, &files, &disk, ForeignFiles::Refused).unwrap();
    assert_eq!(first.write.len(), files.len() + 1);
    for file in first.write {
        disk.insert(file.path, file.text.into_bytes());
    }
    disk.insert("notes.txt".to_owned(), b"mine".to_vec());
    let again = plan_directory(&build, &files, &disk, ForeignFiles::Refused).unwrap();
    assert_eq!((again.write.len(), again.delete.len()), (0, 0), "nothing to do");
    let smaller = kit.patch("10", "[service.web]\nenabled: false\n").built();
    let plan =
        plan_directory(&smaller, &smaller.phases(EmitOptions::default()), &disk, ForeignFiles::Refused)
            .unwrap();
    assert_eq!(plan.delete, ["post-install/kustomization.yaml", "post-install/services.yaml"]);
    let foreign = BTreeMap::from([("notes.txt".to_owned(), b"mine".to_vec())]);
    assert_eq!(
        plan_directory(&build, &files, &foreign, ForeignFiles::Refused).unwrap_err().code.as_deref(),
        Some("KO001")
    );
    assert!(plan_directory(&build, &files, &foreign, ForeignFiles::Kept).is_ok());
}

fn read(files: &[OutFile], path: &str) -> Json {
    let file = files
        .iter()
        .find(|file| file.path == path)
        .unwrap_or_else(|| panic!("no {path} in {:?}", paths(files)));
    slipway_yaml::parse_one(&file.text, path).unwrap().to_json()
}

/// Scenario A-33 of the specification.
#[test]
fn flux_waits_phase_by_phase() {
    let options =
        FluxOptions { source: Some("GitRepository/flux-system".to_owned()), ..FluxOptions::default() };
    let files = phased().built().flux(&options, EmitOptions::default()).unwrap();
    let pre = read(&files, "flux/p-pre-install.yaml");
    let main = read(&files, "flux/p-main.yaml");
    let post = read(&files, "flux/p-post-install.yaml");
    assert_eq!((&pre["spec"]["dependsOn"], &pre["spec"]["wait"]), (&Json::Null, &Json::Bool(true)));
    assert_eq!(main["spec"]["dependsOn"][0]["name"], "p-pre-install");
    assert_eq!(main["spec"]["path"], "./p/main");
    assert_eq!(post["spec"]["dependsOn"][0]["name"], "p-main");
    assert!(post["spec"].get("wait").is_none(), "nothing comes after");
    assert_eq!(read(&files, "flux/kustomization.yaml")["resources"].as_array().map(Vec::len), Some(3));

    let waiting = Kit::web("").patch(
        "00",
        "[deployment.web]\nmetadata.annotations: {kurel.gokure.dev/wait-for-ready: \"true\", kurel.gokure.dev/timeout: 5m}\n\
         [service.web]\nmetadata.annotations[\"kurel.gokure.dev/install-phase\"]: post-install\n",
    );
    let files = waiting.built().flux(&options, EmitOptions::default()).unwrap();
    let main = read(&files, "flux/p-main.yaml");
    assert_eq!(
        main["spec"]["healthChecks"],
        serde_json::json!([{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "apps"}])
    );
    assert_eq!((&main["spec"]["timeout"], main["spec"].get("wait")), (&Json::from("5m"), None));
    assert_eq!(
        read(&files, "flux/p-post-install.yaml")["spec"]["dependsOn"][0]["name"],
        "p-main",
        "an empty phase is skipped"
    );
    let none = phased().built().flux(&FluxOptions::default(), EmitOptions::default()).unwrap_err();
    assert_eq!(none.iter().next().and_then(|problem| problem.code.as_deref()), Some("KO010"));
}

/// Scenario A-34 of the specification.
#[test]
fn argo_gets_sync_waves() {
    const WAVE: &str = "/metadata/annotations/argocd.argoproj.io~1sync-wave";
    let (build, problems) = phased().built().with_waves();
    assert!(problems.is_empty());
    assert_eq!(field(&build, "Namespace", WAVE), "-10");
    assert_eq!(field(&build, "Deployment", WAVE), Json::Null);
    assert_eq!(field(&build, "Service", WAVE), "10");
    let own = phased()
        .patch("10", "[service.web]\nmetadata.annotations[\"argocd.argoproj.io/sync-wave\"]: \"-3\"\n");
    let (build, problems) = own.built().with_waves();
    assert_eq!(field(&build, "Service", WAVE), "-3");
    assert_eq!(warnings(&problems), ["KO011"]);
    let fitting = phased()
        .patch("10", "[service.web]\nmetadata.annotations[\"argocd.argoproj.io/sync-wave\"]: \"25\"\n");
    let (build, problems) = fitting.built().with_waves();
    assert_eq!((field(&build, "Service", WAVE), problems.len()), (Json::from("25"), 0), "kept");
    let app = ArgoApp::parse("https://example.com/r.git, apps/p").unwrap();
    let (files, _) = phased().built().argo(Some(&app), EmitOptions::default());
    assert_eq!(read(&files, "argocd/p.yaml")["spec"]["source"]["targetRevision"], "HEAD");
}

#[test]
fn objects_come_in_install_order_with_usual_keys() {
    let secret =
        "kind: Secret\nmetadata: {labels: {b: c}, namespace: apps, name: s}\ntype: Opaque\napiVersion: v1\n";
    let stream = Kit::web("").file("resources/a.yaml", secret).stream();
    let kinds: Vec<&str> = stream.lines().filter_map(|line| line.strip_prefix("kind: ")).collect();
    assert_eq!(kinds, ["Namespace", "Secret", "Service", "Deployment"]);
    assert!(stream.contains("apiVersion: v1\nkind: Secret\nmetadata:\n  name: s\n  namespace: apps\n  labels:\n    b: c\ntype: Opaque\n"));
    assert!(!stream.starts_with("---") && stream.ends_with('\n'));
}
