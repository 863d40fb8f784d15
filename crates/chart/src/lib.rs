//! Helm charts: load them, give them values, render them exactly as Helm does.
//!
//! [`Chart::load`] reads a directory or an archive. [`UserValues`] collects `-f` and `--set`.
//! [`render`] produces manifests, hooks, notes and definitions; [`RenderedChart::to_template_output`] is what
//! `helm template` prints, byte for byte. A [`ChartProgram`] keeps parsed templates for many renderings.
//! Around that: [`lint`], [`show_chart`], [`package_chart`], [`create`], dependencies, repositories and
//! encrypted values ([`secret`]).
//!
//! The crate reads the files it is pointed at and nothing else: no environment, no home directory, no
//! terminal.

mod codec;
mod create;
mod decode;
pub mod deps;
mod error;
pub mod explain;
pub mod lint;
mod load;
mod metadata;
#[cfg(feature = "net")]
pub mod net;
mod package;
pub mod provenance;
mod render;
pub mod repo;
pub mod secret;
mod show;
mod values;
mod version;

pub use create::{create, create_from};
pub use error::{ChartError, ChartFault, LogNotice, Notices};
pub use load::{
    Chart, ChartFile, ChartInput, CrdFile, IgnoreError, IgnoreRules, LoadLimits, LoadOptions, unpack,
};
pub use metadata::{ChartLock, ChartMetadata, Dependency, Maintainer};
pub use package::{PackageOptions, PackedChart, package_chart};
pub use render::{
    Capabilities, ChartProgram, HELM_VERSION, INSTALL_ORDER, KubeVersion, RenderOptions, RenderedChart,
    RenderedHook, RenderedManifest, RootContext, SeededHost, check_release_name, generate_name, install_rank,
    name_from_template, render, render_text, split_documents,
};
pub use show::{ChartPart, show_chart};
pub use values::{SchemaSource, UserValues, is_address};
