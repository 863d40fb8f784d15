//! The rules of the Pod Security Standards, in the order a server reports them: the baseline's by name, then the
//! restricted ones. A restricted rule about the same field takes the place of its baseline.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{PolicyLevel, PolicyViolation};

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
pub(super) fn find_violations(level: PolicyLevel, pod: &Value) -> Vec<PolicyViolation> {
    let pod = CheckedPod::new(pod);
    type Check = fn(&CheckedPod<'_>) -> Option<PolicyViolation>;
    let baseline: &[Check] = match level {
        PolicyLevel::Privileged => return Vec::new(),
        PolicyLevel::Baseline => &[
            app_armor,
            added_capabilities,
            host_namespaces,
            host_paths,
            host_ports,
            privileged_containers,
            proc_mount,
            selinux_options,
            seccomp_profile,
            unsafe_sysctls,
            host_process,
        ],
        PolicyLevel::Restricted => &[
            app_armor,
            host_namespaces,
            host_ports,
            privileged_containers,
            proc_mount,
            selinux_options,
            unsafe_sysctls,
            host_process,
        ],
    };
    let restricted: &[Check] = match level {
        PolicyLevel::Restricted => {
            &[privilege_escalation, dropped_capabilities, volume_types, non_root, root_user, required_seccomp]
        }
        _ => &[],
    };
    baseline.iter().chain(restricted).filter_map(|check| check(&pod)).collect()
}

/// A pod with its containers in the order rules look at them.
struct CheckedPod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    containers: Vec<&'a Value>,
}

impl<'a> CheckedPod<'a> {
    fn new(pod: &'a Value) -> Self {
        let spec = &pod["spec"];
        let lists = ["initContainers", "containers", "ephemeralContainers"];
        let containers = lists.iter().flat_map(|list| list_items(&spec[*list])).collect();
        Self { metadata: &pod["metadata"], spec, containers }
    }

    /// The names of containers whose security context is so.
    fn containers_where(&self, is_bad: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        let bad = self.containers.iter().filter(|container| is_bad(&container["securityContext"]));
        bad.map(|container| container["name"].as_str().unwrap_or_default()).collect()
    }

    fn pod_context(&self) -> &'a Value {
        &self.spec["securityContext"]
    }

    fn is_windows(&self) -> bool {
        self.spec["os"]["name"] == "windows"
    }

    /// Returns true if the pod has a user namespace of its own, where root is nobody outside.
    fn has_own_users(&self) -> bool {
        self.spec["hostUsers"] == false
    }

    /// Returns who set a bad value: the pod, containers, or both.
    fn setters_where(&self, is_bad: impl Fn(&Value) -> bool) -> Vec<String> {
        let mut setters = Vec::new();
        if is_bad(self.pod_context()) {
            setters.push("pod".to_owned());
        }
        let containers = self.containers_where(is_bad);
        if !containers.is_empty() {
            setters.push(named_containers(&containers));
        }
        setters
    }
}

fn list_items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

fn quoted_names<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = names.into_iter().map(|name| format!("{:?}", name.as_ref())).collect();
    all.join(", ")
}

fn plural_word<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

fn named_containers(names: &[&str]) -> String {
    format!("{} {}", plural_word("container", "containers", names.len()), quoted_names(names))
}

fn violation_of(reason: &str, detail: impl Into<String>) -> Option<PolicyViolation> {
    Some(PolicyViolation { reason: reason.to_owned(), detail: detail.into() })
}

/// One rule about containers alone.
fn container_violation(names: &[&str], reason: &str, demand: &str) -> Option<PolicyViolation> {
    if names.is_empty() {
        None
    } else {
        violation_of(reason, format!("{} {demand}", named_containers(names)))
    }
}

fn app_armor(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let kind = |context: &Value| context["appArmorProfile"]["type"].as_str().map(str::to_owned);
    let is_bad = |context: &Value| {
        kind(context).is_some_and(|kind| !matches!(kind.as_str(), "" | "RuntimeDefault" | "Localhost"))
    };
    let mut values: BTreeSet<String> = BTreeSet::new();
    let contexts = pod.containers.iter().map(|container| &container["securityContext"]);
    for context in std::iter::once(pod.pod_context()).chain(contexts).filter(|context| is_bad(context)) {
        values.extend(kind(context));
    }
    let mut details = Vec::new();
    let setters = pod.setters_where(is_bad);
    if !setters.is_empty() {
        let values = quoted_names(&values);
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
    let reason = plural_word("forbidden AppArmor profile", "forbidden AppArmor profiles", count);
    violation_of(reason, details.join(", "))
}

/// Containers that add capabilities they may not, and which.
fn capability_adders<'a>(pod: &CheckedPod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<String>) {
    let mut capabilities = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let added =
            list_items(&container["securityContext"]["capabilities"]["add"]).filter_map(Value::as_str);
        let bad: Vec<&str> = added.filter(|capability| !allowed.contains(capability)).collect();
        if !bad.is_empty() {
            names.push(container["name"].as_str().unwrap_or_default());
            capabilities.extend(bad.into_iter().map(str::to_owned));
        }
    }
    (names, capabilities)
}

fn added_capabilities(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let (names, capabilities) = capability_adders(pod, CAPABILITIES);
    let demand =
        format!("must not include {} in securityContext.capabilities.add", quoted_names(&capabilities));
    container_violation(&names, "non-default capabilities", &demand)
}

fn host_namespaces(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let used: Vec<&str> = ["hostIPC", "hostNetwork", "hostPID"]
        .into_iter()
        .filter(|namespace| pod.spec[*namespace] == true)
        .collect();
    if used.is_empty() { None } else { violation_of("host namespaces", used.join(", ")) }
}

fn host_paths(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let volumes = list_items(&pod.spec["volumes"]).filter(|volume| !volume["hostPath"].is_null());
    let names: Vec<&str> = volumes.filter_map(|volume| volume["name"].as_str()).collect();
    if names.is_empty() {
        return None;
    }
    violation_of(
        "hostPath volumes",
        format!("{} {}", plural_word("volume", "volumes", names.len()), quoted_names(&names)),
    )
}

fn host_ports(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let mut ports = BTreeSet::new();
    let mut names = Vec::new();
    for container in &pod.containers {
        let bad: Vec<String> = list_items(&container["ports"])
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        if !bad.is_empty() {
            names.push(container["name"].as_str().unwrap_or_default());
            ports.extend(bad);
        }
    }
    let (uses, what) =
        (plural_word("uses", "use", names.len()), plural_word("hostPort", "hostPorts", ports.len()));
    let ports: Vec<String> = ports.into_iter().collect();
    container_violation(&names, "hostPort", &format!("{uses} {what} {}", ports.join(", ")))
}

fn privileged_containers(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let names = pod.containers_where(|context| context["privileged"] == true);
    container_violation(&names, "privileged", "must not set securityContext.privileged=true")
}

fn proc_mount(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    if pod.has_own_users() {
        return None;
    }
    let mount = |context: &Value| context["procMount"].as_str().unwrap_or("Default").to_owned();
    let names = pod.containers_where(|context| mount(context) != "Default");
    let contexts = pod.containers.iter().map(|container| mount(&container["securityContext"]));
    let values: BTreeSet<String> = contexts.filter(|mount| mount != "Default").collect();
    container_violation(
        &names,
        "procMount",
        &format!("must not set securityContext.procMount to {}", quoted_names(&values)),
    )
}

fn selinux_options(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let text = |context: &Value, member: &str| {
        context["seLinuxOptions"][member].as_str().unwrap_or_default().to_owned()
    };
    let has_bad_type = |context: &Value| !SELINUX_TYPES.contains(&text(context, "type").as_str());
    let sets = |context: &Value, member: &str| !text(context, member).is_empty();
    let is_bad = |context: &Value| has_bad_type(context) || sets(context, "user") || sets(context, "role");
    let setters = pod.setters_where(is_bad);
    if setters.is_empty() {
        return None;
    }
    let contexts = || {
        let own = pod.containers.iter().map(|container| &container["securityContext"]);
        std::iter::once(pod.pod_context()).chain(own)
    };
    let types: BTreeSet<String> =
        contexts().filter(|context| has_bad_type(context)).map(|context| text(context, "type")).collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural_word("type", "types", types.len()), quoted_names(&types)));
    }
    for member in ["user", "role"] {
        if contexts().any(|context| sets(context, member)) {
            data.push(format!("{member} may not be set"));
        }
    }
    let setters = setters.join(" and ");
    violation_of(
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

fn seccomp_profile(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let setters = pod.setters_where(is_bad_seccomp);
    if setters.is_empty() {
        return None;
    }
    let own = pod.containers.iter().map(|container| &container["securityContext"]);
    let contexts = std::iter::once(pod.pod_context()).chain(own).filter(|context| is_bad_seccomp(context));
    let values: BTreeSet<&str> = contexts.filter_map(seccomp_type).collect();
    let setters = setters.join(" and ");
    let detail =
        format!("{setters} must not set securityContext.seccompProfile.type to {}", quoted_names(&values));
    violation_of("seccompProfile", detail)
}

fn unsafe_sysctls(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let names = list_items(&pod.pod_context()["sysctls"]).filter_map(|sysctl| sysctl["name"].as_str());
    let bad: Vec<&str> = names.filter(|name| !SYSCTLS.contains(name)).collect();
    if bad.is_empty() { None } else { violation_of("forbidden sysctls", bad.join(", ")) }
}

fn host_process(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let setters = pod.setters_where(|context| context["windowsOptions"]["hostProcess"] == true);
    if setters.is_empty() {
        return None;
    }
    let setters = setters.join(" and ");
    violation_of(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}

fn privilege_escalation(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    if pod.is_windows() {
        return None;
    }
    let names = pod.containers_where(|context| context["allowPrivilegeEscalation"] != false);
    let demand = "must set securityContext.allowPrivilegeEscalation=false";
    container_violation(&names, "allowPrivilegeEscalation != false", demand)
}

fn dropped_capabilities(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    if pod.is_windows() {
        return None;
    }
    let mut details = Vec::new();
    let keeping = pod
        .containers_where(|context| !list_items(&context["capabilities"]["drop"]).any(|drop| drop == "ALL"));
    if !keeping.is_empty() {
        let names = named_containers(&keeping);
        details.push(format!("{names} must set securityContext.capabilities.drop=[\"ALL\"]"));
    }
    let (names, added) = capability_adders(pod, &["NET_BIND_SERVICE"]);
    if !names.is_empty() {
        let (names, added) = (named_containers(&names), quoted_names(&added));
        details.push(format!("{names} must not include {added} in securityContext.capabilities.add"));
    }
    if details.is_empty() { None } else { violation_of("unrestricted capabilities", details.join("; ")) }
}

fn volume_types(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    let mut kinds = BTreeSet::new();
    let mut names = Vec::new();
    for volume in list_items(&pod.spec["volumes"]) {
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
        plural_word("volume", "volumes", count),
        quoted_names(&names),
        plural_word("uses", "use", count),
        plural_word("restricted volume type", "restricted volume types", kinds.len()),
        quoted_names(&kinds)
    );
    violation_of("restricted volume types", detail)
}

fn non_root(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    if pod.has_own_users() {
        return None;
    }
    const REASON: &str = "runAsNonRoot != true";
    let setters = pod.setters_where(|context| context["runAsNonRoot"] == false);
    if !setters.is_empty() {
        let setters = setters.join(" and ");
        return violation_of(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    if pod.pod_context()["runAsNonRoot"] == true {
        return None;
    }
    let silent = pod.containers_where(|context| context["runAsNonRoot"].is_null());
    if silent.is_empty() {
        return None;
    }
    let names = named_containers(&silent);
    violation_of(REASON, format!("pod or {names} must set securityContext.runAsNonRoot=true"))
}

fn root_user(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    if pod.has_own_users() {
        return None;
    }
    let setters = pod.setters_where(|context| context["runAsUser"].as_i64() == Some(0));
    if setters.is_empty() {
        return None;
    }
    violation_of("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
}

fn required_seccomp(pod: &CheckedPod<'_>) -> Option<PolicyViolation> {
    if pod.is_windows() {
        return None;
    }
    if let Some(found) = seccomp_profile(pod) {
        return Some(found);
    }
    if seccomp_type(pod.pod_context()).is_some() {
        return None;
    }
    let silent = pod.containers_where(|context| seccomp_type(context).is_none());
    if silent.is_empty() {
        return None;
    }
    let names = named_containers(&silent);
    let detail = format!(
        "pod or {names} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
    );
    violation_of("seccompProfile", detail)
}
