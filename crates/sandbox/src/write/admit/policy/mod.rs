//! Admission policies: CEL expressions that change writes (`mutating`) and that writes must satisfy
//! (`validating`). Which writes a policy is about is decided here.

mod authorizer;
mod evaluation;
mod literals;
mod mutating;
mod validating;

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_manifest::selector::LabelSelector;

use crate::api::resource::ServedResource;
use crate::api::select::LabelFilter;
use crate::core::Core;
use crate::status::Status;
use crate::store::{ObjectKey, StoredObject};
use crate::write::WriteAuthor;
use slipway_go::GoError;

pub(crate) use evaluation::{PolicyVariables, declare_variables, policy_environment};
pub(crate) use literals::as_maps;
pub(crate) use mutating::mutate_object;
pub(crate) use validating::check_policies;

const GROUP: &str = "admissionregistration.k8s.io";

/// A write as policies see it.
pub(crate) struct WriteAttempt<'a> {
    pub served: &'a ServedResource,
    pub subresource: &'a str,
    /// CREATE, UPDATE or DELETE.
    pub operation: &'static str,
    pub old: Option<&'a Value>,
    pub new: Option<&'a Value>,
    pub author: &'a WriteAuthor,
    /// Set if the request deletes a collection, which names no object.
    pub in_collection: bool,
}

impl WriteAttempt<'_> {
    fn any_object(&self) -> &Value {
        self.new.or(self.old).unwrap_or(&Value::Null)
    }

    fn metadata_text(&self, member: &str) -> &str {
        if self.in_collection && member == "name" {
            return "";
        }
        self.any_object()["metadata"][member].as_str().unwrap_or("")
    }

    /// `request` in expressions.
    fn request_value(&self) -> Value {
        let def = &self.served.def;
        let shown = def.subresource(self.subresource).filter(|_| self.subresource == "scale");
        let kind = match shown {
            Some(scale) => json!({"group": scale.group, "version": scale.version, "kind": scale.kind}),
            None => json!({"group": def.group, "version": def.version, "kind": def.kind}),
        };
        let resource = json!({"group": def.group, "version": def.version, "resource": def.plural});
        let user = match &self.author.user {
            Some(user) => user.user_info(),
            None => {
                json!({"username": format!("system:{}", self.author.manager), "groups": ["system:authenticated"]})
            }
        };
        let mut request = json!({
            "kind": kind, "resource": resource, "subResource": self.subresource,
            "requestKind": kind, "requestResource": resource, "requestSubResource": self.subresource,
            "name": self.metadata_text("name"), "namespace": self.metadata_text("namespace"),
            "operation": self.operation, "userInfo": user, "dryRun": self.author.dry_run,
        });
        if let Some(members) = request.as_object_mut() {
            // Go leaves empty texts out.
            members.retain(|_, value| value.as_str() != Some(""));
        }
        request
    }
}

/// A policy and a binding that are about a write, with what the binding hands over.
struct PolicyInvocation {
    policy_name: String,
    binding_name: String,
    /// The specs of both.
    policy: Value,
    binding: Value,
    /// One evaluation each, or why there are none.
    params: Result<Vec<Value>, GoError>,
}

impl PolicyInvocation {
    /// Returns true if an error of the policy refuses the write.
    fn fails_closed(&self) -> bool {
        self.policy["failurePolicy"] != "Ignore"
    }
}

/// The tables of one kind of policies.
struct PolicyTables {
    policies: &'static str,
    bindings: &'static str,
}

/// Every policy that is about a write, once for each binding.
fn find_invocations(core: &Core, tables: &PolicyTables, attempt: &WriteAttempt<'_>) -> Vec<PolicyInvocation> {
    // Most clusters have no policies, and policies do not apply to themselves.
    if core.store.count_objects(tables.bindings) == 0 || attempt.served.def.group == GROUP {
        return Vec::new();
    }
    let about = |binding: &Arc<StoredObject>| {
        let spec = binding.value()["spec"].take();
        let name = spec["policyName"].as_str().unwrap_or("").to_owned();
        let policy = core.store.get(tables.policies, &ObjectKey::new("", &name))?.value()["spec"].take();
        let selected = selects_write(core, &policy["matchConstraints"], attempt, MissingRules::Needed)
            && selects_write(core, &spec["matchResources"], attempt, MissingRules::Optional);
        selected.then(|| PolicyInvocation {
            policy_name: name,
            binding_name: binding.name().to_owned(),
            params: find_params(core, &policy, &spec, attempt),
            policy,
            binding: spec,
        })
    };
    core.store.list(tables.bindings, None).iter().filter_map(about).collect()
}

/// The meaning of missing rules: a policy without them matches nothing, a binding everything.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MissingRules {
    Needed,
    Optional,
}

fn denied_status(attempt: &WriteAttempt<'_>, why: &str, reason: Option<&str>) -> Box<Status> {
    let name = if attempt.in_collection { "Unknown" } else { attempt.metadata_text("name") };
    let mut status = Status::forbidden(attempt.served.resource_name(), name, why);
    (status.code, status.reason) = match reason {
        Some("Forbidden") => (403, "Forbidden"),
        Some("Unauthorized") => (401, "Unauthorized"),
        Some("RequestEntityTooLarge") => (413, "RequestEntityTooLarge"),
        _ => (422, "Invalid"),
    };
    if let Some(details) = &mut status.details {
        details["causes"] = json!([{"message": why}]);
    }
    status
}

/// Returns true if a policy or binding matches a write. A binding without rules matches all its policy does.
fn selects_write(core: &Core, wanted: &Value, attempt: &WriteAttempt<'_>, needed: MissingRules) -> bool {
    let rules = |key: &str| wanted[key].as_array().map_or(&[][..], Vec::as_slice);
    let equivalent = wanted["matchPolicy"] != "Exact";
    let included = rules("resourceRules");
    if included.is_empty() && needed == MissingRules::Needed {
        return false;
    }
    if !included.is_empty() && !included.iter().any(|rule| rule_includes(rule, attempt, equivalent)) {
        return false;
    }
    if rules("excludeResourceRules").iter().any(|rule| rule_includes(rule, attempt, equivalent)) {
        return false;
    }
    let matches = |selector: &Value, object: &Value| {
        let selector = LabelSelector::from_object(selector).ok().flatten();
        selector.is_none_or(|selector| selector.matches_object(object))
    };
    if !wanted["namespaceSelector"].is_null() {
        let namespace = namespace_of(core, attempt);
        // Cluster-scoped objects are not filtered by this selector.
        if !namespace.is_null() && !matches(&wanted["namespaceSelector"], &namespace) {
            return false;
        }
    }
    let selector = &wanted["objectSelector"];
    selector.is_null()
        || [attempt.new, attempt.old].into_iter().flatten().any(|object| matches(selector, object))
}

fn namespace_of(core: &Core, attempt: &WriteAttempt<'_>) -> Value {
    if attempt.served.rule_key() == ("", "Namespace") {
        return attempt.any_object().clone();
    }
    let found = core.store.get("namespaces", &ObjectKey::new("", attempt.metadata_text("namespace")));
    found.map_or(Value::Null, |namespace| {
        let mut value = namespace.value();
        value["apiVersion"] = "v1".into();
        value["kind"] = "Namespace".into();
        value
    })
}

fn rule_includes(rule: &Value, attempt: &WriteAttempt<'_>, equivalent: bool) -> bool {
    let def = &attempt.served.def;
    let has = |key: &str, found: &dyn Fn(&str) -> bool| {
        rule[key]
            .as_array()
            .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|v| v == "*" || found(v)))
    };
    let resource = |wanted: &Value| {
        let (main, sub) = wanted.as_str().map(|w| w.split_once('/').unwrap_or((w, ""))).unwrap_or_default();
        (main == "*" || main == def.plural) && (sub == "*" || sub == attempt.subresource)
    };
    let names = rule["resourceNames"].as_array().map_or(&[][..], Vec::as_slice);
    let scope = rule["scope"].as_str().unwrap_or("*");
    has("operations", &|operation| operation == attempt.operation)
        && has("apiGroups", &|group| group == def.group)
        && (equivalent || has("apiVersions", &|version| version == def.version))
        && rule["resources"].as_array().is_some_and(|all| all.iter().any(resource))
        && (names.is_empty() || names.iter().any(|name| name == attempt.metadata_text("name")))
        && (scope == "*" || (scope == "Namespaced") == def.namespaced)
}

/// Returns the parameter objects of a binding: one evaluation each, or one without any.
fn find_params(
    core: &Core,
    policy: &Value,
    binding: &Value,
    attempt: &WriteAttempt<'_>,
) -> Result<Vec<Value>, GoError> {
    let (kind, wanted) = (&policy["paramKind"], &binding["paramRef"]);
    if kind.is_null() || wanted.is_null() {
        return Ok(vec![Value::Null]);
    }
    let (group, version) =
        slipway_manifest::object::split_api_version(kind["apiVersion"].as_str().unwrap_or(""));
    let registry = core.registry();
    let served = registry.of_version(group, version).into_iter().flatten();
    let Some(served) = served.into_iter().find(|s| kind["kind"] == s.def.kind) else {
        return Err(format!(
            "failed to configure policy: failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
            group,
            version,
            kind["kind"].as_str().unwrap_or("")
        )
        .into());
    };
    let namespace = match wanted["namespace"].as_str() {
        Some(namespace) if served.def.namespaced => namespace,
        _ if served.def.namespaced => attempt.metadata_text("namespace"),
        _ => "",
    };
    let found: Vec<Value> = match wanted["name"].as_str() {
        Some(name) => {
            core.store.get(&served.table, &ObjectKey::new(namespace, name)).into_iter().collect::<Vec<_>>()
        }
        None => {
            let place = Some(namespace).filter(|n| !n.is_empty());
            let labels = LabelFilter::of_selector(&wanted["selector"]);
            let mut all = core.store.list(&served.table, place);
            all.retain(|object| labels.as_ref().is_none_or(|labels| labels.matches(object)));
            all
        }
    }
    .iter()
    .map(|object| core.whole_object(served, object))
    .collect();
    if found.is_empty() {
        return if wanted["parameterNotFoundAction"] == "Allow" {
            Ok(found)
        } else {
            Err("failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction".into())
        };
    }
    Ok(found)
}
