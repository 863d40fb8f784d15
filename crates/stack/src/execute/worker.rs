//! The work of one release: its needs, what a killed run left of it, the release engine.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};

use serde_json::json;
use slipway_cluster::Deadline;
use slipway_event::{Events, Scope};
use slipway_graph::{Context, Done, NodePolicy, NodeRef, Worker};

use super::recorder::Recorder;
use super::{Failures, Recovery, RunOptions};
use crate::deploy::{At, Attempt, Class, Deploy, Live, NodeError};
use crate::plan::{Command, ExternalNeed, NeedsPolicy, Node};
use crate::record::{EventType, RunEvent};

/// A conflict is somebody else at work; trying more often than this only fights.
const MOST_CONFLICTS: u32 = 2;

/// Does the work of one release.
pub(super) struct ReleaseWorker<'a, D> {
    pub(super) deploy: &'a D,
    pub(super) run_id: &'a str,
    pub(super) command: Command,
    pub(super) needs: NeedsPolicy,
    /// Needs outside the graph, by node.
    pub(super) external: BTreeMap<String, Vec<ExternalNeed>>,
    pub(super) options: &'a RunOptions,
    pub(super) recorder: &'a Recorder<'a>,
    pub(super) events: &'a Events,
    pub(super) failures: &'a Failures,
    pub(super) conflicts: Mutex<HashMap<String, u32>>,
    pub(super) pools: HashMap<&'a str, u32>,
}

impl<'g, D: Deploy> Worker<'g, &'g Node> for ReleaseWorker<'_, D> {
    type Error = NodeError;

    async fn work(&self, cx: Context<'g, &'g Node>) -> Result<Done, NodeError> {
        let node: &Node = cx.value();
        let attempt = Attempt {
            run_id: self.run_id,
            number: cx.attempt(),
            interrupted: cx.interrupted(),
            cancel: cx.cancelled().clone(),
            deadline: node.timeout(self.command).map(Deadline::after),
            events: self.events.child(Scope::release(&node.id)),
        };
        let done = self.attempt(node, &attempt).await;
        done.map(|applied| Done::Succeeded(applied.to_json())).map_err(|error| {
            let error = self.judge(node, error);
            let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
            failures.insert(node.id.clone(), error.clone());
            error
        })
    }

    fn policy(&self, node: NodeRef<'g, &'g Node>, default: &NodePolicy) -> NodePolicy {
        NodePolicy { pool: self.pools.get(node.value().cluster.name.as_str()).copied(), ..*default }
    }
}

impl<D: Deploy> ReleaseWorker<'_, D> {
    async fn attempt(&self, node: &Node, attempt: &Attempt<'_>) -> Result<crate::deploy::Applied, NodeError> {
        if self.command == Command::Apply && self.needs == NeedsPolicy::Check {
            self.check_needs(node, attempt).await?;
        }
        if attempt.interrupted && self.options.recovery == Recovery::MarkFailed {
            self.recover(node, attempt).await?;
        }
        match self.command {
            Command::Apply => self.deploy.apply(node, attempt).await,
            Command::Delete => self.deploy.delete(node, attempt).await,
        }
    }

    /// Checks that what it needs and this run does not bring is there.
    async fn check_needs(&self, node: &Node, attempt: &Attempt<'_>) -> Result<(), NodeError> {
        for need in self.external.get(&node.id).into_iter().flatten() {
            let at = At { namespace: &need.namespace, name: &need.name, ..At::of(node) };
            let at = at.until(attempt.deadline.as_ref());
            if !matches!(self.deploy.status(&at).await?, Live::Deployed { .. }) {
                let message = format!(
                    "{}: need \"{}\" is neither selected nor deployed (add --include-deps, or --needs ignore)",
                    node.id, need.name
                );
                return Err(NodeError::new(Class::UnmetNeed, message));
            }
        }
        Ok(())
    }

    /// This run died while it worked on the release; a revision it left pending will never end by itself.
    async fn recover(&self, node: &Node, attempt: &Attempt<'_>) -> Result<(), NodeError> {
        let at = At::of(node).until(attempt.deadline.as_ref());
        let action = match self.deploy.status(&at).await? {
            Live::Pending { revision, status } => {
                let why = format!("interrupted while {status}; marked failed by run {}", self.run_id);
                self.deploy.recover(&at, revision, &why).await?;
                format!("revision {revision} was left {status}; marked failed")
            }
            Live::Uninstalling { .. } if self.command == Command::Delete => {
                "was left uninstalling; going on".to_owned()
            }
            _ => return Ok(()),
        };
        let event = RunEvent::new(EventType::NodeRecovered, Some(&node.id), attempt.number)
            .message(action.clone())
            .field("action", json!("mark-failed"));
        self.recorder
            .record(vec![event])
            .map_err(|error| NodeError::new(Class::Internal, error.to_string()))?;
        let problem = slipway_problem::Problem::warning(format!("{}: {action}", node.id));
        self.events.send(slipway_event::Event::Warning { problem });
        Ok(())
    }

    /// Settles whether a failure is worth another attempt, and masks what must not be told.
    fn judge(&self, node: &Node, mut error: NodeError) -> NodeError {
        error.message = self.events.redactor().redact(&error.message).into_owned();
        if self.options.retry_on.contains(&error.class) {
            error.retryable = Some(true);
        } else if error.class == Class::Conflict {
            let mut conflicts = self.conflicts.lock().unwrap_or_else(PoisonError::into_inner);
            let met = conflicts.entry(node.id.clone()).or_default();
            *met += 1;
            if *met > MOST_CONFLICTS {
                error.retryable = Some(false);
            }
        }
        error
    }
}
