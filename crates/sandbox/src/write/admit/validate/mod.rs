//! Validation of built-in kinds: the refusals people meet, in the order and words of the real server.

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
use crate::status::Cause;

pub(crate) use cluster::service_range_update;
pub(crate) use config::newer_event;
pub(crate) use device::declared_claim;
pub(crate) use pod::port_name_problems;
pub(crate) use service::cluster_ips;

/// A list of problems being gathered.
pub(crate) type Causes = Vec<Cause>;

/// Validates a new built-in object, or an updated one against `old`.
pub(crate) fn check(kind: (&str, &str), object: &Value, old: Option<&Value>, out: &mut Causes) {
    match kind {
        ("", "Pod") => pod::pod(object, old.is_some(), out),
        ("", "PodTemplate") => pod::template(&object["template"], "template", out),
        ("", "ReplicationController") => workload::replication_controller(object, out),
        ("apps", "Deployment") => workload::deployment(&object["spec"], out),
        ("apps", "ReplicaSet") => workload::replica_set(&object["spec"], out),
        ("apps", "StatefulSet") => workload::stateful_set(&object["spec"], old.is_none(), out),
        ("apps", "ControllerRevision") => workload::revision(object, old.is_none(), out),
        ("apps", "DaemonSet") => workload::daemon_set(&object["spec"], out),
        ("batch", "Job") => job::job(object, old.is_none(), out),
        ("batch", "CronJob") => job::cron_job(object, old, out),
        ("autoscaling", "HorizontalPodAutoscaler") => autoscaler::autoscaler(&object["spec"], out),
        ("policy", "PodDisruptionBudget") => workload::disruption_budget(&object["spec"], out),
        ("", "Service") => service::service(object, old, out),
        ("networking.k8s.io", "Ingress") => network::ingress(&object["spec"], out),
        ("networking.k8s.io", "IngressClass") => network::ingress_class(&object["spec"], out),
        ("networking.k8s.io", "NetworkPolicy") => network::network_policy(&object["spec"], old, out),
        ("discovery.k8s.io", "EndpointSlice") => service::endpoint_slice(object, old, out),
        ("", "Endpoints") => service::endpoints(object, old, out),
        ("", "ConfigMap") => config::config_map(object, out),
        ("", "Secret") => config::secret(object, out),
        ("", "PersistentVolumeClaim") => {
            storage::claim_over(&object["spec"], "spec", old.map(|old| &old["spec"]), out);
        }
        ("", "PersistentVolume") => volume::volume(object, out),
        ("", "Namespace") => node::namespace(object, old, out),
        ("", "Node") => node::node(object, old, out),
        ("storage.k8s.io", "VolumeAttachment") => storage::attachment(&object["spec"], old.is_none(), out),
        ("", "LimitRange") => limits::limit_range(&object["spec"], out),
        ("", "ResourceQuota") => limits::quota(&object["spec"], old, out),
        ("certificates.k8s.io", "CertificateSigningRequest") if old.is_none() => {
            config::certificate_request(&object["spec"], out);
        }
        ("", "Event") => config::event(object, out),
        ("rbac.authorization.k8s.io", "Role") => config::role(object, true, out),
        ("rbac.authorization.k8s.io", "ClusterRole") => config::role(object, false, out),
        ("rbac.authorization.k8s.io", "RoleBinding") => config::binding(object, true, out),
        ("rbac.authorization.k8s.io", "ClusterRoleBinding") => config::binding(object, false, out),
        ("storage.k8s.io", "StorageClass") => storage::storage_class(object, out),
        ("scheduling.k8s.io", "PriorityClass") => config::priority_class(object, old.is_none(), out),
        ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration") => hooks::hooks(object, out),
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration") => hooks::hooks(object, out),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy") => policies::policy(object, out),
        ("admissionregistration.k8s.io", "ValidatingAdmissionPolicyBinding") => {
            policies::binding(&object["spec"], out);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicy") => {
            policies::mutating(&object["spec"], out);
        }
        ("admissionregistration.k8s.io", "MutatingAdmissionPolicyBinding") => {
            policies::mutating_binding(&object["spec"], out);
        }
        ("apiregistration.k8s.io", "APIService") => cluster::api_service(object, out),
        ("networking.k8s.io", "IPAddress") => cluster::address(&object["spec"], out),
        ("networking.k8s.io", "ServiceCIDR") if old.is_none() => {
            cluster::service_range(&object["spec"], out);
        }
        ("storage.k8s.io", "CSIDriver") => storage::csi_driver(&object["spec"], out),
        ("storage.k8s.io", "CSIStorageCapacity") => storage::storage_capacity(object, out),
        ("storage.k8s.io", "VolumeAttributesClass") => storage::attributes_class(object, out),
        ("node.k8s.io", "RuntimeClass") => config::runtime_class(object, old.is_none(), out),
        ("flowcontrol.apiserver.k8s.io", "FlowSchema") => flow::schema(object, out),
        ("flowcontrol.apiserver.k8s.io", "PriorityLevelConfiguration") => flow::level(object, out),
        ("resource.k8s.io", "DeviceClass") => device::class(&object["spec"], old, out),
        // What was asked for does not change, and is not looked at again.
        ("resource.k8s.io", "ResourceClaim") if old.is_none() => {
            device::claim(&object["spec"], "spec", out);
            declared_claim(&object["spec"], "spec", out);
        }
        ("resource.k8s.io", "ResourceClaimTemplate") => {
            device::template_meta(&object["spec"]["metadata"], "spec.metadata", out);
            device::claim(&object["spec"]["spec"], "spec.spec", out);
            if old.is_none() {
                declared_claim(&object["spec"]["spec"], "spec.spec", out);
            }
        }
        ("coordination.k8s.io", "Lease") => config::lease(&object["spec"], out),
        _ => {}
    }
}

/// Whether the status of a kind is looked at.
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
pub(crate) fn status(kind: (&str, &str), object: &Value, out: &mut Causes) {
    let status = &object["status"];
    match kind {
        ("", "Namespace") => node::namespace(object, None, out),
        ("networking.k8s.io", "Ingress") => network::ingress_status(status, out),
        ("", "PersistentVolumeClaim") => {
            for (name, amount) in status["capacity"].as_object().into_iter().flatten() {
                if super::quota::amount(amount).is_some_and(|amount| amount < 0) {
                    let message = format!(
                        "Invalid value: {}: must be a valid resource quantity",
                        amount.as_str().unwrap_or("")
                    );
                    let field = format!("status.capacity[{name}]");
                    out.push(Cause { message, ..Cause::invalid_unshown(field, "") });
                }
            }
        }
        _ => counts(status, out),
    }
}

/// Counts are not negative, and no part is more than the whole.
fn counts(status: &Value, out: &mut Causes) {
    for (name, value) in status.as_object().into_iter().flatten() {
        non_negative(value, format!("status.{name}"), out);
    }
    let Some(all) = status["replicas"].as_i64() else { return };
    for part in ["fullyLabeledReplicas", "readyReplicas", "availableReplicas"] {
        if status[part].as_i64().is_some_and(|n| n > all) {
            let why = "cannot be greater than status.replicas";
            out.push(Cause::invalid(format!("status.{part}"), &status[part], why));
        }
    }
}

/// Containers added to a pod that runs.
pub(crate) fn ephemeral(spec: &Value, out: &mut Causes) {
    let taken = |name: &Value| {
        ["containers", "initContainers"].iter().any(|key| list(&spec[*key]).any(|(_, c)| c["name"] == *name))
    };
    for (i, container) in list(&spec["ephemeralContainers"]) {
        let at = format!("spec.ephemeralContainers[{i}]");
        if taken(&container["name"]) {
            out.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        }
        let never = ["ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "resizePolicy"];
        for key in never.iter().filter(|key| !is_empty(&container[**key])) {
            out.push(Cause::forbidden(format!("{at}.{key}"), "cannot be set for an Ephemeral Container"));
        }
    }
}

/// A value as Go prints its internal type: every field by its Go name, `null` where it is not set.
pub(crate) fn internal(value: &Value, fields: &[(&str, &str)]) -> Value {
    Value::Object(fields.iter().map(|(go, json)| ((*go).to_owned(), value[*json].clone())).collect())
}

/// `must be greater than or equal to 0`.
pub(crate) fn non_negative(value: &Value, field: String, out: &mut Causes) {
    if value.as_i64().is_some_and(|n| n < 0) {
        out.push(Cause::invalid(field, value, "must be greater than or equal to 0"));
    }
}

/// One of a fixed set of words.
pub(crate) fn one_of(value: &Value, field: String, supported: &[&str], out: &mut Causes) {
    match value.as_str().unwrap_or("") {
        "" => out.push(Cause::required(field, "")),
        word if supported.contains(&word) => {}
        _ => out.push(Cause::not_supported(field, value, supported)),
    }
}

/// One of a fixed set of words, where there is one at all.
pub(crate) fn known(value: &Value, field: String, supported: &[&str], out: &mut Causes) {
    if value.as_str().is_some_and(|word| !supported.contains(&word)) {
        out.push(Cause::not_supported(field, value, supported));
    }
}

pub(crate) fn list(value: &Value) -> impl Iterator<Item = (usize, &Value)> {
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
pub(crate) fn label_selector(selector: &Value, field: &str, out: &mut Causes) {
    meta::validate_labels(&selector["matchLabels"], &format!("{field}.matchLabels"), out);
    for (i, expression) in list(&selector["matchExpressions"]) {
        let field = format!("{field}.matchExpressions[{i}]");
        let values = expression["values"].as_array().map_or(0, Vec::len);
        match expression["operator"].as_str().unwrap_or("") {
            "In" | "NotIn" => {
                if values == 0 {
                    out.push(Cause::required(
                        format!("{field}.values"),
                        "must be specified when `operator` is 'In' or 'NotIn'",
                    ));
                }
            }
            "Exists" | "DoesNotExist" => {
                if values > 0 {
                    out.push(Cause::forbidden(
                        format!("{field}.values"),
                        "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                    ));
                }
            }
            _ => out.push(Cause::invalid(
                format!("{field}.operator"),
                &expression["operator"],
                "not a valid selector operator",
            )),
        }
        let key = expression["key"].as_str().unwrap_or("");
        texts(meta::qualified_problems(key), &json!(key), &format!("{field}.key"), out);
        for (j, value) in list(&expression["values"]) {
            for problem in meta::label_value_problems(value.as_str().unwrap_or("")) {
                out.push(Cause::invalid(format!("{field}.values[{j}]"), value, &problem));
            }
        }
    }
}

/// Whether a `LabelSelector` selects a set of labels. Null selects nothing, `{}` everything.
pub(crate) fn selects(selector: &Value, labels: &Value) -> bool {
    if !selector.is_object() {
        return false;
    }
    let has = |key: &str| labels.get(key).and_then(Value::as_str);
    let exact = selector["matchLabels"]
        .as_object()
        .is_none_or(|all| all.iter().all(|(k, v)| has(k).is_some() && has(k) == v.as_str()));
    exact
        && list(&selector["matchExpressions"]).all(|(_, e)| {
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
pub(crate) fn port_number(value: &Value, field: String, out: &mut Causes) {
    if !value.as_i64().is_some_and(|n| (1..=65535).contains(&n)) {
        let shown = if value.is_null() { json!(0) } else { value.clone() };
        out.push(Cause::invalid(field, &shown, "must be between 1 and 65535, inclusive"));
    }
}

/// A port number or the name of one.
pub(crate) fn port_or_name(value: &Value, field: String, out: &mut Causes) {
    match value {
        Value::String(name) => {
            for problem in port_name_problems(name) {
                out.push(Cause::invalid(field.clone(), value, &problem));
            }
        }
        _ => port_number(value, field, out),
    }
}

/// Problems a check finds with a text, as causes at `field`.
pub(crate) fn texts(problems: Vec<String>, value: &Value, field: &str, out: &mut Causes) {
    out.extend(problems.iter().map(|p| Cause::invalid(field, value, p)));
}
