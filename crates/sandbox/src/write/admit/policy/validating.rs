//! ValidatingAdmissionPolicies: CEL expressions every write must satisfy.

use serde_json::Value;
use slipway_cel::Type;

use crate::core::Core;
use crate::status::Result;

use super::evaluation::{PolicyEvaluation, PolicySkipped, list_member, text_member};
use super::{PolicyInvocation, PolicyTables, WriteAttempt, denied_status, find_invocations};

const TABLES: PolicyTables = PolicyTables {
    policies: "validatingadmissionpolicies.admissionregistration.k8s.io",
    bindings: "validatingadmissionpolicybindings.admissionregistration.k8s.io",
};

/// Refuses what a bound policy denies; what it only warns of is added to `warnings`.
pub(crate) fn check_policies(
    core: &Core,
    attempt: &WriteAttempt<'_>,
    warnings: &mut Vec<String>,
) -> Result<()> {
    for invocation in find_invocations(core, &TABLES, attempt) {
        let found = match &invocation.params {
            Ok(params) => {
                params.iter().flat_map(|params| evaluate_policy(core, &invocation, attempt, params)).collect()
            }
            Err(why) if invocation.fails_closed() => {
                vec![PolicyDenial { message: why.to_string(), reason: None }]
            }
            Err(_) => Vec::new(),
        };
        let acts =
            |action: &str| list_member(&invocation.binding, "validationActions").iter().any(|a| a == action);
        let (name, binding) = (&invocation.policy_name, &invocation.binding_name);
        for denial in found {
            if acts("Deny") {
                let why = format!(
                    "ValidatingAdmissionPolicy '{name}' with binding '{binding}' denied request: {}",
                    denial.message
                );
                return Err(denied_status(attempt, &why, denial.reason.as_deref()));
            }
            if acts("Warn") {
                warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{name}' with binding '{binding}': {}",
                    denial.message
                ));
            }
        }
    }
    Ok(())
}

struct PolicyDenial {
    message: String,
    reason: Option<String>,
}

/// Returns the denials of a policy for a write.
fn evaluate_policy(
    core: &Core,
    invocation: &PolicyInvocation,
    attempt: &WriteAttempt<'_>,
    params: &Value,
) -> Vec<PolicyDenial> {
    let fails = invocation.fails_closed();
    let mut evaluation = PolicyEvaluation::new(core, attempt, params);
    match evaluation.prepare_variables(&invocation.policy) {
        Ok(()) => {}
        Err(PolicySkipped::Broken(message)) if fails => return vec![PolicyDenial { message, reason: None }],
        Err(_) => return Vec::new(),
    }
    let mut denials = Vec::new();
    for validation in list_member(&invocation.policy, "validations") {
        let expression = text_member(validation, "expression");
        let message = match evaluation.evaluate_value(expression, Some(&Type::Bool)) {
            Ok(Value::Bool(true)) => continue,
            Ok(_) => {
                let made = validation["messageExpression"].as_str();
                let made = made.and_then(|m| evaluation.evaluate_value(m, Some(&Type::String)).ok());
                let made = made.as_ref().and_then(Value::as_str).map(|m| m.trim().to_owned());
                made.filter(|m| !m.is_empty()).unwrap_or_else(|| match text_member(validation, "message") {
                    "" => format!("failed expression: {}", expression.trim()),
                    message => message.trim().to_owned(),
                })
            }
            Err(error) if fails => format!("expression '{expression}' resulted in error: {error}"),
            Err(_) => continue,
        };
        denials.push(PolicyDenial { message, reason: validation["reason"].as_str().map(str::to_owned) });
    }
    denials
}
