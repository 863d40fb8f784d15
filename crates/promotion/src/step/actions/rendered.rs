//! Rendered manifests in a work tree: one file an object, or one file for all.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;
use slipway_git::{GitError, TreePath, WorkTree};
use slipway_manifest::ObjectRef;

use crate::step::edit::{EditInputs, EditNote, EditTrees, write_file};
use crate::step::outcome::StepError;

/// Objects to write, and what made them.
pub(super) struct RenderedObjects {
    pub(super) objects: Vec<Value>,
    pub(super) tool: &'static str,
}

/// The files rendered manifests are written to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FileLayout {
    One,
    PerObject,
}

/// The file that holds all objects.
const ONE_FILE: &str = "manifest.yaml";
/// The directory below an environment's own that holds rendered files.
const DIRECTORY: &str = "rendered";

/// Writes the files, in an order that depends on the objects alone, and removes those of objects that are gone.
pub(super) fn write_rendered(
    inputs: &EditInputs,
    trees: EditTrees<'_>,
    rendered: RenderedObjects,
) -> Result<EditNote, StepError> {
    let layout = match (inputs.text("format"), trees.has_rendered_branch()) {
        (Some("single"), _) | (None, false) => FileLayout::One,
        (Some("files"), _) | (None, true) => FileLayout::PerObject,
        (Some(other), _) => {
            return Err(StepError::failed(
                "InvalidConfig",
                format!("`format` is `single` or `files`, not `{other}`"),
            ));
        }
    };
    let directory = match (inputs.text("output"), trees.has_rendered_branch()) {
        (Some(path), true) => TreePath::parse(path)?,
        (None, true) => TreePath::root(),
        (Some(path), false) => inputs.path_below(path)?,
        (None, false) => inputs.path_below(DIRECTORY)?,
    };
    let mut objects = rendered.objects;
    objects.sort_by_cached_key(sort_key);
    let mut files: Vec<(TreePath, String)> = Vec::new();
    match layout {
        FileLayout::One => {
            let texts: Vec<String> = objects.iter().map(object_text).collect();
            files.push((directory.join(&TreePath::parse(ONE_FILE)?), texts.join("---\n")));
        }
        FileLayout::PerObject => {
            for object in &objects {
                let path = directory.join(&TreePath::parse(&file_name(object))?);
                match files.last_mut() {
                    // Two objects that differ in their group alone.
                    Some((known, text)) if *known == path => {
                        text.push_str("---\n");
                        text.push_str(&object_text(object));
                    }
                    _ => files.push((path, object_text(object))),
                }
            }
        }
    }
    let kept: BTreeSet<String> = files.iter().map(|(path, _)| path.to_string()).collect();
    for (path, text) in &files {
        write_file(trees.target, path, text.as_bytes())?;
    }
    let removed =
        if layout == FileLayout::PerObject { remove_others(trees.target, &directory, &kept)? } else { 0 };
    let message = format!("{} wrote {} objects, removed {removed} files", rendered.tool, objects.len());
    let path =
        if layout == FileLayout::One { directory.join(&TreePath::parse(ONE_FILE)?) } else { directory };
    let outputs = [("renderedManifestPath".to_owned(), path.to_string())].into();
    Ok(EditNote { message, outputs, changes: Vec::new() })
}

/// Kind, namespace and name.
fn sort_key(object: &Value) -> (String, String, String) {
    let at = ObjectRef::of(object);
    (at.gvk.kind.clone(), at.namespace.clone().unwrap_or_default(), at.name.clone())
}

fn object_text(object: &Value) -> String {
    slipway_yaml::to_string(object).unwrap_or_else(|_| format!("{object}\n"))
}

/// `deployment-prod-app.yaml`.
fn file_name(object: &Value) -> String {
    let (kind, namespace, name) = sort_key(object);
    let parts = [kind.to_lowercase(), namespace, name];
    let joined = parts.iter().filter(|part| !part.is_empty()).cloned().collect::<Vec<_>>().join("-");
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_') { c } else { '_' };
    format!("{}.yaml", joined.chars().map(plain).collect::<String>())
}

/// Removes manifests that were not written just now. Files people may have put there stay: only `.yaml` files go.
fn remove_others(tree: &WorkTree, directory: &TreePath, kept: &BTreeSet<String>) -> Result<usize, StepError> {
    let place = tree.locate(directory)?;
    let files = |source| GitError::Files { path: place.clone(), source };
    let mut removed = 0;
    for entry in fs::read_dir(&place).map_err(files)? {
        let entry = entry.map_err(files)?;
        let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        let Ok(path) = TreePath::parse(&name) else { continue };
        if is_file && name.ends_with(".yaml") && !kept.contains(directory.join(&path).as_str()) {
            fs::remove_file(entry.path()).map_err(files)?;
            removed += 1;
        }
    }
    Ok(removed)
}
