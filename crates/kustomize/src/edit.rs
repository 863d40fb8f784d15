//! Changing a kustomization file while its comments, order and layout stay as they are.

use serde_json::{Map, Value, json};
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::edit::{EditableDocument, PathSegment};
use slipway_yaml::{DuplicateKeys, ScalarRules, YamlNode, YamlReader};

use crate::transform::images::split;

/// A new name, tag or digest for an image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageEdit {
    /// The image as the manifests name it.
    pub name: String,
    pub new_name: Option<String>,
    pub new_tag: Option<String>,
    pub digest: Option<String>,
}

impl ImageEdit {
    /// Reads `NAME=NEWNAME:TAG`, `NAME:TAG`, `NAME@DIGEST`, `NAME=NEWNAME@DIGEST` and so on.
    pub fn parse(argument: &str) -> Result<Self, Problems> {
        let (name, image) = match argument.split_once('=') {
            Some((name, image)) => (Some(name), image),
            None => (None, argument),
        };
        let (repository, tag, digest) = split(image);
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let edit = Self {
            name: name.unwrap_or(repository).to_owned(),
            new_name: name.and_then(|_| given(repository)),
            new_tag: given(tag),
            digest: given(digest),
        };
        let says_something = edit.new_name.is_some() || edit.new_tag.is_some() || edit.digest.is_some();
        if edit.name.is_empty() || !says_something {
            return Err(Problem::error(format!("`{argument}` does not say what an image becomes"))
                .hint("write `NAME:TAG`, `NAME@DIGEST` or `NAME=NEWNAME:TAG`")
                .into());
        }
        Ok(edit)
    }
}

/// Sets an image in the text of a kustomization; `file` names it in problems.
///
/// The entry is the one of that name, else the one whose name or new name is the image's repository;
/// without one, an entry is added. A tag given alone removes a digest and the other way round, because
/// what is left over would keep pinning the old image.
pub fn set_image(text: &str, file: &str, image: &ImageEdit) -> Result<String, Problems> {
    let mut document = open(text, file)?;
    let root = document.root()?;
    let entries = list(&root, "images")?;
    let says = |entry: &YamlNode, field: &str, wanted: &str| {
        !wanted.is_empty() && entry.get(field).and_then(YamlNode::as_str) == Some(wanted)
    };
    let repository = image.new_name.as_deref().unwrap_or(&image.name);
    let found = entries
        .iter()
        .position(|entry| says(entry, "name", &image.name))
        .or_else(|| entries.iter().position(|entry| says(entry, "name", repository)))
        .or_else(|| entries.iter().position(|entry| says(entry, "newName", repository)));
    let Some(at) = found else {
        let mut entry = Map::new();
        entry.insert("name".to_owned(), json!(image.name));
        for (field, value) in fields(image) {
            entry.extend(value.map(|value| (field.to_owned(), json!(value))));
        }
        append(&mut document, "images", entries.len(), Value::Object(entry))?;
        return Ok(document.into_text());
    };
    let entry = &entries[at];
    let pins = image.new_tag.is_some() || image.digest.is_some();
    for (field, value) in fields(image) {
        let path: [PathSegment; 3] = ["images".into(), at.into(), field.into()];
        match value {
            Some(value) if says(entry, field, value) => {}
            Some(value) if field == "newName" && entry.get(field).is_none() && says(entry, "name", value) => {
            }
            Some(value) => document.set(&path, &json!(value))?,
            None if field != "newName" && pins && entry.get(field).is_some() => {
                document.remove(&path)?;
            }
            None => {}
        }
    }
    Ok(document.into_text())
}

fn fields(image: &ImageEdit) -> [(&'static str, Option<&String>); 3] {
    [
        ("newName", image.new_name.as_ref()),
        ("newTag", image.new_tag.as_ref()),
        ("digest", image.digest.as_ref()),
    ]
}

/// Sets `namespace`.
pub fn set_namespace(text: &str, file: &str, namespace: &str) -> Result<String, Problems> {
    let mut document = open(text, file)?;
    if document.root()?.get("namespace").and_then(YamlNode::as_str) != Some(namespace) {
        document.set(&["namespace".into()], &json!(namespace))?;
    }
    Ok(document.into_text())
}

/// Adds an entry to `resources`, unless it is listed already.
pub fn add_resource(text: &str, file: &str, resource: &str) -> Result<String, Problems> {
    let mut document = open(text, file)?;
    let root = document.root()?;
    let entries = list(&root, "resources")?;
    if !entries.iter().any(|entry| entry.as_str() == Some(resource)) {
        append(&mut document, "resources", entries.len(), json!(resource))?;
    }
    Ok(document.into_text())
}

fn open(text: &str, file: &str) -> Result<EditableDocument, Problems> {
    let reader = YamlReader::new().schema(ScalarRules::Yaml11).duplicates(DuplicateKeys::Refuse);
    let document = EditableDocument::new(text, file, reader)?;
    let root = document.root()?;
    if root.is_null() || root.as_map().is_some() {
        return Ok(document);
    }
    Err(Problem::error(format!("a kustomization is a mapping, not {}", root.kind()))
        .at(Location::file(file))
        .into())
}

fn list<'n>(root: &'n YamlNode, field: &str) -> Result<&'n [YamlNode], Problems> {
    match root.get(field) {
        None => Ok(&[]),
        Some(node) if node.is_null() => Ok(&[]),
        Some(node) => node
            .as_seq()
            .ok_or_else(|| node.problem(format!("`{field}` should be a list, not {}", node.kind())).into()),
    }
}

fn append(document: &mut EditableDocument, field: &str, length: usize, value: Value) -> Result<(), Problems> {
    if length == 0 {
        document.set(&[field.into()], &Value::Array(vec![value]))
    } else {
        document.set(&[field.into(), length.into()], &value)
    }
}
