//! Rules of services, volumes, nodes and limits, in the words of a real server.

use serde_json::{Value, json};

use crate::client::{MERGE, bare};

fn spec(spec: Value) -> Value {
    json!({"metadata": {"name": "x"}, "spec": spec})
}

/// What the resources of the core group say of a new object; `None` when it is accepted.
#[tokio::test]
async fn new_objects() {
    let (_sandbox, client) = bare();
    let volume = |more: Value| {
        let mut spec = json!({"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"]});
        for (key, value) in more.as_object().unwrap() {
            spec[key] = value.clone();
        }
        json!({"metadata": {"name": "x"}, "spec": spec})
    };
    let claim = |source: Value| {
        spec(
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "dataSourceRef": source}),
        )
    };
    let port = |more: Value| spec(json!({"type": "NodePort", "ports": more}));
    let cases: Vec<(&str, Value, Option<&str>)> = vec![
        (
            "services",
            spec(json!({"clusterIPs": ["y"], "ports": [{"port": 1}]})),
            Some(
                "[spec.clusterIPs: Invalid value: [\"y\"]: must be empty when `clusterIP` is not specified, spec.clusterIPs[0]: Invalid value: \"y\": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)]",
            ),
        ),
        (
            "services",
            port(
                json!([{"port": 1, "name": "a"}, {"port": 2, "name": "b", "nodePort": 30010}, {"port": 3, "name": "c", "nodePort": 30010}]),
            ),
            Some("spec.ports[2].nodePort: Invalid value: 30010: provided port is already allocated"),
        ),
        (
            "services",
            port(
                json!([{"port": 1, "name": "a", "nodePort": 30011}, {"port": 1, "name": "b", "protocol": "UDP"}]),
            ),
            None,
        ),
        (
            "services",
            spec(
                json!({"ports": [{"port": 1}], "externalTrafficPolicy": "y", "loadBalancerSourceRanges": ["y"]}),
            ),
            Some(
                "[spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer', spec.LoadBalancerSourceRanges[0]: Invalid value: \"y\": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64), spec.externalTrafficPolicy: Invalid value: \"y\": may only be set for externally-accessible services]",
            ),
        ),
        (
            "endpoints",
            json!({"metadata": {"name": "x"}, "subsets": [{"addresses": [{"ip": "010.1.1.1"}, {"ip": "127.0.0.1"}]}]}),
            Some(
                "[subsets[0].addresses[0].ip: Invalid value: \"010.1.1.1\": must not have leading 0s, subsets[0].addresses[1].ip: Invalid value: \"127.0.0.1\": may not be in the loopback range (127.0.0.0/8, ::1/128)]",
            ),
        ),
        (
            "limitranges",
            spec(
                json!({"limits": [{"type": "Pod", "max": {"y": "1"}, "default": {"cpu": "1"}}, {"type": "Pod", "maxLimitRequestRatio": {"cpu": "500m"}}]}),
            ),
            Some(
                "[spec.limits[0].max[y]: Invalid value: \"y\": must be a standard resource type or fully qualified, spec.limits[0].max[y]: Invalid value: \"y\": must be a standard resource for containers, spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod', spec.limits[1].type: Duplicate value: \"Pod\", spec.limits[1].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1]",
            ),
        ),
        (
            "resourcequotas",
            spec(json!({"hard": {"y": "1", "pods": "1500m"}, "scopes": ["VolumeAttributesClass"]})),
            Some(
                "[spec.hard[pods]: Invalid value: \"1500m\": must be an integer, spec.hard[y]: Invalid value: \"y\": must be a standard resource type or fully qualified, spec.hard[y]: Invalid value: \"y\": must be a standard resource for quota, spec.scopes: Invalid value: [\"VolumeAttributesClass\"]: unsupported scope applied to resource]",
            ),
        ),
        (
            "persistentvolumeclaims",
            claim(json!({"kind": "K", "name": "n"})),
            Some(
                "[spec.dataSource: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the default apiGroup, spec.dataSourceRef: Invalid value: \"K\": must be 'PersistentVolumeClaim' when referencing the default apiGroup]",
            ),
        ),
        ("persistentvolumeclaims", claim(json!({"kind": "K", "name": "n", "namespace": "other"})), None),
        (
            "persistentvolumes",
            volume(json!({"cephfs": {"monitors": []}, "nfs": {"server": "s", "path": "/"}})),
            Some("spec.cephFS: Forbidden: may not specify more than 1 volume type"),
        ),
        (
            "persistentvolumes",
            volume(
                json!({"csi": {"driver": "d", "nodePublishSecretRef": {"name": "n"}}, "nodeAffinity": {}}),
            ),
            Some(
                "[spec.nodeAffinity.required: Required value: must specify required node constraints, spec.csi.volumeHandle: Required value, spec.csi.nodePublishSecretRef.namespace: Required value]",
            ),
        ),
        (
            "persistentvolumes",
            volume(json!({"nfs": {"server": "s", "path": "/"}, "volumeAttributesClassName": "c"})),
            Some("spec.csi: Required value: has to be specified when using volumeAttributesClassName"),
        ),
        (
            "nodes",
            spec(
                json!({"podCIDR": "10.1.1.1/24", "taints": [{"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"}]}),
            ),
            Some(
                "[metadata.taints[1]: Duplicate value: {\"Key\":\"k\",\"Value\":\"\",\"Effect\":\"NoExecute\",\"TimeAdded\":null}: taints must be unique by key and effect pair, spec.podCIDRs[0]: Invalid value: \"10.1.1.1/24\": must not have bits set beyond the prefix length]",
            ),
        ),
    ];
    for (resource, object, why) in cases {
        let namespaced = !matches!(resource, "nodes" | "persistentvolumes");
        let path = if namespaced { format!("namespaces/default/{resource}") } else { resource.to_owned() };
        let answer = client.post(&format!("/api/v1/{path}"), &object).await;
        let said = answer.body["message"].as_str().and_then(|said| said.split_once(" is invalid: "));
        assert_eq!(said.map(|(_, said)| said), why, "{object} {}", answer.text);
    }
}

#[tokio::test]
async fn changed_services() {
    let (_sandbox, client) = bare();
    let service = json!({"metadata": {"name": "s"}, "spec": {
        "type": "LoadBalancer", "externalTrafficPolicy": "Local", "ports": [{"name": "a", "port": 80}],
    }});
    let path = "/api/v1/namespaces/default/services";
    let made = client.post(path, &service).await.body;
    let on_node = made["spec"]["ports"][0]["nodePort"].as_i64().unwrap();
    let invalid = "Service \"s\" is invalid: ";
    let cases = [
        (
            json!({"clusterIP": "1.2.3.4"}),
            format!("{invalid}spec.clusterIPs[0]: Invalid value: [\"1.2.3.4\"]: may not change once set"),
        ),
        (
            json!({"healthCheckNodePort": 31999}),
            format!("{invalid}spec.healthCheckNodePort: Forbidden: field is immutable"),
        ),
        (
            json!({"loadBalancerClass": "c"}),
            format!("{invalid}spec.loadBalancerClass: Invalid value: \"c\": may not change once set"),
        ),
        (
            json!({"ports": [{"name": "a", "port": 80}, {"name": "a", "port": 81}]}),
            format!("duplicate nodePort: {{TCP {on_node}}}"),
        ),
    ];
    for (change, why) in cases {
        let answer = client.patch(&format!("{path}/s"), MERGE, &json!({"spec": change})).await;
        assert_eq!(answer.body["message"], why.as_str(), "{}", answer.text);
    }
    // A port keeps that of the nodes by its name.
    let renumbered = json!({"spec": {"ports": [{"name": "a", "port": 90}]}});
    let answer = client.patch(&format!("{path}/s"), MERGE, &renumbered).await.body;
    assert_eq!(answer["spec"]["ports"][0]["nodePort"], on_node);
}
