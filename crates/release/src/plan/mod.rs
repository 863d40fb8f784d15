//! Makes plans: from what is asked for and what is there to a value that says what will be done. Never writes.
//!
//! A [`ReleaseRequest`] becomes an intent (which record, which objects, what is said about it), the intent is held
//! against the cluster (what is there, what the server would make of it, what has to go), and what is to be
//! done is compiled into one graph. Everything that is wrong is told at once.

mod compile;
mod deletions;
mod intent;
mod observe;
mod planned;
mod request;
mod rights;
mod scopes;
mod secrets;
mod situation;
mod verify;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_chart::check_release_name;
use slipway_cluster::helm::{Release, ReleaseHistory};
use slipway_cluster::{CallCounts, Cluster};
use slipway_event::{Event, Events};
use slipway_graph::Graph;
use slipway_manifest::object;
use slipway_policy::PolicyReport;
use slipway_problem::{Problem, Problems};

use crate::failure::Failure;
use crate::name::{Namespace, ReleaseName, Revision};
use crate::ops::{ObjectReference, Operation, OperationCategory, OperationKind};
use crate::resource::DeployType;
use slipway_source::Document;

pub use intent::read_capabilities;
pub(crate) use planned::indexed;
pub use planned::{
    DeletionIndex, ExternalDependency, ExternalIndex, Indexed, KeptObject, ObjectIndex, PlannedDeletion,
    PlannedObject, PlannedVisit, VisitIndex,
};
pub use request::{
    MissingNamespace, PlanOptions, PlanPurpose, PruneOrder, ReleaseContent, ReleaseRequest, TestFilter,
};
pub use situation::{ReleaseSituation, read_situation, rollback_target};

/// Everything that will be done to a release, and why.
#[derive(Debug)]
pub struct ReleasePlan {
    pub name: ReleaseName,
    pub namespace: Namespace,
    /// The namespace is not there and is created first.
    pub creates_namespace: bool,
    pub deploy_type: DeployType,
    /// The revision to be written, pending; of a delete, the last one.
    pub release: Release,
    pub history: Arc<ReleaseHistory>,
    pub objects: Vec<PlannedObject>,
    pub deletions: Vec<PlannedDeletion>,
    pub externals: Vec<ExternalDependency>,
    /// Objects of earlier revisions that stay.
    pub kept: Vec<KeptObject>,
    pub graph: Graph<Operation>,
    pub warnings: Problems,
    /// The policies' results, where the options name some.
    pub policy: Option<PolicyReport>,
    /// Automatic dependencies.
    pub references: Vec<ObjectReference>,
    /// The reason for a revision even if no object changes.
    pub reason: Option<String>,
    pub options: PlanOptions,
    /// Definitions of `crds/`, which the record does not keep.
    pub aside: Vec<Document>,
    /// The requests it took to make the plan.
    pub requests: CallCounts,
}

impl ReleasePlan {
    /// The command and the release, as events name the run.
    pub fn title(&self) -> String {
        let command = match self.deploy_type {
            DeployType::Delete => "delete",
            DeployType::Rollback => "rollback",
            DeployType::Test => "test",
            DeployType::Install | DeployType::Upgrade => "apply",
        };
        format!("{command} {}", self.name)
    }

    /// The revision the plan makes; of a delete or a test, the one it is about.
    pub fn revision(&self) -> Revision {
        self.release.version.into()
    }

    /// One visit of one object.
    pub fn visit(&self, index: VisitIndex) -> &PlannedVisit {
        &self.objects.at(index.object).visits[index.visit]
    }

    /// Tells that there is nothing to do at all.
    pub fn is_empty(&self) -> bool {
        self.reason.is_none() && !self.touches_objects()
    }

    /// Tells that some object is changed or waited for.
    fn touches_objects(&self) -> bool {
        let mut categories = self.graph.nodes().map(|node| node.value().category());
        categories.any(|category| matches!(category, OperationCategory::Resource | OperationCategory::Track))
    }

    /// Tells that carrying the plan out creates the namespace of the release.
    pub fn will_create_namespace(&self) -> bool {
        self.creates_namespace && self.options.missing_namespace == MissingNamespace::Create
    }

    /// The namespace of the release, as it is created where it is missing.
    pub(crate) fn namespace_manifest(&self) -> Value {
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": *self.namespace}})
    }

    /// Tells that some object is changed.
    pub fn changes_objects(&self) -> bool {
        self.graph.nodes().any(|node| node.value().category() == OperationCategory::Resource)
    }

    /// Refuses a plan that a policy denies.
    pub fn check_policy(&self) -> Result<(), Failure> {
        match &self.policy {
            Some(report) if report.is_denied() => Err(Failure::Refused(report.problems())),
            _ => Ok(()),
        }
    }

    /// 0 nothing to do, 2 objects change, 3 only a new revision.
    pub fn exit_code(&self) -> u8 {
        if self.changes_objects() || self.will_create_namespace() {
            2
        } else if self.is_empty() {
            0
        } else {
            3
        }
    }
}

/// Makes a plan. Never writes.
pub async fn plan(
    cluster: &Cluster,
    request: &ReleaseRequest,
    events: &Events,
) -> Result<ReleasePlan, Failure> {
    plan_for(cluster, request, request.options.purpose, events).await
}

/// As [`plan()`], for a purpose other than the request's own.
pub(crate) async fn plan_for(
    cluster: &Cluster,
    request: &ReleaseRequest,
    purpose: PlanPurpose,
    events: &Events,
) -> Result<ReleasePlan, Failure> {
    let before = cluster.call_counts();
    let planned = Box::pin(make_plan(cluster, request, purpose, events)).await;
    let planned = match purpose {
        PlanPurpose::Preview => planned,
        PlanPurpose::Execute => rights::check_rights(cluster, request, planned).await,
    };
    let plan = ReleasePlan { requests: cluster.call_counts().since(&before), ..planned? };
    if purpose == PlanPurpose::Execute {
        plan.check_policy()?;
        let nodes = plan.graph.nodes().filter(|node| node.value().kind != OperationKind::Boundary).count();
        events.send(Event::PlanMade { title: plan.title(), nodes, changes: Some(plan.planned_changes()) });
    }
    Ok(plan)
}

async fn make_plan(
    cluster: &Cluster,
    request: &ReleaseRequest,
    purpose: PlanPurpose,
    events: &Events,
) -> Result<ReleasePlan, Failure> {
    check_release_name(&request.name).map_err(|error| Problem::error(error.to_string()))?;
    let situation =
        read_situation(cluster, &request.name, &request.namespace, request.options.driver).await?;
    let needs_release = matches!(
        request.content,
        ReleaseContent::Nothing | ReleaseContent::Tests(_) | ReleaseContent::Revision(_)
    );
    if needs_release && situation.history.releases.is_empty() {
        let ReleaseRequest { name, namespace, options, .. } = request;
        return Err(crate::inspect::not_found(cluster, options.driver, namespace, name).await);
    }
    let intent = match &request.content {
        ReleaseContent::Nothing => intent::delete_intent(request, &situation)?,
        ReleaseContent::Tests(filter) => intent::test_intent(request, filter, &situation)?,
        _ => {
            Box::pin(intent::deploy_intent(cluster, request, &situation, purpose, events.redactor())).await?
        }
    };
    keep_secret(&intent.documents, events);
    let mut plan = Box::pin(compile::compile_plan(cluster, request, purpose, situation, intent)).await?;
    if let Some(check) = &request.options.policy {
        let report = check.evaluate(&plan);
        plan.warnings.extend(report.problems().into_iter().filter(|found| !found.is_error()));
        plan.policy = Some(report);
    }
    for problem in &plan.warnings {
        events.send(Event::Warning { problem: problem.clone() });
    }
    Ok(plan)
}

/// Values shorter than this are words, not secrets.
const SHORTEST_SECRET: usize = 6;

/// Lets nothing said from here on repeat what Secrets of the release hold, whoever says it.
fn keep_secret(documents: &[Document], events: &Events) {
    for Document { object, .. } in documents {
        let gvk = object::gvk(object);
        if !gvk.group.is_empty() || gvk.kind != "Secret" {
            continue;
        }
        for value in object.get("data").and_then(Value::as_object).into_iter().flat_map(|data| data.values())
        {
            let plain = value.as_str().and_then(|text| STANDARD.decode(text).ok());
            if let Some(plain) = plain.filter(|plain| plain.len() >= SHORTEST_SECRET) {
                events.redactor().register(plain);
            }
        }
    }
}
