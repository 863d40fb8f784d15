//! The escalation check: nobody grants permissions they do not hold.

use serde_json::{Value, json};

use super::User;
use super::rbac::{self, RequestAttributes, decide_access};
use crate::api::resource::ServedResource;
use crate::core::Core;
use crate::status::{NamedResource, Result, Status};
use crate::store::ObjectKey;

const GROUP: &str = "rbac.authorization.k8s.io";
/// More single permissions than this are not compared.
const MOST_PERMISSIONS: usize = 200_000;

/// Refuses a role or binding that would give away more than its author holds.
pub(crate) fn check_escalation(
    core: &Core,
    user: &User,
    served: &ServedResource,
    old: Option<&Value>,
    new: &Value,
) -> Result<()> {
    if served.def.group != GROUP || served.custom.is_some() || rbac::may_skip(core, user) {
        return Ok(());
    }
    let namespace = new["metadata"]["namespace"].as_str().unwrap_or("");
    let name = new["metadata"]["name"].as_str().unwrap_or("");
    // A change that only lets the object go needs no rights over what it grants.
    let unchanged = |keys: &[&str]| {
        old.is_some_and(|old| {
            let meta = ["labels", "annotations"];
            keys.iter().all(|key| old[*key] == new[*key])
                && meta.iter().all(|key| old["metadata"][*key] == new["metadata"][*key])
        })
    };
    let holds = |verb: &str, resource: &str, name: &str| {
        let asked =
            RequestAttributes { verb, group: GROUP, resource, subresource: "", namespace, name, path: "" };
        decide_access(core, user, &asked).allowed
    };
    match served.def.plural.as_str() {
        role @ ("roles" | "clusterroles") => {
            if unchanged(&["rules", "aggregationRule"]) || holds("escalate", role, name) {
                return Ok(());
            }
            let aggregates = |role: &Value| !role["aggregationRule"].is_null();
            // An aggregated role can gather anything, and taking the rule away stops its tightening.
            if aggregates(new) || old.is_some_and(aggregates) {
                let all = json!([
                    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
                    {"verbs": ["*"], "nonResourceURLs": ["*"]},
                ]);
                if !missing_permissions(core, user, namespace, &all).is_empty() {
                    let why = "must have cluster-admin privileges to use the aggregationRule";
                    return Err(Status::forbidden(served.resource_name(), name, why));
                }
            }
            check_grant(core, user, served, (namespace, name), &new["rules"])
        }
        "rolebindings" | "clusterrolebindings" => {
            if unchanged(&["roleRef", "subjects"]) {
                return Ok(());
            }
            let role = new["roleRef"]["name"].as_str().unwrap_or("");
            let cluster = new["roleRef"]["kind"] == "ClusterRole";
            let plural = if cluster { "clusterroles" } else { "roles" };
            if holds("bind", plural, role) {
                return Ok(());
            }
            let key = ObjectKey::new(if cluster { "" } else { namespace }, role);
            let Some(found) = core.store.get(&format!("{plural}.{GROUP}"), &key) else {
                return Err(Status::not_found(NamedResource { group: GROUP, what: plural }, role));
            };
            check_grant(core, user, served, (namespace, name), &found.value()["rules"])
        }
        _ => Ok(()),
    }
}

fn check_grant(
    core: &Core,
    user: &User,
    served: &ServedResource,
    (namespace, name): (&str, &str),
    rules: &Value,
) -> Result<()> {
    let missing = missing_permissions(core, user, namespace, rules);
    if missing.is_empty() {
        return Ok(());
    }
    let why = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        user.name,
        quoted_list(user.groups.iter().map(String::as_str)),
        permission_texts(&missing).join("\n")
    );
    Err(Status::forbidden(served.resource_name(), name, &why))
}

/// One verb on one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Permission {
    verb: String,
    target: PermissionTarget,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PermissionTarget {
    Resource { group: String, resource: String, name: Option<String> },
    Path(String),
}

/// Returns the permissions of `rules` that the user does not hold.
fn missing_permissions(core: &Core, user: &User, namespace: &str, rules: &Value) -> Vec<Permission> {
    let mut held = Vec::new();
    rbac::visit_rules(core, user, namespace, &mut |_, rule| {
        held.push(rule.clone());
        true
    });
    single_permissions(rules).filter(|p| !held.iter().any(|rule| rule_covers(rule, p))).collect()
}

fn text_list<'v>(rule: &'v Value, key: &str) -> Vec<&'v str> {
    rule[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn single_permissions(rules: &Value) -> impl Iterator<Item = Permission> {
    let all = rules.as_array().into_iter().flatten().flat_map(|rule| {
        let verbs = text_list(rule, "verbs");
        let (groups, resources) = (text_list(rule, "apiGroups"), text_list(rule, "resources"));
        let names = text_list(rule, "resourceNames");
        let names: Vec<Option<&str>> =
            if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        let mut targets: Vec<PermissionTarget> = Vec::new();
        for group in groups {
            for resource in &resources {
                for name in &names {
                    if targets.len() > MOST_PERMISSIONS {
                        break;
                    }
                    targets.push(PermissionTarget::Resource {
                        group: group.to_owned(),
                        resource: (*resource).to_owned(),
                        name: name.map(str::to_owned),
                    });
                }
            }
        }
        targets.extend(
            text_list(rule, "nonResourceURLs").into_iter().map(|url| PermissionTarget::Path(url.to_owned())),
        );
        targets.into_iter().flat_map(move |target| {
            let verbs = verbs.clone();
            verbs.into_iter().map(move |verb| Permission { verb: verb.to_owned(), target: target.clone() })
        })
    });
    all.take(MOST_PERMISSIONS)
}

/// Returns true if one rule includes a permission.
fn rule_covers(rule: &Value, wanted: &Permission) -> bool {
    let has = |key: &str, found: &dyn Fn(&str) -> bool| {
        text_list(rule, key).into_iter().any(|v| v == "*" || found(v))
    };
    if !has("verbs", &|verb| verb == wanted.verb) {
        return false;
    }
    match &wanted.target {
        PermissionTarget::Path(url) => has("nonResourceURLs", &|held| {
            held == url || held.strip_suffix('*').is_some_and(|prefix| url.starts_with(prefix))
        }),
        PermissionTarget::Resource { group, resource, name } => {
            let subresource = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
            let names = text_list(rule, "resourceNames");
            has("apiGroups", &|held| held == group)
                && has("resources", &|held| held == resource || Some(held) == subresource.as_deref())
                && (names.is_empty() || name.as_deref().is_some_and(|name| names.contains(&name)))
        }
    }
}

/// Permissions as text: those of one resource together, sorted.
fn permission_texts(missing: &[Permission]) -> Vec<String> {
    let mut merged: Vec<(&PermissionTarget, Vec<&str>)> = Vec::new();
    for permission in missing {
        match merged.iter_mut().find(|(target, _)| {
            **target == permission.target && matches!(target, PermissionTarget::Resource { .. })
        }) {
            Some((_, verbs)) => {
                if !verbs.contains(&permission.verb.as_str()) {
                    verbs.push(&permission.verb);
                }
            }
            None => merged.push((&permission.target, vec![&permission.verb])),
        }
        if merged.len() > 1000 {
            break;
        }
    }
    let mut lines: Vec<String> = merged
        .into_iter()
        .map(|(target, verbs)| {
            let verbs = quoted_list(verbs.into_iter());
            match target {
                PermissionTarget::Path(url) => format!("{{NonResourceURLs:[{url:?}], Verbs:{verbs}}}"),
                PermissionTarget::Resource { group, resource, name: None } => {
                    format!("{{APIGroups:[{group:?}], Resources:[{resource:?}], Verbs:{verbs}}}")
                }
                PermissionTarget::Resource { group, resource, name: Some(name) } => format!(
                    "{{APIGroups:[{group:?}], Resources:[{resource:?}], ResourceNames:[{name:?}], Verbs:{verbs}}}"
                ),
            }
        })
        .collect();
    lines.sort();
    lines.dedup();
    lines
}

/// `["a" "b"]`, as Go prints quoted lists.
fn quoted_list<'a>(all: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", all.map(|text| format!("{text:?}")).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_cover_what_they_include() {
        let held = |rules: Value, wanted: Value| {
            let rules = rules.as_array().cloned().unwrap_or_default();
            let left: Vec<Permission> =
                single_permissions(&wanted).filter(|p| !rules.iter().any(|r| rule_covers(r, p))).collect();
            permission_texts(&left)
        };
        let pods = json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "*/scale"]}]);
        let named =
            json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]}]);
        let urls = json!([{"verbs": ["get"], "nonResourceURLs": ["/api/*"]}]);
        for (rules, wanted, missing) in [
            (&pods, json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}]), vec![]),
            (&pods, json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["x/scale"]}]), vec![]),
            (
                &pods,
                json!([{"verbs": ["get", "watch", "delete"], "apiGroups": [""], "resources": ["pods"]}]),
                vec![r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#],
            ),
            (
                &named,
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"],
                        "resourceNames": ["a", "b"]}]),
                vec![r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["b"], Verbs:["get"]}"#],
            ),
            (
                &named,
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"]}]),
                vec![r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}"#],
            ),
            (
                &urls,
                json!([{"verbs": ["get"], "nonResourceURLs": ["/api/v1", "/metrics"]}]),
                vec![r#"{NonResourceURLs:["/metrics"], Verbs:["get"]}"#],
            ),
        ] {
            assert_eq!(held(rules.clone(), wanted.clone()), missing, "{wanted}");
        }
    }
}
