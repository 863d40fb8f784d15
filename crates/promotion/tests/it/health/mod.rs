//! Health: each adapter on the sandbox, with the shapes of status the tools' own documentation shows.

mod delivery;
pub(crate) mod gitops;
pub(crate) mod remote;
pub(crate) mod support;
mod workloads;
