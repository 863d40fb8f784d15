//! `integration-test`: runs a Job in the environment's namespace and waits for its end.

use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::logs::{ContainerLogOptions, LogSource, read_logs};
use slipway_cluster::{ErrorClass, ListOptions, WriteOptions};
use slipway_manifest::{Gvk, ObjectRef};

use crate::kinds::labels;
use crate::step::context::StepContext;
use crate::step::outcome::{StepError, StepOutput, StepProgressed};

const POLL: Duration = Duration::from_secs(15);
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);
/// The time a finished Job stays.
const KEPT_SECONDS: u32 = 3_600;
/// The last lines of a failed test.
const SHOWN_LINES: u32 = 50;

pub(super) async fn run(context: &mut StepContext<'_>) -> Result<StepProgressed, StepError> {
    let namespace = context.text("namespace").unwrap_or(&context.step.spec.environment).to_owned();
    let key = format!("{}/{}/{}", context.bundle.metadata.uid, context.step.metadata.uid, context.attempt());
    let name = format!("kt-{}", labels::short_hash(&format!("{key}/{}", context.index), 12));
    let at = ObjectRef::new(Gvk::new("batch", "v1", "Job"), Some(&namespace), &name);
    let cluster = &context.shared.cluster;
    let job = match cluster.get(&at).await? {
        Some(job) => job,
        None => {
            check_namespace(context, &namespace).await?;
            let manifest = job_manifest(context, &namespace, &name)?;
            context.check_running()?;
            match cluster.create(&at, &manifest, &WriteOptions::for_manager(labels::FIELD_MANAGER)).await {
                Err(error) if error.class == ErrorClass::AlreadyExists => manifest,
                result => result?,
            }
        }
    };
    let says = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        conditions.clone().any(|one| one["type"] == kind && one["status"] == "True")
    };
    if says("Complete") {
        return Ok(StepOutput::new(format!("the Job {namespace}/{name} is complete"))
            .output("job", name)
            .into());
    }
    if says("Failed") {
        let lines = last_lines(context, &namespace, &name).await;
        return Err(StepError::failed(
            "IntegrationTestFailed",
            format!("the Job {namespace}/{name} has failed{lines}"),
        ));
    }
    let until = context.now().saturating_add(POLL).unwrap_or(jiff::Timestamp::MAX);
    Ok(StepProgressed::Wait { until, message: format!("the Job {namespace}/{name} is running") })
}

/// Refuses a namespace that neither belongs to the step nor says that it takes its tests.
///
/// A Job runs with the rights of the controller: whoever writes pipelines must not get into every namespace by it.
async fn check_namespace(context: &StepContext<'_>, namespace: &str) -> Result<(), StepError> {
    let own = context.step.namespace();
    let has_account = context.text("serviceAccountName").is_some();
    if namespace == own || (namespace == context.step.spec.environment && !has_account) {
        return Ok(());
    }
    let at = ObjectRef::core("Namespace", None, namespace);
    let found = context.shared.cluster.get(&at).await?.unwrap_or_default();
    let key = labels::ALLOW_NAMESPACES;
    let allowed = found["metadata"]["annotations"][key].as_str().unwrap_or_default();
    if allowed.split(',').map(str::trim).any(|one| one == own || one == "*") {
        return Ok(());
    }
    let message = format!("the namespace {namespace} takes no tests of {own}: see the annotation {key}");
    Err(StepError::failed("NamespaceDenied", message))
}

fn job_manifest(context: &StepContext<'_>, namespace: &str, name: &str) -> Result<Value, StepError> {
    let Some(image) = context.text("image") else {
        return Err(StepError::failed("InvalidConfig", "`integration-test` needs `config.image`"));
    };
    let config = &context.entry().config;
    let timeout = match context.text("timeout") {
        Some(text) => slipway_go::time::Duration::parse_unsigned(text).ok_or_else(|| {
            StepError::failed("InvalidConfig", format!("`{text}` is no duration such as `30m`"))
        })?,
        None => DEFAULT_TIMEOUT,
    };
    let spec = &context.step.spec;
    let mut env = vec![
        json!({"name": "BUNDLE_VERSION", "value": context.bundle.spec.version()}),
        json!({"name": "ENVIRONMENT", "value": spec.environment}),
        json!({"name": "PIPELINE", "value": spec.pipeline}),
    ];
    for (name, value) in config.get("env").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        env.push(json!({"name": name, "value": value}));
    }
    let mut container = json!({"name": "test", "image": image, "env": env});
    for field in ["command", "args"] {
        if let Some(words) = config.get(field) {
            container[field] = words.clone();
        }
    }
    let own = [
        (labels::PIPELINE, labels::label_value(&spec.pipeline)),
        (labels::ENVIRONMENT, labels::label_value(&spec.environment)),
        (labels::BUNDLE, labels::label_value(context.bundle.name())),
    ];
    let own: serde_json::Map<String, Value> =
        own.into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let mut pod =
        json!({"restartPolicy": "Never", "containers": [container], "automountServiceAccountToken": false});
    if let Some(account) = context.text("serviceAccountName") {
        pod["serviceAccountName"] = json!(account);
        pod["automountServiceAccountToken"] = json!(true);
    }
    Ok(json!({
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace, "labels": own},
        "spec": {
            "backoffLimit": 0,
            "ttlSecondsAfterFinished": KEPT_SECONDS,
            "activeDeadlineSeconds": timeout.as_secs().max(1),
            "template": {"metadata": {"labels": own}, "spec": pod},
        },
    }))
}

/// The last lines a failed test wrote; nothing where they cannot be read.
async fn last_lines(context: &StepContext<'_>, namespace: &str, job: &str) -> String {
    let cluster = &context.shared.cluster;
    let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("", "v1", "Pod")).await else { return String::new() };
    let options = ListOptions::with_labels(format!("batch.kubernetes.io/job-name={job}"));
    let Ok(pods) = cluster.list(&kind, Some(namespace), &options).await else { return String::new() };
    let Some(pod) = pods.items.last().and_then(|pod| pod["metadata"]["name"].as_str()) else {
        return String::new();
    };
    let source =
        LogSource { namespace: namespace.to_owned(), pod: pod.to_owned(), container: "test".to_owned() };
    let options = ContainerLogOptions { tail: Some(SHOWN_LINES), ..ContainerLogOptions::default() };
    let Ok(lines) = read_logs(cluster, &source, &options).await else { return String::new() };
    let lines: Vec<String> = lines.into_iter().map(|line| line.text).collect();
    let text: String = lines.join("\n").chars().take(3_000).collect();
    let text = context.shared.redactor.redact(&text).into_owned();
    if text.is_empty() { text } else { format!(":\n{text}") }
}
