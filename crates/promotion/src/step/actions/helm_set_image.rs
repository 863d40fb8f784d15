//! `helm-set-image`: sets the images of a bundle in a values file; comments, order and quotes stay.

use serde_json::json;
use slipway_git::TreePath;
use slipway_yaml::edit::{EditableDocument, PathSegment};
use slipway_yaml::{DuplicateKeys, ScalarRules, YamlNode, YamlReader};

use crate::kinds::{HelmImagePaths, HelmUpdate, ImageArtifact};
use crate::step::edit::{EditInputs, EditNote, EditTrees, VersionChange, read_text, write_file};
use crate::step::outcome::StepError;

pub(super) fn edit(inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
    let settings = inputs.step.update.helm.clone().unwrap_or_default();
    let name = inputs.text("valuesFile").unwrap_or(&settings.values_file);
    let path = inputs.path_below(name)?;
    let Some(before) = read_text(trees.source, &path)? else {
        return Err(StepError::failed("ValuesFileNotFound", format!("there is no `{path}`")));
    };
    let invalid = |problems: slipway_problem::Problems| StepError::problems("InvalidValues", &problems);
    let reader = YamlReader::new().schema(ScalarRules::Yaml11).duplicates(DuplicateKeys::Refuse);
    let mut document = EditableDocument::new(before.clone(), path.as_str(), reader).map_err(invalid)?;
    let mut changes = Vec::new();
    for image in &inputs.bundle.artifacts.images {
        let places = places_of(image, &settings, inputs)?;
        let Some(places) = places else { continue };
        for (place, value) in [
            (places.repository, Some(image.repository())),
            (places.tag.clone(), image.tag()),
            (places.digest.clone(), image.digest.as_deref()),
        ] {
            let Some(place) = place else { continue };
            let root = document.root().map_err(invalid)?;
            let known = place.iter().try_fold(&root, find);
            let old = known.map(scalar_text);
            match value {
                Some(value) if known.and_then(YamlNode::as_str) == Some(value) => {}
                Some(value) => {
                    if known.is_none() && !settings.create_if_missing {
                        return Err(missing(&path, &place));
                    }
                    document.set(&place, &json!(value)).map_err(invalid)?;
                    if Some(&place) == places.tag.as_ref() || places.tag.is_none() {
                        let image = image.repository().to_owned();
                        let (old, new) = (old.unwrap_or_default(), value.to_owned());
                        changes.push(VersionChange { image, old, new });
                    }
                }
                // A digest left over would keep pinning the old image.
                None if Some(&place) == places.digest.as_ref()
                    && known.is_some_and(|node| !node.is_null()) =>
                {
                    document.set(&place, &json!("")).map_err(invalid)?;
                }
                None => {}
            }
        }
    }
    let version = inputs.bundle.version();
    if document.text() == before {
        return Ok(EditNote { message: format!("already at {version}"), ..EditNote::default() });
    }
    write_file(trees.source, &path, document.text().as_bytes())?;
    Ok(EditNote { message: format!("set {version} in {path}"), changes, ..EditNote::default() })
}

/// The places of one image in the values.
struct ImagePlaces {
    repository: Option<Vec<PathSegment>>,
    tag: Option<Vec<PathSegment>>,
    digest: Option<Vec<PathSegment>>,
}

/// Finds the places of an image; `None` for one the settings do not list.
fn places_of(
    image: &ImageArtifact,
    settings: &HelmUpdate,
    inputs: &EditInputs,
) -> Result<Option<ImagePlaces>, StepError> {
    if settings.images.is_empty() {
        let template = inputs.text("imagePathTemplate").unwrap_or(&settings.image_path_template);
        let tag = Some(parse_path(&template.replace("{name}", &image.name))?);
        return Ok(Some(ImagePlaces { repository: None, tag, digest: None }));
    }
    let listed =
        |paths: &&HelmImagePaths| paths.repository == image.name || paths.repository == image.repository();
    let Some(paths) = settings.images.iter().find(listed) else { return Ok(None) };
    let place = |path: &Option<String>| path.as_deref().map(parse_path).transpose();
    Ok(Some(ImagePlaces {
        repository: place(&paths.repository_path)?,
        tag: place(&paths.tag_path)?,
        digest: place(&paths.digest_path)?,
    }))
}

/// Reads `.image.tag`, `a.b[0].c` and `a."x.y"`.
fn parse_path(text: &str) -> Result<Vec<PathSegment>, StepError> {
    let wrong = || StepError::failed("InvalidConfig", format!("`{text}` is no path such as `.image.tag`"));
    let mut segments = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        rest = rest.strip_prefix('.').unwrap_or(rest);
        if let Some(quoted) = rest.strip_prefix('"') {
            let (key, after) = quoted.split_once('"').ok_or_else(wrong)?;
            segments.push(key.into());
            rest = after;
        } else if let Some(index) = rest.strip_prefix('[') {
            let (index, after) = index.split_once(']').ok_or_else(wrong)?;
            segments.push(index.parse::<usize>().map_err(|_| wrong())?.into());
            rest = after;
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            if end == 0 {
                return Err(wrong());
            }
            segments.push(rest[..end].into());
            rest = &rest[end..];
        }
    }
    if segments.is_empty() { Err(wrong()) } else { Ok(segments) }
}

fn find<'n>(node: &'n YamlNode, segment: &PathSegment) -> Option<&'n YamlNode> {
    match segment {
        PathSegment::Key(key) => node.get(key),
        PathSegment::Index(index) => node.as_seq()?.get(*index),
    }
}

fn scalar_text(node: &YamlNode) -> String {
    node.as_str().map_or_else(|| node.raw().trim().to_owned(), str::to_owned)
}

fn missing(path: &TreePath, place: &[PathSegment]) -> StepError {
    let place: Vec<String> = place.iter().map(PathSegment::to_string).collect();
    let message = format!("`{path}` has no `{}`; set `createIfMissing` to add it", place.join("."));
    StepError::failed("ValuesPathNotFound", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_have_keys_indices_and_quotes() {
        let shown = |text: &str| {
            parse_path(text).map(|path| path.iter().map(PathSegment::to_string).collect::<Vec<_>>().join("/"))
        };
        assert_eq!(shown(".image.tag").unwrap(), "image/tag");
        assert_eq!(shown("a.b[2].c").unwrap(), "a/b/[2]/c");
        assert_eq!(shown("a.\"x.y\".z").unwrap(), "a/x.y/z");
        for wrong in ["", ".", "a..b", "a[x]", "a.\"b"] {
            assert!(shown(wrong).is_err(), "{wrong}");
        }
    }
}
