//! `kustomize-build`: renders the kustomization of an environment into files that are committed.

use slipway_kustomize::{BuildOptions, build};

use super::rendered::{RenderedObjects, write_rendered};
use crate::step::edit::{EditInputs, EditNote, EditTrees};
use crate::step::outcome::StepError;

pub(super) fn edit(inputs: &EditInputs, trees: EditTrees<'_>) -> Result<EditNote, StepError> {
    let directory = match inputs.text("path") {
        Some(path) => inputs.path_below(path)?,
        None => inputs.path()?,
    };
    let root = trees.source.locate(&directory)?;
    let within = Some(trees.source.directory().to_owned());
    let built = build(&root, &BuildOptions { within, ..BuildOptions::default() })
        .map_err(|problems| StepError::problems("BuildFailed", &problems))?;
    write_rendered(inputs, trees, RenderedObjects { objects: built.objects, tool: "kustomize" })
}
