//! The steps that change objects, one file each; the order they run in is in [`crate::accumulate`].

pub(crate) mod images;
pub(crate) mod lookup;
pub(crate) mod metadata;
pub(crate) mod names;
pub(crate) mod namespace;
pub(crate) mod references;
pub(crate) mod replacements;
pub(crate) mod replicas;
pub(crate) mod value_add;
pub(crate) mod variables;

use slipway_problem::{Location, Problem, Problems};

use crate::fieldspec::NotAContainer;
use crate::resource::Resource;

/// Reports a field path that leads into a plain value.
pub(crate) fn report_path(
    problems: &mut Problems,
    resource: &Resource,
    at: &Location,
    error: &NotAContainer,
) {
    let object = resource.current_id();
    problems.push(
        Problem::error(format!("`{object}`: `{}` should be a mapping or a list of them", error.field))
            .at(resource.at.clone())
            .hint(format!("needed by {at}")),
    );
}
