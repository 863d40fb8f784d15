//! Helm's storage driver `sql`: a real PostgreSQL database that Helm and we share, with the sandbox as the cluster.

use anyhow::Result;

use super::{built, compare_by_script};
use crate::peers;

pub fn run() -> Result<()> {
    peers::openssl()?;
    compare_by_script("sql", "sql.py", &[built()?, peers::helm()?, peers::postgres()?], Some("pyyaml"))
}
