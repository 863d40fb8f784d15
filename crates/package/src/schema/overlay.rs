//! Rules Kubernetes enforces but does not publish: ranges, word lists and forms of fields.

use std::sync::LazyLock;

use regex::Regex;
use slipway_manifest::names;

/// A rule for one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Constraint {
    Min(i64),
    Range(i64, i64),
    Words(&'static [&'static str]),
    Form(Format),
}

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Quantity,
    Cron,
    Subdomain,
    LabelValue,
    PortOrName,
    Image,
}

/// (owner type or `*`, field, rule). The first match counts.
const RULES: &[(&str, &str, Constraint)] = &[
    ("*", "replicas", Constraint::Min(0)),
    ("HorizontalPodAutoscalerSpec", "minReplicas", Constraint::Min(0)),
    ("HorizontalPodAutoscalerSpec", "maxReplicas", Constraint::Min(1)),
    ("*", "revisionHistoryLimit", Constraint::Min(0)),
    ("*", "progressDeadlineSeconds", Constraint::Min(0)),
    ("*", "minReadySeconds", Constraint::Min(0)),
    ("JobSpec", "backoffLimit", Constraint::Min(0)),
    ("JobSpec", "parallelism", Constraint::Min(0)),
    ("JobSpec", "completions", Constraint::Min(0)),
    ("JobSpec", "ttlSecondsAfterFinished", Constraint::Min(0)),
    ("*", "activeDeadlineSeconds", Constraint::Min(0)),
    ("*", "startingDeadlineSeconds", Constraint::Min(0)),
    ("*", "successfulJobsHistoryLimit", Constraint::Min(0)),
    ("*", "failedJobsHistoryLimit", Constraint::Min(0)),
    ("*", "terminationGracePeriodSeconds", Constraint::Min(0)),
    ("Probe", "initialDelaySeconds", Constraint::Min(0)),
    ("Probe", "periodSeconds", Constraint::Min(1)),
    ("Probe", "timeoutSeconds", Constraint::Min(1)),
    ("Probe", "successThreshold", Constraint::Min(1)),
    ("Probe", "failureThreshold", Constraint::Min(1)),
    ("*", "runAsUser", Constraint::Min(0)),
    ("*", "runAsGroup", Constraint::Min(0)),
    ("*", "fsGroup", Constraint::Min(0)),
    ("ServicePort", "port", Constraint::Range(1, 65535)),
    ("ServicePort", "nodePort", Constraint::Range(1, 65535)),
    ("ServicePort", "targetPort", Constraint::Form(Format::PortOrName)),
    ("ContainerPort", "containerPort", Constraint::Range(1, 65535)),
    ("ContainerPort", "hostPort", Constraint::Range(1, 65535)),
    ("HTTPGetAction", "port", Constraint::Form(Format::PortOrName)),
    ("TCPSocketAction", "port", Constraint::Form(Format::PortOrName)),
    ("GRPCAction", "port", Constraint::Range(1, 65535)),
    ("ServiceBackendPort", "number", Constraint::Range(1, 65535)),
    ("*", "weight", Constraint::Range(1, 100)),
    ("*", "defaultMode", Constraint::Range(0, 511)),
    ("KeyToPath", "mode", Constraint::Range(0, 511)),
    ("MetricTarget", "averageUtilization", Constraint::Min(1)),
    ("Container", "imagePullPolicy", Constraint::Words(&["Always", "Never", "IfNotPresent"])),
    ("PodSpec", "restartPolicy", Constraint::Words(&["Always", "OnFailure", "Never"])),
    ("ServiceSpec", "type", Constraint::Words(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"])),
    ("ServiceSpec", "sessionAffinity", Constraint::Words(&["None", "ClientIP"])),
    ("ServiceSpec", "externalTrafficPolicy", Constraint::Words(&["Cluster", "Local"])),
    ("ServiceSpec", "internalTrafficPolicy", Constraint::Words(&["Cluster", "Local"])),
    ("*", "protocol", Constraint::Words(&["TCP", "UDP", "SCTP"])),
    ("HTTPIngressPath", "pathType", Constraint::Words(&["Exact", "Prefix", "ImplementationSpecific"])),
    (
        "*",
        "accessModes",
        Constraint::Words(&["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]),
    ),
    ("StorageClass", "reclaimPolicy", Constraint::Words(&["Delete", "Retain", "Recycle"])),
    (
        "PersistentVolumeSpec",
        "persistentVolumeReclaimPolicy",
        Constraint::Words(&["Delete", "Retain", "Recycle"]),
    ),
    ("*", "volumeBindingMode", Constraint::Words(&["Immediate", "WaitForFirstConsumer"])),
    ("*", "volumeMode", Constraint::Words(&["Filesystem", "Block"])),
    ("CronJobSpec", "concurrencyPolicy", Constraint::Words(&["Allow", "Forbid", "Replace"])),
    ("DeploymentStrategy", "type", Constraint::Words(&["Recreate", "RollingUpdate"])),
    ("StatefulSetUpdateStrategy", "type", Constraint::Words(&["RollingUpdate", "OnDelete"])),
    ("DaemonSetUpdateStrategy", "type", Constraint::Words(&["RollingUpdate", "OnDelete"])),
    ("*", "podManagementPolicy", Constraint::Words(&["OrderedReady", "Parallel"])),
    ("*", "dnsPolicy", Constraint::Words(&["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"])),
    ("Toleration", "operator", Constraint::Words(&["Exists", "Equal"])),
    ("Toleration", "effect", Constraint::Words(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"])),
    ("LabelSelectorRequirement", "operator", Constraint::Words(&["In", "NotIn", "Exists", "DoesNotExist"])),
    (
        "NodeSelectorRequirement",
        "operator",
        Constraint::Words(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    ),
    ("NetworkPolicySpec", "policyTypes", Constraint::Words(&["Ingress", "Egress"])),
    ("HTTPGetAction", "scheme", Constraint::Words(&["HTTP", "HTTPS"])),
    ("CronJobSpec", "schedule", Constraint::Form(Format::Cron)),
    ("Container", "image", Constraint::Form(Format::Image)),
    ("IngressTLS", "secretName", Constraint::Form(Format::Subdomain)),
    ("*", "serviceAccountName", Constraint::Form(Format::Subdomain)),
    ("*", "storageClassName", Constraint::Form(Format::Subdomain)),
    ("*", "ingressClassName", Constraint::Form(Format::Subdomain)),
    ("*", "priorityClassName", Constraint::Form(Format::Subdomain)),
];

/// The rule for a field of a type.
pub(crate) fn constraint(owner: &str, field: &str) -> Option<Constraint> {
    if owner.is_empty() {
        return None;
    }
    RULES
        .iter()
        .find(|(of, name, _)| *name == field && (*of == "*" || *of == owner))
        .map(|(_, _, constraint)| *constraint)
}

static QUANTITY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(Format::QUANTITY_PATTERN).ok());

impl Format {
    /// The pattern of quantities, with every suffix Kubernetes knows.
    pub(crate) const QUANTITY_PATTERN: &'static str =
        r"^[+-]?(\d+(\.\d*)?|\.\d+)(([KMGTPE]i)|[numkMGTPE]|[eE][+-]?\d+)?$";

    /// The pattern an editor can check, if there is one.
    pub(crate) fn pattern(self) -> Option<&'static str> {
        match self {
            Self::Quantity => Some(Self::QUANTITY_PATTERN),
            Self::Subdomain => Some(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
            Self::LabelValue => Some("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"),
            Self::Image => Some(r"^\S+$"),
            Self::Cron => Some(r"^(@[a-z]+|\S+(\s+\S+){4})$"),
            Self::PortOrName => None,
        }
    }

    /// Says what is wrong with a text, and what to try instead.
    pub(crate) fn check(self, text: &str) -> Option<String> {
        match self {
            Self::Quantity => {
                let fine = QUANTITY.as_ref().is_none_or(|pattern| pattern.is_match(text));
                (!fine).then(|| {
                    format!("`{text}` does not match the Kubernetes quantity form{}", try_instead(text))
                })
            }
            Self::Cron => {
                let macros =
                    ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];
                let fine = macros.contains(&text)
                    || text.starts_with("@every ")
                    || text.split_whitespace().count() == 5;
                (!fine)
                    .then(|| format!("`{text}` is no cron schedule: five fields or a macro such as @daily"))
            }
            Self::Subdomain => {
                let fine = text.is_empty() || names::check_subdomain(text).is_ok();
                (!fine).then(|| format!("`{text}` is no DNS name in lower case"))
            }
            Self::LabelValue => {
                names::check_label_value(text).err().map(|_| format!("`{text}` is no label value"))
            }
            Self::Image => (text.is_empty() || text.contains(char::is_whitespace))
                .then(|| format!("`{text}` is no image reference")),
            Self::PortOrName => {
                let number = text.parse::<i64>().ok();
                let name = text.len() <= 15
                    && text.bytes().any(|b| b.is_ascii_lowercase())
                    && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
                let fine = number.map_or(name, |number| (1..=65535).contains(&number));
                (!fine).then(|| format!("`{text}` is neither a port from 1 to 65535 nor a port name"))
            }
        }
    }
}

/// `10GB` is meant as `10G` or `10Gi`.
fn try_instead(text: &str) -> String {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = &text[digits.len()..];
    match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
        Some(letter @ ('K' | 'M' | 'G' | 'T' | 'P' | 'E')) if !digits.is_empty() => {
            let plain = if letter == 'K' { 'k' } else { letter };
            format!(" (try {digits}{plain} or {digits}{letter}i)")
        }
        _ => String::new(),
    }
}

impl Constraint {
    /// Says what is wrong with a value, if anything.
    pub(crate) fn check(self, value: &serde_json::Value) -> Option<String> {
        let integer = value.as_i64();
        match self {
            Self::Min(least) => integer.filter(|&n| n < least).map(|n| format!("{n} is less than {least}")),
            Self::Range(least, most) => integer
                .filter(|n| !(least..=most).contains(n))
                .map(|n| format!("{n} is not from {least} to {most}")),
            Self::Words(words) => {
                let wrong = |text: &str| {
                    (!words.contains(&text)).then(|| {
                        let all: Vec<&str> = words.iter().copied().filter(|word| !word.is_empty()).collect();
                        format!("`{text}` is none of {}", all.join(", "))
                    })
                };
                match value {
                    serde_json::Value::Array(items) => {
                        items.iter().filter_map(|item| item.as_str()).find_map(wrong)
                    }
                    other => other.as_str().and_then(wrong),
                }
            }
            Self::Form(format) => match (format, value) {
                (Format::PortOrName, serde_json::Value::Number(number)) => format.check(&number.to_string()),
                (_, serde_json::Value::String(text)) => format.check(text),
                _ => None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for text in ["10Gi", "1.5Gi", "500m", "512M", "1e3", "100", ".5", "-1", "5k"] {
            assert_eq!(Format::Quantity.check(text), None, "{text}");
        }
        for text in ["10GB", "1 Gi", "", "abc", "1KB", "10gi"] {
            assert!(Format::Quantity.check(text).is_some(), "{text}");
        }
        assert!(Format::Quantity.check("10GB").unwrap().contains("try 10G or 10Gi"));
    }
}
