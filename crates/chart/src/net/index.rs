//! The indexes of HTTP repositories and the charts they name.

use slipway_event::without_credentials;
use slipway_http::HttpError;
use url::Url;

use super::credentials::Login;
use super::http::{HttpClient, is_denied};
use crate::deps::sha256_hex;
use crate::error::{ChartError, Notices};
use crate::repo::{IndexEntry, RepositoryEntry, RepositoryIndex, absolute_url};

/// Fetches a repository's index.
pub async fn fetch_index(
    client: &HttpClient,
    repository: &RepositoryEntry,
) -> Result<(RepositoryIndex, Vec<u8>), ChartError> {
    let url = absolute_url(&repository.url, "index.yaml")?;
    let address = without_credentials(&repository.url);
    let bytes =
        client.get(&url, login_for(repository, &url).as_ref()).await.map_err(|error| match error {
            HttpError::Interrupted(_) => error.into(),
            error => {
                let text = format!(
                    "looks like {address:?} is not a valid chart repository or cannot be reached: {error}"
                );
                if is_denied(&error) { ChartError::Denied(text) } else { ChartError::Publish(text) }
            }
        })?;
    let index = RepositoryIndex::parse(&bytes, &address, &mut Notices::new())?;
    Ok((index, bytes))
}

/// Fetches one chart of a repository, and checks it against the digest the index promises.
pub(super) async fn download_chart(
    client: &HttpClient,
    repository: &RepositoryEntry,
    entry: &IndexEntry,
) -> Result<Vec<u8>, ChartError> {
    let url = entry.download_url(&repository.url)?;
    let bytes = client.get(&url, login_for(repository, &url).as_ref()).await?;
    check_digest(&url, &entry.digest, &bytes)?;
    Ok(bytes)
}

pub(super) fn check_digest(url: &str, promised: &str, bytes: &[u8]) -> Result<(), ChartError> {
    let promised = promised.strip_prefix("sha256:").unwrap_or(promised);
    let found = sha256_hex(bytes);
    if promised.is_empty() || promised.eq_ignore_ascii_case(&found) {
        return Ok(());
    }
    let url = without_credentials(url);
    Err(ChartError::Publish(format!(
        "{url} has the digest {found}, but the repository's index promises {promised}"
    )))
}

/// The repository's login if it is for an address: its own scheme, host and port, unless the user said
/// otherwise.
pub(super) fn login_for(repository: &RepositoryEntry, url: &str) -> Option<Login> {
    if repository.username.is_empty() && repository.password.is_empty() {
        return None;
    }
    (is_same_origin(&repository.url, url) || repository.pass_credentials_all)
        .then(|| Login { username: repository.username.clone(), password: repository.password.clone() })
}

pub(super) fn is_same_origin(one: &str, other: &str) -> bool {
    let origin = |text: &str| Url::parse(text).ok().map(|url| url.origin());
    origin(one).is_some_and(|one| Some(one) == origin(other))
}
