//! Validation of built-in kinds, in the order and words of a real server.

mod address;
mod autoscaler;
mod cluster;
mod config;
mod device;
mod flow;
mod hooks;
mod job;
mod limits;
mod names;
mod network;
mod node;
mod pod;
mod policies;
mod service;
mod storage;
mod volume;
mod workload;

use serde_json::{Value, json};

use super::meta;
use crate::status::StatusCause;

pub(crate) use cluster::validate_service_cidr_update;
pub(crate) use config::validate_newer_event;
pub(crate) use device::validate_declared_claim;
pub(crate) use pod::port_name_problems;
pub(crate) use service::validate_cluster_ips;

/// A list of causes being collected.
pub(crate) type CauseList = Vec<StatusCause>;

/// Validates a new built-in object, or an updated one against `old`.
pub(crate) fn validate_object(kind: (&str, &str), object: &Value, old: Option<&Value>, out: &mut CauseList) {
    match kind {
        ("", "Pod") => pod::validate_pod(object, old.is_some(), out),
        ("", "PodTemplate") => pod::validate_template(&object["template"], "template", out),
        ("", "ReplicationController") => workload::validate_replication_controller(object, out),
        ("apps", "Deployment") => workload::validate_deployment(&object["spec"], out),
        ("apps", "ReplicaSet") => workload::validate_replica_set(&object["spec"], out),
        ("apps", "StatefulSet") => workload::validate_stateful_set(&object["spec"], old.is_none(), out),
        ("apps", "ControllerRevision") => workload::validate_revision(object, old.is_none(), out),
        ("apps", "DaemonSet") => workload::validate_daemon_set(&object["spec"], out),
        ("batch", "Job") => job::validate_job(object, old.is_none(), out),
        ("batch", "CronJob") => job::validate_cron_job(object, old, out),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::validate_autoscaler(&object["spec"], out),
        ("policy", "PodDisruptionBudget") => workload::validate_disruption_budget(&object["spec"], out),
        ("", "Service") => service::validate_service(object, old, out),
        ("networking.k8s.io", "Ingress") => network::validate_ingress(&object["spec"], out),
        ("networking.k8s.io", "IngressClass") => network::validate_ingress_class(&object["spec"], out),
        ("networking.k8s.io", "NetworkPolicy") => network::validate_network_policy(&object["spec"], old, out),
        ("discovery.k8s.io", "EndpointSlice") => service::validate_endpoint_slice(object, old, out),
        ("", "Endpoints") => service::validate_endpoints(object, old, out),
        ("", "ConfigMap") => config::validate_config_map(object, out),
        ("", "Secret") => config::validate_secret(object, out),
        ("", "PersistentVolumeClaim") => {
            storage::validate_claim_update(&object["spec"], "spec", old.map(|old| &old["spec"]), out);
        }
        ("", "PersistentVolume") => volume::validate_volume(object, out),
        ("", "Namespace") => node::validate_namespace(object, old, out),
        ("", "Node") => node::validate_node(object, old, out),
        ("storage.k8s.io", "VolumeAttachment") => {
            storage::validate_attachment(&object["spec"], old.is_none(), out);
        }
        ("", "LimitRange") => limits::validate_limit_range(&object["spec"], out),
        ("", "ResourceQuota") => limits::validate_quota(&object["spec"], old, out),
        ("certificates.k8s.io", "CertificateSigningRequest") if old.is_none() => {
            config::validate_certificate_request(&object["spec"], out);
        }
        ("", "Event") => config::validate_event(object, out),
        ("rbac.authorization.k8s.io", "Role") => config::validate_role(object, true, out),
        ("rbac.authorization.k8s.io", "ClusterRole") => config::validate_role(object, false, out),
        ("rbac.authorization.k8s.io", "RoleBinding") => config::validate_role_binding(object, true, out),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => {
            config::validate_role_binding(object, false, out);
        }
        ("storage.k8s.io", "StorageClass") => storage::validate_storage_class(object, out),
        ("scheduling.k8s.io", "PriorityClass") => config::validate_priority_class(object, old.is_none(), out),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => {
            hooks::validate_webhooks(object, out);
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => {
            hooks::validate_webhooks(object, out);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => {
            policies::validate_policy(object, out);
        }
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            policies::validate_policy_binding(&object["spec"], out);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            policies::validate_mutating_policy(&object["spec"], out);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            policies::validate_mutating_binding(&object["spec"], out);
        }
        ("apiregistration.k8s.io", "APIService") => cluster::validate_api_service(object, out),
        ("networking.k8s.io", "IPAddress") => cluster::validate_ip_address(&object["spec"], out),
        ("networking.k8s.io", "ServiceCIDR") if old.is_none() => {
            cluster::validate_service_cidr(&object["spec"], out);
        }
        ("storage.k8s.io", "CSIDriver") => storage::validate_csi_driver(&object["spec"], out),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::validate_storage_capacity(object, out),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::validate_attributes_class(object, out),
        ("node.k8s.io", "RuntimeClass") => config::validate_runtime_class(object, old.is_none(), out),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow::validate_flow_schema(object, out),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => {
            flow::validate_priority_level(object, out);
        }
        ("resource.k8s.io", "DeviceClass") => device::validate_device_class(&object["spec"], old, out),
        // The spec cannot change, and is not checked again.
        ("resource.k8s.io", "ResourceClaim") if old.is_none() => {
            device::validate_device_claim(&object["spec"], "spec", out);
            validate_declared_claim(&object["spec"], "spec", out);
        }
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            device::validate_template_metadata(&object["spec"]["metadata"], "spec.metadata", out);
            device::validate_device_claim(&object["spec"]["spec"], "spec.spec", out);
            if old.is_none() {
                validate_declared_claim(&object["spec"]["spec"], "spec.spec", out);
            }
        }
        ("coordination.k8s.io", "Lease") => config::validate_lease(&object["spec"], out),
        _ => {}
    }
}

/// Returns true if the status of a kind is validated.
pub(crate) fn checks_status(kind: (&str, &str)) -> bool {
    matches!(
        kind,
        ("", "Namespace" | "ReplicationController" | "PersistentVolumeClaim")
            | ("apps", "ReplicaSet" | "StatefulSet" | "DaemonSet" | "Deployment")
            | ("networking.k8s.io", "Ingress")
            | ("policy", "PodDisruptionBudget")
            | ("autoscaling", "HorizontalPodAutoscaler")
    )
}

/// Validates a status written on its own.
pub(crate) fn validate_status(kind: (&str, &str), object: &Value, out: &mut CauseList) {
    let status = &object["status"];
    match kind {
        ("", "Namespace") => node::validate_namespace(object, None, out),
        ("networking.k8s.io", "Ingress") => network::validate_ingress_status(status, out),
        ("", "PersistentVolumeClaim") => {
            for (name, amount) in status["capacity"].as_object().into_iter().flatten() {
                if super::quota::nanos_of(amount).is_some_and(|amount| amount < 0) {
                    let message = format!(
                        "Invalid value: {}: must be a valid resource quantity",
                        amount.as_str().unwrap_or("")
                    );
                    let field = format!("status.capacity[{name}]");
                    out.push(StatusCause { message, ..StatusCause::invalid_unshown(field, "") });
                }
            }
        }
        _ => validate_counts(status, out),
    }
}

/// Counts are not negative, and no part is more than the whole.
fn validate_counts(status: &Value, out: &mut CauseList) {
    for (name, value) in status.as_object().into_iter().flatten() {
        check_non_negative(value, format!("status.{name}"), out);
    }
    let Some(all) = status["replicas"].as_i64() else { return };
    for part in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if status[part].as_i64().is_some_and(|n| n > all) {
            let why = "cannot be greater than status.replicas";
            out.push(StatusCause::invalid(format!("status.{part}"), &status[part], why));
        }
    }
}

/// Containers added to a pod that runs.
pub(crate) fn validate_ephemeral_containers(spec: &Value, out: &mut CauseList) {
    let taken = |name: &Value| {
        ["containers", "initContainers"]
            .iter()
            .any(|key| indexed_items(&spec[*key]).any(|(_, c)| c["name"] == *name))
    };
    for (i, container) in indexed_items(&spec["ephemeralContainers"]) {
        let at = format!("spec.ephemeralContainers[{i}]");
        if taken(&container["name"]) {
            out.push(StatusCause::duplicate(format!("{at}.name"), &container["name"]));
        }
        let never = ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"];
        for key in never.iter().filter(|key| !is_empty(&container[**key])) {
            out.push(StatusCause::forbidden(
                format!("{at}.{key}"),
                "cannot be set for an Ephemeral Container",
            ));
        }
    }
}

/// A value as Go prints its internal type: every field by its Go name, `null` where it is not set.
pub(crate) fn go_internal(value: &Value, fields: &[(&str, &str)]) -> Value {
    Value::Object(fields.iter().map(|(go, json)| ((*go).to_owned(), value[*json].clone())).collect())
}

/// `must be greater than or equal to 0`.
pub(crate) fn check_non_negative(value: &Value, field: String, out: &mut CauseList) {
    if value.as_i64().is_some_and(|n| n < 0) {
        out.push(StatusCause::invalid(field, value, "must be greater than or equal to 0"));
    }
}

/// One of a fixed set of words.
pub(crate) fn check_one_of(value: &Value, field: String, supported: &[&str], out: &mut CauseList) {
    match value.as_str().unwrap_or("") {
        "" => out.push(StatusCause::required(field, "")),
        word if supported.contains(&word) => {}
        _ => out.push(StatusCause::not_supported(field, value, supported)),
    }
}

/// One of a fixed set of words, where there is one at all.
pub(crate) fn check_known(value: &Value, field: String, supported: &[&str], out: &mut CauseList) {
    if value.as_str().is_some_and(|word| !supported.contains(&word)) {
        out.push(StatusCause::not_supported(field, value, supported));
    }
}

pub(crate) fn indexed_items(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
    value.as_array().into_iter().flatten().enumerate()
}

pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(s) => s.is_empty(),
        Value::Array(a) => a.is_empty(),
        Value::Object(o) => o.is_empty(),
        _ => false,
    }
}

/// A `LabelSelector`.
pub(crate) fn validate_label_selector(selector: &Value, field: &str, out: &mut CauseList) {
    meta::validate_labels(&selector["matchLabels"], &format!("{field}.matchLabels"), out);
    for (i, expression) in indexed_items(&selector["matchExpressions"]) {
        let field = format!("{field}.matchExpressions[{i}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str().unwrap_or("") {
            "In" | "NotIn" => {
                if values == 0 {
                    out.push(StatusCause::required(
                        format!("{field}.values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    ));
                }
            }
            "Exists" | "DoesNotExist" => {
                if values > 0 {
                    out.push(StatusCause::forbidden(
                        format!("{field}.values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ));
                }
            }
            _ => out.push(StatusCause::invalid(
                format!("{field}.operator"),
                &expression["operator"],
                "not a valid selector operator",
            )),
        }
        let key = expression["key"].as_str().unwrap_or("");
        add_problems(meta::qualified_problems(key), &json!(key), &format!("{field}.key"), out);
        for (j, value) in indexed_items(&expression["values"]) {
            for problem in meta::label_value_problems(value.as_str().unwrap_or("")) {
                out.push(StatusCause::invalid(format!("{field}.values[{j}]"), value, &problem));
            }
        }
    }
}

/// Returns true if a `LabelSelector` matches a set of labels. Null matches nothing, `{}` everything.
pub(crate) fn selector_matches(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let has = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector["matchLabels"]
        .as_object()
        .is_none_or(|all| all.iter().all(|(k, v)| has(k).is_some() && has(k) == v.as_str()));
    exact
        && indexed_items(&selector["matchExpressions"]).all(|(_, e)| {
            let value = has(e["key"].as_str().unwrap_or(""));
            let listed = || e["values"].as_array().is_some_and(|v| v.iter().any(|v| v.as_str() == value));
            match e["operator"].as_str().unwrap_or("") {
                "In" => value.is_some() && listed(),
                "NotIn" => value.is_none() || !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// `must be between 1 and 65535, inclusive`.
pub(crate) fn check_port_number(value: &Value, field: String, out: &mut CauseList) {
    if !value.as_i64().is_some_and(|n| (1..=65535).contains(&n)) {
        let shown = if value.is_null() { json!(0) } else { value.clone() };
        out.push(StatusCause::invalid(field, &shown, "must be between 1 and 65535, inclusive"));
    }
}

/// A port number or the name of one.
pub(crate) fn check_port_or_name(value: &Value, field: String, out: &mut CauseList) {
    match value {
        Value::String(name) => {
            for problem in port_name_problems(name) {
                out.push(StatusCause::invalid(field.clone(), value, &problem));
            }
        }
        _ => check_port_number(value, field, out),
    }
}

/// Problems a check finds with a text, as causes at `field`.
pub(crate) fn add_problems(problems: Vec<String>, value: &Value, field: &str, out: &mut CauseList) {
    out.extend(problems.iter().map(|p| StatusCause::invalid(field, value, p)));
}
