//! The one HTTP client of repositories, registries, values files, schemas and secret backends, and the one server
//! ([`server`]) of the sandbox and the controller.
//!
//! Every request has a limit on its size and its time, and credentials go to the host they are for
//! ([`Authorization`]), whatever a redirect says. Addresses, credentials and certificates come in as
//! options; nothing but the system's proxy settings is read from the environment.

mod address;
mod assertion;
mod client;
mod error;
mod request;
pub mod server;

pub use address::AddressPolicy;
pub use assertion::{AssertionError, sign_rs256, sign_with_certificate};
pub use client::{ClientOptions, HttpClient, HttpResponse, NetworkLimits, NetworkOptions, RedirectScope};
pub use error::HttpError;
pub use request::{Authorization, HttpRequest, Login, parse_url, shown_url};
/// The types requests are made of.
pub use reqwest::{
    Method, StatusCode,
    header::{self, HeaderName, HeaderValue},
};
