//! Kurel packages: parameters, patches and plain manifests become objects, without templates.
//!
//! [`Package::load`] reads a directory once; everything after is a pure function of those bytes.
//! [`Package::build`] merges parameters, resolves references, decides which patches apply, applies them,
//! checks the result and orders it; a [`PackageBuild`] can be written as one stream, as files, by phase, for Flux
//! or Argo CD, and can [explain](PackageBuild::explain) every field. [`Package::validate`] also looks at what is
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

pub use apply::{PatchWrite, PathSegment, WriteKind, show_segs};
pub use build::{
    BuildInputs, BuiltObject, DroppedObject, FieldContention, InstallPhase, LeafWrite, PHASE, PackageBuild,
    PackageValidation, ValuesFile, summary,
};
pub use cases::{CaseResult, TestCase};
pub use compare::{FieldChange, changes};
pub use diff::BuildDiff;
pub use enable::{EnabledReason, PatchDecision, PatchState};
pub use explain::{Explanation, FieldStep, UsedParameter, UsedPatch};
pub use files::PackageFiles;
pub use info::{PackageInfo, ParameterInfo, PatchInfo};
pub use init::{PackageScaffold, import, scaffold};
pub use output::{
    ArgoApp, DirectoryPlan, EmitOptions, FileLayout, FluxOptions, ForeignFiles, MARKER, OutFile,
    plan_directory,
};
pub use package::{EXPORTED_SCHEMA, LoadOptions, LocalExtension, Package};
pub use params::{
    LayerKind, PackageMaintainer, PackageMetadata, ParamData, ParamLayer, ParamValue, ResolvedParams,
    SetKind, SetValue,
};
pub use patches::{EnabledCondition, Patch, PatchOrigin};
pub use resources::Resource;
pub use schema::ParameterSchema;
pub use trace::TouchedField;
pub use val::{ForcedType, ValueData, ValuePos, WrittenNumber, WrittenValue};
