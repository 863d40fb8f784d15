//! Rules on images.

use slipway_manifest::image::ImageReference;

use super::Violation;
use crate::input::PolicyInput;
use crate::model::ImageCheck;
use crate::report::PolicyCode;

pub(super) fn check_images(check: &ImageCheck, input: &PolicyInput<'_>) -> Vec<Violation> {
    let mut found = Vec::new();
    for image in &input.images {
        let mut report = |code, message: String| {
            found.push(Violation::of_object(&image.object, code, message).at(image.path.as_str()));
        };
        let Ok(reference) = image.image.parse::<ImageReference>() else {
            report(PolicyCode::InvalidImage, format!("`{}` is no reference to an image", image.image));
            continue;
        };
        if check.require_digest && reference.digest.is_none() {
            report(PolicyCode::ImageWithoutDigest, format!("the image `{}` has no digest", image.image));
        }
        let repository = reference.full_repository();
        if !check.registries.is_empty() && !check.registries.fits(&repository) {
            let message = format!("the image `{repository}` is not from {}", check.registries.shown());
            report(PolicyCode::ImageRegistry, message);
        }
        if let Some(tag) = reference.effective_tag().filter(|tag| check.forbid_tags.fits(tag)) {
            report(PolicyCode::ImageTag, format!("the image `{}` has the tag `{tag}`", image.image));
        }
    }
    found
}
