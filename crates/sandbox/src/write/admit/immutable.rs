//! Fields that an update may not change.

use serde_json::{Value, json};
use slipway_manifest::decode::VOLUME_FIELDS;

use super::validate::{go_internal, indexed_items};
use crate::status::StatusCause;
use crate::write::kinds::strategy_of;

pub(in crate::write) const IMMUTABLE: &str = "field is immutable";

fn value_at<'a>(object: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(object, |v, key| &v[key])
}

/// Checks that an update changes none of the fields that never change, nor anything else its kind forbids.
pub(crate) fn check_immutable(kind: (&str, &str), new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let strategy = strategy_of(kind);
    for path in strategy.fixed_fields() {
        if value_at(new, path) != value_at(old, path) {
            let mut shown = value_at(new, path).clone();
            if kind == ("networking.k8s.io", "IngressClass") && shown.is_null() {
                shown = json!("");
            }
            if *path == "roleRef" {
                // This type is printed by its Go field names.
                shown = json!({"APIGroup": shown["apiGroup"], "Kind": shown["kind"], "Name": shown["name"]});
            }
            if *path == "spec.volumeClaimTemplates" && shown.is_array() {
                shown = Value::Array(indexed_items(&shown).map(|(_, claim)| internal_claim(claim)).collect());
            }
            if kind == ("resource.k8s.io", "ResourceClaimTemplate") {
                shown = internal_devices(&shown);
            }
            if matches!(
                kind,
                ("storage.k8s.io", "StorageClass" | "VolumeAttachment")
                    | ("discovery.k8s.io" | "node.k8s.io", _)
                    | ("resource.k8s.io", "ResourceClaim")
                    | ("networking.k8s.io", "IPAddress")
            ) {
                shown = Value::Null;
            }
            out.push(StatusCause::invalid(*path, &shown, IMMUTABLE));
        }
    }
    strategy.check_immutable(new, old, out);
}

/// Checks that a driver does not change how it mounts.
pub(in crate::write) fn check_driver(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    if new["attachRequired"] != old["attachRequired"] {
        out.push(StatusCause::invalid("spec.attachedRequired", &new["attachRequired"], IMMUTABLE));
    }
    let modes = "volumeLifecycleModes";
    if new[modes] != old[modes] {
        out.push(StatusCause::invalid(format!("spec.{modes}"), &new[modes], IMMUTABLE));
    }
}

/// The spec of a claim to devices, or of a template of one, as Go prints its internal type.
fn internal_devices(spec: &Value) -> Value {
    if spec["devices"].is_null() {
        let metadata = spec["metadata"].as_object().cloned().unwrap_or_default();
        let mut out = serde_json::Map::from_iter(metadata);
        let inner = &spec["spec"];
        let inner = if inner["devices"].is_null() { json!({"devices": {}}) } else { inner.clone() };
        out.insert("Spec".into(), internal_devices(&inner));
        return Value::Object(out);
    }
    let exactly = [
        ("DeviceClassName", "deviceClassName"),
        ("Selectors", "selectors"),
        ("AllocationMode", "allocationMode"),
        ("Count", "count"),
        ("AdminAccess", "adminAccess"),
        ("Tolerations", "tolerations"),
        ("Capacity", "capacity"),
        ("DerivedAttributes", "derivedAttributes"),
    ];
    let requests = spec["devices"]["requests"].as_array().map(|all| {
        let one = |request: &Value| {
            let chosen = &request["exactly"];
            let chosen = if chosen.is_null() { Value::Null } else { go_internal(chosen, &exactly) };
            json!({"Name": request["name"], "Exactly": chosen, "FirstAvailable": request["firstAvailable"]})
        };
        all.iter().map(one).collect::<Vec<_>>()
    });
    let devices = &spec["devices"];
    json!({"Devices": {
        "Requests": requests, "Constraints": devices["constraints"], "Config": devices["config"],
    }})
}

/// A claim as Go prints its internal type: metadata's members at the top, the rest by Go field names.
fn internal_claim(claim: &Value) -> Value {
    let mut out = claim["metadata"].as_object().cloned().unwrap_or_default();
    let spec = &claim["spec"];
    let resources = &spec["resources"];
    let source = |key: &str, names: &[(&str, &str)]| {
        let mut shown =
            if spec[key].is_object() { go_internal(&spec[key], names) } else { return Value::Null };
        for (go, _) in names.iter().filter(|(go, _)| matches!(*go, "Kind" | "Name")) {
            shown[*go] = json!(shown[*go].as_str().unwrap_or(""));
        }
        shown
    };
    out.insert(
        "Spec".into(),
        json!({
            "AccessModes": spec["accessModes"],
            "Selector": spec["selector"],
            "Resources": {"Limits": resources["limits"], "Requests": resources["requests"]},
            "VolumeName": spec["volumeName"].as_str().unwrap_or(""),
            "StorageClassName": spec["storageClassName"],
            "VolumeMode": spec["volumeMode"],
            "DataSource": source("dataSource", &[("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name")]),
            "DataSourceRef": source(
                "dataSourceRef",
                &[("APIGroup", "apiGroup"), ("Kind", "kind"), ("Name", "name"), ("Namespace", "namespace")],
            ),
            "VolumeAttributesClassName": spec["volumeAttributesClassName"],
        }),
    );
    let mut status = json!({"Phase": claim["status"]["phase"].as_str().unwrap_or("Pending")});
    for (go, key) in [
        ("AccessModes", "accessModes"),
        ("Capacity", "capacity"),
        ("Conditions", "conditions"),
        ("AllocatedResources", "allocatedResources"),
        ("AllocatedResourceStatuses", "allocatedResourceStatuses"),
        ("CurrentVolumeAttributesClassName", "currentVolumeAttributesClassName"),
    ] {
        status[go] = claim["status"][key].clone();
    }
    let inner = |key: &str, names: &[(&str, &str)]| {
        let part = &claim["status"][key];
        if part.is_object() { go_internal(part, names) } else { Value::Null }
    };
    status["ModifyVolumeStatus"] = inner(
        "modifyVolumeStatus",
        &[("TargetVolumeAttributesClassName", "targetVolumeAttributesClassName"), ("Status", "status")],
    );
    status["HealthStatus"] = inner(
        "healthStatus",
        &[("HealthConditions", "healthConditions"), ("LastTransitionTime", "lastTransitionTime")],
    );
    out.insert("Status".into(), status);
    Value::Object(out)
}

/// Checks that a definition keeps the kind and scope of its objects.
pub(in crate::write) fn check_definition(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let established = indexed_items(&old["status"]["conditions"])
        .any(|(_, c)| c["type"] == "Established" && c["status"] == "True");
    let kind = |v: &Value| v["spec"]["names"]["kind"].clone();
    if established && kind(new) != kind(old) {
        out.push(StatusCause::invalid("spec.names.kind", &kind(new), IMMUTABLE));
    }
}

pub(in crate::write) fn check_frozen_data(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    if old["immutable"] != true {
        return;
    }
    const WHY: &str = "field is immutable when `immutable` is set";
    if new["immutable"] != true {
        out.push(StatusCause::forbidden("immutable", WHY));
    }
    for key in ["data", "binaryData"] {
        if new[key] != old[key] {
            out.push(StatusCause::forbidden(key, WHY));
        }
    }
}

pub(in crate::write) fn check_claim(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let bound = old["status"]["phase"] == "Bound";
    let mut allowed = new["spec"].clone();
    // A claim is bound by naming its volume, once.
    if old["spec"]["volumeName"].as_str().unwrap_or("").is_empty() {
        allowed["volumeName"] = old["spec"]["volumeName"].clone();
    }
    if allowed["storageClassName"].is_string() && old["spec"]["storageClassName"].is_null() {
        allowed["storageClassName"] = Value::Null;
    }
    // A claim that could not grow may ask for less again, but for more than it has.
    let shrinks = {
        let amount = |list: &Value| list.get("storage").and_then(super::amounts::nanos_of).unwrap_or(0);
        let size = |v: &Value| amount(&v["spec"]["resources"]["requests"]);
        size(new) < size(old) && size(new) <= amount(&old["status"]["capacity"])
    };
    if bound {
        allowed["resources"]["requests"] = old["spec"]["resources"]["requests"].clone();
        allowed["volumeAttributesClassName"] = old["spec"]["volumeAttributesClassName"].clone();
    }
    let bare = |v: &Value| -> Value {
        Value::Object(
            v.as_object()
                .into_iter()
                .flatten()
                .filter(|(_, v)| !v.is_null())
                .map(|(k, v)| (k.clone(), v.clone()))
                .collect(),
        )
    };
    if bare(&allowed) != bare(&old["spec"]) {
        out.push(StatusCause::forbidden(
            "spec",
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims",
        ));
    }
    if shrinks {
        let why = "field can not be less than status.capacity";
        out.push(StatusCause::forbidden("spec.resources.requests.storage", why));
    }
    if new["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        out.push(StatusCause::invalid("volumeMode", &new["spec"]["volumeMode"], IMMUTABLE));
    }
}

/// Checks that a volume keeps its source.
pub(in crate::write) fn check_volume(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let source = |v: &Value| -> Vec<(String, Value)> {
        let members = v["spec"].as_object().into_iter().flatten();
        members
            .filter(|(k, _)| !VOLUME_FIELDS.contains(&k.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect()
    };
    if source(new) != source(old) {
        let field = "spec.persistentvolumesource";
        out.push(StatusCause::forbidden(field, "spec.persistentvolumesource is immutable after creation"));
    }
    if new["spec"]["volumeMode"] != old["spec"]["volumeMode"] {
        out.push(StatusCause::invalid("volumeMode", &new["spec"]["volumeMode"], IMMUTABLE));
    }
}

pub(in crate::write) fn check_job(new: &Value, old: &Value, out: &mut Vec<StatusCause>) {
    let completions = &new["spec"]["completions"];
    if *completions != old["spec"]["completions"] {
        let indexed = new["spec"]["completionMode"] == "Indexed";
        if !indexed {
            out.push(StatusCause::invalid("spec.completions", completions, IMMUTABLE));
        } else if *completions != new["spec"]["parallelism"] && !completions.is_null() {
            let why = "can only be modified in tandem with spec.parallelism";
            out.push(StatusCause::invalid("spec.completions", completions, why));
        }
    }
    if new["spec"]["selector"] != old["spec"]["selector"] {
        out.push(StatusCause::invalid("spec.selector", &new["spec"]["selector"], IMMUTABLE));
    }
    let suspended = old["spec"]["suspend"] == true && old["status"]["startTime"].is_null();
    job_template(&new["spec"]["template"], &old["spec"]["template"], suspended, out);
    for key in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
        if new["spec"][key] != old["spec"][key] {
            let shown = match key {
                "podFailurePolicy" => internal_policy(&new["spec"][key]),
                "successPolicy" => internal_success(&new["spec"][key]),
                _ => new["spec"][key].clone(),
            };
            out.push(StatusCause::invalid(format!("spec.{key}"), &shown, IMMUTABLE));
        }
    }
}

/// Checks the template of a job: before it starts, scheduling and resources may still change.
fn job_template(new: &Value, old: &Value, suspended: bool, out: &mut Vec<StatusCause>) {
    if !suspended {
        if new != old {
            out.push(StatusCause::invalid("spec.template", new, IMMUTABLE));
        }
        return;
    }
    let mut was = old["spec"].clone();
    let now = &new["spec"];
    let take = |was: &mut Value, now: &Value, key: &str| {
        was[key] = now[key].clone();
        super::default::remove_null(was, key);
    };
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(&mut was, now, key);
    }
    // Node affinity may change, pod affinity may not.
    if now["affinity"].is_object() || was["affinity"].is_object() {
        if !was["affinity"].is_object() {
            was["affinity"] = json!({});
        }
        take(&mut was["affinity"], &now["affinity"], "nodeAffinity");
        if now["affinity"].is_null() && was["affinity"] == json!({}) {
            was["affinity"] = Value::Null;
        }
    }
    super::default::remove_null(&mut was, "affinity");
    for (i, container) in indexed_items(&now["containers"]) {
        if was["containers"].get(i).is_some_and(|was| was["name"] == container["name"]) {
            was["containers"][i]["resources"] = container["resources"].clone();
        }
    }
    if was != *now {
        out.push(StatusCause::invalid("spec.template.spec", now, IMMUTABLE));
    }
}

/// A success policy as Go prints its internal type.
fn internal_success(policy: &Value) -> Value {
    if !policy.is_object() {
        return Value::Null;
    }
    let names = [("SucceededIndexes", "succeededIndexes"), ("SucceededCount", "succeededCount")];
    let rules = policy["rules"].as_array();
    let rules = rules.map(|all| all.iter().map(|rule| go_internal(rule, &names)).collect::<Vec<_>>());
    json!({"Rules": rules})
}

/// A failure policy as Go prints its internal type.
fn internal_policy(policy: &Value) -> Value {
    if !policy.is_object() {
        return Value::Null;
    }
    let rules = policy["rules"].as_array().map(|rules| {
        let rule = |rule: &Value| {
            let codes = &rule["onExitCodes"];
            let codes = codes.is_object().then(|| {
                json!({
                    "ContainerName": codes["containerName"], "Operator": codes["operator"],
                    "Values": codes["values"],
                })
            });
            let conditions = rule["onPodConditions"].as_array().map(|all| {
                let one = |c: &Value| json!({"Type": c["type"], "Status": c["status"]});
                all.iter().map(one).collect::<Vec<_>>()
            });
            json!({"Action": rule["action"], "OnExitCodes": codes, "OnPodConditions": conditions})
        };
        rules.iter().map(rule).collect::<Vec<_>>()
    });
    json!({"Rules": rules})
}
