//! Validation of persistent volumes, those written into an attachment included.

use serde_json::{Value, json};

use super::storage::validate_access_modes;
use super::{CauseList, add_problems, indexed_items, is_empty, names, pod};
use crate::status::StatusCause;
use crate::write::admit::amounts::{canonical_text, nanos_of};
use crate::write::admit::meta;

/// The sources of a persistent volume: the member, and the name refusals of a second source have for it.
const VOLUMES: &[(&str, &str)] = &[
    ("hostPath", "hostPath"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("nfs", "nfs"),
    ("rbd", "rbd"),
    ("quobyte", "quobyte"),
    ("cephfs", "cephFS"),
    ("iscsi", "iscsi"),
    ("cinder", "cinder"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("scaleIO", "scaleIO"),
    ("local", "local"),
    ("storageos", "storageos"),
    ("csi", "csi"),
];

/// Members a kind of volume must have.
const NEEDED: &[(&str, &[&str])] = &[
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("glusterfs", &["endpoints", "path"]),
    ("nfs", &["server", "path"]),
    ("rbd", &["monitors", "image"]),
    ("cephfs", &["monitors"]),
    ("iscsi", &["targetPortal"]),
    ("cinder", &["volumeID"]),
    ("flexVolume", &["driver"]),
    ("azureFile", &["secretName", "shareName"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("local", &["path"]),
    ("storageos", &["volumeName"]),
];

pub(in crate::write) fn validate_volume(object: &Value, out: &mut CauseList) {
    validate_volume_spec(&object["spec"], meta::metadata_text(object, "name"), false, "spec", out);
}

/// Validates a volume written into an attachment, which needs fewer members.
pub(in crate::write) fn validate_inline_volume(volume: &Value, field: &str, out: &mut CauseList) {
    validate_volume_spec(volume, "", true, field, out);
}

fn validate_volume_spec(spec: &Value, name: &str, inline: bool, at: &str, out: &mut CauseList) {
    let refuse = |key: &str, out: &mut CauseList| {
        let why = "may not be specified in the context of inline volumes";
        out.push(StatusCause::forbidden(format!("{at}.{key}"), why));
    };
    if inline {
        for key in ["claimRef", "capacity"] {
            if !spec[key].is_null() && (key == "claimRef" || !is_empty(&spec[key])) {
                refuse(key, out);
            }
        }
        if spec["csi"].is_null() {
            let why = "has to be specified in the context of inline volumes";
            out.push(StatusCause::required(format!("{at}.csi"), why));
        }
    }
    if is_empty(&spec["accessModes"]) {
        out.push(StatusCause::required(format!("{at}.accessModes"), ""));
    }
    validate_access_modes(spec, at, out);
    let policy = &spec["persistentVolumeReclaimPolicy"];
    if inline {
        if !is_empty(policy) && policy != "Retain" {
            let why = "may only be Retain in the context of inline volumes";
            out.push(StatusCause::forbidden(format!("{at}.persistentVolumeReclaimPolicy"), why));
        }
        if !spec["nodeAffinity"].is_null() {
            refuse("nodeAffinity", out);
        }
    } else {
        validate_capacity(&spec["capacity"], &format!("{at}.capacity"), out);
        let known = ["Delete", "Recycle", "Retain"];
        if !is_empty(policy) && !policy.as_str().is_some_and(|policy| known.contains(&policy)) {
            out.push(StatusCause::not_supported(
                format!("{at}.persistentVolumeReclaimPolicy"),
                policy,
                &known,
            ));
        }
        validate_node_affinity(&spec["nodeAffinity"], &format!("{at}.nodeAffinity"), out);
    }
    validate_sources(spec, name, at, out);
    let whole = spec["hostPath"]["path"].as_str().is_some_and(|path| {
        path.starts_with('/') && path.split('/').all(|part| part.is_empty() || part == ".")
    });
    if whole && policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        out.push(StatusCause::forbidden(format!("{at}.persistentVolumeReclaimPolicy"), why));
    }
    if let Some(class) = spec["storageClassName"].as_str().filter(|class| !class.is_empty()) {
        if inline {
            refuse("storageClassName", out);
        } else {
            let at = format!("{at}.storageClassName");
            add_problems(meta::subdomain_problems(class), &spec["storageClassName"], &at, out);
        }
    }
    let mode = &spec["volumeMode"];
    match mode.as_str() {
        Some(text) if inline && text != "Filesystem" => {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            out.push(StatusCause::forbidden(format!("{at}.volumeMode"), why));
        }
        Some(text) if !inline && text != "Block" && text != "Filesystem" => {
            out.push(StatusCause::not_supported(format!("{at}.volumeMode"), mode, &["Block", "Filesystem"]));
        }
        _ => {}
    }
    if let Some(class) = spec["volumeAttributesClassName"].as_str().filter(|_| !inline) {
        let field = format!("{at}.volumeAttributesClassName");
        if class.is_empty() {
            out.push(StatusCause::required(&field, "an empty string is disallowed"));
        } else {
            add_problems(meta::subdomain_problems(class), &json!(class), &field, out);
        }
        if spec["csi"].is_null() {
            let why = "has to be specified when using volumeAttributesClassName";
            out.push(StatusCause::required(format!("{at}.csi"), why));
        }
    }
}

fn validate_capacity(capacity: &Value, at: &str, out: &mut CauseList) {
    if is_empty(capacity) {
        out.push(StatusCause::required(at, ""));
    }
    let members = meta::sorted_members(capacity);
    if members.len() != 1 || capacity.get("storage").is_none() {
        let shown = members.iter().map(|(k, v)| ((*k).clone(), (*v).clone()));
        let shown = if capacity.is_null() { Value::Null } else { Value::Object(shown.collect()) };
        out.push(StatusCause::not_supported(at, &shown, &["storage"]));
    }
    for (name, size) in members {
        let (at, given) = (format!("{at}[{name}]"), nanos_of(size).unwrap_or(0));
        if given <= -1_000_000_000 {
            let units = json!(i64::try_from(given / 1_000_000_000).unwrap_or(i64::MIN));
            out.push(StatusCause::invalid(&at, &units, "must be a valid resource quantity"));
        }
        if given <= 0 {
            out.push(StatusCause::invalid(at, &json!(canonical_text(size)), "must be greater than zero"));
        }
    }
}

/// The nodes a volume can be used on.
fn validate_node_affinity(affinity: &Value, at: &str, out: &mut CauseList) {
    if affinity.is_null() {
        return;
    }
    let at = format!("{at}.required");
    if affinity["required"].is_null() {
        out.push(StatusCause::required(at, "must specify required node constraints"));
        return;
    }
    let (terms, at) = (&affinity["required"]["nodeSelectorTerms"], format!("{at}.nodeSelectorTerms"));
    if is_empty(terms) {
        out.push(StatusCause::required(at, "must have at least one node selector term"));
        return;
    }
    for (i, term) in indexed_items(terms) {
        pod::validate_node_term(term, true, &format!("{at}[{i}]"), out);
    }
}

fn validate_sources(spec: &Value, name: &str, at: &str, out: &mut CauseList) {
    let mut given = 0;
    for (key, called) in VOLUMES {
        let source = &spec[*key];
        if !source.is_object() {
            continue;
        }
        // Volumes of a vendor's own driver are never one too many.
        if given > 0 && *key != "flexVolume" {
            let why = "may not specify more than 1 volume type";
            out.push(StatusCause::forbidden(format!("{at}.{called}"), why));
            continue;
        }
        given += 1;
        let field = if *key == "gcePersistentDisk" { "persistentDisk" } else { key };
        let field = format!("{at}.{field}");
        for (_, needed) in NEEDED.iter().filter(|(kind, _)| kind == key) {
            for member in needed.iter().filter(|member| is_empty(&source[**member])) {
                out.push(StatusCause::required(format!("{field}.{member}"), ""));
            }
        }
        validate_source(key, source, name, &field, out);
        if *key == "local" && spec["nodeAffinity"].is_null() {
            let why = "Local volume requires node affinity";
            out.push(StatusCause::required(format!("{at}.nodeAffinity"), why));
        }
    }
    if given == 0 {
        out.push(StatusCause::required(at, "must specify a volume type"));
    }
}

/// Validates the members of a volume source beyond their presence.
fn validate_source(kind: &str, source: &Value, name: &str, at: &str, out: &mut CauseList) {
    let text = |key: &str| source[key].as_str().unwrap_or("");
    match kind {
        "hostPath" => pod::validate_host_path(source, at, out),
        "local" if text("path").split('/').any(|part| part == "..") => {
            out.push(StatusCause::invalid(format!("{at}.path"), &source["path"], "must not contain '..'"));
        }
        "gcePersistentDisk" | "awsElasticBlockStore" => {
            pod::validate_partition(source, format!("{at}.partition"), out);
        }
        "glusterfs" => match source["endpointsNamespace"].as_str() {
            Some("") => out.push(StatusCause::invalid(
                format!("{at}.endpointsNamespace"),
                &json!(""),
                "if the endpointnamespace is set, it must be a valid namespace name",
            )),
            Some(namespace) => {
                let at = format!("{at}.endpointsNamespace");
                add_problems(meta::label_problems(namespace), &source["endpointsNamespace"], &at, out);
            }
            None => {}
        },
        "flocker" => pod::validate_flocker(source, at, out),
        "nfs" if !text("path").starts_with('/') => {
            let why = "must be an absolute path";
            out.push(StatusCause::invalid(format!("{at}.path"), &json!(text("path")), why));
        }
        "quobyte" => pod::validate_quobyte(source, at, out),
        "iscsi" => validate_iscsi(source, name, at, out),
        "fc" => pod::validate_fibre_channel(source, at, out),
        "flexVolume" => {
            for (key, _) in meta::sorted_members(&source["options"]) {
                let home = format!(".{}", key.split_once('/').map_or(key.as_str(), |(home, _)| home));
                let home = home.to_lowercase();
                if home.ends_with(".kubernetes.io") || home.ends_with(".k8s.io") {
                    let why = "kubernetes.io and k8s.io namespaces are reserved";
                    out.push(StatusCause::invalid(format!("{at}.options[{key}]"), &json!(key), why));
                }
            }
        }
        "azureFile" if source["secretNamespace"].as_str() == Some("") => {
            out.push(StatusCause::required(format!("{at}.secretNamespace"), ""));
        }
        "azureDisk" => pod::validate_azure_disk(source, at, out),
        "cinder" | "storageos" => {
            for key in ["volumeName", "volumeNamespace"] {
                if kind == "storageos" && !text(key).is_empty() {
                    add_problems(meta::label_problems(text(key)), &source[key], &format!("{at}.{key}"), out);
                }
            }
            for key in ["name", "namespace"] {
                if source["secretRef"].is_object() && is_empty(&source["secretRef"][key]) {
                    out.push(StatusCause::required(format!("{at}.secretRef.{key}"), ""));
                }
            }
        }
        "csi" => validate_csi(source, at, out),
        _ => {}
    }
}

fn validate_iscsi(source: &Value, name: &str, at: &str, out: &mut CauseList) {
    let portal = source["targetPortal"].as_str().unwrap_or("");
    let initiator = source["initiatorName"].as_str();
    if initiator.is_some() && name.len() + portal.len() + 1 > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        out.push(StatusCause::invalid(format!("{at}.targetportal"), &json!(portal), why));
    }
    match source["iqn"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(format!("{at}.iqn"), "")),
        iqn => validate_initiator_name(iqn, format!("{at}.iqn"), out),
    }
    if source["lun"].as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        let why = "must be between 0 and 255, inclusive";
        out.push(StatusCause::invalid(format!("{at}.lun"), &source["lun"], why));
    }
    let secret = &source["secretRef"];
    if (source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true) && secret.is_null() {
        out.push(StatusCause::required(format!("{at}.secretRef"), ""));
    }
    if secret.is_object() && is_empty(&secret["name"]) {
        out.push(StatusCause::required(format!("{at}.secretRef.name"), ""));
    }
    if let Some(initiator) = initiator {
        validate_initiator_name(initiator, format!("{at}.initiatorname"), out);
    }
}

/// Validates the name of an iSCSI initiator; all bad names have the same message.
fn validate_initiator_name(name: &str, field: String, out: &mut CauseList) {
    let mut found = CauseList::new();
    pod::validate_iscsi_name(name, field.clone(), &mut found);
    if !found.is_empty() {
        out.push(StatusCause::invalid(field, &json!(name), "must be valid format"));
    }
}

fn validate_csi(source: &Value, at: &str, out: &mut CauseList) {
    names::validate_csi_driver_name(source["driver"].as_str().unwrap_or(""), &format!("{at}.driver"), out);
    if is_empty(&source["volumeHandle"]) {
        out.push(StatusCause::required(format!("{at}.volumeHandle"), ""));
    }
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        let (secret, at) = (&source[key], format!("{at}.{key}"));
        if !secret.is_object() {
            continue;
        }
        type Check = fn(&str) -> Vec<String>;
        let members: [(&str, Check); 2] =
            [("name", meta::subdomain_problems), ("namespace", meta::label_problems)];
        for (member, problems) in members {
            match secret[member].as_str().unwrap_or("") {
                "" => out.push(StatusCause::required(format!("{at}.{member}"), "")),
                text => add_problems(problems(text), &secret[member], &format!("{at}.{member}"), out),
            }
        }
    }
}
