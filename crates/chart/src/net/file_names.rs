//! Names of files and where they go. A server never says more than the last part of a name, and what it
//! sends never lands beside the indexes of other repositories.

use std::path::{Path, PathBuf};

use url::Url;

use crate::deps::sha256_hex;
use crate::error::ChartError;
use slipway_go::filepath::is_file_name;

/// The name an archive at an address is kept under: always a plain `.tgz`.
pub(super) fn archive_name(url: &Url) -> Result<String, ChartError> {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let stem = last.strip_suffix(".tgz").unwrap_or(last);
    archive_file_name(stem, &slipway_http::shown_url(url))
}

/// The name an archive of a chart is kept under.
pub(super) fn chart_name(name: &str, version: &str) -> Result<String, ChartError> {
    archive_file_name(&format!("{name}-{version}"), name)
}

fn archive_file_name(stem: &str, what: &str) -> Result<String, ChartError> {
    if stem.starts_with('.') || !is_file_name(stem) {
        return Err(ChartError::Publish(format!("{what} names no file")));
    }
    Ok(format!("{stem}.tgz"))
}

/// The directory a chart of that content is kept in: charts of one name come from several repositories.
pub(super) fn cache_directory(cache: &Path, archive: &[u8]) -> PathBuf {
    cache.join("charts").join(sha256_hex(archive))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_have_plain_names_whatever_the_address() {
        for (url, expected) in [
            ("https://h/charts/web-1.0.0.tgz", Some("web-1.0.0.tgz")),
            ("https://h/web-1.0.0.tgz?sig=x", Some("web-1.0.0.tgz")),
            ("https://h/stable-index.yaml", Some("stable-index.yaml.tgz")),
            ("https://h/Makefile", Some("Makefile.tgz")),
            ("https://h/a%2F..%2Fb.tgz", Some("a%2F..%2Fb.tgz")),
            ("https://h/a:b.tgz", None),
            ("https://h/.bashrc", None),
            ("https://h/.tgz", None),
            ("https://h/", None),
        ] {
            assert_eq!(archive_name(&Url::parse(url).unwrap()).ok().as_deref(), expected, "{url}");
        }
    }
}
