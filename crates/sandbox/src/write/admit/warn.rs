//! Warnings about objects that are accepted all the same.

use serde_json::Value;

use super::validate::indexed_items;
use super::warn_pod;

/// Warns about a name that is no DNS label and so makes no good host name.
pub(in crate::write) fn warn_about_hostname(object: &Value, of: &str, out: &mut Vec<String>) {
    let problems = super::meta::label_problems(object["metadata"]["name"].as_str().unwrap_or(""));
    if !problems.is_empty() {
        out.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

/// Warns about formats of a definition that nobody knows.
pub(in crate::write) fn warn_about_formats(object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    let before = old.map(unknown_formats).unwrap_or_default();
    let fresh = unknown_formats(object).into_iter().filter(|format| !before.contains(format));
    out.extend(fresh.map(|format| format!("unrecognized format {format:?}")));
}

/// Warns about data of a TLS secret that is no PEM.
pub(in crate::write) fn warn_about_certificate(data: &Value, out: &mut Vec<String>) {
    let text = |key: &str| {
        use base64::Engine;
        let bytes = base64::engine::general_purpose::STANDARD.decode(data[key].as_str()?).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    for (key, what) in [("tls.crt", "certificate"), ("tls.key", "key")] {
        if text(key).is_some_and(|text| !text.contains("-----BEGIN ")) {
            out.push(format!("tls: failed to find any PEM data in {what} input"));
            break;
        }
    }
}

pub(in crate::write) fn warn_about_service(object: &Value, out: &mut Vec<String>) {
    let spec = &object["spec"];
    let key = "service.kubernetes.io/topology-aware-hints";
    if slipway_manifest::object::annotation(object, key).is_some() {
        out.push(format!(
            "annotation {key} is deprecated, please use service.kubernetes.io/topology-mode instead"
        ));
    }
    let text = |key: &str| spec[key].as_str().unwrap_or("");
    let external = text("type") == "ExternalName";
    let headless = text("type") == "ClusterIP" && text("clusterIP") == "None";
    let reached = indexed_items(&spec["externalIPs"]).next().is_some();
    for (holds, what) in [
        (!text("loadBalancerIP").is_empty(), "loadBalancerIP"),
        (reached, "externalIPs"),
        (text("sessionAffinity") != "None", "SessionAffinity"),
    ] {
        if headless && holds {
            out.push(format!("spec.{what} is ignored for headless services"));
        }
    }
    if reached && !headless && !external {
        out.push("spec.externalIPs is deprecated and may no longer be implemented in some clusters".into());
    }
    if reached && external {
        out.push("spec.externalIPs is ignored when spec.type is \"ExternalName\"".into());
    }
    if !external && !text("externalName").is_empty() {
        out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
    }
    if text("trafficDistribution") == "PreferClose" {
        out.push("spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"".into());
    }
}

/// Volume types that were removed: deprecated since, without effect since.
const GONE: &[(&str, &str, &str, &str)] = &[
    ("cephfs", "cephfs", "v1.28", "v1.31"),
    ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16"),
    ("scaleIO", "scaleIO", "v1.16", "v1.22"),
    ("storageos", "storageOS", "v1.22", "v1.25"),
    ("glusterfs", "glusterfs", "v1.25", "v1.26"),
    ("rbd", "rbd", "v1.28", "v1.31"),
];

fn warn_about_annotations(object: &Value, known: &[(&str, &str)], out: &mut Vec<String>) {
    for (key, why) in known {
        if slipway_manifest::object::annotation(object, key).is_some() {
            out.push(format!("metadata.annotations[{key}]: {why}"));
        }
    }
}

pub(in crate::write) fn warn_about_volume(object: &Value, out: &mut Vec<String>) {
    warn_about_annotations(
        object,
        &[
            (
                "volume.beta.kubernetes.io/storage-class",
                "deprecated since v1.8; use \"storageClassName\" attribute instead",
            ),
            (
                "volume.beta.kubernetes.io/mount-options",
                "deprecated since v1.31; use \"mountOptions\" attribute instead",
            ),
        ],
        out,
    );
    let spec = &object["spec"];
    if spec["persistentVolumeReclaimPolicy"] == "Recycle" {
        out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".into());
    }
    for (i, term) in indexed_items(&spec["nodeAffinity"]["required"]["nodeSelectorTerms"]) {
        let at = format!("spec.nodeAffinity.required.nodeSelectorTerms[{i}].matchExpressions");
        warn_about_node_labels(&term["matchExpressions"], &at, out);
    }
    for (key, called, since, over) in GONE {
        if spec[*key].is_object() {
            out.push(format!("spec.{called}: deprecated in {since}, non-functional in {over}+"));
        }
    }
}

pub(in crate::write) fn warn_about_claim(object: &Value, out: &mut Vec<String>) {
    warn_about_annotations(
        object,
        &[(
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        )],
        out,
    );
    for side in ["requests", "limits"] {
        let size = &object["spec"]["resources"][side]["storage"];
        if super::amounts::nanos_of(size).is_some_and(|n| n % 1_000_000_000 != 0) {
            out.push(format!(
                "spec.resources.{side}[storage]: fractional byte value {size} is invalid, must be an integer"
            ));
        }
    }
}

pub(in crate::write) fn warn_about_node(object: &Value, out: &mut Vec<String>) {
    let spec = &object["spec"];
    if !spec["externalID"].as_str().unwrap_or("").is_empty() {
        out.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".into());
    }
}

/// Expressions about labels of nodes that have newer names.
pub(in crate::write) fn warn_about_node_labels(expressions: &Value, at: &str, out: &mut Vec<String>) {
    for (i, expression) in indexed_items(expressions) {
        let key = expression["key"].as_str().unwrap_or("");
        if let Some(why) = warn_pod::old_label_warning(key) {
            out.push(format!("{at}[{i}].key: {key} is {why}"));
        }
    }
}

/// Returns true if an object is new, or of a new generation.
pub(in crate::write) fn is_new_generation(object: &Value, old: Option<&Value>) -> bool {
    old.is_none_or(|old| old["metadata"]["generation"] != object["metadata"]["generation"])
}

/// Warns about a kind that creates pods.
pub(in crate::write) fn warn_about_workload(
    kind: &str,
    object: &Value,
    old: Option<&Value>,
    out: &mut Vec<String>,
) {
    let spec = &object["spec"];
    let (job, field) = match kind {
        "CronJob" => (&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec"),
        _ => (spec, "spec"),
    };
    let changed = match (kind, old) {
        ("DaemonSet", Some(old)) => old["spec"]["template"] != spec["template"],
        _ => is_new_generation(object, old),
    };
    if changed {
        let count = |key: &str| job[key].as_i64().unwrap_or(0);
        let many = count("completions") > 100_000 && count("parallelism") > 10_000;
        if job["completionMode"] == "Indexed" && many {
            out.push(format!(
                "{field}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
            ));
        }
        // Of a replication controller the old template is checked.
        let template = match (kind, old) {
            ("ReplicationController", Some(old)) => &old["spec"]["template"],
            _ => &job["template"],
        };
        warn_pod::warn_about_pod(template, &format!("{field}.template."), out);
    }
    let suffix = if old.is_some() { ".Spec" } else { "" };
    for (i, claim) in indexed_items(&spec["volumeClaimTemplates"]) {
        warn_pod::warn_about_claim_spec(
            &claim["spec"],
            &format!("spec.volumeClaimTemplates[{i}]{suffix}"),
            out,
        );
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
    let mut schemas: Vec<&Value> = indexed_items(&definition["spec"]["versions"])
        .map(|(_, version)| &version["schema"]["openAPIV3Schema"])
        .collect();
    if schemas.iter().all(|schema| *schema == schemas[0]) {
        schemas.truncate(1);
    }
    schemas.into_iter().flat_map(slipway_manifest::crd::unknown_formats).collect()
}
