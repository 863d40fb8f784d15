//! Charts from the network: HTTP repositories and OCI registries.
//!
//! Addresses, credentials and certificates come in as options; nothing is read from the environment.

mod credentials;
mod home;
mod http;
mod oci;
mod remote;

pub use credentials::{Credentials, Login};
pub use home::Home;
pub use http::{Client, ClientOptions};
pub use oci::{Pulled, Pushed, Reference, check_login, pull, push, tags};
pub use remote::{Access, Downloaded, Helper, Provenance, Remote, fetch_index, wait};
