//! PromotionContract: what an environment of one pipeline needs of an environment of another.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{Condition, conditions_schema};
use super::resource::{KindSpec, Resource};

/// A promise between two pipelines.
pub type PromotionContract = Resource<PromotionContractSpec>;

impl KindSpec for PromotionContractSpec {
    type Status = PromotionContractStatus;
    const KIND: &'static str = "PromotionContract";
    const PLURAL: &'static str = "promotioncontracts";
    const SHORT_NAMES: &'static [&'static str] = &["pct"];
}

/// Holds the consumer back until the provider runs what it needs. The consumer's pipeline is one of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionContractSpec {
    pub consumer: ContractConsumer,
    pub provider: ContractProvider,
    /// An expression over `provider`: `version`, `versionSemver`, `phase`, `verifiedAt`, `soakMinutes` and `labels`.
    #[schemars(length(min = 1, max = 4096))]
    pub require: String,
    #[serde(default)]
    pub mode: ContractMode,
    /// Told to whoever waits.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// The environment that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContractConsumer {
    #[schemars(length(min = 1))]
    pub pipeline: String,
    #[schemars(length(min = 1))]
    pub environment: String,
}

/// The environment that is depended on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContractProvider {
    #[schemars(length(min = 1))]
    pub pipeline: String,
    /// The namespace of the contract when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    #[schemars(length(min = 1))]
    pub environment: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ContractMode {
    /// The consumer waits until the expression is true.
    #[default]
    Requires,
    /// The consumer waits while the expression is true.
    Conflicts,
}

impl PromotionContract {
    /// The name of the provider's environment among the `contracts` of gates: `namespace/pipeline/environment`.
    pub fn provider_key(&self) -> String {
        let provider = &self.spec.provider;
        let namespace = provider.namespace.as_deref().unwrap_or(self.namespace());
        format!("{namespace}/{}/{}", provider.pipeline, provider.environment)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PromotionContractStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The contract lets its consumer through now.
    pub satisfied: bool,
    /// The version the provider runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}
