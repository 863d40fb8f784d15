//! The access rules of the user in a namespace, read in one request before anything is written.

use std::fmt;

use http::Method;
use serde_json::{Value, json};

use crate::Cluster;
use crate::calls::RequestVerb;
use crate::error::Error;
use crate::objects::JSON;
use crate::request::ApiCall;

/// The rules that hold for a user in a namespace.
#[derive(Clone, Debug, Default)]
pub struct AccessRules {
    rules: Vec<AccessRule>,
    /// True if an authorizer that was not asked may allow more.
    incomplete: bool,
}

#[derive(Clone, Debug, Default)]
struct AccessRule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl AccessRules {
    /// Returns true if something is certainly not allowed. A right to some names only counts as allowed.
    pub fn certainly_forbid(&self, group: &str, resource: &str, verb: &str) -> bool {
        let has = |all: &[String], wanted: &str| all.iter().any(|one| one == "*" || one == wanted);
        let allows = |rule: &AccessRule| {
            has(&rule.groups, group) && has(&rule.resources, resource) && has(&rule.verbs, verb)
        };
        !self.incomplete && !self.rules.iter().any(allows)
    }

    fn from_review(answer: &Value) -> AccessRules {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let all = rule[field].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let status = &answer["status"];
        let rules = status["resourceRules"].as_array().into_iter().flatten();
        let rules: Vec<AccessRule> = rules
            .map(|rule| AccessRule {
                groups: texts(rule, "apiGroups"),
                resources: texts(rule, "resources"),
                verbs: texts(rule, "verbs"),
            })
            .collect();
        // A user without any right could not have asked: an empty list is no answer.
        let incomplete = status["incomplete"] == true || rules.is_empty();
        AccessRules { rules, incomplete }
    }
}

/// The right that a refused request needs: what a Role or ClusterRole has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessNeed {
    pub verb: String,
    pub group: String,
    /// With its subresource: `pods/log`.
    pub resource: String,
    /// None for objects of the whole cluster, or of all namespaces.
    pub namespace: Option<String>,
}

impl AccessNeed {
    /// Finds the right in the refusal of a request. Only the words of a refusal tell rules from quotas and admission, and
    /// which verb was missing: applying an object that is new needs `create` besides `patch`.
    pub(crate) fn find(refusal: &str, path: &str) -> Option<AccessNeed> {
        let (_, rest) = refusal.split_once(" cannot ")?;
        let (verb, _) = rest.split_once(" resource ")?;
        let path = path.split('?').next()?;
        let mut parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let group = match *parts.first()? {
            "api" => {
                parts.drain(..2.min(parts.len()));
                String::new()
            }
            "apis" if parts.len() >= 3 => {
                let group = parts[1].to_owned();
                parts.drain(..3);
                group
            }
            _ => return None,
        };
        let (namespace, parts) = match parts.as_slice() {
            ["namespaces", _, "status" | "finalize"] => (None, parts.as_slice()),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => (Some((*namespace).to_owned()), rest),
            parts => (None, parts),
        };
        let resource = match parts {
            [resource] | [resource, _] => (*resource).to_owned(),
            [resource, _, part, ..] => format!("{resource}/{part}"),
            [] => return None,
        };
        Some(AccessNeed { verb: verb.to_owned(), group, resource, namespace })
    }
}

/// Says which rule would allow a path that a refusal is about: `User "jo" cannot get path "/version"`.
pub(crate) fn path_hint(refusal: &str) -> Option<String> {
    let (_, rest) = refusal.split_once(" cannot ")?;
    let (verb, path) = rest.split_once(" path \"")?;
    let (path, _) = path.split_once('"')?;
    Some(format!(
        "a ClusterRole with the rule `{{nonResourceURLs: [{path}], verbs: [{verb}]}}` and a ClusterRoleBinding would allow it; \
         clusters have one for everybody, `system:public-info-viewer`"
    ))
}

impl fmt::Display for AccessNeed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verb, group, resource, namespace } = self;
        let rule = format!("{{apiGroups: [\"{group}\"], resources: [{resource}], verbs: [{verb}]}}");
        match namespace {
            Some(namespace) => {
                write!(
                    f,
                    "a Role in namespace `{namespace}` with the rule `{rule}` and a RoleBinding would allow it"
                )
            }
            None => write!(f, "a ClusterRole with the rule `{rule}` and a ClusterRoleBinding would allow it"),
        }
    }
}

impl Cluster {
    /// Asks what the user may do in a namespace, which need not exist yet.
    pub async fn access_rules(&self, namespace: &str) -> Result<AccessRules, Error> {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        });
        let action = format!("ask what is allowed in namespace {namespace}");
        // It is posted, but stores nothing.
        let call = ApiCall::new(RequestVerb::Discover, Method::POST, path, action).with_body(JSON, &question);
        Ok(AccessRules::from_review(&self.call_json(call).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_rule_that_would_allow_it() {
        let refusal = |verb: &str| format!("x is forbidden: User \"jo\" cannot {verb} resource \"x\"");
        for (verb, path, rule) in [
            (
                "list",
                "/api/v1/namespaces/shop/secrets?labelSelector=owner",
                "a Role in namespace `shop` with the rule `{apiGroups: [\"\"], resources: [secrets], verbs: [list]}` and a RoleBinding would allow it",
            ),
            (
                "create",
                "/apis/apps/v1/namespaces/shop/deployments/web?force=true",
                "a Role in namespace `shop` with the rule `{apiGroups: [\"apps\"], resources: [deployments], verbs: [create]}` and a RoleBinding would allow it",
            ),
            (
                "get",
                "/api/v1/namespaces/shop",
                "a ClusterRole with the rule `{apiGroups: [\"\"], resources: [namespaces], verbs: [get]}` and a ClusterRoleBinding would allow it",
            ),
            (
                "get",
                "/api/v1/namespaces/shop/pods/web-1/log",
                "a Role in namespace `shop` with the rule `{apiGroups: [\"\"], resources: [pods/log], verbs: [get]}` and a RoleBinding would allow it",
            ),
            (
                "list",
                "/apis/apps/v1/deployments",
                "a ClusterRole with the rule `{apiGroups: [\"apps\"], resources: [deployments], verbs: [list]}` and a ClusterRoleBinding would allow it",
            ),
        ] {
            let need = AccessNeed::find(&refusal(verb), path).map(|need| need.to_string());
            assert_eq!(need.as_deref(), Some(rule), "{path}");
        }
        for (refusal, path) in [
            ("pods \"a\" is forbidden: exceeded quota: few", "/api/v1/namespaces/shop/pods"),
            ("admission webhook \"v\" denied the request: no", "/api/v1/namespaces/shop/pods"),
            ("User \"jo\" cannot get path \"/version\"", "/version"),
        ] {
            assert_eq!(AccessNeed::find(refusal, path), None, "{refusal}");
        }
    }

    #[test]
    fn a_refused_path_names_the_rule_too() {
        let hint = path_hint("User \"jo\" cannot get path \"/version\"").unwrap_or_default();
        assert!(hint.contains("{nonResourceURLs: [/version], verbs: [get]}"), "{hint}");
        assert_eq!(path_hint("User \"jo\" cannot list resource \"pods\""), None);
    }

    #[test]
    fn only_what_is_certainly_forbidden_is() {
        let answer = |incomplete: bool, rules: Value| {
            AccessRules::from_review(&json!({"status": {"resourceRules": rules, "incomplete": incomplete}}))
        };
        let rules = json!([
            {"verbs": ["get", "create"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
        ]);
        let some = answer(false, rules.clone());
        assert!(!some.certainly_forbid("", "secrets", "create"));
        assert!(some.certainly_forbid("", "secrets", "update"));
        assert!(some.certainly_forbid("", "configmaps", "get"));
        assert!(!some.certainly_forbid("apps", "deployments", "delete"));
        assert!(!answer(true, rules).certainly_forbid("", "secrets", "update"), "somebody else may allow it");
        assert!(!answer(false, json!([])).certainly_forbid("", "secrets", "update"), "no answer");
    }
}
