//! The file of a unit: a SQLite database with a sealed part, which never changes, and a ledger, which only grows.
//!
//! Units come from elsewhere: [`open`] trusts nothing of a file before its header, schema, rows, contents and chain are
//! checked. Identity is computed over rows ([`seal`]), never over the bytes of the file.

mod blobs;
pub(crate) mod connection;
mod create;
mod open;
mod rows;
pub(crate) mod schema;
mod seal;
mod table;

pub(crate) use blobs::{BlobStore, BlobWriter, ContentHash, LARGEST_CONTENT};
pub(crate) use create::{create_sidecar, move_in_place, write_private, write_unit};
pub use open::{OpenOptions, UnitFile};
pub(crate) use rows::ValuesRow;
pub use rows::{
    BindingConfidence, BindingKind, BindingRow, BuildRow, ChartRow, FileRow, ImageOrigin, ImagePlatform,
    ImageRow, ImageUseRow, LayerKind, ManifestRow, ObjectRow, OverlaySlotRow, PolicyRow, SealedRows,
    SecretRefRow, SignatureRow, SourceKind, ValueLayerRow,
};
