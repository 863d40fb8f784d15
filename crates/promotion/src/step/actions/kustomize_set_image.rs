//! `kustomize-set-image`: sets the images of a bundle in the kustomization of an environment, line by line.

use slipway_git::{TreePath, WorkTree};
use slipway_kustomize::edit::{ImageEdit, set_image};
use slipway_yaml::YamlNode;

use crate::kinds::ImageArtifact;
use crate::step::edit::{EditInputs, EditNote, EditTrees, VersionChange, read_text, write_file};
use crate::step::outcome::StepError;

/// The names a kustomization may have, in the order kustomize looks for them.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Finds the kustomization of a directory.
pub(super) fn find_kustomization(
    tree: &WorkTree,
    directory: &TreePath,
) -> Result<(TreePath, String), StepError> {
    for name in NAMES {
        let path = directory.join(&TreePath::parse(name)?);
        if let Some(text) = read_text(tree, &path)? {
            return Ok((path, text));
        }
    }
    let message = format!("`{directory}` has none of {}", NAMES.join(", "));
    Err(StepError::failed("KustomizationNotFound", message))
}

pub(super) fn edit(inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
    let directory = match inputs.text("path") {
        Some(path) => inputs.path_below(path)?,
        None => inputs.path()?,
    };
    let (path, before) = find_kustomization(trees.source, &directory)?;
    let mut text = before.clone();
    let mut changes = Vec::new();
    for image in &inputs.bundle.artifacts.images {
        let old = current_version(&text, path.as_str(), image);
        text = set_image(&text, path.as_str(), &image_edit(image))
            .map_err(|problems| StepError::problems("InvalidKustomization", &problems))?;
        let new = image.version().to_owned();
        let old = old.unwrap_or_default();
        if old != new {
            changes.push(VersionChange { image: image.repository().to_owned(), old, new });
        }
    }
    let version = inputs.bundle.version();
    if text == before {
        return Ok(EditNote { message: format!("already at {version}"), ..EditNote::default() });
    }
    write_file(trees.source, &path, text.as_bytes())?;
    Ok(EditNote { message: format!("set {version} in {path}"), changes, ..EditNote::default() })
}

fn image_edit(image: &ImageArtifact) -> ImageEdit {
    let repository = image.repository();
    ImageEdit {
        name: image.name.clone(),
        new_name: (repository != image.name).then(|| repository.to_owned()),
        new_tag: image.tag().map(str::to_owned),
        digest: image.digest.clone(),
    }
}

/// The version a kustomization says now.
fn current_version(text: &str, file: &str, image: &ImageArtifact) -> Option<String> {
    let root = slipway_yaml::parse_one(text, file).ok()?;
    let entries = root.get("images")?.as_seq()?;
    let says = |entry: &YamlNode, field: &str, wanted: &str| {
        entry.get(field).and_then(YamlNode::as_str).is_some_and(|known| known == wanted)
    };
    let entry = entries
        .iter()
        .find(|entry| says(entry, "name", &image.name))
        .or_else(|| entries.iter().find(|entry| says(entry, "name", image.repository())))
        .or_else(|| entries.iter().find(|entry| says(entry, "newName", image.repository())))?;
    let value = entry.get("newTag").or_else(|| entry.get("digest"))?;
    Some(value.as_str().map_or_else(|| value.to_json().to_string(), str::to_owned))
}
