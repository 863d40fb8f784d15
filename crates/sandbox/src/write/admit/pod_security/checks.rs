//! The rules of the Pod Security Standards, in the order a server reports them: the baseline's by name, then the
//! restricted ones. A restricted rule about the same field takes the place of its baseline.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{Level, Violation};

/// Capabilities a container may add to those it has.
const CAPABILITIES: &[&str] = &[
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];
const SYSCTLS: &[&str] = &[
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ping_group_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_wmem",
];
const SELINUX_TYPES: &[&str] =
    &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"];
const VOLUMES: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "persistentVolumeClaim",
    "projected",
    "secret",
];
const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Everything a level forbids about a pod.
pub(super) fn violations(level: Level, pod: &Value) -> Vec<Violation> {
    let pod = Pod::new(pod);
    type Check = fn(&Pod<'_>) -> Option<Violation>;
    let baseline: &[Check] = match level {
        Level::Privileged => return Vec::new(),
        Level::Baseline => &[
            app_armor,
            added_capabilities,
            host_namespaces,
            host_paths,
            host_ports,
            privileged,
            proc_mount,
            selinux,
            seccomp,
            sysctls,
            host_process,
        ],
        Level::Restricted => {
            &[app_armor, host_namespaces, host_ports, privileged, proc_mount, selinux, sysctls, host_process]
        }
    };
    let restricted: &[Check] = match level {
        Level::Restricted => {
            &[escalation, dropped_capabilities, volume_types, non_root, root_user, required_seccomp]
        }
        _ => &[],
    };
    baseline.iter().chain(restricted).filter_map(|check| check(&pod)).collect()
}

/// A pod with its containers in the order rules look at them.
struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    containers: Vec<&'a Value>,
}

impl<'a> Pod<'a> {
    fn new(pod: &'a Value) -> Self {
        let spec = &pod["spec"];
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.iter().flat_map(|list| items(&spec[*list])).collect();
        Self { metadata: &pod["metadata"], spec, containers }
    }

    /// The names of containers whose security context is so.
    fn which(&self, is_bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let bad = self.containers.iter().filter(|container| is_bad(&container["securityContext"]));
        bad.map(|container| container["name"].as_str().unwrap_or_default()).collect()
    }

    fn context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Root in a user namespace of the pod's own is nobody outside of it.
    fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    /// Who set something bad: the pod, containers, or both.
    fn setters(&self, is_bad: impl Fn(&Value) -> bool) -> Vec<String> {
        let mut setters = Vec::new();
        if is_bad(self.context()) {
            setters.push("pod".to_owned());
        }
        let containers = self.which(is_bad);
        if !containers.is_empty() {
            setters.push(named_containers(&containers));
        }
        setters
    }
}

fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = names.into_iter().map(|name| format!("{:?}", name.as_ref())).collect();
    all.join(", ")
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

fn named_containers(names: &[&str]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), quoted(names))
}

fn found(reason: &str, detail: impl Into<String>) -> Option<Violation> {
    Some(Violation { reason: reason.to_owned(), detail: detail.into() })
}

/// One rule about containers alone.
fn about(names: &[&str], reason: &str, demand: &str) -> Option<Violation> {
    if names.is_empty() { None } else { found(reason, format!("{} {demand}", named_containers(names))) }
}

fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let kind = |context: &Value| context["appArmorProfile"]["type"].as_str().map(str::to_owned);
    let is_bad = |context: &Value| {
        kind(context).is_some_and(|kind| !matches!(kind.as_str(), "" | "RuntimeDefault" | "Localhost"))
    };
    let mut values: BTreeSet<String> = BTreeSet::new();
    let contexts = pod.containers.iter().map(|container| &container["securityContext"]);
    for context in std::iter::once(pod.context()).chain(contexts).filter(|context| is_bad(context)) {
        values.extend(kind(context));
    }
    let mut details = Vec::new();
    let setters = pod.setters(is_bad);
    if !setters.is_empty() {
        let values = quoted(&values);
        details.push(format!("{} must not set AppArmor profile type to {values}", setters.join(" and ")));
    }
    let annotations = pod.metadata["annotations"].as_object().into_iter().flatten();
    let mut forbidden: Vec<String> = annotations
        .filter(|(key, _)| key.starts_with(APP_ARMOR))
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(_, value)| {
            !value.is_empty() && *value != "runtime/default" && !value.starts_with("localhost/")
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    forbidden.sort();
    let count = values.len() + forbidden.len();
    details.extend(forbidden);
    if details.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", count);
    found(reason, details.join(", "))
}

/// Containers that add capabilities they may not, and which.
fn adding<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<String>) {
    let mut capabilities = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let added = items(&container["securityContext"]["capabilities"]["add"]).filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|capability| !allowed.contains(capability)).collect();
        if !bad.is_empty() {
            names.push(container["name"].as_str().unwrap_or_default());
            capabilities.extend(bad.into_iter().map(str::to_owned));
        }
    }
    (names, capabilities)
}

fn added_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    let (names, capabilities) = adding(pod, CAPABILITIES);
    let demand = format!("must not include {} in securityContext.capabilities.add", quoted(&capabilities));
    about(&names, "non-default capabilities", &demand)
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let used: Vec<&str> = ["hostIPC", "hostNetwork", "hostPID"]
        .into_iter()
        .filter(|namespace| pod.spec[*namespace] == true)
        .collect();
    if used.is_empty() { None } else { found("host namespaces", used.join(", ")) }
}

fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = items(&pod.spec["volumes"]).filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.filter_map(|volume| volume["name"].as_str()).collect();
    if names.is_empty() {
        return None;
    }
    found("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names)))
}

fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    let mut ports = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let bad: Vec<String> = items(&container["ports"])
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        if !bad.is_empty() {
            names.push(container["name"].as_str().unwrap_or_default());
            ports.extend(bad);
        }
    }
    let (uses, what) = (plural("uses", "use", names.len()), plural("hostPort", "hostPorts", ports.len()));
    let ports: Vec<String> = ports.into_iter().collect();
    about(&names, "hostPort", &format!("{uses} {what} {}", ports.join(", ")))
}

fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.which(|context| context["privileged"] == true);
    about(&names, "privileged", "must not set securityContext.privileged=true")
}

fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let mount = |context: &Value| context["procMount"].as_str().unwrap_or("Default").to_owned();
    let names = pod.which(|context| mount(context) != "Default");
    let contexts = pod.containers.iter().map(|container| mount(&container["securityContext"]));
    let values: BTreeSet<String> = contexts.filter(|mount| mount != "Default").collect();
    about(&names, "procMount", &format!("must not set securityContext.procMount to {}", quoted(&values)))
}

fn selinux(pod: &Pod<'_>) -> Option<Violation> {
    let text = |context: &Value, member: &str| {
        context["seLinuxOptions"][member].as_str().unwrap_or_default().to_owned()
    };
    let has_bad_type = |context: &Value| !SELINUX_TYPES.contains(&text(context, "type").as_str());
    let sets = |context: &Value, member: &str| !text(context, member).is_empty();
    let is_bad = |context: &Value| has_bad_type(context) || sets(context, "user") || sets(context, "role");
    let setters = pod.setters(is_bad);
    if setters.is_empty() {
        return None;
    }
    let contexts = || {
        let own = pod.containers.iter().map(|container| &container["securityContext"]);
        std::iter::once(pod.context()).chain(own)
    };
    let types: BTreeSet<String> =
        contexts().filter(|context| has_bad_type(context)).map(|context| text(context, "type")).collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    }
    for member in ["user", "role"] {
        if contexts().any(|context| sets(context, member)) {
            data.push(format!("{member} may not be set"));
        }
    }
    let setters = setters.join(" and ");
    found(
        "seLinuxOptions",
        format!("{setters} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")),
    )
}

fn seccomp_type(context: &Value) -> Option<&str> {
    context["seccompProfile"]["type"].as_str()
}

fn is_bad_seccomp(context: &Value) -> bool {
    seccomp_type(context).is_some_and(|kind| !matches!(kind, "RuntimeDefault" | "Localhost"))
}

fn seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let setters = pod.setters(is_bad_seccomp);
    if setters.is_empty() {
        return None;
    }
    let own = pod.containers.iter().map(|container| &container["securityContext"]);
    let contexts = std::iter::once(pod.context()).chain(own).filter(|context| is_bad_seccomp(context));
    let values: BTreeSet<&str> = contexts.filter_map(seccomp_type).collect();
    let setters = setters.join(" and ");
    let detail = format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted(&values));
    found("seccompProfile", detail)
}

fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    let names = items(&pod.context()["sysctls"]).filter_map(|sysctl| sysctl["name"].as_str());
    let bad: Vec<&str> = names.filter(|name| !SYSCTLS.contains(name)).collect();
    if bad.is_empty() { None } else { found("forbidden sysctls", bad.join(", ")) }
}

fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let setters = pod.setters(|context| context["windowsOptions"]["hostProcess"] == true);
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    found("hostProcess", format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"))
}

fn escalation(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let names = pod.which(|context| context["allowPrivilegeEscalation"] != false);
    let demand = "must set securityContext.allowPrivilegeEscalation=false";
    about(&names, "allowPrivilegeEscalation != false", demand)
}

fn dropped_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    let mut details = Vec::new();
    let keeping = pod.which(|context| !items(&context["capabilities"]["drop"]).any(|drop| drop == "ALL"));
    if !keeping.is_empty() {
        let names = named_containers(&keeping);
        details.push(format!("{names} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    let (names, added) = adding(pod, &["NET_BIND_SERVICE"]);
    if !names.is_empty() {
        let (names, added) = (named_containers(&names), quoted(&added));
        details.push(format!("{names} must not include {added} in securityContext.capabilities.add"));
    }
    if details.is_empty() { None } else { found("unrestricted capabilities", details.join("; ")) }
}

fn volume_types(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for volume in items(&pod.spec["volumes"]) {
        let members = volume.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        let source = members.into_iter().find(|key| *key != "name");
        if let Some(kind) = source.filter(|kind| !VOLUMES.contains(kind)) {
            names.push(volume["name"].as_str().unwrap_or_default());
            kinds.insert(kind);
        }
    }
    if names.is_empty() {
        return None;
    }
    let count = names.len();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", count),
        quoted(&names),
        plural("uses", "use", count),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds)
    );
    found("restricted volume types", detail)
}

fn non_root(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    let setters = pod.setters(|context| context["runAsNonRoot"] == false);
    if !setters.is_empty() {
        let setters = setters.join(" and ");
        return found(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    if pod.context()["runAsNonRoot"] == true {
        return None;
    }
    let silent = pod.which(|context| context["runAsNonRoot"].is_null());
    if silent.is_empty() {
        return None;
    }
    let names = named_containers(&silent);
    found(REASON, format!("pod or {names} must set securityContext.runAsNonRoot=true"))
}

fn root_user(pod: &Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let setters = pod.setters(|context| context["runAsUser"].as_i64() == Some(0));
    if setters.is_empty() {
        return None;
    }
    found("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
}

fn required_seccomp(pod: &Pod<'_>) -> Option<Violation> {
    if pod.is_windows() {
        return None;
    }
    if let Some(found) = seccomp(pod) {
        return Some(found);
    }
    if seccomp_type(pod.context()).is_some() {
        return None;
    }
    let silent = pod.which(|context| seccomp_type(context).is_none());
    if silent.is_empty() {
        return None;
    }
    let names = named_containers(&silent);
    let detail = format!(
        "pod or {names} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
    );
    found("seccompProfile", detail)
}
