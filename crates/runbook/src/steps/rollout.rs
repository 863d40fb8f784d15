//! `rollout`: restart a workload, or wait until its rollout is complete.

use serde_json::{Value, json};
use slipway_cluster::ObjectPatch;
use slipway_cluster::track::missed_deadline;
use slipway_manifest::{Gvk, ObjectRef};

use super::{StepAction, StepFuture, StepOutcome, StepType};
use crate::context::{StepContext, passes, shown};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::error::{AttemptError, ErrorKind};
use crate::model::{Action, Rollout, RolloutVerb, WorkloadKind};
use crate::plan::look::PlanRequest;
use crate::plan::{StepPreview, StepVerb};
use crate::schema::{LABEL, WORKLOAD, like, object, one_of, with};
use slipway_problem::Problem;

/// The annotation kubectl restarts with.
const RESTARTED: &str = "kubectl.kubernetes.io/restartedAt";

pub(crate) fn place(rollout: &Rollout) -> ObjectRef {
    let kind = match rollout.kind {
        WorkloadKind::Deployment => "Deployment",
        WorkloadKind::DaemonSet => "DaemonSet",
        WorkloadKind::StatefulSet => "StatefulSet",
    };
    ObjectRef::new(Gvk::new("apps", "v1", kind), Some(&rollout.namespace), rollout.name.as_str())
}

async fn run(attempt: &StepContext<'_>, rollout: &Rollout) -> Result<StepOutcome, AttemptError> {
    let at = place(rollout);
    match rollout.what {
        RolloutVerb::Restart => restart(attempt, &at).await,
        RolloutVerb::Status => status(attempt, &at).await,
    }
}

async fn restart(attempt: &StepContext<'_>, at: &ObjectRef) -> Result<StepOutcome, AttemptError> {
    let Some(live) = attempt.cluster().get(at).await? else {
        return Err(AttemptError::new(ErrorKind::NotFound, format!("{} does not exist", shown(at))));
    };
    if live["spec"]["paused"] == true {
        let message = format!("{} is paused, so it cannot be restarted", shown(at));
        return Err(AttemptError::new(ErrorKind::Api, message).hint("resume it in a patch step before"));
    }
    let annotations = &live["spec"]["template"]["metadata"]["annotations"];
    let before = annotations[RESTARTED].as_str().unwrap_or_default();
    let mut now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    if now == before {
        // The same text would restart nothing.
        now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
    }
    let body = json!({"spec": {"template": {"metadata": {"annotations": {RESTARTED: now}}}}});
    attempt.patch(at, &ObjectPatch::Strategic(body)).await?;
    Ok(StepOutcome::noted(format!("{} restarted", shown(at))))
}

async fn status(attempt: &StepContext<'_>, at: &ObjectRef) -> Result<StepOutcome, AttemptError> {
    let mut turn = 0;
    loop {
        match attempt.cluster().get(at).await {
            Ok(Some(live)) => match progress(&live) {
                Progress::Complete => return Ok(StepOutcome::noted(format!("{} is rolled out", shown(at)))),
                Progress::Never(why) | Progress::Stuck(why) => {
                    return Err(AttemptError::new(ErrorKind::Api, format!("{}: {why}", shown(at))));
                }
                Progress::Waits(why) => attempt.awaits(format!("{}: {why}", shown(at)), vec![live]),
            },
            Ok(None) => attempt.awaits(format!("{} is not there yet", shown(at)), Vec::new()),
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error.into()),
        }
        attempt.pause(&mut turn).await;
    }
}

/// The state of a rollout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    Complete,
    Waits(String),
    /// The controller gave up.
    Stuck(String),
    /// It cannot be told at all.
    Never(String),
}

pub(crate) fn progress(live: &Value) -> Progress {
    let (spec, status) = (&live["spec"], &live["status"]);
    let number = |value: &Value| value.as_i64().unwrap_or(0);
    let generation = number(&live["metadata"]["generation"]);
    let observed = number(&status["observedGeneration"]);
    let kind = live["kind"].as_str().unwrap_or_default();
    let strategy = spec["updateStrategy"]["type"].as_str().unwrap_or("RollingUpdate");
    if kind != "Deployment" && strategy != "RollingUpdate" {
        return Progress::Never(format!("its update strategy is {strategy}, whose rollouts have no status"));
    }
    if observed < generation || (kind == "StatefulSet" && observed == 0) {
        return Progress::Waits("the controller has not seen the change yet".to_owned());
    }
    match kind {
        "Deployment" => {
            if let Some(why) = missed_deadline(live) {
                return Progress::Stuck(why);
            }
            let wanted = spec["replicas"].as_i64().unwrap_or(1);
            let (all, updated, available) = (
                number(&status["replicas"]),
                number(&status["updatedReplicas"]),
                number(&status["availableReplicas"]),
            );
            if updated < wanted {
                Progress::Waits(format!("{updated} of {wanted} replicas are updated"))
            } else if all > updated {
                Progress::Waits(format!("{} old replicas are still there", all - updated))
            } else if available < updated {
                Progress::Waits(format!("{available} of {updated} updated replicas are available"))
            } else {
                Progress::Complete
            }
        }
        "DaemonSet" => {
            let wanted = number(&status["desiredNumberScheduled"]);
            let (updated, available) =
                (number(&status["updatedNumberScheduled"]), number(&status["numberAvailable"]));
            if updated < wanted {
                Progress::Waits(format!("{updated} of {wanted} pods are updated"))
            } else if available < wanted {
                Progress::Waits(format!("{available} of {wanted} pods are available"))
            } else {
                Progress::Complete
            }
        }
        _ => {
            let wanted = spec["replicas"].as_i64().unwrap_or(1);
            let ready = number(&status["readyReplicas"]);
            let updated = number(&status["updatedReplicas"]);
            let partition = number(&spec["updateStrategy"]["rollingUpdate"]["partition"]);
            if wanted == 0 {
                Progress::Complete
            } else if ready < wanted {
                Progress::Waits(format!("{ready} of {wanted} pods are ready"))
            } else if partition > 0 && updated < wanted - partition {
                Progress::Waits(format!("{updated} of {} pods are updated", wanted - partition))
            } else if partition == 0 && status["updateRevision"] != status["currentRevision"] {
                Progress::Waits(format!("{updated} of {wanted} pods are of the new revision"))
            } else {
                Progress::Complete
            }
        }
    }
}

impl StepAction for Rollout {
    fn describe(&self) -> String {
        let verb = if self.what == RolloutVerb::Restart { "restart" } else { "status of" };
        format!("{verb} {}", shown(&place(self)))
    }

    fn plan<'a>(
        &'a self,
        cx: &'a StepContext<'a>,
        request: &'a PlanRequest<'a>,
    ) -> StepFuture<'a, StepPreview> {
        Box::pin(plan(cx, self, request))
    }

    fn perform<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(run(cx, self))
    }

    fn irreversible(&self) -> Option<&'static str> {
        Some("a rollout creates nothing")
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    own: &Rollout,
    _: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let at = place(own);
    let live = attempt.cluster().get(&at).await?;
    Ok(match (own.what, live) {
        (RolloutVerb::Restart, Some(_)) => StepPreview::new(StepVerb::Restart, shown(&at)),
        (RolloutVerb::Restart, None) => {
            StepPreview::new(StepVerb::Unknown, format!("{} is not there yet", shown(&at)))
        }
        (RolloutVerb::Status, None) => {
            StepPreview::new(StepVerb::Wait, format!("{} is not there yet", shown(&at)))
        }
        (RolloutVerb::Status, Some(live)) => match progress(&live) {
            Progress::Complete => StepPreview::new(StepVerb::NoOp, format!("{} is rolled out", shown(&at))),
            Progress::Waits(why) => StepPreview::new(StepVerb::Wait, why),
            Progress::Stuck(why) | Progress::Never(why) => StepPreview::new(StepVerb::Unknown, why),
        },
    })
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "rollout",
    needed: "exactly one of restart, status and a namespace are required",
    decode: |block, _| decode(block).map(Action::Rollout),
    definition: "RolloutOp",
    about: "Restarts a workload or waits for its rollout.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<Rollout> {
    let (restart, status) = (block.filled("restart"), block.filled("status"));
    let namespace = fields::namespace(block, "E308");
    if namespace.is_none() && block.get("namespace").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E381", Problem::error("namespace is required"));
    }
    let (what, key, (node, text)) = match (restart, status) {
        (Some(restart), None) => (RolloutVerb::Restart, "restart", restart),
        (None, Some(status)) => (RolloutVerb::Status, "status", status),
        (None, None) => {
            block.missing("E380", Problem::error("expected exactly one of restart, status, got none"));
            return None;
        }
        (Some(_), Some(_)) => {
            block.exclusive("E380", ["restart", "status"], "restart and status are mutually exclusive");
            return None;
        }
    };
    let kinds = [
        ("deployment", WorkloadKind::Deployment),
        ("daemonset", WorkloadKind::DaemonSet),
        ("statefulset", WorkloadKind::StatefulSet),
    ];
    let found = fields::resource(text).and_then(|(kind, name)| {
        let kind = kinds.iter().find(|(known, _)| kind.eq_ignore_ascii_case(known))?.1;
        Some((kind, name?.to_owned()))
    });
    let Some((kind, name)) = found else {
        let problem = Problem::error(format!(
            "`{text}` must be deployment, daemonset or statefulset, a slash and a name"
        ));
        block.report(node, key, "E382", problem.hint("write `deployment/web`"));
        return None;
    };
    Some(Rollout { what, kind, name, namespace: namespace? })
}

fn schema() -> Value {
    with(
        object(
            &["namespace"],
            vec![
                ("restart", like("The workload to restart, such as `deployment/web`.", WORKLOAD)),
                ("status", like("The workload whose rollout is awaited.", WORKLOAD)),
                ("namespace", like("The workload's namespace.", LABEL)),
            ],
        ),
        "oneOf",
        one_of(&["restart", "status"]),
    )
}
