//! Validation of volumes, claims and the classes they are of.

use serde_json::{Value, json};

use super::{Causes, is_empty, known, label_selector, list, one_of, texts};
use crate::admit::meta;
use crate::admit::quota::amount;
use crate::status::Cause;

/// Names of drivers may have capitals.
const DRIVER: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(super) fn claim(spec: &Value, field: &str, out: &mut Causes) {
    if is_empty(&spec["accessModes"]) {
        out.push(Cause::required(format!("{field}.accessModes"), "at least 1 access mode is required"));
    }
    access_modes(spec, field, out);
    match spec["resources"]["requests"].get("storage") {
        None => out.push(Cause::required(format!("{field}.resources[storage]"), "")),
        Some(size) => {
            if amount(size).is_some_and(|a| a <= 0) {
                out.push(Cause::invalid(
                    format!("{field}.resources[storage]"),
                    size,
                    "must be greater than zero",
                ));
            }
        }
    }
    label_selector(&spec["selector"], &format!("{field}.selector"), out);
    if let Some(class) = spec["storageClassName"].as_str().filter(|c| !c.is_empty()) {
        texts(
            meta::subdomain_problems(class),
            &spec["storageClassName"],
            &format!("{field}.storageClassName"),
            out,
        );
    }
    if !spec["volumeMode"].is_null() {
        one_of(&spec["volumeMode"], format!("{field}.volumeMode"), &["Block", "Filesystem"], out);
    }
}

fn access_modes(spec: &Value, field: &str, out: &mut Causes) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let several = spec["accessModes"].as_array().is_some_and(|modes| modes.len() > 1);
    if several && list(&spec["accessModes"]).any(|(_, mode)| mode == "ReadWriteOncePod") {
        let why = "may not use ReadWriteOncePod with other access modes";
        out.push(Cause::forbidden(format!("{field}.accessModes"), why));
    }
    for (_, mode) in list(&spec["accessModes"]) {
        if !mode.as_str().is_some_and(|m| MODES.contains(&m)) {
            out.push(Cause::not_supported(format!("{field}.accessModes"), mode, MODES));
        }
    }
}

/// What an attachment says of who attaches what where. A changed one names its attacher first.
pub(super) fn attachment(spec: &Value, new: bool, out: &mut Causes) {
    let mut attacher = Causes::new();
    match spec["attacher"].as_str().unwrap_or("") {
        "" => attacher.push(Cause::required("spec.attacher", "")),
        name if !meta::subdomain_problems(&name.to_lowercase()).is_empty() => {
            attacher.push(Cause::invalid("spec.attacher", &spec["attacher"], DRIVER));
        }
        _ => {}
    }
    if !new {
        out.append(&mut attacher);
    }
    let source = &spec["source"];
    match source["persistentVolumeName"].as_str().unwrap_or("") {
        "" if source["inlineVolumeSpec"].is_null() => {
            let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
            out.push(Cause::required("spec.source", why));
        }
        "" => {}
        name => texts(
            meta::subdomain_problems(name),
            &source["persistentVolumeName"],
            "spec.source.persistentVolumeName",
            out,
        ),
    }
    let node = spec["nodeName"].as_str().unwrap_or("");
    texts(meta::subdomain_problems(node), &json!(node), "spec.nodeName", out);
    out.append(&mut attacher);
}

pub(super) fn volume(spec: &Value, out: &mut Causes) {
    if is_empty(&spec["accessModes"]) {
        out.push(Cause::required("spec.accessModes", ""));
    }
    access_modes(spec, "spec", out);
    if is_empty(&spec["capacity"]) {
        out.push(Cause::required("spec.capacity", ""));
    }
    if spec["capacity"].get("storage").is_none() {
        out.push(Cause::not_supported("spec.capacity", &spec["capacity"], &["storage"]));
    }
    if let Some(size) = spec["capacity"].get("storage")
        && amount(size).is_some_and(|a| a <= 0)
    {
        out.push(Cause::invalid("spec.capacity[storage]", size, "must be greater than zero"));
    }
    one_of(
        &spec["persistentVolumeReclaimPolicy"],
        "spec.persistentVolumeReclaimPolicy".into(),
        &["Delete", "Recycle", "Retain"],
        out,
    );
    let mut given = 0;
    for source in VOLUMES {
        if !spec[*source].is_object() {
            continue;
        }
        given += 1;
        let at = format!("spec.{source}");
        if given > 1 {
            out.push(Cause::forbidden(at, "may not specify more than 1 volume type"));
            continue;
        }
        let path = &spec[*source]["path"];
        match *source {
            "nfs" => {
                if is_empty(&spec["nfs"]["server"]) {
                    out.push(Cause::required("spec.nfs.server", ""));
                }
                if is_empty(path) {
                    out.push(Cause::required("spec.nfs.path", ""));
                }
                if !path.as_str().unwrap_or("").starts_with('/') {
                    let shown = json!(path.as_str().unwrap_or(""));
                    out.push(Cause::invalid("spec.nfs.path", &shown, "must be an absolute path"));
                }
            }
            "hostPath" | "local" => {
                if is_empty(path) {
                    out.push(Cause::required(format!("{at}.path"), ""));
                } else if path.as_str().is_some_and(|p| p.split('/').any(|part| part == "..")) {
                    out.push(Cause::invalid(format!("{at}.path"), path, "must not contain '..'"));
                }
                if *source == "local" && spec["nodeAffinity"].is_null() {
                    out.push(Cause::required("spec.nodeAffinity", "Local volume requires node affinity"));
                }
            }
            "csi" => {
                for key in ["driver", "volumeHandle"] {
                    if is_empty(&spec["csi"][key]) {
                        out.push(Cause::required(format!("{at}.{key}"), ""));
                    }
                }
            }
            _ => {}
        }
    }
    if given == 0 {
        out.push(Cause::required("spec", "must specify a volume type"));
    }
    if let Some(class) = spec["storageClassName"].as_str().filter(|class| !class.is_empty()) {
        texts(meta::subdomain_problems(class), &spec["storageClassName"], "spec.storageClassName", out);
    }
    if !spec["volumeMode"].is_null() {
        one_of(&spec["volumeMode"], "spec.volumeMode".into(), &["Block", "Filesystem"], out);
    }
}

/// What a persistent volume may be, one of them.
const VOLUMES: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "flocker",
    "nfs",
    "rbd",
    "quobyte",
    "cephfs",
    "iscsi",
    "cinder",
    "fc",
    "flexVolume",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "scaleIO",
    "local",
    "storageos",
    "csi",
];

pub(super) fn csi_driver(spec: &Value, out: &mut Causes) {
    let policies = &["File", "None", "ReadWriteOnceWithFSType"];
    known(&spec["fsGroupPolicy"], "spec.fsGroupPolicy".into(), policies, out);
    let mut audiences = Vec::new();
    for (i, request) in list(&spec["tokenRequests"]) {
        let audience = request["audience"].as_str().unwrap_or("");
        if audiences.contains(&audience) {
            let at = format!("spec.tokenRequests[{i}].audience");
            out.push(Cause::duplicate(at, &json!(audience)));
            continue;
        }
        audiences.push(audience);
        let why = match request["expirationSeconds"].as_i64() {
            Some(seconds) if seconds < 600 => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        let at = format!("spec.tokenRequests[{i}].expirationSeconds");
        out.push(Cause::invalid(at, &request["expirationSeconds"], why));
    }
    for (_, mode) in list(&spec["volumeLifecycleModes"]) {
        if !matches!(mode.as_str(), Some("Persistent" | "Ephemeral")) {
            out.push(Cause::not_supported("spec.volumeLifecycleModes", mode, &["Persistent", "Ephemeral"]));
        }
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        out.push(Cause::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why));
    }
}

pub(super) fn storage_capacity(object: &Value, out: &mut Causes) {
    let class = object["storageClassName"].as_str().unwrap_or("");
    texts(meta::subdomain_problems(class), &json!(class), "storageClassName", out);
    label_selector(&object["nodeTopology"], "nodeTopology", out);
    for key in ["capacity", "maximumVolumeSize"] {
        if amount(&object[key]).is_some_and(|amount| amount < 0) {
            out.push(Cause::invalid(key, &object[key], "must be greater than or equal to 0"));
        }
    }
}

pub(super) fn attributes_class(object: &Value, out: &mut Causes) {
    driver_name(object, "driverName", out);
    if is_empty(&object["parameters"]) {
        out.push(Cause::required("parameters", "must contain at least one key/value pair"));
    }
}

/// Who provides volumes of a class, at the member `key`.
fn driver_name(object: &Value, key: &str, out: &mut Causes) {
    match object[key].as_str().unwrap_or("") {
        "" => out.push(Cause::required(key, "")),
        name => {
            let name = name.to_lowercase();
            texts(meta::qualified_problems(&name), &json!(name), key, out);
        }
    }
}

pub(super) fn storage_class(object: &Value, out: &mut Causes) {
    driver_name(object, "provisioner", out);
    if !object["reclaimPolicy"].is_null() {
        one_of(&object["reclaimPolicy"], "reclaimPolicy".into(), &["Delete", "Retain"], out);
    }
    match object["volumeBindingMode"].as_str() {
        None => out.push(Cause::required("volumeBindingMode", "")),
        Some("Immediate" | "WaitForFirstConsumer") => {}
        Some(_) => out.push(Cause::not_supported(
            "volumeBindingMode",
            &object["volumeBindingMode"],
            &["Immediate", "WaitForFirstConsumer"],
        )),
    }
}
