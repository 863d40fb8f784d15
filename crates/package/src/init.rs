//! New packages: an empty scaffold, or existing manifests taken in.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json, json};
use slipway_manifest::ObjectId;
use slipway_manifest::object::expand_lists;
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{YamlEmitter, YamlNode, YamlReader};

use crate::files::PackageFiles;
use crate::output::{OutFile, order_keys};
use crate::package::{EXPORTED_SCHEMA, LoadOptions, Package};
use crate::report::{coded_error, object_codes, with_code};
use crate::schema::KindTypes;

/// The files of a new package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PackageScaffold {
    /// The directory: `web.kurel`.
    pub directory: String,
    pub files: Vec<OutFile>,
}

/// Checks that a name can be a package's.
fn check_name(name: &str) -> Result<(), Problem> {
    slipway_manifest::names::check_label_1123(name)
        .map_err(|why| coded_error("KV008", format!("`{name}` is no package name: {}", why.join("; "))))
}

/// A package with one Deployment and one Service to start from.
pub fn scaffold(name: &str) -> Result<PackageScaffold, Problem> {
    check_name(name)?;
    let file = |path: &str, text: String| OutFile { path: path.to_owned(), text };
    Ok(with_schema(PackageScaffold {
        directory: format!("{name}.kurel"),
        files: vec![
            file("README.md", format!("# {name}\n\nBuild it with `slipway package build {name}.kurel`.\n")),
            file(
                "parameters.yaml",
                format!(
                    "kurel:\n  name: {name}\n  version: 0.1.0\n  appVersion: \"1.0.0\"\n\nglobal:\n  labels:\n    app.kubernetes.io/name: \"${{kurel.name}}\"\n    app.kubernetes.io/version: \"${{kurel.appVersion}}\"\n\nreplicas: 1\nimage:\n  repository: nginx\n  tag: \"1.27\"\n"
                ),
            ),
            file(
                "patches/00-base.kpatch",
                format!(
                    "# Every object.\nmetadata.labels: \"${{global.labels}}\"\n\n[deployment.{name}]\nspec.replicas: \"${{replicas}}\"\n\n[deployment.{name}.spec.template.spec.containers[name=app]]\nimage: \"${{image.repository}}:${{image.tag}}\"\n"
                ),
            ),
            file(
                "resources/deployment.yaml",
                format!(
                    "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\nspec:\n  replicas: 1\n  selector:\n    matchLabels:\n      app: {name}\n  template:\n    metadata:\n      labels:\n        app: {name}\n    spec:\n      containers:\n      - name: app\n        image: nginx\n        ports:\n        - name: http\n          containerPort: 80\n"
                ),
            ),
            file(
                "resources/service.yaml",
                format!(
                    "apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  selector:\n    app: {name}\n  ports:\n  - name: http\n    port: 80\n    targetPort: http\n"
                ),
            ),
            file(
                "tests/defaults.yaml",
                format!(
                    "name: defaults\nexpect:\n  count: 2\n  fields:\n    Deployment/{name} spec.replicas: 1\n"
                ),
            ),
        ],
    }))
}

/// The package with the schema of its parameters, which their first line names for editors.
fn with_schema(scaffold: PackageScaffold) -> PackageScaffold {
    let mut naming = scaffold.clone();
    let Some(parameters) = naming.files.iter_mut().find(|file| file.path == "parameters.yaml") else {
        return scaffold;
    };
    // First, because the schema holds the hash of the parameters as they stand.
    parameters.text.insert_str(0, &format!("# yaml-language-server: $schema={EXPORTED_SCHEMA}\n"));
    let files = naming.files.iter().map(|file| (file.path.clone(), file.text.clone()));
    let package = Package::from_files(PackageFiles::of(files), None, &LoadOptions::default());
    // A package of manifests that contradict each other has none yet; building it says why.
    let Ok((schema, _)) = package.schema() else { return scaffold };
    naming.files.push(OutFile { path: EXPORTED_SCHEMA.to_owned(), text: schema.to_text() });
    naming
}

/// A package of existing manifests (name and text of each file): one file per kind, parameters for what
/// people change, and a patch that puts them in. Building it gives the same objects back.
pub fn import(name: &str, manifests: &[(String, String)]) -> Result<PackageScaffold, Problems> {
    check_name(name)?;
    let mut problems = Problems::new();
    let mut objects: Vec<Json> = Vec::new();
    for (file, text) in manifests {
        match YamlReader::new().codes(object_codes()).max_depth(100).max_nodes(1_000_000).read(text, file) {
            Ok(documents) => {
                let read: Vec<Json> =
                    documents.iter().filter(|node| !node.is_null()).map(YamlNode::to_json).collect();
                for object in expand_lists(read) {
                    let id = ObjectId::of(&object);
                    if id.kind.is_empty() || id.name.is_empty() {
                        problems.push(
                            coded_error("KR003", "an object without kind or name")
                                .at(Location::file(&**file)),
                        );
                    } else {
                        objects.push(object);
                    }
                }
            }
            Err(found) => problems.extend(with_code(found, "KR002")),
        }
    }
    if objects.is_empty() && problems.is_empty() {
        problems.push(coded_error("KR001", "there are no objects to take in"));
    }
    if problems.has_errors() {
        return Err(problems);
    }
    let mut kinds = KindTypes::default();
    objects.iter().for_each(|object| {
        kinds.learn(object);
    });
    let mut files: BTreeMap<String, String> = BTreeMap::new();
    let mut patch = String::new();
    let mut parameters: Map<String, Json> = Map::new();
    for object in &objects {
        let id = ObjectId::of(object);
        let (plural, built_in) = kinds.plural(&id.group, &id.kind);
        let path = if built_in || id.group.is_empty() { plural } else { format!("{plural}.{}", id.group) };
        let versioned = files.keys().any(|known| *known == path) && !same_version(&files[&path], object);
        let path = if versioned {
            format!("{path}-{}", object["apiVersion"].as_str().unwrap_or_default().replace('/', "-"))
        } else {
            path
        };
        let text = files.entry(path).or_default();
        if !text.is_empty() {
            text.push_str("---\n");
        }
        let _ = YamlEmitter::manifest().emit_into(&order_keys(object), text);
        propose_parameters(object, &id, &mut parameters, &mut patch);
    }
    let mut all: Vec<OutFile> = files
        .into_iter()
        .map(|(stem, text)| OutFile { path: format!("resources/{stem}.yaml"), text })
        .collect();
    let mut root = Map::new();
    root.insert("kurel".to_owned(), json!({"name": name, "version": "0.1.0", "appVersion": "1.0.0"}));
    root.extend(parameters);
    let mut text = String::new();
    let _ = YamlEmitter::manifest().emit_into(&Json::Object(root), &mut text);
    all.push(OutFile { path: "parameters.yaml".to_owned(), text });
    if !patch.is_empty() {
        all.push(OutFile { path: "patches/00-base.kpatch".to_owned(), text: patch });
    }
    all.push(OutFile {
        path: "README.md".to_owned(),
        text: format!("# {name}\n\nTaken in from existing manifests.\n"),
    });
    all.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(with_schema(PackageScaffold { directory: format!("{name}.kurel"), files: all }))
}

fn same_version(text: &str, object: &Json) -> bool {
    text.starts_with(&format!("apiVersion: {}\n", object["apiVersion"].as_str().unwrap_or_default()))
}

/// A key for a parameter: letters, digits and dashes.
fn parameter_key(text: &str) -> String {
    let mut out: String =
        text.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' { c } else { '-' }).collect();
    if !out.starts_with(|c: char| c.is_ascii_alphabetic()) {
        out.insert(0, 'x');
    }
    out
}

fn map_entry<'m>(map: &'m mut Map<String, Json>, key: &str) -> Option<&'m mut Map<String, Json>> {
    map.entry(key.to_owned()).or_insert_with(|| Json::Object(Map::new())).as_object_mut()
}

/// The parameters people change most: images, replicas, hosts.
fn propose_parameters(object: &Json, id: &ObjectId, parameters: &mut Map<String, Json>, patch: &mut String) {
    let spec = &object["spec"];
    let key = {
        let key = parameter_key(&id.name);
        let taken = parameters.contains_key(&key) || matches!(key.as_str(), "kurel" | "global");
        match (taken, id.namespace.is_empty()) {
            (false, _) => key,
            (true, true) => format!("{key}-{}", id.kind.to_ascii_lowercase()),
            (true, false) => {
                format!("{key}-{}-{}", id.kind.to_ascii_lowercase(), parameter_key(&id.namespace))
            }
        }
    };
    if parameters.contains_key(&key) {
        return;
    }
    let quoted = if id.name.contains(['.', ':']) { format!("{:?}", id.name) } else { id.name.clone() };
    let namespace = if id.namespace.is_empty() { "_".to_owned() } else { id.namespace.clone() };
    let kind = if id.group.is_empty() {
        id.kind.to_ascii_lowercase()
    } else {
        format!("{}@{:?}", id.kind.to_ascii_lowercase(), id.group)
    };
    let scope = format!("{namespace}/{kind}.{quoted}");
    let mut lines: Vec<String> = Vec::new();
    let workload = matches!(id.kind.as_str(), "Deployment" | "StatefulSet" | "DaemonSet");
    if workload
        && let Some(replicas) = spec["replicas"].as_i64()
        && let Some(own) = map_entry(parameters, &key)
    {
        own.insert("replicas".to_owned(), json!(replicas));
        lines.push(format!("spec.replicas: \"${{{key}.replicas}}\""));
    }
    for container in
        spec["template"]["spec"]["containers"].as_array().filter(|_| workload).into_iter().flatten()
    {
        let (Some(name), Some(image)) = (container["name"].as_str(), container["image"].as_str()) else {
            continue;
        };
        let tag_at = image.rfind(':').filter(|at| !image[*at..].contains('/') && !image.contains('@'));
        let Some(tag_at) = tag_at else { continue };
        let own_key = parameter_key(name);
        if let Some(own) = map_entry(parameters, &key)
            && let Some(images) = map_entry(own, "images")
            && !images.contains_key(&own_key)
        {
            images
                .insert(own_key.clone(), json!({"repository": image[..tag_at], "tag": image[tag_at + 1..]}));
            lines.push(format!(
                "spec.template.spec.containers[name={name:?}].image: \"${{{key}.images.{own_key}.repository}}:${{{key}.images.{own_key}.tag}}\""
            ));
        }
    }
    if id.kind == "Ingress"
        && let Some(rules) = spec["rules"].as_array()
    {
        for (index, host) in
            rules.iter().enumerate().filter_map(|(index, rule)| Some((index, rule["host"].as_str()?)))
        {
            if let Some(own) = map_entry(parameters, &key) {
                let name = if index == 0 { "host".to_owned() } else { format!("host{index}") };
                own.insert(name.clone(), json!(host));
                lines.push(format!("spec.rules[{index}].host: \"${{{key}.{name}}}\""));
            }
        }
    }
    if !lines.is_empty() {
        if !patch.is_empty() {
            patch.push('\n');
        }
        patch.push_str(&format!("[{scope}]\n{}\n", lines.join("\n")));
    }
}
