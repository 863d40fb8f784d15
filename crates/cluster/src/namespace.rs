//! Making sure the namespace of a release is there, with the least permissions that do.

use serde_json::json;
use slipway_manifest::{ObjectRef, object};

use crate::error::{Error, ErrorClass};
use crate::lock::CONFIG_MAP;
use crate::{Apply, Cluster};

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Namespace {
    Existed,
    Created,
    /// It is not there, and was not to be created.
    Missing,
}

/// Whether a missing namespace is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Create,
    /// Only looks; for plans.
    Leave,
}

impl Cluster {
    /// Makes sure a namespace exists. Tries to write into it first, without effect: whoever may work in
    /// a namespace need not be allowed to read or create namespaces.
    pub async fn ensure_namespace(
        &self,
        name: &str,
        manager: &str,
        missing: Missing,
    ) -> Result<Namespace, Error> {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": CONFIG_MAP, "namespace": name},
        });
        let at = ObjectRef::core("ConfigMap", Some(name), CONFIG_MAP);
        let tried = Apply::new(manager).dry_run(true);
        let inside = match self.apply(&at, &manifest, &tried).await {
            Ok(_) => return Ok(Namespace::Existed),
            Err(e) if matches!(e.class, ErrorClass::NotFound | ErrorClass::Forbidden) => e,
            Err(e) => return Err(e),
        };
        let manifest = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let at = ObjectRef::core("Namespace", None, name);
        let live = self.apply(&at, &manifest, &tried).await.map_err(|outside| {
            let message =
                format!("{}; and the namespace cannot be created: {}", inside.message, outside.message);
            Error { action: format!("prepare namespace {name}"), message, ..outside }
        })?;
        let existed = object::metadata(&live).is_some_and(|metadata| {
            // A dry run of an existing object shows the version stored.
            metadata.get("resourceVersion").and_then(serde_json::Value::as_str).is_some_and(|v| !v.is_empty())
        });
        if existed || missing == Missing::Leave {
            // It exists, and still nothing may be written into it.
            return match (existed, inside.class) {
                (true, ErrorClass::Forbidden) => Err(inside),
                (true, _) => Ok(Namespace::Existed),
                (false, _) => Ok(Namespace::Missing),
            };
        }
        self.apply(&at, &manifest, &Apply::new(manager)).await?;
        Ok(Namespace::Created)
    }
}
