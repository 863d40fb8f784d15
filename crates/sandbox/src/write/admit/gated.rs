//! Fields of disabled features: read, checked for their type, and dropped silently.

use serde_json::Value;

/// The path of the pod spec in kinds that have one.
const POD_SPECS: &[((&str, &str), &str)] = &[
    (("", "Pod"), "spec"),
    (("", "PodTemplate"), "template.spec"),
    (("", "ReplicationController"), "spec.template.spec"),
    (("apps", "Deployment"), "spec.template.spec"),
    (("apps", "ReplicaSet"), "spec.template.spec"),
    (("apps", "StatefulSet"), "spec.template.spec"),
    (("apps", "DaemonSet"), "spec.template.spec"),
    (("batch", "Job"), "spec.template.spec"),
    (("batch", "CronJob"), "spec.jobTemplate.spec.template.spec"),
];

/// Fields of a pod spec. `a|b` stands for either name, `a[]` for every item of a list, and `a?` goes
/// together with the last field in it.
const OF_PODS: &[&str] = &[
    "evictionResponders",
    "schedulingGroup",
    "initContainers|containers|ephemeralContainers[].livenessProbe|readinessProbe|startupProbe.grpc.mode",
    "initContainers|containers|ephemeralContainers[].livenessProbe|readinessProbe|startupProbe.httpGet.protocol",
    "initContainers|containers|ephemeralContainers[].lifecycle.postStart|preStop.httpGet.protocol",
    "initContainers|containers|ephemeralContainers[].lifecycle?.stopSignal",
    "initContainers|containers|ephemeralContainers[].volumeMounts[].bindMountOptions",
    "volumes[].emptyDir.mode",
    "volumes[].secret|configMap|downwardAPI|projected.defaultUser",
    "volumes[].secret|configMap|downwardAPI.items[].user",
    "volumes[].projected.sources[].secret|configMap|downwardAPI.items[].user",
    "volumes[].projected.sources[].serviceAccountToken|clusterTrustBundle|podCertificate.user",
];

/// Fields of other kinds, written alike.
const OF_KINDS: &[((&str, &str), &[&str])] = &[
    (("batch", "Job"), &["spec.scheduling"]),
    (("batch", "CronJob"), &["spec.jobTemplate.spec.scheduling"]),
    (("", "Node"), &["spec.configSource", "spec.podPreemptionPolicy"]),
    (("coordination.k8s.io", "Lease"), &["spec.strategy", "spec.preferredHolder"]),
    (("discovery.k8s.io", "EndpointSlice"), &["endpoints[].deprecatedTopology"]),
    (
        ("resource.k8s.io", "ResourceClaim"),
        &[
            "spec.devices.requests[].exactly.derivedAttributes",
            "spec.devices.requests[].firstAvailable[].derivedAttributes",
        ],
    ),
    (
        ("resource.k8s.io", "ResourceClaimTemplate"),
        &[
            "spec.spec.devices.requests[].exactly.derivedAttributes",
            "spec.spec.devices.requests[].firstAvailable[].derivedAttributes",
        ],
    ),
];

/// Returns the path of a kind's pod spec, if it has one.
fn pod_spec_of(kind: (&str, &str)) -> Option<&'static str> {
    POD_SPECS.iter().find(|(of, _)| *of == kind).map(|(_, place)| *place)
}

/// Removes the fields of disabled features from an object.
pub(crate) fn drop_gated_fields(kind: (&str, &str), object: &mut Value) {
    if let Some(spec) = pod_spec_of(kind).and_then(|place| object.pointer_mut(&json_pointer(place))) {
        OF_PODS.iter().for_each(|path| remove_path(spec, path));
    }
    for (_, paths) in OF_KINDS.iter().filter(|(of, _)| *of == kind) {
        paths.iter().for_each(|path| remove_path(object, path));
    }
}

fn json_pointer(path: &str) -> String {
    format!("/{}", path.replace('.', "/"))
}

fn remove_path(value: &mut Value, path: &str) {
    let Value::Object(members) = value else { return };
    let Some((step, rest)) = path.split_once('.') else {
        members.shift_remove(path);
        return;
    };
    let (names, each) = step.strip_suffix("[]").map_or((step, false), |names| (names, true));
    let (names, fleeting) = names.strip_suffix('?').map_or((names, false), |names| (names, true));
    for name in names.split('|') {
        let Some(inner) = members.get_mut(name) else { continue };
        if each {
            inner.as_array_mut().into_iter().flatten().for_each(|item| remove_path(item, rest));
            continue;
        }
        let had = inner.as_object().is_some_and(|inner| !inner.is_empty());
        remove_path(inner, rest);
        if fleeting && had && inner.as_object().is_some_and(serde_json::Map::is_empty) {
            members.shift_remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_of_features_that_are_off_vanish() {
        for (kind, mut given, kept) in [
            (
                ("", "Pod"),
                json!({"spec": {"schedulingGroup": {}, "hostNetwork": true, "containers": [
                    {"lifecycle": {"stopSignal": "SIGTERM"}, "livenessProbe": {"grpc": {"port": 1, "mode": "x"}}},
                    {"lifecycle": {"stopSignal": "SIGTERM", "preStop": {"sleep": {"seconds": 1}}}},
                    {"lifecycle": {}}], "volumes": [{"configMap": {"defaultUser": 1, "items": [{"user": 1}]}}]}}),
                json!({"spec": {"hostNetwork": true, "containers": [
                    {"livenessProbe": {"grpc": {"port": 1}}}, {"lifecycle": {"preStop": {"sleep": {"seconds": 1}}}},
                    {"lifecycle": {}}], "volumes": [{"configMap": {"items": [{}]}}]}}),
            ),
            (
                ("batch", "CronJob"),
                json!({"spec": {"jobTemplate": {"spec": {"scheduling": {}, "template": {"spec": {"evictionResponders": []}}}}}}),
                json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {}}}}}}),
            ),
            (("", "Node"), json!({"spec": {"configSource": {}}}), json!({"spec": {}})),
            (("", "ConfigMap"), json!({"spec": {"configSource": {}}}), json!({"spec": {"configSource": {}}})),
        ] {
            drop_gated_fields(kind, &mut given);
            assert_eq!(given, kept, "{kind:?}");
        }
    }
}
