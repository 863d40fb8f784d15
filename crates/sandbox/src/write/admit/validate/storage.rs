//! Validation of volumes, claims and the classes they are of.

use serde_json::{Value, json};

use super::{
    CauseList, add_problems, check_known, check_one_of, indexed_items, is_empty, validate_label_selector,
};
use crate::status::StatusCause;
use crate::write::admit::amounts::nanos_of;
use crate::write::admit::meta;

/// Names of drivers may have capital letters.
const DRIVER: &str = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'Example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

pub(in crate::write) fn validate_claim(spec: &Value, field: &str, out: &mut CauseList) {
    validate_claim_update(spec, field, None, out);
}

/// A claim, or a changed one that had the spec `old`.
pub(in crate::write) fn validate_claim_update(
    spec: &Value,
    field: &str,
    old: Option<&Value>,
    out: &mut CauseList,
) {
    if is_empty(&spec["accessModes"]) {
        out.push(StatusCause::required(format!("{field}.accessModes"), "at least 1 access mode is required"));
    }
    validate_label_selector(&spec["selector"], &format!("{field}.selector"), out);
    validate_access_modes(spec, field, out);
    match spec["resources"]["requests"].get("storage") {
        None => out.push(StatusCause::required(format!("{field}.resources[storage]"), "")),
        Some(size) => {
            if nanos_of(size).is_some_and(|a| a <= 0) {
                out.push(StatusCause::invalid(
                    format!("{field}.resources[storage]"),
                    size,
                    "must be greater than zero",
                ));
            }
        }
    }
    let class_name = |key: &str, out: &mut CauseList| {
        if let Some(class) = spec[key].as_str().filter(|c| !c.is_empty()) {
            add_problems(meta::subdomain_problems(class), &spec[key], &format!("{field}.{key}"), out);
        }
    };
    class_name("storageClassName", out);
    if spec["volumeMode"].as_str().is_some_and(|mode| !matches!(mode, "Block" | "Filesystem")) {
        let known = ["Block", "Filesystem"];
        out.push(StatusCause::not_supported(format!("{field}.volumeMode"), &spec["volumeMode"], &known));
    }
    validate_data_sources(spec, field, old, out);
    class_name("volumeAttributesClassName", out);
}

/// Validates the data sources of a claim.
fn validate_data_sources(spec: &Value, field: &str, old: Option<&Value>, out: &mut CauseList) {
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
                out.push(StatusCause::required(format!("{at}.{member}"), ""));
            }
        }
        match source["apiGroup"].as_str().unwrap_or("") {
            "" if source["kind"] != "PersistentVolumeClaim" => {
                let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
                out.push(StatusCause::invalid(&at, &json!(source["kind"].as_str().unwrap_or("")), why));
            }
            "" => {}
            group if !lenient => {
                add_problems(
                    meta::subdomain_problems(group),
                    &source["apiGroup"],
                    &format!("{at}.apiGroup"),
                    out,
                );
            }
            _ => {}
        }
        if let Some(namespace) = source["namespace"].as_str().filter(|namespace| !namespace.is_empty()) {
            add_problems(
                meta::label_problems(namespace),
                &source["namespace"],
                &format!("{at}.namespace"),
                out,
            );
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
    out.push(StatusCause::invalid(field, &json!(format!("{field}.dataSource")), why));
}

pub(in crate::write) fn validate_access_modes(spec: &Value, field: &str, out: &mut CauseList) {
    const MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
    let at = format!("{field}.accessModes");
    let (mut alone, mut shared) = (false, false);
    for (_, mode) in indexed_items(&spec["accessModes"]) {
        match mode.as_str().filter(|mode| MODES.contains(mode)) {
            None => out.push(StatusCause::not_supported(&at, mode, MODES)),
            Some("ReadWriteOncePod") => alone = true,
            Some(_) => shared = true,
        }
    }
    if alone && shared {
        out.push(StatusCause::forbidden(at, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// Validates the attacher, source and node of an attachment. An update reports the attacher first,
/// and in other words.
pub(in crate::write) fn validate_attachment(spec: &Value, new: bool, out: &mut CauseList) {
    if !new {
        super::names::validate_csi_driver_name(spec["attacher"].as_str().unwrap_or(""), "spec.attacher", out);
    }
    let source = &spec["source"];
    let (named, at) = (&source["persistentVolumeName"], "spec.source.persistentVolumeName");
    let why = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
    match (named.as_str(), source["inlineVolumeSpec"].is_object()) {
        (None, false) => out.push(StatusCause::required("spec.source", why)),
        (Some(_), true) => out.push(StatusCause::forbidden("spec.source", why)),
        (Some(""), false) => {
            out.push(StatusCause::required(at, "must specify non empty persistentVolumeName"));
        }
        (Some(_), false) => {}
        (None, true) => {
            super::volume::validate_inline_volume(
                &source["inlineVolumeSpec"],
                "spec.source.inlineVolumeSpec",
                out,
            );
        }
    }
    let node = spec["nodeName"].as_str().unwrap_or("");
    add_problems(meta::subdomain_problems(node), &json!(node), "spec.nodeName", out);
    if let Some(name) = named.as_str() {
        add_problems(meta::subdomain_problems(name), named, at, out);
    }
    if !new {
        return;
    }
    match spec["attacher"].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required("spec.attacher", "")),
        name => {
            let lower = name.to_lowercase();
            let problems = [
                (lower.len() > 253, "must be no more than 253 bytes"),
                (!meta::is_subdomain(&lower), DRIVER),
            ];
            for (_, why) in problems.iter().filter(|(holds, _)| *holds) {
                out.push(StatusCause::invalid("spec.attacher", &spec["attacher"], why));
            }
            if name.chars().count() > 63 {
                let message = "Too long: may not be more than 63 characters".to_owned();
                out.push(StatusCause { message, ..StatusCause::too_long("spec.attacher", 63) });
            }
        }
    }
}

pub(in crate::write) fn validate_csi_driver(spec: &Value, out: &mut CauseList) {
    let policies = &["File", "None", "ReadWriteOnceWithFSType"];
    check_known(&spec["fsGroupPolicy"], "spec.fsGroupPolicy".into(), policies, out);
    let mut audiences = Vec::new();
    for (i, request) in indexed_items(&spec["tokenRequests"]) {
        let audience = request["audience"].as_str().unwrap_or("");
        if audiences.contains(&audience) {
            let at = format!("spec.tokenRequests[{i}].audience");
            out.push(StatusCause::duplicate(at, &json!(audience)));
            continue;
        }
        audiences.push(audience);
        let why = match request["expirationSeconds"].as_i64() {
            Some(seconds) if seconds < 600 => "may not specify a duration less than 10 minutes",
            Some(seconds) if seconds > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
            _ => continue,
        };
        let at = format!("spec.tokenRequests[{i}].expirationSeconds");
        out.push(StatusCause::invalid(at, &request["expirationSeconds"], why));
    }
    for (_, mode) in indexed_items(&spec["volumeLifecycleModes"]) {
        if !matches!(mode.as_str(), Some("Persistent" | "Ephemeral")) {
            out.push(StatusCause::not_supported(
                "spec.volumeLifecycleModes",
                mode,
                &["Persistent", "Ephemeral"],
            ));
        }
    }
    let period = &spec["nodeAllocatableUpdatePeriodSeconds"];
    if period.as_i64().is_some_and(|seconds| seconds < 10) {
        let why = "must be greater than or equal to 10 seconds";
        out.push(StatusCause::invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, why));
    }
}

pub(in crate::write) fn validate_storage_capacity(object: &Value, out: &mut CauseList) {
    validate_label_selector(&object["nodeTopology"], "nodeTopology", out);
    for key in ["capacity", "maximumVolumeSize"] {
        if nanos_of(&object[key]).is_some_and(|amount| amount < 0) {
            out.push(StatusCause::invalid(key, &object[key], "must be greater than or equal to 0"));
        }
    }
    let class = object["storageClassName"].as_str().unwrap_or("");
    add_problems(meta::subdomain_problems(class), &json!(class), "storageClassName", out);
}

pub(in crate::write) fn validate_attributes_class(object: &Value, out: &mut CauseList) {
    validate_provisioner(object, "driverName", out);
    validate_parameters(&object["parameters"], out);
    if is_empty(&object["parameters"]) {
        out.push(StatusCause::required("parameters", "must contain at least one key/value pair"));
    }
}

/// Validates the provisioner of a class, at the member `key`.
fn validate_provisioner(object: &Value, key: &str, out: &mut CauseList) {
    match object[key].as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(key, "")),
        name => {
            let name = name.to_lowercase();
            add_problems(meta::qualified_problems(&name), &json!(name), key, out);
        }
    }
}

pub(in crate::write) fn validate_storage_class(object: &Value, out: &mut CauseList) {
    if !is_empty(&object["provisioner"]) {
        validate_provisioner(object, "provisioner", out);
    }
    validate_parameters(&object["parameters"], out);
    if !is_empty(&object["reclaimPolicy"]) {
        check_one_of(&object["reclaimPolicy"], "reclaimPolicy".into(), &["Delete", "Retain"], out);
    }
    match object["volumeBindingMode"].as_str() {
        None => out.push(StatusCause::required("volumeBindingMode", "")),
        Some("Immediate" | "WaitForFirstConsumer") => {}
        Some(_) => out.push(StatusCause::not_supported(
            "volumeBindingMode",
            &object["volumeBindingMode"],
            &["Immediate", "WaitForFirstConsumer"],
        )),
    }
    validate_topologies(&object["allowedTopologies"], out);
    if is_empty(&object["provisioner"]) {
        out.push(StatusCause::required("provisioner", ""));
    }
}

/// Validates the parameters of a provisioner.
fn validate_parameters(parameters: &Value, out: &mut CauseList) {
    const LARGEST: usize = 256 * 1024;
    let members = meta::sorted_members(parameters);
    if members.len() > 512 {
        out.push(StatusCause::too_long("parameters", 512));
        return;
    }
    if parameters.get("").is_some() {
        out.push(StatusCause::invalid("parameters", &json!(""), "field can not be empty."));
    }
    let size: usize = members.iter().map(|(k, v)| k.len() + v.as_str().map_or(0, str::len)).sum();
    if size > LARGEST {
        out.push(StatusCause::too_long("parameters", LARGEST));
    }
}

/// Validates the topologies of a class. Terms are compared by their meaning; an empty one is
/// equal to the ones before it that were not compared yet.
fn validate_topologies(terms: &Value, out: &mut CauseList) {
    let all = terms.as_array().map_or(0, Vec::len);
    let mut known = vec![std::collections::BTreeMap::new(); all];
    for (i, term) in indexed_items(terms) {
        let at = format!("allowedTopologies[{i}].matchLabelExpressions");
        let mut meaning = std::collections::BTreeMap::new();
        for (j, expression) in indexed_items(&term["matchLabelExpressions"]) {
            let at = format!("{at}[{j}]");
            let mut values = std::collections::BTreeSet::new();
            if is_empty(&expression["values"]) {
                out.push(StatusCause::required(format!("{at}.values"), ""));
            }
            for (k, value) in indexed_items(&expression["values"]) {
                if !values.insert(value.as_str().unwrap_or("").to_owned()) {
                    out.push(StatusCause::duplicate(format!("{at}.values[{k}]"), value));
                }
            }
            let key = expression["key"].as_str().unwrap_or("");
            add_problems(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
            if meaning.insert(key.to_owned(), values).is_some() {
                out.push(StatusCause::duplicate(format!("{at}.key"), &json!(key)));
            }
        }
        for _ in known.iter().filter(|before| **before == meaning) {
            out.push(StatusCause::duplicate(&at, &json!("")));
        }
        known.push(meaning);
    }
}
