//! The kinds and namespaces a run brings before a step, as far as its files say.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;
use slipway_manifest::{Gvk, object};

use super::decision::skipped_by_when;
use crate::files;
use crate::manifests;
use crate::model::{Document, ManifestSource};

/// Kinds and namespaces steps bring that others may need.
pub(crate) struct Earlier {
    pub(crate) kinds: BTreeSet<Gvk>,
    pub(crate) namespaces: BTreeSet<String>,
    /// Charts may bring anything.
    pub(crate) charts: bool,
}

impl Earlier {
    pub(crate) fn of(document: &Document, base: &Path) -> Self {
        let mut earlier = Self { kinds: BTreeSet::new(), namespaces: BTreeSet::new(), charts: false };
        for step in document.steps.iter().filter(|step| skipped_by_when(step).is_none()) {
            step.action.as_step().provide(base, &mut earlier);
        }
        earlier
    }

    /// Adds the kinds and namespaces that manifests define.
    pub(crate) fn add_manifests(&mut self, sources: &[ManifestSource], base: &Path) {
        for object in local_objects(sources, base) {
            let gvk = object::gvk(&object);
            if gvk.kind == "CustomResourceDefinition" {
                self.kinds.extend(slipway_cluster::crd::served_kinds(&object));
            } else if gvk.kind == "Namespace" {
                self.namespaces.extend(object::name(&object).map(str::to_owned));
            }
        }
    }
}

/// Objects of sources that need no network.
fn local_objects(sources: &[ManifestSource], base: &Path) -> Vec<Value> {
    let mut objects = Vec::new();
    let mut problems = slipway_problem::Problems::new();
    for source in sources {
        match source {
            ManifestSource::Inline { text, at } => {
                manifests::read(text, &at.file, &mut objects, &mut problems);
            }
            ManifestSource::File(path) => {
                if let Ok(text) = files::read_text(&base.join(path)) {
                    manifests::read(&text, path, &mut objects, &mut problems);
                }
            }
            ManifestSource::Url(_) | ManifestSource::Kustomize(_) => {}
        }
    }
    object::expand_lists(objects)
}
