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
pub use home::Home;
pub use http::{Client, ClientOptions, NetworkLimits, NetworkOptions};
pub use index::fetch_index;
pub use oci::{Pulled, Pushed, check_login, pull, push, tags};
pub use reference::Reference;
pub use remote::{Access, Downloaded, Helper, Provenance, Remote, wait};
pub use schemas::RemoteSchemas;
