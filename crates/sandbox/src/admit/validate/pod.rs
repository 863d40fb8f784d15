//! Validation of pods and pod templates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Causes, is_empty, list, non_negative, one_of, port_number, port_or_name, texts};
use crate::admit::meta;
use crate::admit::quota::{amount, canonical};
use crate::status::Cause;

pub(super) fn pod(object: &Value, _update: bool, out: &mut Causes) {
    spec(&object["spec"], "spec", out);
}

/// A pod template at `field`.
pub(super) fn template(template: &Value, field: &str, out: &mut Causes) {
    let labels = &template["metadata"]["labels"];
    meta::validate_labels(labels, &format!("{field}.labels"), out);
    for (key, _) in meta::sorted(&template["metadata"]["annotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        texts(problems, &json!(key), &format!("{field}.annotations"), out);
    }
    spec(&template["spec"], &format!("{field}.spec"), out);
    if !is_empty(&template["spec"]["ephemeralContainers"]) {
        out.push(Cause::forbidden(
            format!("{field}.spec.ephemeralContainers"),
            "ephemeral containers not allowed in pod template",
        ));
    }
}

/// The words each volume may have one of.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "flocker",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
    "quobyte",
];

fn volumes(volumes: &Value, field: &str, out: &mut Causes) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for (i, volume) in list(volumes) {
        let at = format!("{field}[{i}]");
        let mut found = Vec::new();
        sources(volume, &at, &mut found);
        let name = volume["name"].as_str().unwrap_or("");
        if name.is_empty() {
            found.push(Cause::required(format!("{at}.name"), ""));
        } else {
            texts(meta::label_problems(name), &volume["name"], &format!("{at}.name"), &mut found);
        }
        if names.contains(name) {
            found.push(Cause::duplicate(format!("{at}.name"), &volume["name"]));
        }
        // Volumes with problems are unknown to the mounts that follow.
        if found.is_empty() {
            names.insert(name.to_owned());
        }
        out.extend(found);
    }
    names
}

fn sources(volume: &Value, at: &str, out: &mut Causes) {
    let mut first = true;
    for source in SOURCES {
        if !volume.get(*source).is_some_and(Value::is_object) {
            continue;
        }
        if !std::mem::take(&mut first) {
            out.push(Cause::forbidden(format!("{at}.{source}"), "may not specify more than 1 volume type"));
            continue;
        }
        let required = |key: &str, out: &mut Causes| {
            if is_empty(&volume[*source][key]) {
                out.push(Cause::required(format!("{at}.{source}.{key}"), ""));
            }
        };
        match *source {
            "hostPath" => required("path", out),
            "secret" => required("secretName", out),
            "configMap" => required("name", out),
            "persistentVolumeClaim" => required("claimName", out),
            "csi" => required("driver", out),
            "nfs" => {
                required("server", out);
                required("path", out);
            }
            _ => {}
        }
    }
    if first {
        out.push(Cause::required(at, "must specify a volume type"));
    }
}

/// A pod spec at `field`.
pub(super) fn spec(spec: &Value, field: &str, out: &mut Causes) {
    let names = volumes(&spec["volumes"], &format!("{field}.volumes"), out);
    containers(spec, &names, field, out);
    one_of(&spec["restartPolicy"], format!("{field}.restartPolicy"), &["Always", "Never", "OnFailure"], out);
    one_of(
        &spec["dnsPolicy"],
        format!("{field}.dnsPolicy"),
        &["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"],
        out,
    );
    meta::validate_labels(&spec["nodeSelector"], &format!("{field}.nodeSelector"), out);
    affinity(&spec["affinity"], &format!("{field}.affinity"), out);
    gates(&spec["schedulingGates"], &format!("{field}.schedulingGates"), out);
    spread(&spec["topologySpreadConstraints"], &format!("{field}.topologySpreadConstraints"), out);
    if let Some(account) = spec["serviceAccountName"].as_str().filter(|a| !a.is_empty()) {
        texts(
            meta::subdomain_problems(account),
            &spec["serviceAccountName"],
            &format!("{field}.serviceAccountName"),
            out,
        );
    }
    if let Some(node) = spec["nodeName"].as_str().filter(|a| !a.is_empty()) {
        texts(meta::subdomain_problems(node), &spec["nodeName"], &format!("{field}.nodeName"), out);
    }
    if let Some(seconds) = spec["activeDeadlineSeconds"].as_i64()
        && !(1..=i64::from(i32::MAX)).contains(&seconds)
    {
        out.push(Cause::invalid(
            format!("{field}.activeDeadlineSeconds"),
            &spec["activeDeadlineSeconds"],
            "must be between 1 and 2147483647, inclusive",
        ));
    }
    for key in ["hostname", "subdomain"] {
        if let Some(text) = spec[key].as_str().filter(|t| !t.is_empty()) {
            texts(meta::label_problems(text), &spec[key], &format!("{field}.{key}"), out);
        }
    }
    tolerations(&spec["tolerations"], &format!("{field}.tolerations"), out);
    if let Some(class) = spec["priorityClassName"].as_str().filter(|c| !c.is_empty()) {
        texts(
            meta::subdomain_problems(class),
            &spec["priorityClassName"],
            &format!("{field}.priorityClassName"),
            out,
        );
    }
}

fn containers(spec: &Value, volumes: &BTreeSet<String>, field: &str, out: &mut Causes) {
    if is_empty(&spec["containers"]) {
        out.push(Cause::required(format!("{field}.containers"), ""));
    }
    let mut regular = BTreeSet::new();
    for (i, container) in list(&spec["containers"]) {
        let at = format!("{field}.containers[{i}]");
        common(container, volumes, &at, out);
        let name = container["name"].as_str().unwrap_or("");
        if !regular.insert(name.to_owned()) {
            out.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        }
        lifecycle(&container["lifecycle"], &format!("{at}.lifecycle"), out);
        for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
            probe(&container[kind], kind, &format!("{at}.{kind}"), out);
        }
    }
    let mut all = regular;
    for (i, container) in list(&spec["initContainers"]) {
        let at = format!("{field}.initContainers[{i}]");
        common(container, volumes, &at, out);
        let name = container["name"].as_str().unwrap_or("");
        if !all.insert(name.to_owned()) && !name.is_empty() {
            out.push(Cause::duplicate(format!("{at}.name"), &container["name"]));
        }
        let sidecar = container["restartPolicy"] == "Always";
        if sidecar {
            lifecycle(&container["lifecycle"], &format!("{at}.lifecycle"), out);
            for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
                probe(&container[kind], kind, &format!("{at}.{kind}"), out);
            }
        } else {
            for key in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
                if !container[key].is_null() {
                    out.push(Cause::forbidden(
                        format!("{at}.{key}"),
                        "may not be set for init containers without restartPolicy=Always",
                    ));
                }
            }
        }
    }
    for (i, container) in list(&spec["ephemeralContainers"]) {
        let at = format!("{field}.ephemeralContainers[{i}]");
        common(container, volumes, &at, out);
    }
}

fn common(container: &Value, volumes: &BTreeSet<String>, at: &str, out: &mut Causes) {
    match container["name"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{at}.name"), "")),
        name => texts(meta::label_problems(name), &container["name"], &format!("{at}.name"), out),
    }
    match container["image"].as_str().unwrap_or("") {
        "" => out.push(Cause::required(format!("{at}.image"), "")),
        image if image.trim() != image => out.push(Cause::invalid(
            format!("{at}.image"),
            &container["image"],
            "must not have leading or trailing whitespace",
        )),
        _ => {}
    }
    one_of(
        &container["terminationMessagePolicy"],
        format!("{at}.terminationMessagePolicy"),
        &["FallbackToLogsOnError", "File"],
        out,
    );
    ports(&container["ports"], &format!("{at}.ports"), out);
    env(&container["env"], &format!("{at}.env"), out);
    for (i, source) in list(&container["envFrom"]) {
        let given = ["configMapRef", "secretRef"].iter().filter(|k| source[**k].is_object()).count();
        let at = format!("{at}.envFrom[{i}]");
        match given {
            0 => {
                out.push(Cause::invalid(
                    at,
                    &json!(""),
                    "must specify one of: `configMapRef` or `secretRef`",
                ));
            }
            1 => {}
            _ => out.push(Cause::invalid(
                at,
                &json!(""),
                "may not have more than one field specified at a time",
            )),
        }
    }
    mounts(container, volumes, at, out);
    one_of(
        &container["imagePullPolicy"],
        format!("{at}.imagePullPolicy"),
        &["Always", "IfNotPresent", "Never"],
        out,
    );
    resources(&container["resources"], &format!("{at}.resources"), out);
}

/// What is wrong with the name of a port.
pub(crate) fn port_name_problems(name: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut push = |bad: bool, text: &str| {
        if bad {
            out.push(text.to_owned());
        }
    };
    push(name.len() > 15, "must be no more than 15 characters");
    push(
        name.is_empty() || !name.bytes().all(|b| b == b'-' || b.is_ascii_lowercase() || b.is_ascii_digit()),
        "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
    );
    push(!name.bytes().any(|b| b.is_ascii_lowercase()), "must contain at least one letter (a-z)");
    push(name.contains("--"), "must not contain consecutive hyphens");
    push(
        !name.is_empty() && (name.starts_with('-') || name.ends_with('-')),
        "must not begin or end with a hyphen",
    );
    out
}

fn ports(ports: &Value, field: &str, out: &mut Causes) {
    let mut names = BTreeSet::new();
    for (i, port) in list(ports) {
        let at = format!("{field}[{i}]");
        if let Some(name) = port["name"].as_str().filter(|n| !n.is_empty()) {
            let problems = port_name_problems(name);
            if problems.is_empty() {
                if !names.insert(name.to_owned()) {
                    out.push(Cause::duplicate(format!("{at}.name"), &port["name"]));
                }
            } else {
                texts(problems, &port["name"], &format!("{at}.name"), out);
            }
        }
        if port["containerPort"].as_i64().unwrap_or(0) == 0 {
            out.push(Cause::required(format!("{at}.containerPort"), ""));
        } else {
            port_number(&port["containerPort"], format!("{at}.containerPort"), out);
        }
        if port["hostPort"].as_i64().unwrap_or(0) != 0 {
            port_number(&port["hostPort"], format!("{at}.hostPort"), out);
        }
        one_of(&port["protocol"], format!("{at}.protocol"), &["SCTP", "TCP", "UDP"], out);
    }
}

fn env(variables: &Value, field: &str, out: &mut Causes) {
    for (i, variable) in list(variables) {
        let at = format!("{field}[{i}]");
        let name = variable["name"].as_str().unwrap_or("");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        } else if !name.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
            out.push(Cause::invalid(
                format!("{at}.name"),
                &variable["name"],
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            ));
        }
        let from = &variable["valueFrom"];
        if from.is_null() {
            continue;
        }
        let given = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"]
            .iter()
            .filter(|k| from[**k].is_object())
            .count();
        let at = format!("{at}.valueFrom");
        if given == 0 {
            out.push(Cause::invalid(
                at,
                &json!(""),
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ));
        } else if !is_empty(&variable["value"]) {
            out.push(Cause::invalid(at, &json!(""), "may not be specified when `value` is not empty"));
        } else if given > 1 {
            out.push(Cause::invalid(at, &json!(""), "may not have more than one field specified at a time"));
        }
    }
}

fn mounts(container: &Value, volumes: &BTreeSet<String>, at: &str, out: &mut Causes) {
    let mut paths = BTreeSet::new();
    for (i, mount) in list(&container["volumeMounts"]) {
        let at = format!("{at}.volumeMounts[{i}]");
        let name = mount["name"].as_str().unwrap_or("");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        }
        if !volumes.contains(name) {
            out.push(Cause::not_found(format!("{at}.name"), &json!(name)));
        }
        let path = mount["mountPath"].as_str().unwrap_or("");
        if path.is_empty() {
            out.push(Cause::required(format!("{at}.mountPath"), ""));
        }
        if !paths.insert(path.to_owned()) {
            out.push(Cause::invalid(format!("{at}.mountPath"), &json!(path), "must be unique"));
        }
    }
}

/// Limits and requests of a container.
pub(crate) fn resources(resources: &Value, field: &str, out: &mut Causes) {
    for side in ["limits", "requests"] {
        for (name, quantity) in meta::sorted(&resources[side]) {
            let at = format!("{field}.{side}[{name}]");
            let standard = matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                || name.starts_with("hugepages-");
            if !standard && !name.contains('/') {
                out.push(Cause::invalid(
                    &at,
                    &json!(name),
                    "must be a standard resource type or fully qualified",
                ));
                out.push(Cause::invalid(&at, &json!(name), "must be a standard resource for containers"));
            }
            let given = amount(quantity);
            if given.is_some_and(|a| a < 0) {
                out.push(Cause::invalid(&at, quantity, "must be greater than or equal to 0"));
            }
            if side == "requests"
                && let (Some(request), Some(limit)) = (given, resources["limits"].get(name).and_then(amount))
                && request > limit
            {
                let limit = canonical(&resources["limits"][name]);
                out.push(Cause::invalid(
                    format!("{field}.requests"),
                    &json!(canonical(quantity)),
                    &format!("must be less than or equal to {name} limit of {limit}"),
                ));
            }
        }
    }
}

fn lifecycle(lifecycle: &Value, field: &str, out: &mut Causes) {
    for moment in ["postStart", "preStop"] {
        if !lifecycle[moment].is_null() {
            handler(&lifecycle[moment], &format!("{field}.{moment}"), out);
        }
    }
}

fn probe(probe: &Value, kind: &str, field: &str, out: &mut Causes) {
    if probe.is_null() {
        return;
    }
    handler(probe, field, out);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(&probe[key], format!("{field}.{key}"), out);
    }
    if probe["terminationGracePeriodSeconds"].as_i64().is_some_and(|s| s <= 0) {
        out.push(Cause::invalid(
            format!("{field}.terminationGracePeriodSeconds"),
            &probe["terminationGracePeriodSeconds"],
            "must be greater than 0",
        ));
    }
    if kind != "readinessProbe" && probe["successThreshold"].as_i64() != Some(1) {
        out.push(Cause::invalid(
            format!("{field}.successThreshold"),
            &probe["successThreshold"],
            "must be 1",
        ));
    }
}

fn handler(handler: &Value, field: &str, out: &mut Causes) {
    let mut given = 0;
    for kind in ["exec", "httpGet", "tcpSocket", "grpc", "sleep"] {
        if handler[kind].is_null() {
            continue;
        }
        given += 1;
        let at = format!("{field}.{kind}");
        if given > 1 {
            out.push(Cause::forbidden(at, "may not specify more than 1 handler type"));
            continue;
        }
        let action = &handler[kind];
        match kind {
            "exec" if is_empty(&action["command"]) => out.push(Cause::required(format!("{at}.command"), "")),
            "httpGet" => {
                if is_empty(&action["path"]) {
                    out.push(Cause::required(format!("{at}.path"), ""));
                }
                port_or_name(&action["port"], format!("{at}.port"), out);
                one_of(&action["scheme"], format!("{at}.scheme"), &["HTTP", "HTTPS"], out);
            }
            "tcpSocket" => port_or_name(&action["port"], format!("{at}.port"), out),
            "grpc" => port_number(&action["port"], format!("{at}.port"), out),
            _ => {}
        }
    }
    if given == 0 {
        out.push(Cause::required(field, "must specify a handler type"));
    }
}

fn gates(gates: &Value, field: &str, out: &mut Causes) {
    let mut seen = BTreeSet::new();
    for (i, gate) in list(gates) {
        let at = format!("{field}[{i}]");
        let name = gate["name"].as_str().unwrap_or("");
        texts(meta::qualified_problems(name), &json!(name), &at, out);
        if !seen.insert(name.to_owned()) {
            out.push(Cause::duplicate(at, &json!(name)));
        }
    }
}

fn spread(constraints: &Value, field: &str, out: &mut Causes) {
    for (i, constraint) in list(constraints) {
        let at = format!("{field}[{i}]");
        if constraint["maxSkew"].as_i64().unwrap_or(0) <= 0 {
            let shown =
                if constraint["maxSkew"].is_null() { json!(0) } else { constraint["maxSkew"].clone() };
            out.push(Cause::invalid(format!("{at}.maxSkew"), &shown, "must be greater than zero"));
        }
        if is_empty(&constraint["topologyKey"]) {
            out.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
        }
        let unsatisfiable = &constraint["whenUnsatisfiable"];
        if !matches!(unsatisfiable.as_str(), Some("DoNotSchedule" | "ScheduleAnyway")) {
            out.push(Cause::not_supported(
                format!("{at}.whenUnsatisfiable"),
                &json!(unsatisfiable.as_str().unwrap_or("")),
                &["DoNotSchedule", "ScheduleAnyway"],
            ));
        }
        super::label_selector(&constraint["labelSelector"], &format!("{at}.labelSelector"), out);
    }
}

fn affinity(affinity: &Value, field: &str, out: &mut Causes) {
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let at = format!("{field}.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution");
    if required.is_object() && is_empty(&required["nodeSelectorTerms"]) {
        out.push(Cause::required(
            format!("{at}.nodeSelectorTerms"),
            "must have at least one node selector term",
        ));
    }
    for (i, term) in list(&required["nodeSelectorTerms"]) {
        for (j, expression) in list(&term["matchExpressions"]) {
            let at = format!("{at}.nodeSelectorTerms[{i}].matchExpressions[{j}]");
            let values = expression["values"].as_array().map_or(0, Vec::len);
            match expression["operator"].as_str().unwrap_or("") {
                "In" | "NotIn" if values == 0 => out.push(Cause::required(
                    format!("{at}.values"),
                    "must be specified when `operator` is 'In' or 'NotIn'",
                )),
                "Exists" | "DoesNotExist" if values > 0 => out.push(Cause::forbidden(
                    format!("{at}.values"),
                    "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
                )),
                "Gt" | "Lt" if values != 1 => out.push(Cause::required(
                    format!("{at}.values"),
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                )),
                "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
                _ => out.push(Cause::invalid(
                    format!("{at}.operator"),
                    &expression["operator"],
                    "not a valid selector operator",
                )),
            }
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let terms = &affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"];
        for (i, term) in list(terms) {
            let at = format!("{field}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{i}]");
            if is_empty(&term["topologyKey"]) {
                out.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
            }
            super::label_selector(&term["labelSelector"], &format!("{at}.labelSelector"), out);
        }
    }
}

fn tolerations(tolerations: &Value, field: &str, out: &mut Causes) {
    for (i, toleration) in list(tolerations) {
        let at = format!("{field}[{i}]");
        let (key, operator, value, effect) = (
            toleration["key"].as_str().unwrap_or(""),
            toleration["operator"].as_str().unwrap_or(""),
            toleration["value"].as_str().unwrap_or(""),
            toleration["effect"].as_str().unwrap_or(""),
        );
        if !key.is_empty() {
            texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        } else if operator != "Exists" {
            out.push(Cause::invalid(
                format!("{at}.operator"),
                &json!(operator),
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            ));
        }
        if toleration["tolerationSeconds"].is_number() && effect != "NoExecute" {
            out.push(Cause::invalid(
                format!("{at}.effect"),
                &json!(effect),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            ));
        }
        match operator {
            "" | "Equal" | "Lt" | "Gt" => {
                texts(meta::label_value_problems(value), &json!(value), &format!("{at}.operator"), out);
            }
            "Exists" => {
                if !value.is_empty() {
                    out.push(Cause::invalid(
                        at.clone(),
                        toleration,
                        "value must be empty when `operator` is 'Exists'",
                    ));
                }
            }
            _ => out.push(Cause::not_supported(
                format!("{at}.operator"),
                &json!(operator),
                &["Equal", "Exists"],
            )),
        }
        if !effect.is_empty() {
            one_of(
                &toleration["effect"],
                format!("{at}.effect"),
                &["NoExecute", "NoSchedule", "PreferNoSchedule"],
                out,
            );
        }
    }
}
