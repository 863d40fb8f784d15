//! Images of rendered pods.

use serde_json::Value;
use slipway_manifest::object;
use slipway_manifest::pods::{CONTAINER_LISTS, pod_containers, template_path};

/// The image of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContainerImage {
    /// The position of its object among the rendered ones.
    pub(crate) object: usize,
    /// `name`, `init:name` or `ephemeral:name`.
    pub(crate) container: String,
    pub(crate) image: String,
}

/// The name of a container among all of a pod.
fn container_name(list: &str, name: &str) -> String {
    match list {
        "initContainers" => format!("init:{name}"),
        "ephemeralContainers" => format!("ephemeral:{name}"),
        _ => name.to_owned(),
    }
}

/// Every image of the pods of some objects, in their order.
pub(crate) fn container_images<'v>(objects: impl IntoIterator<Item = &'v Value>) -> Vec<ContainerImage> {
    let mut found = Vec::new();
    for (index, value) in objects.into_iter().enumerate() {
        for container in pod_containers(&object::gvk(value), value) {
            if let Some(image) = container.image().filter(|image| !image.is_empty()) {
                let name = container_name(container.list, container.name());
                found.push(ContainerImage { object: index, container: name, image: image.to_owned() });
            }
        }
    }
    found
}

/// Changes the image of every container for which `change` gives another; counts those it gives one for.
pub(crate) fn change_images(
    value: &mut Value,
    mut change: impl FnMut(&str, &str) -> Option<String>,
) -> usize {
    let mut count = 0;
    let path = template_path(&object::gvk(value)).unwrap_or(&["spec", "template"]);
    let template = path.iter().try_fold(value, |value, field| value.get_mut(field));
    let Some(spec) = template.and_then(|template| template.get_mut("spec")) else { return 0 };
    for list in CONTAINER_LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let name =
                container_name(list, container.get("name").and_then(Value::as_str).unwrap_or_default());
            let Some(image) = container.get("image").and_then(Value::as_str) else { continue };
            if let Some(other) = change(&name, image) {
                container["image"] = other.into();
                count += 1;
            }
        }
    }
    count
}
