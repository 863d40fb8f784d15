//! The check that a namespace has room for a second set of pods.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_manifest::Gvk;
use slipway_manifest::quantity::Quantity;
use slipway_problem::{Problem, Problems};

use super::baseline::ServiceBaseline;
use super::canary::name_of;
use super::rollout::Scene;
use crate::error::UnitError;

impl Scene<'_> {
    /// Reports every quota that a Deployment beside what is there would exceed.
    pub(crate) async fn check_quota(
        &self,
        deployment: &Value,
        service: &ServiceBaseline,
    ) -> Result<Problems, UnitError> {
        let needed = needed_resources(deployment, self.color_replicas(deployment, service).await?);
        let mut problems = Problems::new();
        for quota in self.list(&Gvk::new("", "v1", "ResourceQuota"), "").await? {
            for (resource, amount) in &needed {
                let read = |part: &str| {
                    let text = quota["status"][part].get(resource).or(quota["spec"][part].get(resource));
                    text.and_then(Value::as_str).and_then(|text| Quantity::parse(text).ok())
                };
                let Some(hard) = read("hard") else { continue };
                let used = read("used").unwrap_or_else(|| Quantity::from_int(0));
                if used.plus(*amount).nanos() > hard.nanos() {
                    let problem = Problem::error(format!(
                        "ResourceQuota/{} has no room for both colors: {resource} {used} of {hard} are used, {amount} more are needed",
                        name_of(&quota)
                    ));
                    problems.push(problem.hint("raise the quota, or use fewer replicas"));
                }
            }
        }
        Ok(problems)
    }
}

/// Everything a Deployment takes of a quota.
fn needed_resources(deployment: &Value, replicas: u64) -> BTreeMap<String, Quantity> {
    let mut needed: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut add = |resource: String, amount: Quantity| {
        let known = needed.entry(resource).or_insert_with(|| Quantity::from_int(0));
        *known = known.plus(amount);
    };
    let count = i64::try_from(replicas).unwrap_or(i64::MAX);
    for resource in ["pods", "count/pods"] {
        add(resource.to_owned(), Quantity::from_int(count));
    }
    add("count/deployments.apps".to_owned(), Quantity::from_int(1));
    let containers = deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array);
    for container in containers.into_iter().flatten() {
        for part in ["requests", "limits"] {
            for (name, amount) in container["resources"][part].as_object().into_iter().flatten() {
                let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
                let Ok(amount) = Quantity::parse(&text) else { continue };
                for _ in 0..replicas.min(10_000) {
                    add(format!("{part}.{name}"), amount);
                    if part == "requests" {
                        add(name.clone(), amount);
                    }
                }
            }
        }
    }
    needed
}
