//! What a user may do in a namespace, asked in one request before anything is written.

use http::Method;
use serde_json::{Value, json};

use crate::Cluster;
use crate::calls::Verb;
use crate::error::Error;
use crate::objects::JSON;
use crate::request::Call;

/// The rules that hold for a user in a namespace.
#[derive(Clone, Debug, Default)]
pub struct Rights {
    rules: Vec<Rule>,
    /// Somebody who was not asked may allow more.
    incomplete: bool,
}

#[derive(Clone, Debug, Default)]
struct Rule {
    groups: Vec<String>,
    resources: Vec<String>,
    verbs: Vec<String>,
}

impl Rights {
    /// Whether something is certainly not allowed. What is allowed for some names only counts as allowed.
    pub fn forbid(&self, group: &str, resource: &str, verb: &str) -> bool {
        let has = |all: &[String], wanted: &str| all.iter().any(|one| one == "*" || one == wanted);
        let allows = |rule: &Rule| {
            has(&rule.groups, group) && has(&rule.resources, resource) && has(&rule.verbs, verb)
        };
        !self.incomplete && !self.rules.iter().any(allows)
    }

    fn of(answer: &Value) -> Rights {
        let texts = |rule: &Value, field: &str| -> Vec<String> {
            let all = rule[field].as_array().into_iter().flatten();
            all.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let status = &answer["status"];
        let rules = status["resourceRules"].as_array().into_iter().flatten();
        let rules: Vec<Rule> = rules
            .map(|rule| Rule {
                groups: texts(rule, "apiGroups"),
                resources: texts(rule, "resources"),
                verbs: texts(rule, "verbs"),
            })
            .collect();
        // Who may do nothing at all could not have asked: no rules is no answer.
        let incomplete = status["incomplete"] == true || rules.is_empty();
        Rights { rules, incomplete }
    }
}

impl Cluster {
    /// Asks what the user may do in a namespace, which need not exist yet.
    pub async fn rights(&self, namespace: &str) -> Result<Rights, Error> {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let question = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": {"namespace": namespace},
        });
        let action = format!("ask what is allowed in namespace {namespace}");
        // A question, though it is posted: nothing is stored.
        let call = Call::new(Verb::Discover, Method::POST, path, action).body(JSON, &question);
        Ok(Rights::of(&self.json(call).await?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_certainly_forbidden_is() {
        let answer = |incomplete: bool, rules: Value| {
            Rights::of(&json!({"status": {"resourceRules": rules, "incomplete": incomplete}}))
        };
        let rules = json!([
            {"verbs": ["get", "create"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"]},
            {"verbs": ["*"], "apiGroups": ["apps"], "resources": ["*"]},
        ]);
        let some = answer(false, rules.clone());
        assert!(!some.forbid("", "secrets", "create"));
        assert!(some.forbid("", "secrets", "update"));
        assert!(some.forbid("", "configmaps", "get"));
        assert!(!some.forbid("apps", "deployments", "delete"));
        assert!(!answer(true, rules).forbid("", "secrets", "update"), "somebody else may allow it");
        assert!(!answer(false, json!([])).forbid("", "secrets", "update"), "no answer");
    }
}
