//! Role-based access control over the roles and bindings in the store.

use std::sync::Arc;

use serde_json::Value;

use super::{User, access_denied};
use crate::core::Core;
use crate::status::Result;
use crate::store::{ObjectKey, Store};

/// The attributes of a request that rules decide on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RequestAttributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    pub resource: &'a str,
    pub subresource: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Set instead of the others for paths that are no resource.
    pub path: &'a str,
}

/// A decision and, when allowed, which binding allowed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessDecision {
    pub allowed: bool,
    pub reason: String,
}

/// Paths everybody may read, whoever they are.
const PUBLIC: &[&str] = &["/version", "/version/", "/healthz", "/livez", "/readyz"];

/// Refuses what is not allowed.
pub(crate) fn authorize(core: &Core, user: &User, request: &RequestAttributes<'_>) -> Result<()> {
    if may_skip(core, user) || decide_access(core, user, request).allowed {
        return Ok(());
    }
    Err(access_denied(user, request))
}

/// The roles and bindings of a server, and whether they are enforced.
#[derive(Clone)]
pub(crate) struct AccessRules {
    store: Arc<Store>,
    enforced: bool,
}

impl AccessRules {
    pub(crate) fn of(core: &Core) -> AccessRules {
        AccessRules { store: core.store.clone(), enforced: core.options.rbac }
    }

    /// Returns true if a user is not checked. Without enforcement every real identity may do everything; the
    /// anonymous and the impersonated are always checked: tests use them to be refused.
    fn may_skip(&self, user: &User) -> bool {
        user.is_master() || (!self.enforced && !user.is_anonymous() && !user.impersonated)
    }

    /// Evaluates the rules, whatever the enforcement.
    pub(crate) fn decide(&self, user: &User, request: &RequestAttributes<'_>) -> AccessDecision {
        if self.may_skip(user) {
            return AccessDecision { allowed: true, reason: String::new() };
        }
        if !request.path.is_empty()
            && request.verb == "get"
            && PUBLIC.iter().any(|p| *p == request.path || request.path.starts_with(&format!("{p}/")))
        {
            return AccessDecision {
                allowed: true,
                reason: "RBAC: allowed by ClusterRoleBinding \"system:public-info-viewer\" of ClusterRole \
                     \"system:public-info-viewer\" to Group \"system:unauthenticated\""
                    .into(),
            };
        }
        let mut decision = AccessDecision { allowed: false, reason: String::new() };
        self.visit(user, request.namespace, &mut |source, rule| {
            if rule_allows(rule, request) {
                decision = AccessDecision { allowed: true, reason: format!("RBAC: allowed by {source}") };
                return false;
            }
            true
        });
        decision
    }

    /// Calls `f` with every rule that applies to the user, until it returns false.
    fn visit(&self, user: &User, namespace: &str, f: &mut dyn FnMut(&str, &Value) -> bool) {
        const GROUP: &str = "rbac.authorization.k8s.io";
        for binding in self.store.list(&format!("clusterrolebindings.{GROUP}"), None) {
            let value = binding.value();
            let Some(subject) = applying_subject(&value, user, "") else { continue };
            let role = value["roleRef"]["name"].as_str().unwrap_or("");
            let Some(found) = self.store.get(&format!("clusterroles.{GROUP}"), &ObjectKey::new("", role))
            else {
                continue;
            };
            let source =
                format!("ClusterRoleBinding \"{}\" of ClusterRole \"{role}\" to {subject}", binding.name());
            if !visit_role(&found.value(), &source, f) {
                return;
            }
        }
        if namespace.is_empty() {
            return;
        }
        for binding in self.store.list(&format!("rolebindings.{GROUP}"), Some(namespace)) {
            let value = binding.value();
            let Some(subject) = applying_subject(&value, user, namespace) else { continue };
            let role = value["roleRef"]["name"].as_str().unwrap_or("");
            let kind = value["roleRef"]["kind"].as_str().unwrap_or("");
            let found = if kind == "ClusterRole" {
                self.store.get(&format!("clusterroles.{GROUP}"), &ObjectKey::new("", role))
            } else {
                self.store.get(&format!("roles.{GROUP}"), &ObjectKey::new(namespace, role))
            };
            let Some(found) = found else { continue };
            let source =
                format!("RoleBinding \"{}/{namespace}\" of {kind} \"{role}\" to {subject}", binding.name());
            if !visit_role(&found.value(), &source, f) {
                return;
            }
        }
    }
}

/// Returns true if a user is not checked.
pub(super) fn may_skip(core: &Core, user: &User) -> bool {
    AccessRules::of(core).may_skip(user)
}

/// Evaluates the rules, whatever the enforcement.
pub(crate) fn decide_access(core: &Core, user: &User, request: &RequestAttributes<'_>) -> AccessDecision {
    AccessRules::of(core).decide(user, request)
}

/// Calls `f` with every rule that applies to the user, until it returns false.
pub(crate) fn visit_rules(
    core: &Core,
    user: &User,
    namespace: &str,
    f: &mut dyn FnMut(&str, &Value) -> bool,
) {
    AccessRules::of(core).visit(user, namespace, f);
}

fn visit_role(role: &Value, source: &str, f: &mut dyn FnMut(&str, &Value) -> bool) -> bool {
    role["rules"].as_array().into_iter().flatten().all(|rule| f(source, rule))
}

/// The subject of a binding that is this user, as reasons print it.
fn applying_subject(binding: &Value, user: &User, namespace: &str) -> Option<String> {
    for subject in binding["subjects"].as_array()? {
        let name = subject["name"].as_str().unwrap_or("");
        match subject["kind"].as_str().unwrap_or("") {
            "User" if name == user.name => return Some(format!("User \"{name}\"")),
            "Group" if user.groups.iter().any(|g| g == name) => return Some(format!("Group \"{name}\"")),
            "ServiceAccount" => {
                let home = subject["namespace"].as_str().filter(|n| !n.is_empty()).unwrap_or(namespace);
                if user.name == format!("system:serviceaccount:{home}:{name}") {
                    return Some(format!("ServiceAccount \"{name}/{home}\""));
                }
            }
            _ => {}
        }
    }
    None
}

/// Returns true if one rule allows the request.
fn rule_allows(rule: &Value, request: &RequestAttributes<'_>) -> bool {
    let has = |key: &str, wanted: &dyn Fn(&str) -> bool| {
        rule[key]
            .as_array()
            .is_some_and(|all| all.iter().filter_map(Value::as_str).any(|v| v == "*" || wanted(v)))
    };
    if !has("verbs", &|v| v == request.verb) {
        return false;
    }
    if !request.path.is_empty() {
        return has("nonResourceURLs", &|url| {
            url == request.path || url.strip_suffix('*').is_some_and(|p| request.path.starts_with(p))
        });
    }
    let resource = if request.subresource.is_empty() {
        request.resource.to_owned()
    } else {
        format!("{}/{}", request.resource, request.subresource)
    };
    let any_sub = format!("*/{}", request.subresource);
    if !has("apiGroups", &|g| g == request.group)
        || !has("resources", &|r| r == resource || (!request.subresource.is_empty() && r == any_sub))
    {
        return false;
    }
    match rule["resourceNames"].as_array() {
        Some(names) if !names.is_empty() => names.iter().any(|n| n.as_str() == Some(request.name)),
        _ => true,
    }
}
