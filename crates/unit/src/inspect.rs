//! Looks into units: what one holds, and how two differ.

use std::collections::BTreeMap;

use serde::Serialize;
use slipway_manifest::diff::{LineKind, diff_lines};

use crate::container::{BindingRow, ImageUseRow, UnitFile};
use crate::error::UnitError;
use crate::evidence::{AppliedUnit, applies};
use crate::ledger::{ApplyStatus, LedgerEntry};

/// A unit in short.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UnitSummary {
    pub digest: String,
    pub release: String,
    pub namespace: String,
    pub source: String,
    pub version: String,
    pub created: String,
    pub commit: String,
    pub signed_by: Vec<String>,
    pub objects: usize,
    pub object_set: String,
    pub hazards: String,
    pub images: Vec<ImageUseRow>,
    pub bindings: Vec<BindingRow>,
    pub secrets: Vec<String>,
    pub policies: Vec<String>,
    pub overlay_slots: BTreeMap<String, Vec<String>>,
    pub nondeterministic: BTreeMap<String, Vec<String>>,
    pub applies: Vec<ApplySummary>,
}

/// An apply in one line.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApplySummary {
    pub apply_id: String,
    pub target: String,
    pub started: String,
    pub status: ApplyStatus,
    pub verified: Option<bool>,
    /// Its target was rolled back afterwards, and not verified since.
    pub rolled_back: bool,
    pub revision: Option<u64>,
}

impl From<AppliedUnit> for ApplySummary {
    fn from(apply: AppliedUnit) -> Self {
        Self {
            target: apply.target.to_string(),
            apply_id: apply.apply_id,
            started: apply.started_at,
            status: apply.status,
            verified: apply.verified,
            rolled_back: apply.rolled_back,
            revision: apply.revision,
        }
    }
}

/// Sums a unit up.
pub fn inspect_unit(unit: &UnitFile, entries: &[LedgerEntry]) -> UnitSummary {
    let rows = unit.rows();
    let text = |key: &str| rows.meta_text(key).to_owned();
    UnitSummary {
        digest: unit.digest().to_owned(),
        release: text("releaseName"),
        namespace: text("namespace"),
        source: format!("{} {}", rows.chart.source_kind.as_str(), rows.chart.name),
        version: rows.chart.version.clone(),
        created: text("createdAt"),
        commit: text("sourceCommit"),
        signed_by: unit.signatures().iter().map(|signature| signature.key_id.clone()).collect(),
        objects: rows.objects.len(),
        object_set: rows.manifest.object_set_digest.clone(),
        hazards: text("hazards"),
        images: rows.image_uses.clone(),
        bindings: rows.image_bindings.clone(),
        secrets: rows.secret_refs.iter().map(|row| row.reference.clone()).collect(),
        policies: rows.policies.iter().map(|row| row.name.clone()).collect(),
        overlay_slots: rows
            .overlay_slots
            .iter()
            .map(|slot| (slot.env.clone(), slot.allowed_paths.clone()))
            .collect(),
        nondeterministic: rows.manifest.nondeterministic.clone(),
        applies: applies(entries).into_iter().map(ApplySummary::from).collect(),
    }
}

/// A difference between two units.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct UnitDifference {
    /// `object`, `image`, `file`, `values`, `secret`.
    pub what: &'static str,
    pub name: String,
    /// `added`, `removed`, `changed`.
    pub change: &'static str,
    /// Lines with a sign before each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<String>,
}

/// Compares two units: objects, images, files, values and secrets.
pub fn diff_units(old: &UnitFile, new: &UnitFile) -> Result<Vec<UnitDifference>, UnitError> {
    let mut all = Vec::new();
    compare("object", &old.object_texts()?, &new.object_texts()?, &mut all);
    let images = |unit: &UnitFile| -> BTreeMap<String, String> {
        let rows = unit.rows().image_uses.iter();
        rows.map(|row| (format!("{} {}", row.object_key, row.container), row.reference.clone())).collect()
    };
    compare("image", &images(old), &images(new), &mut all);
    let files = |unit: &UnitFile| -> BTreeMap<String, String> {
        unit.rows().files.iter().map(|row| (row.path.clone(), row.sha256.to_string())).collect()
    };
    compare("file", &files(old), &files(new), &mut all);
    let values = |unit: &UnitFile| -> Result<BTreeMap<String, String>, UnitError> {
        let text = unit.blobs().text(&unit.rows().values.sha256)?;
        let tree: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        Ok(BTreeMap::from([("values".to_owned(), slipway_yaml::to_string(&tree).unwrap_or_default())]))
    };
    compare("values", &values(old)?, &values(new)?, &mut all);
    let secrets = |unit: &UnitFile| -> BTreeMap<String, String> {
        unit.rows()
            .secret_refs
            .iter()
            .map(|row| (row.reference.clone(), row.value_paths.join(", ")))
            .collect()
    };
    compare("secret", &secrets(old), &secrets(new), &mut all);
    Ok(all)
}

fn compare(
    what: &'static str,
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
    all: &mut Vec<UnitDifference>,
) {
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    for name in names {
        let change = match (old.get(name), new.get(name)) {
            (Some(before), Some(after)) if before == after => continue,
            (Some(_), Some(_)) => "changed",
            (None, _) => "added",
            (Some(_), None) => "removed",
        };
        let text = |side: &BTreeMap<String, String>| side.get(name).cloned().unwrap_or_default();
        let mut lines = Vec::new();
        if change == "changed" && what != "file" {
            for hunk in diff_lines(&text(old), &text(new), 2) {
                for line in hunk.lines {
                    let sign = match line.kind {
                        LineKind::Context => ' ',
                        LineKind::Removed => '-',
                        LineKind::Added => '+',
                    };
                    lines.push(format!("{sign} {}", line.text));
                }
            }
        }
        all.push(UnitDifference { what, name: name.clone(), change, lines });
    }
}
