//! A run killed with its k-th write, and what the next run makes of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_cluster::helm::{ReleaseStorage, RevisionStatus, StorageDriver};
use slipway_cluster::{Cluster, ListOptions, RetryPolicy};
use slipway_event::{Events, ManualClock, Memory, Redactor, RunId};
use slipway_manifest::{Gvk, object};
use slipway_release::{ExecuteOptions, PlanOptions, ReleaseContent, ReleaseRequest, apply};
use slipway_sandbox::Sandbox;
use slipway_source::{Document, DocumentOrigin, RecordPart, RenderedSource};
use tokio_util::sync::CancellationToken;

use crate::tap::{Cut, Tap};

/// A lock of a killed run is free after this long.
const LEASE: Duration = Duration::from_millis(100);

fn config_map(number: usize, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("c{number:02}")}, "data": {"key": value}})
}

fn job(name: &str, hook: &str, policy: &str) -> Value {
    json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name,
        "annotations": {"helm.sh/hook": hook, "helm.sh/hook-delete-policy": policy}},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "busybox"}]}}}})
}

/// Sixty objects with hooks; the second version changes some, drops some and brings some.
pub(crate) fn chart(version: u32) -> Vec<Value> {
    let shift = if version == 1 { 0 } else { 4 };
    let value = |number: usize| if number.is_multiple_of(3) { version.to_string() } else { "1".to_owned() };
    let mut all: Vec<Value> = (shift..47 + shift).map(|number| config_map(number, &value(number))).collect();
    for number in 0..5 {
        all.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": format!("s{number}")},
            "spec": {"selector": {"app": "web"}, "ports": [{"port": 80 + version}]}}));
    }
    for name in ["web", "api"] {
        all.push(json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}));
        all.push(json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name,
            "annotations": {"werf.io/weight": "5"}}, "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"serviceAccountName": name,
                "containers": [{"name": "c", "image": format!("nginx:{version}"), "envFrom": [{"configMapRef": {"name": "c06"}}]}]}}}}));
    }
    all.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hooked",
        "annotations": {"helm.sh/hook": "pre-install,pre-upgrade", "helm.sh/hook-weight": "-1"}}, "data": {"v": version.to_string()}}));
    all.push(job("before", "pre-install,pre-upgrade", "before-hook-creation,hook-succeeded"));
    all.push(job("after", "post-install,post-upgrade", "before-hook-creation"));
    all.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "token"}, "stringData": {"t": version.to_string()}}));
    assert_eq!(all.len(), 60);
    all
}

fn request(namespace: &str, objects: &[Value]) -> ReleaseRequest {
    let document = |object: &Value| Document {
        object: object.clone(),
        origin: DocumentOrigin::new("demo/templates/all.yaml"),
        stored: if object::annotation(object, "helm.sh/hook").is_some() {
            RecordPart::Hook
        } else {
            RecordPart::Regular
        },
    };
    let mut rendered =
        RenderedSource { documents: objects.iter().map(document).collect(), ..RenderedSource::default() };
    let metadata = json!({"apiVersion": "v2", "name": "demo", "version": "1.0.0"});
    rendered.metadata = metadata.as_object().cloned().unwrap_or_default();
    let content = ReleaseContent::Rendered(Box::new(rendered));
    ReleaseRequest {
        name: "demo".into(),
        namespace: namespace.into(),
        content,
        options: PlanOptions::default(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}

/// Applies at a time `minutes` from now; with a cut, until the line is dead. The runtime goes with everything
/// that was started on it, as a process does. Gives how many writes there were.
fn run(
    sandbox: &Sandbox,
    namespace: &str,
    objects: &[Value],
    minutes: i64,
    cut: Option<Cut>,
) -> Result<usize, String> {
    let tap = Tap::on(sandbox.service());
    let tap = match cut {
        Some(cut) => tap.cut(cut),
        None => tap,
    };
    let (runtime, request) = (runtime(), request(namespace, objects));
    let ended = runtime.block_on(async {
        let retry = RetryPolicy { first: Duration::from_millis(1), longest: Duration::from_millis(5), ..RetryPolicy::default() };
        let cluster = Cluster::new(tap.client()).with_retry(retry).with_lease(LEASE);
        let now = jiff::Timestamp::now() + jiff::SignedDuration::from_mins(minutes);
        let clock = Arc::new(ManualClock::at(now));
        let events = Events::new(RunId::generate(&*clock), clock, Redactor::new(), Arc::new(Memory::default()));
        let options = ExecuteOptions::default();
        tokio::select! {
            ended = apply(&cluster, &request, &options, &events, CancellationToken::new()) => Some(ended),
            () = tap.dead.cancelled() => None,
            () = tokio::time::sleep(Duration::from_secs(120)) => Some(Err(slipway_release::Failure::NotFound("it hangs".into()))),
        }
    });
    runtime.shutdown_background();
    match ended {
        Some(Err(failure)) => Err(failure.to_string()),
        _ => Ok(tap.written().len()),
    }
}

/// What is in a namespace that a release put there, without what differs from run to run.
fn state(sandbox: &Sandbox, namespace: &str) -> Result<BTreeMap<String, Value>, String> {
    let kinds = [
        ("", "ConfigMap"),
        ("", "Secret"),
        ("", "Service"),
        ("", "ServiceAccount"),
        ("apps", "Deployment"),
        ("batch", "Job"),
    ];
    runtime().block_on(async {
        let cluster = Cluster::new(sandbox.client()).with_lease(LEASE);
        let mut all = BTreeMap::new();
        for (group, kind) in kinds {
            let gvk = Gvk::new(group, "v1", kind);
            let kind = cluster.find_kind(&gvk).await.map_err(|e| e.to_string())?.ok_or("no such kind")?;
            let listed = cluster.list(&kind, Some(namespace), &ListOptions::default()).await.map_err(|e| e.to_string())?;
            for item in listed.items {
                let name = object::name(&item).unwrap_or_default().to_owned();
                if name.starts_with("sh.helm.release.") || ["werf-synchronization", "kube-root-ca.crt", "default"].contains(&name.as_str()) {
                    continue;
                }
                let mut spec = json!({"labels": item["metadata"]["labels"], "annotations": item["metadata"]["annotations"],
                    "data": item["data"], "spec": item["spec"]});
                for path in ["/labels", "/spec/template/metadata/labels", "/spec/selector/matchLabels"] {
                    // Jobs name their pods by uid.
                    if let Some(Value::Object(labels)) = spec.pointer_mut(path) {
                        labels.retain(|key, _| !key.contains("controller-uid"));
                    }
                }
                if let Some(Value::Object(spec)) = spec.get_mut("spec") {
                    spec.retain(|key, _| !key.starts_with("clusterIP"));
                }
                if let Some(Value::Object(notes)) = spec.get_mut("annotations") {
                    notes.shift_remove("deployment.kubernetes.io/revision");
                }
                all.insert(format!("{}/{name}", gvk.kind), spec);
            }
        }
        Ok(all)
    })
}

/// What is wrong with the history after a run that succeeded.
fn records(sandbox: &Sandbox, namespace: &str, manifest: &str) -> Result<(), String> {
    let history = runtime().block_on(async {
        ReleaseStorage::new(Cluster::new(sandbox.client()), StorageDriver::Secret, namespace)
            .read_history("demo")
            .await
    });
    let history = history.map_err(|error| error.to_string())?;
    let statuses: Vec<RevisionStatus> = history.releases.iter().map(|release| release.info.status).collect();
    let deployed = statuses.iter().filter(|status| **status == RevisionStatus::Deployed).count();
    if deployed != 1
        || statuses.last() != Some(&RevisionStatus::Deployed)
        || statuses.iter().any(|status| status.is_pending())
    {
        return Err(format!("the history ends up as {statuses:?}"));
    }
    match history.last_release() {
        Some(last) if manifest.is_empty() || last.manifest == manifest => Ok(()),
        _ => Err("the last revision holds something else".to_owned()),
    }
}

fn differences(expected: &BTreeMap<String, Value>, found: &BTreeMap<String, Value>) -> Vec<String> {
    let names: std::collections::BTreeSet<&String> = expected.keys().chain(found.keys()).collect();
    names
        .into_iter()
        .filter(|name| expected.get(*name) != found.get(*name))
        .map(|name| match (expected.get(name), found.get(name)) {
            (Some(expected), Some(found)) => format!("{name}: {expected} became {found}"),
            (Some(_), None) => format!("{name} is missing"),
            _ => format!("{name} is left over"),
        })
        .collect()
}

/// What was done.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Install,
    Upgrade,
}

/// Undisturbed: the state it ends in, its manifest, and how many writes it takes.
pub(crate) struct Undisturbed {
    work: Work,
    state: BTreeMap<String, Value>,
    manifest: String,
    pub(crate) writes: usize,
}

impl Undisturbed {
    pub(crate) fn run(sandbox: &Sandbox, work: Work) -> Result<Self, String> {
        let namespace = match work {
            Work::Install => "undisturbed-install",
            Work::Upgrade => "undisturbed-upgrade",
        };
        let mut writes = run(sandbox, namespace, &chart(1), 0, None)?;
        if let Work::Upgrade = work {
            writes = run(sandbox, namespace, &chart(2), 1, None)?;
        }
        records(sandbox, namespace, "")?;
        let history = runtime().block_on(async {
            ReleaseStorage::new(Cluster::new(sandbox.client()), StorageDriver::Secret, namespace)
                .read_history("demo")
                .await
        });
        let manifest = history.map_err(|e| e.to_string())?.last_release().map(|last| last.manifest.clone());
        let state = state(sandbox, namespace)?;
        Ok(Self { work, state: rename(state, namespace), manifest: manifest.unwrap_or_default(), writes })
    }

    /// Kills a run with its write number `at` and runs again.
    pub(crate) fn kill(&self, sandbox: &Sandbox, at: usize, served: bool) -> Result<(), String> {
        let namespace = format!("killed-{:?}-{at}-{served}", self.work).to_lowercase();
        let version = match self.work {
            Work::Install => 1,
            Work::Upgrade => {
                run(sandbox, &namespace, &chart(1), 0, None)?;
                2
            }
        };
        let cut = Cut { at, served, writes: true };
        run(sandbox, &namespace, &chart(version), 1, Some(cut))?;
        // The lease of the dead has run out.
        run(sandbox, &namespace, &chart(version), 2, None)
            .map_err(|why| format!("running again fails: {why}"))?;
        records(sandbox, &namespace, &self.manifest)?;
        let different = differences(&self.state, &rename(state(sandbox, &namespace)?, &namespace));
        if different.is_empty() { Ok(()) } else { Err(different.join("\n")) }
    }
}

/// Takes the namespace's name out of a state.
fn rename(state: BTreeMap<String, Value>, namespace: &str) -> BTreeMap<String, Value> {
    let quoted = format!("\"{namespace}\"");
    let plain =
        |value: Value| serde_json::from_str(&value.to_string().replace(&quoted, "\"here\"")).unwrap_or(value);
    state.into_iter().map(|(name, value)| (name, plain(value))).collect()
}
