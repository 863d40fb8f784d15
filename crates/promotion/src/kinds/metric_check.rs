//! MetricCheck: a measurement gates may read.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::conditions::{Condition, conditions_schema};
use super::duration::GoDuration;
use super::reference::{SecretRef, any_schema};
use super::resource::{KindSpec, Resource, is_false};

/// A measurement gates may read.
pub type MetricCheck = Resource<MetricCheckSpec>;

impl KindSpec for MetricCheckSpec {
    type Status = MetricCheckStatus;
    const KIND: &'static str = "MetricCheck";
    const PLURAL: &'static str = "metricchecks";
    const SHORT_NAMES: &'static [&'static str] = &["mc"];
}

/// A query and the values it may have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", from = "MetricCheckForm")]
pub struct MetricCheckSpec {
    pub provider: MetricProvider,
    pub query: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub success_condition: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_condition: Option<String>,
    pub no_data_behavior: NoDataBehavior,
    pub interval: GoDuration,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pub successes: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
}

/// The system that is asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MetricProvider {
    #[serde(default, rename = "type")]
    pub kind: MetricProviderType,
    #[serde(default)]
    pub address: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricProviderType {
    #[default]
    Prometheus,
}

/// The result of a query without an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NoDataBehavior {
    /// The result before stands, marked stale.
    #[default]
    Hold,
    Pass,
    Fail,
}

/// A spec as it is written, with the older names of fields.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct MetricCheckForm {
    /// `{type, address, secretRef}`, or the type alone.
    #[schemars(schema_with = "any_schema")]
    provider: ProviderForm,
    /// A query; `{{ .AppName }}`, `{{ .Pipeline }}`, `{{ .Environment }}`, `{{ .Bundle }}`, `{{ .Version }}` and `{{ .Namespace }}` are replaced.
    #[schemars(length(min = 1, max = 16384))]
    query: String,
    /// A comparison such as `>= 0.99`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^\s*(>=|>|<=|<|==|!=)\s*-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\s*$"))]
    success_condition: Option<String>,
    /// A comparison such as `< 0.95`.
    #[serde(default)]
    #[schemars(regex(pattern = r"^\s*(>=|>|<=|<|==|!=)\s*-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?\s*$"))]
    failure_condition: Option<String>,
    #[serde(default)]
    no_data_behavior: NoDataBehavior,
    #[serde(default = "default_interval")]
    interval: GoDuration,
    /// Successes in a row that are needed.
    #[serde(default, rename = "for")]
    #[schemars(range(min = 1))]
    successes: Option<u32>,
    #[serde(default)]
    pipeline: Option<String>,
    #[serde(default)]
    environment: Option<String>,
    /// Older form of `provider.address`.
    #[serde(default, rename = "prometheusURL")]
    prometheus_url: Option<String>,
    /// Older form of `successCondition`.
    #[serde(default)]
    threshold: Option<OlderThreshold>,
}

fn default_interval() -> GoDuration {
    GoDuration::from_mins(1)
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ProviderForm {
    Type(MetricProviderType),
    Provider(MetricProvider),
}

#[derive(Deserialize, JsonSchema)]
struct OlderThreshold {
    value: f64,
    operator: OlderOperator,
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OlderOperator {
    Lt,
    Gt,
    Lte,
    Gte,
    Eq,
}

impl From<MetricCheckForm> for MetricCheckSpec {
    fn from(form: MetricCheckForm) -> Self {
        let mut provider = match form.provider {
            ProviderForm::Type(kind) => MetricProvider { kind, ..MetricProvider::default() },
            ProviderForm::Provider(provider) => provider,
        };
        if let Some(address) = form.prometheus_url.filter(|_| provider.address.is_empty()) {
            provider.address = address;
        }
        let threshold = form.threshold.map(|threshold| {
            let operator = match threshold.operator {
                OlderOperator::Lt => "<",
                OlderOperator::Gt => ">",
                OlderOperator::Lte => "<=",
                OlderOperator::Gte => ">=",
                OlderOperator::Eq => "==",
            };
            format!("{operator} {}", threshold.value)
        });
        Self {
            provider,
            query: form.query,
            success_condition: form.success_condition.or(threshold),
            failure_condition: form.failure_condition,
            no_data_behavior: form.no_data_behavior,
            interval: form.interval,
            successes: form.successes,
            pipeline: form.pipeline,
            environment: form.environment,
        }
    }
}

/// The last results of a check.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricCheckStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(flatten)]
    pub latest: MetricResultStatus,
    /// The results of a templated query, by `<namespace>/<pipeline>/<environment>`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub results: BTreeMap<String, MetricResultStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// One result.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricResultStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_value: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<MetricResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated_at: Option<Timestamp>,
    /// When the value was measured; earlier than the last evaluation where that found no data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_at: Option<Timestamp>,
    #[serde(skip_serializing_if = "is_false")]
    pub stale: bool,
    /// There was no data, which counts as a pass.
    #[serde(skip_serializing_if = "is_false")]
    pub assumed: bool,
    /// Successes in a row.
    #[serde(skip_serializing_if = "super::pipeline::is_zero")]
    pub successes: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum MetricResult {
    Pass,
    Fail,
    Inconclusive,
}
