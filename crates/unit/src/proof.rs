//! Proves that a unit still gives what was sealed, and renders it for a target.

use std::collections::BTreeMap;

use slipway_problem::Problem;
use slipway_secrets::{NodeContext, PolicyTarget};
use slipway_source::{LoadContext, RecordPart, RenderSettings, RenderedSource};

use crate::container::{BindingKind, UnitFile};
use crate::error::UnitError;
use crate::image::{RewriteRule, container_images};
use crate::ledger::UnitTarget;
use crate::overlay::Overlay;
use crate::render::{Definitions, RenderTarget, load_source, masked_objects, object_keys, render_source};
use crate::source::restore_source;
use crate::values::restore_values;

/// The two ways a unit is loaded.
#[derive(Clone, Copy)]
pub struct UnitLoader<'a> {
    /// With texts in the place of secrets. Asks no backend.
    pub masked: &'a LoadContext,
    /// With the secrets themselves.
    pub resolving: &'a LoadContext,
    pub settings: &'a RenderSettings,
}

/// A unit that was proven and rendered for a target.
#[derive(Clone, Debug)]
pub struct ProvenRelease {
    pub rendered: RenderedSource,
    /// The digest of the objects as they are deployed, without secrets: the sealed one unless an overlay or another
    /// namespace changes them.
    pub object_set: String,
    /// The digest of the overlay.
    pub overlay: Option<String>,
}

/// The use of the secrets of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretUse {
    /// Texts that name them stand in their place.
    Name,
    /// They are fetched, for an apply.
    Fetch,
}

/// Renders a unit without secrets and compares every object with its sealed hash.
pub fn prove(unit: &UnitFile, loader: UnitLoader<'_>) -> Result<(), UnitError> {
    let target = RenderTarget::of_unit(unit)?;
    let rendered = render(unit, loader.masked, loader.settings, &target, None, NodeContext::default())?;
    let rows = unit.rows();
    let found = masked_objects(&rendered.documents, &[], &rows.manifest.nondeterministic);
    let sealed: BTreeMap<&str, &str> =
        rows.objects.iter().map(|object| (object.key.as_str(), object.object_hash.as_str())).collect();
    let differing = found.differing(&sealed);
    if !differing.is_empty() {
        return Err(UnitError::NotReproduced(differing));
    }
    if found.set_digest() != rows.manifest.object_set_digest {
        return Err(UnitError::tampered("manifest", "has another digest of its objects"));
    }
    Ok(())
}

/// Proves a unit and renders it for a target without secrets, with an overlay that only sets what its slot allows.
pub fn prove_release(
    unit: &UnitFile,
    loader: UnitLoader<'_>,
    target: &UnitTarget,
    overlay: Option<&Overlay>,
) -> Result<ProvenRelease, UnitError> {
    prove(unit, loader)?;
    let rendered = render_for(unit, loader.masked, loader.settings, target, overlay)?;
    let left_out = &unit.rows().manifest.nondeterministic;
    let object_set = masked_objects(&rendered.documents, &[], left_out).set_digest();
    Ok(ProvenRelease { rendered, object_set, overlay: overlay.map(|overlay| overlay.digest().to_owned()) })
}

/// Renders a proven release once more with its secrets, which decide on no object and no image.
pub(crate) fn fetch_secrets(
    unit: &UnitFile,
    loader: UnitLoader<'_>,
    target: &UnitTarget,
    overlay: Option<&Overlay>,
    proven: ProvenRelease,
) -> Result<ProvenRelease, UnitError> {
    let rendered = render_for(unit, loader.resolving, loader.settings, target, overlay)?;
    if object_keys(&rendered.documents) != object_keys(&proven.rendered.documents) {
        return Err(UnitError::problem("a secret decides which objects there are"));
    }
    Ok(ProvenRelease { rendered, ..proven })
}

/// Renders a unit for a target, with the images it holds and no others.
fn render_for(
    unit: &UnitFile,
    context: &LoadContext,
    settings: &RenderSettings,
    target: &UnitTarget,
    overlay: Option<&Overlay>,
) -> Result<RenderedSource, UnitError> {
    let mut place = RenderTarget::of_unit(unit)?;
    place.namespace.clone_from(&target.namespace);
    place.name.clone_from(&target.release);
    let node = NodeContext {
        node: Some(target.release.clone()),
        target: PolicyTarget {
            cluster: Some(target.cluster.clone()),
            namespace: Some(target.namespace.clone()),
            profile: target.env.clone(),
            ..PolicyTarget::default()
        },
    };
    let rendered = render(unit, context, settings, &place, overlay, node)?;
    check_images(unit, &rendered)?;
    Ok(rendered)
}

fn render(
    unit: &UnitFile,
    context: &LoadContext,
    settings: &RenderSettings,
    target: &RenderTarget,
    overlay: Option<&Overlay>,
    node: NodeContext,
) -> Result<RenderedSource, UnitError> {
    let source = restore_source(unit.rows(), unit.blobs())?;
    let mut values = restore_values(&unit.rows().value_layers, unit.blobs())?;
    if let Some(overlay) = overlay {
        // Under the images, which never change.
        values.overlays.insert(0, (overlay.name().to_owned(), overlay.text().as_bytes().to_vec()));
    }
    let loaded = load_source(&source.path, values, node, settings.clone(), context)?;
    render_source(&loaded, target, &rewrite_rules(unit)?, Some(source.root()), None, Definitions::Include)
}

/// The images written into rendered objects.
fn rewrite_rules(unit: &UnitFile) -> Result<Vec<(RewriteRule, String)>, UnitError> {
    let written = unit.rows().image_bindings.iter().filter(|binding| binding.kind == BindingKind::PostRender);
    written
        .map(|binding| {
            let rule = serde_json::from_str(&binding.path);
            let rule =
                rule.map_err(|_| UnitError::tampered("image_bindings", "has a rule that cannot be read"))?;
            Ok((rule, binding.after.clone()))
        })
        .collect()
}

/// Checks that a rendering runs no image the unit does not hold.
fn check_images(unit: &UnitFile, rendered: &RenderedSource) -> Result<(), UnitError> {
    let known = &unit.rows().image_uses;
    let regular = rendered.documents.iter().filter(|document| document.stored != RecordPart::Aside);
    for found in container_images(regular.map(|document| &document.object)) {
        if !known.iter().any(|used| used.reference == found.image) {
            let problem = Problem::error(format!(
                "`{}` would run image {}, which is not part of the unit",
                found.container, found.image
            ));
            return Err(problem.hint("an overlay may not change images: bundle another unit").into());
        }
    }
    Ok(())
}
