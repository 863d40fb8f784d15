//! The differences of two bundles.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::kinds::{Bundle, ImageArtifact};

/// One artifact in both bundles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactDifference {
    pub artifact: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    pub changed: bool,
}

/// Compares the artifacts of two bundles, and where they come from.
pub fn compare_bundles(from: &Bundle, to: &Bundle) -> Vec<ArtifactDifference> {
    let mut rows = Vec::new();
    let mut row = |artifact: String, from: Option<String>, to: Option<String>| {
        if from.is_some() || to.is_some() {
            let changed = from != to;
            rows.push(ArtifactDifference { artifact, from, to, changed });
        }
    };
    let images = |bundle: &Bundle| bundle.spec.artifacts.images.clone();
    let names: BTreeSet<String> =
        images(from).into_iter().chain(images(to)).map(|image| image.name).collect();
    for name in names {
        let find = |bundle: &Bundle| images(bundle).into_iter().find(|image| image.name == name);
        let (one, two) = (find(from), find(to));
        let tag = |image: &Option<ImageArtifact>| image.as_ref().map(|image| image.version().to_owned());
        let digest = |image: &Option<ImageArtifact>| image.as_ref().and_then(|image| image.digest.clone());
        row(name.clone(), tag(&one), tag(&two));
        row(format!("{name} (digest)"), digest(&one), digest(&two));
    }
    let commit = |bundle: &Bundle| bundle.spec.artifacts.git_commit.as_ref().map(|commit| commit.sha.clone());
    row("configuration".to_owned(), commit(from), commit(to));
    let chart =
        |bundle: &Bundle| bundle.spec.artifacts.helm_chart.as_ref().and_then(|chart| chart.version.clone());
    row("chart".to_owned(), chart(from), chart(to));
    let origin = |bundle: &Bundle| bundle.spec.provenance.clone().unwrap_or_default();
    row("commit".to_owned(), origin(from).commit_sha, origin(to).commit_sha);
    row("author".to_owned(), origin(from).author, origin(to).author);
    row("CI run".to_owned(), origin(from).ci_run_url, origin(to).ci_run_url);
    rows
}
