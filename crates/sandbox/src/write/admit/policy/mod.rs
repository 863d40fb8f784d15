//! Admission policies: CEL expressions that change writes (`mutating`) and that writes must satisfy
//! (`validating`). Which writes a policy is about is decided here.

mod evaluation;
mod literals;
mod mutating;
mod validating;

use std::sync::Arc;

use serde_json::{Value, json};
use slipway_manifest::selector::LabelSelector;

use crate::api::resource::Served;
use crate::api::select::Labels;
use crate::core::Core;
use crate::status::Status;
use crate::store::{Key, Object};
use crate::write::Author;

pub(crate) use evaluation::environment;
pub(crate) use literals::as_maps;
pub(crate) use mutating::mutate;
pub(crate) use validating::check;

const GROUP: &str = "admissionregistration.k8s.io";

/// A write as policies see it.
pub(crate) struct Attempt<'a> {
    pub served: &'a Served,
    pub subresource: &'a str,
    /// CREATE, UPDATE or DELETE.
    pub operation: &'static str,
    pub old: Option<&'a Value>,
    pub new: Option<&'a Value>,
    pub author: &'a Author,
}

impl Attempt<'_> {
    fn object(&self) -> &Value {
        self.new.or(self.old).unwrap_or(&Value::Null)
    }

    fn text(&self, member: &str) -> &str {
        self.object()["metadata"][member].as_str().unwrap_or("")
    }

    /// `request` in expressions.
    fn request(&self) -> Value {
        let def = &self.served.def;
        let kind = json!({"group": def.group, "version": def.version, "kind": def.kind});
        let resource = json!({"group": def.group, "version": def.version, "resource": def.plural});
        let user = match &self.author.user {
            Some(user) => user.json(),
            None => {
                json!({"username": format!("system:{}", self.author.manager), "groups": ["system:authenticated"]})
            }
        };
        json!({
            "kind": kind, "resource": resource, "subResource": self.subresource,
            "requestKind": kind, "requestResource": resource, "requestSubResource": self.subresource,
            "name": self.text("name"), "namespace": self.text("namespace"),
            "operation": self.operation, "userInfo": user, "dryRun": self.author.dry_run,
        })
    }
}

/// A policy and a binding that are about a write, with what the binding hands over.
struct Invocation {
    policy_name: String,
    binding_name: String,
    /// The specs of both.
    policy: Value,
    binding: Value,
    /// One evaluation each, or why there are none.
    params: Result<Vec<Value>, String>,
}

impl Invocation {
    /// Whether trouble with the policy refuses the write.
    fn fails(&self) -> bool {
        self.policy["failurePolicy"] != "Ignore"
    }
}

/// The tables of one kind of policies.
struct Tables {
    policies: &'static str,
    bindings: &'static str,
}

/// Every policy that is about a write, once for each binding.
fn invocations(core: &Core, tables: &Tables, attempt: &Attempt<'_>) -> Vec<Invocation> {
    // Hardly any cluster has policies, and they must not lock themselves in.
    if core.store.count(tables.bindings) == 0 || attempt.served.def.group == GROUP {
        return Vec::new();
    }
    let about = |binding: &Arc<Object>| {
        let spec = binding.value()["spec"].take();
        let name = spec["policyName"].as_str().unwrap_or("").to_owned();
        let policy = core.store.get(tables.policies, &Key::new("", &name))?.value()["spec"].take();
        let selected = selects(core, &policy["matchConstraints"], attempt, Rules::Needed)
            && selects(core, &spec["matchResources"], attempt, Rules::Optional);
        selected.then(|| Invocation {
            policy_name: name,
            binding_name: binding.name().to_owned(),
            params: params(core, &policy, &spec, attempt),
            policy,
            binding: spec,
        })
    };
    core.store.list(tables.bindings, None).iter().filter_map(about).collect()
}

/// Whether a policy without rules is about nothing, or a binding without them about all.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rules {
    Needed,
    Optional,
}

fn denied(attempt: &Attempt<'_>, why: &str, reason: Option<&str>) -> Box<Status> {
    let mut status = Status::forbidden(attempt.served.named(), attempt.text("name"), why);
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

/// Whether a policy or binding is about a write. A binding that says nothing is about all of its policy's.
fn selects(core: &Core, wanted: &Value, attempt: &Attempt<'_>, needed: Rules) -> bool {
    let rules = |key: &str| wanted[key].as_array().map_or(&[][..], Vec::as_slice);
    let equivalent = wanted["matchPolicy"] != "Exact";
    let included = rules("resourceRules");
    if included.is_empty() && needed == Rules::Needed {
        return false;
    }
    if !included.is_empty() && !included.iter().any(|rule| includes(rule, attempt, equivalent)) {
        return false;
    }
    if rules("excludeResourceRules").iter().any(|rule| includes(rule, attempt, equivalent)) {
        return false;
    }
    let matches = |selector: &Value, object: &Value| {
        let selector = LabelSelector::from_object(selector).ok().flatten();
        selector.is_none_or(|selector| selector.matches_object(object))
    };
    if !wanted["namespaceSelector"].is_null() {
        let namespace = namespace_of(core, attempt);
        // Objects outside of namespaces are beyond this selector.
        if !namespace.is_null() && !matches(&wanted["namespaceSelector"], &namespace) {
            return false;
        }
    }
    let selector = &wanted["objectSelector"];
    selector.is_null()
        || [attempt.new, attempt.old].into_iter().flatten().any(|object| matches(selector, object))
}

fn namespace_of(core: &Core, attempt: &Attempt<'_>) -> Value {
    if attempt.served.rule_key() == ("", "Namespace") {
        return attempt.object().clone();
    }
    let found = core.store.get("namespaces", &Key::new("", attempt.text("namespace")));
    found.map_or(Value::Null, |namespace| {
        let mut value = namespace.value();
        value["apiVersion"] = "v1".into();
        value["kind"] = "Namespace".into();
        value
    })
}

fn includes(rule: &Value, attempt: &Attempt<'_>, equivalent: bool) -> bool {
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
        && (names.is_empty() || names.iter().any(|name| name == attempt.text("name")))
        && (scope == "*" || (scope == "Namespaced") == def.namespaced)
}

/// The objects a binding hands to its policy: one evaluation each, or one with none.
fn params(core: &Core, policy: &Value, binding: &Value, attempt: &Attempt<'_>) -> Result<Vec<Value>, String> {
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
        ));
    };
    let namespace = match wanted["namespace"].as_str() {
        Some(namespace) if served.def.namespaced => namespace,
        _ if served.def.namespaced => attempt.text("namespace"),
        _ => "",
    };
    let found: Vec<Value> = match wanted["name"].as_str() {
        Some(name) => {
            core.store.get(&served.table, &Key::new(namespace, name)).into_iter().collect::<Vec<_>>()
        }
        None => {
            let place = Some(namespace).filter(|n| !n.is_empty());
            let labels = Labels::of_selector(&wanted["selector"]);
            let mut all = core.store.list(&served.table, place);
            all.retain(|object| labels.as_ref().is_none_or(|labels| labels.matches(object)));
            all
        }
    }
    .iter()
    .map(|object| core.whole(served, object))
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
