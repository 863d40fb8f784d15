//! Packages and kustomizations: their languages, and whole builds of them.

use std::fs;
use std::path::PathBuf;

use slipway_kustomize::edit;
use slipway_package::template::{Template, parse_path};
use slipway_package::{
    BuildInputs, EmitOptions, LoadOptions, Package, PackageFiles, SetKind, SetValue, ValuesFile, kpatch,
};
use slipway_problem::Problems;

const IDENTITY: &str = "kurel: {name: p, version: 1.0.0, appVersion: \"1\"}\n";
const PARAMETERS: &str = "replicas: 2\nimage: {repo: a, tag: \"1\"}\nlabels: {a: b}\nname: app\non: true\n\
    full: \"${image.repo}:${image.tag}\"\nlist: [{name: x, v: 1}, {name: y}]\n";
const MANIFESTS: &str = "\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: apps}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: app, image: 'app:1', env: [{name: PORT, value: '0'}], ports: [{containerPort: 80}]}
      - {name: sidecar, image: 'side:1'}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: apps}
spec: {selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: example.com/v1
kind: Thing
metadata: {name: thing}
spec: {list: [1, a, {b: null}]}
";

/// Builds, explains and writes a package every way there is.
fn build(files: Vec<(&str, String)>, inputs: &BuildInputs) {
    let files = PackageFiles::of(files.into_iter().map(|(path, text)| (path.to_owned(), text)));
    let package = Package::from_files(files, None, &LoadOptions::default());
    let _ = package.validate(inputs);
    let _ = package.schema().map(|(schema, _)| schema.to_text());
    if let Ok(built) = package.build(inputs) {
        let _ = built.stream(EmitOptions::default());
        let _ = built.argo(None, EmitOptions::default());
        let _ = built.explain("Deployment/apps/web.spec.replicas");
        let _ = built.contention();
    }
}

fn with_patch(patch: &str) -> Vec<(&'static str, String)> {
    vec![
        ("parameters.yaml", format!("{IDENTITY}{PARAMETERS}")),
        ("resources/all.yaml", MANIFESTS.to_owned()),
        ("patches/00.kpatch", patch.to_owned()),
    ]
}

/// The patch language: its own parser and every piece of it.
pub(crate) fn kpatch(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = kpatch::parse("p.kpatch", &text, &mut Problems::new());
    let _ = kpatch::parse_keypath(&text);
    let _ = kpatch::parse_target(&text);
}

/// A path evaluated on objects, with whatever value follows it.
pub(crate) fn keypath(input: &[u8]) {
    let text = String::from_utf8_lossy(input).replace(['\n', '\r'], " ");
    for header in ["[deployment.web]", "[*]", "[deployment.*.spec.template.spec.containers.*]", "[*.thing]?"]
    {
        build(with_patch(&format!("{header}\n{text}\n")), &BuildInputs::default());
    }
}

/// References in parameters, in values and in `--set`.
pub(crate) fn variables(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = parse_path(&text);
    let _ = Template::parse(&text);
    let patch = "[deployment.web]\nspec.replicas: \"${a}\"\nmetadata.annotations.x: \"${b.c}-${d[0].e}\"\n";
    let files = |parameters: &str| {
        let mut files = with_patch(patch);
        files[0].1 = format!("{IDENTITY}{parameters}");
        files
    };
    build(files(&text), &BuildInputs::default());
    let values = ValuesFile { name: "values.yaml".to_owned(), text: text.clone().into_owned() };
    let kinds = [SetKind::Yaml, SetKind::Text, SetKind::Json];
    let sets = kinds.map(|kind| SetValue { kind, text: text.clone().into_owned() });
    build(
        files("a: 1\n"),
        &BuildInputs { values: vec![values], sets: sets.to_vec(), ..BuildInputs::default() },
    );
}

/// A whole package: the input's parts become its files.
pub(crate) fn package(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let mut parts = text.split("=====\n").map(str::to_owned);
    let names = [
        "parameters.yaml",
        "resources/all.yaml",
        "patches/00.kpatch",
        "patches/00.yaml",
        "patches/10.kpatch",
    ];
    let mut files: Vec<_> = names.into_iter().map_while(|name| Some((name, parts.next()?))).collect();
    if let Some((_, parameters)) = files.first_mut() {
        parameters.insert_str(0, IDENTITY);
    }
    build(files, &BuildInputs::default());
}

/// A kustomization, built from a directory and edited in memory.
pub(crate) fn kustomization(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let _ = edit::set_namespace(&text, "kustomization.yaml", "n");
    let _ = edit::add_resource(&text, "kustomization.yaml", "r.yaml");
    for image in ["nginx:2", "a=b@sha256:0", &text] {
        if let Ok(image) = edit::ImageEdit::parse(image) {
            let _ = edit::set_image(&text, "kustomization.yaml", &image);
        }
    }
    let directory = scratch();
    let written = fs::create_dir_all(&directory)
        .and_then(|()| fs::write(directory.join("kustomization.yaml"), input))
        .and_then(|()| fs::write(directory.join("all.yaml"), MANIFESTS));
    let options = slipway_kustomize::BuildOptions {
        within: Some(directory.clone()),
        ..slipway_kustomize::BuildOptions::default()
    };
    if written.is_ok()
        && let Ok(built) = slipway_kustomize::build(&directory, &options)
    {
        let _ = built.to_yaml();
    }
}

/// A directory of this process and thread.
fn scratch() -> PathBuf {
    let name = format!("slipway-fuzz-{}-{:?}", std::process::id(), std::thread::current().id());
    std::env::temp_dir().join(name)
}
