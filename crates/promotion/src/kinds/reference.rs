//! References from one object to another.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A Secret: its name, or its name and namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "SecretRefForm")]
pub struct SecretRef {
    pub name: String,
    /// That of the object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl SecretRef {
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), namespace: None }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SecretRefForm {
    Name(String),
    Object {
        name: String,
        #[serde(default)]
        namespace: Option<String>,
    },
}

impl From<SecretRefForm> for SecretRef {
    fn from(form: SecretRefForm) -> Self {
        match form {
            SecretRefForm::Name(name) => Self { name, namespace: None },
            SecretRefForm::Object { name, namespace } => Self { name, namespace },
        }
    }
}

impl JsonSchema for SecretRef {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SecretRef".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        // A text or an object: structural schemas have no such union.
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

/// An object by name, in the namespace at hand unless it says otherwise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectName {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// The schema of a value of any shape.
pub(crate) fn any_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"x-kubernetes-preserve-unknown-fields": true})
}

/// The schema of an object of any shape.
pub(crate) fn any_object_schema(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
