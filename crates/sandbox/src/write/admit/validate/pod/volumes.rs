//! Validation of the volumes of a pod.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::projections::validate_projected;
use super::text_member;
use super::volume_files::{
    check_descending_path, leads_out, validate_downward_file, validate_file_mode, validate_files,
};
use crate::status::StatusCause;
use crate::write::admit::amounts::nanos_of;
use crate::write::admit::meta;
use crate::write::admit::validate::{
    CauseList, add_problems, check_one_of, indexed_items, is_empty, names, storage,
};

/// The valid volumes of a pod, by name.
pub(super) type VolumesByName<'a> = BTreeMap<&'a str, &'a Value>;

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

/// Members that simple sources must set.
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
pub(super) fn validate_volumes<'a>(
    volumes: &'a Value,
    pod: Option<&Value>,
    field: &str,
    out: &mut CauseList,
) -> VolumesByName<'a> {
    let mut names = VolumesByName::new();
    let pod_name = pod.map_or("", |pod| meta::metadata_text(pod, "name"));
    let made = |claim: &str| {
        let made = |volume: &Value| {
            claim.strip_prefix(pod_name).and_then(|c| c.strip_prefix('-'))
                == Some(text_member(volume, "name"))
        };
        !pod_name.is_empty() && indexed_items(volumes).any(|(_, v)| v["ephemeral"].is_object() && made(v))
    };
    for (i, volume) in indexed_items(volumes) {
        let at = format!("{field}[{i}]");
        let mut found = Vec::new();
        validate_volume_sources(volume, pod_name, &at, &mut found);
        let name = text_member(volume, "name");
        if name.is_empty() {
            found.push(StatusCause::required(format!("{at}.name"), ""));
        } else {
            add_problems(meta::label_problems(name), &volume["name"], &format!("{at}.name"), &mut found);
        }
        if names.contains_key(name) {
            found.push(StatusCause::duplicate(format!("{at}.name"), &volume["name"]));
        }
        // Volumes with problems are unknown to the mounts that follow.
        if found.is_empty() {
            names.insert(name, volume);
        }
        out.extend(found);
        let claim = text_member(&volume["persistentVolumeClaim"], "claimName");
        if made(claim) {
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            out.push(StatusCause::invalid(
                format!("{at}.persistentVolumeClaim.claimName"),
                &json!(claim),
                why,
            ));
        }
    }
    names
}

fn validate_volume_sources(volume: &Value, pod_name: &str, at: &str, out: &mut CauseList) {
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
            out.push(StatusCause::forbidden(
                format!("{at}.{known}"),
                "may not specify more than 1 volume type",
            ));
        } else {
            validate_volume_source(kind, source, at, out);
            let name = text_member(volume, "name");
            if *kind == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{name}");
                for why in meta::subdomain_problems(&claim) {
                    let why = format!("PVC name {claim:?}: {why}");
                    out.push(StatusCause::invalid(format!("{at}.name"), &json!(name), &why));
                }
            }
        }
        if *kind == "iscsi" && source["initiatorName"].is_string() {
            let name = text_member(volume, "name");
            if name.len() + 1 + text_member(source, "targetPortal").len() > 64 {
                let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
                out.push(StatusCause::invalid(format!("{at}.name"), &json!(name), why));
            }
        }
    }
    if first {
        out.push(StatusCause::required(at, "must specify a volume type"));
    }
}

fn validate_volume_source(kind: &str, source: &Value, at: &str, out: &mut CauseList) {
    let field = format!("{at}.{kind}");
    let of = |key: &str| format!("{field}.{key}");
    for key in REQUIRED.iter().filter(|(of, _)| *of == kind).flat_map(|(_, keys)| *keys) {
        if is_empty(&source[*key]) && !(kind == "ephemeral" && source[*key].is_object()) {
            out.push(StatusCause::required(of(key), ""));
        }
    }
    match kind {
        "emptyDir" if nanos_of(&source["sizeLimit"]).is_some_and(|size| size < 0) => {
            let why = "SizeLimit field must be a valid resource quantity";
            out.push(StatusCause::forbidden(of("sizeLimit"), why));
        }
        "hostPath" => validate_host_path(source, &field, out),
        "gitRepo" => check_descending_path(text_member(source, "directory"), &of("directory"), out),
        "gcePersistentDisk" => {
            if is_empty(&source["pdName"]) {
                out.push(StatusCause::required(format!("{at}.persistentDisk.pdName"), ""));
            }
            validate_partition(source, format!("{at}.persistentDisk.partition"), out);
        }
        "awsElasticBlockStore" => validate_partition(source, of("partition"), out),
        "secret" | "configMap" => validate_files(source, &field, out),
        "nfs" if !text_member(source, "path").starts_with('/') => {
            out.push(StatusCause::invalid(
                of("path"),
                &json!(text_member(source, "path")),
                "must be an absolute path",
            ));
        }
        "iscsi" => validate_iscsi(source, &field, out),
        "flocker" => validate_flocker(source, &field, out),
        "cinder" | "storageos" => {
            if kind == "storageos" {
                match text_member(source, "volumeName") {
                    "" => out.push(StatusCause::required(of("volumeName"), "")),
                    name => add_problems(meta::label_problems(name), &json!(name), &of("volumeName"), out),
                }
                let space = text_member(source, "volumeNamespace");
                if !space.is_empty() {
                    add_problems(meta::label_problems(space), &json!(space), &of("volumeNamespace"), out);
                }
            }
            if source["secretRef"].is_object() && is_empty(&source["secretRef"]["name"]) {
                out.push(StatusCause::required(of("secretRef.name"), ""));
            }
        }
        "quobyte" => validate_quobyte(source, &field, out),
        "downwardAPI" => {
            validate_file_mode(&source["defaultMode"], of("defaultMode"), out);
            for (_, file) in indexed_items(&source["items"]) {
                validate_downward_file(file, &field, out);
            }
        }
        "fc" => validate_fibre_channel(source, &field, out),
        "flexVolume" => {
            for (key, _) in meta::sorted_members(&source["options"]) {
                let space = format!(".{}", key.split('/').next().unwrap_or("").to_lowercase());
                if space.ends_with(".kubernetes.io") || space.ends_with(".k8s.io") {
                    let why = "kubernetes.io and k8s.io namespaces are reserved";
                    out.push(StatusCause::invalid(of(&format!("options[{key}]")), &json!(key), why));
                }
            }
        }
        "azureDisk" => validate_azure_disk(source, &field, out),
        "projected" => validate_projected(source, &field, out),
        "csi" => {
            names::validate_csi_driver_name(text_member(source, "driver"), &of("driver"), out);
            let secret = &source["nodePublishSecretRef"];
            match text_member(secret, "name") {
                "" if secret.is_object() => {
                    out.push(StatusCause::required(of("nodePublishSecretRef.name"), ""));
                }
                name if secret.is_object() => {
                    add_problems(meta::subdomain_problems(name), &json!(name), &of("name"), out);
                }
                _ => {}
            }
        }
        "ephemeral" if source["volumeClaimTemplate"].is_object() => {
            let template = &source["volumeClaimTemplate"];
            let field = of("volumeClaimTemplate");
            let metadata = &template["metadata"];
            for (key, _) in meta::sorted_members(&metadata["annotations"]) {
                let problems = meta::qualified_problems(&key.to_lowercase());
                add_problems(problems, &json!(key), &format!("{field}.metadata.annotations"), out);
            }
            meta::validate_labels(&metadata["labels"], &format!("{field}.metadata.labels"), out);
            for (key, value) in metadata.as_object().into_iter().flatten() {
                if !matches!(key.as_str(), "annotations" | "labels") && !is_empty(value) {
                    out.push(StatusCause::forbidden(format!("{field}.metadata.{key}"), "cannot be set"));
                }
            }
            storage::validate_claim(&template["spec"], &format!("{field}.spec"), out);
        }
        "image" => {
            let policies = ["Always", "IfNotPresent", "Never"];
            check_one_of(&source["pullPolicy"], of("pullPolicy"), &policies, out);
        }
        _ => {}
    }
}

pub(in crate::write::admit::validate) fn validate_host_path(
    source: &Value,
    field: &str,
    out: &mut CauseList,
) {
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
    let path = text_member(source, "path");
    if path.is_empty() {
        out.push(StatusCause::required(format!("{field}.path"), ""));
        return;
    }
    if leads_out(path) {
        out.push(StatusCause::invalid(format!("{field}.path"), &json!(path), "must not contain '..'"));
    }
    if let Some(kind) = source["type"].as_str().filter(|kind| !KINDS.contains(kind)) {
        out.push(StatusCause::not_supported(format!("{field}.type"), &json!(kind), KINDS));
    }
}

pub(in crate::write::admit::validate) fn validate_partition(
    source: &Value,
    field: String,
    out: &mut CauseList,
) {
    if source["partition"].as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        out.push(StatusCause::invalid(field, &source["partition"], "must be between 1 and 255, inclusive"));
    }
}

static IQN: LazyLock<Regex> =
    LazyLock::new(|| meta::compile_pattern(r"iqn\.[0-9]{4}-[0-9]{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\x0C\r ]+$"));
static EUI: LazyLock<Regex> = LazyLock::new(|| meta::compile_pattern(r"^eui.[0-9A-Za-z]{16}$"));
static NAA: LazyLock<Regex> = LazyLock::new(|| meta::compile_pattern(r"^naa.[0-9A-Za-z]{32}$"));

/// The name of one end of an iSCSI connection.
pub(in crate::write::admit::validate) fn validate_iscsi_name(name: &str, field: String, out: &mut CauseList) {
    let why = match name.get(..3).unwrap_or("") {
        "iqn" if IQN.is_match(name) => return,
        "eui" if EUI.is_match(name) => return,
        "naa" if NAA.is_match(name) => return,
        "iqn" | "eui" | "naa" => "must be valid format",
        _ => "must be valid format starting with iqn, eui, or naa",
    };
    out.push(StatusCause::invalid(field, &json!(name), why));
}

fn validate_iscsi(source: &Value, field: &str, out: &mut CauseList) {
    if is_empty(&source["targetPortal"]) {
        out.push(StatusCause::required(format!("{field}.targetPortal"), ""));
    }
    match text_member(source, "iqn") {
        "" => out.push(StatusCause::required(format!("{field}.iqn"), "")),
        name => validate_iscsi_name(name, format!("{field}.iqn"), out),
    }
    if source["lun"].as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        let why = "must be between 0 and 255, inclusive";
        out.push(StatusCause::invalid(format!("{field}.lun"), &source["lun"], why));
    }
    let guarded = ["chapAuthDiscovery", "chapAuthSession"].iter().any(|key| source[*key] == true);
    if guarded && source["secretRef"].is_null() {
        out.push(StatusCause::required(format!("{field}.secretRef"), ""));
    }
    if let Some(name) = source["initiatorName"].as_str() {
        validate_iscsi_name(name, format!("{field}.initiatorname"), out);
    }
}

pub(in crate::write::admit::validate) fn validate_flocker(source: &Value, field: &str, out: &mut CauseList) {
    let name = text_member(source, "datasetName");
    match (name.is_empty(), is_empty(&source["datasetUUID"])) {
        (true, true) => {
            out.push(StatusCause::required(field, "one of datasetName and datasetUUID is required"));
        }
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            out.push(StatusCause::invalid(field, &json!("resource"), why));
        }
        _ => {}
    }
    if name.contains('/') {
        out.push(StatusCause::invalid(format!("{field}.datasetName"), &json!(name), "must not contain '/'"));
    }
}

pub(in crate::write::admit::validate) fn validate_quobyte(source: &Value, field: &str, out: &mut CauseList) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text_member(source, "registry");
    if registry.is_empty() {
        out.push(StatusCause::required(format!("{field}.registry"), PAIRS));
    } else if text_member(source, "tenant").len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        out.push(StatusCause::required(format!("{field}.tenant"), why));
    } else {
        let pair = |text: &str| match text.strip_prefix('[') {
            Some(rest) => rest.split_once("]:").is_some_and(|(_, port)| !port.contains(':')),
            None => text.split(':').count() == 2,
        };
        for _ in registry.split(',').filter(|text| !pair(text)) {
            out.push(StatusCause::invalid(format!("{field}.registry"), &json!(registry), PAIRS));
        }
    }
    if is_empty(&source["volume"]) {
        out.push(StatusCause::required(format!("{field}.volume"), ""));
    }
}

pub(in crate::write::admit::validate) fn validate_fibre_channel(
    source: &Value,
    field: &str,
    out: &mut CauseList,
) {
    let at = format!("{field}.targetWWNs");
    let names = !is_empty(&source["targetWWNs"]);
    match (names, !is_empty(&source["wwids"])) {
        (false, false) => {
            out.push(StatusCause::required(at, "must specify either targetWWNs or wwids, but not both"));
        }
        (true, true) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            out.push(StatusCause::invalid(at, &source["targetWWNs"], why));
        }
        _ => {}
    }
    if names {
        match source["lun"].as_i64() {
            None => out.push(StatusCause::required(
                format!("{field}.lun"),
                "lun is required if targetWWNs is specified",
            )),
            Some(0..=255) => {}
            Some(_) => {
                let why = "must be between 0 and 255, inclusive";
                out.push(StatusCause::invalid(format!("{field}.lun"), &source["lun"], why));
            }
        }
    }
}

pub(in crate::write::admit::validate) fn validate_azure_disk(
    source: &Value,
    field: &str,
    out: &mut CauseList,
) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    let words: [(&str, &[&str]); 2] =
        [("cachingMode", &["None", "ReadOnly", "ReadWrite"]), ("kind", &["Dedicated", "Managed", "Shared"])];
    for (key, known) in words {
        if let Some(word) = source[key].as_str().filter(|word| !known.contains(word)) {
            out.push(StatusCause::not_supported(format!("{field}.{key}"), &json!(word), known));
        }
    }
    let (start, form) = match source["kind"].as_str() {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    let uri = text_member(source, "diskURI");
    if !uri.starts_with(start) {
        out.push(StatusCause::not_supported(format!("{field}.diskURI"), &json!(uri), &[form]));
    }
}
