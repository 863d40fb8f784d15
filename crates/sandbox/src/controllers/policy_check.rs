//! Checks the types of the expressions of validating admission policies, and tells of them in their status.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use slipway_cel::{Env, Type};
use slipway_manifest::object::split_api_version;
use slipway_manifest::schema::{ScalarType, Shape, TypeRef};

use super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use crate::api::resource::{ResourceRegistry, ServedResource};
use crate::status::{Result, Status};
use crate::store::{ChangeType, StoreEvent};
use crate::write::admit::policy::{declare_variables, policy_environment};
use crate::write::admit::prepare::ObjectPart;
use crate::write::{FieldOwnership, UpdateProposal, WriteAuthor};

const TABLE: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const MANAGER: &str = "validatingadmissionpolicy-status";
/// Kinds a policy's expressions are checked for.
const MOST_KINDS: usize = 10;
/// Types nested deeper, such as schemas within schemas, are not known.
const DEEPEST: usize = 24;

pub(super) struct PolicyTypeCheck;

impl Controller for PolicyTypeCheck {
    fn name(&self) -> &'static str {
        MANAGER
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        if &*event.table == TABLE && event.change != ChangeType::Deleted {
            queue.push(WorkItem::of(event));
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let Some(policy) = cluster.get(TABLE, "", &item.key.name) else { return Ok(NextReconcile::Done) };
        let generation = &policy["metadata"]["generation"];
        if policy["status"]["observedGeneration"] == *generation {
            return Ok(NextReconcile::Done);
        }
        let core = &cluster.core;
        let warnings = check_types(&core.registry(), &policy["spec"]);
        let mut checking = Map::new();
        if !warnings.is_empty() {
            checking.insert("expressionWarnings".into(), warnings.into());
        }
        let served =
            core.of_table(TABLE).ok_or_else(|| Status::internal(format!("nothing serves {TABLE}")))?;
        let config = json!({
            "kind": served.def.kind, "apiVersion": served.api_version(), "metadata": {"name": &*item.key.name},
            "status": {"observedGeneration": generation, "typeChecking": checking},
        });
        let author = WriteAuthor::system(MANAGER);
        core.update_object(&served, &item.key, ObjectPart::Status, &author, &mut |live| {
            let applied =
                core.apply_config(&served, Some(&live.value), &config, &author, ObjectPart::Status, true)?;
            Ok(UpdateProposal { value: applied.object, ownership: FieldOwnership::Applied, warnings: vec![] })
        })?;
        Ok(NextReconcile::Done)
    }
}

/// The warnings about the validations of a policy.
fn check_types(registry: &ResourceRegistry, spec: &Value) -> Vec<Value> {
    let kinds = checked_kinds(registry, spec);
    let params = spec["paramKind"].is_object().then(|| param_type(registry, &spec["paramKind"]));
    let mut warnings = Vec::new();
    for (index, validation) in spec["validations"].as_array().into_iter().flatten().enumerate() {
        for member in ["expression", "messageExpression"] {
            let Some(text) = validation[member].as_str().filter(|text| !text.is_empty()) else { continue };
            let said: Vec<String> = kinds
                .iter()
                .filter_map(|served| {
                    let env = checking_environment(&type_of_resource(served), params.as_ref(), spec);
                    let errors = env.compile(text).err()?;
                    let def = &served.def;
                    let kind = format!("{}/{}, Kind={}", def.group, def.version, def.kind);
                    let errors: Vec<String> = errors.iter().map(|error| error.render(text)).collect();
                    Some(format!("{kind}: {}\n", errors.join("\n")))
                })
                .collect();
            if !said.is_empty() {
                let field = format!("spec.validations[{index}].{member}");
                warnings.push(json!({"fieldRef": field, "warning": said.join("\n")}));
            }
        }
    }
    warnings
}

/// The kinds that the rules of a policy name one by one, in order.
fn checked_kinds<'r>(registry: &'r ResourceRegistry, spec: &Value) -> Vec<&'r ServedResource> {
    let mut names = BTreeSet::new();
    for rule in spec["matchConstraints"]["resourceRules"].as_array().into_iter().flatten() {
        let listed = |key: &str| -> Option<Vec<&str>> {
            let all: Vec<&str> = rule[key].as_array()?.iter().filter_map(Value::as_str).collect();
            (!all.iter().any(|one| one.contains('*'))).then_some(all)
        };
        let (Some(groups), Some(versions)) = (listed("apiGroups"), listed("apiVersions")) else { continue };
        // Subresources have types of their own, which are not checked.
        let resources = rule["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for plural in resources.filter(|plural| !plural.contains(['*', '/'])) {
            for group in &groups {
                for version in &versions {
                    if names.len() < MOST_KINDS
                        && let Some(served) = registry.find_resource(group, version, plural)
                    {
                        names.insert((*group, *version, served.def.kind.as_str(), plural));
                    }
                }
            }
        }
    }
    let found = names.into_iter().filter_map(|(group, version, _, plural)| {
        registry.find_resource(group, version, plural).map(|served| &**served)
    });
    found.collect()
}

fn param_type(registry: &ResourceRegistry, kind: &Value) -> Type {
    let (group, version) = split_api_version(kind["apiVersion"].as_str().unwrap_or(""));
    let served = registry.of_version(group, version).unwrap_or_default();
    served
        .iter()
        .find(|served| kind["kind"] == *served.def.kind)
        .map_or(Type::Dyn, |served| type_of_resource(served))
}

/// The variables of a policy about objects of one type; its own are computed in their order.
fn checking_environment(object: &Type, params: Option<&Type>, spec: &Value) -> Env {
    let known = ["request", "namespaceObject", "authorizer"];
    let declared = policy_environment(&known);
    let declared = declared.variable("object", object.clone()).variable("oldObject", object.clone());
    let declared = match params {
        Some(params) => declared.variable("params", params.clone()),
        None => declared,
    };
    declare_variables(declared, spec)
}

fn type_of_resource(served: &ServedResource) -> Type {
    match &served.custom {
        Some(custom) => Type::from_resource_schema(custom.schema_value()),
        None => type_of_shape(served.type_ref(), 0),
    }
}

/// The type of values of a built-in shape.
fn type_of_shape(kind: TypeRef<'_>, depth: usize) -> Type {
    match kind.shape() {
        _ if depth > DEEPEST => Type::Dyn,
        Shape::Scalar(scalar) => match scalar {
            ScalarType::String | ScalarType::Duration => Type::String,
            ScalarType::Bool => Type::Bool,
            ScalarType::Int32 | ScalarType::Int64 => Type::Int,
            ScalarType::Float => Type::Double,
            ScalarType::Bytes => Type::Bytes,
            ScalarType::Time | ScalarType::MicroTime => Type::Timestamp,
            ScalarType::Quantity | ScalarType::IntOrString => Type::Dyn,
        },
        Shape::List(list) => Type::list(type_of_shape(kind.at(list.item), depth + 1)),
        Shape::Map(map) => match map.rest {
            Some(rest) if map.fields.is_empty() => {
                Type::map(Type::String, type_of_shape(kind.at(rest), depth + 1))
            }
            _ => {
                let fields = map
                    .fields
                    .iter()
                    .map(|field| (&*field.name, type_of_shape(kind.at(field.shape), depth + 1)));
                Type::object(&map.name, fields)
            }
        },
        Shape::Any(_) => Type::Dyn,
    }
}
