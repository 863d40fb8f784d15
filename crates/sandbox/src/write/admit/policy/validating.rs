//! ValidatingAdmissionPolicies: CEL expressions every write must satisfy.

use serde_json::Value;
use slipway_cel::Type;

use crate::core::Core;
use crate::status::Result;

use super::evaluation::{Evaluation, Skipped, list, text};
use super::{Attempt, Invocation, Tables, denied, invocations};

const TABLES: Tables = Tables {
    policies: "validatingadmissionpolicies.admissionregistration.k8s.io",
    bindings: "validatingadmissionpolicybindings.admissionregistration.k8s.io",
};

/// Refuses what a bound policy denies; what it only warns of is added to `warnings`.
pub(crate) fn check(core: &Core, attempt: &Attempt<'_>, warnings: &mut Vec<String>) -> Result<()> {
    for invocation in invocations(core, &TABLES, attempt) {
        let found = match &invocation.params {
            Ok(params) => {
                params.iter().flat_map(|params| evaluate(core, &invocation, attempt, params)).collect()
            }
            Err(why) if invocation.fails() => vec![Denial { message: why.clone(), reason: None }],
            Err(_) => Vec::new(),
        };
        let acts = |action: &str| list(&invocation.binding, "validationActions").iter().any(|a| a == action);
        let (name, binding) = (&invocation.policy_name, &invocation.binding_name);
        for denial in found {
            if acts("Deny") {
                let why = format!(
                    "ValidatingAdmissionPolicy '{name}' with binding '{binding}' denied request: {}",
                    denial.message
                );
                return Err(denied(attempt, &why, denial.reason.as_deref()));
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

struct Denial {
    message: String,
    reason: Option<String>,
}

/// What a policy has against a write.
fn evaluate(core: &Core, invocation: &Invocation, attempt: &Attempt<'_>, params: &Value) -> Vec<Denial> {
    let fails = invocation.fails();
    let mut evaluation = Evaluation::new(core, attempt, params);
    match evaluation.prepare(&invocation.policy) {
        Ok(()) => {}
        Err(Skipped::Broken(message)) if fails => return vec![Denial { message, reason: None }],
        Err(_) => return Vec::new(),
    }
    let mut denials = Vec::new();
    for validation in list(&invocation.policy, "validations") {
        let expression = text(validation, "expression");
        let message = match evaluation.value(expression, Some(&Type::Bool)) {
            Ok(Value::Bool(true)) => continue,
            Ok(_) => {
                let made = validation["messageExpression"].as_str();
                let made = made.and_then(|m| evaluation.value(m, Some(&Type::String)).ok());
                let made = made.as_ref().and_then(Value::as_str).map(|m| m.trim().to_owned());
                made.filter(|m| !m.is_empty()).unwrap_or_else(|| match text(validation, "message") {
                    "" => format!("failed expression: {}", expression.trim()),
                    message => message.trim().to_owned(),
                })
            }
            Err(error) if fails => format!("expression '{expression}' resulted in error: {error}"),
            Err(_) => continue,
        };
        denials.push(Denial { message, reason: validation["reason"].as_str().map(str::to_owned) });
    }
    denials
}
