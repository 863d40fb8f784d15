//! A Bundle made from what a person or a build says.

use std::collections::BTreeMap;

use jiff::Timestamp;

use crate::kinds::{
    Artifacts, Bundle, BundleSpec, BundleType, GitCommit, ImageArtifact, Intent, Metadata, Provenance, labels,
};

/// Why a text is no image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error(
        "`{0}` names no image; write `repository:tag`, `repository:tag@sha256:…` or `name=repository:tag`"
    )]
    Empty(String),
    #[error("`{0}` has neither a tag nor a digest: a bundle is one exact version")]
    NoVersion(String),
    #[error("`{0}` is no digest: sha256 and 64 hexadecimal digits")]
    Digest(String),
}

/// Reads `[name=]repository[:tag][@digest]`. Without a name the repository is the name.
pub fn parse_image(text: &str) -> Result<ImageArtifact, ImageError> {
    let (name, rest) = match text.split_once('=') {
        Some((name, rest)) => (Some(name), rest),
        None => (None, text),
    };
    let (reference, digest) = match rest.split_once('@') {
        Some((reference, digest)) => (reference, Some(digest)),
        None => (rest, None),
    };
    let is_odd = |text: &str| text.is_empty() || text.chars().any(|c| c.is_whitespace() || c.is_control());
    if is_odd(reference) || name.is_some_and(is_odd) {
        return Err(ImageError::Empty(text.to_owned()));
    }
    if let Some(digest) = digest {
        let hex = digest.strip_prefix("sha256:").unwrap_or_default();
        let is_hex = |c: char| c.is_ascii_digit() || ('a'..='f').contains(&c);
        if hex.len() != 64 || !hex.chars().all(is_hex) {
            return Err(ImageError::Digest(digest.to_owned()));
        }
    }
    let mut image = ImageArtifact {
        name: String::new(),
        reference: reference.to_owned(),
        digest: digest.map(str::to_owned),
    };
    if image.version().is_empty() {
        return Err(ImageError::NoVersion(text.to_owned()));
    }
    image.name = name.map_or_else(|| image.repository().to_owned(), str::to_owned);
    Ok(image)
}

/// A Bundle to create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewBundle {
    pub pipeline: String,
    pub namespace: String,
    /// The name; made from pipeline, version and time when absent.
    pub name: Option<String>,
    /// The kind of artifacts; told by the artifacts when absent.
    pub kind: Option<BundleType>,
    pub images: Vec<ImageArtifact>,
    pub git_commit: Option<GitCommit>,
    pub provenance: Provenance,
    pub intent: Intent,
    pub labels: BTreeMap<String, String>,
    pub is_pinned: bool,
}

impl NewBundle {
    /// The Bundle, named after its version and the moment.
    pub fn into_bundle(self, now: Timestamp) -> Bundle {
        let kind = self.kind.unwrap_or(match (self.images.is_empty(), &self.git_commit) {
            (true, Some(_)) => BundleType::Config,
            (false, Some(_)) => BundleType::Mixed,
            _ => BundleType::Image,
        });
        let provenance = Some(self.provenance).filter(|provenance| *provenance != Provenance::default());
        let spec = BundleSpec {
            kind,
            pipeline: Some(self.pipeline.clone()),
            artifacts: Artifacts { images: self.images, git_commit: self.git_commit, helm_chart: None },
            provenance,
            intent: Some(self.intent).filter(|intent| *intent != Intent::default()),
            ..BundleSpec::default()
        };
        let name = self.name.unwrap_or_else(|| bundle_name(&self.pipeline, &spec.version(), now));
        let mut metadata = Metadata::named(&self.namespace, name);
        metadata.labels = self.labels;
        metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(&self.pipeline));
        if self.is_pinned {
            metadata.annotations.insert(labels::PIN.to_owned(), "true".to_owned());
        }
        Bundle::new(metadata, spec)
    }
}

/// `<pipeline>-<version>-<unix time>`, with a version as names of objects allow it.
pub(super) fn bundle_name(pipeline: &str, version: &str, now: Timestamp) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let version: String = version.chars().take(24).map(plain).collect();
    let version = version.trim_matches('-');
    let name = if version.is_empty() {
        format!("{pipeline}-{}", now.as_second())
    } else {
        format!("{pipeline}-{version}-{}", now.as_second())
    };
    labels::bounded_name(&name, &name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_read_with_name_tag_and_digest() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, name, reference) in [
            ("ghcr.io/acme/app:1.2", "ghcr.io/acme/app", "ghcr.io/acme/app:1.2"),
            ("app=ghcr.io/acme/app:1.2", "app", "ghcr.io/acme/app:1.2"),
            ("localhost:5000/app:1", "localhost:5000/app", "localhost:5000/app:1"),
        ] {
            let image = parse_image(text).expect(text);
            assert_eq!((image.name.as_str(), image.reference.as_str()), (name, reference));
        }
        let image = parse_image(&format!("app:1@{digest}")).expect("has a digest");
        assert_eq!((image.name.as_str(), image.digest), ("app", Some(digest)));
        for text in ["", "=x:1", "app", "localhost:5000/app", "app:1@sha256:abc", "a b:1"] {
            assert!(parse_image(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_bundle_is_named_after_its_version_and_time() {
        let now: Timestamp = "2026-04-10T12:00:00Z".parse().expect("is a time");
        assert_eq!(bundle_name("my-app", "v1.29.0_RC", now), "my-app-v1-29-0-rc-1775822400");
        assert_eq!(bundle_name("my-app", "", now), "my-app-1775822400");
    }
}
