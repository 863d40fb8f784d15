//! Units in OCI registries, and digests of images from them.

use std::path::Path;

use futures::future::BoxFuture;
use serde_json::Map;
use slipway_chart::net::{
    ArtifactLayer, Credentials, HttpClient, OciReference, PushedArtifact, find_manifest, pull_artifact,
    push_artifact,
};

use slipway_manifest::image::ImageReference;

use crate::container::{ImagePlatform, OpenOptions, UnitFile};
use crate::error::UnitError;
use crate::image::{ImageResolver, ResolvedImage};

/// The type of a unit in a registry.
pub const ARTIFACT_TYPE: &str = "application/vnd.ktl.unit.v1";
const LAYER_TYPE: &str = "application/vnd.ktl.unit.v1+sqlite3";

/// Pushes a unit as it is, with its ledger.
pub async fn push_unit(
    unit: &UnitFile,
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
) -> Result<PushedArtifact, UnitError> {
    let content = slipway_problem::read_file_within(unit.path(), crate::container::connection::LARGEST_FILE)
        .map_err(UnitError::io("read", unit.path()))?;
    let title = unit.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
    let annotations = Map::from_iter([
        ("dev.ktl.unit.digest".to_owned(), unit.digest().into()),
        ("org.opencontainers.image.title".to_owned(), unit.rows().chart.name.as_str().into()),
        ("org.opencontainers.image.version".to_owned(), unit.rows().chart.version.as_str().into()),
    ]);
    let layer = ArtifactLayer {
        artifact_type: ARTIFACT_TYPE,
        media_type: LAYER_TYPE,
        title: &title,
        content: &content,
        annotations,
    };
    push_artifact(client, credentials, reference, &layer)
        .await
        .map_err(|source| UnitError::Registry { doing: format!("push to {reference}"), source })
}

/// Pulls a unit into a file and opens it: a file that is no sound unit is not kept.
pub async fn pull_unit(
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
    output: &Path,
    options: &OpenOptions,
) -> Result<UnitFile, UnitError> {
    let pulled = pull_artifact(client, credentials, reference, ARTIFACT_TYPE)
        .await
        .map_err(|source| UnitError::Registry { doing: format!("pull {reference}"), source })?;
    let mut name = output.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let temporary = output.with_file_name(name);
    crate::container::write_private(&temporary, &pulled.content)?;
    let opened = UnitFile::open(&temporary, options);
    if let Err(error) = opened {
        let _ = std::fs::remove_file(&temporary);
        return Err(error);
    }
    crate::container::move_in_place(&temporary, output)?;
    UnitFile::open(output, options)
}

/// Asks registries for digests.
pub struct RegistryImages<F> {
    connect: F,
}

impl<F> RegistryImages<F>
where
    F: Fn(&str) -> Result<(HttpClient, Credentials), slipway_chart::ChartError> + Send + Sync,
{
    /// `connect` gives the client and the logins for a host.
    pub fn new(connect: F) -> Self {
        Self { connect }
    }

    /// The manifest or index of an image.
    pub async fn find(
        &self,
        reference: &ImageReference,
    ) -> Result<slipway_chart::net::FoundManifest, UnitError> {
        let failed =
            |source| UnitError::Registry { doing: format!("ask for the digest of {reference}"), source };
        let mut full = match reference.registry() {
            // Docker Hub answers under another name than it is known by.
            "docker.io" => format!("registry-1.docker.io/{}", reference.path()),
            _ => reference.full_repository(),
        };
        if let Some(tag) = &reference.tag {
            full.push_str(&format!(":{tag}"));
        }
        let parsed = OciReference::parse(&full).map_err(failed)?;
        let failed =
            |source| UnitError::Registry { doing: format!("ask for the digest of {reference}"), source };
        let (client, credentials) = (self.connect)(&parsed.host).map_err(failed)?;
        let failed =
            |source| UnitError::Registry { doing: format!("ask for the digest of {reference}"), source };
        find_manifest(&client, &credentials, &parsed).await.map_err(failed)
    }
}

impl<F> ImageResolver for RegistryImages<F>
where
    F: Fn(&str) -> Result<(HttpClient, Credentials), slipway_chart::ChartError> + Send + Sync,
{
    fn resolve<'a>(
        &'a self,
        reference: &'a ImageReference,
    ) -> BoxFuture<'a, Result<ResolvedImage, UnitError>> {
        Box::pin(async move {
            let found = self.find(reference).await?;
            let listed = found.platforms.into_iter().zip(found.children);
            let platforms =
                listed.map(|(platform, digest)| ImagePlatform { platform, digest: Some(digest) }).collect();
            Ok(ResolvedImage { digest: found.digest, media_type: found.media_type, platforms })
        })
    }
}
