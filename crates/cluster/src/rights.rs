//! The access rules of the user in a namespace, read in one request before anything is written.

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
