//! Charts from the network: HTTP repositories and OCI registries.
//!
//! Addresses, credentials and certificates come in as options; nothing is read from the environment.

mod artifact;
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

pub use artifact::{
    ArtifactLayer, FoundManifest, PulledArtifact, PulledLayer, PushedArtifact, find_manifest, pull_artifact,
    pull_layers, push_artifact,
};
pub use credentials::{Credentials, Login};
pub use home::HelmHome;
pub use http::{ClientOptions, HttpClient, NetworkLimits, NetworkOptions};
pub use index::fetch_index;
pub use oci::{
    ImageDetails, PulledChart, PushedChart, TaggedImage, check_login, list_all_tags, list_tags, pull_chart,
    push, read_image,
};
pub use reference::OciReference;
pub use remote::{
    AccessOptions, CredentialHelper, DownloadedChart, ProvenanceMode, RemoteCharts, run_blocking,
};
pub use schemas::RemoteSchemas;
