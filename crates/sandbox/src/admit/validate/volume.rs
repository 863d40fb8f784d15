//! Validation of persistent volumes, those written into an attachment included.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::storage::{access_modes, driver_problems};
use super::{Causes, is_empty, list, texts};
use crate::admit::meta;
use crate::admit::quota::{amount, canonical};
use crate::status::Cause;

/// What a persistent volume may be, one of them: its member and the name refusals have for a second one.
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
    ("hostPath", &["path"]),
    ("local", &["path"]),
    ("storageos", &["volumeName"]),
];

pub(super) fn volume(object: &Value, out: &mut Causes) {
    spec(&object["spec"], meta::text(object, "name"), false, "spec", out);
}

/// A volume written into an attachment may say less.
pub(super) fn inline(volume: &Value, field: &str, out: &mut Causes) {
    spec(volume, "", true, field, out);
}

fn spec(spec: &Value, name: &str, inline: bool, at: &str, out: &mut Causes) {
    let refuse = |key: &str, out: &mut Causes| {
        let why = "may not be specified in the context of inline volumes";
        out.push(Cause::forbidden(format!("{at}.{key}"), why));
    };
    if inline {
        for key in ["claimRef", "capacity"] {
            if !spec[key].is_null() && (key == "claimRef" || !is_empty(&spec[key])) {
                refuse(key, out);
            }
        }
        if spec["csi"].is_null() {
            let why = "has to be specified in the context of inline volumes";
            out.push(Cause::required(format!("{at}.csi"), why));
        }
    }
    if is_empty(&spec["accessModes"]) {
        out.push(Cause::required(format!("{at}.accessModes"), ""));
    }
    access_modes(spec, at, out);
    let policy = &spec["persistentVolumeReclaimPolicy"];
    if inline {
        if !is_empty(policy) && policy != "Retain" {
            let why = "may only be Retain in the context of inline volumes";
            out.push(Cause::forbidden(format!("{at}.persistentVolumeReclaimPolicy"), why));
        }
        if !spec["nodeAffinity"].is_null() {
            refuse("nodeAffinity", out);
        }
    } else {
        capacity(&spec["capacity"], &format!("{at}.capacity"), out);
        let known = ["Delete", "Recycle", "Retain"];
        if !is_empty(policy) && !policy.as_str().is_some_and(|policy| known.contains(&policy)) {
            out.push(Cause::not_supported(format!("{at}.persistentVolumeReclaimPolicy"), policy, &known));
        }
        node_affinity(&spec["nodeAffinity"], &format!("{at}.nodeAffinity"), out);
    }
    sources(spec, name, at, out);
    let whole = spec["hostPath"]["path"].as_str().is_some_and(|path| {
        path.starts_with('/') && path.split('/').all(|part| part.is_empty() || part == ".")
    });
    if whole && policy == "Recycle" {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        out.push(Cause::forbidden(format!("{at}.persistentVolumeReclaimPolicy"), why));
    }
    if let Some(class) = spec["storageClassName"].as_str().filter(|class| !class.is_empty()) {
        if inline {
            refuse("storageClassName", out);
        } else {
            let at = format!("{at}.storageClassName");
            texts(meta::subdomain_problems(class), &spec["storageClassName"], &at, out);
        }
    }
    let mode = &spec["volumeMode"];
    match mode.as_str() {
        Some(text) if inline && text != "Filesystem" => {
            let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
            out.push(Cause::forbidden(format!("{at}.volumeMode"), why));
        }
        Some(text) if !inline && text != "Block" && text != "Filesystem" => {
            out.push(Cause::not_supported(format!("{at}.volumeMode"), mode, &["Block", "Filesystem"]));
        }
        _ => {}
    }
    if let Some(class) = spec["volumeAttributesClassName"].as_str().filter(|_| !inline) {
        let field = format!("{at}.volumeAttributesClassName");
        if class.is_empty() {
            out.push(Cause::required(&field, "an empty string is disallowed"));
        } else {
            texts(meta::subdomain_problems(class), &json!(class), &field, out);
        }
        if spec["csi"].is_null() {
            let why = "has to be specified when using volumeAttributesClassName";
            out.push(Cause::required(format!("{at}.csi"), why));
        }
    }
}

fn capacity(capacity: &Value, at: &str, out: &mut Causes) {
    if is_empty(capacity) {
        out.push(Cause::required(at, ""));
    }
    let members = meta::sorted(capacity);
    if members.len() != 1 || capacity.get("storage").is_none() {
        let shown = members.iter().map(|(k, v)| ((*k).clone(), (*v).clone()));
        let shown = if capacity.is_null() { Value::Null } else { Value::Object(shown.collect()) };
        out.push(Cause::not_supported(at, &shown, &["storage"]));
    }
    for (name, size) in members {
        let (at, given) = (format!("{at}[{name}]"), amount(size).unwrap_or(0));
        if given <= -1_000_000_000 {
            let units = json!(i64::try_from(given / 1_000_000_000).unwrap_or(i64::MIN));
            out.push(Cause::invalid(&at, &units, "must be a valid resource quantity"));
        }
        if given <= 0 {
            out.push(Cause::invalid(at, &json!(canonical(size)), "must be greater than zero"));
        }
    }
}

/// The nodes a volume can be used on.
fn node_affinity(affinity: &Value, at: &str, out: &mut Causes) {
    if affinity.is_null() {
        return;
    }
    let at = format!("{at}.required");
    if affinity["required"].is_null() {
        out.push(Cause::required(at, "must specify required node constraints"));
        return;
    }
    let (terms, at) = (&affinity["required"]["nodeSelectorTerms"], format!("{at}.nodeSelectorTerms"));
    if is_empty(terms) {
        out.push(Cause::required(at, "must have at least one node selector term"));
        return;
    }
    for (i, term) in list(terms) {
        for (j, expression) in list(&term["matchExpressions"]) {
            node_expression(expression, &format!("{at}[{i}].matchExpressions[{j}]"), out);
        }
        for (j, field) in list(&term["matchFields"]) {
            node_field(field, &format!("{at}[{i}].matchFields[{j}]"), out);
        }
    }
}

fn bad_operator(expression: &Value, at: &str, out: &mut Causes) {
    let shown = json!(expression["operator"].as_str().unwrap_or(""));
    out.push(Cause::invalid(format!("{at}.operator"), &shown, "not a valid selector operator"));
}

fn node_expression(expression: &Value, at: &str, out: &mut Causes) {
    let values = format!("{at}.values");
    let count = expression["values"].as_array().map_or(0, Vec::len);
    match (expression["operator"].as_str().unwrap_or(""), count) {
        ("In" | "NotIn", 0) => {
            out.push(Cause::required(&values, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            out.push(Cause::forbidden(&values, why));
        }
        ("Gt" | "Lt", 0 | 2..) => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            out.push(Cause::required(&values, why));
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        _ => bad_operator(expression, at, out),
    }
    let key = expression["key"].as_str().unwrap_or("");
    texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
    for (i, value) in list(&expression["values"]) {
        let problems = meta::label_value_problems(value.as_str().unwrap_or(""));
        texts(problems, value, &format!("{values}[{i}]"), out);
    }
}

fn node_field(field: &Value, at: &str, out: &mut Causes) {
    match (field["operator"].as_str().unwrap_or(""), field["values"].as_array().map_or(0, Vec::len)) {
        ("In" | "NotIn", 1) => {}
        ("In" | "NotIn", _) => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            out.push(Cause::required(format!("{at}.values"), why));
        }
        _ => bad_operator(field, at, out),
    }
    let key = field["key"].as_str().unwrap_or("");
    if key != "metadata.name" {
        out.push(Cause::invalid(format!("{at}.key"), &json!(key), "not a valid field selector key"));
        return;
    }
    for (i, value) in list(&field["values"]) {
        let problems = meta::subdomain_problems(value.as_str().unwrap_or(""));
        texts(problems, value, &format!("{at}.values[{i}]"), out);
    }
}

fn sources(spec: &Value, name: &str, at: &str, out: &mut Causes) {
    let mut given = 0;
    for (key, called) in VOLUMES {
        let source = &spec[*key];
        if !source.is_object() {
            continue;
        }
        // Volumes of a vendor's own driver are never one too many.
        if given > 0 && *key != "flexVolume" {
            let why = "may not specify more than 1 volume type";
            out.push(Cause::forbidden(format!("{at}.{called}"), why));
            continue;
        }
        given += 1;
        let field = if *key == "gcePersistentDisk" { "persistentDisk" } else { key };
        let field = format!("{at}.{field}");
        for (_, needed) in NEEDED.iter().filter(|(kind, _)| kind == key) {
            for member in needed.iter().filter(|member| is_empty(&source[**member])) {
                out.push(Cause::required(format!("{field}.{member}"), ""));
            }
        }
        source_of(key, source, name, &field, out);
        if *key == "local" && spec["nodeAffinity"].is_null() {
            let why = "Local volume requires node affinity";
            out.push(Cause::required(format!("{at}.nodeAffinity"), why));
        }
    }
    if given == 0 {
        out.push(Cause::required(at, "must specify a volume type"));
    }
}

/// What a kind of volume asks of its members beyond their being there.
fn source_of(kind: &str, source: &Value, name: &str, at: &str, out: &mut Causes) {
    let text = |key: &str| source[key].as_str().unwrap_or("");
    match kind {
        "hostPath" | "local" => {
            if text("path").split('/').any(|part| part == "..") {
                let why = "must not contain '..'";
                out.push(Cause::invalid(format!("{at}.path"), &source["path"], why));
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
            if kind == "hostPath" && !text("path").is_empty() && !kinds.contains(&text("type")) {
                out.push(Cause::not_supported(format!("{at}.type"), &source["type"], &kinds));
            }
        }
        "gcePersistentDisk" | "awsElasticBlockStore"
            if source["partition"].as_i64().is_some_and(|n| !(0..=255).contains(&n)) =>
        {
            let why = "must be between 1 and 255, inclusive";
            out.push(Cause::invalid(format!("{at}.partition"), &source["partition"], why));
        }
        "glusterfs" => match source["endpointsNamespace"].as_str() {
            Some("") => out.push(Cause::invalid(
                format!("{at}.endpointsNamespace"),
                &json!(""),
                "if the endpointnamespace is set, it must be a valid namespace name",
            )),
            Some(namespace) => {
                let at = format!("{at}.endpointsNamespace");
                texts(meta::label_problems(namespace), &source["endpointsNamespace"], &at, out);
            }
            None => {}
        },
        "flocker" => {
            match (text("datasetName").is_empty(), text("datasetUUID").is_empty()) {
                (true, true) => {
                    out.push(Cause::required(at, "one of datasetName and datasetUUID is required"));
                }
                (false, false) => {
                    let why = "datasetName and datasetUUID can not be specified simultaneously";
                    out.push(Cause::invalid(at, &json!("resource"), why));
                }
                _ => {}
            }
            if text("datasetName").contains('/') {
                let why = "must not contain '/'";
                out.push(Cause::invalid(format!("{at}.datasetName"), &source["datasetName"], why));
            }
        }
        "nfs" if !text("path").starts_with('/') => {
            let why = "must be an absolute path";
            out.push(Cause::invalid(format!("{at}.path"), &json!(text("path")), why));
        }
        "quobyte" => quobyte(source, at, out),
        "iscsi" => iscsi(source, name, at, out),
        "fc" => fibre(source, at, out),
        "flexVolume" => {
            for (key, _) in meta::sorted(&source["options"]) {
                let home = format!(".{}", key.split_once('/').map_or(key.as_str(), |(home, _)| home));
                let home = home.to_lowercase();
                if home.ends_with(".kubernetes.io") || home.ends_with(".k8s.io") {
                    let why = "kubernetes.io and k8s.io namespaces are reserved";
                    out.push(Cause::invalid(format!("{at}.options[{key}]"), &json!(key), why));
                }
            }
        }
        "azureFile" if source["secretNamespace"].as_str() == Some("") => {
            out.push(Cause::required(format!("{at}.secretNamespace"), ""));
        }
        "azureDisk" => azure(source, at, out),
        "cinder" | "storageos" => {
            for key in ["volumeName", "volumeNamespace"] {
                if kind == "storageos" && !text(key).is_empty() {
                    texts(meta::label_problems(text(key)), &source[key], &format!("{at}.{key}"), out);
                }
            }
            for key in ["name", "namespace"] {
                if source["secretRef"].is_object() && is_empty(&source["secretRef"][key]) {
                    out.push(Cause::required(format!("{at}.secretRef.{key}"), ""));
                }
            }
        }
        "csi" => csi(source, at, out),
        _ => {}
    }
}

fn quobyte(source: &Value, at: &str, out: &mut Causes) {
    let registry = source["registry"].as_str().unwrap_or("");
    let why = "must be a host:port pair or multiple pairs separated by commas";
    if registry.is_empty() {
        out.push(Cause::required(format!("{at}.registry"), why));
    } else if source["tenant"].as_str().is_some_and(|tenant| tenant.len() >= 65) {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        out.push(Cause::required(format!("{at}.tenant"), why));
    } else {
        for pair in registry.split(',') {
            let host = pair.rsplit_once(':').map(|(host, _)| host);
            let closed = |host: &str| host.starts_with('[') && host.ends_with(']');
            if !host.is_some_and(|host| closed(host) || !host.contains([':', '[', ']'])) {
                out.push(Cause::invalid(format!("{at}.registry"), &source["registry"], why));
            }
        }
    }
    if is_empty(&source["volume"]) {
        out.push(Cause::required(format!("{at}.volume"), ""));
    }
}

#[allow(clippy::expect_used, reason = "the pattern is a constant")]
static INITIATOR: LazyLock<Regex> = LazyLock::new(|| {
    let iqn =
        r"iqn.*iqn\.\d{4}-\d{2}\.[[:alnum:]\-.]+:[^,;*&$|\s]+|iqn\.\d{4}-\d{2}\.[[:alnum:]\-.]+:[^,;*&$|\s]+";
    Regex::new(&format!("^(?:{iqn}|eui.[[:alnum:]]{{16}}|naa.[[:alnum:]]{{32}})$")).expect("valid")
});

fn iscsi(source: &Value, name: &str, at: &str, out: &mut Causes) {
    let portal = source["targetPortal"].as_str().unwrap_or("");
    let initiator = source["initiatorName"].as_str();
    if initiator.is_some() && name.len() + portal.len() + 1 > 64 {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        out.push(Cause::invalid(format!("{at}.targetportal"), &json!(portal), why));
    }
    match source["iqn"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{at}.iqn"), "")),
        iqn if !INITIATOR.is_match(iqn) => {
            out.push(Cause::invalid(format!("{at}.iqn"), &json!(iqn), "must be valid format"));
        }
        _ => {}
    }
    lun(&source["lun"], at, out);
    let secret = &source["secretRef"];
    if (source["chapAuthDiscovery"] == true || source["chapAuthSession"] == true) && secret.is_null() {
        out.push(Cause::required(format!("{at}.secretRef"), ""));
    }
    if secret.is_object() && is_empty(&secret["name"]) {
        out.push(Cause::required(format!("{at}.secretRef.name"), ""));
    }
    if let Some(initiator) = initiator.filter(|initiator| !INITIATOR.is_match(initiator)) {
        out.push(Cause::invalid(format!("{at}.initiatorname"), &json!(initiator), "must be valid format"));
    }
}

fn lun(lun: &Value, at: &str, out: &mut Causes) {
    if lun.as_i64().is_some_and(|n| !(0..=255).contains(&n)) {
        out.push(Cause::invalid(format!("{at}.lun"), lun, "must be between 0 and 255, inclusive"));
    }
}

fn fibre(source: &Value, at: &str, out: &mut Causes) {
    let names = &source["targetWWNs"];
    let field = format!("{at}.targetWWNs");
    match (is_empty(names), is_empty(&source["wwids"])) {
        (true, true) => {
            out.push(Cause::required(field, "must specify either targetWWNs or wwids, but not both"));
        }
        (false, false) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            out.push(Cause::invalid(field, names, why));
        }
        _ => {}
    }
    if !is_empty(names) {
        if source["lun"].is_null() {
            out.push(Cause::required(format!("{at}.lun"), "lun is required if targetWWNs is specified"));
        }
        lun(&source["lun"], at, out);
    }
}

fn azure(source: &Value, at: &str, out: &mut Causes) {
    for (key, known) in
        [("cachingMode", ["None", "ReadOnly", "ReadWrite"]), ("kind", ["Dedicated", "Managed", "Shared"])]
    {
        if source[key].as_str().is_some_and(|word| !known.contains(&word)) {
            out.push(Cause::not_supported(format!("{at}.{key}"), &source[key], &known));
        }
    }
    let address = source["diskURI"].as_str().unwrap_or("");
    let (start, form) = match source["kind"].as_str() {
        Some("Managed") => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        Some(_) => {
            ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
        }
        None => return,
    };
    if !address.starts_with(start) {
        out.push(Cause::not_supported(format!("{at}.diskURI"), &json!(address), &[form]));
    }
}

fn csi(source: &Value, at: &str, out: &mut Causes) {
    driver_problems(&source["driver"], &format!("{at}.driver"), out);
    if is_empty(&source["volumeHandle"]) {
        out.push(Cause::required(format!("{at}.volumeHandle"), ""));
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
                "" => out.push(Cause::required(format!("{at}.{member}"), "")),
                text => texts(problems(text), &secret[member], &format!("{at}.{member}"), out),
            }
        }
    }
}
