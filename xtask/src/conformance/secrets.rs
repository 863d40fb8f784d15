//! Secrets: AWS as moto plays it, a real Vault, a file and a program, fetched by us.

use anyhow::Result;

use super::{built, compare_by_script};
use crate::peers;

/// AWS's services for tests, from Python.
const MOTO: &str = "moto[server]==5.2.5";

pub fn run() -> Result<()> {
    let slipway = built()?;
    compare_by_script("secrets", "secret_backends.py", &[slipway], Some(MOTO))
}

/// A real Vault server with our sandbox as the cluster that vouches for service accounts. Building the server takes long, so it
/// runs only when it is named.
pub fn run_vault() -> Result<()> {
    let (slipway, vault) = (built()?, peers::vault()?);
    compare_by_script("vault", "vault_backend.py", &[slipway, vault], Some(MOTO))
}
