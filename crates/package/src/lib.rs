//! Kurel packages: parameters, patches and plain manifests become objects, without templates.
//!
//! [`Package::load`] reads a directory once; everything after is a pure function of those bytes.
//! [`Package::build`] merges parameters, resolves references, decides which patches apply, applies them,
//! checks the result and orders it; a [`Build`] can be written as one stream, as files, by phase, for Flux
//! or Argo CD, and can [explain](Build::explain) every field. [`Package::validate`] also looks at what is
//! switched off, [`Package::schema`] computes a JSON Schema of the parameters, [`Package::test`] runs the
//! package's own tests, [`scaffold`] and [`import`] start new packages.
//!
//! Nothing here reads the environment, prints, or reads a file outside of the package.

pub mod kpatch;
pub mod template;

mod apply;
mod build;
mod cases;
mod check;
mod compare;
mod diff;
mod enable;
mod explain;
mod files;
mod info;
mod init;
mod located;
mod output;
mod package;
mod params;
mod patches;
mod report;
mod resources;
mod schema;
mod text;
mod trace;
mod val;

pub use apply::{Seg, Write, WriteKind, show_segs};
pub use build::{
    Build, BuiltObject, Contention, Dropped, Inputs, LeafWrite, PHASE, Phase, Validation, ValuesFile, summary,
};
pub use cases::{Case, CaseResult};
pub use compare::{FieldChange, changes};
pub use diff::BuildDiff;
pub use enable::{Decision, Reason, State};
pub use explain::{Explanation, UsedParameter, UsedPatch, Written};
pub use files::Files;
pub use info::{PackageInfo, ParameterInfo, PatchInfo};
pub use init::{Scaffold, import, scaffold};
pub use output::{ArgoApp, Emit, FluxOptions, ForeignFiles, Layout, MARKER, OutFile, Plan, plan_directory};
pub use package::{EXPORTED_SCHEMA, LoadOptions, Local, Package};
pub use params::{Layer, LayerKind, Maintainer, Metadata, Param, ParamData, Params, SetKind, SetValue};
pub use patches::{Enabled, Origin, Patch};
pub use resources::Resource;
pub use schema::ParameterSchema;
pub use trace::Touched;
pub use val::{Data, Forced, Number, Pos, Val};
