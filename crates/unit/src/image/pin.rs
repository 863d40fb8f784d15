//! Pins tags: the images nobody bound get the digests their registries have for them.

use std::collections::BTreeSet;

use serde_json::Value;
use slipway_manifest::image::ImageReference;

use super::input::{ImageInput, ImageResolver};
use super::rewrite::RewriteRule;
use super::uses::container_images;
use crate::container::{BindingConfidence, BindingKind, BindingRow, ImageOrigin, ImageRow};
use crate::error::UnitError;

/// The treatment of images nobody bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PinMode {
    /// Leave their tags.
    #[default]
    Inputs,
    /// Ask the registry for the digest of each.
    All,
}

/// The tags of images nobody bound, resolved to digests.
pub(crate) async fn pin_tags(
    objects: &[Value],
    resolver: &dyn ImageResolver,
) -> Result<(Vec<(RewriteRule, String)>, Vec<ImageRow>, Vec<BindingRow>), UnitError> {
    let (mut rules, mut rows, mut bindings) = (Vec::new(), Vec::new(), Vec::new());
    let images: BTreeSet<String> = container_images(objects).into_iter().map(|found| found.image).collect();
    for image in images {
        let Ok(reference) = image.parse::<ImageReference>() else { continue };
        if reference.digest.is_some() {
            continue;
        }
        let found = resolver.resolve(&reference).await?;
        let pinned = ImageReference { digest: Some(found.digest.clone()), ..reference.clone() };
        let rule = RewriteRule { image: Some(image.clone()), ..RewriteRule::default() };
        let input = ImageInput {
            media_type: found.media_type,
            platforms: found.platforms,
            origin: ImageOrigin::Chart,
            ..ImageInput::given(&image, pinned.clone())
        };
        bindings.push(BindingRow {
            ordinal: bindings.len() as i64,
            image_name: image.clone(),
            kind: BindingKind::PostRender,
            path: rule.canonical_text(),
            before: image.clone(),
            after: pinned.to_string(),
            rule: "pin-all".to_owned(),
            confidence: BindingConfidence::Exact,
            proof: format!("image {image} is pinned to {pinned}"),
        });
        rows.push(input.to_row());
        rules.push((rule, pinned.to_string()));
    }
    Ok((rules, rows, bindings))
}
