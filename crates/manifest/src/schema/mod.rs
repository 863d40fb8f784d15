//! The built-in types of Kubernetes, read once from data in the binary.

pub mod data;
mod resources;
pub mod table;
mod types;
mod zero;

use std::collections::HashMap;
use std::sync::OnceLock;

pub use resources::{PrinterColumn, Resource, Subresource};
pub use types::{
    AnyForm, ListKind, ListShape, MapShape, OmitRule, PatchRule, ScalarType, SchemaAlternative, Shape,
    ShapeId, StructField, TypeRef, TypeRegistry,
};
pub use zero::{zero_field, zero_value};

use crate::object::Gvk;

/// The built-in types, resources and columns. Each part is unpacked when first used.
#[derive(Default)]
pub struct Schema {
    types: OnceLock<TypeRegistry>,
    resources: OnceLock<Vec<Resource>>,
    columns: OnceLock<HashMap<String, Vec<PrinterColumn>>>,
}

static BUILT_IN: Schema =
    Schema { types: OnceLock::new(), resources: OnceLock::new(), columns: OnceLock::new() };

impl Schema {
    /// The schema of the Kubernetes version this program was built with (1.37).
    pub fn built_in() -> &'static Schema {
        &BUILT_IN
    }

    /// Every built-in type.
    pub fn types(&self) -> &TypeRegistry {
        // The data is part of the binary and a test reads all of it; were it damaged all the same,
        // every kind would be unknown.
        self.types.get_or_init(|| {
            data::unpack_section(0).and_then(|json| table::parse_table(&json)).unwrap_or_default()
        })
    }

    /// Finds the shape of a built-in kind.
    pub fn type_of_kind(&self, gvk: &Gvk) -> Option<TypeRef<'_>> {
        self.types().type_of_kind(&gvk.api_version(), &gvk.kind)
    }

    /// Finds the shape of an object by its own `apiVersion` and `kind`.
    pub fn type_of(&self, object: &serde_json::Value) -> Option<TypeRef<'_>> {
        self.types().type_of_kind(crate::object::api_version(object)?, crate::object::kind(object)?)
    }

    /// Every resource, in the order a server lists them.
    pub fn resources(&self) -> &[Resource] {
        self.resources.get_or_init(|| {
            data::unpack_section(1).ok().and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
        })
    }

    /// The resource that serves a kind.
    pub fn resource_of(&self, gvk: &Gvk) -> Option<&Resource> {
        self.resources()
            .iter()
            .find(|r| r.group == gvk.group && r.version == gvk.version && r.kind == gvk.kind)
    }

    /// Returns true if objects of a built-in kind live in a namespace; `None` if the kind is not built in.
    pub fn is_namespaced(&self, group: &str, kind: &str) -> Option<bool> {
        self.resources().iter().find(|r| r.group == group && r.kind == kind).map(|r| r.namespaced)
    }

    /// The columns a server prints for a resource.
    pub fn columns(&self, api_version: &str, plural: &str) -> Option<&[PrinterColumn]> {
        let columns = self.columns.get_or_init(|| {
            data::unpack_section(2).ok().and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default()
        });
        columns.get(&format!("{api_version} {plural}")).map(Vec::as_slice)
    }
}
