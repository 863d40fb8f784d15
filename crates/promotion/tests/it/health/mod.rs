//! Health: each adapter on the sandbox, with the shapes of status the tools' own documentation shows.

mod delivery;
mod gitops;
mod remote;
pub(crate) mod support;
mod workloads;
