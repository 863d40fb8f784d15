//! The forms an image takes in values: parts of a map or one text, with the digest wherever a chart has room for it.

use slipway_manifest::image::ImageReference;

use super::input::ImageInput;
use super::nodes::{ImageNode, NodeShape};

/// The keys of a place with their texts; no key is the place itself.
pub(super) type Parts = Vec<(Option<&'static str>, String)>;

/// The forms an image can take at a place, the best first.
pub(super) fn forms(node: &ImageNode, reference: &ImageReference) -> Vec<Parts> {
    let NodeShape::Parts { repository_key, has_registry, has_digest, .. } = node.shape else {
        return vec![vec![(None, reference.to_string())]];
    };
    let digest = reference.digest.clone().unwrap_or_default();
    let tag = reference.tag.clone().unwrap_or_default();
    let base = repository_parts(reference, repository_key, has_registry);
    let with = |more: &[(&'static str, String)]| {
        let mut parts = base.clone();
        parts.extend(more.iter().map(|(key, value)| (Some(*key), value.clone())));
        parts
    };
    let mut all = Vec::new();
    if has_digest {
        let mut more = vec![("digest", digest.clone())];
        if !tag.is_empty() {
            more.insert(0, ("tag", tag.clone()));
        }
        all.push(with(&more));
        // Some charts want the hex digits alone.
        let mut more = vec![("digest", digest.trim_start_matches("sha256:").to_owned())];
        if !tag.is_empty() {
            more.insert(0, ("tag", tag.clone()));
        }
        all.push(with(&more));
    }
    if !tag.is_empty() {
        all.push(with(&[("tag", format!("{tag}@{digest}"))]));
    }
    let mut last = with(&[("tag", digest.trim_start_matches("sha256:").to_owned())]);
    for (key, value) in &mut last {
        if *key == Some(repository_key) {
            value.push_str("@sha256");
        }
    }
    all.push(last);
    all
}

/// The parts of a place with the tag alone, which is what a chart derives labels from.
pub(super) fn tag_form(node: &ImageNode, reference: &ImageReference) -> Parts {
    let reference = ImageReference { digest: None, ..reference.clone() };
    let NodeShape::Parts { repository_key, has_registry, has_digest, .. } = node.shape else {
        return vec![(None, reference.to_string())];
    };
    let mut parts = repository_parts(&reference, repository_key, has_registry);
    parts.extend(reference.tag.map(|tag| (Some("tag"), tag)));
    if has_digest {
        parts.push((Some("digest"), String::new()));
    }
    parts
}

fn repository_parts(reference: &ImageReference, repository_key: &'static str, has_registry: bool) -> Parts {
    if !has_registry {
        return vec![(Some(repository_key), reference.repository.clone())];
    }
    let (registry, rest) = reference.split_registry();
    vec![
        (Some("registry"), registry.unwrap_or("docker.io").to_owned()),
        (Some(repository_key), rest.to_owned()),
    ]
}

/// The parts of a place as a mapping file writes them.
fn template_parts(node: &ImageNode) -> Vec<(Option<&'static str>, &'static str)> {
    match node.shape {
        NodeShape::Text => vec![(None, "{{repo}}:{{tag}}@{{digest}}")],
        NodeShape::Parts { repository_key, has_digest: true, .. } => {
            vec![(Some(repository_key), "{{repo}}"), (Some("tag"), "{{tag}}"), (Some("digest"), "{{digest}}")]
        }
        NodeShape::Parts { repository_key, .. } => {
            vec![(Some(repository_key), "{{repo}}"), (Some("tag"), "{{tag}}@{{digest}}")]
        }
    }
}

/// A text of a mapping file with the parts of an image in it.
pub(super) fn fill_template(text: &str, reference: &ImageReference) -> String {
    text.replace("{{repo}}", &reference.repository)
        .replace("{{tag}}", reference.tag.as_deref().unwrap_or_default())
        .replace("{{digest}}", reference.digest.as_deref().unwrap_or_default())
}

/// A text of a mapping file with the parts of an image in it but its digest.
pub(super) fn fill_tag_template(text: &str, reference: &ImageReference) -> String {
    let reference = ImageReference { digest: None, ..reference.clone() };
    fill_template(&text.replace("@{{digest}}", ""), &reference)
}

/// A mapping file that says what the user may mean: the first place, the others as comments.
pub(super) fn mapping_text(input: &ImageInput, candidates: &[ImageNode]) -> String {
    let mut text = format!("apiVersion: ktl.dev/image-map/v1\nimages:\n  {}:\n    set:\n", input.name);
    for (index, node) in candidates.iter().enumerate() {
        let mark = if index == 0 { "      " } else { "      # " };
        for (key, value) in template_parts(node) {
            text.push_str(&format!("{mark}\"{}\": \"{value}\"\n", node.path_of(key)));
        }
    }
    text
}

/// A mapping file that changes the rendered objects.
pub(super) fn post_render_text(input: &ImageInput) -> String {
    format!(
        "apiVersion: ktl.dev/image-map/v1\nimages:\n  {}:\n    postRender:\n      - {{ kind: Deployment, name: \"*\", container: \"*\" }}\n",
        input.name
    )
}

/// A mapping file that changes everything rendered from some repositories.
pub(super) fn repository_text(input: &ImageInput, repositories: &[String]) -> String {
    let mut text = format!("apiVersion: ktl.dev/image-map/v1\nimages:\n  {}:\n    postRender:\n", input.name);
    for repository in repositories {
        text.push_str(&format!("      - {{ repository: {repository} }}\n"));
    }
    text
}
