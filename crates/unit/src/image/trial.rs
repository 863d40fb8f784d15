//! Trials: the images of a rendering with a binding in it, held against those of the rendering without.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use slipway_manifest::image::ImageReference;
use slipway_manifest::{ObjectRef, object};

use super::uses::container_images;

/// The shortest part of a digest that cannot be there by chance.
const TELLING: usize = 12;

/// A container of a rendered object, or a field of a custom resource that names an image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ImagePlace {
    object: String,
    container: String,
}

impl fmt::Display for ImagePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.object, self.container)
    }
}

/// The image of every place of a rendering.
#[derive(Debug, Default)]
pub(super) struct RenderedImages(BTreeMap<ImagePlace, String>);

/// The outcome of a trial.
pub(super) enum Trial {
    /// Every place that changed has the wanted image.
    Proven(Vec<ImagePlace>),
    /// No place changed.
    Unused,
    /// A place changed to something else, or something besides images did.
    Wrong,
}

impl RenderedImages {
    pub(super) fn of(objects: &[Value]) -> Self {
        let mut all = BTreeMap::new();
        let name = |index: usize| {
            objects.get(index).map(|object| ObjectRef::of(object).to_string()).unwrap_or_default()
        };
        for found in container_images(objects) {
            all.insert(ImagePlace { object: name(found.object), container: found.container }, found.image);
        }
        for (index, value) in objects.iter().enumerate() {
            for (field, image) in resource_images(value) {
                all.insert(ImagePlace { object: name(index), container: field }, image.to_owned());
            }
        }
        Self(all)
    }

    /// The places whose image is another than before; those that came or went are among them.
    pub(super) fn changed_since(&self, before: &Self) -> Vec<ImagePlace> {
        let gone = before.0.keys().filter(|place| !self.0.contains_key(*place));
        let other = self.0.iter().filter(|(place, image)| before.0.get(*place) != Some(image));
        gone.chain(other.map(|(place, _)| place)).cloned().collect()
    }

    /// The places that name an image of a repository.
    pub(super) fn of_repository(&self, repository: &str) -> Vec<ImagePlace> {
        self.0
            .iter()
            .filter(|(_, image)| is_from(image, repository))
            .map(|(place, _)| place.clone())
            .collect()
    }

    /// The repositories with a last part that are rendered.
    pub(super) fn repositories_named(&self, name: &str) -> BTreeSet<String> {
        let references = self.0.values().filter_map(|image| image.parse::<ImageReference>().ok());
        references.filter(|found| found.short_name() == name).map(|found| found.full_repository()).collect()
    }

    /// Compares a rendering with this one: only places of `repository` may have changed, and all of them to what is wanted.
    pub(super) fn judge(
        &self,
        objects: &[Value],
        after: &Self,
        wanted: &ImageReference,
        repository: &str,
    ) -> Trial {
        let is_wanted = |image: &String| {
            image.parse::<ImageReference>().is_ok_and(|found| {
                found.full_repository() == wanted.full_repository() && found.digest == wanted.digest
            })
        };
        let changed = after.changed_since(self);
        if changed.is_empty() {
            // It may be there already, written by somebody who knew.
            let already = after.0.iter().filter(|(_, image)| is_wanted(image));
            let already: Vec<ImagePlace> = already.map(|(place, _)| place.clone()).collect();
            return if already.is_empty() { Trial::Unused } else { Trial::Proven(already) };
        }
        let was_of_repository = |place: &ImagePlace| {
            repository.is_empty() || self.0.get(place).is_some_and(|image| is_from(image, repository))
        };
        let is_right =
            |place: &ImagePlace| was_of_repository(place) && after.0.get(place).is_some_and(is_wanted);
        let hex = wanted.digest.as_deref().unwrap_or_default().trim_start_matches("sha256:");
        let hex = hex.get(..TELLING).unwrap_or(hex);
        if changed.iter().all(is_right) && !objects.iter().any(|object| has_label_with(object, hex)) {
            return Trial::Proven(changed);
        }
        Trial::Wrong
    }
}

/// Tells that an image is of a repository, given in full.
pub(super) fn is_from(image: &str, repository: &str) -> bool {
    image.parse::<ImageReference>().is_ok_and(|found| found.full_repository() == repository)
}

/// The fields of a custom resource that name an image, by their paths: operators run what stands there.
pub(super) fn resource_images(value: &Value) -> Vec<(String, &str)> {
    let gvk = object::gvk(value);
    let is_custom = gvk.group.contains('.') && !gvk.group.ends_with(".k8s.io");
    let mut found = Vec::new();
    if is_custom && container_images([value]).is_empty() {
        visit_fields(value, &mut String::new(), &mut found);
    }
    found
}

fn visit_fields<'v>(value: &'v Value, path: &mut String, found: &mut Vec<(String, &'v str)>) {
    let length = path.len();
    let mut visit = |key: &str, child: &'v Value| {
        if key.contains(['.', '/', '~']) {
            return;
        }
        if length > 0 {
            path.push('.');
        }
        path.push_str(key);
        match child {
            Value::String(text) if key == "image" || key.ends_with("Image") => {
                let reference = text.parse::<ImageReference>();
                if reference.is_ok_and(|image| image.tag.is_some() || image.digest.is_some()) {
                    found.push((path.clone(), text));
                }
            }
            child => visit_fields(child, path, found),
        }
        path.truncate(length);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, child)| visit(key, child)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, child)| visit(&index.to_string(), child));
        }
        _ => {}
    }
}

/// Tells that a label or selector holds a part of a digest, which makes it invalid: charts write tags into labels.
fn has_label_with(value: &Value, hex: &str) -> bool {
    match value {
        Value::Object(map) => map.iter().any(|(key, child)| match (key.as_str(), child) {
            ("labels" | "matchLabels" | "selector", Value::Object(labels)) => {
                labels.values().any(|label| match label {
                    Value::String(text) => text.contains(hex) || text.contains("@sha256"),
                    nested => has_label_with(nested, hex),
                })
            }
            (_, child) => has_label_with(child, hex),
        }),
        Value::Array(items) => items.iter().any(|item| has_label_with(item, hex)),
        _ => false,
    }
}
