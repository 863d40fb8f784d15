//! Names for objects: the one way to refer to an object of a cluster, and its identity over versions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::{self, Gvk};

/// A reference to an object of a cluster; prints as `Deployment shop/web`, or `ClusterRole/admin` without a namespace.
///
/// The JSON form has `apiVersion`, `kind`, `namespace`
/// and `name`.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(into = "WireForm", from = "WireForm")]
pub struct ObjectRef {
    pub gvk: Gvk,
    /// `None` for objects of the whole cluster.
    pub namespace: Option<String>,
    pub name: String,
}

impl ObjectRef {
    /// Refers to an object; an empty namespace is none.
    pub fn new(gvk: Gvk, namespace: Option<&str>, name: impl Into<String>) -> Self {
        let namespace = namespace.filter(|namespace| !namespace.is_empty()).map(str::to_owned);
        Self { gvk, namespace, name: name.into() }
    }

    /// Reads the reference of a live object, which names its own namespace.
    pub fn of(object: &Value) -> Self {
        Self::new(object::gvk(object), object::namespace(object), object::name(object).unwrap_or_default())
    }

    /// Refers to an object of the core group.
    pub fn core(kind: &str, namespace: Option<&str>, name: &str) -> Self {
        Self::new(Gvk::new("", "v1", kind), namespace, name)
    }
}

impl fmt::Display for ObjectRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.gvk.kind, self.namespace.as_deref().unwrap_or_default(), &self.name)
    }
}

/// An object of a cluster by kind and name.
#[derive(Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ObjectRef")]
struct WireForm {
    api_version: String,
    kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    namespace: String,
    name: String,
}

impl From<ObjectRef> for WireForm {
    fn from(object: ObjectRef) -> Self {
        Self {
            api_version: object.gvk.api_version(),
            kind: object.gvk.kind,
            namespace: object.namespace.unwrap_or_default(),
            name: object.name,
        }
    }
}

impl From<WireForm> for ObjectRef {
    fn from(form: WireForm) -> Self {
        Self::new(Gvk::from_api_version(&form.api_version, &form.kind), Some(&form.namespace), form.name)
    }
}

/// The identity of an object, whatever version its manifest is written in; prints as [`ObjectRef`] does.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    pub group: String,
    pub kind: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectId {
    /// Reads the identity of an object; absent parts are empty.
    pub fn of(object: &Value) -> Self {
        ObjectRef::of(object).into()
    }
}

impl From<ObjectRef> for ObjectId {
    fn from(object: ObjectRef) -> Self {
        Self {
            group: object.gvk.group,
            kind: object.gvk.kind,
            namespace: object.namespace.unwrap_or_default(),
            name: object.name,
        }
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, &self.kind, &self.namespace, &self.name)
    }
}

fn write_name(f: &mut fmt::Formatter<'_>, kind: &str, namespace: &str, name: &str) -> fmt::Result {
    match namespace {
        "" => write!(f, "{kind}/{name}"),
        namespace => write!(f, "{kind} {namespace}/{name}"),
    }
}
