//! What Go calls texts with a type of their own, and the structs it embeds in others: only its errors tell.

/// `type.field name`, sorted.
static NAMED: &str = include_str!("../../data/named.txt");

/// What the spec of a persistent volume says besides where its data is.
pub const VOLUME_FIELDS: &[&str] = &[
    "capacity",
    "accessModes",
    "claimRef",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "mountOptions",
    "volumeMode",
    "nodeAffinity",
    "volumeAttributesClassName",
];

/// The type of a field of texts, if it is not simply `string`.
pub(super) fn of(owner: &str, field: &str) -> Option<&'static str> {
    let find = |owner: &str| {
        NAMED.lines().find_map(|line| {
            let (place, name) = line.split_once(' ')?;
            (place.strip_prefix(owner)?.strip_prefix('.')? == field).then_some(name)
        })
    };
    find(owner).or_else(|| find(&format!("v1.{}", embedded(owner, field)?)))
}

/// The struct embedded in `owner` that has the field.
pub(super) fn embedded(owner: &str, field: &str) -> Option<&'static str> {
    match owner {
        "v1.Volume" if field != "name" => Some("VolumeSource"),
        "v1.PersistentVolumeSpec" if !VOLUME_FIELDS.contains(&field) => Some("PersistentVolumeSource"),
        "v1.EphemeralContainer" if field != "targetContainerName" => Some("EphemeralContainerCommon"),
        "v1.Probe" if ["exec", "httpGet", "tcpSocket", "grpc"].contains(&field) => Some("ProbeHandler"),
        "v1.ConfigMapEnvSource"
        | "v1.SecretEnvSource"
        | "v1.ConfigMapKeySelector"
        | "v1.SecretKeySelector"
        | "v1.ConfigMapVolumeSource"
        | "v1.ConfigMapProjection"
        | "v1.SecretProjection"
            if field == "name" =>
        {
            Some("LocalObjectReference")
        }
        "v1.NamedRuleWithOperations" => match field {
            "resourceNames" => None,
            "operations" => Some("RuleWithOperations"),
            _ => Some("RuleWithOperations.Rule"),
        },
        "v1.RuleWithOperations" if field != "operations" => Some("Rule"),
        "v1.IngressRule" if field == "http" => Some("IngressRuleValue"),
        "v1.DeviceClassConfiguration" | "v1.DeviceClaimConfiguration" if field == "opaque" => {
            Some("DeviceConfiguration")
        }
        _ => None,
    }
}

/// Whether a list means something else when it is there and empty than when it is not there.
pub(super) fn told_empty(owner: &str, field: &str) -> bool {
    matches!((owner, field), ("v2.HPAScalingRules", "policies"))
}

/// What Go calls a list or a map, where that says more than its members.
pub(super) fn collection(owner: &str, field: &str, plain: String) -> String {
    let named = match (owner, field, &*plain) {
        ("v1.JSONSchemaProps", "enum", _) => "[]v1.JSON",
        ("v1.JSONSchemaProps", "x-kubernetes-validations", "[]v1.ValidationRule") => "v1.ValidationRules",
        ("v1.CertificateSigningRequestSpec", "extra", "[]string") => "v1.ExtraValue",
        ("v1.CertificateSigningRequestSpec", "extra", _) => "map[string]v1.ExtraValue",
        ("v1.CapacityRequirements", "requests", _) => "map[v1.QualifiedName]resource.Quantity",
        _ => return plain,
    };
    named.to_owned()
}

/// What may stand in place of a schema inside of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Nested {
    /// A list of schemas; anything else is overlooked.
    OrList,
    OrBool,
}

/// Fields of a schema that hold schemas and are read by code of their own.
pub(super) fn nested(owner: &str, field: &str) -> Option<Nested> {
    match (owner, field) {
        ("v1.JSONSchemaProps", "items") => Some(Nested::OrList),
        ("v1.JSONSchemaProps", "additionalProperties" | "additionalItems") => Some(Nested::OrBool),
        _ => None,
    }
}
