//! Charts from the network: HTTP repositories and OCI registries.
//!
//! Addresses, credentials and certificates come in as options; nothing is read from the environment.

mod credentials;
mod http;
mod oci;
mod repository;

pub use credentials::{Credentials, Login};
pub use http::{Client, ClientOptions};
pub use oci::{Pulled, Pushed, Reference, pull, push, tags};
pub use repository::{Fetcher, download, fetch_index};
