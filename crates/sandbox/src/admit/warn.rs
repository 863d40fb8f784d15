//! Warnings about objects that are accepted all the same.

use serde_json::Value;

use super::validate::list;

pub(crate) fn about(kind: (&str, &str), object: &Value, out: &mut Vec<String>) {
    match kind {
        ("", "Pod") => spec(&object["spec"], "spec", out),
        ("", "Endpoints") => {
            out.push("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".into());
        }
        ("apps", _) | ("batch", "Job") => {
            spec(&object["spec"]["template"]["spec"], "spec.template.spec", out);
        }
        ("batch", "CronJob") => spec(
            &object["spec"]["jobTemplate"]["spec"]["template"]["spec"],
            "spec.jobTemplate.spec.template.spec",
            out,
        ),
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
                && object["spec"]["serviceAccountTokenInSecrets"].is_null() =>
        {
            out.push("spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes".into());
        }
        _ => {}
    }
}

fn spec(spec: &Value, field: &str, out: &mut Vec<String>) {
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
