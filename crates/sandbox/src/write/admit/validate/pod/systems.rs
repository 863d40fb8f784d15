//! Validation of what a pod asks of the operating system of its node.

use serde_json::{Value, json};

use super::{each_container, text_member};
use crate::status::StatusCause;
use crate::write::admit::validate::{CauseList, is_empty};

/// Fields of a pod and of a container that only Linux has.
const OF_PODS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];
const OF_CONTAINERS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

pub(super) fn validate_operating_system(spec: &Value, field: &str, out: &mut CauseList) {
    if spec["os"].is_null() {
        return;
    }
    match text_member(&spec["os"], "name") {
        "" => out.push(StatusCause::required(format!("{field}.os.name"), "")),
        "linux" => {
            let mut forbid = |context: &Value, at: String| {
                if !context["windowsOptions"].is_null() {
                    let why = "windows options cannot be set for a linux pod";
                    out.push(StatusCause::forbidden(format!("{at}.securityContext.windowsOptions"), why));
                }
            };
            forbid(&spec["securityContext"], field.to_owned());
            for (at, container) in each_container(spec, field) {
                forbid(&container["securityContext"], at);
            }
        }
        "windows" => {
            let mut forbid = |holder: &Value, keys: &[&str], at: &str| {
                for key in keys.iter().filter(|key| {
                    let value = &holder[**key];
                    !value.is_null()
                        && *value != json!([])
                        && !(key.starts_with("host") && **key != "hostUsers" && *value == false)
                }) {
                    out.push(StatusCause::forbidden(
                        format!("{at}.{key}"),
                        "cannot be set for a windows pod",
                    ));
                }
            };
            forbid(&spec["securityContext"], OF_PODS, &format!("{field}.securityContext"));
            forbid(spec, &["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"], field);
            for (at, container) in each_container(spec, field) {
                forbid(&container["securityContext"], OF_CONTAINERS, &format!("{at}.securityContext"));
            }
        }
        other => {
            out.push(StatusCause::not_supported(format!("{field}.os"), &json!(other), &["linux", "windows"]));
        }
    }
}

/// Validates host processes of Windows: all containers of a pod are such, or none.
pub(super) fn validate_host_processes(spec: &Value, field: &str, out: &mut CauseList) {
    let of = |holder: &Value| holder["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let pod = of(spec);
    let (mut all, mut such) = (0, 0);
    for (at, container) in each_container(spec, field) {
        all += 1;
        let own = of(container);
        if let (Some(pod), Some(own)) = (pod, own)
            && pod != own
        {
            out.push(StatusCause::invalid(
                format!("{at}.securityContext.windowsOptions.hostProcess"),
                &json!(own),
                &format!("pod hostProcess value must be identical if both are specified, was {pod}"),
            ));
        }
        such += i32::from(own.or(pod) == Some(true));
    }
    if such > 0 && such != all {
        let why =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        out.push(StatusCause::invalid(field, &json!(""), why));
    }
    if such > 0 && spec["hostNetwork"] != true {
        let why = "hostNetwork must be true if pod contains any hostProcess containers";
        out.push(StatusCause::invalid(format!("{field}.hostNetwork"), &json!(false), why));
    }
}

/// Validates the Windows options of a container.
pub(super) fn validate_windows_options(options: &Value, field: &str, out: &mut CauseList) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        let problems = crate::write::admit::meta::subdomain_problems(name);
        crate::write::admit::validate::add_problems(
            problems,
            &json!(name),
            &format!("{field}.gmsaCredentialSpecName"),
            out,
        );
    }
    if options["gmsaCredentialSpec"] == "" {
        let why = "gmsaCredentialSpec cannot be an empty string";
        out.push(StatusCause::invalid(format!("{field}.gmsaCredentialSpec"), &json!(""), why));
    }
    let Some(whole) = options["runAsUserName"].as_str() else { return };
    let mut refuse = |why: &str| {
        out.push(StatusCause::invalid(format!("{field}.runAsUserName"), &json!(whole), why));
    };
    let parts: Vec<&str> = whole.split('\\').collect();
    if whole.is_empty() {
        return refuse("runAsUserName cannot be an empty string");
    } else if whole.bytes().any(|b| b.is_ascii_control()) {
        return refuse("runAsUserName cannot contain control characters");
    } else if parts.len() > 2 {
        return refuse("runAsUserName cannot contain more than one backslash");
    }
    let user = parts.last().copied().unwrap_or("");
    if let [domain, _] = parts.as_slice() {
        if domain.len() >= 256 {
            refuse("runAsUserName's Domain length must be under 256 characters");
        }
        if !is_netbios_domain(domain) && !is_dns_domain(domain) {
            refuse("runAsUserName's Domain doesn't match the NetBios nor the DNS format");
        }
    }
    if user.is_empty() {
        refuse("runAsUserName's User cannot be empty");
    } else if user.len() > 104 {
        refuse("runAsUserName's User length must not be longer than 104 characters");
    }
    if !user.is_empty() && user.chars().all(|c| c == '.' || c == ' ') {
        refuse("runAsUserName's User cannot contain only periods or spaces");
    }
    if user.contains(|c: char| "\"/\\:;|=,+*?<>@[]".contains(c)) {
        refuse("runAsUserName's User cannot contain the following characters: \"/\\:;|=,+*?<>@[]");
    }
}

fn is_netbios_domain(domain: &str) -> bool {
    let length = domain.chars().count();
    (1..=15).contains(&length)
        && !domain.starts_with('.')
        && !domain.contains(|c: char| "\\/:*?\"<>|".contains(c))
}

fn is_dns_domain(domain: &str) -> bool {
    domain.split('.').all(|label| {
        let edge = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
        label.len() <= 63
            && edge(label.chars().next())
            && edge(label.chars().last())
            && label.bytes().all(|b| b == b'-' || b.is_ascii_alphanumeric())
    })
}

/// Returns true if a pod is for Windows.
pub(super) fn is_windows(spec: &Value) -> bool {
    !is_empty(&spec["os"]) && spec["os"]["name"] == "windows"
}
