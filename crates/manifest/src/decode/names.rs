//! The Go names of string types and embedded structs, which only appear in Go's errors.

/// `type.field name`, sorted.
static NAMED: &str = include_str!("../../data/named.txt");

/// The fields of a persistent volume's spec besides its source.
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
pub(super) fn string_type(owner: &str, field: &str) -> Option<&'static str> {
    let find = |owner: &str| {
        NAMED.lines().find_map(|line| {
            let (place, name) = line.split_once(' ')?;
            (place.strip_prefix(owner)?.strip_prefix('.')? == field).then_some(name)
        })
    };
    find(owner).or_else(|| find(&format!("v1.{}", embedded_struct(owner, field)?)))
}

/// The struct embedded in `owner` that has the field.
pub(super) fn embedded_struct(owner: &str, field: &str) -> Option<&'static str> {
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

/// Returns true if an empty list means something else than an absent one.
pub(super) fn keeps_empty_list(owner: &str, field: &str) -> bool {
    matches!((owner, field), ("v2.HPAScalingRules", "policies"))
}

/// Returns the Go name of a list or map type, where it is not made of its items' name.
pub(super) fn collection_type(owner: &str, field: &str, plain: String) -> String {
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

/// The alternative to a schema inside of a schema.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum NestedSchema {
    /// A list of schemas; anything else is overlooked.
    OrList,
    OrBool,
}

/// Fields of a schema that hold schemas and are read by code of their own.
pub(super) fn nested_schema(owner: &str, field: &str) -> Option<NestedSchema> {
    match (owner, field) {
        ("v1.JSONSchemaProps", "items") => Some(NestedSchema::OrList),
        ("v1.JSONSchemaProps", "additionalProperties" | "additionalItems") => Some(NestedSchema::OrBool),
        _ => None,
    }
}
