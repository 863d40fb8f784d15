//! Bundles a unit: load, bind images, render twice, seal.

mod compare;
mod policy;
mod seal;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use serde::Serialize;
use serde_json::{Map, Value};
use slipway_chart::{Capabilities, UserValues};
use slipway_event::{Clock, Redactor};
use slipway_policy::PolicySet;
use slipway_problem::Problems;
use slipway_release::{Namespace, ReleaseName};
use slipway_secrets::NodeContext;
use slipway_source::{
    LoadContext, LoadedSource, RecordPart, RenderSettings, RenderedSource, SourceContent, SourcePath,
};

use self::compare::{bundle_warnings, compare_renderings, hazards_of};
use self::policy::{check_policies, is_for_bundles};
use self::seal::{SealInputs, seal_rows};
use crate::container::{BindingRow, BlobWriter, ImageRow, write_unit};
use crate::error::UnitError;
use crate::image::{
    BindRequest, BuilderCommand, ImageInput, ImageMapping, ImageResolver, InferredBindings, PinMode,
    RewriteRule, bind_images, complete_inputs, merged_values, pin_tags, rewrite_objects, run_builder,
};
use crate::render::{
    Definitions, Hazard, HazardHost, RenderTarget, RenderedTwice, load_source, render_source, render_twice,
};
use crate::source::seal_source;

/// The treatment of fields that differ at every rendering.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NondeterministicFields {
    #[default]
    Refuse,
    /// They are listed, and are no part of what is proven.
    Allow,
}

/// The repository a source comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceRevision {
    pub url: String,
    pub commit: String,
    /// There are changes nobody committed.
    pub is_dirty: bool,
}

/// Everything a unit is made of.
#[derive(Clone, Debug)]
pub struct BundleRequest {
    pub source: SourcePath,
    /// The source as the user named it.
    pub reference: String,
    pub values: UserValues,
    pub release: ReleaseName,
    pub namespace: Namespace,
    pub env: Option<String>,
    pub capabilities: Capabilities,
    pub images: Vec<ImageInput>,
    pub builds: Vec<BuilderCommand>,
    pub mapping: ImageMapping,
    pub inferred: InferredBindings,
    pub pin: PinMode,
    pub nondeterministic: NondeterministicFields,
    pub strategy: Option<Value>,
    /// The values each environment may set.
    pub overlay_slots: BTreeMap<String, Vec<String>>,
    /// Policies the bundle is held against; they are sealed and hold wherever the unit goes.
    pub policies: Option<Arc<PolicySet>>,
    pub revision: Option<SourceRevision>,
    /// The digest of the unit this one follows.
    pub parent: Option<String>,
    pub settings: RenderSettings,
}

/// The surroundings of a bundle.
#[derive(Clone)]
pub struct BundleContext<'a> {
    /// Loads sources with texts in the place of secrets.
    pub masked: &'a LoadContext,
    /// Knows the digests of tags.
    pub images: Option<&'a dyn ImageResolver>,
    pub redactor: &'a Redactor,
    pub clock: &'a dyn Clock,
    /// The program and its version.
    pub tool: &'a str,
    /// The user and machine.
    pub builder: &'a str,
}

/// The result of a bundle.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleReport {
    pub path: PathBuf,
    pub digest: String,
    pub object_set: String,
    pub objects: usize,
    pub size: u64,
    /// The proof of every binding.
    pub bindings: Vec<String>,
    /// Images that are named by a tag alone.
    pub unpinned: Vec<String>,
    pub hazards: BTreeSet<Hazard>,
    /// Fields that differ at every rendering, by object.
    pub nondeterministic: BTreeMap<String, Vec<String>>,
    #[serde(skip)]
    pub warnings: Problems,
}

/// Bundles a unit into a file, which appears whole or not at all.
pub async fn bundle(
    mut request: BundleRequest,
    context: &BundleContext<'_>,
    output: &Path,
) -> Result<BundleReport, UnitError> {
    let mut blobs = BlobWriter::start()?;
    let mut builds = Vec::new();
    for command in &request.builds {
        let built = run_builder(command, context.redactor, context.clock).await?;
        blobs.add(built.log);
        builds.push(built.build);
        request.images.push(built.input);
    }
    request.images.sort_by(|a, b| a.name.cmp(&b.name));
    complete_inputs(&mut request.images, context.images).await?;

    if let Some(strategy) = &request.strategy {
        crate::strategy::Strategy::parse(strategy)?;
    }
    let host = Arc::new(HazardHost::default());
    request.settings.host = Some(Arc::clone(&host) as _);
    let node = NodeContext { node: Some(request.release.to_string()), ..NodeContext::default() };
    let mut loaded =
        load_source(&request.source, request.values.clone(), node, request.settings.clone(), context.masked)?;
    let sealed = seal_source(&request.source, &request.reference, &loaded)?;
    for file in &sealed.files {
        blobs.add_hashed(file.hash, Arc::clone(&file.content));
    }
    let target = RenderTarget {
        name: request.release.to_string(),
        namespace: request.namespace.to_string(),
        capabilities: request.capabilities.clone(),
    };
    let mut bound = bind(&request, context, &loaded, &target)?;
    if !bound.overlay.is_empty() {
        request.values = with_overlay(&request.values, &bound.overlay);
        loaded = loaded.with_values(request.values.clone(), context.masked)?;
    }
    let mut image_rows: Vec<ImageRow> = request.images.iter().map(ImageInput::to_row).collect();
    let root = request.source.path().parent();
    let RenderedTwice { first, second, definition_hashes } =
        render_twice(&loaded, &target, &bound.rules, root, &host)?;
    let mut pinned = Vec::new();
    if let (PinMode::All, Some(resolver)) = (request.pin, context.images) {
        let objects: Vec<Value> = regular_objects(&first);
        let (rules, rows, bindings) = pin_tags(&objects, resolver).await?;
        pinned = rules;
        image_rows.extend(rows);
        let next = bound.bindings.len() as i64;
        bound
            .bindings
            .extend(bindings.into_iter().map(|row| BindingRow { ordinal: next + row.ordinal, ..row }));
    }
    let [first, second] = [first, second].map(|rendered| with_rules(rendered, &pinned));
    let nondeterministic = compare_renderings(&first, &second, request.nondeterministic)?;
    free_aside(second);
    let hazards = hazards_of(&host, &loaded, !nondeterministic.is_empty());
    let warnings = bundle_warnings(&first, &hazards, &nondeterministic);

    let policies = request.policies.as_ref();
    let policy = policies.map(|set| check_policies(set, &request, &first, context.clock)).transpose()?;
    if let Some(report) =
        policy.as_ref().filter(|report| report.denied().any(|result| is_for_bundles(result.code)))
    {
        return Err(UnitError::Refused(report.problems()));
    }
    image_rows.sort_by(|a, b| a.name.cmp(&b.name));
    let rows = seal_rows(SealInputs {
        request: &request,
        context,
        loaded: &loaded,
        sealed,
        rendered: &first,
        definition_hashes: &definition_hashes,
        images: image_rows,
        bindings: bound.bindings,
        builds,
        nondeterministic: nondeterministic.clone(),
        hazards: &hazards,
        policy,
        blobs: &mut blobs,
    })?;
    free_aside((first, loaded));
    let digests = write_unit(output, &rows, blobs)?;
    let unpinned = rows.image_uses.iter().filter(|used| used.digest.is_empty());
    let unpinned: BTreeSet<String> = unpinned.map(|used| used.reference.clone()).collect();
    Ok(BundleReport {
        path: output.to_owned(),
        digest: digests.unit,
        object_set: rows.manifest.object_set_digest.clone(),
        objects: rows.objects.len(),
        size: std::fs::metadata(output).map(|about| about.len()).unwrap_or_default(),
        bindings: rows.image_bindings.iter().map(|binding| binding.proof.clone()).collect(),
        unpinned: unpinned.into_iter().collect(),
        hazards,
        nondeterministic,
        warnings,
    })
}

/// Frees what has thousands of parts on a thread of its own: nobody needs to wait for it.
fn free_aside(parts: impl Send + 'static) {
    drop(thread::Builder::new().spawn(move || drop(parts)));
}

/// Values with the images that were bound over everything else.
fn with_overlay(values: &UserValues, overlay: &Map<String, Value>) -> UserValues {
    let mut values = values.clone();
    let content = Value::Object(overlay.clone()).to_string().into_bytes();
    values.overlays.push(("image bindings".to_owned(), content));
    values
}

/// Images bound to places.
#[derive(Default)]
struct Bound {
    overlay: Map<String, Value>,
    rules: Vec<(RewriteRule, String)>,
    bindings: Vec<BindingRow>,
}

fn bind(
    request: &BundleRequest,
    context: &BundleContext<'_>,
    loaded: &LoadedSource,
    target: &RenderTarget,
) -> Result<Bound, UnitError> {
    if request.images.is_empty() {
        return Ok(Bound::default());
    }
    let (merged, subcharts) = match loaded.content() {
        SourceContent::Chart(chart) => {
            let chart = chart.chart();
            let names = chart.dependencies.iter().map(|child| child.name().to_owned());
            let aliases = chart.metadata.dependencies.iter().map(|declared| declared.alias.clone());
            let subcharts = names.chain(aliases).filter(|name| !name.is_empty()).collect();
            (merged_values(chart, loaded.recorded_values()), subcharts)
        }
        _ => (loaded.recorded_values().clone(), Vec::new()),
    };
    let render = |overlay: &Map<String, Value>| {
        if overlay.is_empty() {
            return trial_objects(loaded, target);
        }
        let values = with_overlay(&request.values, overlay);
        trial_objects(&loaded.with_values(values, context.masked)?, target)
    };
    let bound = bind_images(&BindRequest {
        inputs: &request.images,
        mapping: &request.mapping,
        merged: &merged,
        subcharts: &subcharts,
        inferred: request.inferred,
        render: &render,
    })?;
    Ok(Bound { overlay: bound.overlay, rules: bound.rules, bindings: bound.bindings })
}

/// The objects of a trial: all but the definitions kept apart.
fn trial_objects(loaded: &LoadedSource, target: &RenderTarget) -> Result<Vec<Value>, UnitError> {
    let rendered = render_source(loaded, target, &[], None, None, Definitions::Skip)?;
    Ok(rendered.documents.into_iter().map(|document| document.object).collect())
}

/// The objects of a rendering that have containers of their own.
fn regular_objects(rendered: &RenderedSource) -> Vec<Value> {
    let regular = rendered.documents.iter().filter(|document| document.stored != RecordPart::Aside);
    regular.map(|document| document.object.clone()).collect()
}

fn with_rules(mut rendered: RenderedSource, rules: &[(RewriteRule, String)]) -> RenderedSource {
    for (rule, image) in rules {
        let objects = rendered.documents.iter_mut().filter(|document| document.stored != RecordPart::Aside);
        rewrite_objects(objects.map(|document| &mut document.object), rule, image);
    }
    rendered
}
