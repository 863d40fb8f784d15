//! The definitions of every kind, as a cluster installs them; made from the types.

use serde_json::{Value, json};
use slipway_kro::DefinitionFrame;

use super::labels::{GROUP, VERSION};
use super::resource::{KindScope, KindSpec};
use super::schema::structural_schema;
use super::{
    AuditEventSpec, BundleSpec, ChangeWindowSpec, MetricCheckSpec, NotificationHookSpec, PipelineGroupSpec,
    PipelineSpec, PolicyGateSpec, PrStatusSpec, PromotionContractSpec, PromotionRecordSpec,
    PromotionStepSpec, PromotionTemplateSpec, RollbackPolicySpec, SubscriptionSpec,
};

/// The definitions of every kind.
pub fn definitions() -> Vec<Value> {
    vec![pipeline(), bundle(), promotion_step(), policy_gate(), metric_check(), change_window()]
        .into_iter()
        .chain([pipeline_group(), promotion_contract()])
        .chain(supporting())
        .collect()
}

fn pipeline() -> Value {
    let mut definition = Definition::of::<PipelineSpec>()
        .column("Phase", "string", ".status.phase")
        .column("Bundle", "string", ".status.activeBundle")
        .column("Environments", "string", ".status.environmentSummary")
        .column("Paused", "boolean", ".spec.paused");
    let environments = definition.property(&["environments"]);
    environments["items"]["x-kubernetes-validations"] = json!([
        rule(
            "!has(self.path) || !(self.path.startsWith('/') || self.path.split('/').exists(part, part == '..'))",
            "the path is inside of the repository"
        ),
        rule("!has(self.regions) || self.regions.size() != 1", "regions are two or more, or none"),
    ]);
    definition.alias(&["environments", "[]"], "stepsRef", "promotionTemplate");
    definition.rule(
        "self.git.layout != 'branch' || !has(self.git.branchPrefix) || self.git.branchPrefix != ''",
        "the branch layout needs a branch prefix",
    );
    definition.finish()
}

fn bundle() -> Value {
    let mut definition = Definition::of::<BundleSpec>()
        .column("Type", "string", ".spec.type")
        .column("Pipeline", "string", r".metadata.labels.kardinal\.io/pipeline")
        .column("Phase", "string", ".status.phase")
        .column("Version", "string", ".status.version");
    definition.alias(&["intent"], "targetEnvironment", "target");
    definition.alias(&["intent"], "skipEnvironments", "skip");
    definition.alias(&["provenance"], "timestamp", "buildTimestamp");
    definition.rule("self == oldSelf", "the spec of a bundle never changes");
    let images = "(has(self.artifacts) && has(self.artifacts.images) && self.artifacts.images.size() > 0) \
                  || (has(self.images) && self.images.size() > 0)";
    let config = "(has(self.artifacts) && has(self.artifacts.gitCommit)) || has(self.configRef)";
    let rule = |types: &str, needs: &str| format!("self.type in [{types}] || ({needs})");
    definition.rule(&rule("'config', 'group'", images), "a bundle of images needs one");
    definition.rule(&rule("'image', 'group'", config), "a bundle of configuration needs a commit");
    let members = "has(self.group) && self.group != '' && has(self.members) && self.members.size() > 0";
    definition.rule(
        &rule("'image', 'config', 'mixed'", members),
        "a bundle of a group names the group and a version of its members",
    );
    definition.finish()
}

fn pipeline_group() -> Value {
    Definition::of::<PipelineGroupSpec>()
        .column("Mode", "string", ".spec.mode")
        .column("Bundle", "string", ".status.activeBundle")
        .column("Phase", "string", ".status.phase")
        .finish()
}

fn promotion_contract() -> Value {
    Definition::of::<PromotionContractSpec>()
        .column("Consumer", "string", ".spec.consumer.pipeline")
        .column("Env", "string", ".spec.consumer.environment")
        .column("Provider", "string", ".spec.provider.pipeline")
        .column("Satisfied", "boolean", ".status.satisfied")
        .wide_column("Reason", "string", ".status.reason")
        .finish()
}

fn promotion_step() -> Value {
    let mut definition = Definition::of::<PromotionStepSpec>()
        .column("Pipeline", "string", ".spec.pipeline")
        .column("Env", "string", ".spec.environment")
        .column("Bundle", "string", ".spec.bundleRef")
        .column("State", "string", ".status.state")
        .column("Step", "string", ".status.currentStep")
        .column("PR", "string", ".status.prURL");
    // What a hand-written step leaves out is read from the Pipeline's defaults.
    definition.optional(&["git", "url"]);
    definition.finish()
}

fn policy_gate() -> Value {
    let mut definition = Definition::of::<PolicyGateSpec>()
        .column("Ready", "boolean", ".status.ready")
        .column("Scope", "string", r".metadata.labels.kardinal\.io/scope")
        .column("Applies-To", "string", r".metadata.labels.kardinal\.io/applies-to")
        .wide_column("Reason", "string", ".status.reason")
        .wide_column("Last-Evaluated", "date", ".status.lastEvaluatedAt");
    definition.rule(
        "(has(self.expression) && self.expression != '') || has(self.external)",
        "a gate needs an expression, unless somebody else decides",
    );
    definition.rule(
        "!has(oldSelf.overrides) || (has(self.overrides) && oldSelf.overrides.all(old, self.overrides.exists(new, new == old)))",
        "overrides are added, never changed or removed",
    );
    definition.finish()
}

fn metric_check() -> Value {
    Definition::of::<MetricCheckSpec>()
        .column("Provider", "string", ".spec.provider.type")
        .column("Result", "string", ".status.result")
        .column("LastValue", "string", ".status.lastValue")
        .finish()
}

fn change_window() -> Value {
    let mut definition = Definition::of::<ChangeWindowSpec>()
        .column("Type", "string", ".spec.type")
        .column("Active", "boolean", ".status.active")
        .column("Next", "date", ".status.nextTransitionAt");
    definition.rule(
        "self.type != 'blackout' || (has(self.start) && has(self.end))",
        "a blackout needs a start and an end",
    );
    definition.rule("self.type != 'recurring' || has(self.schedule)", "a recurring window needs a schedule");
    definition.finish()
}

fn supporting() -> Vec<Value> {
    let mut audit = Definition::of::<AuditEventSpec>()
        .column("Action", "string", ".spec.action")
        .column("Pipeline", "string", ".spec.pipelineName")
        .column("Bundle", "string", ".spec.bundleName")
        .column("Env", "string", ".spec.environment")
        .column("Outcome", "string", ".spec.outcome");
    audit.rule("self == oldSelf", "an entry of the audit trail never changes");
    let mut record = Definition::of::<PromotionRecordSpec>()
        .column("Bundle", "string", ".spec.bundleRef")
        .column("Env", "string", ".spec.environment")
        .column("State", "string", ".spec.record.state");
    record.rule(
        "self.bundleRef == oldSelf.bundleRef && self.environment == oldSelf.environment",
        "a record stays with its bundle",
    );
    vec![
        Definition::of::<PromotionTemplateSpec>().finish(),
        Definition::of::<PrStatusSpec>()
            .column("Repo", "string", ".spec.repo")
            .column("Number", "integer", ".spec.prNumber")
            .column("Merged", "boolean", ".status.merged")
            .finish(),
        Definition::of::<RollbackPolicySpec>()
            .column("Pipeline", "string", ".spec.pipelineName")
            .column("Env", "string", ".spec.environment")
            .column("Rollback", "string", ".status.rollbackBundleName")
            .finish(),
        record.finish(),
        audit.finish(),
        subscription(),
        notification_hook(),
    ]
}

fn subscription() -> Value {
    let mut definition = Definition::of::<SubscriptionSpec>()
        .column("Type", "string", ".spec.source.type")
        .column("Pipeline", "string", ".spec.pipeline")
        .column("Phase", "string", ".status.phase")
        .column("Last-Bundle", "string", ".status.lastBundleCreated");
    for (kind, field) in [("image", "image"), ("gitCommit", "gitCommit"), ("helmChart", "helmChart")] {
        definition.rule(
            &format!("self.source.type != '{kind}' || has(self.source.{field})"),
            &format!("a source of type `{kind}` needs `{field}`"),
        );
    }
    definition.finish()
}

fn notification_hook() -> Value {
    Definition::of::<NotificationHookSpec>()
        .column("Last-Event", "string", ".status.lastEvent")
        .column("Sent", "date", ".status.lastSentAt")
        .wide_column("Failure", "string", ".status.failureMessage")
        .finish()
}

fn rule(rule: &str, message: &str) -> Value {
    json!({"rule": rule, "message": message})
}

/// A definition in the making.
struct Definition {
    kind: &'static str,
    plural: &'static str,
    scope: KindScope,
    short_names: &'static [&'static str],
    columns: Vec<Value>,
    spec: Value,
    status: Value,
}

impl Definition {
    fn of<S: KindSpec>() -> Self {
        Self {
            kind: S::KIND,
            plural: S::PLURAL,
            scope: S::SCOPE,
            short_names: S::SHORT_NAMES,
            columns: Vec::new(),
            spec: structural_schema::<S>(),
            status: structural_schema::<S::Status>(),
        }
    }

    fn column(mut self, name: &str, kind: &str, path: &str) -> Self {
        self.columns.push(json!({"name": name, "type": kind, "jsonPath": path}));
        self
    }

    /// A column shown by `-o wide`.
    fn wide_column(mut self, name: &str, kind: &str, path: &str) -> Self {
        self.columns.push(json!({"name": name, "type": kind, "jsonPath": path, "priority": 1}));
        self
    }

    /// The schema of a field of the spec; `[]` steps into a list.
    fn property(&mut self, path: &[&str]) -> &mut Value {
        path.iter().fold(&mut self.spec, |schema, part| match *part {
            "[]" => &mut schema["items"],
            part => &mut schema["properties"][part],
        })
    }

    /// Serves an older name of a field, with the schema of the newer one.
    fn alias(&mut self, parent: &[&str], older: &str, newer: &str) {
        let parent = self.property(parent);
        let mut schema = parent["properties"][newer].clone();
        schema["description"] = format!("Older name of `{newer}`.").into();
        parent["properties"][older] = schema;
    }

    /// Lets a field be absent.
    fn optional(&mut self, path: &[&str]) {
        if let Some((field, parent)) = path.split_last()
            && let Some(Value::Array(required)) = self.property(parent).get_mut("required")
        {
            required.retain(|name| name != field);
        }
    }

    fn rule(&mut self, text: &str, message: &str) {
        match &mut self.spec["x-kubernetes-validations"] {
            Value::Array(rules) => rules.push(rule(text, message)),
            absent => *absent = json!([rule(text, message)]),
        }
    }

    fn finish(self) -> Value {
        let mut columns = self.columns;
        columns.push(json!({"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}));
        let frame = DefinitionFrame {
            group: GROUP,
            version: VERSION,
            kind: self.kind,
            plural: self.plural,
            scope: match self.scope {
                KindScope::Namespaced => "Namespaced",
                KindScope::Cluster => "Cluster",
            },
        };
        let mut definition = frame.definition(&self.spec, &self.status, &Value::Array(columns));
        let names = &mut definition["spec"]["names"];
        names["categories"] = json!(["promotion"]);
        if !self.short_names.is_empty() {
            names["shortNames"] = json!(self.short_names);
        }
        definition
    }
}
