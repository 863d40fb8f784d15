//! Charts in OCI registries: a thin client for what charts need.

use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, LINK, LOCATION, WWW_AUTHENTICATE,
};
use reqwest::{Method, Response, StatusCode};
use serde_json::{Map, Value, json};
use slipway_go::semver::{Constraints, Version};

use crate::deps::{go_json, sha256_hex};
use crate::error::Error;
use crate::metadata::Metadata;

use super::credentials::{Credentials, IDENTITY_TOKEN, Login};
use super::http::{Client, basic, body, header};

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CHART: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";
const OLD_CHART: &str = "application/tar+gzip";
const PROVENANCE: &str = "application/vnd.cncf.helm.chart.provenance.v1.prov";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

const LARGEST_MANIFEST: usize = 4 * 1024 * 1024;
const LARGEST_BLOB: usize = 128 * 1024 * 1024;
const MOST_PAGES: usize = 100;

fn fail<T>(text: impl Into<String>) -> Result<T, Error> {
    Err(Error::Publish(text.into()))
}

/// A chart in a registry: `oci://host/path/name[:tag][@digest]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    pub host: String,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<String>,
}

impl Reference {
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad =
            || Error::Publish(format!("invalid reference {text:?}: expected oci://HOST/PATH[:TAG][@DIGEST]"));
        let rest = text.strip_prefix("oci://").unwrap_or(text);
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.to_owned())),
            None => (rest, None),
        };
        let (host, path) = rest.split_once('/').ok_or_else(bad)?;
        let (repository, tag) = match path.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, Some(tag.to_owned())),
            _ => (path, None),
        };
        let part = |part: &str| {
            !part.is_empty()
                && part
                    .bytes()
                    .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
        };
        let tag_is_sound = tag.as_ref().is_none_or(|tag| {
            tag.len() <= 128 && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        });
        if host.is_empty() || !repository.split('/').all(part) || !tag_is_sound {
            return Err(bad());
        }
        Ok(Self { host: host.to_owned(), repository: repository.to_owned(), tag, digest })
    }

    /// The chart's name: the last part of the path.
    pub fn name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or(&self.repository)
    }
}

impl std::fmt::Display for Reference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.host, self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        Ok(())
    }
}

/// What was pulled.
#[derive(Clone, Debug)]
pub struct Pulled {
    pub chart: Vec<u8>,
    pub provenance: Option<Vec<u8>>,
    /// Of the manifest.
    pub digest: String,
}

/// What was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pushed {
    pub reference: String,
    /// Of the manifest.
    pub digest: String,
}

/// The newest tag that satisfies a constraint; exactly the one named, if it is there.
pub(super) fn choose(tags: &[String], wanted: &str) -> Option<String> {
    if let Some(exact) = tags.iter().find(|tag| *tag == wanted) {
        return Some(exact.clone());
    }
    let constraint = Constraints::parse(if wanted.is_empty() { "*" } else { wanted }).ok()?;
    tags.iter().find(|tag| Version::parse(tag).is_ok_and(|version| constraint.check(&version))).cloned()
}

/// A registry being talked to about one repository.
struct Session<'s> {
    client: &'s Client,
    reference: &'s Reference,
    login: Option<Login>,
    /// The `Authorization` header that worked.
    authorization: Option<HeaderValue>,
    actions: &'static str,
}

impl<'s> Session<'s> {
    fn new(
        client: &'s Client,
        credentials: &Credentials,
        reference: &'s Reference,
        actions: &'static str,
    ) -> Self {
        let login = credentials.login(&reference.host);
        Self { client, reference, login, authorization: None, actions }
    }

    fn url(&self, path: &str) -> String {
        let scheme = if self.client.plain_http { "http" } else { "https" };
        let host = match self.reference.host.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        format!("{scheme}://{host}/v2/{}/{path}", self.reference.repository)
    }

    /// Sends, and once more with credentials when asked for them.
    async fn send(
        &mut self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        content: Option<Vec<u8>>,
    ) -> Result<Response, Error> {
        let with_authorization = |mut headers: HeaderMap, value: Option<&HeaderValue>| {
            if let Some(value) = value {
                headers.insert(AUTHORIZATION, value.clone());
            }
            headers
        };
        let first = with_authorization(headers.clone(), self.authorization.as_ref());
        let response = self.client.send(method.clone(), url, first, content.clone()).await?;
        if response.status() != StatusCode::UNAUTHORIZED {
            return Ok(response);
        }
        let challenge = response
            .headers()
            .get(WWW_AUTHENTICATE)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned();
        self.authorization = Some(self.authorize(&challenge).await?);
        let second = with_authorization(headers, self.authorization.as_ref());
        self.client.send(method, url, second, content).await
    }

    async fn authorize(&self, challenge: &str) -> Result<HeaderValue, Error> {
        let denied = || Error::Publish(format!("{} asks for a login: log in first", self.reference.host));
        let (scheme, parameters) = challenge.split_once(' ').unwrap_or((challenge, ""));
        if scheme.eq_ignore_ascii_case("basic") {
            return basic(self.login.as_ref().ok_or_else(denied)?);
        }
        if !scheme.eq_ignore_ascii_case("bearer") {
            return Err(denied());
        }
        let parameters = parse_parameters(parameters);
        let get =
            |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
        let realm = get("realm").ok_or_else(denied)?;
        let mut url = url::Url::parse(realm).map_err(|error| Error::Publish(format!("{realm}: {error}")))?;
        let scope = format!("repository:{}:{}", self.reference.repository, self.actions);
        let mut query = Vec::new();
        if !self.reference.repository.is_empty() {
            query.push(("scope", get("scope").unwrap_or(&scope)));
        }
        query.extend(get("service").map(|service| ("service", service)));
        let identity = self.login.as_ref().filter(|login| login.username == IDENTITY_TOKEN);
        let mut headers = HeaderMap::new();
        let response = if let Some(login) = identity {
            query.extend([
                ("grant_type", "refresh_token"),
                ("client_id", "slipway"),
                ("refresh_token", &login.password),
            ]);
            let form = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
            self.client.send(Method::POST, url.as_str(), headers, Some(form.into_bytes())).await?
        } else {
            url.query_pairs_mut().extend_pairs(query);
            if let Some(login) = &self.login {
                headers.insert(AUTHORIZATION, basic(login)?);
            }
            self.client.send(Method::GET, url.as_str(), headers, None).await?
        };
        if !response.status().is_success() {
            return Err(denied());
        }
        let answer: Value = serde_json::from_slice(&body(response, LARGEST_MANIFEST).await?)
            .map_err(|error| Error::Publish(format!("{}: {error}", self.reference.host)))?;
        let token = ["token", "access_token"].iter().find_map(|key| answer.get(*key).and_then(Value::as_str));
        header(&format!("Bearer {}", token.ok_or_else(denied)?))
    }

    async fn expect(&mut self, method: Method, url: &str, headers: HeaderMap) -> Result<Response, Error> {
        let response = self.send(method, url, headers, None).await?;
        match response.status() {
            status if status.is_success() => Ok(response),
            StatusCode::NOT_FOUND => fail(format!("{}: not found", self.reference)),
            status => fail(format!("{}: {status}", self.reference)),
        }
    }

    async fn blob(&mut self, digest: &str) -> Result<Vec<u8>, Error> {
        let url = self.url(&format!("blobs/{digest}"));
        let content = body(self.expect(Method::GET, &url, HeaderMap::new()).await?, LARGEST_BLOB).await?;
        let found = format!("sha256:{}", sha256_hex(&content));
        if found != digest {
            return fail(format!("{}: the content of {digest} has the digest {found}", self.reference));
        }
        Ok(content)
    }

    async fn upload(&mut self, content: &[u8], digest: &str) -> Result<(), Error> {
        let url = self.url(&format!("blobs/{digest}"));
        if self.send(Method::HEAD, &url, HeaderMap::new(), None).await?.status().is_success() {
            return Ok(());
        }
        let start = self.url("blobs/uploads/");
        let response = self.expect(Method::POST, &start, HeaderMap::new()).await?;
        let location =
            response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let base = url::Url::parse(&start).map_err(|error| Error::Publish(error.to_string()))?;
        let mut target = base.join(location).map_err(|error| Error::Publish(error.to_string()))?;
        target.query_pairs_mut().append_pair("digest", digest);
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        let response = self.send(Method::PUT, target.as_str(), headers, Some(content.to_vec())).await?;
        if !response.status().is_success() {
            return fail(format!("{}: uploading failed: {}", self.reference, response.status()));
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

/// The versions of a chart, newest first; `_` in a tag stands for `+`.
pub async fn tags(
    client: &Client,
    credentials: &Credentials,
    reference: &Reference,
) -> Result<Vec<String>, Error> {
    let mut session = Session::new(client, credentials, reference, "pull");
    let mut url = session.url("tags/list");
    let mut versions: Vec<Version> = Vec::new();
    for _ in 0..MOST_PAGES {
        let response = session.expect(Method::GET, &url, HeaderMap::new()).await?;
        let next = response.headers().get(LINK).and_then(|value| value.to_str().ok()).and_then(next_page);
        let page: Value = serde_json::from_slice(&body(response, LARGEST_MANIFEST).await?)
            .map_err(|error| Error::Publish(format!("{reference}: {error}")))?;
        let names =
            page.get("tags").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        versions.extend(names.filter_map(|name| Version::parse_strict(&name.replace('_', "+")).ok()));
        let Some(next) = next else { break };
        let base = url::Url::parse(&url).map_err(|error| Error::Publish(error.to_string()))?;
        url = base.join(&next).map_err(|error| Error::Publish(error.to_string()))?.into();
    }
    if versions.is_empty() {
        return fail(format!("Unable to locate any tags in provided repository: {reference}"));
    }
    versions.sort_by(|a, b| b.compare(a));
    Ok(versions.into_iter().map(|version| version.original).collect())
}

fn next_page(link: &str) -> Option<String> {
    let (target, rest) = link.split_once('>')?;
    rest.contains("next").then(|| target.trim_start_matches('<').to_owned())
}

/// Asks a registry whether it knows a login.
pub async fn check_login(client: &Client, host: &str, login: &Login) -> Result<(), Error> {
    let reference = Reference { host: host.to_owned(), repository: String::new(), tag: None, digest: None };
    let mut session = Session {
        client,
        reference: &reference,
        login: Some(login.clone()),
        authorization: None,
        actions: "",
    };
    let url = session.url("").trim_end_matches('/').to_owned() + "/";
    let response = session.send(Method::GET, &url, HeaderMap::new(), None).await?;
    match response.status() {
        status if status.is_success() => Ok(()),
        status => fail(format!("login to {host} failed: {status}")),
    }
}

/// Fetches a chart by tag or digest; every digest is checked.
pub async fn pull(
    client: &Client,
    credentials: &Credentials,
    reference: &Reference,
) -> Result<Pulled, Error> {
    let Some(wanted) = reference.digest.as_ref().or(reference.tag.as_ref()) else {
        return fail(format!("{reference}: a tag or digest is needed"));
    };
    let mut session = Session::new(client, credentials, reference, "pull");
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, HeaderValue::from_static(MANIFEST));
    let url = session.url(&format!("manifests/{wanted}"));
    let bytes = body(session.expect(Method::GET, &url, headers).await?, LARGEST_MANIFEST).await?;
    let digest = format!("sha256:{}", sha256_hex(&bytes));
    if let Some(promised) = reference.digest.as_ref().filter(|promised| **promised != digest) {
        return fail(format!("chart reference digest mismatch: {digest} is not {promised}"));
    }
    let manifest: Value =
        serde_json::from_slice(&bytes).map_err(|error| Error::Publish(format!("{reference}: {error}")))?;
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
        return fail(format!("manifest does not contain a layer with mediatype {CHART}"));
    };
    let chart = session.blob(&chart).await?;
    let provenance = match layer(&[PROVENANCE]) {
        Some(digest) => Some(session.blob(&digest).await?),
        None => None,
    };
    Ok(Pulled { chart, provenance, digest })
}

/// Puts a packed chart into a registry; the tag is its version.
pub async fn push(
    client: &Client,
    credentials: &Credentials,
    parent: &str,
    metadata: &Metadata,
    chart: &[u8],
    provenance: Option<&[u8]>,
    created: &str,
) -> Result<Pushed, Error> {
    let tag = metadata.version.replace('+', "_");
    let reference = Reference::parse(&format!("{}/{}:{tag}", parent.trim_end_matches('/'), metadata.name))?;
    if reference.name() != metadata.name {
        return fail(format!("strict mode enabled, ref base name does not match chart name: {reference}"));
    }
    let config = go_json(&metadata.to_json()).into_bytes();
    let mut session = Session::new(client, credentials, &reference, "pull,push");
    let mut layers = Vec::new();
    for (kind, content) in [(CHART, Some(chart)), (PROVENANCE, provenance)] {
        if let Some(content) = content {
            let digest = format!("sha256:{}", sha256_hex(content));
            session.upload(content, &digest).await?;
            layers.push(json!({"mediaType": kind, "digest": digest, "size": content.len()}));
        }
    }
    let config_digest = format!("sha256:{}", sha256_hex(&config));
    session.upload(&config, &config_digest).await?;
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": CONFIG, "digest": config_digest, "size": config.len()},
        "layers": layers,
        "annotations": annotations(metadata, created),
    });
    let bytes = go_json(&manifest).into_bytes();
    let digest = format!("sha256:{}", sha256_hex(&bytes));
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(MANIFEST));
    let url = session.url(&format!("manifests/{tag}"));
    let response = session.send(Method::PUT, &url, headers, Some(bytes)).await?;
    if !response.status().is_success() {
        return fail(format!("{reference}: {}", response.status()));
    }
    Ok(Pushed { reference: reference.to_string(), digest })
}

/// What the manifest says of the chart: its own annotations, and the standard ones, which win for
/// title and version.
fn annotations(metadata: &Metadata, created: &str) -> Map<String, Value> {
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
    fn references_are_taken_apart() {
        let reference = Reference::parse("oci://r.example:5000/a/b/chart:1.2.3_x@sha256:ab").unwrap();
        assert_eq!(reference.host, "r.example:5000");
        assert_eq!((reference.repository.as_str(), reference.name()), ("a/b/chart", "chart"));
        assert_eq!(reference.tag.as_deref(), Some("1.2.3_x"));
        assert_eq!(reference.digest.as_deref(), Some("sha256:ab"));
        for bad in ["oci://host", "oci:///x", "oci://h/A", "oci://h/a//b", "oci://h/a:b c"] {
            assert!(Reference::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn challenges_and_versions_are_read() {
        let pairs = parse_parameters("realm=\"https://a/t?x=1\",service=\"s\", scope=\"repository:a:pull\"");
        assert_eq!(pairs[0], ("realm".into(), "https://a/t?x=1".into()));
        assert_eq!(pairs[2].1, "repository:a:pull");
        let tags: Vec<String> = ["2.0.0-rc1", "1.1.0", "1.0.0"].map(str::to_owned).into();
        assert_eq!(choose(&tags, "").as_deref(), Some("1.1.0"));
        assert_eq!(choose(&tags, "~1.0").as_deref(), Some("1.0.0"));
        assert_eq!(choose(&tags, "2.0.0-rc1").as_deref(), Some("2.0.0-rc1"));
        assert_eq!(choose(&tags, "9").as_deref(), None);
    }
}
