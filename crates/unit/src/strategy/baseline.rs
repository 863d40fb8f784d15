//! The state before a rollout: everything it has to restore.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Everything a rollout changes that is not its own, as it was before. Written to the log before the first change, and to the
/// workload of the rollout, so that it can be restored where the log is lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Baseline {
    /// Always written: it tells a baseline from everything else a step says of itself.
    pub(crate) workloads: Vec<WorkloadBaseline>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) routes: Vec<RouteBaseline>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) service: Option<ServiceBaseline>,
}

/// A Deployment's replicas, and the autoscaler that sets them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WorkloadBaseline {
    pub(crate) name: String,
    pub(crate) replicas: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) autoscaler: Option<AutoscalerBaseline>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AutoscalerBaseline {
    pub(crate) name: String,
    pub(crate) min_replicas: Option<u64>,
    pub(crate) max_replicas: u64,
}

/// The rules of an HTTPRoute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RouteBaseline {
    pub(crate) name: String,
    pub(crate) rules: Value,
}

/// The selector of a Service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ServiceBaseline {
    pub(crate) name: String,
    pub(crate) selector: Map<String, Value>,
}

impl Baseline {
    pub(crate) fn workload(&self, name: &str) -> Option<&WorkloadBaseline> {
        self.workloads.iter().find(|workload| workload.name == name)
    }

    pub(crate) fn to_value(&self) -> Value {
        serde_json::to_value(self).unwrap_or_default()
    }

    /// The baseline among the signals of a step; none if they are something else.
    pub(crate) fn from_value(value: &Value) -> Option<Self> {
        Self::deserialize(value).ok()
    }
}
