//! Images as registries name them.

use slipway_chart::ChartError;
use slipway_chart::net::OciReference;

/// The repository of an image, with the host that a short name leaves out.
pub(crate) fn registry_reference(repository: &str) -> Result<OciReference, ChartError> {
    let first = repository.split('/').next().unwrap_or_default();
    let has_host = repository.contains('/') && (first.contains(['.', ':']) || first == "localhost");
    match (has_host, repository.contains('/')) {
        (true, _) => OciReference::parse(repository),
        (false, true) => OciReference::parse(&format!("docker.io/{repository}")),
        (false, false) => OciReference::parse(&format!("docker.io/library/{repository}")),
    }
}
