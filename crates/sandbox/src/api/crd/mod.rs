//! Custom resource definitions: their validation, the resources they serve and the rules for their objects.

mod custom;
mod definition;
mod establish;
pub(crate) mod rules;
mod scale;

pub(crate) use custom::CustomVersion;
pub(crate) use definition::validate_definition;
pub(crate) use establish::{establish_definition, mark_terminating, refresh_registry};

/// Holds a definition until its objects are gone.
pub(crate) const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
