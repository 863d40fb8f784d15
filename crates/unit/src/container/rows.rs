//! The sealed rows of a unit, typed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::blobs::ContentHash;
use super::table::{Row, from_row, to_row};
use crate::error::UnitError;

/// Columns that hold JSON in a text.
mod json_text {
    use serde::de::DeserializeOwned;
    use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<T: Serialize, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let value = serde_json::to_value(value).map_err(serde::ser::Error::custom)?;
        serializer.serialize_str(&super::super::table::canonical_text(&value))
    }

    pub(super) fn deserialize<'de, T: DeserializeOwned, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        let text = String::deserialize(deserializer)?;
        serde_json::from_str(&text).map_err(serde::de::Error::custom)
    }
}

/// The source of a unit.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChartRow {
    pub id: i64,
    /// The source as the user named it.
    #[serde(rename = "ref")]
    pub reference: String,
    pub name: String,
    pub version: String,
    pub app_version: String,
    /// The digest of the packed chart; empty for directories and other sources.
    pub package_digest: String,
    /// The digest of its files.
    pub tree_digest: String,
    /// The digest of `Chart.lock`; empty if there is none.
    pub lock_digest: String,
    pub source_kind: SourceKind,
}

/// The kinds of source a unit is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SourceKind {
    Chart,
    Package,
    /// Sealed as what it builds.
    Kustomization,
    Manifests,
}

impl SourceKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chart => "chart",
            Self::Package => "package",
            Self::Kustomization => "kustomization",
            Self::Manifests => "manifests",
        }
    }
}

/// One file of the source.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileRow {
    pub path: String,
    pub mode: i64,
    pub sha256: ContentHash,
}

/// The way a layer of values was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayerKind {
    File,
    SetJson,
    Set,
    SetString,
    /// With the content of the file it names.
    SetFile,
    SetLiteral,
    /// Written by image bindings.
    ImageInjection,
}

/// One layer of values, references kept as text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ValueLayerRow {
    pub ordinal: i64,
    pub kind: LayerKind,
    pub origin: String,
    pub sha256: ContentHash,
}

/// The merged values, with references in the place of secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ValuesRow {
    pub(crate) id: i64,
    pub(crate) sha256: ContentHash,
    pub(crate) digest: String,
}

/// A secret the values refer to.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SecretRefRow {
    #[serde(rename = "ref")]
    pub reference: String,
    pub provider: String,
    pub path: String,
    pub key: String,
    #[serde(with = "json_text")]
    pub value_paths: Vec<String>,
    pub required: i64,
}

/// The origin of an image's digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImageOrigin {
    /// A builder made it.
    Build,
    /// The user named its digest.
    Given,
    /// The chart names it; its digest was asked of the registry.
    Chart,
}

/// An image for one platform, as an index lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImagePlatform {
    /// `os/architecture`
    pub platform: String,
    /// The digest of its manifest, which runtimes may report instead of the index's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// An image with its digest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageRow {
    pub name: String,
    pub repository: String,
    pub tag: String,
    pub digest: String,
    pub media_type: String,
    #[serde(with = "json_text")]
    pub platforms: Vec<ImagePlatform>,
    pub source: ImageOrigin,
    pub build_id: Option<String>,
    pub sbom_ref: Option<String>,
    pub provenance_ref: Option<String>,
    pub size_bytes: Option<i64>,
}

/// The place an image was bound at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BindingKind {
    /// In the values.
    Values,
    /// In rendered objects.
    PostRender,
}

/// The certainty that an image belongs where it was bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BindingConfidence {
    /// The repository is the same.
    Exact,
    /// The name is the same, or there is no other.
    Inferred,
    /// A mapping says so.
    Mapped,
}

/// A binding of an image, with the proof that it reached a container.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BindingRow {
    pub ordinal: i64,
    pub image_name: String,
    pub kind: BindingKind,
    pub path: String,
    pub before: String,
    pub after: String,
    pub rule: String,
    pub confidence: BindingConfidence,
    pub proof: String,
}

/// An image of a rendered pod.
#[derive(Clone, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImageUseRow {
    pub object_key: String,
    pub container: String,
    #[serde(rename = "ref")]
    pub reference: String,
    /// Empty if the reference names none.
    pub digest: String,
    pub bound_to: Option<String>,
}

/// A run of a builder.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BuildRow {
    pub id: String,
    pub context: String,
    pub dockerfile: String,
    #[serde(with = "json_text")]
    pub args: Vec<String>,
    pub digest: String,
    pub started_at: String,
    pub ended_at: String,
    pub log_sha256: Option<ContentHash>,
}

/// A rendered object without secrets.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// `group/kind/namespace/name`; a change of version is the same object.
    pub key: String,
    pub ord: i64,
    pub api_version: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    /// `regular`, `hook` or `aside` (definitions of `crds/`).
    pub scope: String,
    pub hook_events: String,
    pub hook_weight: i64,
    pub source: String,
    pub masked_sha256: ContentHash,
    pub object_hash: String,
    /// The fields that hold or depend on a secret.
    #[serde(with = "json_text")]
    pub tainted: Vec<String>,
}

/// All objects together.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ManifestRow {
    pub id: i64,
    pub masked_digest: String,
    pub object_set_digest: String,
    pub notes_sha256: ContentHash,
    pub object_count: i64,
    /// Fields that differ at every rendering, by the key of their object.
    #[serde(with = "json_text")]
    pub nondeterministic: BTreeMap<String, Vec<String>>,
}

/// A policy file with its verdict on the bundle.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyRow {
    pub name: String,
    pub sha256: ContentHash,
    #[serde(with = "json_text")]
    pub result_at_bundle: Value,
}

/// The values an environment may set.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverlaySlotRow {
    pub env: String,
    #[serde(with = "json_text")]
    pub allowed_paths: Vec<String>,
}

/// A signature of the unit's digest.
#[derive(Clone, Debug)]
pub struct SignatureRow {
    pub key_id: String,
    pub algorithm: String,
    pub public_key: Vec<u8>,
    pub signature: Vec<u8>,
    pub signed_at: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MetaRow {
    key: String,
    value: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct StrategyRow {
    id: i64,
    json: String,
}

/// Everything that is sealed, without the contents.
#[derive(Clone, Debug)]
pub struct SealedRows {
    pub meta: BTreeMap<String, String>,
    pub chart: ChartRow,
    pub files: Vec<FileRow>,
    pub value_layers: Vec<ValueLayerRow>,
    pub(crate) values: ValuesRow,
    pub secret_refs: Vec<SecretRefRow>,
    pub images: Vec<ImageRow>,
    pub image_bindings: Vec<BindingRow>,
    pub image_uses: Vec<ImageUseRow>,
    pub builds: Vec<BuildRow>,
    pub objects: Vec<ObjectRow>,
    pub manifest: ManifestRow,
    pub policies: Vec<PolicyRow>,
    /// The strategy as the user wrote it, in canonical JSON; none is a plain deploy.
    pub strategy: Option<Value>,
    pub overlay_slots: Vec<OverlaySlotRow>,
}

/// The rows of every sealed table by its name.
pub(crate) type TableRows = BTreeMap<&'static str, Vec<Row>>;

impl SealedRows {
    /// The rows of every table but `blobs`.
    pub(crate) fn to_tables(&self) -> TableRows {
        fn rows<T: Serialize>(values: &[T]) -> Vec<Row> {
            values.iter().map(to_row).collect()
        }
        let meta =
            self.meta.iter().map(|(key, value)| to_row(&MetaRow { key: key.clone(), value: value.clone() }));
        let strategy =
            self.strategy.iter().map(|json| StrategyRow { id: 1, json: super::table::canonical_text(json) });
        BTreeMap::from([
            ("meta", meta.collect()),
            ("chart", vec![to_row(&self.chart)]),
            ("chart_files", rows(&self.files)),
            ("value_layers", rows(&self.value_layers)),
            ("values_resolved", vec![to_row(&self.values)]),
            ("secret_refs", rows(&self.secret_refs)),
            ("images", rows(&self.images)),
            ("image_bindings", rows(&self.image_bindings)),
            ("image_uses", rows(&self.image_uses)),
            ("builds", rows(&self.builds)),
            ("objects", rows(&self.objects)),
            ("manifest", vec![to_row(&self.manifest)]),
            ("policy", rows(&self.policies)),
            ("strategy", rows(&strategy.collect::<Vec<_>>())),
            ("overlay_slots", rows(&self.overlay_slots)),
        ])
    }

    pub(crate) fn from_tables(mut tables: TableRows) -> Result<Self, UnitError> {
        let mut take = |name: &'static str| tables.remove(name).unwrap_or_default();
        fn all<T: serde::de::DeserializeOwned>(rows: Vec<Row>, table: &str) -> Result<Vec<T>, UnitError> {
            rows.into_iter().map(|row| from_row(row, table)).collect()
        }
        fn one<T: serde::de::DeserializeOwned>(rows: Vec<Row>, table: &str) -> Result<T, UnitError> {
            let row = rows.into_iter().next().ok_or_else(|| UnitError::tampered(table, "is empty"))?;
            from_row(row, table)
        }
        let meta: Vec<MetaRow> = all(take("meta"), "meta")?;
        let strategy: Vec<StrategyRow> = all(take("strategy"), "strategy")?;
        let strategy = strategy.first().map(|row| serde_json::from_str(&row.json)).transpose();
        let mut objects: Vec<ObjectRow> = all(take("objects"), "objects")?;
        objects.sort_by_key(|object| object.ord);
        Ok(Self {
            meta: meta.into_iter().map(|row| (row.key, row.value)).collect(),
            chart: one(take("chart"), "chart")?,
            files: all(take("chart_files"), "chart_files")?,
            value_layers: all(take("value_layers"), "value_layers")?,
            values: one(take("values_resolved"), "values_resolved")?,
            secret_refs: all(take("secret_refs"), "secret_refs")?,
            images: all(take("images"), "images")?,
            image_bindings: all(take("image_bindings"), "image_bindings")?,
            image_uses: all(take("image_uses"), "image_uses")?,
            builds: all(take("builds"), "builds")?,
            objects,
            manifest: one(take("manifest"), "manifest")?,
            policies: all(take("policy"), "policy")?,
            strategy: strategy.map_err(|_| UnitError::tampered("strategy", "is not JSON"))?,
            overlay_slots: all(take("overlay_slots"), "overlay_slots")?,
        })
    }

    /// A fact about the bundle; empty if it says nothing.
    pub fn meta_text(&self, key: &str) -> &str {
        self.meta.get(key).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::super::schema::SEALED;

    #[test]
    fn sealed_tables_are_in_the_order_of_their_names() {
        assert!(SEALED.is_sorted_by_key(|table| table.name));
    }
}
