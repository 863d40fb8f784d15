//! ExternalSecret objects in the place of references.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use slipway_problem::{Problem, Problems};

use crate::container::UnitFile;
use crate::error::UnitError;

/// The store an operator reads a provider's secrets from: `[Kind/]name`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretStoreName {
    pub kind: String,
    pub name: String,
}

impl SecretStoreName {
    /// Reads `[Kind/]name`; a ClusterSecretStore if no kind is given.
    pub fn parse(text: &str) -> Self {
        let (kind, name) = text.split_once('/').unwrap_or(("ClusterSecretStore", text));
        Self { kind: kind.to_owned(), name: name.to_owned() }
    }
}

/// The name of the Secret that holds what the unit refers to.
pub(super) fn secret_name(unit: &UnitFile) -> String {
    format!("{}-unit-secrets", unit.release_name())
}

/// One ExternalSecret for every reference of the unit; none if there is none.
pub(super) fn external_secret(
    unit: &UnitFile,
    stores: &BTreeMap<String, SecretStoreName>,
) -> Result<Option<Value>, UnitError> {
    let references = &unit.rows().secret_refs;
    if references.is_empty() {
        return Ok(None);
    }
    let mut problems = Problems::new();
    let mut data = Vec::new();
    for (index, row) in references.iter().enumerate() {
        let provider = if row.provider.is_empty() { "default" } else { &row.provider };
        let Some(store) = stores.get(provider) else {
            let problem = Problem::error(format!("no store is given for provider `{provider}`"));
            problems.push(problem.hint(format!("add --secret-store {provider}=NAME")));
            continue;
        };
        let mut remote = json!({"key": row.path.trim_start_matches('/')});
        if !row.key.is_empty() {
            remote["property"] = row.key.trim_start_matches('/').replace('/', ".").into();
        }
        data.push(json!({
            "secretKey": format!("secret-{index}"), "remoteRef": remote,
            "sourceRef": {"storeRef": {"kind": store.kind, "name": store.name}},
        }));
    }
    let object = json!({
        "apiVersion": "external-secrets.io/v1", "kind": "ExternalSecret",
        "metadata": {"name": secret_name(unit), "namespace": unit.namespace()},
        "spec": {"refreshInterval": "1h", "target": {"name": secret_name(unit)}, "data": data},
    });
    Ok(problems.into_result(Some(object))?)
}
