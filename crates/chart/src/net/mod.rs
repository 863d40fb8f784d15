//! Charts from the network: HTTP repositories and OCI registries.
//!
//! Addresses, credentials and certificates come in as options; nothing is read from the environment.

mod credentials;
mod dependencies;
mod file_names;
mod home;
mod http;
mod index;
mod oci;
mod reference;
mod remote;
mod schemas;

pub use credentials::{Credentials, Login};
pub use home::HelmHome;
pub use http::{ClientOptions, HttpClient, NetworkLimits, NetworkOptions};
pub use index::fetch_index;
pub use oci::{PulledChart, PushedChart, check_login, list_tags, pull_chart, push};
pub use reference::OciReference;
pub use remote::{
    AccessOptions, CredentialHelper, DownloadedChart, ProvenanceMode, RemoteCharts, run_blocking,
};
pub use schemas::RemoteSchemas;
