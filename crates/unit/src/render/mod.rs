//! Renders a unit's source without secrets: twice at the bundle, to find what differs at every rendering, and again
//! before every apply, to prove that the objects are the sealed ones.

mod hazard;
mod objects;

use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};

use serde_json::Value;
use slipway_chart::{Capabilities, KubeVersion, Notices, UserValues};
use slipway_gotmpl::{NoHost, TemplateHost};
use slipway_secrets::NodeContext;
use slipway_source::{
    Document, LoadContext, LoadedSource, RecordPart, RenderContext, RenderSettings, RenderedSource,
    SourcePath, SourceRequest,
};

pub use hazard::Hazard;
pub(crate) use hazard::{HazardHost, named_hazards};
use objects::object_hash;
pub(crate) use objects::{differing_fields, masked_objects, object_key, object_keys};

use crate::container::UnitFile;
use crate::error::UnitError;
use crate::image::{RewriteRule, rewrite_objects};

/// The release and the cluster a unit is rendered for. It is always an install of revision 1: what a unit gives must not
/// depend on what is deployed.
#[derive(Clone, Debug)]
pub(crate) struct RenderTarget {
    pub(crate) name: String,
    pub(crate) namespace: String,
    pub(crate) capabilities: Capabilities,
}

impl RenderTarget {
    /// The target a unit was bundled for.
    pub(crate) fn of_unit(unit: &UnitFile) -> Result<Self, UnitError> {
        let wrong = |_| UnitError::tampered("meta", "names a wrong Kubernetes version");
        let versions: Vec<String> =
            serde_json::from_str(unit.rows().meta_text("apiVersions")).unwrap_or_default();
        Ok(Self {
            name: unit.release_name().to_owned(),
            namespace: unit.namespace().to_owned(),
            capabilities: Capabilities {
                kube_version: KubeVersion::parse(unit.rows().meta_text("kubeVersion")).map_err(wrong)?,
                api_versions: versions.into(),
            },
        })
    }
}

/// The treatment of definitions a chart keeps apart (`crds/`): they are no templates and the same at every rendering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Definitions {
    Include,
    Skip,
}

/// The stack of a thread that renders: templates call each other as deep as on the main thread.
const RENDER_STACK: usize = 16 << 20;

/// Loads a source with values.
pub(crate) fn load_source(
    path: &SourcePath,
    values: UserValues,
    node: NodeContext,
    settings: RenderSettings,
    context: &LoadContext,
) -> Result<LoadedSource, UnitError> {
    let request = SourceRequest { values, node, settings, ..SourceRequest::default() };
    Ok(LoadedSource::load(path, request, context, &mut Notices::new())?)
}

/// Renders a loaded source and writes images into its objects. `lookup` finds nothing.
pub(crate) fn render_source(
    loaded: &LoadedSource,
    target: &RenderTarget,
    rules: &[(RewriteRule, String)],
    root: Option<&Path>,
    lookup: Option<&Arc<HazardHost>>,
    definitions: Definitions,
) -> Result<RenderedSource, UnitError> {
    let cluster: &dyn TemplateHost = match lookup {
        Some(host) => &**host,
        None => &NoHost,
    };
    let context = RenderContext {
        name: &target.name,
        namespace: &target.namespace,
        revision: 1,
        is_upgrade: false,
        capabilities: &target.capabilities,
        skip_crds: definitions == Definitions::Skip,
        skip_schema_validation: false,
        subchart_notes: false,
        cluster,
    };
    let mut rendered = loaded.render(&context)?;
    rendered.documents = finish_documents(rendered.documents, root);
    let objects = rendered.documents.iter_mut().filter(|document| document.stored != RecordPart::Aside);
    let mut objects: Vec<&mut Value> = objects.map(|document| &mut document.object).collect();
    for (rule, image) in rules {
        rewrite_objects(objects.iter_mut().map(|object| &mut **object), rule, image);
    }
    Ok(rendered)
}

/// Two renderings of a source, for two different times.
#[derive(Debug)]
pub(crate) struct RenderedTwice {
    /// With the definitions the source keeps apart, which come first.
    pub(crate) first: RenderedSource,
    /// Without them.
    pub(crate) second: RenderedSource,
    /// The hashes of those definitions, in their order.
    pub(crate) definition_hashes: Vec<String>,
}

/// Renders a loaded source twice and reads the definitions it keeps apart, all at the same time.
pub(crate) fn render_twice(
    loaded: &LoadedSource,
    target: &RenderTarget,
    rules: &[(RewriteRule, String)],
    root: Option<&Path>,
    host: &Arc<HazardHost>,
) -> Result<RenderedTwice, UnitError> {
    let render = || render_source(loaded, target, rules, root, Some(host), Definitions::Skip);
    thread::scope(|scope| {
        let definitions = spawn_render(scope, || read_definitions(loaded, root))?;
        let second = spawn_render(scope, || {
            host.begin_second_rendering();
            render()
        })?;
        let first = render();
        let second = second.join().unwrap_or_else(|panic| resume_unwind(panic));
        let definitions = definitions.join().unwrap_or_else(|panic| resume_unwind(panic));
        let mut first = first?;
        let (mut documents, definition_hashes) = definitions?;
        documents.append(&mut first.documents);
        first.documents = documents;
        Ok(RenderedTwice { first, second: second?, definition_hashes })
    })
}

/// Starts a thread with as much room as templates and deep documents may need.
fn spawn_render<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, UnitError> {
    let started = thread::Builder::new().stack_size(RENDER_STACK).spawn_scoped(scope, work);
    started.map_err(UnitError::io("start", Path::new("a rendering")))
}

/// The definitions a source keeps apart and their hashes: neither depends on a rendering.
fn read_definitions(
    loaded: &LoadedSource,
    root: Option<&Path>,
) -> Result<(Vec<Document>, Vec<String>), UnitError> {
    let documents = finish_documents(loaded.read_definitions()?, root);
    let hashes = documents.iter().map(|document| object_hash(&document.object, &[])).collect();
    Ok((documents, hashes))
}

/// Takes lists apart, as an apply does it, so that every object has a name of its own, and hides this run's directory.
fn finish_documents(documents: Vec<Document>, root: Option<&Path>) -> Vec<Document> {
    let mut documents: Vec<Document> = documents.into_iter().flat_map(expand_list).collect();
    for document in &mut documents {
        if let Some(root) = root {
            hide_root(document, root);
        }
    }
    documents
}

fn expand_list(document: Document) -> Vec<Document> {
    if !slipway_manifest::object::is_list(&document.object) {
        return vec![document];
    }
    let Document { object, origin, stored } = document;
    let objects = slipway_manifest::object::expand_lists(vec![object]);
    objects.into_iter().map(|object| Document { object, origin: origin.clone(), stored }).collect()
}

/// Shows a file by its place in the source, not by that of this run.
fn hide_root(document: &mut Document, root: &Path) {
    let shown = Path::new(&*document.origin.path).strip_prefix(root).map(|path| path.display().to_string());
    if let Ok(shown) = shown {
        document.origin.path = shown.into();
    }
}
