//! Webhooks, admission policies, and the priorities of requests.

use serde_json::Value;

use super::KindStrategy;
use crate::write::admit::default::{self, set_default_if_zero};
use crate::write::admit::validate::{CauseList, flow, hooks, policies, status};

pub(super) struct ValidatingWebhooks;

impl KindStrategy for ValidatingWebhooks {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_webhooks(object, false);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        hooks::validate_webhooks(object, out);
    }
}

pub(super) struct MutatingWebhooks;

impl KindStrategy for MutatingWebhooks {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_webhooks(object, true);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        hooks::validate_webhooks(object, out);
    }
}

pub(super) struct ValidatingPolicy;

impl KindStrategy for ValidatingPolicy {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_policy(&mut object["spec"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        policies::validate_policy(object, out);
    }
}

pub(super) struct ValidatingPolicyBinding;

impl KindStrategy for ValidatingPolicyBinding {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_match_resources(&mut object["spec"]["matchResources"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        policies::validate_policy_binding(&object["spec"], out);
    }
}

pub(super) struct MutatingPolicy;

impl KindStrategy for MutatingPolicy {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_policy(&mut object["spec"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        policies::validate_mutating_policy(&object["spec"], out);
    }
}

pub(super) struct MutatingPolicyBinding;

impl KindStrategy for MutatingPolicyBinding {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_match_resources(&mut object["spec"]["matchResources"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        policies::validate_mutating_binding(&object["spec"], out);
    }
}

pub(super) struct FlowSchema;

impl KindStrategy for FlowSchema {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        set_default_if_zero(&mut object["spec"], "matchingPrecedence", 1000);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        flow::validate_flow_schema(object, out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        status::validate_condition_types(&object["status"], out);
    }
}

pub(super) struct PriorityLevel;

impl KindStrategy for PriorityLevel {
    fn set_defaults(&self, _version: &str, object: &mut Value) {
        default::default_priority_level(&mut object["spec"]);
    }

    fn validate(&self, object: &Value, _old: Option<&Value>, out: &mut CauseList) {
        flow::validate_priority_level(object, out);
    }

    fn validate_status(&self, object: &Value, _old: &Value, out: &mut CauseList) {
        status::validate_condition_types(&object["status"], out);
    }
}
