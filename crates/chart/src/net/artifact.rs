//! Other things than charts in OCI registries: artifacts of one layer, and manifests of images by tag.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use slipway_http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use slipway_http::{HttpClient, HttpRequest, Method, StatusCode};

use super::credentials::{Credentials, Login};
use super::oci::{LARGEST_MANIFEST, MANIFEST, RegistrySession, publish_error};
use super::reference::OciReference;
use crate::deps::{go_json, sha256_hex};
use crate::error::ChartError;

/// The kinds of manifest a reference may stand for, indexes first.
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
     application/vnd.docker.distribution.manifest.list.v2+json, application/vnd.oci.image.manifest.v1+json, \
     application/vnd.docker.distribution.manifest.v2+json";
/// The configuration of an artifact that needs none.
const EMPTY_CONFIG: (&str, &[u8]) = ("application/vnd.oci.empty.v1+json", b"{}");
/// The most layers that are read of an artifact.
const MOST_LAYERS: usize = 64;

/// The layer of an artifact.
#[derive(Clone, Debug)]
pub struct ArtifactLayer<'l> {
    /// The type of the artifact as a whole.
    pub artifact_type: &'l str,
    pub media_type: &'l str,
    /// The name a file of it is given.
    pub title: &'l str,
    pub content: &'l [u8],
    pub annotations: Map<String, Value>,
}

/// An artifact pushed to a registry.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct PushedArtifact {
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
}

/// An artifact pulled from a registry.
#[derive(Clone, Debug)]
pub struct PulledArtifact {
    pub content: Vec<u8>,
    /// Of the manifest.
    pub digest: String,
}

/// A layer of an artifact with its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PulledLayer {
    pub media_type: String,
    pub digest: String,
    pub annotations: BTreeMap<String, String>,
    pub content: Vec<u8>,
}

/// A manifest or index a registry has under a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundManifest {
    pub digest: String,
    pub media_type: String,
    /// `os/architecture` of each image of an index; empty for a single image.
    pub platforms: Vec<String>,
    /// The digest of the manifest for each platform of an index.
    pub children: Vec<String>,
}

/// Puts an artifact of one layer into a registry under the reference's tag.
pub async fn push_artifact(
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
    layer: &ArtifactLayer<'_>,
) -> Result<PushedArtifact, ChartError> {
    let Some(tag) = &reference.tag else { return publish_error(format!("{reference}: a tag is needed")) };
    let mut session =
        RegistrySession::new(client, credentials.login_for(&reference.host), reference, "pull,push")?;
    let described = |media_type: &str, content: &[u8]| json!({"mediaType": media_type, "digest": format!("sha256:{}", sha256_hex(content)), "size": content.len()});
    let (config_type, config) = EMPTY_CONFIG;
    session.upload_blob(config, &format!("sha256:{}", sha256_hex(config))).await?;
    session.upload_blob(layer.content, &format!("sha256:{}", sha256_hex(layer.content))).await?;
    let mut content = described(layer.media_type, layer.content);
    content["annotations"] = json!({"org.opencontainers.image.title": layer.title});
    let manifest = json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "artifactType": layer.artifact_type,
        "config": described(config_type, config),
        "layers": [content],
        "annotations": layer.annotations,
    });
    let bytes = go_json(&manifest).into_bytes();
    let digest = format!("sha256:{}", sha256_hex(&bytes));
    let mut request = HttpRequest::new(Method::PUT, session.repository_url(&format!("manifests/{tag}"))?);
    request.headers.insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST));
    request.content = Some(bytes);
    let answer = session.send_authorized(request).await?;
    if !answer.status_code().is_success() {
        return publish_error(format!("{reference}: {}", answer.status_code()));
    }
    Ok(PushedArtifact { reference: reference.to_string(), digest })
}

/// Fetches the layer of an artifact by tag or digest; every digest is checked.
pub async fn pull_artifact(
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
    artifact_type: &str,
) -> Result<PulledArtifact, ChartError> {
    let mut session =
        RegistrySession::new(client, credentials.login_for(&reference.host), reference, "pull")?;
    let Some((manifest, digest)) = fetch_manifest(&mut session, reference, MANIFEST).await? else {
        return publish_error(format!("{reference}: not found"));
    };
    if manifest.get("artifactType").and_then(Value::as_str) != Some(artifact_type) {
        return publish_error(format!("{reference} is not of type {artifact_type}"));
    }
    let layer = manifest.pointer("/layers/0/digest").and_then(Value::as_str);
    let Some(layer) = layer else { return publish_error(format!("{reference} has no layer")) };
    Ok(PulledArtifact { content: session.fetch_blob(layer).await?, digest })
}

/// Fetches the layers of one type of an artifact; `None` where the registry has no such artifact. Digests are checked.
pub async fn pull_layers(
    client: &HttpClient,
    login: Option<Login>,
    reference: &OciReference,
    media_type: &str,
) -> Result<Option<Vec<PulledLayer>>, ChartError> {
    let mut session = RegistrySession::new(client, login, reference, "pull")?;
    let Some((manifest, _)) = fetch_manifest(&mut session, reference, MANIFESTS).await? else {
        return Ok(None);
    };
    let mut layers = Vec::new();
    for layer in manifest["layers"].as_array().into_iter().flatten().take(MOST_LAYERS) {
        let text = |field: &str| layer[field].as_str().unwrap_or_default().to_owned();
        if text("mediaType") != media_type {
            continue;
        }
        let annotations = layer["annotations"].as_object().into_iter().flatten();
        let annotations =
            annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())));
        let digest = text("digest");
        let content = session.fetch_blob(&digest).await?;
        layers.push(PulledLayer {
            media_type: text("mediaType"),
            digest,
            annotations: annotations.collect(),
            content,
        });
    }
    Ok(Some(layers))
}

/// Asks a registry for the manifest or index of an image.
pub async fn find_manifest(
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
) -> Result<FoundManifest, ChartError> {
    let mut session =
        RegistrySession::new(client, credentials.login_for(&reference.host), reference, "pull")?;
    let Some((manifest, digest)) = fetch_manifest(&mut session, reference, MANIFESTS).await? else {
        return publish_error(format!("{reference}: not found"));
    };
    let media_type = manifest.get("mediaType").and_then(Value::as_str).unwrap_or(MANIFEST).to_owned();
    let mut found = FoundManifest { digest, media_type, platforms: Vec::new(), children: Vec::new() };
    for child in manifest.get("manifests").and_then(Value::as_array).into_iter().flatten() {
        let text = |path: &str| child.pointer(path).and_then(Value::as_str).unwrap_or_default();
        // Attestations are listed as images of an unknown platform.
        if text("/platform/os") != "unknown" {
            found.platforms.push(format!("{}/{}", text("/platform/os"), text("/platform/architecture")));
            found.children.push(text("/digest").to_owned());
        }
    }
    Ok(found)
}

/// Fetches a manifest with its digest; `None` where the registry has none.
async fn fetch_manifest(
    session: &mut RegistrySession<'_>,
    reference: &OciReference,
    accept: &'static str,
) -> Result<Option<(Value, String)>, ChartError> {
    let wanted = reference.digest.as_ref().or(reference.tag.as_ref()).map_or("latest", String::as_str);
    let mut request = HttpRequest::new(Method::GET, session.repository_url(&format!("manifests/{wanted}"))?);
    request.headers.insert(ACCEPT, HeaderValue::from_static(accept));
    let answer = session.send_authorized(request).await?;
    match answer.status_code() {
        status if status.is_success() => {}
        StatusCode::NOT_FOUND => return Ok(None),
        status => return publish_error(format!("{reference}: {status}")),
    }
    let bytes = answer.read_body(LARGEST_MANIFEST).await?;
    let digest = format!("sha256:{}", sha256_hex(&bytes));
    if let Some(promised) = reference.digest.as_ref().filter(|promised| **promised != digest) {
        return publish_error(format!("{reference}: the manifest has the digest {digest}, not {promised}"));
    }
    let manifest = serde_json::from_slice(&bytes)
        .map_err(|error| ChartError::Publish(format!("{reference}: {error}")))?;
    Ok(Some((manifest, digest)))
}
