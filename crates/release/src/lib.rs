//! One release: a chart, package, kustomization or set of manifests taken to a cluster.

pub mod decide;
pub mod ops;
pub mod owners;
pub mod resource;
pub mod stage;
