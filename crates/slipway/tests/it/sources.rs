//! Rendering and changing charts, packages and kustomizations from the command line.

use std::path::PathBuf;

use crate::support::Place;

fn example(name: &str) -> String {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    root.join(name).canonicalize().unwrap().display().to_string()
}

#[test]
fn the_kind_of_source_is_told_by_what_is_there() {
    let place = Place::new();
    for (source, sign) in [
        ("charts/shop", "# Source: shop/templates/web.yaml"),
        ("packages/demo.kurel", "app.kubernetes.io/version: \"3.1\""),
        ("kustomize/shop/production", "name: prod-web"),
    ] {
        let text = place.run(&["render", &example(source)]).ok();
        assert!(text.contains(sign), "{source}: {text}");
    }
}

#[test]
fn a_field_is_traced_to_its_value() {
    let place = Place::new();
    let args = [
        "render",
        "demo",
        &example("charts/shop"),
        "--explain",
        "Deployment:spec.replicas",
        "--set",
        "replicas=4",
    ];
    let told = place.run(&args).ok();
    assert!(told.contains("Deployment/demo-web spec.replicas = 4"), "{told}");
    assert!(told.contains("templates/web.yaml:8") && told.contains("--set"), "{told}");
    let ran = place.run(&["render", &example("charts/shop"), "--explain", "Deployment:spec.nothing"]);
    assert!(ran.code == Some(1) && ran.err.contains("hint:"), "{}", ran.err);
}

#[test]
fn a_chart_fails_with_helms_own_words() {
    let place = Place::new();
    let ran = place.run(&["render", &example("charts/shop"), "--set", "replicas=many"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""));
    assert!(ran.err.contains("- replicas: Invalid type. Expected: integer, given: string"), "{}", ran.err);
}

#[test]
fn templates_go_to_files_and_through_filters() {
    let place = Place::new();
    let shop = example("charts/shop");
    place.run(&["render", "demo", &shop, "--output-dir", "out"]).ok();
    let web = std::fs::read_to_string(place.path().join("out/shop/templates/web.yaml")).unwrap();
    assert!(web.contains("kind: Deployment") && web.contains("kind: Service"), "{web}");
    let filtered = place.run(&["render", "demo", &shop, "--post-renderer", "cat", "--no-hooks"]).ok();
    assert_eq!(filtered, place.run(&["render", "demo", &shop, "--no-hooks"]).ok());
}

#[test]
fn a_new_chart_lints_packs_and_renders() {
    let place = Place::new();
    place.run(&["chart", "create", "web"]).ok();
    assert!(place.run(&["lint", "web"]).ok().contains("1 chart(s) linted, 0 chart(s) failed"));
    place.run(&["chart", "package", "web"]).ok();
    let archive = place.run(&["render", "demo", "web-0.1.0.tgz"]).ok();
    assert_eq!(archive, place.run(&["render", "demo", "web"]).ok());
    assert_eq!(place.run(&["chart", "create", "web"]).code, Some(1), "nothing is overwritten");
}

#[test]
fn an_image_is_set_and_comments_stay() {
    let place = Place::new();
    let text = "images:\n# pinned by hand\n- name: nginx # the web server\n  newTag: \"1.26\"\n";
    place.write("kustomization.yaml", text);
    let shown = place.run(&["kustomize", "edit", "set", "image", "nginx:1.27", "--dry-run"]).ok();
    assert!(shown.contains("+  newTag: \"1.27\""), "{shown}");
    let path = place.path().join("kustomization.yaml");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "a dry run writes nothing");
    place.run(&["kustomize", "edit", "set", "image", "nginx:1.27"]).ok();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text.replace("1.26", "1.27"));
}

#[test]
fn a_package_is_started_built_tested_and_explained() {
    let place = Place::new();
    place.run(&["package", "init", "web"]).ok();
    place.run(&["package", "validate", "web.kurel"]).ok();
    place.run(&["package", "build", "web.kurel", "--output-dir", "out"]).ok();
    assert!(place.path().join("out/.kurel-manifest.json").is_file());
    let demo = example("packages/demo.kurel");
    assert!(place.run(&["package", "test", &demo]).ok().contains("1 passed, 0 failed"));
    let told = place.run(&["package", "explain", &demo, "Deployment/apps/demo.spec.replicas"]).ok();
    assert!(told.contains("parameters.yaml:"), "{told}");
    assert!(place.run(&["package", "schema", &demo]).ok().contains("json-schema.org/draft-07"));
}
