//! The proof that a workload runs the images of a bundle.

use serde_json::Value;
use slipway_manifest::object;

use crate::kinds::{ImageArtifact, labels::short_hash};

/// The images of a workload compared with those of a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ImageMatch {
    /// Every image of the bundle that the workload uses is the one of the bundle.
    Matches,
    /// An image is another than the bundle's.
    Differs { running: String, wanted: String },
    /// The workload uses none of the bundle's images.
    Unrelated,
}

/// Compares the images of a workload with those wanted.
pub(super) fn compare_images(running: &[String], wanted: &[ImageArtifact]) -> ImageMatch {
    let mut found = ImageMatch::Unrelated;
    for image in wanted {
        let exact = |running: &&String| same_repository(split(running).repository, image.repository());
        // A mirror of the registry has another host and path, but seldom another name.
        let named =
            |running: &&String| last_segment(split(running).repository) == last_segment(image.repository());
        let mut candidates: Vec<&String> = running.iter().filter(exact).collect();
        if candidates.is_empty() {
            candidates = running.iter().filter(named).collect();
        }
        // While a rollout lasts, a list may hold the old and the new one.
        if candidates.iter().any(|running| is_version(running, image)) {
            found = ImageMatch::Matches;
        } else if let Some(running) = candidates.first() {
            return ImageMatch::Differs { running: (*running).clone(), wanted: wanted_text(image) };
        }
    }
    found
}

fn wanted_text(image: &ImageArtifact) -> String {
    let reference = if image.reference.is_empty() { &image.name } else { &image.reference };
    match &image.digest {
        Some(digest) if !reference.contains('@') => format!("{reference}@{digest}"),
        _ => reference.clone(),
    }
}

/// The parts of an image reference.
struct ImageParts<'a> {
    repository: &'a str,
    tag: Option<&'a str>,
    digest: Option<&'a str>,
}

fn split(image: &str) -> ImageParts<'_> {
    let (rest, digest) = image.split_once('@').map_or((image, None), |(rest, digest)| (rest, Some(digest)));
    // A colon before the last slash belongs to the port of the registry.
    match rest.rsplit_once(':') {
        Some((repository, tag)) if !tag.contains('/') => ImageParts { repository, tag: Some(tag), digest },
        _ => ImageParts { repository: rest, tag: None, digest },
    }
}

fn is_version(running: &str, wanted: &ImageArtifact) -> bool {
    let running = split(running);
    match (running.digest, wanted.digest.as_deref()) {
        (Some(running), Some(wanted)) => running == wanted,
        // What runs names no digest, or nobody asked for one: the tag decides.
        _ => wanted.tag().is_some_and(|tag| running.tag.unwrap_or("latest") == tag),
    }
}

/// Compares repositories as container runtimes do: `nginx` is `docker.io/library/nginx`.
fn same_repository(one: &str, other: &str) -> bool {
    fn plain(repository: &str) -> &str {
        let repository = repository.strip_prefix("index.docker.io/").unwrap_or(repository);
        let repository = repository.strip_prefix("docker.io/").unwrap_or(repository);
        repository.strip_prefix("library/").unwrap_or(repository)
    }
    plain(one) == plain(other)
}

fn last_segment(repository: &str) -> &str {
    repository.rsplit('/').next().unwrap_or(repository)
}

/// The pod template of a workload, wherever its kind keeps it.
fn pod_template(workload: &Value) -> Option<&Value> {
    let path = match object::kind(workload) {
        Some("CronJob") => "/spec/jobTemplate/spec/template",
        _ => "/spec/template",
    };
    workload.pointer(path)
}

/// The images of a workload's pod template.
pub(super) fn template_images(workload: &Value) -> Vec<String> {
    let spec = pod_template(workload).map_or(&Value::Null, |template| &template["spec"]);
    let containers = ["initContainers", "containers"].into_iter().filter_map(|field| spec[field].as_array());
    containers.flatten().filter_map(|container| container["image"].as_str().map(str::to_owned)).collect()
}

/// A hash of a workload's pod template.
pub(super) fn template_hash(workload: &Value) -> Option<String> {
    pod_template(workload).map(|template| short_hash(&template.to_string(), 16))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(reference: &str, digest: Option<&str>) -> ImageArtifact {
        ImageArtifact { name: "app".into(), reference: reference.into(), digest: digest.map(str::to_owned) }
    }

    #[test]
    fn an_image_is_proven_by_repository_and_tag_or_digest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        let other = format!("sha256:{}", "b".repeat(64));
        for (running, wanted, expected) in [
            ("ghcr.io/acme/app:1.29.0", image("ghcr.io/acme/app:1.29.0", None), "matches"),
            ("ghcr.io/acme/app:1.28.0", image("ghcr.io/acme/app:1.29.0", None), "differs"),
            ("ghcr.io:5000/acme/app:1.29.0", image("ghcr.io:5000/acme/app:1.29.0", None), "matches"),
            ("docker.io/library/nginx:1.2", image("nginx:1.2", None), "matches"),
            ("app:1", image("app:1", Some(&digest)), "matches"),
            (&format!("app@{digest}"), image("app:1", Some(&digest)), "matches"),
            (&format!("app:1@{other}"), image("app:1", Some(&digest)), "differs"),
            (&format!("app@{digest}"), image("app:1", None), "differs"),
            ("mirror.local/cache/app:1", image("ghcr.io/acme/app:1", None), "matches"),
            ("mirror.local/cache/app:2", image("ghcr.io/acme/app:1", None), "differs"),
            ("postgres:16", image("ghcr.io/acme/app:1", None), "unrelated"),
            ("app", image("app:latest", None), "matches"),
        ] {
            let found = match compare_images(&[running.to_owned()], std::slice::from_ref(&wanted)) {
                ImageMatch::Matches => "matches",
                ImageMatch::Differs { .. } => "differs",
                ImageMatch::Unrelated => "unrelated",
            };
            assert_eq!(found, expected, "{running} {wanted:?}");
        }
    }

    #[test]
    fn an_exact_repository_goes_before_a_like_named_one() {
        let running = ["ghcr.io/one/app:1".to_owned(), "ghcr.io/two/app:7".to_owned()];
        let wanted = [image("ghcr.io/one/app:1", None), image("ghcr.io/two/app:7", None)];
        assert_eq!(compare_images(&running, &wanted), ImageMatch::Matches);
        let wanted = [image("ghcr.io/one/app:1", None), image("ghcr.io/two/app:1", None)];
        assert!(matches!(compare_images(&running, &wanted), ImageMatch::Differs { .. }));
    }
}
