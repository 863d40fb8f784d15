//! Images in an OCI layout on disk: a directory with `oci-layout`, `index.json` and blobs.

use std::path::Path;

use serde_json::Value;
use slipway_manifest::image::{ImageReference, is_sha256_digest};
use slipway_problem::{Location, Problem};

use super::input::ImageInput;
use crate::container::{ContentHash, ImagePlatform};
use crate::error::UnitError;

const LARGEST_INDEX: u64 = 4 << 20;

/// Reads the image of a layout. `reference` says where it will be pulled from; its digest is the layout's.
pub fn read_layout(
    name: &str,
    reference: &ImageReference,
    directory: &Path,
) -> Result<ImageInput, UnitError> {
    let read = |path: &Path| {
        slipway_problem::read_file_within(path, LARGEST_INDEX).map_err(UnitError::io("read", path))
    };
    let wrong = |what: String| {
        let at = Location::file(directory.join("index.json").display().to_string());
        UnitError::from(Problem::error(what).at(at))
    };
    if !directory.join("oci-layout").is_file() {
        let problem = Problem::error(format!("{} is not an OCI layout", directory.display()));
        return Err(problem.hint("a layout has `oci-layout` and `index.json`, as `docker buildx build --output type=oci,tar=false` writes them").into());
    }
    let marker: Value = serde_json::from_slice(&read(&directory.join("oci-layout"))?).unwrap_or_default();
    if marker.get("imageLayoutVersion").is_none() {
        return Err(wrong("the directory is not an OCI layout".to_owned()));
    }
    let index: Value = serde_json::from_slice(&read(&directory.join("index.json"))?)
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let manifests = index.get("manifests").and_then(Value::as_array).cloned().unwrap_or_default();
    let named = |manifest: &&Value| {
        let tag = manifest.pointer("/annotations/org.opencontainers.image.ref.name").and_then(Value::as_str);
        tag.is_some() && tag == reference.tag.as_deref()
    };
    let chosen = match manifests.as_slice() {
        [] => return Err(wrong("the layout holds no image".to_owned())),
        [only] => only.clone(),
        several => match several.iter().filter(named).collect::<Vec<_>>().as_slice() {
            [one] => (*one).clone(),
            _ => {
                let count = several.len();
                return Err(wrong(format!(
                    "the layout holds {count} images, and none is tagged as `{reference}`"
                )));
            }
        },
    };
    let digest = chosen.get("digest").and_then(Value::as_str).unwrap_or_default().to_owned();
    if !is_sha256_digest(&digest) {
        return Err(wrong(format!("`{digest}` is not a SHA-256 digest")));
    }
    let blob = directory.join("blobs/sha256").join(digest.trim_start_matches("sha256:"));
    let content = read(&blob)?;
    if format!("sha256:{}", ContentHash::of(&content)) != digest {
        return Err(wrong(format!("the manifest {digest} has another content")));
    }
    let manifest: Value = serde_json::from_slice(&content).unwrap_or_default();
    let platform = |value: &Value| {
        let text = |key: &str| value.pointer(key).and_then(Value::as_str);
        let (os, architecture) = (text("/platform/os")?, text("/platform/architecture")?);
        let digest = text("/digest").map(str::to_owned);
        // Attestations are listed as images of an unknown platform.
        (os != "unknown").then(|| ImagePlatform { platform: format!("{os}/{architecture}"), digest })
    };
    let listed = manifest.get("manifests").and_then(Value::as_array);
    let platforms = match listed {
        Some(listed) => listed.iter().filter_map(platform).collect(),
        None => platform(&chosen).into_iter().collect(),
    };
    let media_type = chosen.get("mediaType").and_then(Value::as_str).unwrap_or_default().to_owned();
    let sizes = manifest.get("layers").and_then(Value::as_array).into_iter().flatten();
    let sizes = sizes.filter_map(|layer| layer.get("size").and_then(Value::as_u64));
    let size = sizes.fold(0_u64, u64::saturating_add);
    let reference = ImageReference { digest: Some(digest), ..reference.clone() };
    let input = ImageInput::given(name, reference);
    Ok(ImageInput { media_type, platforms, size_bytes: (size > 0).then_some(size), ..input })
}
