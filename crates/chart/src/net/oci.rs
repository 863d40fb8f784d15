//! Charts in OCI registries: a thin client for what charts need.

use serde_json::{Map, Value, json};
use slipway_event::without_credentials;
use slipway_go::semver::{Constraints, Version};
use slipway_http::header::{ACCEPT, CONTENT_TYPE, HeaderValue, LINK, LOCATION, WWW_AUTHENTICATE};
use slipway_http::{
    Authorization, HttpClient, HttpRequest, HttpResponse, Method, StatusCode, parse_url, shown_url,
};
use url::Url;

use crate::deps::{go_json, sha256_hex};
use crate::error::ChartError;
use crate::metadata::ChartMetadata;

use super::credentials::{Credentials, IDENTITY_TOKEN, Login};
use super::reference::{OciReference, is_digest, is_host};

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const OLD_CHART: &str = "application/tar+gzip";
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

pub(super) const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;
const LARGEST_BLOB: usize = 128 * 1024 * 1024;
const MOST_PAGES: usize = 100;

pub(super) fn publish_error<T>(text: impl Into<String>) -> Result<T, ChartError> {
    Err(ChartError::Publish(text.into()))
}

/// A chart pulled from a registry.
#[derive(Clone, Debug)]
pub struct PulledChart {
    pub chart: Vec<u8>,
    pub provenance: Option<Vec<u8>>,
    /// Of the manifest.
    pub digest: String,
}

/// A chart pushed to a registry.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct PushedChart {
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
}

/// The newest tag that satisfies a constraint; exactly the one named, if it is there.
pub(super) fn choose_tag(tags: &[String], wanted: &str) -> Option<String> {
    if let Some(exact) = tags.iter().find(|tag| *tag == wanted) {
        return Some(exact.clone());
    }
    let constraint = Constraints::parse(if wanted.is_empty() { "*" } else { wanted }).ok()?;
    tags.iter().find(|tag| Version::parse(tag).is_ok_and(|version| constraint.check(&version))).cloned()
}

/// A registry being talked to about one repository. Its credentials go to its own origin, and to where it
/// gives out tokens if that is reached by HTTPS.
pub(super) struct RegistrySession<'s> {
    client: &'s HttpClient,
    reference: &'s OciReference,
    /// The address of the repository in the registry, with a final slash.
    base: Url,
    login: Option<Login>,
    /// The credentials the registry accepted.
    authorization: Option<Authorization>,
    actions: &'static str,
}

impl<'s> RegistrySession<'s> {
    pub(super) fn new(
        client: &'s HttpClient,
        login: Option<Login>,
        reference: &'s OciReference,
        actions: &'static str,
    ) -> Result<Self, ChartError> {
        let scheme = if client.plain_http() { "http" } else { "https" };
        let host = match reference.host.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let base = format!("{scheme}://{host}/v2/{}/", reference.repository);
        let base = parse_url(base.strip_suffix("//").map_or(base.as_str(), |_| &base[..base.len() - 1]))?;
        Ok(Self { client, reference, base, login, authorization: None, actions })
    }

    pub(super) fn repository_url(&self, path: &str) -> Result<Url, ChartError> {
        Ok(parse_url(&format!("{}{path}", self.base))?)
    }

    /// Sends, and once more with credentials when the registry itself asks for them.
    pub(super) async fn send_authorized(
        &mut self,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, ChartError> {
        request.authorization.clone_from(&self.authorization);
        let answer = self.client.send_request(request.clone()).await?;
        if answer.status_code() != StatusCode::UNAUTHORIZED || answer.origin != self.base.origin() {
            return Ok(answer);
        }
        let challenge = answer.header_text(&WWW_AUTHENTICATE).unwrap_or_default().to_owned();
        self.authorization = Some(self.request_authorization(&challenge).await?);
        request.authorization.clone_from(&self.authorization);
        Ok(self.client.send_request(request).await?)
    }

    async fn request_authorization(&self, challenge: &str) -> Result<Authorization, ChartError> {
        let denied = || ChartError::Denied(format!("{} asks for a login: log in first", self.reference.host));
        let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            let login = self.login.as_ref().ok_or_else(denied)?;
            return Ok(Authorization::from_login(login, self.base.origin())?);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(denied());
        }
        let parameters = parse_parameters(parameters);
        let get =
            |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let mut realm = parse_url(get("realm").ok_or_else(denied)?)?;
        if self.login.is_some() && realm.scheme() != "https" && realm.origin() != self.base.origin() {
            return publish_error(format!(
                "{} gives out tokens at {}: credentials go to a registry itself or to an https address only",
                self.reference.host,
                shown_url(&realm)
            ));
        }
        let scope = format!("repository:{}:{}", self.reference.repository, self.actions);
        let mut query = Vec::new();
        if !self.reference.repository.is_empty() {
            query.push(("scope", get("scope").unwrap_or(&scope)));
        }
        query.extend(get("service").map(|service| ("service", service)));
        let identity = self.login.as_ref().filter(|login| login.username == IDENTITY_TOKEN);
        let request = if let Some(login) = identity {
            query.extend([
                ("grant_type", "refresh_token"),
                ("client_id", "slipway"),
                ("refresh_token", &login.password),
            ]);
            let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            let mut request = HttpRequest::new(Method::POST, realm);
            let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
            request.headers.insert(CONTENT_TYPE, kind);
            request.content = Some(form.into_bytes());
            request
        } else {
            realm.query_pairs_mut().extend_pairs(query);
            let mut request = HttpRequest::new(Method::GET, realm);
            if let Some(login) = &self.login {
                request.authorization = Some(Authorization::from_login(login, request.url.origin())?);
            }
            request
        };
        let answer = self.client.send_request(request).await?;
        if !answer.status_code().is_success() {
            return Err(denied());
        }
        let answer: Value = serde_json::from_slice(&answer.read_body(LARGEST_MANIFEST).await?)
            .map_err(|error| ChartError::Publish(format!("{}: {error}", self.reference.host)))?;
        let token = ["token", "access_token"].iter().find_map(|key| answer.get(*key).and_then(Value::as_str));
        Ok(Authorization::from_token(token.ok_or_else(denied)?, self.base.origin())?)
    }

    pub(super) async fn expect_success(&mut self, request: HttpRequest) -> Result<HttpResponse, ChartError> {
        let answer = self.send_authorized(request).await?;
        match answer.status_code() {
            status if status.is_success() => Ok(answer),
            StatusCode::NOT_FOUND => publish_error(format!("{}: not found", self.reference)),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(ChartError::Denied(format!("{}: {status}", self.reference)))
            }
            status => publish_error(format!("{}: {status}", self.reference)),
        }
    }

    pub(super) async fn fetch_blob(&mut self, digest: &str) -> Result<Vec<u8>, ChartError> {
        if !is_digest(digest) {
            return publish_error(format!("{}: {digest:?} is no digest", self.reference));
        }
        let request = HttpRequest::new(Method::GET, self.repository_url(&format!("blobs/{digest}"))?);
        let content = self.expect_success(request).await?.read_body(LARGEST_BLOB).await?;
        let found = format!("sha256:{}", sha256_hex(&content));
        if found != digest {
            return publish_error(format!(
                "{}: the content of {digest} has the digest {found}",
                self.reference
            ));
        }
        Ok(content)
    }

    pub(super) async fn upload_blob(&mut self, content: &[u8], digest: &str) -> Result<(), ChartError> {
        let there = HttpRequest::new(Method::HEAD, self.repository_url(&format!("blobs/{digest}"))?);
        if self.send_authorized(there).await?.status_code().is_success() {
            return Ok(());
        }
        let start = self.repository_url("blobs/uploads/")?;
        let answer = self.expect_success(HttpRequest::new(Method::POST, start.clone())).await?;
        // Another host may take the content; the credentials stay here.
        let location = answer.header_text(&LOCATION).unwrap_or_default();
        let joined = start.join(location).map_err(|error| ChartError::Publish(error.to_string()))?;
        let mut target = parse_url(joined.as_str())?;
        target.query_pairs_mut().append_pair("digest", digest);
        let mut request = HttpRequest::new(Method::PUT, target);
        request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        request.content = Some(content.to_vec());
        let answer = self.send_authorized(request).await?;
        if !answer.status_code().is_success() {
            return publish_error(format!("{}: uploading failed: {}", self.reference, answer.status_code()));
        }
        Ok(())
    }
}

/// `realm="…",service="…"` in pairs.
fn parse_parameters(text: &str) -> Vec<(String, String)> {
    let mut pairs = Vec::new();
    let mut rest = text.trim();
    while let Some((key, after)) = rest.split_once('=') {
        let (value, after) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => after.split_once(',').map_or((after, ""), |(value, after)| (value, after)),
        };
        pairs.push((key.trim().to_lowercase(), value.to_owned()));
        rest = after.trim_start_matches([',', ' ']);
    }
    pairs
}

/// Every tag of a repository, in the registry's order.
pub async fn list_all_tags(
    client: &HttpClient,
    login: Option<Login>,
    reference: &OciReference,
) -> Result<Vec<String>, ChartError> {
    let mut session = RegistrySession::new(client, login, reference, "pull")?;
    let mut url = session.repository_url("tags/list")?;
    let mut tags: Vec<String> = Vec::new();
    for _ in 0..MOST_PAGES {
        let answer = session.expect_success(HttpRequest::new(Method::GET, url.clone())).await?;
        let next = answer.header_text(&LINK).and_then(next_page);
        let page: Value = serde_json::from_slice(&answer.read_body(LARGEST_MANIFEST).await?)
            .map_err(|error| ChartError::Publish(format!("{reference}: {error}")))?;
        let names =
            page.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        tags.extend(names.map(str::to_owned));
        let Some(next) = next else { break };
        let next = url.join(&next).map_err(|error| ChartError::Publish(format!("{reference}: {error}")))?;
        if next.origin() != session.base.origin() {
            return publish_error(format!(
                "{reference}: the list of tags goes on at another host, {}",
                shown_url(&next)
            ));
        }
        url = next;
    }
    Ok(tags)
}

/// The versions of a chart, newest first; `_` in a tag stands for `+`.
pub async fn list_tags(
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
) -> Result<Vec<String>, ChartError> {
    let tags = list_all_tags(client, credentials.login_for(&reference.host), reference).await?;
    let parsed = tags.iter().filter_map(|name| Version::parse_strict(&name.replace('_', "+")).ok());
    let mut versions: Vec<Version> = parsed.collect();
    if versions.is_empty() {
        return publish_error(format!("Unable to locate any tags in provided repository: {reference}"));
    }
    versions.sort_by(|a, b| b.compare(a));
    Ok(versions.into_iter().map(|version| version.original).collect())
}

/// The kinds of manifests an image may have.
const IMAGE_MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, application/vnd.oci.image.manifest.v1+json, \
                               application/vnd.docker.distribution.manifest.list.v2+json, \
                               application/vnd.docker.distribution.manifest.v2+json";

/// An image a tag points to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedImage {
    /// Of the manifest, or of the index of several.
    pub digest: String,
    /// The time it was built, where its configuration says so; none for an index.
    pub created: Option<String>,
}

/// Looks a tag up. `details` reads the configuration too, for the time of the build.
pub async fn read_image(
    client: &HttpClient,
    login: Option<Login>,
    reference: &OciReference,
    tag: &str,
    details: ImageDetails,
) -> Result<TaggedImage, ChartError> {
    let mut session = RegistrySession::new(client, login, reference, "pull")?;
    let mut request = HttpRequest::new(Method::GET, session.repository_url(&format!("manifests/{tag}"))?);
    request.headers.insert(ACCEPT, HeaderValue::from_static(IMAGE_MANIFESTS));
    let answer = session.expect_success(request).await?;
    // The registry's own word is not needed: a digest is that of the bytes.
    let manifest = answer.read_body(LARGEST_MANIFEST).await?;
    let digest = format!("sha256:{}", sha256_hex(&manifest));
    if details == ImageDetails::Digest {
        return Ok(TaggedImage { digest, created: None });
    }
    let parsed: Value = serde_json::from_slice(&manifest).unwrap_or_default();
    let Some(config) = parsed["config"]["digest"].as_str() else {
        return Ok(TaggedImage { digest, created: None });
    };
    let config: Value = serde_json::from_slice(&session.fetch_blob(config).await?).unwrap_or_default();
    Ok(TaggedImage { digest, created: config["created"].as_str().map(str::to_owned) })
}

/// How much is read of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageDetails {
    Digest,
    Created,
}

fn next_page(link: &str) -> Option<String> {
    let (target, rest) = link.split_once('>')?;
    rest.contains("next").then(|| target.trim_start_matches('<').to_owned())
}

/// Asks a registry whether it knows a login.
pub async fn check_login(client: &HttpClient, host: &str, login: &Login) -> Result<(), ChartError> {
    let reference =
        OciReference { host: host.to_owned(), repository: String::new(), tag: None, digest: None };
    if !is_host(host) {
        return publish_error(format!("invalid host {:?}: expected HOST[:PORT]", without_credentials(host)));
    }
    let mut session = RegistrySession::new(client, Some(login.clone()), &reference, "")?;
    let response = session.send_authorized(HttpRequest::new(Method::GET, session.base.clone())).await?;
    match response.status_code() {
        status if status.is_success() => Ok(()),
        status => publish_error(format!("login to {host} failed: {status}")),
    }
}

/// Fetches a chart by tag or digest; every digest is checked.
pub async fn pull_chart(
    client: &HttpClient,
    credentials: &Credentials,
    reference: &OciReference,
) -> Result<PulledChart, ChartError> {
    let Some(wanted) = reference.digest.as_ref().or(reference.tag.as_ref()) else {
        return publish_error(format!("{reference}: a tag or digest is needed"));
    };
    let mut session =
        RegistrySession::new(client, credentials.login_for(&reference.host), reference, "pull")?;
    let mut request = HttpRequest::new(Method::GET, session.repository_url(&format!("manifests/{wanted}"))?);
    request.headers.insert(ACCEPT, HeaderValue::from_static(MANIFEST));
    let bytes = session.expect_success(request).await?.read_body(LARGEST_MANIFEST).await?;
    let digest = format!("sha256:{}", sha256_hex(&bytes));
    if let Some(promised) = reference.digest.as_ref().filter(|promised| **promised != digest) {
        return publish_error(format!("chart reference digest mismatch: {digest} is not {promised}"));
    }
    let manifest: Value = serde_json::from_slice(&bytes)
        .map_err(|error| ChartError::Publish(format!("{reference}: {error}")))?;
    let layers = manifest.get("layers").and_then(Value::as_array).cloned().unwrap_or_default();
    let layer = |kinds: &[&str]| {
        layers
            .iter()
            .find(|layer| {
                layer.get("mediaType").and_then(Value::as_str).is_some_and(|kind| kinds.contains(&kind))
            })
            .and_then(|layer| layer.get("digest").and_then(Value::as_str))
            .map(str::to_owned)
    };
    let Some(chart) = layer(&[CHART, OLD_CHART]) else {
        return publish_error(format!("manifest does not contain a layer with mediatype {CHART}"));
    };
    let chart = session.fetch_blob(&chart).await?;
    let provenance = match layer(&[PROVENANCE]) {
        Some(digest) => Some(session.fetch_blob(&digest).await?),
        None => None,
    };
    Ok(PulledChart { chart, provenance, digest })
}

/// Puts a packed chart into a registry; the tag is its version.
pub async fn push(
    client: &HttpClient,
    credentials: &Credentials,
    parent: &str,
    metadata: &ChartMetadata,
    chart: &[u8],
    provenance: Option<&[u8]>,
    created: &str,
) -> Result<PushedChart, ChartError> {
    let tag = metadata.version.replace('+', "_");
    let reference =
        OciReference::parse(&format!("{}/{}:{tag}", parent.trim_end_matches('/'), metadata.name))?;
    if reference.chart_name() != metadata.name {
        return publish_error(format!(
            "strict mode enabled, ref base name does not match chart name: {reference}"
        ));
    }
    let config = go_json(&metadata.to_json()).into_bytes();
    let login = credentials.login_for(&reference.host);
    let mut session = RegistrySession::new(client, login, &reference, "pull,push")?;
    let mut layers = Vec::new();
    for (kind, content) in [(CHART, Some(chart)), (PROVENANCE, provenance)] {
        if let Some(content) = content {
            let digest = format!("sha256:{}", sha256_hex(content));
            session.upload_blob(content, &digest).await?;
            layers.push(json!({"mediaType": kind, "digest": digest, "size": content.len()}));
        }
    }
    let config_digest = format!("sha256:{}", sha256_hex(&config));
    session.upload_blob(&config, &config_digest).await?;
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": CONFIG, "digest": config_digest, "size": config.len()},
        "layers": layers,
        "annotations": manifest_annotations(metadata, created),
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
    Ok(PushedChart { reference: reference.to_string(), digest })
}

/// Returns the annotations of the manifest: the chart's own, and the standard ones, which win for
/// title and version.
fn manifest_annotations(metadata: &ChartMetadata, created: &str) -> Map<String, Value> {
    const PREFIX: &str = "org.opencontainers.image.";
    let authors: Vec<String> = metadata
        .maintainers
        .iter()
        .map(|maintainer| match maintainer.email.as_str() {
            "" => maintainer.name.clone(),
            email => format!("{} ({email})", maintainer.name),
        })
        .collect();
    let mut all = std::collections::BTreeMap::new();
    for (key, value) in [
        ("description", metadata.description.clone()),
        ("title", metadata.name.clone()),
        ("version", metadata.version.clone()),
        ("url", metadata.home.clone()),
        ("created", created.to_owned()),
        ("source", metadata.sources.first().cloned().unwrap_or_default()),
        ("authors", authors.join(", ")),
    ] {
        if !value.trim().is_empty() {
            all.insert(format!("{PREFIX}{key}"), value);
        }
    }
    for (key, value) in &metadata.annotations {
        if !matches!(key.strip_prefix(PREFIX), Some("title" | "version")) {
            all.insert(key.clone(), value.clone());
        }
    }
    all.into_iter().map(|(key, value)| (key, Value::String(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_and_versions_are_read() {
        let pairs = parse_parameters("realm=\"https://a/t?x=1\",service=\"s\", scope=\"repository:a:pull\"");
        assert_eq!(pairs[0], ("realm".into(), "https://a/t?x=1".into()));
        assert_eq!(pairs[2].1, "repository:a:pull");
        let tags: Vec<String> = ["2.0.0-rc1", "1.1.0", "1.0.0"].map(str::to_owned).into();
        assert_eq!(choose_tag(&tags, "").as_deref(), Some("1.1.0"));
        assert_eq!(choose_tag(&tags, "~1.0").as_deref(), Some("1.0.0"));
        assert_eq!(choose_tag(&tags, "2.0.0-rc1").as_deref(), Some("2.0.0-rc1"));
        assert_eq!(choose_tag(&tags, "9").as_deref(), None);
    }
}
