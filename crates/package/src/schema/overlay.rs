//! Rules Kubernetes enforces but does not publish: ranges, word lists and forms of fields.

use std::sync::LazyLock;

use regex::Regex;
use slipway_manifest::names;

/// A rule for one field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum FieldConstraint {
    Min(i64),
    Range(i64, i64),
    Words(&'static [&'static str]),
    Form(TextFormat),
}

/// A form of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextFormat {
    Quantity,
    Cron,
    Subdomain,
    LabelValue,
    PortOrName,
    Image,
}

/// (owner type or `*`, field, rule). The first match counts.
const RULES: &[(&str, &str, FieldConstraint)] = &[
    ("*", "replicas", FieldConstraint::Min(0)),
    ("HorizontalPodAutoscalerSpec", "minReplicas", FieldConstraint::Min(0)),
    ("HorizontalPodAutoscalerSpec", "maxReplicas", FieldConstraint::Min(1)),
    ("*", "revisionHistoryLimit", FieldConstraint::Min(0)),
    ("*", "progressDeadlineSeconds", FieldConstraint::Min(0)),
    ("*", "minReadySeconds", FieldConstraint::Min(0)),
    ("JobSpec", "backoffLimit", FieldConstraint::Min(0)),
    ("JobSpec", "parallelism", FieldConstraint::Min(0)),
    ("JobSpec", "completions", FieldConstraint::Min(0)),
    ("JobSpec", "ttlSecondsAfterFinished", FieldConstraint::Min(0)),
    ("*", "activeDeadlineSeconds", FieldConstraint::Min(0)),
    ("*", "startingDeadlineSeconds", FieldConstraint::Min(0)),
    ("*", "successfulJobsHistoryLimit", FieldConstraint::Min(0)),
    ("*", "failedJobsHistoryLimit", FieldConstraint::Min(0)),
    ("*", "terminationGracePeriodSeconds", FieldConstraint::Min(0)),
    ("Probe", "initialDelaySeconds", FieldConstraint::Min(0)),
    ("Probe", "periodSeconds", FieldConstraint::Min(1)),
    ("Probe", "timeoutSeconds", FieldConstraint::Min(1)),
    ("Probe", "successThreshold", FieldConstraint::Min(1)),
    ("Probe", "failureThreshold", FieldConstraint::Min(1)),
    ("*", "runAsUser", FieldConstraint::Min(0)),
    ("*", "runAsGroup", FieldConstraint::Min(0)),
    ("*", "fsGroup", FieldConstraint::Min(0)),
    ("ServicePort", "port", FieldConstraint::Range(1, 65535)),
    ("ServicePort", "nodePort", FieldConstraint::Range(1, 65535)),
    ("ServicePort", "targetPort", FieldConstraint::Form(TextFormat::PortOrName)),
    ("ContainerPort", "containerPort", FieldConstraint::Range(1, 65535)),
    ("ContainerPort", "hostPort", FieldConstraint::Range(1, 65535)),
    ("HTTPGetAction", "port", FieldConstraint::Form(TextFormat::PortOrName)),
    ("TCPSocketAction", "port", FieldConstraint::Form(TextFormat::PortOrName)),
    ("GRPCAction", "port", FieldConstraint::Range(1, 65535)),
    ("ServiceBackendPort", "number", FieldConstraint::Range(1, 65535)),
    ("*", "weight", FieldConstraint::Range(1, 100)),
    ("*", "defaultMode", FieldConstraint::Range(0, 511)),
    ("KeyToPath", "mode", FieldConstraint::Range(0, 511)),
    ("MetricTarget", "averageUtilization", FieldConstraint::Min(1)),
    ("Container", "imagePullPolicy", FieldConstraint::Words(&["Always", "Never", "IfNotPresent"])),
    ("PodSpec", "restartPolicy", FieldConstraint::Words(&["Always", "OnFailure", "Never"])),
    (
        "ServiceSpec",
        "type",
        FieldConstraint::Words(&["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
    ),
    ("ServiceSpec", "sessionAffinity", FieldConstraint::Words(&["None", "ClientIP"])),
    ("ServiceSpec", "externalTrafficPolicy", FieldConstraint::Words(&["Cluster", "Local"])),
    ("ServiceSpec", "internalTrafficPolicy", FieldConstraint::Words(&["Cluster", "Local"])),
    ("*", "protocol", FieldConstraint::Words(&["TCP", "UDP", "SCTP"])),
    ("HTTPIngressPath", "pathType", FieldConstraint::Words(&["Exact", "Prefix", "ImplementationSpecific"])),
    (
        "*",
        "accessModes",
        FieldConstraint::Words(&["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"]),
    ),
    ("StorageClass", "reclaimPolicy", FieldConstraint::Words(&["Delete", "Retain", "Recycle"])),
    (
        "PersistentVolumeSpec",
        "persistentVolumeReclaimPolicy",
        FieldConstraint::Words(&["Delete", "Retain", "Recycle"]),
    ),
    ("*", "volumeBindingMode", FieldConstraint::Words(&["Immediate", "WaitForFirstConsumer"])),
    ("*", "volumeMode", FieldConstraint::Words(&["Filesystem", "Block"])),
    ("CronJobSpec", "concurrencyPolicy", FieldConstraint::Words(&["Allow", "Forbid", "Replace"])),
    ("DeploymentStrategy", "type", FieldConstraint::Words(&["Recreate", "RollingUpdate"])),
    ("StatefulSetUpdateStrategy", "type", FieldConstraint::Words(&["RollingUpdate", "OnDelete"])),
    ("DaemonSetUpdateStrategy", "type", FieldConstraint::Words(&["RollingUpdate", "OnDelete"])),
    ("*", "podManagementPolicy", FieldConstraint::Words(&["OrderedReady", "Parallel"])),
    (
        "*",
        "dnsPolicy",
        FieldConstraint::Words(&["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]),
    ),
    ("Toleration", "operator", FieldConstraint::Words(&["Exists", "Equal"])),
    ("Toleration", "effect", FieldConstraint::Words(&["", "NoSchedule", "PreferNoSchedule", "NoExecute"])),
    (
        "LabelSelectorRequirement",
        "operator",
        FieldConstraint::Words(&["In", "NotIn", "Exists", "DoesNotExist"]),
    ),
    (
        "NodeSelectorRequirement",
        "operator",
        FieldConstraint::Words(&["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    ),
    ("NetworkPolicySpec", "policyTypes", FieldConstraint::Words(&["Ingress", "Egress"])),
    ("HTTPGetAction", "scheme", FieldConstraint::Words(&["HTTP", "HTTPS"])),
    ("CronJobSpec", "schedule", FieldConstraint::Form(TextFormat::Cron)),
    ("Container", "image", FieldConstraint::Form(TextFormat::Image)),
    ("IngressTLS", "secretName", FieldConstraint::Form(TextFormat::Subdomain)),
    ("*", "serviceAccountName", FieldConstraint::Form(TextFormat::Subdomain)),
    ("*", "storageClassName", FieldConstraint::Form(TextFormat::Subdomain)),
    ("*", "ingressClassName", FieldConstraint::Form(TextFormat::Subdomain)),
    ("*", "priorityClassName", FieldConstraint::Form(TextFormat::Subdomain)),
];

/// The rule for a field of a type.
pub(crate) fn constraint_of(owner: &str, field: &str) -> Option<FieldConstraint> {
    if owner.is_empty() {
        return None;
    }
    RULES
        .iter()
        .find(|(of, name, _)| *name == field && (*of == "*" || *of == owner))
        .map(|(_, _, constraint)| *constraint)
}

static QUANTITY: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TextFormat::QUANTITY_PATTERN).ok());

impl TextFormat {
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

impl FieldConstraint {
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
                (TextFormat::PortOrName, serde_json::Value::Number(number)) => {
                    format.check(&number.to_string())
                }
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
            assert_eq!(TextFormat::Quantity.check(text), None, "{text}");
        }
        for text in ["10GB", "1 Gi", "", "abc", "1KB", "10gi"] {
            assert!(TextFormat::Quantity.check(text).is_some(), "{text}");
        }
        assert!(TextFormat::Quantity.check("10GB").unwrap().contains("try 10G or 10Gi"));
    }
}
