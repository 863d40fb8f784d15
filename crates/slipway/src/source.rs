//! What a directory holds: a chart, a package or a kustomization.

use std::path::Path;

/// The kinds of source a release can be made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Chart,
    Package,
    Kustomization,
}

/// Tells the kind by what is there. What is neither package nor kustomization is taken for a chart, so
/// that a wrong path gets the chart loader's explanation.
pub fn kind(path: &Path) -> Kind {
    let has = |name: &str| path.join(name).is_file();
    if path.is_file() || has("Chart.yaml") {
        Kind::Chart
    } else if path.extension().is_some_and(|extension| extension == "kurel") || has("parameters.yaml") {
        Kind::Package
    } else if ["kustomization.yaml", "kustomization.yml", "Kustomization"].into_iter().any(has) {
        Kind::Kustomization
    } else {
        Kind::Chart
    }
}
