//! Shows a plan to people and programs: every change with its difference, without noise and secrets.

use serde::Serialize;
use serde_json::Value;
use slipway_event::PlannedChanges;
use slipway_manifest::diff::{self, DiffOptions, LineKind, NoiseFilter, Significance, ValueRedactor};
use slipway_manifest::object;
use slipway_policy::PolicyReport;

use crate::decide::ObjectChange;
use crate::name::{Namespace, ReleaseName, Revision};
use crate::ops::OperationKind;
use crate::plan::{Indexed, KeptObject, PlannedObject, ReleasePlan};
use crate::resource::{DeployType, RecordPart, Resource, is_crd, is_namespace};
use crate::stage::Stage;

/// Settings of a view.
#[derive(Clone, Debug)]
pub struct ViewOptions {
    /// Lines around each change.
    pub context: usize,
    pub show_sensitive: bool,
    pub show_insignificant: bool,
    /// Whole definitions instead of a word about them.
    pub show_verbose_crds: bool,
    /// Whole manifests of what is created or deleted.
    pub show_verbose: bool,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            context: 3,
            show_sensitive: false,
            show_insignificant: false,
            show_verbose_crds: false,
            show_verbose: true,
        }
    }
}

/// The line in place of a whole manifest.
const HIDDEN_WHOLE: &str = "<hidden verbose changes>";

/// The change of one object, ready to be shown.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ChangeView {
    /// `create`, `recreate`, `update`, `apply`, `delete`.
    pub action: String,
    pub object: String,
    pub api_version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub stage: Stage,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<i64>,
    /// Runs at its stage instead of being part of the release.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hook: bool,
    /// Later changes of it in the same run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub then: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Only owners or annotations of tools change.
    pub insignificant: bool,
    /// Field by field: `spec.replicas: 2 → 3`.
    pub fields: Vec<String>,
    /// Lines with a sign before each; `...` where lines are left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// A plan in a form programs read.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanView {
    pub release: ReleaseName,
    pub namespace: Namespace,
    #[serde(rename = "moment")]
    pub deploy_type: DeployType,
    pub revision: Revision,
    /// Nothing is done at all.
    pub empty: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub changes: Vec<ChangeView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<KeptObject>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    pub summary: Vec<(String, usize)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<PolicyReport>,
}

impl ReleasePlan {
    /// The plan, ready to be shown.
    pub fn view(&self, options: &ViewOptions) -> PlanView {
        let changes = change_views(self, options);
        let mut summary = Vec::new();
        for action in ["create", "recreate", "update", "apply", "delete"] {
            let count = changes.iter().filter(|change| change.action == action).count();
            if count > 0 {
                summary.push((action.to_owned(), count));
            }
        }
        PlanView {
            release: self.name.clone(),
            namespace: self.namespace.clone(),
            deploy_type: self.deploy_type,
            revision: self.revision(),
            empty: self.is_empty(),
            reason: self.reason.clone(),
            changes,
            kept: self.kept.clone(),
            warnings: self.warnings.iter().map(ToString::to_string).collect(),
            summary,
            policy: self.policy.clone(),
        }
    }

    /// The objects that change, counted as [`ReleasePlan::view`] shows them.
    pub fn planned_changes(&self) -> PlannedChanges {
        let mut changes = PlannedChanges { delete: self.deletions.len(), ..PlannedChanges::default() };
        changes.create += usize::from(self.has_namespace_view());
        for visit in self.objects.iter().filter_map(|object| object.visits.first()) {
            match visit.change {
                ObjectChange::None { .. } => {}
                ObjectChange::Create => changes.create += 1,
                ObjectChange::Update => changes.update += 1,
                ObjectChange::Recreate { .. } => changes.recreate += 1,
                ObjectChange::Apply { .. } => changes.apply += 1,
            }
        }
        changes
    }

    /// Returns true if the namespace is created before anything else, and is no object of the release itself.
    pub(crate) fn has_namespace_view(&self) -> bool {
        let is_own = |planned: &PlannedObject| {
            is_namespace(&planned.resource.gvk) && planned.resource.id.name == *self.namespace
        };
        self.will_create_namespace() && !self.objects.iter().any(is_own)
    }

    /// The graph for Graphviz.
    pub fn to_dot(&self) -> String {
        self.graph.draw().group(|node| Some(node.value().stage.to_string())).dot()
    }

    /// The graph for Mermaid.
    pub fn to_mermaid(&self) -> String {
        self.graph.draw().group(|node| Some(node.value().stage.to_string())).mermaid()
    }
}

fn change_views(plan: &ReleasePlan, options: &ViewOptions) -> Vec<ChangeView> {
    let mut all: Vec<ChangeView> = namespace_view(plan, options).into_iter().collect();
    for object in &plan.objects {
        let Some(visit) = object.visits.first() else { continue };
        let (before, after) = match &visit.change {
            ObjectChange::None { .. } => continue,
            ObjectChange::Update => (object.live.as_ref(), object.predicted.as_ref()),
            ObjectChange::Create | ObjectChange::Recreate { .. } | ObjectChange::Apply { .. } => {
                (None, Some(&object.resource.object))
            }
        };
        let reason = match &visit.change {
            ObjectChange::Recreate { reason } | ObjectChange::Apply { reason } => Some(reason.clone()),
            _ => None,
        };
        let mut change = change_view(&object.resource, visit.change.verb(), before, after, options);
        change.stage = visit.stage;
        change.weight = object.resource.settings.weight;
        change.reason = reason;
        if visit.follow.delete_on_success {
            change.then.push("delete".to_owned());
        }
        for later in &object.visits[1..] {
            change.then.push(later.change.verb().to_owned());
            if later.follow.delete_on_success {
                change.then.push("delete".to_owned());
            }
        }
        all.push(change);
    }
    let rank =
        |action: &str| ["create", "recreate", "update", "apply"].iter().position(|word| *word == action);
    all.sort_by_key(|change| (rank(&change.action), change.stage, change.weight, change.object.clone()));
    for deletion in &plan.deletions {
        let mut change = change_view(&deletion.resource, "delete", Some(&deletion.live), None, options);
        change.stage = deletion.stage;
        if deletion.excluded {
            change.reason = Some(format!("it is not deployed on {}", deploy_verb(plan.deploy_type)));
        }
        all.push(change);
    }
    all
}

/// The namespace that is created before anything else, unless it is an object of the release too.
fn namespace_view(plan: &ReleasePlan, options: &ViewOptions) -> Option<ChangeView> {
    if !plan.has_namespace_view() {
        return None;
    }
    let lines = match options.show_verbose {
        true => show_differences(None, Some(&plan.namespace_manifest()), options).1,
        false => vec![HIDDEN_WHOLE.to_owned()],
    };
    let name = plan.namespace.to_string();
    Some(ChangeView {
        action: "create".to_owned(),
        object: format!("Namespace/{name}"),
        api_version: "v1".to_owned(),
        kind: "Namespace".to_owned(),
        namespace: String::new(),
        name,
        stage: Stage::Init,
        weight: None,
        hook: false,
        then: Vec::new(),
        reason: Some("the namespace of the release does not exist yet".to_owned()),
        insignificant: false,
        fields: Vec::new(),
        lines,
    })
}

fn deploy_verb(deploy_type: DeployType) -> &'static str {
    match deploy_type {
        DeployType::Install => "install",
        DeployType::Upgrade => "upgrade",
        DeployType::Rollback => "rollback",
        DeployType::Delete => "delete",
        DeployType::Test => "test",
    }
}

fn change_view(
    resource: &Resource,
    action: &str,
    before: Option<&Value>,
    after: Option<&Value>,
    options: &ViewOptions,
) -> ChangeView {
    let mut change = ChangeView {
        action: action.to_owned(),
        object: resource.id.to_string(),
        api_version: resource.gvk.api_version(),
        kind: resource.gvk.kind.clone(),
        namespace: resource.id.namespace.clone(),
        name: resource.id.name.clone(),
        stage: Stage::Install,
        weight: None,
        hook: resource.stored == RecordPart::Hook,
        then: Vec::new(),
        reason: None,
        insignificant: false,
        fields: Vec::new(),
        lines: Vec::new(),
    };
    let whole = before.is_none() || after.is_none();
    if whole && is_crd(&resource.gvk) && !options.show_verbose_crds {
        change.lines.push("<hidden verbose CRD changes>".to_owned());
        return change;
    }
    if whole && !options.show_verbose {
        change.lines.push(HIDDEN_WHOLE.to_owned());
        return change;
    }
    let (fields, lines, significance) = show_differences(before, after, options);
    change.insignificant = significance != Significance::Significant;
    if !whole {
        change.fields = fields;
    }
    change.lines = lines;
    if change.lines.is_empty() {
        change.lines.push("<hidden insignificant changes>".to_owned());
    }
    change
}

/// The difference of two states: by field, and as lines with signs.
pub fn show_differences(
    before: Option<&Value>,
    after: Option<&Value>,
    options: &ViewOptions,
) -> (Vec<String>, Vec<String>, Significance) {
    let redactor = ValueRedactor::per_run();
    let settings = DiffOptions {
        cleaning: if options.show_insignificant { NoiseFilter::ShowInsignificant } else { NoiseFilter::Show },
        kind: None,
        redactor: (!options.show_sensitive).then_some(&redactor),
    };
    let Ok(found) = diff::diff_objects(before, after, &settings) else {
        return (Vec::new(), vec!["<nested too deeply to be shown>".to_owned()], Significance::Significant);
    };
    let print = |value: &Value| slipway_yaml::to_string(value).unwrap_or_else(|_| value.to_string());
    let mut lines = Vec::new();
    for (number, hunk) in found.line_hunks(print, options.context).into_iter().enumerate() {
        if number > 0 {
            lines.push("...".to_owned());
        }
        for line in hunk.lines {
            let sign = match line.kind {
                LineKind::Added => '+',
                LineKind::Removed => '-',
                LineKind::Context => ' ',
            };
            lines.push(format!("{sign} {}", line.text));
        }
    }
    let fields = found.changes.iter().map(ToString::to_string).collect();
    (fields, lines, found.significance)
}

/// The name of the object an operation is about, if it is about one.
pub fn operation_subject(plan: &ReleasePlan, operation: &OperationKind) -> Option<String> {
    match operation {
        OperationKind::Deploy(index)
        | OperationKind::TrackReadiness(index)
        | OperationKind::CleanUp(index)
        | OperationKind::TrackCleanUp(index) => Some(plan.objects.at(index.object).resource.id.to_string()),
        OperationKind::Delete(index) | OperationKind::TrackAbsence(index) => {
            Some(plan.deletions.at(*index).resource.id.to_string())
        }
        _ => None,
    }
}

/// The kind and name of a live object.
pub fn object_title(live: &Value) -> String {
    format!("{}/{}", object::kind(live).unwrap_or_default(), object::name(live).unwrap_or_default())
}
