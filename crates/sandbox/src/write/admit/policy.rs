//! ValidatingAdmissionPolicies: CEL expressions every write must satisfy.

use serde_json::{Map, Value, json};
use slipway_cel::{Bindings, Env, Type};
use slipway_manifest::selector::LabelSelector;

use crate::api::crd_rules::failed;
use crate::api::resource::Served;
use crate::api::select::Labels;
use crate::core::Core;
use crate::status::{Result, Status};
use crate::store::Key;
use crate::write::Author;

const GROUP: &str = "admissionregistration.k8s.io";
const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
const BINDINGS: &str = "validatingadmissionpolicybindings.admissionregistration.k8s.io";

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

/// Refuses what a bound policy denies; what it only warns of is added to `warnings`.
pub(crate) fn check(core: &Core, attempt: &Attempt<'_>, warnings: &mut Vec<String>) -> Result<()> {
    // Hardly any cluster has policies, and they must not lock themselves in.
    if core.store.count(BINDINGS) == 0 || attempt.served.def.group == GROUP {
        return Ok(());
    }
    for binding in core.store.list(BINDINGS, None) {
        let spec = &binding.value()["spec"];
        let name = spec["policyName"].as_str().unwrap_or("");
        let Some(policy) = core.store.get(POLICIES, &Key::new("", name)) else { continue };
        let policy = &policy.value()["spec"];
        if !selects(core, &policy["matchConstraints"], attempt, true)
            || !selects(core, &spec["matchResources"], attempt, false)
        {
            continue;
        }
        let found = match params(core, policy, spec, attempt) {
            Ok(params) => params.iter().flat_map(|params| evaluate(core, policy, attempt, params)).collect(),
            Err(why) if policy["failurePolicy"] != "Ignore" => vec![Denial { message: why, reason: None }],
            Err(_) => Vec::new(),
        };
        let acts = |action: &str| {
            spec["validationActions"].as_array().is_some_and(|all| all.iter().any(|a| a == action))
        };
        for denial in found {
            let binding = binding.name();
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
fn selects(core: &Core, wanted: &Value, attempt: &Attempt<'_>, needs_rules: bool) -> bool {
    let rules = |key: &str| wanted[key].as_array().map_or(&[][..], Vec::as_slice);
    let equivalent = wanted["matchPolicy"] != "Exact";
    let included = rules("resourceRules");
    if included.is_empty() && needs_rules {
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
fn params(
    core: &Core,
    policy: &Value,
    binding: &Value,
    attempt: &Attempt<'_>,
) -> std::result::Result<Vec<Value>, String> {
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

fn env() -> Env {
    ["object", "oldObject", "request", "params", "namespaceObject", "variables"]
        .into_iter()
        .fold(Env::kubernetes(), |env, name| env.variable(name, Type::Dyn))
}

/// What a policy has against a write.
fn evaluate(core: &Core, policy: &Value, attempt: &Attempt<'_>, params: &Value) -> Vec<Denial> {
    let env = env();
    let (request, namespace, null) = (attempt.request(), namespace_of(core, attempt), Value::Null);
    let mut variables = Value::Object(Map::new());
    let whole = |variables: &Value, text: &str, ty: Option<&Type>| -> std::result::Result<Value, String> {
        let program = match ty {
            Some(ty) => env.compile_as(text, ty),
            None => env.compile(text),
        }
        .map_err(|errors| failed(&errors, text))?;
        let bindings = Bindings::new()
            .json("object", attempt.new.unwrap_or(&null))
            .json("oldObject", attempt.old.unwrap_or(&null))
            .json("request", &request)
            .json("params", params)
            .json("namespaceObject", &namespace)
            .json("variables", variables);
        let value = program.eval(&bindings).map_err(|error| error.message.to_string())?;
        value.to_json().ok_or_else(|| "the value has no JSON form".to_owned())
    };
    let list = |key: &str| policy[key].as_array().map_or(&[][..], Vec::as_slice);
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or("").to_owned();
    let fails = policy["failurePolicy"] != "Ignore";
    for condition in list("matchConditions") {
        let expression = text(condition, "expression");
        match whole(&variables, &expression, Some(&Type::Bool)) {
            Ok(Value::Bool(true)) => {}
            Ok(_) => return Vec::new(),
            Err(error) if fails => {
                return vec![Denial {
                    message: format!("expression '{expression}' resulted in error: {error}"),
                    reason: None,
                }];
            }
            Err(_) => return Vec::new(),
        }
    }
    for variable in list("variables") {
        // One that cannot be computed is missed only by those who use it.
        if let Ok(value) = whole(&variables, &text(variable, "expression"), None) {
            variables[text(variable, "name")] = value;
        }
    }
    let mut denials = Vec::new();
    for validation in list("validations") {
        let expression = text(validation, "expression");
        let message = match whole(&variables, &expression, Some(&Type::Bool)) {
            Ok(Value::Bool(true)) => continue,
            Ok(_) => {
                let made = validation["messageExpression"].as_str();
                let made = made.and_then(|m| whole(&variables, m, Some(&Type::String)).ok());
                let made = made.as_ref().and_then(Value::as_str).map(|m| m.trim().to_owned());
                made.filter(|m| !m.is_empty()).unwrap_or_else(|| match text(validation, "message") {
                    message if message.is_empty() => format!("failed expression: {}", expression.trim()),
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
