//! A chart with its templates parsed, to be executed as often as needed.

use std::sync::{Arc, Mutex};

use slipway_gotmpl::{
    FuncMap, GoMap, GoString, GoValue, MapKind, NoHost, ParseError, RenderLimits, TemplateHost,
    TemplateRenderer, TemplateSet, TextSegment, remove_no_value,
};
use slipway_problem::Location;

use super::chart_object::ChartObject;
use super::files::FilesObject;
use super::manifests;
use super::options::{RenderOptions, check_release_name};
use super::rendered::RenderedChart;
use crate::error::{ChartError, ChartFault, LogNotice, Notices};
use crate::load::{Chart, CrdFile};
use crate::values::{self, ChartNode, SchemaSource, coalesce};
use crate::version;

/// A chart ready to be rendered many times with different values.
pub struct ChartProgram {
    chart: Chart,
    /// The templates parsed last, and for which choice of subcharts.
    parsed: Mutex<Option<(Vec<String>, Arc<TemplateSet>)>>,
}

impl std::fmt::Debug for ChartProgram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChartProgram").field("chart", &self.chart.metadata.name).finish_non_exhaustive()
    }
}

/// One template of the tree of charts.
struct ChartTemplate<'c> {
    path: String,
    base: String,
    text: &'c Arc<[u8]>,
    /// The index of its chart's data.
    scope: usize,
}

impl ChartTemplate<'_> {
    fn is_partial(&self) -> bool {
        slipway_go::filepath::base(&self.path).starts_with('_')
    }
}

/// The output of every template, before it is sorted into manifests, hooks and notes.
pub(crate) struct TemplateOutput {
    /// By path, in the order they were executed.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) segments: Vec<(String, Vec<TextSegment>)>,
}

/// Selects if the origin of every piece of text is recorded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum TraceMode {
    No,
    Yes,
}

impl ChartProgram {
    /// Takes a chart; its templates are parsed when it is first rendered.
    pub fn new(chart: Chart) -> Self {
        Self { chart, parsed: Mutex::new(None) }
    }

    /// The chart.
    pub fn chart(&self) -> &Chart {
        &self.chart
    }

    /// Renders with the user's values.
    pub fn render(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        options: &RenderOptions,
    ) -> Result<RenderedChart, ChartError> {
        self.render_with(user, options, &NoHost, &mut Notices::new())
    }

    /// Renders with a host for `lookup`, time and randomness, and says what Helm would have logged.
    pub fn render_with(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        notices: &mut Notices,
    ) -> Result<RenderedChart, ChartError> {
        let prepared = self.prepare_values(user, options, notices)?;
        let output = self.execute_templates(&prepared, options, host, TraceMode::No)?;
        let crds = enabled_crds(&prepared.tree, prepared.tree.name());
        sort_output(&self.chart, output.files, crds, options, notices)
    }

    /// The definitions under `crds/` that a rendering with the user's values brings: those of the charts that take part.
    pub fn enabled_crds(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
    ) -> Result<Vec<CrdFile>, ChartError> {
        let tree = ChartNode::with_dependencies(&self.chart, &coalesce::to_map(user), &mut Notices::new())
            .map_err(|error| ChartError::Values(error.into()))?;
        Ok(enabled_crds(&tree, tree.name()))
    }

    /// Checks the user's values against the schemas of the chart and its subcharts.
    pub fn check_values(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        schemas: Option<&dyn SchemaSource>,
    ) -> Result<(), ChartError> {
        let (user, notices) = (coalesce::to_map(user), &mut Notices::new());
        let tree = ChartNode::with_dependencies(&self.chart, &user, notices)
            .map_err(|error| ChartError::Values(error.into()))?;
        let values = coalesce::final_values(&tree, &user, notices)
            .map_err(|error| ChartError::Values(error.into()))?;
        values::check_schemas(&tree, &values, schemas)
    }

    /// Everything up to the templates: usable, values together, schemas met.
    pub(crate) fn prepare_values(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        options: &RenderOptions,
        notices: &mut Notices,
    ) -> Result<PreparedRender<'_>, ChartError> {
        let chart = &self.chart;
        check_usable(chart, notices)?;
        check_release_name(&options.name)?;
        let user = coalesce::to_map(user);
        let tree = ChartNode::with_dependencies(chart, &user, notices)
            .map_err(|error| ChartError::Values(error.into()))?;
        let values = coalesce::final_values(&tree, &user, notices)
            .map_err(|error| ChartError::Values(error.into()))?;
        if !options.skip_schema_validation {
            values::check_schemas(&tree, &values, options.schemas.as_deref())?;
        }
        let wanted = &chart.metadata.kube_version;
        let given = &options.capabilities.kube_version.version;
        if !wanted.is_empty() && !version::is_satisfied(wanted, given) {
            let fault = ChartFault::new(format!(
                "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {given}"
            ));
            return Err(ChartError::Template(fault.hint(
                "use another version of the chart; --kube-version says what a cluster runs that is not asked",
            )));
        }
        Ok(PreparedRender { tree, values })
    }

    pub(crate) fn execute_templates(
        &self,
        prepared: &PreparedRender<'_>,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        trace: TraceMode,
    ) -> Result<TemplateOutput, ChartError> {
        self.execute_tree(&prepared.tree, &prepared.values, options, host, trace)
    }

    pub(crate) fn execute_tree(
        &self,
        tree: &ChartNode<'_>,
        values: &GoMap,
        options: &RenderOptions,
        host: &dyn TemplateHost,
        trace: TraceMode,
    ) -> Result<TemplateOutput, ChartError> {
        let mut scopes = Scopes::new(options);
        let mut templates = Vec::new();
        scopes.add_chart(tree, tree.name(), values, &mut templates, true);
        // Deepest first, and the alphabet backwards: what is parsed later wins.
        let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
        templates.sort_by(|a, b| (depth(&b.path), &b.path).cmp(&(depth(&a.path), &a.path)));
        let set = self.parse_templates(&templates, &options.limits)?;

        let mut renderer = TemplateRenderer::new(&set, &options.limits, host);
        let mut output = TemplateOutput { files: Vec::with_capacity(templates.len()), segments: Vec::new() };
        let mut faults = TemplateFaults::default();
        for template in templates.iter().filter(|template| !template.is_partial()) {
            let scope = &scopes.maps[template.scope];
            let about: GoMap = [
                ("Name", GoValue::str(template.path.as_str())),
                ("BasePath", GoValue::str(template.base.as_str())),
            ]
            .into_iter()
            .collect();
            scope.insert("Template", GoValue::Map(about.with_kind(MapKind::Values)));
            let data = GoValue::Map(scope.clone());
            let result = match trace {
                TraceMode::No => renderer.execute_template(&template.path, &data),
                TraceMode::Yes => renderer.execute_traced(&template.path, &data).map(|(text, segments)| {
                    output.segments.push((template.path.clone(), segments));
                    text
                }),
            };
            let text = match result {
                Ok(text) => text,
                Err(error) => {
                    let text = error.helm_text(&template.path);
                    faults.push(template_fault(text, error.innermost_place(), &templates));
                    // What a limit stopped would be stopped again, for as long.
                    if error.is_limit() || faults.is_full() {
                        break;
                    }
                    // A template that failed leaves its includes behind.
                    renderer = TemplateRenderer::new(&set, &options.limits, host);
                    continue;
                }
            };
            if !faults.is_empty() {
                continue;
            }
            // A trace counts bytes of the text as it was written.
            let text = if trace == TraceMode::No { remove_no_value(text) } else { text };
            output.files.push((template.path.clone(), text));
        }
        faults.into_result(output)
    }

    fn parse_templates(
        &self,
        templates: &[ChartTemplate<'_>],
        limits: &RenderLimits,
    ) -> Result<Arc<TemplateSet>, ChartError> {
        let paths = || templates.iter().map(|template| &template.path);
        let mut parsed = self.parsed.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some((of, set)) = &*parsed
            && of.iter().eq(paths())
        {
            return Ok(Arc::clone(set));
        }
        let mut set = TemplateSet::new(FuncMap::helm(&slipway_gotmpl::sprig::functions()), limits);
        let files: Vec<(&str, Arc<[u8]>)> =
            templates.iter().map(|template| (&*template.path, Arc::clone(template.text))).collect();
        set.parse_all(&files).map_err(|(at, error)| self.parse_faults(templates, at, &error, limits))?;
        let set = Arc::new(set);
        *parsed = Some((paths().cloned().collect(), Arc::clone(&set)));
        Ok(set)
    }

    /// The first template that does not parse, and the others.
    fn parse_faults(
        &self,
        templates: &[ChartTemplate<'_>],
        first: usize,
        error: &ParseError,
        limits: &RenderLimits,
    ) -> ChartError {
        let fault = |template: &ChartTemplate<'_>, error: &ParseError| {
            let place = Some((template.path.as_str(), error.line(), None));
            template_fault(error.helm_text(&template.path), place, templates)
        };
        let mut faults = TemplateFaults::default();
        faults.push(fault(&templates[first], error));
        for template in templates.iter().skip(first + 1) {
            let functions = FuncMap::helm(&slipway_gotmpl::sprig::functions());
            if let Err(error) = TemplateSet::new(functions, limits).parse_file(&template.path, template.text)
            {
                faults.push(fault(template, &error));
            }
            if faults.is_full() {
                break;
            }
        }
        // Once is enough.
        if let Some(last) = faults.0.pop() {
            faults.0.push(
                last.hint("correct it there; no template of a chart is rendered before all can be read"),
            );
        }
        faults.into_result(()).err().unwrap_or_else(|| ChartError::Template(error.to_string().into()))
    }
}

/// What is wrong with the templates of a chart. Helm tells the first; the rest is told after it, each place once.
#[derive(Default)]
struct TemplateFaults(Vec<ChartFault>);

impl TemplateFaults {
    /// More than this many are told after these have been mended.
    const MOST: usize = 20;

    fn push(&mut self, fault: ChartFault) {
        let is_known = |known: &ChartFault| fault.place().is_some() && known.place() == fault.place();
        if !self.0.iter().any(is_known) {
            self.0.push(fault);
        }
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn is_full(&self) -> bool {
        self.0.len() >= Self::MOST
    }

    fn into_result<T>(self, output: T) -> Result<T, ChartError> {
        let mut faults = self.0.into_iter();
        let Some(mut first) = faults.next() else { return Ok(output) };
        faults.for_each(|other| first.push(other));
        Err(ChartError::Template(first))
    }
}

/// Adds the line of the template that failed. Templates belong to the chart and are shown as they stand.
fn template_fault(
    text: String,
    place: Option<(&str, usize, Option<usize>)>,
    templates: &[ChartTemplate<'_>],
) -> ChartFault {
    let fault = ChartFault::new(text);
    let found = place.and_then(|(path, line, bytes)| {
        let template = templates.iter().find(|template| template.path == path)?;
        Some((path, line, bytes, String::from_utf8_lossy(template.text)))
    });
    let Some((path, line, bytes, text)) = found else { return fault };
    let number = |value: usize| u32::try_from(value).unwrap_or_default();
    // Go counts the bytes before the place, we count characters from 1.
    let column = bytes.and_then(|bytes| {
        let before = text.lines().nth(line.checked_sub(1)?)?.get(..bytes)?;
        Some(number(before.chars().count() + 1))
    });
    // What is never closed is noticed after the last line.
    let line = line.min(text.lines().count().max(1));
    fault.in_text(Location::new(path, number(line), column.unwrap_or_default()), &text)
}

/// The charts that take part and the values they get.
pub(crate) struct PreparedRender<'c> {
    pub(crate) tree: ChartNode<'c>,
    pub(crate) values: GoMap,
}

/// Sorts rendered files into manifests, hooks and notes.
pub(crate) fn sort_output(
    chart: &Chart,
    files: Vec<(String, Vec<u8>)>,
    crds: Vec<CrdFile>,
    options: &RenderOptions,
    notices: &mut Notices,
) -> Result<RenderedChart, ChartError> {
    let (notes, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, _)| path.ends_with("NOTES.txt"));
    let own = format!("{}/templates/NOTES.txt", chart.name());
    let mut notes: Vec<_> =
        notes.into_iter().filter(|(path, _)| options.subchart_notes || *path == own).collect();
    notes.sort();
    let notes: Vec<String> =
        notes.into_iter().map(|(_, text)| String::from_utf8_lossy(&text).into_owned()).collect();
    let (manifests, hooks) = manifests::sort_manifests(files, notices)?;
    Ok(RenderedChart { manifests, hooks, notes: notes.join("\n"), crds, post_rendered: None })
}

/// The definitions of the charts that take part.
pub(crate) fn enabled_crds(node: &ChartNode<'_>, path: &str) -> Vec<CrdFile> {
    let mut crds = node.chart.own_crds(path);
    for child in &node.dependencies {
        crds.extend(enabled_crds(child, &format!("{path}/charts/{}", child.name())));
    }
    crds
}

fn check_usable(chart: &Chart, notices: &mut Notices) -> Result<(), ChartError> {
    let metadata = &chart.metadata;
    if !matches!(metadata.chart_type.as_str(), "" | "application") {
        let fault = ChartFault::new(format!("{} charts are not installable", metadata.chart_type));
        return Err(ChartError::Unusable(fault.hint(
            "it only defines templates: name it under `dependencies` in the Chart.yaml of an application",
        )));
    }
    if metadata.deprecated {
        notices.push(LogNotice("WARNING: This chart is deprecated".into()));
    }
    let missing: Vec<&str> = metadata
        .dependencies
        .iter()
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|loaded| loaded.name() == *name))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(ChartError::Unusable(ChartFault::new(format!(
        "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    )).hint("`slipway chart deps build CHART` brings them")))
}

/// The data each chart's templates see.
struct Scopes {
    /// Keys besides Helm's own.
    extra: GoMap,
    release: GoValue,
    capabilities: GoValue,
    maps: Vec<GoMap>,
}

impl Scopes {
    fn new(options: &RenderOptions) -> Self {
        let release: GoMap = [
            ("Name", GoValue::str(options.name.as_str())),
            ("Namespace", GoValue::str(options.namespace.as_str())),
            ("IsUpgrade", GoValue::Bool(options.is_upgrade)),
            ("IsInstall", GoValue::Bool(!options.is_upgrade)),
            ("Revision", GoValue::Int(options.revision)),
            ("Service", GoValue::str("Helm")),
        ]
        .into_iter()
        .collect();
        let extra = coalesce::to_map(&options.root.extra);
        if !options.root.runtime.is_empty() {
            extra.insert("Runtime", GoValue::Map(coalesce::to_map(&options.root.runtime)));
        }
        Self {
            extra,
            release: GoValue::Map(release),
            capabilities: options.capabilities.to_value(),
            maps: Vec::new(),
        }
    }

    fn add_chart<'c>(
        &mut self,
        node: &ChartNode<'c>,
        path: &str,
        values: &GoMap,
        templates: &mut Vec<ChartTemplate<'c>>,
        is_root: bool,
    ) -> GoMap {
        let subcharts = GoMap::new();
        let scope: GoMap = [
            ("Chart", ChartObject::to_value(&node.metadata, is_root)),
            ("Files", FilesObject::to_value(&node.chart.files)),
            ("Release", self.release.clone()),
            ("Capabilities", self.capabilities.clone()),
            ("Values", GoValue::Map(values.with_kind(MapKind::Values))),
            ("Subcharts", GoValue::Map(subcharts.clone())),
        ]
        .into_iter()
        .collect();
        let scope = scope.with_kind(MapKind::Values);
        for (key, value) in self.extra.to_vec().into_iter().filter(|(key, _)| !scope.contains(key)) {
            scope.insert(key, value);
        }
        let index = self.maps.len();
        self.maps.push(scope.clone());
        for child in &node.dependencies {
            let name = child.name();
            // A name with a dot is looked up as a path, and so finds nothing.
            let values = coalesce::table_at(values, name).unwrap_or_default();
            let below = self.add_chart(child, &format!("{path}/charts/{name}"), &values, templates, false);
            subcharts.insert(GoString::from(name), GoValue::Map(below.with_kind(MapKind::Any)));
        }
        let is_library = node.metadata.is_library();
        for file in &node.chart.templates {
            let template = ChartTemplate {
                path: format!("{path}/{}", file.name),
                base: format!("{path}/templates"),
                text: &file.data,
                scope: index,
            };
            if !is_library || template.is_partial() {
                templates.push(template);
            }
        }
        scope
    }
}
