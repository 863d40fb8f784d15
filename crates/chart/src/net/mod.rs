//! Charts from the network: HTTP repositories and OCI registries.
//!
//! Addresses, credentials and certificates come in as options; nothing is read from the environment.

mod credentials;
mod dependencies;
mod home;
mod http;
mod index;
mod oci;
mod place;
mod reference;
mod remote;
mod schemas;

pub use credentials::{Credentials, Login};
pub use home::HelmHome;
pub use http::{ClientOptions, HttpClient, NetworkLimits, NetworkOptions};
pub use index::fetch_index;
pub use oci::{PulledChart, PushedChart, check_login, pull, push, tags};
pub use reference::OciReference;
pub use remote::{AccessOptions, CredentialHelper, DownloadedChart, ProvenanceMode, RemoteCharts, wait};
pub use schemas::RemoteSchemas;
