//! Exports units for GitOps: files that say the same, in an order and under names that never change by themselves.

mod external_secret;
mod objects;
mod publish;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use slipway_chart::{Chart, ChartFile, LoadOptions, Notices, PackageOptions, package_chart};
use slipway_problem::{Location, Problem, Problems};

pub use external_secret::SecretStoreName;
pub use publish::{PublishError, PublishOutcome, PublishRequest, publish_export};

use crate::container::{SourceKind, UnitFile};
use crate::error::UnitError;
use crate::source::{safe_path, yaml_text};

/// The forms a unit is exported in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// The packed chart and its values.
    Values,
    /// The rendered objects.
    Rendered,
    /// An Argo CD Application with the chart.
    ArgoCd,
    /// A Flux HelmRelease with the chart.
    Flux,
    /// A kustomization of the rendered objects.
    Kustomize,
}

/// The treatment of references to secrets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ExportSecrets {
    /// They stay references in the values; rendered objects with secrets are refused.
    #[default]
    References,
    /// ExternalSecret objects fetch them: the store of each provider.
    ExternalSecrets(BTreeMap<String, SecretStoreName>),
}

/// Settings of an export.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    pub format: ExportFormat,
    pub secrets: ExportSecrets,
    /// The repository Flux and Argo CD read the export from.
    pub repository: Option<String>,
    /// The place of the export inside of the repository.
    pub directory: String,
}

/// Files by their path below the export.
pub type ExportFiles = BTreeMap<String, Vec<u8>>;

/// Makes the files of an export. The same unit and options give the same bytes.
pub fn export_unit(unit: &UnitFile, options: &ExportOptions) -> Result<ExportFiles, UnitError> {
    let mut files = ExportFiles::new();
    let external = match &options.secrets {
        ExportSecrets::References => None,
        ExportSecrets::ExternalSecrets(stores) => external_secret::external_secret(unit, stores)?,
    };
    match options.format {
        ExportFormat::Values => {
            put(&mut files, "values.yaml", &resolved_values(unit)?)?;
        }
        ExportFormat::Rendered | ExportFormat::Kustomize => {
            let names = rendered_files(unit, &mut files)?;
            if options.format == ExportFormat::Kustomize {
                let kustomization = objects::kustomization(unit, &names, external.is_some());
                put(&mut files, "kustomization.yaml", &kustomization)?;
            }
        }
        ExportFormat::Flux => {
            require_chart(unit)?;
            let values = resolved_values(unit)?;
            put(
                &mut files,
                "helmrelease.yaml",
                &objects::helm_release(unit, options, &values, external.is_some()),
            )?;
        }
        ExportFormat::ArgoCd => {
            require_chart(unit)?;
            let values = resolved_values(unit)?;
            put(&mut files, "application.yaml", &objects::application(unit, options, &values))?;
        }
    }
    match options.format {
        ExportFormat::Values if unit.rows().chart.source_kind == SourceKind::Chart => {
            let packed = packed_chart(unit)?;
            files.insert(format!("chart/{}", packed.file_name), packed.bytes);
        }
        ExportFormat::Flux | ExportFormat::ArgoCd => {
            for row in &unit.rows().files {
                files.insert(format!("chart/{}", row.path), unit.blobs().get(&row.sha256)?.to_vec());
            }
        }
        _ => {}
    }
    if let Some(external) = external {
        put(&mut files, "externalsecret.yaml", &external)?;
    }
    let about = serde_json::to_vec_pretty(&unit_document(unit)).unwrap_or_default();
    files.insert("unit.json".to_owned(), [about, b"\n".to_vec()].concat());
    Ok(files)
}

fn put(files: &mut ExportFiles, path: &str, value: &Value) -> Result<(), UnitError> {
    files.insert(path.to_owned(), yaml_text(value)?.into_bytes());
    Ok(())
}

/// Writes an export into a directory. Files of an earlier export that are no part of it any more are removed.
pub fn write_export(files: &ExportFiles, directory: &Path) -> Result<usize, UnitError> {
    // Names of files and objects are the unit's, which anybody may have made.
    if let Some(name) = files.keys().find(|name| safe_path(name).is_none()) {
        let problem = Problem::error(format!("the unit names `{name}`, which is outside of an export"));
        return Err(problem.hint("do not use this unit: nothing honest has such names").into());
    }
    fs::create_dir_all(directory).map_err(UnitError::io("create", directory))?;
    for old in earlier_files(directory) {
        if !files.contains_key(&old) {
            let path = directory.join(&old);
            fs::remove_file(&path).map_err(UnitError::io("remove", &path))?;
        }
    }
    let mut changed = 0;
    for (name, content) in files {
        let path = directory.join(name);
        if fs::read(&path).is_ok_and(|known| known == *content) {
            continue;
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(UnitError::io("create", parent))?;
        }
        fs::write(&path, content).map_err(UnitError::io("write", &path))?;
        changed += 1;
    }
    let listed: Vec<&str> = files.keys().map(String::as_str).collect();
    let list = directory.join(LIST);
    let text = format!("{}\n", listed.join("\n"));
    if !fs::read_to_string(&list).is_ok_and(|known| known == text) {
        fs::write(&list, text).map_err(UnitError::io("write", &list))?;
    }
    Ok(changed)
}

/// Names the files of an export, so that the next one can remove what it no longer has.
const LIST: &str = ".unit-files";

fn earlier_files(directory: &Path) -> Vec<String> {
    let text = fs::read_to_string(directory.join(LIST)).unwrap_or_default();
    let is_inside =
        |name: &&str| !name.is_empty() && !name.starts_with('/') && !name.split('/').any(|part| part == "..");
    text.lines().filter(is_inside).filter(|name| directory.join(name).is_file()).map(str::to_owned).collect()
}

const EXPORT_AGAIN: &str = "`slipway unit export` writes the directory anew";

/// Checks that a directory is the export of a unit; names every file that is not.
pub fn verify_export(unit: &UnitFile, options: &ExportOptions, directory: &Path) -> Result<(), UnitError> {
    let files = export_unit(unit, options)?;
    let mut problems = Problems::new();
    for (name, content) in &files {
        let path = directory.join(name);
        let what = match fs::read(&path) {
            Ok(found) if found == *content => continue,
            Ok(_) => "the file is not what the unit says",
            Err(_) => "the file is missing",
        };
        problems.push(Problem::error(what).at(Location::file(path.display().to_string())).hint(EXPORT_AGAIN));
    }
    for name in earlier_files(directory).into_iter().filter(|name| !files.contains_key(name)) {
        let at = Location::file(directory.join(name).display().to_string());
        problems.push(Problem::error("the file is no part of the unit").at(at).hint(EXPORT_AGAIN));
    }
    Ok(problems.into_result(())?)
}

/// The values of a unit, with references in the place of secrets.
fn resolved_values(unit: &UnitFile) -> Result<Value, UnitError> {
    let text = unit.blobs().text(&unit.rows().values.sha256)?;
    serde_json::from_str(text).map_err(|_| UnitError::tampered("values_resolved", "is not JSON"))
}

fn require_chart(unit: &UnitFile) -> Result<(), UnitError> {
    let kind = unit.rows().chart.source_kind;
    if kind == SourceKind::Chart {
        return Ok(());
    }
    let problem = Problem::error(format!("a unit of a {} has no chart", kind.as_str()));
    Err(problem.hint("export it as `rendered` or `kustomize`").into())
}

fn packed_chart(unit: &UnitFile) -> Result<slipway_chart::PackedChart, UnitError> {
    let rows = unit.rows();
    let prefix = format!("{}/", rows.chart.name);
    let mut files = Vec::new();
    for row in &rows.files {
        let name = row.path.strip_prefix(&prefix).unwrap_or(&row.path).to_owned();
        files.push(ChartFile { name, data: unit.blobs().get(&row.sha256)?.into() });
    }
    let chart = Chart::from_files(files, &LoadOptions::default(), &mut Notices::new())
        .map_err(slipway_source::LoadError::from)?;
    Ok(package_chart(&chart, &PackageOptions::default()).map_err(slipway_source::LoadError::from)?)
}

/// The objects of a unit, a file each. Those with secrets are refused unless something else brings them.
fn rendered_files(unit: &UnitFile, files: &mut ExportFiles) -> Result<Vec<String>, UnitError> {
    let mut problems = Problems::new();
    let mut names = Vec::new();
    for row in &unit.rows().objects {
        let is_secret = !row.tainted.is_empty()
            || unit.blobs().text(&row.masked_sha256)?.contains(slipway_secrets::SCHEME);
        if is_secret {
            let problem = Problem::error(format!(
                "{} {} holds secrets, which an export never does",
                row.kind, row.name
            ));
            problems
                .push(problem.hint("export the chart with its values instead (`values`, `flux`, `argocd`)"));
            continue;
        }
        let place = if row.namespace.is_empty() { String::new() } else { format!("{}-", row.namespace) };
        let name = format!(
            "objects/{:03}-{}-{place}{}.yaml",
            row.ord,
            row.kind.to_lowercase(),
            row.name.replace([':', '/'], "-")
        );
        files.insert(name.clone(), unit.blobs().get(&row.masked_sha256)?.to_vec());
        names.push(name);
    }
    Ok(problems.into_result(names)?)
}

/// The identity of a unit for whoever reads the export.
fn unit_document(unit: &UnitFile) -> Value {
    let rows = unit.rows();
    let signatures: Vec<Value> = unit
        .signatures()
        .iter()
        .map(|row| json!({"keyId": row.key_id, "algorithm": row.algorithm, "signature": STANDARD.encode(&row.signature), "signedAt": row.signed_at}))
        .collect();
    let images: BTreeMap<&str, String> = rows
        .images
        .iter()
        .map(|image| (image.name.as_str(), format!("{}@{}", image.repository, image.digest)))
        .collect();
    json!({
        "apiVersion": "ktl.dev/unit-export/v1", "digest": unit.digest(), "objectSet": rows.manifest.object_set_digest,
        "release": unit.release_name(), "namespace": unit.namespace(), "chart": rows.chart.name,
        "version": rows.chart.version, "packageDigest": rows.chart.package_digest, "images": images,
        "signatures": signatures,
    })
}
