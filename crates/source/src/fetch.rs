//! Fetches what is not on this machine. The binary knows the network, its logins and its caches; the engines know
//! [`Fetcher`].

use std::path::PathBuf;

use futures::future::BoxFuture;

use crate::detect::SourcePath;
use crate::error::LoadError;
use crate::reference::{ChartReference, SourceReference, shown_address};

/// The most a manifest or values file may have.
pub const LARGEST_FILE: usize = 32 << 20;

/// Tells why something could not be fetched. The text holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    pub message: String,
    /// Asking again will not help.
    pub permanent: bool,
    #[source]
    pub source: Option<slipway_chart::ChartError>,
}

impl FetchError {
    /// A failure that may pass.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), permanent: false, source: None }
    }

    /// The same, not worth another attempt.
    #[must_use]
    pub fn permanent(self) -> Self {
        Self { permanent: true, ..self }
    }
}

impl From<slipway_chart::ChartError> for FetchError {
    fn from(error: slipway_chart::ChartError) -> Self {
        Self { source: Some(error.clone()), ..Self::new(error.to_string()) }
    }
}

/// A chart that was brought here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedChart {
    /// The archive.
    pub path: PathBuf,
    /// What is worth knowing of the download.
    pub notes: Vec<String>,
}

/// Fetches charts and files.
pub trait Fetcher: Send + Sync {
    /// Brings a chart to this machine as an archive.
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>>;

    /// Reads a file by its HTTP(S) address, up to [`LARGEST_FILE`] bytes.
    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>>;
}

/// Reaches nothing outside of this machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offline;

impl Fetcher for Offline {
    fn fetch_chart<'a>(
        &'a self,
        chart: &'a ChartReference,
    ) -> BoxFuture<'a, Result<FetchedChart, FetchError>> {
        let error = FetchError::new(format!("chart {chart} cannot be fetched: there is no network here"));
        Box::pin(std::future::ready(Err(error.permanent())))
    }

    fn fetch_file<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Vec<u8>, FetchError>> {
        let url = shown_address(url);
        let error = FetchError::new(format!("{url} cannot be fetched: there is no network here"));
        Box::pin(std::future::ready(Err(error.permanent())))
    }
}

/// A source on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchedSource {
    pub path: SourcePath,
    /// What is worth knowing of a download.
    pub notes: Vec<String>,
}

/// Gets a source to this machine, if it is not here yet, and tells what it is.
pub async fn fetch(reference: &SourceReference, fetcher: &dyn Fetcher) -> Result<FetchedSource, LoadError> {
    match reference {
        SourceReference::Path(path) => {
            Ok(FetchedSource { path: SourcePath::detect(path)?, notes: Vec::new() })
        }
        // What a repository holds is a chart.
        SourceReference::Chart(chart) => {
            let FetchedChart { path, notes } = fetcher.fetch_chart(chart).await?;
            Ok(FetchedSource { path: SourcePath::Chart(path), notes })
        }
    }
}
