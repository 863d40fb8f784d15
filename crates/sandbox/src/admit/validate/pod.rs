//! Validation of pods and pod templates.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Causes, is_empty, list, non_negative, one_of, port_number, port_or_name, texts};
use crate::admit::meta;
use crate::admit::quota::{amount, canonical};
use crate::status::Cause;

pub(super) fn pod(object: &Value, update: bool, out: &mut Causes) {
    spec(&object["spec"], "spec", out);
    if !update && !is_empty(&object["spec"]["ephemeralContainers"]) {
        out.push(Cause::forbidden("spec.ephemeralContainers", "cannot be set on create"));
    }
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
            "hostPath" => {
                required("path", out);
                if volume[*source]["path"].as_str().is_some_and(climbs) {
                    let at = format!("{at}.hostPath.path");
                    out.push(Cause::invalid(at, &volume[*source]["path"], "must not contain '..'"));
                }
                let kinds = [
                    "",
                    "BlockDevice",
                    "CharDevice",
                    "Directory",
                    "DirectoryOrCreate",
                    "File",
                    "FileOrCreate",
                    "Socket",
                ];
                if let Some(kind) = volume[*source]["type"].as_str().filter(|kind| !kinds.contains(kind)) {
                    out.push(Cause::not_supported(format!("{at}.hostPath.type"), &json!(kind), &kinds));
                }
            }
            "secret" => {
                required("secretName", out);
                files(&volume[*source], &format!("{at}.secret"), out);
            }
            "configMap" => {
                required("name", out);
                files(&volume[*source], &format!("{at}.configMap"), out);
            }
            "downwardAPI" => {
                for (_, item) in list(&volume[*source]["items"]) {
                    told_in_files(&item["fieldRef"], &format!("{at}.downwardAPI.fieldRef"), out);
                }
            }
            "projected" => {
                for (i, part) in list(&volume[*source]["sources"]) {
                    let each = format!("{at}.projected.sources[{i}]");
                    for kind in ["secret", "configMap"] {
                        if part[kind].is_object() && is_empty(&part[kind]["name"]) {
                            out.push(Cause::required(format!("{each}.{kind}.name"), ""));
                        }
                    }
                    let token = &part["serviceAccountToken"];
                    if token["expirationSeconds"].as_i64().is_some_and(|s| s < 600) {
                        out.push(Cause::invalid(
                            format!("{each}.serviceAccountToken.expirationSeconds"),
                            &token["expirationSeconds"],
                            "may not specify a duration less than 10 minutes",
                        ));
                    }
                    if token.is_object() && is_empty(&token["path"]) {
                        out.push(Cause::required(format!("{at}.projected.path"), ""));
                    }
                }
            }
            "emptyDir" if amount(&volume[*source]["sizeLimit"]).is_some_and(|size| size < 0) => {
                let why = "SizeLimit field must be a valid resource quantity";
                out.push(Cause::forbidden(format!("{at}.emptyDir.sizeLimit"), why));
            }
            "ephemeral" => required("volumeClaimTemplate", out),
            "persistentVolumeClaim" => required("claimName", out),
            "csi" => required("driver", out),
            "nfs" => {
                required("server", out);
                required("path", out);
                let path = volume[*source]["path"].as_str().unwrap_or("");
                if !path.starts_with('/') {
                    out.push(Cause::invalid(
                        format!("{at}.nfs.path"),
                        &json!(path),
                        "must be an absolute path",
                    ));
                }
            }
            _ => {}
        }
    }
    if first {
        out.push(Cause::required(at, "must specify a volume type"));
    }
}

/// The files of a volume that shows a secret or a config map.
fn files(source: &Value, field: &str, out: &mut Causes) {
    let mode = |value: &Value, field: String, out: &mut Causes| {
        if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
            let why = "must be a number between 0 and 0777 (octal), both inclusive";
            out.push(Cause::invalid(field, value, why));
        }
    };
    mode(&source["defaultMode"], format!("{field}.defaultMode"), out);
    for (i, item) in list(&source["items"]) {
        let at = format!("{field}.items[{i}]");
        if is_empty(&item["key"]) {
            out.push(Cause::required(format!("{at}.key"), ""));
        }
        match item["path"].as_str().unwrap_or("") {
            "" => out.push(Cause::required(format!("{at}.path"), "")),
            path if climbs(path) => {
                out.push(Cause::invalid(format!("{at}.path"), &item["path"], "must not contain '..'"));
            }
            _ => {}
        }
        mode(&item["mode"], format!("{at}.mode"), out);
    }
}

/// The fields of its pod a volume can show.
fn told_in_files(reference: &Value, field: &str, out: &mut Causes) {
    const SHOWN: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let Some(path) = reference["fieldPath"].as_str() else { return };
    let subscripted = ["metadata.annotations['", "metadata.labels['"].iter().any(|p| path.starts_with(p));
    if !subscripted && !SHOWN.contains(&path) {
        out.push(Cause::not_supported(format!("{field}.fieldPath"), &reference["fieldPath"], SHOWN));
    }
}

/// A pod spec at `field`.
pub(super) fn spec(spec: &Value, field: &str, out: &mut Causes) {
    let names = volumes(&spec["volumes"], &format!("{field}.volumes"), out);
    containers(spec, &names, field, out);
    one_of(&spec["restartPolicy"], format!("{field}.restartPolicy"), &["Always", "OnFailure", "Never"], out);
    one_of(
        &spec["dnsPolicy"],
        format!("{field}.dnsPolicy"),
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        out,
    );
    meta::validate_labels(&spec["nodeSelector"], &format!("{field}.nodeSelector"), out);
    pod_confinement(&spec["securityContext"], &format!("{field}.securityContext"), out);
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
    host_ports(spec, field, out);
    name_service(&spec["dnsConfig"], &format!("{field}.dnsConfig"), out);
    for (i, gate) in list(&spec["readinessGates"]) {
        let problems = meta::qualified_problems(gate["conditionType"].as_str().unwrap_or(""));
        let at = format!("{field}.readinessGates[{i}].conditionType");
        texts(problems, &gate["conditionType"], &at, out);
    }
    for (i, alias) in list(&spec["hostAliases"]) {
        let at = format!("{field}.hostAliases[{i}]");
        if alias["ip"].as_str().is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            let shown = json!(alias["ip"].as_str().unwrap_or(""));
            out.push(Cause::invalid(format!("{at}.ip"), &shown, super::network::BAD_IP));
        }
        for (j, name) in list(&alias["hostnames"]) {
            let problems = meta::subdomain_problems(name.as_str().unwrap_or(""));
            texts(problems, name, &format!("{at}.hostnames[{j}]"), out);
        }
    }
    if let Some(class) = spec["priorityClassName"].as_str().filter(|c| !c.is_empty()) {
        texts(
            meta::subdomain_problems(class),
            &spec["priorityClassName"],
            &format!("{field}.priorityClassName"),
            out,
        );
    }
    if spec["dnsPolicy"] == "None" && is_empty(&spec["dnsConfig"]["nameservers"]) {
        out.push(if spec["dnsConfig"].is_null() {
            Cause::required(format!("{field}.dnsConfig"), "must provide `dnsConfig` when `dnsPolicy` is None")
        } else {
            Cause::required(
                format!("{field}.dnsConfig.nameservers"),
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
        });
    }
    if let Some(system) = spec["os"]["name"].as_str().filter(|s| !matches!(*s, "linux" | "windows")) {
        out.push(Cause::not_supported(format!("{field}.os"), &json!(system), &["linux", "windows"]));
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
        &["File", "FallbackToLogsOnError"],
        out,
    );
    ports(&container["ports"], &format!("{at}.ports"), out);
    env(&container["env"], &format!("{at}.env"), out);
    for (i, source) in list(&container["envFrom"]) {
        let prefix = source["prefix"].as_str().unwrap_or("");
        if !prefix.bytes().all(|b| (0x20..0x7f).contains(&b) && b != b'=') {
            out.push(Cause::invalid(
                format!("{at}.envFrom[{i}].prefix"),
                &source["prefix"],
                "a valid environment variable name must consist only of printable ASCII characters other than '='",
            ));
        }
        let given = ["configMapRef", "secretRef"].iter().filter(|k| source[**k].is_object()).count();
        let at = format!("{at}.envFrom");
        match given {
            0 => {
                out.push(Cause::invalid(
                    at,
                    &json!(""),
                    "must specify one of: `configMapRef` or `secretRef`",
                ));
            }
            1 => {
                for key in ["configMapRef", "secretRef"] {
                    let source = &source[key];
                    let at = format!("{at}[{i}].{key}.name");
                    match source["name"].as_str().unwrap_or("") {
                        _ if !source.is_object() => {}
                        "" => out.push(Cause::required(at, "")),
                        name => {
                            let problems = meta::subdomain_problems(name);
                            texts(problems, &source["name"], &at, out);
                        }
                    }
                }
            }
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
    pages_alone(&container["resources"], &format!("{at}.resources"), out);
    confinement(&container["securityContext"], &format!("{at}.securityContext"), out);
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
                &at,
                &json!(""),
                "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`",
            ));
        } else if !is_empty(&variable["value"]) {
            out.push(Cause::invalid(&at, &json!(""), "may not be specified when `value` is not empty"));
        } else if given > 1 {
            out.push(Cause::invalid(&at, &json!(""), "may not have more than one field specified at a time"));
        }
        for key in ["configMapKeyRef", "secretKeyRef"] {
            if from[key].is_object() {
                let at = format!("{at}.{key}.key");
                match from[key]["key"].as_str().unwrap_or("") {
                    "" => out.push(Cause::required(at, "")),
                    text => super::config::key_problems(text, &at, out),
                }
            }
        }
        if from["resourceFieldRef"].is_object() {
            let resource = &from["resourceFieldRef"]["resource"];
            let known = COUNTED.iter().any(|known| resource == known)
                || resource.as_str().is_some_and(|r| r.contains("hugepages-"));
            let at = format!("{at}.resourceFieldRef.resource");
            if is_empty(resource) {
                out.push(Cause::required(at, ""));
            } else if !known {
                out.push(Cause::not_supported(at, resource, COUNTED));
            }
        }
        if from["fieldRef"].is_object() {
            field_path(&from["fieldRef"]["fieldPath"], &format!("{at}.fieldRef.fieldPath"), out);
        }
    }
}

/// The fields of its pod a container can be told of in its environment.
const TOLD: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// The resources a container can be told how much it has of.
const COUNTED: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

fn field_path(path: &Value, field: &str, out: &mut Causes) {
    let text = path.as_str().unwrap_or("");
    let subscripted = ["metadata.annotations['", "metadata.labels['"].iter().any(|p| text.starts_with(p));
    if text.is_empty() {
        out.push(Cause::required(field, ""));
    } else if subscripted || TOLD.contains(&text) {
    } else if matches!(
        text,
        "metadata.annotations"
            | "metadata.labels"
            | "spec.restartPolicy"
            | "spec.schedulerName"
            | "status.phase"
    ) {
        out.push(Cause::not_supported(field, path, TOLD));
    } else {
        let why = format!("error converting fieldPath: field label not supported: {text}");
        out.push(Cause::invalid(field, path, &why));
    }
}

/// `runAsUser` and its like.
fn id(value: &Value, field: String, out: &mut Causes) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        out.push(Cause::invalid(field, value, "must be between 0 and 2147483647, inclusive"));
    }
}

fn seccomp(profile: &Value, field: &str, out: &mut Causes) {
    if profile["type"] == "Localhost" && is_empty(&profile["localhostProfile"]) {
        let why = "must be set when seccomp type is Localhost";
        out.push(Cause::required(format!("{field}.localhostProfile"), why));
    }
}

/// A container's security context.
fn confinement(context: &Value, field: &str, out: &mut Causes) {
    id(&context["runAsUser"], format!("{field}.runAsUser"), out);
    id(&context["runAsGroup"], format!("{field}.runAsGroup"), out);
    if let Some(mount) = context["procMount"].as_str().filter(|m| !matches!(*m, "Default" | "Unmasked")) {
        out.push(Cause::not_supported(format!("{field}.procMount"), &json!(mount), &["Default", "Unmasked"]));
    }
    seccomp(&context["seccompProfile"], &format!("{field}.seccompProfile"), out);
    if context["allowPrivilegeEscalation"] != false {
        return;
    }
    let capabilities = &context["capabilities"];
    let capabilities = match capabilities {
        Value::Null => Value::Null,
        _ => super::internal(capabilities, &[("Add", "add"), ("Drop", "drop")]),
    };
    let rest = super::internal(
        context,
        &[
            ("Privileged", "privileged"),
            ("SELinuxOptions", "seLinuxOptions"),
            ("WindowsOptions", "windowsOptions"),
            ("RunAsUser", "runAsUser"),
            ("RunAsGroup", "runAsGroup"),
            ("RunAsNonRoot", "runAsNonRoot"),
            ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem"),
            ("AllowPrivilegeEscalation", "allowPrivilegeEscalation"),
            ("ProcMount", "procMount"),
            ("SeccompProfile", "seccompProfile"),
            ("AppArmorProfile", "appArmorProfile"),
        ],
    );
    let mut shown = json!({"Capabilities": capabilities});
    if let (Value::Object(all), Value::Object(rest)) = (&mut shown, rest) {
        all.extend(rest);
    }
    if context["privileged"] == true {
        let why = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
        out.push(Cause::invalid(field, &shown, why));
    }
    let adds = context["capabilities"]["add"].as_array();
    if adds.is_some_and(|all| all.iter().any(|c| c == "CAP_SYS_ADMIN")) {
        let why = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
        out.push(Cause::invalid(field, &shown, why));
    }
}

const SYSCTL: &str = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";

/// A pod's security context.
fn pod_confinement(context: &Value, field: &str, out: &mut Causes) {
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        id(&context[key], format!("{field}.{key}"), out);
    }
    for (i, group) in list(&context["supplementalGroups"]) {
        id(group, format!("{field}.supplementalGroups[{i}]"), out);
    }
    let mut seen = BTreeSet::new();
    for (i, sysctl) in list(&context["sysctls"]) {
        let at = format!("{field}.sysctls[{i}].name");
        let name = sysctl["name"].as_str().unwrap_or("");
        let part = |part: &str| {
            let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            edge(part.chars().next())
                && edge(part.chars().last())
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-_".contains(&b))
        };
        if name.is_empty() {
            out.push(Cause::required(at, ""));
        } else if name.len() > 253 || !name.split(['.', '/']).all(part) {
            out.push(Cause::invalid(at, &sysctl["name"], SYSCTL));
        } else if !seen.insert(name.to_owned()) {
            out.push(Cause::duplicate(at, &sysctl["name"]));
        }
    }
}

/// Whether a path leads out of where it starts.
fn climbs(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

fn mounts(container: &Value, volumes: &BTreeSet<String>, at: &str, out: &mut Causes) {
    let mut paths = BTreeSet::new();
    for (i, mount) in list(&container["volumeMounts"]) {
        let list_at = format!("{at}.volumeMounts");
        let at = format!("{at}.volumeMounts[{i}]");
        let name = mount["name"].as_str().unwrap_or("");
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        }
        if !volumes.contains(name) {
            out.push(Cause::not_found(format!("{at}.name"), &json!(name)));
        }
        if mount["subPath"].as_str().is_some_and(climbs) {
            let field = format!("{list_at}.subPath");
            out.push(Cause::invalid(field, &mount["subPath"], "must not contain '..'"));
        }
        let path = mount["mountPath"].as_str().unwrap_or("");
        if path.is_empty() {
            out.push(Cause::required(format!("{at}.mountPath"), ""));
        }
        if !paths.insert(path.to_owned()) {
            out.push(Cause::invalid(format!("{at}.mountPath"), &json!(path), "must be unique"));
        }
        if let Some(way) = mount["mountPropagation"].as_str() {
            let known = ["Bidirectional", "HostToContainer", "None"];
            if !known.contains(&way) {
                let field = format!("{list_at}.mountPropagation");
                out.push(Cause::not_supported(field, &mount["mountPropagation"], &known));
            }
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
            if name.contains('/') && given.is_some_and(|a| a % 1_000_000_000 != 0) {
                out.push(Cause::invalid(&at, &json!(canonical(quantity)), "must be an integer"));
            }
            if side == "requests" && name.contains('/') && resources["limits"].get(name).is_none() {
                out.push(Cause::required(
                    format!("{field}.limits"),
                    "Limit must be set for non overcommitable resources",
                ));
            }
            if let Some(page) = name.strip_prefix("hugepages-")
                && let (Some(page), Some(given)) = (amount(&json!(page)).filter(|p| *p > 0), given)
                && given % page != 0
            {
                let shown = canonical(quantity);
                let why = format!("{shown} is not positive integer multiple of {name}");
                out.push(Cause::invalid(&at, &json!(shown), &why));
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

/// Pages alone are not enough to run.
fn pages_alone(resources: &Value, field: &str, out: &mut Causes) {
    let has = |wanted: &dyn Fn(&str) -> bool| {
        ["limits", "requests"]
            .iter()
            .any(|side| resources[*side].as_object().into_iter().flatten().any(|(name, _)| wanted(name)))
    };
    if has(&|name| name.starts_with("hugepages-")) && !has(&|name| matches!(name, "cpu" | "memory")) {
        out.push(Cause::forbidden(field, "HugePages require cpu or memory"));
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
            "sleep" if action["seconds"].as_i64().is_some_and(|s| s < 0) => {
                let why = "must be non-negative and less than terminationGracePeriodSeconds (30)";
                out.push(Cause::invalid(at, &action["seconds"], why));
            }
            _ => {}
        }
    }
    if given == 0 {
        out.push(Cause::required(field, "must specify a handler type"));
    }
}

/// Ports of the host can be had once, and on its network they are the containers' own.
fn host_ports(spec: &Value, field: &str, out: &mut Causes) {
    let mut taken = BTreeSet::new();
    for (i, container) in list(&spec["containers"]) {
        for (j, port) in list(&container["ports"]) {
            let host = port["hostPort"].as_i64().unwrap_or(0);
            if host == 0 {
                continue;
            }
            let at = format!("{field}.containers[{i}].ports[{j}].hostPort");
            if spec["hostNetwork"] == true && port["containerPort"] != port["hostPort"] {
                let why = "must match `containerPort` when `hostNetwork` is true";
                out.push(Cause::invalid(&at, &port["hostPort"], why));
            }
            let text = |key: &str| port[key].as_str().unwrap_or("");
            let key = format!("{}/{}/{host}", text("protocol"), text("hostIP"));
            if !taken.insert(key.clone()) {
                out.push(Cause::duplicate(at, &json!(key)));
            }
        }
    }
}

const SEARCH: &str = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')";

fn name_service(config: &Value, field: &str, out: &mut Causes) {
    for (i, server) in list(&config["nameservers"]) {
        if server.as_str().is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_err()) {
            out.push(Cause::invalid(format!("{field}.nameservers[{i}]"), server, super::network::BAD_IP));
        }
    }
    for (i, search) in list(&config["searches"]) {
        let text = search.as_str().unwrap_or("").trim_end_matches('.');
        let bare = text.replace('_', "a");
        if !text.is_empty() && !meta::subdomain_problems(&bare).is_empty() {
            out.push(Cause::invalid(format!("{field}.searches[{i}]"), search, SEARCH));
        }
    }
    for (i, option) in list(&config["options"]) {
        if is_empty(&option["name"]) {
            out.push(Cause::required(format!("{field}.options[{i}]"), "must not be empty"));
        }
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
        if constraint["minDomains"].as_i64().is_some_and(|n| n <= 0) {
            let why = "must be greater than zero";
            out.push(Cause::invalid(format!("{at}.minDomains"), &constraint["minDomains"], why));
        }
        for key in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint[key].as_str().filter(|p| !matches!(*p, "Honor" | "Ignore")) {
                out.push(Cause::not_supported(format!("{at}.{key}"), &json!(policy), &["Honor", "Ignore"]));
            }
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
    let weight = |term: &Value, at: &str, out: &mut Causes| {
        if !term["weight"].as_i64().is_some_and(|w| (1..=100).contains(&w)) {
            let shown = if term["weight"].is_null() { json!(0) } else { term["weight"].clone() };
            out.push(Cause::invalid(format!("{at}.weight"), &shown, "must be in the range 1-100"));
        }
    };
    let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
    for (i, term) in list(&affinity["nodeAffinity"][preferred]) {
        weight(term, &format!("{field}.nodeAffinity.{preferred}[{i}]"), out);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        for (i, term) in list(&affinity[kind][preferred]) {
            let at = format!("{field}.{kind}.{preferred}[{i}]");
            weight(term, &at, out);
            let at = format!("{at}.podAffinityTerm.topologyKey");
            let key = term["podAffinityTerm"]["topologyKey"].as_str().unwrap_or("");
            if key.is_empty() {
                out.push(Cause::required(&at, "can not be empty"));
            }
            texts(meta::qualified_problems(key), &json!(key), &at, out);
        }
        let terms = &affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"];
        for (i, term) in list(terms) {
            let at = format!("{field}.{kind}.requiredDuringSchedulingIgnoredDuringExecution[{i}]");
            if is_empty(&term["topologyKey"]) {
                out.push(Cause::required(format!("{at}.topologyKey"), "can not be empty"));
            }
            let key = term["topologyKey"].as_str().unwrap_or("");
            texts(meta::qualified_problems(key), &json!(key), &format!("{at}.topologyKey"), out);
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
                        format!("{at}.operator"),
                        &json!(value),
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
                &["NoSchedule", "PreferNoSchedule", "NoExecute"],
                out,
            );
        }
    }
}
