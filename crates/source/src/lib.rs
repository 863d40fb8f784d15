//! Sources of releases: charts, packages, kustomizations and plain manifests, read once for every engine.
//!
//! A [`SourceReference`] names a source as users write it. A [`Fetcher`] brings charts from elsewhere to this
//! machine; [`SourcePath::detect`] tells what lies at a path. [`LoadedSource::load`] reads all of it, decrypts
//! encrypted values and resolves references to secrets ([`LoadContext`]). From then on no file is read:
//! [`LoadedSource::render`] gives [`Document`]s for a release, as often as it is asked.
//!
//! The crate reads the files it is pointed at and nothing else: no environment, no home directory, no terminal.

mod decrypt;
mod detect;
mod digest;
mod document;
mod error;
mod fetch;
mod host;
mod load;
mod mark;
mod origin;
mod reference;
mod render;
mod values;

pub use decrypt::{Decryption, KeySource};
pub use detect::SourcePath;
pub use digest::SourceDigests;
pub use document::{Document, Stored};
pub use error::{LoadError, ResolveError};
pub use fetch::{FetchError, FetchedChart, FetchedSource, Fetcher, LARGEST_FILE, Offline, fetch};
pub use load::{
    DefaultValues, LoadContext, LoadedChart, LoadedSource, RenderSettings, SourceContent, SourceRequest,
};
pub use mark::mark_secrets;
pub use origin::{Origin, TemplateFile, Turn};
pub use reference::{ChartReference, RepositoryLogin, SourceReference, shown_address};
pub use render::{PostRenderError, PostRenderer, RenderContext, RenderedSource, SecretState};
pub use values::{NoSecrets, ResolvedValues, SecretResolver};
