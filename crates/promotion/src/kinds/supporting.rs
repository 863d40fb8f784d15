//! Kinds around a promotion: pull requests, templates of steps, rollbacks and records.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bundle::BundleEnvironmentStatus;
use super::conditions::{Condition, conditions_schema};
use super::environment::StepSpec;
use super::pipeline::ScmProvider;
use super::reference::SecretRef;
use super::resource::{KindSpec, Resource};

/// A pull request as the provider tells it, for controllers that cannot ask themselves.
pub type PrStatus = Resource<PrStatusSpec>;

impl KindSpec for PrStatusSpec {
    type Status = PrStatusStatus;
    const KIND: &'static str = "PRStatus";
    const PLURAL: &'static str = "prstatuses";
    const SHORT_NAMES: &'static [&'static str] = &["prs"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PrStatusSpec {
    #[serde(rename = "prURL")]
    pub pr_url: String,
    pub pr_number: u64,
    pub repo: String,
    #[serde(default)]
    pub provider: ScmProvider,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<SecretRef>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PrStatusStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub merged: bool,
    pub open: bool,
    pub approved: bool,
    pub approval_count: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged_by: Option<String>,
    #[serde(rename = "mergeSHA", skip_serializing_if = "Option::is_none")]
    pub merge_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mergeable: Option<bool>,
    #[serde(rename = "headSHA", skip_serializing_if = "Option::is_none")]
    pub head_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_checked_at: Option<Timestamp>,
}

/// Steps several environments share.
pub type PromotionTemplate = Resource<PromotionTemplateSpec>;

impl KindSpec for PromotionTemplateSpec {
    type Status = PromotionTemplateStatus;
    const KIND: &'static str = "PromotionTemplate";
    const PLURAL: &'static str = "promotiontemplates";
    const SHORT_NAMES: &'static [&'static str] = &["pt"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionTemplateSpec {
    #[schemars(length(min = 1, max = 64))]
    pub steps: Vec<StepSpec>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PromotionTemplateStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions_schema")]
    pub conditions: Vec<Condition>,
}

/// The record of a decision to take an environment back.
pub type RollbackPolicy = Resource<RollbackPolicySpec>;

impl KindSpec for RollbackPolicySpec {
    type Status = RollbackPolicyStatus;
    const KIND: &'static str = "RollbackPolicy";
    const PLURAL: &'static str = "rollbackpolicies";
    const SHORT_NAMES: &'static [&'static str] = &["rbp"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollbackPolicySpec {
    pub pipeline_name: String,
    pub environment: String,
    pub bundle_ref: String,
    #[serde(default = "default_failure_threshold")]
    #[schemars(range(min = 1))]
    pub failure_threshold: u32,
}

fn default_failure_threshold() -> u32 {
    3
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RollbackPolicyStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    pub should_rollback: bool,
    pub consecutive_failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback_bundle_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_evaluated_at: Option<Timestamp>,
}

/// The record of one environment of a bundle, where a bundle has too many to hold them itself.
pub type PromotionRecord = Resource<PromotionRecordSpec>;

impl KindSpec for PromotionRecordSpec {
    type Status = PromotionRecordStatus;
    const KIND: &'static str = "PromotionRecord";
    const PLURAL: &'static str = "promotionrecords";
    const SHORT_NAMES: &'static [&'static str] = &["prec"];
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PromotionRecordSpec {
    pub pipeline: String,
    pub bundle_ref: String,
    pub environment: String,
    pub record: BundleEnvironmentStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PromotionRecordStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// An entry of the audit trail; created, never changed.
pub type AuditEvent = Resource<AuditEventSpec>;

impl KindSpec for AuditEventSpec {
    type Status = AuditEventStatus;
    const KIND: &'static str = "AuditEvent";
    const PLURAL: &'static str = "auditevents";
    const SHORT_NAMES: &'static [&'static str] = &["ae", "audit"];
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuditEventSpec {
    pub timestamp: Timestamp,
    pub bundle_name: String,
    pub pipeline_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub environment: String,
    pub action: AuditAction,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub actor: String,
    pub outcome: AuditOutcome,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub bundle_image: String,
    /// Tells facts apart, so that none is recorded twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// The place in the chain of the pipeline, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub sequence: Option<u64>,
    /// The hash of the entry before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prev_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AuditAction {
    PromotionStarted,
    PromotionSucceeded,
    PromotionFailed,
    PromotionSuperseded,
    RollbackStarted,
    RollbackSucceeded,
    HealthCheckFailed,
    GateBlocked,
    GateEvaluated,
    OverrideApplied,
    #[serde(rename = "PRMerged")]
    PrMerged,
    #[serde(rename = "PRClosed")]
    PrClosed,
    PipelinePaused,
    PipelineResumed,
    SkipAllowed,
    SkipDenied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum AuditOutcome {
    Success,
    Failure,
    Pending,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AuditEventStatus {}
