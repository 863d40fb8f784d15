//! Schemas from elsewhere, fetched once and within limits.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use super::http::{ClientOptions, HttpClient, NetworkOptions};
use super::remote::wait;
use crate::error::ChartError;
use crate::values::SchemaSource;

const LARGEST_SCHEMA: usize = 8 * 1024 * 1024;

/// Fetches schemas by HTTP and HTTPS, each once. No credentials are sent.
#[derive(Debug)]
pub struct RemoteSchemas {
    network: NetworkOptions,
    fetched: Mutex<HashMap<String, Vec<u8>>>,
}

impl RemoteSchemas {
    pub fn new(network: NetworkOptions) -> Self {
        Self { network, fetched: Mutex::default() }
    }
}

impl SchemaSource for RemoteSchemas {
    fn fetch(&self, address: &str) -> Result<Vec<u8>, ChartError> {
        let mut fetched = self.fetched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = fetched.get(address) {
            return Ok(known.clone());
        }
        let options = ClientOptions { network: self.network.clone(), ..ClientOptions::default() };
        let bytes =
            wait(async { Ok(HttpClient::new(&options)?.get_up_to(address, None, LARGEST_SCHEMA).await?) })?;
        fetched.insert(address.to_owned(), bytes.clone());
        Ok(bytes)
    }
}
