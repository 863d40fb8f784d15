//! From what is wanted and what is there to a plan. Never writes.
//!
//! A [`Request`] becomes an intent (which record, which objects, what is said about it), the intent is held
//! against the cluster (what is there, what the server would make of it, what has to go), and what is to be
//! done is compiled into one graph. Everything that is wrong is told at once.

mod compile;
mod intent;
mod look;
mod removals;
mod request;
mod scopes;
mod situation;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use slipway_chart::check_release_name;
use slipway_cluster::Cluster;
use slipway_cluster::helm::{History, Release};
use slipway_event::{Event, Events};
use slipway_graph::Graph;
use slipway_manifest::object;
use slipway_problem::{Problem, Problems};

use crate::decide::Decision;
use crate::failure::Failure;
use crate::ops::{Category, Deployed, ExternalDependency, Op, Removed};
use crate::resource::DeployType;
use slipway_source::Document;

pub use intent::capabilities;
pub use look::Facts;
pub use removals::{PlannedDeletion, Remaining};
pub use request::{Content, Options, PruneOrder, Request};
pub use situation::{Situation, rollback_target, situation};

/// What will be done, and why.
#[derive(Debug)]
pub struct Plan {
    pub name: String,
    pub namespace: String,
    pub moment: DeployType,
    /// The revision to be written, pending; of a delete, the last one.
    pub release: Release,
    pub history: Arc<History>,
    pub items: Vec<Deployed>,
    pub facts: Vec<Facts>,
    pub removals: Vec<Removed>,
    pub doomed: Vec<PlannedDeletion>,
    pub awaited: Vec<ExternalDependency>,
    pub remaining: Vec<Remaining>,
    pub graph: Graph<Op>,
    pub warnings: Problems,
    /// Automatic dependencies: who, whom, through which field.
    pub references: Vec<(String, String, String)>,
    /// Why a revision is needed even if no object changes.
    pub reason: Option<String>,
    pub options: Options,
    /// Definitions of `crds/`, which the record does not keep.
    pub aside: Vec<Document>,
}

impl Plan {
    /// Whether there is nothing to do at all.
    pub fn is_empty(&self) -> bool {
        self.reason.is_none() && !self.touches()
    }

    /// Whether any object is changed or waited for.
    fn touches(&self) -> bool {
        let mut categories = self.graph.nodes().map(|node| node.value().category());
        categories.any(|category| matches!(category, Category::Resource | Category::Track))
    }

    /// Whether any object is changed.
    pub fn changes_objects(&self) -> bool {
        self.graph.nodes().any(|node| node.value().category() == Category::Resource)
    }

    /// 0 nothing to do, 2 objects change, 3 only a new revision.
    pub fn exit_code(&self) -> u8 {
        if self.changes_objects() {
            2
        } else if self.is_empty() {
            0
        } else {
            3
        }
    }
}

/// Makes a plan. Never writes.
pub async fn plan(cluster: &Cluster, request: &Request, events: &Events) -> Result<Plan, Failure> {
    check_release_name(&request.name).map_err(|error| Problem::error(error.to_string()))?;
    let situation = situation(cluster, &request.name, &request.namespace, request.options.driver).await?;
    let needs_release = matches!(request.content, Content::Nothing | Content::Tests | Content::Revision(_));
    if needs_release && situation.history.releases.is_empty() {
        let Request { name, namespace, options, .. } = request;
        return Err(crate::inspect::not_found(cluster, options.driver, namespace, name).await);
    }
    let intent = match &request.content {
        Content::Nothing => intent::delete(request, &situation)?,
        Content::Tests => intent::test(request, &situation)?,
        _ => Box::pin(intent::deploy(cluster, request, &situation)).await?,
    };
    keep_secret(&intent.documents, events);
    let plan = Box::pin(compile::compile(cluster, request, situation, intent)).await?;
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

/// The decision for an item's first visit.
pub fn first_decision(item: &Deployed) -> Option<&Decision> {
    item.visits.first().map(|visit| &visit.decision)
}
