//! Warnings about objects that are accepted all the same.

use serde_json::Value;

use super::validate::list;
use super::warn_pod;

/// A name that is no DNS label does not make a good host name.
fn hostname(object: &Value, of: &str, out: &mut Vec<String>) {
    let problems = super::meta::label_problems(object["metadata"]["name"].as_str().unwrap_or(""));
    if !problems.is_empty() {
        out.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

pub(crate) fn about(kind: (&str, &str), object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    let new = old.is_none();
    match kind {
        ("", "Pod") => {
            if new {
                hostname(object, "the Pod's hostname", out);
            }
            warn_pod::pod(object, "", out);
        }
        ("networking.k8s.io", "Ingress")
            if new
                && slipway_manifest::object::annotation(object, "kubernetes.io/ingress.class").is_some() =>
        {
            out.push(
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                    .into(),
            );
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let before = old.map(unknown_formats).unwrap_or_default();
            let fresh = unknown_formats(object).into_iter().filter(|format| !before.contains(format));
            out.extend(fresh.map(|format| format!("unrecognized format {format:?}")));
        }
        ("", "Endpoints") => {
            out.push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into());
        }
        ("", "PodTemplate") if renewed(object, old) => {
            warn_pod::pod(&object["template"], "template.", out);
        }
        ("", "ReplicationController") | ("apps" | "batch", _) => {
            let named = ["Deployment", "ReplicaSet", "ReplicationController", "Job", "CronJob"];
            if new && named.contains(&kind.1) {
                hostname(object, "Pod names and hostnames", out);
            }
            workload(kind.1, object, old, out);
        }
        ("", "Service")
            if object["spec"]["externalName"].is_string() && object["spec"]["type"] != "ExternalName" =>
        {
            out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
        }
        ("", "Secret")
            if object["type"] == "kubernetes.io/tls"
                && object["data"]["tls.crt"].as_str().is_some_and(str::is_empty) =>
        {
            out.push("tls: failed to find any PEM data in certificate input".into());
        }
        ("storage.k8s.io", "CSIDriver")
            if list(&object["spec"]["tokenRequests"]).next().is_some()
                && old.is_none_or(|old| old["spec"]["tokenRequests"] != object["spec"]["tokenRequests"])
                && object["spec"]["serviceAccountTokenInSecrets"].is_null() =>
        {
            out.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into());
        }
        _ => {}
    }
}

/// Whether an object is new, or of a new generation.
fn renewed(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| old["metadata"]["generation"] != object["metadata"]["generation"])
}

/// What is said of a kind that makes pods.
fn workload(kind: &str, object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    let spec = &object["spec"];
    let (job, field) = match kind {
        "CronJob" => (&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"),
        _ => (spec, "spec"),
    };
    let changed = match (kind, old) {
        ("DaemonSet", Some(old)) => old["spec"]["template"] != spec["template"],
        _ => renewed(object, old),
    };
    if changed {
        let count = |key: &str| job[key].as_i64().unwrap_or(0);
        let many = count("completions") > 100_000 && count("parallelism") > 10_000;
        if job["completionMode"] == "Indexed" && many {
            out.push(format!(
                "{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
            ));
        }
        // Of a replication controller the template it had is looked at.
        let template = match (kind, old) {
            ("ReplicationController", Some(old)) => &old["spec"]["template"],
            _ => &job["template"],
        };
        warn_pod::pod(template, &format!("{field}.template."), out);
    }
    let suffix = if old.is_some() { ".Spec" } else { "" };
    for (i, claim) in list(&spec["volumeClaimTemplates"]) {
        warn_pod::claim(&claim["spec"], &format!("spec.volumeClaimTemplates[{i}]{suffix}"), out);
    }
    if kind == "StatefulSet" && spec["revisionHistoryLimit"].as_i64().is_some_and(|n| n < 0) {
        out.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".into());
    }
    if kind == "CronJob" && old.is_some() && spec["schedule"].as_str().is_some_and(|s| s.contains("TZ")) {
        out.push("cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details".into());
    }
}

/// Formats nobody knows in the schemas of a definition; one that all versions share is looked at once.
fn unknown_formats(definition: &Value) -> Vec<String> {
    let mut schemas: Vec<&Value> = list(&definition["spec"]["versions"])
        .map(|(_, version)| &version["schema"]["openAPIV3Schema"])
        .collect();
    if schemas.iter().all(|schema| *schema == schemas[0]) {
        schemas.truncate(1);
    }
    schemas.into_iter().flat_map(slipway_manifest::crd::unknown_formats).collect()
}
