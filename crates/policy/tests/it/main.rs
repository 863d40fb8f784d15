//! Policies as their users meet them: a file, a plan, and what comes of it.

mod files;
mod rules;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_manifest::ObjectRef;
use slipway_policy::{
    PolicyChange, PolicyInput, PolicyObject, PolicyReport, PolicySet, PolicySource, PolicyTarget, SecretUse,
    UnitFacts,
};

/// A moment on a Tuesday.
const NOW: &str = "2026-07-07T10:00:00Z";

/// A policy with the rules given as YAML.
fn policy(rules: &str) -> PolicySet {
    parsed(&format!("apiVersion: ktl.dev/policy/v1\nrules:\n{rules}"))
}

fn parsed(text: &str) -> PolicySet {
    match load(text) {
        Ok(set) => set,
        Err(problems) => panic!("{problems}"),
    }
}

fn load(text: &str) -> Result<PolicySet, slipway_problem::Problems> {
    PolicySet::parse(vec![PolicySource { name: "policy.yaml".to_owned(), text: text.to_owned() }])
}

/// A plan to hold policies against.
#[derive(Clone, Default)]
struct Plan {
    objects: Vec<Value>,
    changes: Vec<PolicyChange>,
    secrets: Vec<SecretUse>,
    unit: Option<UnitFacts>,
    target: PolicyTarget,
    now: Option<&'static str>,
}

impl Plan {
    fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        Self { objects: objects.into_iter().collect(), ..Self::default() }
    }

    fn evaluate(&self, set: &PolicySet) -> PolicyReport {
        let objects = self
            .objects
            .iter()
            .map(|object| PolicyObject { reference: ObjectRef::of(object), object })
            .collect();
        let now: Timestamp = self.now.unwrap_or(NOW).parse().expect("is a time");
        set.evaluate(&PolicyInput {
            changes: self.changes.clone(),
            secrets: self.secrets.clone(),
            unit: self.unit.clone(),
            ..PolicyInput::new(self.target.clone(), now, objects)
        })
    }
}

/// Every result in one line each: `deny rule | subject | path | message | code`.
fn lines(report: &PolicyReport) -> Vec<String> {
    let code = |result: &slipway_policy::PolicyResult| {
        serde_json::to_value(result).expect("serializes")["code"].clone()
    };
    let line = |result: &slipway_policy::PolicyResult| {
        format!(
            "{} {} | {} | {} | {} | {}",
            result.decision.word(),
            result.rule,
            result.subject,
            result.path,
            result.message,
            code(result).as_str().unwrap_or_default()
        )
    };
    report.results.iter().map(line).collect()
}

fn object(api_version: &str, kind: &str, namespace: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}});
    if !namespace.is_empty() {
        object["metadata"]["namespace"] = namespace.into();
    }
    object
}

/// A Deployment with one container.
fn deployment(name: &str, image: &str) -> Value {
    let mut object = object("apps/v1", "Deployment", "shop", name);
    object["spec"] =
        json!({"replicas": 1, "template": {"spec": {"containers": [{"name": "app", "image": image}]}}});
    object
}
