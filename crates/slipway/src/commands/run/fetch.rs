//! What runbooks take from the network.

use std::path::PathBuf;

use anyhow::Context as _;
use slipway_chart::net::{Access, Client, ClientOptions, Login, Provenance, wait};
use slipway_runbook::{Auth, ChartSource, FetchError, Remote, shown_url};
use tempfile::TempDir;

use crate::helm;

/// Charts and files by their addresses; charts are kept for as long as this value lives.
pub struct Network {
    folder: TempDir,
}

impl Network {
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self { folder: tempfile::tempdir().context("make a place for charts")? })
    }
}

type Fetching<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, FetchError>> + Send + 'a>>;

impl Remote for Network {
    fn chart<'a>(&'a self, source: &'a ChartSource) -> Fetching<'a, PathBuf> {
        let login = |auth: &Option<Auth>| {
            auth.as_ref()
                .map(|auth| Login { username: auth.username.clone(), password: auth.password.clone() })
        };
        let (name, access) = match source {
            ChartSource::Repo { url, name, version, auth } => {
                let version = version.clone().unwrap_or_default();
                (name.clone(), Access { repo: url.clone(), version, login: login(auth), ..Access::default() })
            }
            ChartSource::Oci { reference, version, auth } => {
                let version = version.clone().unwrap_or_default();
                let local =
                    ["oci://localhost", "oci://127.0.0.1"].iter().any(|host| reference.starts_with(host));
                let access = Access { version, login: login(auth), plain_http: local, ..Access::default() };
                (reference.clone(), access)
            }
            ChartSource::Path(path) => {
                let path = PathBuf::from(path);
                return Box::pin(async move { Ok(path) });
            }
        };
        let sent = access.login.is_some();
        let folder = self.folder.path().to_owned();
        Box::pin(async move {
            let fetched = tokio::task::spawn_blocking(move || {
                wait(helm::remote(access).download(&name, &folder, Provenance::No))
            });
            match fetched.await {
                Ok(Ok(found)) => Ok(found.path),
                Ok(Err(error)) => {
                    let text = error.to_string();
                    let refused =
                        ["401", "403", "unauthorized", "denied"].iter().any(|word| text.contains(word));
                    let hint = match (refused, sent) {
                        (false, _) => "",
                        (true, true) => " (credentials were sent; have they expired?)",
                        (true, false) => " (no credentials were sent: give auth:)",
                    };
                    Err(FetchError::new(format!("{text}{hint}")))
                }
                Err(error) => Err(FetchError::new(error.to_string())),
            }
        })
    }

    fn file<'a>(&'a self, url: &'a str) -> Fetching<'a, Vec<u8>> {
        Box::pin(async move {
            let name = shown_url(url);
            let login = credentials(url);
            let address = name.clone();
            let fetched = tokio::task::spawn_blocking(move || {
                let options = ClientOptions {
                    user_agent: format!("slipway/{}", env!("CARGO_PKG_VERSION")),
                    ..ClientOptions::default()
                };
                wait(async { Client::new(&options)?.get(&address, login.as_ref()).await })
            });
            match fetched.await {
                Ok(Ok(bytes)) => Ok(bytes),
                Ok(Err(error)) => Err(FetchError::new(format!("{name}: {error}"))),
                Err(error) => Err(FetchError::new(error.to_string())),
            }
        })
    }
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
