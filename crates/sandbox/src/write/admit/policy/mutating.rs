//! MutatingAdmissionPolicies: CEL expressions that change what is written.

use serde_json::{Value, json};
use slipway_cel::Type;
use slipway_manifest::apply::{self, DuplicateItems};
use slipway_manifest::schema::{ListKind, Shape};
use slipway_manifest::{TypeRef, patch};

use crate::core::Core;
use crate::status::{Result, Status};

use super::evaluation::{PolicyEvaluation, PolicySkipped, list_member, text_member};
use super::literals::{as_maps, take_types, type_of};
use super::{PolicyInvocation, PolicyTables, WriteAttempt, find_invocations};
use slipway_go::GoError;

const TABLES: PolicyTables = PolicyTables {
    policies: "mutatingadmissionpolicies.admissionregistration.k8s.io",
    bindings: "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
};

/// Changes a write as bound policies say. `complete` fills in defaults after each change and says what is no
/// object of the kind. Policies that may be called again are, once, when a later one changed the object.
pub(crate) fn mutate_object(
    core: &Core,
    attempt: &WriteAttempt<'_>,
    kind: TypeRef<'_>,
    complete: &dyn Fn(Value) -> std::result::Result<Value, GoError>,
) -> Result<Option<Value>> {
    let all = find_invocations(core, &TABLES, attempt);
    if all.is_empty() {
        return Ok(None);
    }
    let Some(given) = attempt.new else { return Ok(None) };
    let mut object = given.clone();
    let mut again = Vec::new();
    for (index, invocation) in all.iter().enumerate() {
        let before = object.clone();
        object = invoke_policy(core, invocation, attempt, object, kind, complete)?;
        if object != before {
            again.extend(0..index);
        }
    }
    again.sort_unstable();
    again.dedup();
    for index in again {
        let invocation = &all[index];
        if invocation.policy["reinvocationPolicy"] == "IfNeeded" {
            object = invoke_policy(core, invocation, attempt, object, kind, complete)?;
        }
    }
    Ok((object != *given).then_some(object))
}

/// Lets one policy change an object, once for each of its parameters.
fn invoke_policy(
    core: &Core,
    invocation: &PolicyInvocation,
    attempt: &WriteAttempt<'_>,
    object: Value,
    kind: TypeRef<'_>,
    complete: &dyn Fn(Value) -> std::result::Result<Value, GoError>,
) -> Result<Value> {
    let refuse = |why: &str| {
        let why = format!(
            "policy '{}' with binding '{}' denied request: {why}",
            invocation.policy_name, invocation.binding_name
        );
        let mut status =
            Status::forbidden(attempt.served.resource_name(), attempt.metadata_text("name"), &why);
        status.reason = "Invalid";
        status.message.clone_from(&why);
        if let Some(details) = &mut status.details {
            details["causes"] = json!([{"message": why}]);
        }
        status
    };
    let params = match &invocation.params {
        Ok(params) => params,
        Err(why) if invocation.fails_closed() => return Err(refuse(why)),
        Err(_) => return Ok(object),
    };
    let mut object = object;
    for params in params {
        let before = object.clone();
        let seen = WriteAttempt { new: Some(&before), ..*attempt };
        let mut evaluation = PolicyEvaluation::new(core, &seen, params);
        match evaluation.prepare_variables(&invocation.policy) {
            Ok(()) => {}
            Err(PolicySkipped::Broken(why)) if invocation.fails_closed() => return Err(refuse(&why)),
            Err(_) => continue,
        }
        for mutation in list_member(&invocation.policy, "mutations") {
            let now = object.clone();
            let changed =
                apply_mutation(&evaluation.with_object(&now), mutation, &now, kind).and_then(complete);
            match changed {
                Ok(changed) => object = changed,
                Err(why) if invocation.fails_closed() => return Err(refuse(&why)),
                Err(_) => {}
            }
        }
    }
    Ok(object)
}

/// The object as one mutation leaves it.
fn apply_mutation(
    evaluation: &PolicyEvaluation<'_>,
    mutation: &Value,
    object: &Value,
    kind: TypeRef<'_>,
) -> std::result::Result<Value, GoError> {
    if mutation["patchType"] == "JSONPatch" {
        let expression = text_member(&mutation["jsonPatch"], "expression");
        let operations = evaluate_expression(evaluation, expression)?;
        return json_patch(operations, object);
    }
    let expression = text_member(&mutation["applyConfiguration"], "expression");
    let mut configuration = evaluate_expression(evaluation, expression)?;
    if type_of(&configuration) != Some("Object") {
        return Err("must evaluate to Object".into());
    }
    take_types(&mut configuration, "Object")?;
    for member in ["apiVersion", "kind"] {
        configuration[member] = object[member].clone();
    }
    apply::validate(&configuration, kind, DuplicateItems::Refused)
        .map_err(|e| format!("error applying patch: failed to convert patch object to typed object: {e}"))?;
    let mut atomics = Vec::new();
    find_atomics(&configuration, kind, "", &mut atomics);
    if !atomics.is_empty() {
        return Err(format!(
            "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {}",
            atomics.join(", ")
        ).into());
    }
    Ok(apply::merge(object, &configuration, kind))
}

fn evaluate_expression(
    evaluation: &PolicyEvaluation<'_>,
    expression: &str,
) -> std::result::Result<Value, GoError> {
    evaluation
        .evaluate_value(&as_maps(expression), Some(&Type::Dyn))
        .map_err(|error| GoError::new(format!("expression '{expression}' resulted in error: {error}")))
}

/// Applies the operations of a JSON patch; when a test among them fails, nothing is changed.
fn json_patch(operations: Value, object: &Value) -> std::result::Result<Value, GoError> {
    let Value::Array(mut operations) = operations else {
        return Err("type mismatch: JSONPatchType.expression should evaluate to array".into());
    };
    for operation in &mut operations {
        if type_of(operation) != Some("JSONPatch") {
            return Err(
                "type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch".into()
            );
        }
        if let Some(value) = operation.get_mut("value") {
            let own = type_of(value).unwrap_or("Object").to_owned();
            take_types(value, &own)?;
        }
        take_types(operation, "JSONPatch")?;
    }
    match patch::json::apply(object.clone(), &Value::Array(operations)) {
        Ok(patched) => Ok(patched),
        Err(patch::PatchError::TestFailed(_)) => Ok(object.clone()),
        Err(error) => Err(format!("JSON Patch: {error}").into()),
    }
}

/// Finds the paths at which a configuration sets atomic values.
fn find_atomics(value: &Value, kind: TypeRef<'_>, path: &str, found: &mut Vec<String>) {
    match (value, kind.shape()) {
        (Value::Object(members), Shape::Map(shape)) => {
            if shape.atomic {
                found.push(path.to_owned());
            }
            for (key, member) in members {
                if let Some(field) = shape.field(key) {
                    find_atomics(member, kind.at(field.shape), &format!("{path}.{key}"), found);
                }
            }
        }
        (Value::Array(items), Shape::List(list)) => {
            if list.kind == ListKind::Atomic {
                found.push(path.to_owned());
            }
            for (index, item) in items.iter().enumerate() {
                find_atomics(item, kind.at(list.item), &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}
