//! Binds images to places: the user's mapping first, then places that look right. Every binding is proven by rendering
//! with it; what cannot be proven or could mean several places is an error, never a guess.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use slipway_problem::{Problem, Problems};

use super::forms::{
    Parts, fill_tag_template, fill_template, forms, mapping_text, post_render_text, repository_text, tag_form,
};
use super::input::ImageInput;
use super::mapping::{ImageMapping, MappedImage, MappedValue};
use super::nodes::{ImageNode, find_nodes};
use super::path::{ValueStep, set_value};
use super::rewrite::{RewriteRule, rewrite_objects};
use super::trial::{ProvenPlaces, Rendering, Trial, WrongRendering, is_from, resource_images};
use crate::container::{BindingConfidence, BindingKind, BindingRow};
use crate::error::UnitError;

/// The treatment of bindings that rest on a name alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InferredBindings {
    #[default]
    Refuse,
    Accept,
}

/// Renders with values laid over everything else.
pub(crate) type TrialRender<'a> = &'a dyn Fn(&Map<String, Value>) -> Result<Vec<Value>, UnitError>;

/// Everything a binding works with.
pub(crate) struct BindRequest<'a> {
    pub(crate) inputs: &'a [ImageInput],
    pub(crate) mapping: &'a ImageMapping,
    /// The values with all defaults.
    pub(crate) merged: &'a Map<String, Value>,
    pub(crate) subcharts: &'a [String],
    pub(crate) inferred: InferredBindings,
    pub(crate) render: TrialRender<'a>,
}

/// The images that were bound.
#[derive(Debug, Default)]
pub(crate) struct BoundImages {
    /// Values laid over everything else.
    pub(crate) overlay: Map<String, Value>,
    pub(crate) rules: Vec<(RewriteRule, String)>,
    pub(crate) bindings: Vec<BindingRow>,
}

/// Binds every input, or names everything that stands in the way.
pub(crate) fn bind_images(request: &BindRequest<'_>) -> Result<BoundImages, UnitError> {
    if request.inputs.is_empty() {
        return Ok(BoundImages::default());
    }
    let mut binder = Binder {
        request,
        bound: BoundImages::default(),
        nodes: Vec::new(),
        problems: Problems::new(),
        rendering: Rendering::of((request.render)(&Map::new())?),
    };
    if request.mapping.autodetect {
        binder.nodes = find_nodes(request.merged, request.subcharts, &request.mapping.ignore);
    }
    for mapped in &request.mapping.images {
        if !request.inputs.iter().any(|input| input.name == mapped.name) {
            let message = format!("the mapping names image `{}`, which is not given", mapped.name);
            let known = request.inputs.iter().map(|input| input.name.as_str());
            let problem = Problem::error(message).did_you_mean(&mapped.name, known);
            binder.problems.push(problem.at(mapped.at.clone()));
        }
    }
    for input in request.inputs {
        match request.mapping.images.iter().find(|mapped| mapped.name == input.name) {
            Some(mapped) => binder.bind_mapped(input, mapped),
            None if request.mapping.autodetect => binder.bind_found(input),
            None => {}
        }
    }
    binder.problems.into_result(binder.bound).map_err(UnitError::Problems)
}

struct Binder<'a> {
    request: &'a BindRequest<'a>,
    bound: BoundImages,
    nodes: Vec<ImageNode>,
    problems: Problems,
    /// The rendering with everything bound so far.
    rendering: Rendering,
}

/// Values that bind an image in one form, laid over everything else.
struct TrialOverlay {
    pinned: Map<String, Value>,
    /// The same with the image's tag alone.
    tagged: Map<String, Value>,
}

impl Binder<'_> {
    fn bind_mapped(&mut self, input: &ImageInput, mapped: &MappedImage) {
        if !mapped.set.is_empty() {
            let mut overlay = self.unchanged_overlay();
            for MappedValue { path, template, .. } in &mapped.set {
                let (pinned, tagged) = (
                    fill_template(template, &input.reference),
                    fill_tag_template(template, &input.reference),
                );
                set_value(&mut overlay.pinned, self.request.merged, path, pinned.into());
                set_value(&mut overlay.tagged, self.request.merged, path, tagged.into());
            }
            let paths: Vec<&str> = mapped.set.iter().map(|mapped| mapped.shown.as_str()).collect();
            let paths = paths.join(", ");
            match self.try_overlay(overlay, input, "") {
                Trial::Proven(places) => {
                    let proof = proof_text(input, &paths, &places);
                    self.push(
                        input,
                        BindingKind::Values,
                        &paths,
                        "",
                        "mapping",
                        BindingConfidence::Mapped,
                        proof,
                    );
                }
                Trial::Unused => {
                    let message =
                        format!("image `{}` is mapped to `{paths}`, which reaches no container", input.name);
                    let hint = "name values that the templates use for an image";
                    self.problems.push(Problem::error(message).at(mapped.at.clone()).hint(hint));
                }
                Trial::Wrong(WrongRendering::Labels(labels)) => {
                    let message = format!(
                        "image `{}` is mapped to `{paths}`, and its digest changes labels: {}",
                        input.name,
                        joined(&labels)
                    );
                    let hint = format!("map it to the containers themselves:\n{}", post_render_text(input));
                    self.problems.push(Problem::error(message).at(mapped.at.clone()).hint(hint));
                }
                Trial::Wrong(WrongRendering::Images | WrongRendering::Refused) => {
                    let message = format!(
                        "image `{}` is mapped to `{paths}`, and a container does not get {}",
                        input.name, input.reference
                    );
                    let hint = "set repository, tag and digest with `{{repo}}`, `{{tag}}` and `{{digest}}`";
                    self.problems.push(Problem::error(message).at(mapped.at.clone()).hint(hint));
                }
            }
        }
        for rule in &mapped.post_render {
            if !self.bind_rule(input, rule.clone(), "mapping", BindingConfidence::Mapped) {
                let shown = rule.canonical_text();
                let message =
                    format!("image `{}` is mapped to {shown}, and no rendered container fits", input.name);
                let hint = "`slipway render` shows kinds, names and containers";
                self.problems.push(Problem::error(message).at(mapped.at.clone()).hint(hint));
            }
        }
    }

    fn bind_rule(
        &mut self,
        input: &ImageInput,
        rule: RewriteRule,
        reason: &str,
        confidence: BindingConfidence,
    ) -> bool {
        let mut objects = self.rendering.objects.clone();
        let image = input.reference.to_string();
        let count = rewrite_objects(&mut objects, &rule, &image);
        let shown = rule.canonical_text();
        if count == 0 {
            return false;
        }
        let after = Rendering::of(objects);
        let images = after.changed_images(&self.rendering);
        let proof = if images.is_empty() {
            format!("image {} bound in the rendered objects: {count} fields", input.name)
        } else {
            proof_text(input, "the rendered objects", &ProvenPlaces { images, derived_labels: Vec::new() })
        };
        self.rendering = after;
        self.bound.rules.push((rule, image));
        self.push(input, BindingKind::PostRender, &shown, "", reason, confidence, proof);
        true
    }

    fn bind_found(&mut self, input: &ImageInput) {
        let wanted = input.reference.full_repository();
        let exact: Vec<ImageNode> =
            self.nodes.iter().filter(|node| node.repository == wanted).cloned().collect();
        if !exact.is_empty() {
            let mut is_bound = false;
            for node in &exact {
                is_bound |= self.bind_node(input, node, "repository", BindingConfidence::Exact);
            }
            if !is_bound && !self.problems.has_errors() && !self.bind_rendered(input, &wanted) {
                let paths: Vec<String> = exact.iter().map(ImageNode::shown_path).collect();
                let message = format!(
                    "image `{}` fits `{}`, which reaches no container",
                    input.name,
                    paths.join("`, `")
                );
                self.problems.push(
                    Problem::error(message).hint("enable the part of the chart that uses it, or map it"),
                );
            }
            return;
        }
        if self.bind_rendered(input, &wanted) {
            return;
        }
        let free = |node: &&ImageNode| {
            !self.request.inputs.iter().any(|other| other.reference.full_repository() == node.repository)
        };
        let alike: Vec<ImageNode> = self
            .nodes
            .iter()
            .filter(free)
            .filter(|node| node.short_name() == input.reference.short_name())
            .cloned()
            .collect();
        let rendered = self.rendering.repositories_named(input.reference.short_name());
        if alike.is_empty() && !rendered.is_empty() {
            // No value names what is rendered under this name: the only place there is belongs to another image.
            let rendered: Vec<String> = rendered.into_iter().collect();
            let message = format!(
                "image `{}` fits by its name what is rendered from {}, which no value names",
                input.name,
                rendered.join(" and ")
            );
            let map = repository_text(input, &rendered);
            let hint = format!("say that it belongs there with --image-map FILE:\n{map}");
            self.problems.push(Problem::error(message).hint(hint));
            return;
        }
        let own: Vec<ImageNode> = self.nodes.iter().filter(|node| node.is_own).cloned().collect();
        let (node, reason) = match (alike.as_slice(), own.as_slice()) {
            ([node], _) => (node, "name"),
            ([], [node]) if self.request.inputs.len() == 1 => (node, "only"),
            _ => {
                self.report_ambiguity(input, &alike);
                return;
            }
        };
        if self.request.inferred == InferredBindings::Refuse {
            let message = format!(
                "image `{}` would be bound at `{}` (now {}) because of its {}",
                input.name,
                node.shown_path(),
                shown_current(&node.current),
                if reason == "name" { "name alone" } else { "being the only one" },
            );
            let hint = format!(
                "accept it with --accept-inferred, or map it:\n{}",
                mapping_text(input, std::slice::from_ref(node))
            );
            self.problems.push(Problem::error(message).hint(hint));
            return;
        }
        let node = node.clone();
        if !self.bind_node(input, &node, reason, BindingConfidence::Inferred) && !self.problems.has_errors() {
            let message =
                format!("image `{}` fits `{}`, which reaches no container", input.name, node.shown_path());
            self.problems.push(Problem::error(message));
        }
    }

    /// Binds an image at one place in the first form that is proven; false if the place reaches no container.
    fn bind_node(
        &mut self,
        input: &ImageInput,
        node: &ImageNode,
        reason: &str,
        confidence: BindingConfidence,
    ) -> bool {
        for parts in forms(node, &input.reference) {
            let mut overlay = self.unchanged_overlay();
            self.set_parts(&mut overlay.pinned, node, &parts);
            self.set_parts(&mut overlay.tagged, node, &tag_form(node, &input.reference));
            match self.try_overlay(overlay, input, &node.repository) {
                Trial::Proven(places) => {
                    let path = node.path_of(parts.iter().rev().find_map(|(key, _)| *key));
                    let proof = proof_text(input, &path, &places);
                    self.push(input, BindingKind::Values, &path, &node.current, reason, confidence, proof);
                    return true;
                }
                Trial::Unused => return false,
                Trial::Wrong(_) => {}
            }
        }
        // No form of values works: the rendered objects are changed instead.
        if self.rendering.of_repository(&node.repository).is_empty() {
            let message = format!(
                "image `{}` cannot be bound at `{}`: no form of it renders",
                input.name,
                node.shown_path()
            );
            let hint = format!("map it to the containers themselves:\n{}", post_render_text(input));
            self.problems.push(Problem::error(message).hint(hint));
            return false;
        }
        self.bind_rule(input, self.rule_for(&node.repository), reason, confidence)
    }

    /// Binds an image whose repository is rendered and named by no value; false if it is not.
    fn bind_rendered(&mut self, input: &ImageInput, repository: &str) -> bool {
        !self.rendering.of_repository(repository).is_empty()
            && self.bind_rule(input, self.rule_for(repository), "rendered", BindingConfidence::Exact)
    }

    /// The rule that changes everything rendered from a repository.
    fn rule_for(&self, repository: &str) -> RewriteRule {
        let fields = self.rendering.objects.iter().flat_map(resource_images);
        let of_repository = fields.filter(|(_, image)| is_from(image, repository));
        let field_paths: BTreeSet<String> = of_repository.map(|(field, _)| field).collect();
        RewriteRule {
            repository: Some(repository.to_owned()),
            field_paths: field_paths.into_iter().collect(),
            ..RewriteRule::default()
        }
    }

    fn unchanged_overlay(&self) -> TrialOverlay {
        TrialOverlay { pinned: self.bound.overlay.clone(), tagged: self.bound.overlay.clone() }
    }

    fn set_parts(&self, overlay: &mut Map<String, Value>, node: &ImageNode, parts: &Parts) {
        for (key, value) in parts {
            let mut path = node.path.clone();
            path.extend(key.iter().map(|key| ValueStep::Key((*key).to_owned())));
            set_value(overlay, self.request.merged, &path, value.clone().into());
        }
    }

    /// Renders with an overlay, which is kept if it is proven.
    fn try_overlay(&mut self, overlay: TrialOverlay, input: &ImageInput, repository: &str) -> Trial {
        // A chart may refuse a form, for instance by its schema.
        let Ok(after) = self.render_with(&overlay.pinned) else {
            return Trial::Wrong(WrongRendering::Refused);
        };
        let mut trial = self.rendering.judge_images(&after, &input.reference, repository);
        if let Trial::Proven(places) = &mut trial {
            let changed = after.changed_labels(&self.rendering);
            if !changed.is_empty() {
                let tagged = self.render_with(&overlay.tagged);
                let other = tagged.map_or_else(|_| changed.clone(), |tagged| after.changed_labels(&tagged));
                if !other.is_empty() {
                    return Trial::Wrong(WrongRendering::Labels(other));
                }
                places.derived_labels = changed;
            }
            self.bound.overlay = overlay.pinned;
            self.rendering = after;
        }
        trial
    }

    /// Renders with an overlay and everything written into the objects so far.
    fn render_with(&self, overlay: &Map<String, Value>) -> Result<Rendering, UnitError> {
        let mut objects = (self.request.render)(overlay)?;
        for (rule, image) in &self.bound.rules {
            rewrite_objects(&mut objects, rule, image);
        }
        Ok(Rendering::of(objects))
    }

    fn report_ambiguity(&mut self, input: &ImageInput, alike: &[ImageNode]) {
        let candidates = if alike.is_empty() { self.nodes.as_slice() } else { alike };
        let shown: Vec<String> = candidates
            .iter()
            .map(|node| format!("  {} (now {})", node.shown_path(), shown_current(&node.current)))
            .collect();
        let message = match (alike, candidates) {
            ([_, ..], _) => format!(
                "image `{}` fits {} places by its name:\n{}",
                input.name,
                alike.len(),
                shown.join("\n")
            ),
            (_, []) => format!("image `{}` fits no place: the values name no image", input.name),
            _ => format!(
                "image `{}` fits no place by its repository or name; there are:\n{}",
                input.name,
                shown.join("\n")
            ),
        };
        let map =
            if candidates.is_empty() { post_render_text(input) } else { mapping_text(input, candidates) };
        self.problems.push(
            Problem::error(message).hint(format!("say where it belongs with --image-map FILE:\n{map}")),
        );
    }

    #[expect(clippy::too_many_arguments, reason = "the columns of one row")]
    fn push(
        &mut self,
        input: &ImageInput,
        kind: BindingKind,
        path: &str,
        before: &str,
        rule: &str,
        confidence: BindingConfidence,
        proof: String,
    ) {
        self.bound.bindings.push(BindingRow {
            ordinal: self.bound.bindings.len() as i64,
            image_name: input.name.clone(),
            kind,
            path: path.to_owned(),
            before: before.to_owned(),
            after: input.reference.to_string(),
            rule: rule.to_owned(),
            confidence,
            proof,
        });
    }
}

fn proof_text(input: &ImageInput, path: &str, places: &ProvenPlaces) -> String {
    let images = joined(&places.images);
    let mut text =
        format!("image {} bound at .{path} renders as {} in {images}", input.name, input.reference);
    if !places.derived_labels.is_empty() {
        text.push_str(&format!("; labels follow its tag: {}", joined(&places.derived_labels)));
    }
    text
}

fn joined(places: &[impl ToString]) -> String {
    let shown: Vec<String> = places.iter().map(ToString::to_string).collect();
    shown.join(", ")
}

fn shown_current(current: &str) -> &str {
    if current.is_empty() { "nothing" } else { current }
}
