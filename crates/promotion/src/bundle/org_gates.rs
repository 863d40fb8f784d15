//! Instances of org gates: made and kept here, in the namespaces of their templates, where a namespace's admins cannot edit them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::json;
use slipway_cluster::{Cluster, DeletePropagation, ListOptions};

use crate::kinds::{self, KindError, PolicyGate, PolicyGateSpec, StepState, labels};

/// Creates the instances that are not there yet.
pub(super) async fn create_missing(cluster: &Cluster, gates: &[PolicyGate]) -> Result<(), KindError> {
    for gate in gates {
        let mut gate = gate.clone();
        set_upstreams(&mut gate.spec, &BTreeMap::new());
        match kinds::create(cluster, &gate).await {
            Err(error) if error.is_already_there() => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// The instances of a Bundle in every policy namespace.
pub(super) async fn of_bundle(
    cluster: &Cluster,
    policy_namespaces: &BTreeSet<String>,
    namespace: &str,
    bundle: &str,
) -> Result<Vec<PolicyGate>, KindError> {
    let selector = format!("{}=true,{}={}", labels::INSTANCE, labels::BUNDLE, labels::label_value(bundle));
    let options = ListOptions::with_labels(selector);
    let mut found = Vec::new();
    for policy_namespace in policy_namespaces {
        let gates = kinds::list::<PolicyGateSpec>(cluster, Some(policy_namespace), &options).await?;
        let is_own = |gate: &PolicyGate| {
            gate.bundle_namespace() == namespace && gate.spec.bundle_ref.as_deref() == Some(bundle)
        };
        found.extend(gates.into_iter().filter(is_own));
    }
    Ok(found)
}

/// Tells instances how the environments before them stand.
pub(super) async fn update_upstreams(
    cluster: &Cluster,
    gates: &[PolicyGate],
    states: &BTreeMap<String, StepState>,
) -> Result<(), KindError> {
    for gate in gates {
        let mut spec = gate.spec.clone();
        set_upstreams(&mut spec, states);
        if spec != gate.spec {
            let changes = json!({
                "upstreamEnvironment": spec.upstream_environment,
                "upstreamEnvironments": spec.upstream_environments,
            });
            kinds::patch_spec(cluster, gate, changes).await?;
        }
    }
    Ok(())
}

/// Removes instances whose Bundle is gone.
pub(super) async fn remove(cluster: &Cluster, gates: &[PolicyGate]) -> Result<(), KindError> {
    for gate in gates {
        kinds::delete(cluster, gate, DeletePropagation::Background).await?;
    }
    Ok(())
}

fn set_upstreams(spec: &mut PolicyGateSpec, states: &BTreeMap<String, StepState>) {
    let state = |name: &String| format!("{:?}", states.get(name).copied().unwrap_or_default());
    let all: Vec<String> = spec.upstream_names.iter().map(state).collect();
    match all.as_slice() {
        [one] => spec.upstream_environment = Some(one.clone()),
        _ => spec.upstream_environments = all,
    }
}
