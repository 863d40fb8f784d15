//! One shared watch for each kind and namespace.

/// The watches under way.
#[derive(Default)]
pub(crate) struct Watches {}
