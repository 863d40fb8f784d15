//! Trials: the images and labels of a rendering with a binding in it, held against those of the rendering without.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;
use slipway_manifest::image::ImageReference;
use slipway_manifest::{ObjectRef, object};

use super::uses::container_images;

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

/// A label of a rendered object, of its pods, or of a selector.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct LabelPlace {
    object: String,
    /// The keys above the label.
    path: String,
    label: String,
}

impl fmt::Display for LabelPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}[{}]", self.object, self.path, self.label)
    }
}

/// Rendered objects with the image of every place among them.
#[derive(Debug, Default)]
pub(super) struct Rendering {
    pub(super) objects: Vec<Value>,
    images: BTreeMap<ImagePlace, String>,
}

/// The outcome of a trial.
pub(super) enum Trial {
    Proven(ProvenPlaces),
    /// No place changed.
    Unused,
    Wrong(WrongRendering),
}

/// The places that have the wanted image.
pub(super) struct ProvenPlaces {
    pub(super) images: Vec<ImagePlace>,
    /// Labels the chart derives from the tag: they are what the tag alone makes them.
    pub(super) derived_labels: Vec<LabelPlace>,
}

/// The reason why a binding is not to be kept.
pub(super) enum WrongRendering {
    /// The chart refuses the values.
    Refused,
    /// A place changed to something else, or belongs to another image.
    Images,
    /// Labels are not what the tag alone makes them: the digest got into them, or the chart no longer understands its tag.
    Labels(Vec<LabelPlace>),
}

impl Rendering {
    pub(super) fn of(objects: Vec<Value>) -> Self {
        let mut images = BTreeMap::new();
        let name = |index: usize| {
            objects.get(index).map(|object| ObjectRef::of(object).to_string()).unwrap_or_default()
        };
        for found in container_images(&objects) {
            images.insert(ImagePlace { object: name(found.object), container: found.container }, found.image);
        }
        for (index, value) in objects.iter().enumerate() {
            for (field, image) in resource_images(value) {
                images.insert(ImagePlace { object: name(index), container: field }, image.to_owned());
            }
        }
        Self { objects, images }
    }

    /// The places whose image is another than before; those that came or went are among them.
    pub(super) fn changed_images(&self, before: &Self) -> Vec<ImagePlace> {
        changed_keys(&before.images, &self.images)
    }

    /// The labels that are other than in another rendering; those that came or went are among them.
    pub(super) fn changed_labels(&self, before: &Self) -> Vec<LabelPlace> {
        changed_keys(&before.labels(), &self.labels())
    }

    fn labels(&self) -> BTreeMap<LabelPlace, &str> {
        let mut found = BTreeMap::new();
        for value in &self.objects {
            visit_labels(value, &ObjectRef::of(value).to_string(), &mut Vec::new(), &mut found);
        }
        found
    }

    /// The places that name an image of a repository.
    pub(super) fn of_repository(&self, repository: &str) -> Vec<ImagePlace> {
        self.images
            .iter()
            .filter(|(_, image)| is_from(image, repository))
            .map(|(place, _)| place.clone())
            .collect()
    }

    /// The repositories with a last part that are rendered.
    pub(super) fn repositories_named(&self, name: &str) -> BTreeSet<String> {
        let references = self.images.values().filter_map(|image| image.parse::<ImageReference>().ok());
        references.filter(|found| found.short_name() == name).map(|found| found.full_repository()).collect()
    }

    /// Compares the images of a rendering with those of this one: only places of `repository` may have changed, and all of
    /// them to what is wanted.
    pub(super) fn judge_images(&self, after: &Self, wanted: &ImageReference, repository: &str) -> Trial {
        let proven = |images| Trial::Proven(ProvenPlaces { images, derived_labels: Vec::new() });
        let is_wanted = |image: &String| {
            image.parse::<ImageReference>().is_ok_and(|found| {
                found.full_repository() == wanted.full_repository() && found.digest == wanted.digest
            })
        };
        let changed = after.changed_images(self);
        if changed.is_empty() {
            // It may be there already, written by somebody who knew.
            let already = after.images.iter().filter(|(_, image)| is_wanted(image));
            let already: Vec<ImagePlace> = already.map(|(place, _)| place.clone()).collect();
            return if already.is_empty() { Trial::Unused } else { proven(already) };
        }
        let was_of_repository = |place: &ImagePlace| {
            repository.is_empty() || self.images.get(place).is_some_and(|image| is_from(image, repository))
        };
        let is_right =
            |place: &ImagePlace| was_of_repository(place) && after.images.get(place).is_some_and(is_wanted);
        if changed.iter().all(is_right) { proven(changed) } else { Trial::Wrong(WrongRendering::Images) }
    }
}

/// The keys with another value, or with none on one side.
fn changed_keys<K: Ord + Clone, V: PartialEq>(before: &BTreeMap<K, V>, after: &BTreeMap<K, V>) -> Vec<K> {
    let gone = before.keys().filter(|key| !after.contains_key(*key));
    let other = after.iter().filter(|(key, value)| before.get(*key) != Some(value));
    gone.chain(other.map(|(key, _)| key)).cloned().collect()
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

/// Collects the labels and selectors of an object, wherever they stand in it.
fn visit_labels<'v>(
    value: &'v Value,
    object: &str,
    path: &mut Vec<String>,
    found: &mut BTreeMap<LabelPlace, &'v str>,
) {
    let mut visit = |key: String, child: &'v Value| {
        path.push(key);
        visit_labels(child, object, path, found);
        path.pop();
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, child)| visit(key.clone(), child)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(index, child)| visit(index.to_string(), child));
        }
        Value::String(text) => {
            if let [above @ .., label] = path.as_slice()
                && let Some("labels" | "matchLabels" | "selector") = above.last().map(String::as_str)
            {
                let place =
                    LabelPlace { object: object.to_owned(), path: above.join("."), label: label.clone() };
                found.insert(place, text);
            }
        }
        _ => {}
    }
}
