//! Validation of volumes, claims and the classes they are of.

use serde_json::{Value, json};

use super::{Causes, is_empty, known, label_selector, list, one_of, texts};
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::quota::amount;

/// Names of drivers may have capitals.
const DRIVER: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(super) fn claim(spec: &Value, field: &str, out: &mut Causes) {
    claim_over(spec, field, None, out);
}

/// A claim, or a changed one that had the spec `old`.
pub(super) fn claim_over(spec: &Value, field: &str, old: Option<&Value>, out: &mut Causes) {
    if is_empty(&spec["accessModes"]) {
        out.push(Cause::required(format!("{field}.accessModes"), "at least 1 access mode is required"));
    }
    label_selector(&spec["selector"], &format!("{field}.selector"), out);
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
    let class_name = |key: &str, out: &mut Causes| {
        if let Some(class) = spec[key].as_str().filter(|c| !c.is_empty()) {
            texts(meta::subdomain_problems(class), &spec[key], &format!("{field}.{key}"), out);
        }
    };
    class_name("storageClassName", out);
    if spec["volumeMode"].as_str().is_some_and(|mode| !matches!(mode, "Block" | "Filesystem")) {
        let known = ["Block", "Filesystem"];
        out.push(Cause::not_supported(format!("{field}.volumeMode"), &spec["volumeMode"], &known));
    }
    data_sources(spec, field, old, out);
    class_name("volumeAttributesClassName", out);
}

/// What a claim's volume is filled with.
fn data_sources(spec: &Value, field: &str, old: Option<&Value>, out: &mut Causes) {
    let lenient = old.is_some_and(|old| {
        !old["dataSource"]["apiGroup"].is_null() || !old["dataSourceRef"]["apiGroup"].is_null()
    });
    for key in ["dataSource", "dataSourceRef"] {
        let (source, at) = (&spec[key], format!("{field}.{key}"));
        if !source.is_object() {
            continue;
        }
        for member in ["name", "kind"] {
            if is_empty(&source[member]) {
                out.push(Cause::required(format!("{at}.{member}"), ""));
            }
        }
        match source["apiGroup"].as_str().unwrap_or("") {
            "" if source["kind"] != "PersistentVolumeClaim" => {
                let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                out.push(Cause::invalid(&at, &json!(source["kind"].as_str().unwrap_or("")), why));
            }
            "" => {}
            group if !lenient => {
                texts(meta::subdomain_problems(group), &source["apiGroup"], &format!("{at}.apiGroup"), out);
            }
            _ => {}
        }
        if let Some(namespace) = source["namespace"].as_str().filter(|namespace| !namespace.is_empty()) {
            texts(meta::label_problems(namespace), &source["namespace"], &format!("{at}.namespace"), out);
        }
    }
    let (source, other) = (&spec["dataSource"], &spec["dataSourceRef"]);
    if !source.is_object() || !other.is_object() {
        return;
    }
    let why = if !is_empty(&other["namespace"]) {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if ["apiGroup", "kind", "name"].iter().any(|key| source[*key] != other[*key]) {
        "must match dataSourceRef"
    } else {
        return;
    };
    out.push(Cause::invalid(field, &json!(format!("{field}.dataSource")), why));
}

pub(super) fn access_modes(spec: &Value, field: &str, out: &mut Causes) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let at = format!("{field}.accessModes");
    let (mut alone, mut shared) = (false, false);
    for (_, mode) in list(&spec["accessModes"]) {
        match mode.as_str().filter(|mode| MODES.contains(mode)) {
            None => out.push(Cause::not_supported(&at, mode, MODES)),
            Some("ReadWriteOncePod") => alone = true,
            Some(_) => shared = true,
        }
    }
    if alone && shared {
        out.push(Cause::forbidden(at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// What an attachment says of who attaches what where. A changed one names its attacher first,
/// and in other words.
pub(super) fn attachment(spec: &Value, new: bool, out: &mut Causes) {
    if !new {
        super::names::driver(spec["attacher"].as_str().unwrap_or(""), "spec.attacher", out);
    }
    let source = &spec["source"];
    let (named, at) = (&source["persistentVolumeName"], "spec.source.persistentVolumeName");
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (named.as_str(), source["inlineVolumeSpec"].is_object()) {
        (None, false) => out.push(Cause::required("spec.source", why)),
        (Some(_), true) => out.push(Cause::forbidden("spec.source", why)),
        (Some(""), false) => out.push(Cause::required(at, "must specify non empty persistentVolumeName")),
        (Some(_), false) => {}
        (None, true) => {
            super::volume::inline(&source["inlineVolumeSpec"], "spec.source.inlineVolumeSpec", out);
        }
    }
    let node = spec["nodeName"].as_str().unwrap_or("");
    texts(meta::subdomain_problems(node), &json!(node), "spec.nodeName", out);
    if let Some(name) = named.as_str() {
        texts(meta::subdomain_problems(name), named, at, out);
    }
    if !new {
        return;
    }
    match spec["attacher"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.attacher", "")),
        name => {
            for why in meta::subdomain_problems(&name.to_lowercase()) {
                let why =
                    if why.starts_with("a lowercase") { DRIVER } else { "must be no more than 253 bytes" };
                out.push(Cause::invalid("spec.attacher", &spec["attacher"], why));
            }
            if name.chars().count() > 63 {
                let message = "Too long: may not be more than 63 characters".to_owned();
                out.push(Cause { message, ..Cause::too_long("spec.attacher", 63) });
            }
        }
    }
}

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
    label_selector(&object["nodeTopology"], "nodeTopology", out);
    for key in ["capacity", "maximumVolumeSize"] {
        if amount(&object[key]).is_some_and(|amount| amount < 0) {
            out.push(Cause::invalid(key, &object[key], "must be greater than or equal to 0"));
        }
    }
    let class = object["storageClassName"].as_str().unwrap_or("");
    texts(meta::subdomain_problems(class), &json!(class), "storageClassName", out);
}

pub(super) fn attributes_class(object: &Value, out: &mut Causes) {
    driver_name(object, "driverName", out);
    parameters(&object["parameters"], out);
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
    if !is_empty(&object["provisioner"]) {
        driver_name(object, "provisioner", out);
    }
    parameters(&object["parameters"], out);
    if !is_empty(&object["reclaimPolicy"]) {
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
    topologies(&object["allowedTopologies"], out);
    if is_empty(&object["provisioner"]) {
        out.push(Cause::required("provisioner", ""));
    }
}

/// What the provider is told.
fn parameters(parameters: &Value, out: &mut Causes) {
    const LARGEST: usize = 256 * 1024;
    let members = meta::sorted(parameters);
    if members.len() > 512 {
        out.push(Cause::too_long("parameters", 512));
        return;
    }
    if parameters.get("").is_some() {
        out.push(Cause::invalid("parameters", &json!(""), "field can not be empty."));
    }
    let size: usize = members.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > LARGEST {
        out.push(Cause::too_long("parameters", LARGEST));
    }
}

/// Where volumes of a class can be made. Terms are compared by what they mean; one that means nothing is
/// like the ones before it that were not looked at yet.
fn topologies(terms: &Value, out: &mut Causes) {
    let all = terms.as_array().map_or(0, Vec::len);
    let mut known = vec![std::collections::BTreeMap::new(); all];
    for (i, term) in list(terms) {
        let at = format!("allowedTopologies[{i}].matchLabelExpressions");
        let mut meaning = std::collections::BTreeMap::new();
        for (j, expression) in list(&term["matchLabelExpressions"]) {
            let at = format!("{at}[{j}]");
            let mut values = std::collections::BTreeSet::new();
            if is_empty(&expression["values"]) {
                out.push(Cause::required(format!("{at}.values"), ""));
            }
            for (k, value) in list(&expression["values"]) {
                if !values.insert(value.as_str().unwrap_or("").to_owned()) {
                    out.push(Cause::duplicate(format!("{at}.values[{k}]"), value));
                }
            }
            let key = expression["key"].as_str().unwrap_or("");
            texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
            if meaning.insert(key.to_owned(), values).is_some() {
                out.push(Cause::duplicate(format!("{at}.key"), &json!(key)));
            }
        }
        for _ in known.iter().filter(|before| **before == meaning) {
            out.push(Cause::duplicate(&at, &json!("")));
        }
        known.push(meaning);
    }
}
