//! What runbooks take from the network.

use anyhow::Context as _;
use futures::future::BoxFuture;
use slipway_chart::ChartError;
use slipway_chart::net::{
    AccessOptions, ClientOptions, HttpClient, Login, ProvenanceMode, RemoteCharts as Charts, run_blocking,
};
use slipway_go::semver::Version;
use slipway_source::{ChartReference, FetchError, FetchedChart, Fetcher, LARGEST_FILE, shown_address};
use tempfile::TempDir;

use crate::helm;

/// Charts and files by their addresses; charts, and the indexes of their repositories, are kept for as long
/// as this value lives.
pub struct Network {
    folder: TempDir,
    charts: Charts,
}

impl Network {
    pub fn new() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir().context("make a place for charts")?;
        Ok(Self { folder, charts: helm::remote(AccessOptions::default()) })
    }
}

impl Fetcher for Network {
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>> {
        let login = chart
            .login
            .as_ref()
            .map(|login| Login { username: login.username.clone(), password: login.password.clone() });
        let name = chart.name.clone();
        let access = AccessOptions {
            repo: chart.repository.clone().unwrap_or_default(),
            version: chart.version.clone().unwrap_or_default(),
            login,
            plain_http: chart.repository.is_none() && is_here(&name),
            ..AccessOptions::default()
        };
        // Charts of one name come from several places, so each has a folder of its own.
        let folder = tempfile::tempdir_in(self.folder.path()).map(TempDir::keep);
        let mut remote = self.charts.clone();
        remote.access = access;
        Box::pin(async move {
            let folder = folder.map_err(|error| FetchError::new(error.to_string()))?;
            let fetched = tokio::task::spawn_blocking(move || {
                run_blocking(remote.download_chart(&name, &folder, ProvenanceMode::No))
                    .map(|found| FetchedChart { path: found.path, notes: found.notes })
                    .map_err(|error| fetch_error(&remote, &name, &error))
            });
            fetched.await.unwrap_or_else(|error| Err(FetchError::new(error.to_string())))
        })
    }

    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        Box::pin(async move {
            let address = shown_address(url);
            let login = credentials(url);
            let fetched = tokio::task::spawn_blocking(move || {
                let options = ClientOptions {
                    user_agent: format!("slipway/{}", env!("CARGO_PKG_VERSION")),
                    network: helm::network(),
                    ..ClientOptions::default()
                };
                run_blocking(async {
                    Ok(HttpClient::new(&options)?.get_up_to(&address, login.as_ref(), LARGEST_FILE).await?)
                })
            });
            match fetched.await {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(error)) => Err(FetchError::new(shorter(&error.to_string()))),
                Err(error) => Err(FetchError::new(error.to_string())),
            }
        })
    }
}

/// Registries of this machine are spoken to without TLS.
fn is_here(reference: &str) -> bool {
    let host = reference.trim_start_matches("oci://").split('/').next().unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

/// Says why a chart could not be had, and what to do about it.
fn fetch_error(remote: &Charts, name: &str, error: &ChartError) -> FetchError {
    let hint = match error {
        ChartError::Denied(_) if remote.access.login.is_some() => {
            "\nhint: credentials were sent; have they expired? (tokens of ECR live 12 hours)".to_owned()
        }
        ChartError::Denied(_) => {
            "\nhint: no credentials were sent: give auth:, or log in with Docker or Helm".to_owned()
        }
        ChartError::UnknownVersion(_) if !remote.access.version.is_empty() => {
            let versions = run_blocking(remote.list_versions(name)).unwrap_or_default();
            match nearest(&versions, &remote.access.version) {
                [] => String::new(),
                near => format!("\nhint: there are {}", near.join(", ")),
            }
        }
        _ => String::new(),
    };
    FetchError::new(format!("{}{hint}", shorter(&error.to_string())))
}

/// A failure to connect without the layers it passed: whoever tells it names the address anyway.
fn shorter(error: &str) -> String {
    const START: &str = "cannot reach http";
    let reason = |(before, rest): (&str, &str)| Some(format!("{before}{}", rest.split_once(": ")?.1));
    error.split_once(START).and_then(reason).unwrap_or_else(|| error.to_owned())
}

/// The versions around a wanted one; `versions` has the newest first.
fn nearest<'v>(versions: &'v [String], wanted: &str) -> &'v [String] {
    const SHOWN: usize = 5;
    let wanted = Version::parse(wanted).ok();
    let place = wanted.map_or(0, |wanted| {
        let older =
            |text: &String| Version::parse(text).is_ok_and(|version| version.compare(&wanted).is_lt());
        versions.iter().position(older).unwrap_or(versions.len())
    });
    let start = place.saturating_sub(SHOWN / 2).min(versions.len().saturating_sub(SHOWN));
    &versions[start..versions.len().min(start + SHOWN)]
}

/// `user:password` of an address, decoded.
fn credentials(url: &str) -> Option<Login> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    let (inline, _) = authority.rsplit_once('@')?;
    let (username, password) = inline.split_once(':').unwrap_or((inline, ""));
    Some(Login { username: decoded(username), password: decoded(password) })
}

fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|pair| std::str::from_utf8(pair).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(value) if byte == b'%' => {
                bytes.push(value);
                rest = &more[2..];
            }
            _ => {
                bytes.push(byte);
                rest = more;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
