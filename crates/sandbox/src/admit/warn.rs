//! Warnings about objects that are accepted all the same.

use serde_json::Value;

use super::validate::list;

/// A name that is no DNS label does not make a good host name.
fn hostname(object: &Value, of: &str, out: &mut Vec<String>) {
    let problems = super::meta::label_problems(object["metadata"]["name"].as_str().unwrap_or(""));
    if !problems.is_empty() {
        out.push(format!(
            "metadata.name: this is used in {of}, which can result in surprising behavior; a DNS label is recommended: [{}]",
            problems.join(" ")
        ));
    }
}

pub(crate) fn about(kind: (&str, &str), object: &Value, old: Option<&Value>, out: &mut Vec<String>) {
    let new = old.is_none();
    match kind {
        ("", "Pod") => {
            if new {
                hostname(object, "the Pod's hostname", out);
            }
            spec(&object["spec"], "spec", out);
        }
        ("networking.k8s.io", "Ingress")
            if new
                && slipway_manifest::object::annotation(object, "kubernetes.io/ingress.class").is_some() =>
        {
            out.push(
                "annotation \"kubernetes.io/ingress.class\" is deprecated, please use 'spec.ingressClassName' instead"
                    .into(),
            );
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            let before = old.map(unknown_formats).unwrap_or_default();
            let fresh = unknown_formats(object).into_iter().filter(|format| !before.contains(format));
            out.extend(fresh.map(|format| format!("unrecognized format {format:?}")));
        }
        ("", "Endpoints") => {
            out.push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into());
        }
        ("apps", _) | ("batch", "Job") => {
            if new && matches!(kind.1, "Deployment" | "Job") {
                hostname(object, "Pod names and hostnames", out);
            }
            spec(&object["spec"]["template"]["spec"], "spec.template.spec", out);
        }
        ("batch", "CronJob") => {
            if new {
                hostname(object, "Pod names and hostnames", out);
            }
            spec(
                &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
                "spec.jobTemplate.spec.template.spec",
                out,
            );
        }
        ("", "Service")
            if object["spec"]["externalName"].is_string() && object["spec"]["type"] != "ExternalName" =>
        {
            out.push("spec.externalName is ignored when spec.type is not \"ExternalName\"".into());
        }
        ("", "Secret")
            if object["type"] == "kubernetes.io/tls"
                && object["data"]["tls.crt"].as_str().is_some_and(str::is_empty) =>
        {
            out.push("tls: failed to find any PEM data in certificate input".into());
        }
        ("storage.k8s.io", "CSIDriver")
            if list(&object["spec"]["tokenRequests"]).next().is_some()
                && old.is_none_or(|old| old["spec"]["tokenRequests"] != object["spec"]["tokenRequests"])
                && object["spec"]["serviceAccountTokenInSecrets"].is_null() =>
        {
            out.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into());
        }
        _ => {}
    }
}

/// Labels of nodes that have newer names.
const RENAMED: &[(&str, &str, &str)] = &[
    ("beta.kubernetes.io/arch", "v1.14", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "v1.17", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "v1.14", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "v1.17", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "v1.17", "topology.kubernetes.io/zone"),
];

fn spec(spec: &Value, field: &str, out: &mut Vec<String>) {
    for (key, _) in spec["nodeSelector"].as_object().into_iter().flatten() {
        if let Some((_, since, now)) = RENAMED.iter().find(|(old, _, _)| old == key) {
            out.push(format!("{field}.nodeSelector[{key}]: deprecated since {since}; use \"{now}\" instead"));
        }
    }
    for (i, volume) in list(&spec["volumes"]) {
        if volume["gitRepo"].is_object() {
            out.push(format!(
                "{field}.volumes[{i}].gitRepo: deprecated in v1.11, and disabled by default in v1.33+"
            ));
        }
    }
    for (i, secret) in list(&spec["imagePullSecrets"]) {
        if secret["name"].as_str().unwrap_or("").is_empty() {
            out.push(format!("{field}.imagePullSecrets[{i}].name: invalid empty name \"\""));
        }
    }
    for (i, constraint) in list(&spec["topologySpreadConstraints"]) {
        if constraint["labelSelector"].is_null() {
            out.push(format!(
                "{field}.topologySpreadConstraints[{i}].labelSelector: a null labelSelector results in matching no pod"
            ));
        }
    }
    for kind in ["initContainers", "containers"] {
        for (i, container) in list(&spec[kind]) {
            let at = format!("{field}.{kind}[{i}]");
            for side in ["limits", "requests"] {
                let memory = &container["resources"][side]["memory"];
                let whole = crate::admit::quota::amount(memory).is_none_or(|n| n % 1_000_000_000 == 0);
                if !whole {
                    out.push(format!(
                        "{at}.resources.{side}[memory]: fractional byte value {memory} is invalid, must be an integer"
                    ));
                }
            }
            for (j, variable) in list(&container["env"]) {
                let name = &variable["name"];
                if list(&container["env"]).take(j).any(|(_, v)| v["name"] == *name) {
                    out.push(format!(
                        "{at}.env[{j}]: hides previous definition of {name}, which may be dropped when using apply"
                    ));
                }
            }
            for (j, port) in list(&container["ports"]) {
                let same = list(&container["ports"]).take(j).find(|(_, p)| {
                    p["containerPort"] == port["containerPort"] && p["protocol"] == port["protocol"]
                });
                if let Some((first, _)) = same {
                    out.push(format!("{at}.ports[{j}]: duplicate port definition with {at}.ports[{first}]"));
                }
            }
        }
    }
}

/// Formats nobody knows in the schemas of a definition; one that all versions share is looked at once.
fn unknown_formats(definition: &Value) -> Vec<String> {
    let mut schemas: Vec<&Value> = list(&definition["spec"]["versions"])
        .map(|(_, version)| &version["schema"]["openAPIV3Schema"])
        .collect();
    if schemas.iter().all(|schema| *schema == schemas[0]) {
        schemas.truncate(1);
    }
    schemas.into_iter().flat_map(slipway_manifest::crd::unknown_formats).collect()
}
