//! Kustomizations: build them to objects, edit them in place.
//!
//! [`build`] reads a directory with a `kustomization.yaml` and everything it names, and gives the
//! objects kustomize 5.5 would print, in the same order and, through [`Build::to_yaml`], in the same
//! bytes. Nothing is downloaded, no program is run, and no file outside of a kustomization's own
//! directory is read. Every mistake of every file is reported in one go. [`edit`] changes a
//! kustomization file and leaves its comments and layout alone.

mod accumulate;
mod build;
mod config;
pub mod edit;
mod fieldspec;
mod files;
mod generate;
mod growth;
mod hash;
mod id;
mod kustomization;
mod load;
mod objects;
mod patch;
mod plugin;
mod resource;
mod schema;
mod selector;
mod sort;
mod transform;
mod written;

pub use build::{Build, BuildOptions, Quirks, build};
