//! Validation of the volumes of a pod.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::environment::{counted, field_path};
use super::projections::projected;
use super::text;
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::quota::amount;
use crate::write::admit::validate::{Causes, is_empty, list, names, one_of, storage, texts};

/// The volumes of a pod that are as they should be, by name.
pub(super) type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// The words each volume may have one of, in the order they are looked at.
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
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
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
];

/// What sources of the simplest kind must say.
const REQUIRED: &[(&str, &[&str])] = &[
    ("secret", &["secretName"]),
    ("configMap", &["name"]),
    ("nfs", &["server", "path"]),
    ("glusterfs", &["endpoints", "path"]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["monitors", "image"]),
    ("cinder", &["volumeID"]),
    ("cephfs", &["monitors"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("gitRepo", &["repository"]),
    ("ephemeral", &["volumeClaimTemplate"]),
    ("image", &["reference"]),
];

/// The volumes of `pod`, or of a template that has none.
pub(super) fn volumes<'a>(
    volumes: &'a Value,
    pod: Option<&Value>,
    field: &str,
    out: &mut Causes,
) -> Volumes<'a> {
    let mut names = Volumes::new();
    let pod_name = pod.map_or("", |pod| meta::text(pod, "name"));
    let made = |claim: &str| {
        let made = |volume: &Value| {
            claim.strip_prefix(pod_name).and_then(|c| c.strip_prefix('-')) == Some(text(volume, "name"))
        };
        !pod_name.is_empty() && list(volumes).any(|(_, v)| v["ephemeral"].is_object() && made(v))
    };
    for (i, volume) in list(volumes) {
        let at = format!("{field}[{i}]");
        let mut found = Vec::new();
        sources(volume, pod_name, &at, &mut found);
        let name = text(volume, "name");
        if name.is_empty() {
            found.push(Cause::required(format!("{at}.name"), ""));
        } else {
            texts(meta::label_problems(name), &volume["name"], &format!("{at}.name"), &mut found);
        }
        if names.contains_key(name) {
            found.push(Cause::duplicate(format!("{at}.name"), &volume["name"]));
        }
        // Volumes with problems are unknown to the mounts that follow.
        if found.is_empty() {
            names.insert(name, volume);
        }
        out.extend(found);
        let claim = text(&volume["persistentVolumeClaim"], "claimName");
        if made(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            out.push(Cause::invalid(format!("{at}.persistentVolumeClaim.claimName"), &json!(claim), why));
        }
    }
    names
}

fn sources(volume: &Value, pod_name: &str, at: &str, out: &mut Causes) {
    let mut first = true;
    for kind in SOURCES {
        let source = volume.get(*kind).unwrap_or(&Value::Null);
        if !source.is_object() {
            continue;
        }
        let taken = !std::mem::take(&mut first);
        if taken {
            // Two of them go by other names here.
            let known = match *kind {
                "cephfs" => "cephFS",
                "downwardAPI" => "downwarAPI",
                other => other,
            };
            out.push(Cause::forbidden(format!("{at}.{known}"), "may not specify more than 1 volume type"));
        } else {
            source_of(kind, source, at, out);
            let name = text(volume, "name");
            if *kind == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{name}");
                for why in meta::subdomain_problems(&claim) {
                    let why = format!("PVC name {claim:?}: {why}");
                    out.push(Cause::invalid(format!("{at}.name"), &json!(name), &why));
                }
            }
        }
        if *kind == "iscsi" && source["initiatorName"].is_string() {
            let name = text(volume, "name");
            if name.len() + 1 + text(source, "targetPortal").len() > 64 {
                let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
                out.push(Cause::invalid(format!("{at}.name"), &json!(name), why));
            }
        }
    }
    if first {
        out.push(Cause::required(at, "must specify a volume type"));
    }
}

fn source_of(kind: &str, source: &Value, at: &str, out: &mut Causes) {
    let field = format!("{at}.{kind}");
    let of = |key: &str| format!("{field}.{key}");
    for key in REQUIRED.iter().filter(|(of, _)| *of == kind).flat_map(|(_, keys)| *keys) {
        if is_empty(&source[*key]) && !(kind == "ephemeral" && source[*key].is_object()) {
            out.push(Cause::required(of(key), ""));
        }
    }
    match kind {
        "emptyDir" if amount(&source["sizeLimit"]).is_some_and(|size| size < 0) => {
            let why = "SizeLimit field must be a valid resource quantity";
            out.push(Cause::forbidden(of("sizeLimit"), why));
        }
        "hostPath" => host_path(source, &field, out),
        "gitRepo" => descending(text(source, "directory"), &of("directory"), out),
        "gcePersistentDisk" => {
            if is_empty(&source["pdName"]) {
                out.push(Cause::required(format!("{at}.persistentDisk.pdName"), ""));
            }
            partition(source, format!("{at}.persistentDisk.partition"), out);
        }
        "awsElasticBlockStore" => partition(source, of("partition"), out),
        "secret" | "configMap" => files(source, &field, out),
        "nfs" if !text(source, "path").starts_with('/') => {
            out.push(Cause::invalid(of("path"), &json!(text(source, "path")), "must be an absolute path"));
        }
        "iscsi" => iscsi(source, &field, out),
        "flocker" => flocker(source, &field, out),
        "cinder" | "storageos" => {
            if kind == "storageos" {
                match text(source, "volumeName") {
                    "" => out.push(Cause::required(of("volumeName"), "")),
                    name => texts(meta::label_problems(name), &json!(name), &of("volumeName"), out),
                }
                let space = text(source, "volumeNamespace");
                if !space.is_empty() {
                    texts(meta::label_problems(space), &json!(space), &of("volumeNamespace"), out);
                }
            }
            if source["secretRef"].is_object() && is_empty(&source["secretRef"]["name"]) {
                out.push(Cause::required(of("secretRef.name"), ""));
            }
        }
        "quobyte" => quobyte(source, &field, out),
        "downwardAPI" => {
            mode(&source["defaultMode"], of("defaultMode"), out);
            for (_, file) in list(&source["items"]) {
                told_file(file, &field, out);
            }
        }
        "fc" => fibre_channel(source, &field, out),
        "flexVolume" => {
            for (key, _) in meta::sorted(&source["options"]) {
                let space = format!(".{}", key.split('/').next().unwrap_or("").to_lowercase());
                if space.ends_with(".kubernetes.io") || space.ends_with(".k8s.io") {
                    let why = "kubernetes.io and k8s.io namespaces are reserved";
                    out.push(Cause::invalid(of(&format!("options[{key}]")), &json!(key), why));
                }
            }
        }
        "azureDisk" => azure_disk(source, &field, out),
        "projected" => projected(source, &field, out),
        "csi" => {
            names::driver(text(source, "driver"), &of("driver"), out);
            let secret = &source["nodePublishSecretRef"];
            match text(secret, "name") {
                "" if secret.is_object() => out.push(Cause::required(of("nodePublishSecretRef.name"), "")),
                name if secret.is_object() => {
                    texts(meta::subdomain_problems(name), &json!(name), &of("name"), out);
                }
                _ => {}
            }
        }
        "ephemeral" if source["volumeClaimTemplate"].is_object() => {
            let template = &source["volumeClaimTemplate"];
            let field = of("volumeClaimTemplate");
            let metadata = &template["metadata"];
            for (key, _) in meta::sorted(&metadata["annotations"]) {
                let problems = meta::qualified_problems(&key.to_lowercase());
                texts(problems, &json!(key), &format!("{field}.metadata.annotations"), out);
            }
            meta::validate_labels(&metadata["labels"], &format!("{field}.metadata.labels"), out);
            for (key, value) in metadata.as_object().into_iter().flatten() {
                if !matches!(key.as_str(), "annotations" | "labels") && !is_empty(value) {
                    out.push(Cause::forbidden(format!("{field}.metadata.{key}"), "cannot be set"));
                }
            }
            storage::claim(&template["spec"], &format!("{field}.spec"), out);
        }
        "image" => {
            let policies = ["Always", "IfNotPresent", "Never"];
            one_of(&source["pullPolicy"], of("pullPolicy"), &policies, out);
        }
        _ => {}
    }
}

pub(in crate::write::admit::validate) fn host_path(source: &Value, field: &str, out: &mut Causes) {
    const KINDS: &[&str] = &[
        "",
        "BlockDevice",
        "CharDevice",
        "Directory",
        "DirectoryOrCreate",
        "File",
        "FileOrCreate",
        "Socket",
    ];
    let path = text(source, "path");
    if path.is_empty() {
        out.push(Cause::required(format!("{field}.path"), ""));
        return;
    }
    if climbs(path) {
        out.push(Cause::invalid(format!("{field}.path"), &json!(path), "must not contain '..'"));
    }
    if let Some(kind) = source["type"].as_str().filter(|kind| !KINDS.contains(kind)) {
        out.push(Cause::not_supported(format!("{field}.type"), &json!(kind), KINDS));
    }
}

pub(in crate::write::admit::validate) fn partition(source: &Value, field: String, out: &mut Causes) {
    if source["partition"].as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        out.push(Cause::invalid(field, &source["partition"], "must be between 1 and 255, inclusive"));
    }
}

static IQN: LazyLock<Regex> =
    LazyLock::new(|| meta::compile(r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\x0C\r ]+$"));
static EUI: LazyLock<Regex> = LazyLock::new(|| meta::compile(r"^eui.[0-9A-Za-z]{16}$"));
static NAA: LazyLock<Regex> = LazyLock::new(|| meta::compile(r"^naa.[0-9A-Za-z]{32}$"));

/// The name of one end of an iSCSI connection.
pub(in crate::write::admit::validate) fn iscsi_name(name: &str, field: String, out: &mut Causes) {
    let why = match name.get(..3).unwrap_or("") {
        "iqn" if IQN.is_match(name) => return,
        "eui" if EUI.is_match(name) => return,
        "naa" if NAA.is_match(name) => return,
        "iqn" | "eui" | "naa" => "must be valid format",
        _ => "must be valid format starting with iqn, eui, or naa",
    };
    out.push(Cause::invalid(field, &json!(name), why));
}

fn iscsi(source: &Value, field: &str, out: &mut Causes) {
    if is_empty(&source["targetPortal"]) {
        out.push(Cause::required(format!("{field}.targetPortal"), ""));
    }
    match text(source, "iqn") {
        "" => out.push(Cause::required(format!("{field}.iqn"), "")),
        name => iscsi_name(name, format!("{field}.iqn"), out),
    }
    if source["lun"].as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        let why = "must be between 0 and 255, inclusive";
        out.push(Cause::invalid(format!("{field}.lun"), &source["lun"], why));
    }
    let guarded = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|key| source[*key] == true);
    if guarded && source["secretRef"].is_null() {
        out.push(Cause::required(format!("{field}.secretRef"), ""));
    }
    if let Some(name) = source["initiatorName"].as_str() {
        iscsi_name(name, format!("{field}.initiatorname"), out);
    }
}

pub(in crate::write::admit::validate) fn flocker(source: &Value, field: &str, out: &mut Causes) {
    let name = text(source, "datasetName");
    match (name.is_empty(), is_empty(&source["datasetUUID"])) {
        (true, true) => out.push(Cause::required(field, "one of datasetName and datasetUUID is required")),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            out.push(Cause::invalid(field, &json!("resource"), why));
        }
        _ => {}
    }
    if name.contains('/') {
        out.push(Cause::invalid(format!("{field}.datasetName"), &json!(name), "must not contain '/'"));
    }
}

pub(in crate::write::admit::validate) fn quobyte(source: &Value, field: &str, out: &mut Causes) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        out.push(Cause::required(format!("{field}.registry"), PAIRS));
    } else if text(source, "tenant").len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        out.push(Cause::required(format!("{field}.tenant"), why));
    } else {
        let pair = |text: &str| match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").is_some_and(|(_, port)| !port.contains(':')),
            None => text.split(':').count() == 2,
        };
        for _ in registry.split(',').filter(|text| !pair(text)) {
            out.push(Cause::invalid(format!("{field}.registry"), &json!(registry), PAIRS));
        }
    }
    if is_empty(&source["volume"]) {
        out.push(Cause::required(format!("{field}.volume"), ""));
    }
}

pub(in crate::write::admit::validate) fn fibre_channel(source: &Value, field: &str, out: &mut Causes) {
    let at = format!("{field}.targetWWNs");
    let names = !is_empty(&source["targetWWNs"]);
    match (names, !is_empty(&source["wwids"])) {
        (false, false) => {
            out.push(Cause::required(at, "must specify either targetWWNs or wwids, but not both"));
        }
        (true, true) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            out.push(Cause::invalid(at, &source["targetWWNs"], why));
        }
        _ => {}
    }
    if names {
        match source["lun"].as_i64() {
            None => out
                .push(Cause::required(format!("{field}.lun"), "lun is required if targetWWNs is specified")),
            Some(0..=255) => {}
            Some(_) => {
                let why = "must be between 0 and 255, inclusive";
                out.push(Cause::invalid(format!("{field}.lun"), &source["lun"], why));
            }
        }
    }
}

pub(in crate::write::admit::validate) fn azure_disk(source: &Value, field: &str, out: &mut Causes) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let words: [(&str, &[&str]); 2] =
        [("cachingMode", &["None", "ReadOnly", "ReadWrite"]), ("kind", &["Dedicated", "Managed", "Shared"])];
    for (key, known) in words {
        if let Some(word) = source[key].as_str().filter(|word| !known.contains(word)) {
            out.push(Cause::not_supported(format!("{field}.{key}"), &json!(word), known));
        }
    }
    let (start, form) = match source["kind"].as_str() {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    let uri = text(source, "diskURI");
    if !uri.starts_with(start) {
        out.push(Cause::not_supported(format!("{field}.diskURI"), &json!(uri), &[form]));
    }
}

/// The mode of a file.
pub(super) fn mode(value: &Value, field: String, out: &mut Causes) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        out.push(Cause::invalid(field, value, why));
    }
}

/// The files of a volume that shows a secret or a config map.
fn files(source: &Value, field: &str, out: &mut Causes) {
    mode(&source["defaultMode"], format!("{field}.defaultMode"), out);
    for (i, item) in list(&source["items"]) {
        file(item, &format!("{field}.items[{i}]"), out);
    }
}

/// A key shown as a file.
pub(super) fn file(item: &Value, at: &str, out: &mut Causes) {
    if is_empty(&item["key"]) {
        out.push(Cause::required(format!("{at}.key"), ""));
    }
    let path = text(item, "path");
    if path.is_empty() {
        out.push(Cause::required(format!("{at}.path"), ""));
    }
    local(path, &format!("{at}.path"), out);
    mode(&item["mode"], format!("{at}.mode"), out);
}

/// A field or resource of the pod shown as a file.
pub(super) fn told_file(file: &Value, field: &str, out: &mut Causes) {
    const SHOWN: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let path = text(file, "path");
    if path.is_empty() {
        out.push(Cause::required(format!("{field}.path"), ""));
    }
    local(path, &format!("{field}.path"), out);
    if file["fieldRef"].is_object() {
        field_path(&file["fieldRef"], SHOWN, &format!("{field}.fieldRef"), out);
        if file["resourceFieldRef"].is_object() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            out.push(Cause::invalid(field, &json!("resource"), why));
        }
    } else if file["resourceFieldRef"].is_object() {
        counted(&file["resourceFieldRef"], true, &format!("{field}.resourceFieldRef"), out);
    } else {
        out.push(Cause::required(field, "one of fieldRef and resourceFieldRef is required"));
    }
    mode(&file["mode"], format!("{field}.mode"), out);
}

/// A path that starts where it is and does not climb.
pub(super) fn descending(path: &str, field: &str, out: &mut Causes) {
    if path.starts_with('/') {
        out.push(Cause::invalid(field, &json!(path), "must be a relative path"));
    }
    if climbs(path) {
        out.push(Cause::invalid(field, &json!(path), "must not contain '..'"));
    }
}

/// A path within a volume, where names with two dots at the start are the system's.
pub(super) fn local(path: &str, field: &str, out: &mut Causes) {
    descending(path, field, out);
    if path.starts_with("..") && !path.starts_with("../") {
        out.push(Cause::invalid(field, &json!(path), "must not start with '..'"));
    }
}

/// Whether a path leads out of where it starts.
pub(super) fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
