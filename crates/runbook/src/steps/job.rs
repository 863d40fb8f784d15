//! `job`: a container run to its end inside the cluster.

use std::path::Path;

use serde_json::{Map, Value, json};
use slipway_cluster::{Cluster, DeletePropagation, WriteOptions, logs};
use slipway_manifest::{Gvk, ObjectRef, object};

use super::{StepAction, StepFuture, StepOutcome, StepType, StepWarning};
use crate::context::{
    MANAGER, OWNER_LABEL, StepContext, describe, last_warning, passes, pods, shown, state_of,
};
use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::error::{AttemptError, ErrorKind};
use crate::model::{Action, Job, Step};
use crate::plan::earlier::Earlier;
use crate::plan::look::PlanRequest;
use crate::plan::{StepPreview, StepVerb};
use crate::references::{self, StepResolver};
use crate::schema::{LABEL_OR_NONE, described, filled, like, object, text, texts, word};
use slipway_problem::Problem;
use slipway_yaml::YamlNode;

/// The number of last lines a failure shows.
const TAIL: u32 = 20;
/// The number of bytes of the last lines that are shown.
const TAIL_BYTES: u32 = 64 * 1024;

pub(crate) fn place(job: &Job, name: &str) -> ObjectRef {
    ObjectRef::new(Gvk::new("batch", "v1", "Job"), Some(&job.namespace), name)
}

/// Tells that somebody else made it.
pub(crate) fn is_foreign(live: &Value) -> bool {
    object::label(live, OWNER_LABEL) != Some(MANAGER)
}

pub(crate) fn foreign(at: &ObjectRef) -> AttemptError {
    AttemptError::foreign(format!("{} exists and is not managed by khook", shown(at)))
        .hint("rename the step, or delete that job")
}

pub(crate) fn is_complete(live: &Value) -> bool {
    condition(live, "Complete").is_some()
}

fn condition<'v>(live: &'v Value, kind: &str) -> Option<&'v Value> {
    let conditions = live["status"]["conditions"].as_array();
    conditions.into_iter().flatten().find(|found| found["type"] == kind && found["status"] == "True")
}

async fn run(attempt: &StepContext<'_>, job: &Job) -> Result<StepOutcome, AttemptError> {
    let name = attempt.step.name.as_str();
    if job.create_namespace {
        attempt.ensure_namespace(&job.namespace).await?;
    }
    let at = place(job, name);
    if let Some(live) = attempt.cluster().get(&at).await? {
        if is_foreign(&live) {
            return Err(foreign(&at));
        }
        if job.skip_if_succeeded && is_complete(&live) {
            return Ok(StepOutcome::noted("it has succeeded before (skipIf: succeeded)"));
        }
        attempt.delete(&at, &live, DeletePropagation::Foreground).await?;
    }
    let manifest = manifest(job, name, attempt.world.document, attempt.left().as_secs().max(1));
    let made = attempt.cluster().create(&at, &manifest, &WriteOptions::for_manager(MANAGER)).await?;
    attempt.awaits_job(&job.namespace, name);
    let uid = made["metadata"]["uid"].as_str().map(str::to_owned);
    let mut turn = 0;
    loop {
        match attempt.cluster().get(&at).await {
            Ok(Some(live)) if live["metadata"]["uid"].as_str() == uid.as_deref() => {
                if is_complete(&live) {
                    return Ok(StepOutcome::noted("the job succeeded"));
                }
                if let Some(failed) = condition(&live, "Failed") {
                    return Err(failure(attempt, job, name, failed).await);
                }
            }
            Ok(_) => {
                let message = format!("{} was deleted externally while it ran", shown(&at));
                return Err(AttemptError::new(ErrorKind::NotFound, message));
            }
            Err(error) if passes(&error) => {}
            Err(error) => return Err(error.into()),
        }
        attempt.pause(&mut turn).await;
    }
}

async fn failure(attempt: &StepContext<'_>, job: &Job, name: &str, failed: &Value) -> AttemptError {
    let text = |field: &str| failed[field].as_str().filter(|text| !text.is_empty());
    let why = text("message").or(text("reason")).unwrap_or("no reason given");
    let mut message = format!("job \"{name}\" failed: {why}");
    let words = last_words(attempt.cluster(), &job.namespace, name);
    // The logs are told even when the attempt's own time is over.
    let words = tokio::time::timeout(std::time::Duration::from_secs(5), words).await.unwrap_or_default();
    for line in words {
        message.push_str("\n  ");
        message.push_str(&line);
    }
    AttemptError::new(ErrorKind::Api, message)
}

/// The newest pod of a job: what became of it and the last lines it wrote.
pub(crate) async fn last_words(cluster: &Cluster, namespace: &str, name: &str) -> Vec<String> {
    let mut found = pods(cluster, namespace, &format!("batch.kubernetes.io/job-name={name}")).await;
    if found.is_empty() {
        found = pods(cluster, namespace, &format!("job-name={name}")).await;
    }
    let newest = found
        .into_iter()
        .max_by_key(|pod| pod["metadata"]["creationTimestamp"].as_str().unwrap_or_default().to_owned());
    let Some(pod) = newest else { return of_the_gone(cluster, namespace, name).await };
    let phase = pod["status"]["phase"].as_str().unwrap_or("Unknown");
    let mut lines = vec![format!("{} {phase} {}", describe(&pod), state_of(&pod)).trim_end().to_owned()];
    let source = logs::LogSource {
        namespace: namespace.to_owned(),
        pod: object::name(&pod).unwrap_or_default().to_owned(),
        container: name.to_owned(),
    };
    let mut options = logs::ContainerLogOptions {
        tail: Some(TAIL),
        bytes: Some(TAIL_BYTES),
        ..logs::ContainerLogOptions::default()
    };
    let mut written = logs::read_logs(cluster, &source, &options).await.unwrap_or_default();
    if written.is_empty() {
        options.previous = true;
        written = logs::read_logs(cluster, &source, &options).await.unwrap_or_default();
    }
    let first = written.len().saturating_sub(TAIL as usize);
    lines.extend(written[first..].iter().map(|line| format!("| {}", line.text)));
    lines
}

/// Finds what was said about a job's pods that are gone: one that ran out of time takes its pods with it.
async fn of_the_gone(cluster: &Cluster, namespace: &str, name: &str) -> Vec<String> {
    let prefix = format!("{name}-");
    let last =
        last_warning(cluster, namespace, "involvedObject.kind=Pod", |pod| pod.starts_with(&prefix)).await;
    let mut lines = vec!["it has no pod".to_owned()];
    lines.extend(last.map(|warning| format!("of a pod gone by now: {warning}")));
    lines
}

/// The job as it is sent.
pub(crate) fn manifest(job: &Job, name: &str, document: &str, deadline: u64) -> Value {
    let mut labels = Map::new();
    labels.insert(OWNER_LABEL.into(), MANAGER.into());
    labels.insert("khook.io/step".into(), name.into());
    // A document's name may be anything, a label's value may not.
    let is_label = !document.is_empty()
        && document.len() <= 63
        && document.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
        && document.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && document.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric());
    if is_label {
        labels.insert("khook.io/spec".into(), document.into());
    }
    let mut container = json!({"name": name, "image": job.image});
    if !job.command.is_empty() {
        container["command"] = json!(job.command);
    }
    if !job.args.is_empty() {
        container["args"] = json!(job.args);
    }
    if !job.env.is_empty() {
        let mut env: Vec<&(String, String)> = job.env.iter().collect();
        env.sort();
        container["env"] =
            env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    }
    let mut pod = json!({"restartPolicy": "Never", "containers": [container]});
    if let Some(account) = &job.service_account {
        pod["serviceAccountName"] = account.as_str().into();
    }
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": job.namespace, "labels": labels},
        "spec": {
            "backoffLimit": 0, "activeDeadlineSeconds": deadline,
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    })
}

/// Deletes the job of a step.
async fn undo(attempt: &StepContext<'_>, job: &Job) -> Result<StepOutcome, AttemptError> {
    let at = place(job, &attempt.step.name);
    match attempt.cluster().get(&at).await? {
        None => Ok(StepOutcome::noted("nothing was there")),
        Some(live) if is_foreign(&live) => Err(foreign(&at)),
        Some(live) => {
            attempt.delete(&at, &live, DeletePropagation::Foreground).await?;
            Ok(StepOutcome::noted("the job was deleted"))
        }
    }
}

impl StepAction for Job {
    fn describe(&self) -> String {
        self.image.clone()
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
        None
    }

    fn plan_undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, Vec<String>> {
        Box::pin(async {
            let at = place(self, &cx.step.name);
            match cx.cluster().get(&at).await? {
                Some(live) if is_foreign(&live) => Err(foreign(&at)),
                Some(_) => Ok(vec![shown(&at)]),
                None => Ok(Vec::new()),
            }
        })
    }

    fn undo<'a>(&'a self, cx: &'a StepContext<'a>) -> StepFuture<'a, StepOutcome> {
        Box::pin(undo(cx, self))
    }

    fn is_default(&self, _: &Step, key: &str, value: &Value) -> bool {
        key == "namespace" && value == "default"
    }

    fn skips_done(&self) -> bool {
        self.skip_if_succeeded
    }

    fn provide(&self, _: &Path, earlier: &mut Earlier) {
        earlier.namespaces.extend(self.create_namespace.then(|| self.namespace.clone()));
    }

    fn namespace(&self) -> Option<&str> {
        Some(&self.namespace)
    }

    fn lint(&self, _: &Step, secrets: &[&str]) -> Vec<StepWarning> {
        let holds = |value: &String| secrets.iter().any(|secret| value.contains(secret));
        let place = if self.env.iter().any(|(_, value)| holds(value)) {
            "env"
        } else if self.args.iter().any(holds) {
            "args"
        } else if self.command.iter().any(holds) {
            "command"
        } else {
            return Vec::new();
        };
        vec![StepWarning {
            code: "W009",
            message: format!(
                "a secret variable stands in {place} of the job, where whoever may read Jobs sees it"
            ),
            hint: "apply a Secret in a step before, and let the image read that",
        }]
    }

    fn resolve<'a>(&'a self, resolver: &'a StepResolver<'a>) -> StepFuture<'a, Option<Action>> {
        Box::pin(async {
            let env = self.env.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
            let env: Map<String, Value> = env.collect();
            let tree = json!({"env": env, "command": self.command, "args": self.args});
            let Some(tree) = resolver.tree(&tree).await? else { return Ok(None) };
            let texts = |list: &Value| list.as_array().into_iter().flatten().map(references::text).collect();
            let env = tree["env"].as_object().into_iter().flatten();
            Ok(Some(Action::Job(Self {
                command: texts(&tree["command"]),
                args: texts(&tree["args"]),
                env: env.map(|(name, value)| (name.clone(), references::text(value))).collect(),
                ..self.clone()
            })))
        })
    }
}

async fn plan(
    attempt: &StepContext<'_>,
    own: &Job,
    _: &PlanRequest<'_>,
) -> Result<StepPreview, AttemptError> {
    let at = place(own, &attempt.step.name);
    Ok(match attempt.cluster().get(&at).await? {
        None => StepPreview::new(StepVerb::Run, "first run"),
        Some(live) if is_foreign(&live) => StepPreview::new(
            StepVerb::Unknown,
            format!("{} is not managed by khook: apply would fail", shown(&at)),
        ),
        Some(live) if own.skip_if_succeeded && is_complete(&live) => {
            StepPreview::new(StepVerb::Skip, "it has succeeded (skipIf: succeeded)")
        }
        Some(_) => StepPreview::new(StepVerb::Run, format!("replaces {}", shown(&at))),
    })
}

/// The way it is written.
pub(super) const TYPE: StepType = StepType {
    key: "job",
    needed: "image is required",
    decode: |block, _| decode(block).map(Action::Job),
    definition: "JobOp",
    about: "Runs a container to its end.",
    schema,
};

fn decode(block: &Block<'_, '_>) -> Option<Job> {
    let image = block.filled("image").map(|(_, image)| image.to_owned());
    if image.is_none() && block.get("image").is_none_or(|node| node.as_str() == Some("")) {
        block.missing("E400", Problem::error("job.image is required"));
    }
    let texts = |list: Vec<(&YamlNode, &str)>| list.into_iter().map(|(_, text)| text.to_owned()).collect();
    let command = texts(block.strings("command"));
    let args = texts(block.strings("args"));
    let mut env = Vec::new();
    if let Some(node) = block.get("env") {
        match node.as_map() {
            None => {
                block.error(
                    node,
                    "env",
                    "E008",
                    format!("env must be a mapping, found {}", node.kind_name()),
                );
            }
            Some(entries) => {
                for (key, value) in entries.iter() {
                    let name = key.key_text();
                    let good = |(index, byte): (usize, u8)| {
                        byte.is_ascii_alphabetic()
                            || b"-._".contains(&byte)
                            || (index > 0 && byte.is_ascii_digit())
                    };
                    if name.is_empty() || !name.bytes().enumerate().all(good) {
                        block.error(
                            key,
                            "env",
                            "E401",
                            format!("`{name}` is no name of an environment variable"),
                        );
                    }
                    match value.as_str() {
                        Some(text) => env.push((name.into_owned(), text.to_owned())),
                        None => {
                            let problem =
                                Problem::error(format!("env holds strings, found {}", value.kind_name()));
                            block.report(
                                value,
                                "env",
                                "E008",
                                problem.hint(format!("quote it: \"{}\"", value.raw())),
                            );
                        }
                    }
                }
            }
        }
    }
    env.sort();
    let namespace = fields::namespace(block, "E403").unwrap_or_else(|| "default".into());
    let create_namespace = block.bool("createNamespace").unwrap_or(false);
    let service_account = block.filled("serviceAccount").map(|(_, text)| text.to_owned());
    let skip_if_succeeded = fields::skip_if(block, "succeeded", "E402");
    Some(Job {
        image: image?,
        command,
        args,
        env,
        namespace,
        create_namespace,
        service_account,
        skip_if_succeeded,
    })
}

fn schema() -> Value {
    object(
        &["image"],
        vec![
            ("image", filled("The container's image.")),
            ("command", texts("Replaces the image's entry point.")),
            ("args", texts("The container's arguments.")),
            (
                "env",
                json!({
                    "type": "object", "additionalProperties": { "type": "string" },
                    "propertyNames": { "anyOf": [
                        { "pattern": "^[A-Za-z._-][A-Za-z0-9._-]*$" }, { "$ref": "#/$defs/Reference" },
                    ] },
                    "description": "Environment variables.",
                }),
            ),
            ("namespace", like("The Job's namespace.", LABEL_OR_NONE)),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("serviceAccount", text("The pod's service account.")),
            ("skipIf", word(&["succeeded"], "Leaves a Job that succeeded alone.")),
        ],
    )
}
