//! Images written into rendered objects, where the values of a chart have no room for a digest.

use globset::Glob;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_manifest::image::{ImageReference, full_repository};
use slipway_manifest::object;

use super::uses::change_images;

/// The containers a rewriting applies to, and the image they get.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct RewriteRule {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    /// A pattern of names of objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    /// A pattern of names of containers; init containers count too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) container: Option<String>,
    /// The repository a container has now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) repository: Option<String>,
    /// The reference a container has now, exactly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) image: Option<String>,
    /// Ways to images in custom resources: `spec.image`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) field_paths: Vec<String>,
}

impl RewriteRule {
    /// The rule as a unit keeps and shows it.
    pub(crate) fn canonical_text(&self) -> String {
        let mut text = String::new();
        slipway_journal::digest::canonical(&serde_json::to_value(self).unwrap_or_default(), &mut text);
        text
    }

    fn fits_object(&self, value: &Value) -> bool {
        fits(self.kind.as_deref(), object::kind(value).unwrap_or_default())
            && fits(self.name.as_deref(), object::name(value).unwrap_or_default())
    }

    fn fits_image(&self, container: &str, image: &str) -> bool {
        let plain = container.rsplit_once(':').map_or(container, |(_, name)| name);
        let same_repository = self.repository.as_ref().is_none_or(|wanted| {
            image
                .parse::<ImageReference>()
                .is_ok_and(|found| found.full_repository() == full_repository(wanted))
        });
        fits(self.container.as_deref(), plain)
            && same_repository
            && self.image.as_ref().is_none_or(|wanted| wanted == image)
    }
}

fn fits(pattern: Option<&str>, text: &str) -> bool {
    pattern.is_none_or(|pattern| Glob::new(pattern).is_ok_and(|glob| glob.compile_matcher().is_match(text)))
}

/// Applies a rewriting to objects and counts the images it changed.
pub(crate) fn rewrite_objects<'v>(
    objects: impl IntoIterator<Item = &'v mut Value>,
    rule: &RewriteRule,
    image: &str,
) -> usize {
    let mut changed = 0;
    for value in objects.into_iter().filter(|value| rule.fits_object(value)) {
        changed += change_images(value, |container, found| {
            rule.fits_image(container, found).then(|| image.to_owned())
        });
        for path in &rule.field_paths {
            let pointer: String = path.split('.').map(|step| format!("/{step}")).collect();
            if let Some(Value::String(text)) = value.pointer_mut(&pointer)
                && rule.fits_image("", text)
            {
                image.clone_into(text);
                changed += 1;
            }
        }
    }
    changed
}
