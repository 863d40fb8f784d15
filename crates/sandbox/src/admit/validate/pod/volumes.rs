//! Validation of the volumes of a pod.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::admit::meta;
use crate::admit::quota::amount;
use crate::admit::validate::{Causes, is_empty, list, texts};
use crate::status::Cause;

/// The words each volume may have one of.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
    "quobyte",
];

pub(super) fn volumes(volumes: &Value, field: &str, out: &mut Causes) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (i, volume) in list(volumes) {
        let at = format!("{field}[{i}]");
        let mut found = Vec::new();
        sources(volume, &at, &mut found);
        let name = volume["name"].as_str().unwrap_or("");
        if name.is_empty() {
            found.push(Cause::required(format!("{at}.name"), ""));
        } else {
            texts(meta::label_problems(name), &volume["name"], &format!("{at}.name"), &mut found);
        }
        if names.contains(name) {
            found.push(Cause::duplicate(format!("{at}.name"), &volume["name"]));
        }
        // Volumes with problems are unknown to the mounts that follow.
        if found.is_empty() {
            names.insert(name.to_owned());
        }
        out.extend(found);
    }
    names
}

fn sources(volume: &Value, at: &str, out: &mut Causes) {
    let mut first = true;
    for source in SOURCES {
        if !volume.get(*source).is_some_and(Value::is_object) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(Cause::forbidden(format!("{at}.{source}"), "may not specify more than 1 volume type"));
            continue;
        }
        let required = |key: &str, out: &mut Causes| {
            if is_empty(&volume[*source][key]) {
                out.push(Cause::required(format!("{at}.{source}.{key}"), ""));
            }
        };
        match *source {
            "hostPath" => {
                required("path", out);
                if volume[*source]["path"].as_str().is_some_and(climbs) {
                    let at = format!("{at}.hostPath.path");
                    out.push(Cause::invalid(at, &volume[*source]["path"], "must not contain '..'"));
                }
                let kinds = [
                    "",
                    "BlockDevice",
                    "CharDevice",
                    "Directory",
                    "DirectoryOrCreate",
                    "File",
                    "FileOrCreate",
                    "Socket",
                ];
                if let Some(kind) = volume[*source]["type"].as_str().filter(|kind| !kinds.contains(kind)) {
                    out.push(Cause::not_supported(format!("{at}.hostPath.type"), &json!(kind), &kinds));
                }
            }
            "secret" => {
                required("secretName", out);
                files(&volume[*source], &format!("{at}.secret"), out);
            }
            "configMap" => {
                required("name", out);
                files(&volume[*source], &format!("{at}.configMap"), out);
            }
            "downwardAPI" => {
                for (_, item) in list(&volume[*source]["items"]) {
                    told_in_files(&item["fieldRef"], &format!("{at}.downwardAPI.fieldRef"), out);
                }
            }
            "projected" => {
                for (i, part) in list(&volume[*source]["sources"]) {
                    let each = format!("{at}.projected.sources[{i}]");
                    for kind in ["secret", "configMap"] {
                        if part[kind].is_object() && is_empty(&part[kind]["name"]) {
                            out.push(Cause::required(format!("{each}.{kind}.name"), ""));
                        }
                    }
                    let token = &part["serviceAccountToken"];
                    if token["expirationSeconds"].as_i64().is_some_and(|s| s < 600) {
                        out.push(Cause::invalid(
                            format!("{each}.serviceAccountToken.expirationSeconds"),
                            &token["expirationSeconds"],
                            "may not specify a duration less than 10 minutes",
                        ));
                    }
                    if token.is_object() && is_empty(&token["path"]) {
                        out.push(Cause::required(format!("{at}.projected.path"), ""));
                    }
                }
            }
            "emptyDir" if amount(&volume[*source]["sizeLimit"]).is_some_and(|size| size < 0) => {
                let why = "SizeLimit field must be a valid resource quantity";
                out.push(Cause::forbidden(format!("{at}.emptyDir.sizeLimit"), why));
            }
            "ephemeral" => required("volumeClaimTemplate", out),
            "persistentVolumeClaim" => required("claimName", out),
            "csi" => required("driver", out),
            "nfs" => {
                required("server", out);
                required("path", out);
                let path = volume[*source]["path"].as_str().unwrap_or("");
                if !path.starts_with('/') {
                    out.push(Cause::invalid(
                        format!("{at}.nfs.path"),
                        &json!(path),
                        "must be an absolute path",
                    ));
                }
            }
            _ => {}
        }
    }
    if first {
        out.push(Cause::required(at, "must specify a volume type"));
    }
}

/// The files of a volume that shows a secret or a config map.
fn files(source: &Value, field: &str, out: &mut Causes) {
    let mode = |value: &Value, field: String, out: &mut Causes| {
        if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            let why = "must be a number between 0 and 0777 (octal), both inclusive";
            out.push(Cause::invalid(field, value, why));
        }
    };
    mode(&source["defaultMode"], format!("{field}.defaultMode"), out);
    for (i, item) in list(&source["items"]) {
        let at = format!("{field}.items[{i}]");
        if is_empty(&item["key"]) {
            out.push(Cause::required(format!("{at}.key"), ""));
        }
        match item["path"].as_str().unwrap_or("") {
            "" => out.push(Cause::required(format!("{at}.path"), "")),
            path if climbs(path) => {
                out.push(Cause::invalid(format!("{at}.path"), &item["path"], "must not contain '..'"));
            }
            _ => {}
        }
        mode(&item["mode"], format!("{at}.mode"), out);
    }
}

/// The fields of its pod a volume can show.
fn told_in_files(reference: &Value, field: &str, out: &mut Causes) {
    const SHOWN: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let Some(path) = reference["fieldPath"].as_str() else { return };
    let subscripted = ["metadata.annotations['", "metadata.labels['"].iter().any(|p| path.starts_with(p));
    if !subscripted && !SHOWN.contains(&path) {
        out.push(Cause::not_supported(format!("{field}.fieldPath"), &reference["fieldPath"], SHOWN));
    }
}

/// Whether a path leads out of where it starts.
pub(super) fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
