//! Makes the rows of a unit from everything a bundle found.

use std::collections::{BTreeMap, BTreeSet};
use std::panic::resume_unwind;
use std::thread;

use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slipway_manifest::diff::secret_fields::SecretFields;
use slipway_manifest::image::ImageReference;
use slipway_manifest::object;
use slipway_policy::PolicyReport;
use slipway_source::{Document, LoadedSource, RecordPart, RenderedSource};

use super::policy::results_of;
use super::{BundleContext, BundleRequest};
use crate::container::{
    BindingRow, BlobWriter, BuildRow, ContentHash, FileRow, ImageRow, ImageUseRow, ManifestRow, ObjectRow,
    OverlaySlotRow, PolicyRow, SealedRows, SourceKind, ValuesRow,
};
use crate::error::UnitError;
use crate::image::container_images;
use crate::parallel::in_parallel;
use crate::render::{Hazard, masked_objects};
use crate::source::{SealedSource, SourceFile, package_digest, yaml_text};
use crate::values::{seal_values, secret_rows};

/// Everything the rows are made of.
pub(super) struct SealInputs<'a> {
    pub(super) request: &'a BundleRequest,
    pub(super) context: &'a BundleContext<'a>,
    pub(super) loaded: &'a LoadedSource,
    pub(super) sealed: SealedSource,
    pub(super) rendered: &'a RenderedSource,
    /// The hashes of its definitions, which come first.
    pub(super) definition_hashes: &'a [String],
    pub(super) images: Vec<ImageRow>,
    pub(super) bindings: Vec<BindingRow>,
    pub(super) builds: Vec<BuildRow>,
    pub(super) nondeterministic: BTreeMap<String, Vec<String>>,
    pub(super) hazards: &'a BTreeSet<Hazard>,
    pub(super) policy: Option<PolicyReport>,
    pub(super) blobs: &'a mut BlobWriter,
}

/// Makes every row of the unit.
pub(super) fn seal_rows(inputs: SealInputs<'_>) -> Result<SealedRows, UnitError> {
    let SealInputs { request, context, loaded, sealed, rendered, blobs, .. } = inputs;
    let SealedSource { mut row, files } = sealed;
    row.package_digest = package_digest(&request.source)?;
    let definitions = definition_files(rendered, &files);
    let value_layers = seal_values(&request.values, blobs)?;
    let recorded = loaded.recorded_values();
    let mut canonical = String::new();
    slipway_journal::digest::canonical(&Value::Object(recorded.clone()), &mut canonical);
    let digest = slipway_journal::digest::bytes(canonical.as_bytes());
    let values = ValuesRow { id: 1, sha256: blobs.add(canonical.into_bytes()), digest };
    let texts = in_parallel(&rendered.documents, |document| match definitions.get(&*document.origin.path) {
        Some(file) if document.stored == RecordPart::Aside => Ok(ObjectText::File(file)),
        _ => yaml_text(&document.object).map(ObjectText::Written),
    });
    let texts: Vec<ObjectText<'_>> = texts.into_iter().collect::<Result<_, _>>()?;
    let (hashes, masked_digest) = thread::scope(|scope| {
        let masked_digest = scope.spawn(|| manifest_digest(&texts));
        let hashes = masked_objects(&rendered.documents, inputs.definition_hashes, &inputs.nondeterministic);
        (hashes, masked_digest.join().unwrap_or_else(|panic| resume_unwind(panic)))
    });
    let named = hashes.keys.iter().zip(&hashes.hashes);
    let objects = rendered.documents.iter().zip(texts).zip(named).enumerate();
    let objects: Vec<ObjectRow> = objects
        .map(|(ord, ((document, text), (key, hash)))| {
            let content = match text {
                ObjectText::File(file) => file.hash,
                ObjectText::Written(text) => blobs.add(text.into_bytes()),
            };
            object_row(ord, document, key, hash, content)
        })
        .collect();
    let manifest = ManifestRow {
        id: 1,
        masked_digest,
        object_set_digest: hashes.set_digest(),
        notes_sha256: blobs.add(rendered.notes.clone().into_bytes()),
        object_count: objects.len() as i64,
        nondeterministic: inputs.nondeterministic,
    };
    let policies = request.policies.iter().flat_map(|set| set.sources()).map(|source| PolicyRow {
        name: source.name.clone(),
        sha256: blobs.add(source.text.clone().into_bytes()),
        result_at_bundle: results_of(inputs.policy.as_ref(), &source.name),
    });
    let policies = policies.collect();
    let image_uses = use_rows(rendered, &hashes.keys, &inputs.images);
    let slots = request.overlay_slots.iter();
    let overlay_slots =
        slots.map(|(env, paths)| OverlaySlotRow { env: env.clone(), allowed_paths: paths.clone() }).collect();
    Ok(SealedRows {
        meta: meta_rows(request, context, inputs.hazards, row.source_kind),
        chart: row,
        files: files
            .into_iter()
            .map(|file| FileRow { path: file.path, mode: 0o644, sha256: file.hash })
            .collect(),
        value_layers,
        values,
        secret_refs: secret_rows(recorded)?,
        images: inputs.images,
        image_bindings: inputs.bindings,
        image_uses,
        builds: inputs.builds,
        objects,
        manifest,
        policies,
        strategy: request.strategy.clone(),
        overlay_slots,
    })
}

/// The text of an object as the unit keeps it.
enum ObjectText<'f> {
    /// That of the file it stands alone in.
    File(&'f SourceFile),
    Written(String),
}

/// The digest of all texts, in their order.
fn manifest_digest(texts: &[ObjectText<'_>]) -> String {
    let mut hash = Sha256::new();
    for text in texts {
        hash.update(b"---\n");
        match text {
            ObjectText::File(file) => hash.update(&file.content),
            ObjectText::Written(text) => hash.update(text),
        }
    }
    slipway_journal::digest::hex(&hash.finalize())
}

/// The files of definitions a chart keeps apart, by their paths: what stands alone in a sealed file is sealed as it is.
fn definition_files<'f>(
    rendered: &RenderedSource,
    files: &'f [SourceFile],
) -> BTreeMap<&'f str, &'f SourceFile> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for document in rendered.documents.iter().filter(|document| document.stored == RecordPart::Aside) {
        *counts.entry(&*document.origin.path).or_default() += 1;
    }
    let alone = files.iter().filter(|file| counts.get(file.path.as_str()) == Some(&1));
    let texts = alone.filter(|file| std::str::from_utf8(&file.content).is_ok());
    texts.map(|file| (file.path.as_str(), file)).collect()
}

fn meta_rows(
    request: &BundleRequest,
    context: &BundleContext<'_>,
    hazards: &BTreeSet<Hazard>,
    kind: SourceKind,
) -> BTreeMap<String, String> {
    let hazards: Vec<&str> = hazards.iter().map(|hazard| hazard.as_str()).collect();
    let versions = Value::from(request.capabilities.api_versions.to_vec()).to_string();
    let mut meta = BTreeMap::new();
    let mut put = |key: &str, value: &str| drop(meta.insert(key.to_owned(), value.to_owned()));
    put("format", "ktl.unit.v1");
    put("createdAt", &context.clock.now().to_string());
    put("tool", context.tool);
    put("engine", kind.as_str());
    put("releaseName", &request.release);
    put("namespace", &request.namespace);
    put("env", request.env.as_deref().unwrap_or_default());
    put("builder", context.builder);
    put("unitName", &format!("{}.unit", &*request.release));
    put("parentUnitDigest", request.parent.as_deref().unwrap_or_default());
    put("kubeVersion", &request.capabilities.kube_version.version);
    put("apiVersions", &versions);
    put("hazards", &hazards.join(","));
    if let Some(revision) = &request.revision {
        put("sourceUrl", &slipway_source::shown_address(&revision.url));
        put("sourceCommit", &revision.commit);
        put("sourceDirty", if revision.is_dirty { "true" } else { "false" });
    }
    meta
}

fn object_row(ord: usize, document: &Document, key: &str, hash: &str, content: ContentHash) -> ObjectRow {
    let value = &document.object;
    let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
    let tainted = SecretFields::of(value).unwrap_or_default();
    ObjectRow {
        key: key.to_owned(),
        ord: ord as i64,
        api_version: text(object::api_version(value)),
        kind: text(object::kind(value)),
        namespace: text(object::namespace(value)),
        name: text(object::name(value)),
        scope: match document.stored {
            RecordPart::Aside => "aside",
            RecordPart::Hook => "hook",
            RecordPart::Regular => "regular",
        }
        .to_owned(),
        hook_events: text(object::annotation(value, "helm.sh/hook")),
        hook_weight: object::annotation(value, "helm.sh/hook-weight")
            .and_then(|text| text.parse().ok())
            .unwrap_or_default(),
        source: document.origin.path.to_string(),
        masked_sha256: content,
        object_hash: hash.to_owned(),
        tainted: tainted.iter().map(|(path, _)| format!("/{}", path.join("/"))).collect(),
    }
}

/// Every image of every container, with the input it comes from.
fn use_rows(rendered: &RenderedSource, keys: &[String], images: &[ImageRow]) -> Vec<ImageUseRow> {
    let mut rows: Vec<ImageUseRow> = Vec::new();
    for found in container_images(rendered.documents.iter().map(|document| &document.object)) {
        let object_key = keys.get(found.object).cloned().unwrap_or_default();
        let reference: Option<ImageReference> = found.image.parse().ok();
        let digest = reference.as_ref().and_then(|reference| reference.digest.clone()).unwrap_or_default();
        let bound = images.iter().find(|image| !digest.is_empty() && image.digest == digest);
        if rows.iter().any(|row| row.object_key == object_key && row.container == found.container) {
            continue;
        }
        rows.push(ImageUseRow {
            object_key,
            container: found.container,
            reference: found.image,
            digest,
            bound_to: bound.map(|image| image.name.clone()),
        });
    }
    rows
}
