//! The plain manifests of a package.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value as Json;
use slipway_manifest::ObjectId;
use slipway_manifest::object::split_api_version;
use slipway_problem::{Location, Problems};
use slipway_yaml::{NodeValue as Yaml, YamlNode, YamlReader, is_yaml11_bool};

use crate::apply::PathSegment;
use crate::files::PackageFiles;
use crate::report::{coded_error, coded_warning, object_codes, with_code};
use crate::schema::{FieldType, KindTypes};
use crate::template::Template;

const MOST_RESOURCES: usize = 10_000;
const MANY_RESOURCES: usize = 1_000;

/// One object: as it was loaded, and as patches left it.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The identity it was loaded with; patches aim at this.
    pub id: ObjectId,
    pub api_version: String,
    /// Shared until a patch writes to it.
    pub value: Arc<Json>,
    /// The place it begins at.
    pub at: Location,
    /// The last word of a patch on whether it is part of the result, and where that was said.
    pub enabled: Option<(bool, Location)>,
    node: Option<Arc<YamlNode>>,
    /// True if any text in it holds `${`.
    mentions: bool,
    /// Made by us, not by a file.
    pub generated: bool,
}

impl Resource {
    /// An object no file holds.
    pub(crate) fn from_generated(value: Json, origin: &str) -> Self {
        let id = ObjectId::of(&value);
        let api_version = value["apiVersion"].as_str().unwrap_or_default().to_owned();
        Self {
            id,
            api_version,
            value: Arc::new(value),
            at: Location::file(origin),
            enabled: None,
            node: None,
            mentions: false,
            generated: true,
        }
    }

    /// `Deployment apps/web (resources/deployment.yaml:1)`.
    pub fn label(&self) -> String {
        label_of(&self.id, &self.at)
    }

    pub(crate) fn api_version_name(&self) -> &str {
        split_api_version(&self.api_version).1
    }

    pub(crate) fn ty<'k>(&self, kinds: &'k KindTypes) -> FieldType<'k> {
        kinds.of(&self.api_version, &self.id.kind)
    }

    /// The place of a field in the file, or of the nearest thing above it.
    pub(crate) fn locate_field(&self, path: &[PathSegment]) -> Location {
        let Some(node) = &self.node else { return self.at.clone() };
        let mut at: &YamlNode = node;
        let mut place = self.at.clone();
        for seg in path {
            let (next, here) = match (&at.value, seg) {
                (Yaml::Map(mapping), PathSegment::Key(key)) => match mapping.entry(key) {
                    Some((name, value)) => (value, name.location()),
                    None => return place,
                },
                (Yaml::Seq(items), PathSegment::Item { index, name }) => {
                    let named = name.as_ref().and_then(|name| {
                        items.iter().find(|item| item.get("name").and_then(YamlNode::as_str) == Some(name))
                    });
                    match named.or_else(|| items.get(*index)) {
                        Some(item) => (item, item.location()),
                        None => return place,
                    }
                }
                _ => return place,
            };
            place = here;
            at = next;
        }
        place
    }

    /// The value a field had before any patch.
    pub(crate) fn base(&self, path: &[PathSegment]) -> Option<Json> {
        let mut at: &YamlNode = self.node.as_deref()?;
        for seg in path {
            at = match (&at.value, seg) {
                (Yaml::Map(mapping), PathSegment::Key(key)) => mapping.get(key)?,
                (Yaml::Seq(items), PathSegment::Item { index, name }) => match name {
                    Some(name) => {
                        items.iter().find(|item| item.get("name").and_then(YamlNode::as_str) == Some(name))?
                    }
                    None => items.get(*index)?,
                },
                _ => return None,
            };
        }
        Some(at.to_json())
    }

    /// The tree it was read from, for substitution.
    pub(crate) fn node(&self) -> Option<&YamlNode> {
        self.node.as_deref()
    }
}

/// An object as messages name it, with its file and line.
pub(crate) fn label_of(id: &ObjectId, at: &Location) -> String {
    format!("{} ({}:{})", show_id(id), at.file, at.line)
}

/// `Deployment apps/web`.
pub(crate) fn show_id(id: &ObjectId) -> String {
    if id.namespace.is_empty() {
        format!("{} {}", id.kind, id.name)
    } else {
        format!("{} {}/{}", id.kind, id.namespace, id.name)
    }
}

/// Loads every manifest below `resources/`.
pub(crate) fn load_resources(
    files: &PackageFiles,
    keep_server_fields: bool,
    problems: &mut Problems,
) -> Vec<Resource> {
    let mut resources = Vec::new();
    for path in files.below("resources/") {
        if !matches!(path.rsplit('.').next(), Some("yaml" | "yml" | "json")) {
            continue;
        }
        let Some(text) = files.text(path, problems) else { continue };
        let reader = YamlReader::new().codes(object_codes()).max_nodes(1_000_000).max_depth(100);
        let documents = match reader.read(text, path) {
            Ok(documents) => documents,
            Err(found) => {
                problems.extend(with_code(found, "KR002"));
                continue;
            }
        };
        let mut kinds: Vec<String> = Vec::new();
        let mut nodes: Vec<YamlNode> = documents;
        nodes.reverse();
        while let Some(node) = nodes.pop() {
            if node.is_null() {
                continue;
            }
            // A list is its items; lists in lists are unpacked the same way.
            let is_list =
                node.get("kind").and_then(YamlNode::as_str).is_some_and(|kind| kind.ends_with("List"));
            if is_list && let Some(items) = node.get("items").and_then(YamlNode::as_seq) {
                nodes.extend(items.iter().rev().cloned());
                continue;
            }
            if let Some(resource) = read_resource(node, keep_server_fields, problems) {
                let gvk = format!("{}/{}", resource.api_version, resource.id.kind);
                if !kinds.contains(&gvk) {
                    kinds.push(gvk);
                }
                resources.push(resource);
            }
        }
        if kinds.len() > 1 {
            let message =
                format!("the file holds {} kinds: {}", kinds.len(), crate::report::join_words(&kinds, 5));
            problems.push(
                coded_warning("KR006", message).at(Location::file(path)).hint("keep one kind per file"),
            );
        }
    }
    if resources.is_empty() && !problems.has_errors() {
        problems
            .push(coded_warning("KR001", "the package has no resources").at(Location::file("resources/")));
    }
    if resources.len() > MOST_RESOURCES {
        problems.push(
            coded_error("KR012", format!("{} objects are more than {MOST_RESOURCES}", resources.len()))
                .at(Location::file("resources/")),
        );
    } else if resources.len() > MANY_RESOURCES {
        problems.push(
            coded_warning("KR012", format!("{} objects are many for one package", resources.len()))
                .at(Location::file("resources/")),
        );
    }
    report_duplicates(&resources, problems);
    resources
}

fn report_duplicates(resources: &[Resource], problems: &mut Problems) {
    let mut seen: HashMap<&ObjectId, &Resource> = HashMap::new();
    for resource in resources {
        if let Some(first) = seen.get(&resource.id) {
            let id = &resource.id;
            let place = if id.namespace.is_empty() {
                String::new()
            } else {
                format!(" in namespace `{}`", id.namespace)
            };
            let message = format!(
                "two {}s named `{}`{place}; the first is at {}:{}",
                id.kind, id.name, first.at.file, first.at.line
            );
            problems.push(coded_error("KR020", message).at(resource.at.clone()));
        } else {
            seen.insert(&resource.id, resource);
        }
    }
}

const SERVER_METADATA: [&str; 6] =
    ["managedFields", "uid", "resourceVersion", "creationTimestamp", "selfLink", "generation"];
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

fn read_resource(node: YamlNode, keep_server_fields: bool, problems: &mut Problems) -> Option<Resource> {
    let Some(mapping) = node.as_map() else {
        problems.push(node.problem(format!("expected an object, not {}", node.kind_name())).code("KR003"));
        return None;
    };
    let mut fine = true;
    let mut text = |key: &str, value: Option<&YamlNode>| -> String {
        match value.and_then(YamlNode::as_str).filter(|text| !text.is_empty()) {
            Some(text) => text.to_owned(),
            None => {
                let place = value.unwrap_or(&node);
                let message = match value {
                    Some(value) if !value.is_null() => format!("`{key}` must be a string that is not empty"),
                    _ => format!("the object has no `{key}`"),
                };
                problems.push(place.problem(message).code("KR003"));
                fine = false;
                String::new()
            }
        }
    };
    let api_version = text("apiVersion", mapping.get("apiVersion"));
    let kind = text("kind", mapping.get("kind"));
    let metadata = mapping.get("metadata");
    if let Some(generate) = metadata.and_then(|metadata| metadata.get("generateName")) {
        problems.push(
            generate
                .problem("`generateName` gives a new name every time, which nobody can track")
                .code("KR004")
                .hint("give the object a name"),
        );
        fine = false;
    }
    let mut text = |key: &str, value: Option<&YamlNode>| match value
        .and_then(YamlNode::as_str)
        .filter(|text| !text.is_empty())
    {
        Some(text) => text.to_owned(),
        None if fine => {
            let place = value.unwrap_or(&node);
            problems.push(place.problem(format!("the object has no `{key}`")).code("KR003"));
            fine = false;
            String::new()
        }
        None => String::new(),
    };
    let name = text("metadata.name", metadata.and_then(|metadata| metadata.get("name")));
    let mentions = check_scalars(&node, problems);
    if !fine {
        return None;
    }
    let namespace = metadata
        .and_then(|metadata| metadata.get("namespace"))
        .and_then(YamlNode::as_str)
        .unwrap_or_default();
    let (group, _) = split_api_version(&api_version);
    let id = ObjectId { group: group.to_owned(), kind, namespace: namespace.to_owned(), name };
    let mut value = node.to_json();
    if !keep_server_fields {
        remove_server_fields(&mut value, &node, problems);
    }
    let at = node.location();
    Some(Resource {
        id,
        api_version,
        value: Arc::new(value),
        at,
        enabled: None,
        node: Some(Arc::new(node)),
        mentions,
        generated: false,
    })
}

fn remove_server_fields(value: &mut Json, node: &YamlNode, problems: &mut Problems) {
    let mut removed = Vec::new();
    let Some(object) = value.as_object_mut() else { return };
    // The status of a CRD in a file is noise too.
    if object.shift_remove("status").is_some() {
        removed.push("status".to_owned());
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Json::as_object_mut) {
        for field in SERVER_METADATA {
            if metadata.shift_remove(field).is_some() {
                removed.push(format!("metadata.{field}"));
            }
        }
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Json::as_object_mut)
            && annotations.shift_remove(LAST_APPLIED).is_some()
        {
            removed.push("the last-applied annotation".to_owned());
            if annotations.is_empty() {
                metadata.shift_remove("annotations");
            }
        }
    }
    if !removed.is_empty() {
        let message = format!("fields the server owns were left out: {}", removed.join(", "));
        problems.push(node.warning(message).code("KR005"));
    }
}

/// Finds unquoted words kubectl takes for booleans, and numbers JSON lacks. Says whether some text holds
/// what looks like a reference.
fn check_scalars(node: &YamlNode, problems: &mut Problems) -> bool {
    match &node.value {
        Yaml::String(text) if text.len() <= 3 && !node.is_quoted() && is_yaml11_bool(text) => {
            problems.push(
                node.warning(format!("kubectl would read `{text}` as a boolean; here it is text"))
                    .code("KR007")
                    .hint("quote it"),
            );
            false
        }
        Yaml::String(text) => text.contains("${"),
        Yaml::Float(value) if !value.is_finite() => {
            problems.push(
                node.problem(format!("`{}` is no number Kubernetes can store", node.raw())).code("KR008"),
            );
            false
        }
        Yaml::Seq(items) => items.iter().fold(false, |any, item| check_scalars(item, problems) | any),
        Yaml::Map(mapping) => mapping.iter().fold(false, |any, (key, value)| {
            check_scalars(key, problems);
            check_scalars(value, problems) | any
        }),
        _ => false,
    }
}

/// Warns of references to known parameters that nobody will replace.
pub(crate) fn warn_unsubstituted(
    resource: &Resource,
    known: &dyn Fn(&crate::template::ParamPath) -> bool,
    problems: &mut Problems,
) {
    let Some(node) = resource.node().filter(|_| resource.mentions) else { return };
    let mut pending = vec![node];
    while let Some(node) = pending.pop() {
        match &node.value {
            Yaml::String(text) if text.contains("${") => {
                let mut rest = text.as_str();
                while let Some(found) = rest.find("${") {
                    rest = &rest[found..];
                    if let Some(end) = rest.find('}')
                        && let Ok(path) = crate::template::parse_path(rest[2..end].trim())
                        && known(&path)
                    {
                        let message = format!("`${{{path}}}` stays as it is: resources are not substituted");
                        problems.push(
                            node.warning(message)
                                .code("KR050")
                                .hint("move it to a patch, or set kurel.substituteResources: true"),
                        );
                        break;
                    }
                    rest = &rest[2..];
                }
            }
            Yaml::Seq(items) => pending.extend(items.iter().rev()),
            Yaml::Map(mapping) => pending.extend(mapping.iter().map(|(_, value)| value)),
            _ => {}
        }
    }
}

/// Returns true if a text of a resource may hold references at all.
pub(crate) fn has_references(template: &Template) -> bool {
    template.references().next().is_some()
}
