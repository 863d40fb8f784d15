//! Defaults of pods and of the pod templates inside other kinds.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Value, json};

use super::super::meta::compile_pattern;
use super::{items_mut, remove_null, set_default, set_default_if_empty, set_default_if_zero};

/// A Pod: its template's defaults and those only pods themselves get.
pub(in crate::write) fn default_pod(object: &mut Value) {
    let spec = &mut object["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    set_default(spec, "enableServiceLinks", true);
    default_pod_spec(spec);
    if spec["hostNetwork"] == true {
        host_ports(spec);
    }
    remove_null(spec, "hostNetwork");
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = json!(1);
    }
    requests_from_limits(spec);
    set_default_if_empty(&mut object["status"], "phase", "Pending");
}

/// The pod template of a workload.
pub(in crate::write) fn default_template(template: &mut Value) {
    if !template.is_object() {
        *template = json!({});
    }
    default_pod_spec(&mut template["spec"]);
}

/// Requests follow limits. Templates are left alone: the pods made from them get it in their turn.
pub(crate) fn requests_from_limits(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in items_mut(&mut spec[list]) {
            let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
            for (resource, amount) in limits {
                set_default(&mut container["resources"]["requests"], &resource, amount);
            }
            remove_null(&mut container["resources"], "requests");
            remove_null(&mut container["resources"], "limits");
            remove_null(container, "resources");
        }
        remove_null(spec, list);
    }
}

/// The defaults every pod spec gets, wherever it stands.
pub(crate) fn default_pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        *spec = json!({});
    }
    set_default_if_empty(spec, "restartPolicy", "Always");
    set_default_if_empty(spec, "dnsPolicy", "ClusterFirst");
    set_default(spec, "securityContext", json!({}));
    set_default(spec, "terminationGracePeriodSeconds", 30);
    set_default_if_empty(spec, "schedulerName", "default-scheduler");
    // The old name of the account and the new one are one field.
    if let Some(account) = spec.get("serviceAccountName").and_then(Value::as_str).filter(|s| !s.is_empty()) {
        let account = account.to_owned();
        spec["serviceAccount"] = account.into();
    } else if let Some(account) = spec.get("serviceAccount").and_then(Value::as_str).filter(|s| !s.is_empty())
    {
        let account = account.to_owned();
        spec["serviceAccountName"] = account.into();
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in items_mut(&mut spec[list]) {
            default_container(container);
        }
        remove_null(spec, list);
    }
    for volume in items_mut(&mut spec["volumes"]) {
        // A volume of no kind is an empty directory.
        if volume.as_object().is_some_and(|v| v.iter().all(|(key, source)| key == "name" || source.is_null()))
        {
            volume["emptyDir"] = json!({});
        }
        default_volume_source(volume);
    }
    remove_null(spec, "volumes");
    for spread in items_mut(&mut spec["topologySpreadConstraints"]) {
        set_default(spread, "nodeAffinityPolicy", Value::Null);
        remove_null(spread, "nodeAffinityPolicy");
    }
    remove_null(spec, "topologySpreadConstraints");
}

fn host_ports(spec: &mut Value) {
    for list in ["initContainers", "containers"] {
        for container in items_mut(&mut spec[list]) {
            for port in items_mut(&mut container["ports"]) {
                let number = port["containerPort"].clone();
                set_default_if_zero(port, "hostPort", number);
            }
            remove_null(container, "ports");
        }
        remove_null(spec, list);
    }
}

fn default_container(container: &mut Value) {
    if !container.is_object() {
        return;
    }
    set_default_if_empty(container, "terminationMessagePath", "/dev/termination-log");
    set_default_if_empty(container, "terminationMessagePolicy", "File");
    let policy = pull_policy(container["image"].as_str().unwrap_or(""));
    set_default_if_empty(container, "imagePullPolicy", policy);
    for port in items_mut(&mut container["ports"]) {
        set_default_if_empty(port, "protocol", "TCP");
    }
    remove_null(container, "ports");
    for variable in items_mut(&mut container["env"]) {
        if variable["valueFrom"]["fieldRef"].is_object() {
            set_default_if_empty(&mut variable["valueFrom"]["fieldRef"], "apiVersion", "v1");
        }
        if variable.get("valueFrom").is_some_and(Value::is_object) {
            remove_null(&mut variable["valueFrom"], "fieldRef");
        }
        remove_null(variable, "valueFrom");
    }
    remove_null(container, "env");
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if container[probe].is_object() {
            default_probe(&mut container[probe]);
        }
        remove_null(container, probe);
    }
    for moment in ["/lifecycle/postStart/httpGet", "/lifecycle/preStop/httpGet"] {
        if let Some(action) = container.pointer_mut(moment).filter(|action| action.is_object()) {
            default_http_get(action);
        }
    }
}

/// A reference to an image: perhaps a host and its port, the parts of a path, a tag, a digest.
static IMAGE: LazyLock<Regex> = LazyLock::new(|| {
    let label = "(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])";
    let part = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
    compile_pattern(&format!(
        r"^(?:(?:{label}(?:\.{label})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?({part}(?:/{part})*)(?::([0-9A-Za-z_][0-9A-Za-z_.-]{{0,127}}))?(@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{{32,}})?$"
    ))
});

/// `Always` for the tag `latest` or none at all, of what is an image.
fn pull_policy(image: &str) -> &'static str {
    const UNSET: &str = "IfNotPresent";
    // Sixty-four digits are the name of a layer, not of an image.
    if image.len() == 64 && image.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return UNSET;
    }
    // What comes before the first slash is a host only if it looks like one.
    let hosted = image.split_once('/').is_some_and(|(host, _)| {
        host == "localhost" || host.contains(['.', ':']) || host.chars().any(char::is_uppercase)
    });
    let whole = if hosted { image.to_owned() } else { format!("docker.io/{image}") };
    let Some(found) = IMAGE.captures(&whole) else { return UNSET };
    let text = |i: usize| found.get(i).map(|part| part.as_str());
    let prefix = if !hosted && !image.contains('/') { "library/".len() } else { 0 };
    if text(1).is_some_and(|path| path.len() + prefix > 255) {
        return UNSET;
    }
    match (text(2), text(3)) {
        (Some("latest"), _) | (None, None) => "Always",
        _ => UNSET,
    }
}

fn default_http_get(action: &mut Value) {
    set_default_if_empty(action, "path", "/");
    set_default_if_empty(action, "scheme", "HTTP");
}

fn default_probe(probe: &mut Value) {
    set_default_if_zero(probe, "timeoutSeconds", 1);
    set_default_if_zero(probe, "periodSeconds", 10);
    set_default_if_zero(probe, "successThreshold", 1);
    set_default_if_zero(probe, "failureThreshold", 3);
    if probe["httpGet"].is_object() {
        default_http_get(&mut probe["httpGet"]);
    }
    remove_null(probe, "httpGet");
    if probe["grpc"].is_object() {
        set_default(&mut probe["grpc"], "service", "");
    }
    remove_null(probe, "grpc");
}

/// The source of a volume, in a pod or a persistent volume.
pub(in crate::write) fn default_volume_source(volume: &mut Value) {
    if !volume.is_object() {
        return;
    }
    for source in ["configMap", "secret", "projected", "downwardAPI"] {
        if volume.get(source).is_some_and(Value::is_object) {
            set_default(&mut volume[source], "defaultMode", 420);
        }
    }
    if volume.get("downwardAPI").is_some_and(Value::is_object) {
        default_downward_files(&mut volume["downwardAPI"]);
    }
    if volume.get("projected").is_some_and(Value::is_object) {
        for source in items_mut(&mut volume["projected"]["sources"]) {
            if source.get("serviceAccountToken").is_some_and(Value::is_object) {
                set_default(&mut source["serviceAccountToken"], "expirationSeconds", 3600);
            }
            if source.get("downwardAPI").is_some_and(Value::is_object) {
                default_downward_files(&mut source["downwardAPI"]);
            }
        }
        remove_null(&mut volume["projected"], "sources");
    }
    if volume.get("hostPath").is_some_and(Value::is_object) {
        set_default(&mut volume["hostPath"], "type", "");
    }
    if volume.get("iscsi").is_some_and(Value::is_object) {
        set_default_if_empty(&mut volume["iscsi"], "iscsiInterface", "default");
    }
    if volume.get("rbd").is_some_and(Value::is_object) {
        for (key, value) in [("pool", "rbd"), ("user", "admin"), ("keyring", "/etc/ceph/keyring")] {
            set_default_if_empty(&mut volume["rbd"], key, value);
        }
    }
    if volume.get("azureDisk").is_some_and(Value::is_object) {
        for (key, value) in [
            ("cachingMode", json!("ReadWrite")),
            ("kind", json!("Shared")),
            ("fsType", json!("ext4")),
            ("readOnly", json!(false)),
        ] {
            set_default(&mut volume["azureDisk"], key, value);
        }
    }
    if volume.get("scaleIO").is_some_and(Value::is_object) {
        set_default_if_empty(&mut volume["scaleIO"], "storageMode", "ThinProvisioned");
        set_default_if_empty(&mut volume["scaleIO"], "fsType", "xfs");
    }
    if volume.get("ephemeral").is_some_and(|e| e["volumeClaimTemplate"].is_object()) {
        set_default(&mut volume["ephemeral"]["volumeClaimTemplate"]["spec"], "volumeMode", "Filesystem");
    }
}

fn default_downward_files(source: &mut Value) {
    for item in items_mut(&mut source["items"]) {
        if item.get("fieldRef").is_some_and(Value::is_object) {
            set_default_if_empty(&mut item["fieldRef"], "apiVersion", "v1");
        }
    }
    remove_null(source, "items");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pull_policy_follows_the_tag() {
        for (image, policy) in [
            ("nginx", "Always"),
            ("nginx:latest", "Always"),
            ("nginx:1", "IfNotPresent"),
            ("host:5000/a/nginx", "Always"),
            ("host:5000/a/nginx:1", "IfNotPresent"),
            ("a@sha256:00", "IfNotPresent"),
            ("a:latest@sha256:0123456789abcdef0123456789abcdef", "Always"),
            ("No Image", "IfNotPresent"),
            ("-", "IfNotPresent"),
            ("../x", "IfNotPresent"),
            ("Host/x", "Always"),
            ("a/B", "IfNotPresent"),
        ] {
            assert_eq!(pull_policy(image), policy, "{image}");
        }
    }

    #[test]
    fn only_pods_take_ports_of_their_host() {
        let spec = json!({"hostNetwork": true, "containers": [{"ports": [{"containerPort": 80}]}]});
        let mut pod = json!({"spec": spec});
        default_pod(&mut pod);
        assert_eq!(pod["spec"]["containers"][0]["ports"][0]["hostPort"], 80);
        let mut template = json!({"spec": spec});
        default_template(&mut template);
        assert!(template["spec"]["containers"][0]["ports"][0].get("hostPort").is_none());
    }

    #[test]
    fn looking_for_defaults_leaves_no_nulls() {
        let mut spec =
            json!({"containers": [{"name": "c", "image": "i:1", "env": [{"name": "A", "value": "b"}]}]});
        default_pod_spec(&mut spec);
        assert!(!spec.to_string().contains("null"), "{spec}");
    }
}
