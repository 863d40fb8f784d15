//! `images`: new names, tags and digests for container images.

use regex::Regex;
use serde_json::Value;
use slipway_problem::{Location, Problems};

use crate::fieldspec::{FieldSpec, LeafKind};
use crate::resource::Resource;
use crate::transform::report_path;
use slipway_problem::ProblemReason;

/// A change of images: the match, and the new name, tag or digest.
#[derive(Clone, Debug)]
pub(crate) struct ImageChange {
    pub(crate) matches: Regex,
    pub(crate) new_name: String,
    pub(crate) new_tag: String,
    pub(crate) tag_suffix: String,
    pub(crate) digest: String,
    pub(crate) at: Location,
}

impl ImageChange {
    /// Compiles the match for an image name, which kustomize reads as a regular expression.
    pub(crate) fn compile_matcher(name: &str) -> Result<Regex, ProblemReason> {
        let pattern = format!("^{name}(:[a-zA-Z0-9_.{{}}-]*)?(@sha256:[a-zA-Z0-9_.{{}}-]*)?$");
        slipway_go::regexp::compile_text_pattern(&pattern, 1 << 20)
            .map_err(|_| ProblemReason::from(format!("image name `{name}` is not a regular expression")))
    }

    fn apply_to(&self, image: &mut String) {
        if !self.matches.is_match(image) {
            return;
        }
        let (name, tag, digest) = split_image(image);
        let (mut name, mut tag, mut digest) = (name.to_owned(), tag.to_owned(), digest.to_owned());
        if !self.new_name.is_empty() {
            self.new_name.clone_into(&mut name);
        }
        match (self.new_tag.is_empty(), self.digest.is_empty()) {
            (false, false) => {
                self.new_tag.clone_into(&mut tag);
                self.digest.clone_into(&mut digest);
            }
            (false, true) => {
                self.new_tag.clone_into(&mut tag);
                digest.clear();
            }
            (true, false) => {
                tag.clear();
                self.digest.clone_into(&mut digest);
            }
            (true, true) => {}
        }
        if !self.tag_suffix.is_empty() && self.new_tag.is_empty() && self.digest.is_empty() {
            tag.push_str(&self.tag_suffix);
            digest.clear();
        }
        *image = name;
        if !tag.is_empty() {
            image.push(':');
            image.push_str(&tag);
        }
        if !digest.is_empty() {
            image.push('@');
            image.push_str(&digest);
        }
    }
}

/// Splits an image into name, tag and digest; a port of the registry is not taken for a tag.
pub(crate) fn split_image(image: &str) -> (&str, &str, &str) {
    let (rest, digest) = match image.split_once('@') {
        Some((rest, digest)) => (rest, digest),
        None => (image, ""),
    };
    let path = rest.find('/').map_or(0, |slash| slash + 1);
    match rest[path..].find(':') {
        Some(colon) => (&rest[..path + colon], &rest[path + colon + 1..], digest),
        None => (rest, "", digest),
    }
}

pub(crate) fn change_images(
    resources: &mut [Resource],
    change: &ImageChange,
    fields: &[FieldSpec],
    problems: &mut Problems,
) {
    for resource in resources {
        // A definition's schema may well have a property called `containers`.
        if resource.kind() == "CustomResourceDefinition" {
            continue;
        }
        for value in resource.value.values_mut() {
            in_containers(value, change);
        }
        if let Some(list) =
            ["containers", "initContainers"].iter().find(|key| resource.value.contains_key(**key))
            && let Some(Value::Array(list)) = resource.value.get_mut(*list)
        {
            in_list(list, change);
        }
        let gvk = resource.gvk();
        for field in fields.iter().filter(|field| field.applies_to(&gvk)) {
            let set = &mut |value: &mut Value| {
                if let Value::String(image) = value {
                    change.apply_to(image);
                }
            };
            if let Err(error) = field.visit_values(resource, LeafKind::Scalar, set) {
                report_path(problems, resource, &change.at, &error);
            }
        }
    }
}

/// Every list called `containers` or `initContainers`, at any depth of any kind.
fn in_containers(value: &mut Value, change: &ImageChange) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match value {
                    Value::Array(list) if key == "containers" || key == "initContainers" => {
                        in_list(list, change);
                    }
                    _ => in_containers(value, change),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| in_containers(value, change)),
        _ => {}
    }
}

fn in_list(list: &mut [Value], change: &ImageChange) {
    for container in list {
        if let Some(Value::String(image)) = container.get_mut("image") {
            change.apply_to(image);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_split() {
        for (image, parts) in [
            ("nginx", ("nginx", "", "")),
            ("nginx:1", ("nginx", "1", "")),
            ("reg.io:5000/a/b", ("reg.io:5000/a/b", "", "")),
            ("reg.io:5000/a/b:1@sha256:zz", ("reg.io:5000/a/b", "1", "sha256:zz")),
            ("a@sha256:zz", ("a", "", "sha256:zz")),
        ] {
            assert_eq!(split_image(image), parts, "{image}");
        }
    }
}
