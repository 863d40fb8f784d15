//! Telling versions apart by their artifacts.

use crate::kinds::{BundleSpec, ImageArtifact};

/// Two bundles promote the same version: the same images, commit and chart.
pub(super) fn same_version(one: &BundleSpec, other: &BundleSpec) -> bool {
    let commit = |spec: &BundleSpec| spec.artifacts.git_commit.as_ref().map(|commit| commit.sha.clone());
    one.kind == other.kind
        && same_images(&one.artifacts.images, &other.artifacts.images)
        && same_commit(commit(one).as_deref(), commit(other).as_deref())
        && one.artifacts.helm_chart == other.artifacts.helm_chart
}

fn same_images(one: &[ImageArtifact], other: &[ImageArtifact]) -> bool {
    one.len() == other.len() && one.iter().all(|image| other.iter().any(|known| same_image(image, known)))
}

fn same_image(one: &ImageArtifact, other: &ImageArtifact) -> bool {
    let same_content = match (&one.digest, &other.digest) {
        (Some(one), Some(other)) => one == other,
        // A tag may move; without both digests it is all there is.
        _ => one.tag() == other.tag(),
    };
    one.repository() == other.repository() && same_content
}

/// Commits may be written short.
fn same_commit(one: Option<&str>, other: Option<&str>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => one.starts_with(other) || other.starts_with(one),
        (one, other) => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::{Artifacts, GitCommit};

    fn images(images: &[(&str, Option<&str>)]) -> BundleSpec {
        let artifact = |(reference, digest): &(&str, Option<&str>)| ImageArtifact {
            name: reference.to_string(),
            reference: reference.to_string(),
            digest: digest.map(str::to_owned),
        };
        let images = images.iter().map(artifact).collect();
        BundleSpec { artifacts: Artifacts { images, ..Artifacts::default() }, ..BundleSpec::default() }
    }

    #[test]
    fn a_digest_tells_more_than_a_tag() {
        for (one, other, expected) in [
            (images(&[("a:1", None)]), images(&[("a:1", None)]), true),
            (images(&[("a:1", None)]), images(&[("a:2", None)]), false),
            (images(&[("a:1", Some("x"))]), images(&[("a:1", Some("y"))]), false),
            (images(&[("a:1", Some("x"))]), images(&[("a:latest", Some("x"))]), true),
            (images(&[("a:1", Some("x"))]), images(&[("a:1", None)]), true),
            (images(&[("a:1", None), ("b:1", None)]), images(&[("b:1", None), ("a:1", None)]), true),
            (images(&[("a:1", None), ("b:1", None)]), images(&[("a:1", None)]), false),
        ] {
            assert_eq!(same_version(&one, &other), expected, "{one:?} {other:?}");
        }
        let commit = |sha: &str| {
            let git_commit = Some(GitCommit { sha: sha.to_owned(), ..GitCommit::default() });
            BundleSpec {
                artifacts: Artifacts { git_commit, ..Artifacts::default() },
                ..BundleSpec::default()
            }
        };
        assert!(same_version(&commit("abcdef0123"), &commit("abcdef0")));
        assert!(!same_version(&commit("abcdef0"), &commit("1234567")));
    }
}
