//! The one HTTP client of repositories, registries, values files, schemas and secret backends.
//!
//! Every request has a limit on its size and its time, and credentials go to the host they are for
//! ([`Authorization`]), whatever a redirect says. Addresses, credentials and certificates come in as
//! options; nothing but the system's proxy settings is read from the environment.

mod client;
mod error;
mod request;

pub use client::{ClientOptions, HttpClient, HttpResponse, NetworkLimits, NetworkOptions};
pub use error::HttpError;
pub use request::{Authorization, HttpRequest, Login, parse_url, shown};
/// The types requests are made of.
pub use reqwest::{
    Method, StatusCode,
    header::{self, HeaderName, HeaderValue},
};
