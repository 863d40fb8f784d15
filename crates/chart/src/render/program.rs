//! A chart with its templates parsed, to be executed as often as needed.

use std::sync::{Arc, Mutex};

use slipway_gotmpl::{
    FuncMap, Host, Limits, Map, MapKind, NoHost, Renderer, Segment, Str, TemplateSet, Value, remove_no_value,
};

use super::about::About;
use super::files::Files;
use super::manifests;
use super::options::{RenderOptions, check_release_name};
use super::rendered::Rendered;
use crate::error::{Error, Notice, Notices};
use crate::load::{Chart, Crd};
use crate::values::{self, Node, SchemaSource, coalesce};
use crate::version;

/// A chart ready to be rendered many times with different values.
pub struct Program {
    chart: Chart,
    /// The templates parsed last, and for which choice of subcharts.
    parsed: Mutex<Option<(Vec<String>, Arc<TemplateSet>)>>,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("chart", &self.chart.metadata.name).finish_non_exhaustive()
    }
}

/// One template of the tree of charts.
struct Template<'c> {
    path: String,
    base: String,
    text: &'c Arc<[u8]>,
    /// The index of its chart's data.
    scope: usize,
}

impl Template<'_> {
    fn is_partial(&self) -> bool {
        slipway_go::filepath::base(&self.path).starts_with('_')
    }
}

/// What a rendering of every file gives, before it is taken apart.
pub(crate) struct Output {
    /// By path, in the order they were executed.
    pub(crate) files: Vec<(String, Vec<u8>)>,
    pub(crate) segments: Vec<(String, Vec<Segment>)>,
}

/// Whether to note where every piece of text came from.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trace {
    No,
    Yes,
}

impl Program {
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
    ) -> Result<Rendered, Error> {
        self.render_with(user, options, &NoHost, &mut Notices::new())
    }

    /// Renders with a host for `lookup`, time and randomness, and says what Helm would have logged.
    pub fn render_with(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        options: &RenderOptions,
        host: &dyn Host,
        notices: &mut Notices,
    ) -> Result<Rendered, Error> {
        let prepared = self.prepare(user, options, notices)?;
        let output = self.execute(&prepared, options, host, Trace::No)?;
        let crds = crds(&prepared.tree, prepared.tree.name());
        rendered(&self.chart, output.files, crds, options, notices)
    }

    /// Checks the user's values against the schemas of the chart and its subcharts.
    pub fn check_values(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        schemas: Option<&dyn SchemaSource>,
    ) -> Result<(), Error> {
        let (user, notices) = (coalesce::to_map(user), &mut Notices::new());
        let tree = Node::process(&self.chart, &user, notices).map_err(Error::Values)?;
        let values = coalesce::final_values(&tree, &user, notices).map_err(Error::Values)?;
        values::check_schemas(&tree, &values, schemas)
    }

    /// Everything up to the templates: usable, values together, schemas met.
    pub(crate) fn prepare(
        &self,
        user: &serde_json::Map<String, serde_json::Value>,
        options: &RenderOptions,
        notices: &mut Notices,
    ) -> Result<Prepared<'_>, Error> {
        let chart = &self.chart;
        check_usable(chart, notices)?;
        check_release_name(&options.name)?;
        let user = coalesce::to_map(user);
        let tree = Node::process(chart, &user, notices).map_err(Error::Values)?;
        let values = coalesce::final_values(&tree, &user, notices).map_err(Error::Values)?;
        if !options.skip_schema_validation {
            values::check_schemas(&tree, &values, options.schemas.as_deref())?;
        }
        let wanted = &chart.metadata.kube_version;
        let given = &options.capabilities.kube_version.version;
        if !wanted.is_empty() && !version::satisfies(wanted, given) {
            return Err(Error::Template(format!(
                "chart requires kubeVersion: {wanted} which is incompatible with Kubernetes {given}"
            )));
        }
        Ok(Prepared { tree, values })
    }

    pub(crate) fn execute(
        &self,
        prepared: &Prepared<'_>,
        options: &RenderOptions,
        host: &dyn Host,
        trace: Trace,
    ) -> Result<Output, Error> {
        self.execute_tree(&prepared.tree, &prepared.values, options, host, trace)
    }

    pub(crate) fn execute_tree(
        &self,
        tree: &Node<'_>,
        values: &Map,
        options: &RenderOptions,
        host: &dyn Host,
        trace: Trace,
    ) -> Result<Output, Error> {
        let mut scopes = Scopes::new(options);
        let mut templates = Vec::new();
        scopes.add(tree, tree.name(), values, &mut templates, true);
        // Deepest first, and the alphabet backwards: what is parsed later wins.
        let depth = |path: &str| path.bytes().filter(|byte| *byte == b'/').count();
        templates.sort_by(|a, b| (depth(&b.path), &b.path).cmp(&(depth(&a.path), &a.path)));
        let set = self.parse(&templates, &options.limits)?;

        let mut renderer = Renderer::new(&set, &options.limits, host);
        let mut output = Output { files: Vec::with_capacity(templates.len()), segments: Vec::new() };
        for template in templates.iter().filter(|template| !template.is_partial()) {
            let scope = &scopes.maps[template.scope];
            let about: Map = [
                ("Name", Value::str(template.path.as_str())),
                ("BasePath", Value::str(template.base.as_str())),
            ]
            .into_iter()
            .collect();
            scope.insert("Template", Value::Map(about.with_kind(MapKind::Values)));
            let data = Value::Map(scope.clone());
            let result = match trace {
                Trace::No => renderer.execute(&template.path, &data),
                Trace::Yes => renderer.execute_traced(&template.path, &data).map(|(text, segments)| {
                    output.segments.push((template.path.clone(), segments));
                    text
                }),
            };
            let text = result.map_err(|error| Error::Template(error.helm_text(&template.path)))?;
            // A trace counts bytes of the text as it was written.
            let text = if trace == Trace::No { remove_no_value(text) } else { text };
            output.files.push((template.path.clone(), text));
        }
        Ok(output)
    }

    fn parse(&self, templates: &[Template<'_>], limits: &Limits) -> Result<Arc<TemplateSet>, Error> {
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
        set.parse_all(&files).map_err(|(at, error)| Error::Template(error.helm_text(&templates[at].path)))?;
        let set = Arc::new(set);
        *parsed = Some((paths().cloned().collect(), Arc::clone(&set)));
        Ok(set)
    }
}

/// The charts that take part and the values they get.
pub(crate) struct Prepared<'c> {
    pub(crate) tree: Node<'c>,
    pub(crate) values: Map,
}

/// Takes rendered files apart.
pub(crate) fn rendered(
    chart: &Chart,
    files: Vec<(String, Vec<u8>)>,
    crds: Vec<Crd>,
    options: &RenderOptions,
    notices: &mut Notices,
) -> Result<Rendered, Error> {
    let (notes, files): (Vec<_>, Vec<_>) =
        files.into_iter().partition(|(path, _)| path.ends_with("NOTES.txt"));
    let own = format!("{}/templates/NOTES.txt", chart.name());
    let mut notes: Vec<_> =
        notes.into_iter().filter(|(path, _)| options.subchart_notes || *path == own).collect();
    notes.sort();
    let notes: Vec<String> =
        notes.into_iter().map(|(_, text)| String::from_utf8_lossy(&text).into_owned()).collect();
    let (manifests, hooks) = manifests::sort(files, notices)?;
    Ok(Rendered { manifests, hooks, notes: notes.join("\n"), crds, post_rendered: None })
}

/// The definitions of the charts that take part.
pub(crate) fn crds(node: &Node<'_>, path: &str) -> Vec<Crd> {
    let mut crds = node.chart.own_crds(path);
    for child in &node.dependencies {
        crds.extend(self::crds(child, &format!("{path}/charts/{}", child.name())));
    }
    crds
}

fn check_usable(chart: &Chart, notices: &mut Notices) -> Result<(), Error> {
    let metadata = &chart.metadata;
    if !matches!(metadata.chart_type.as_str(), "" | "application") {
        return Err(Error::Unusable(format!("{} charts are not installable", metadata.chart_type)));
    }
    if metadata.deprecated {
        notices.push(Notice("WARNING: This chart is deprecated".into()));
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
    Err(Error::Unusable(format!(
        "An error occurred while checking for chart dependencies. You may need to run `helm dependency build` to fetch missing dependencies: found in Chart.yaml, but missing in charts/ directory: {}",
        missing.join(", ")
    )))
}

/// The data each chart's templates see.
struct Scopes {
    release: Value,
    capabilities: Value,
    maps: Vec<Map>,
}

impl Scopes {
    fn new(options: &RenderOptions) -> Self {
        let release: Map = [
            ("Name", Value::str(options.name.as_str())),
            ("Namespace", Value::str(options.namespace.as_str())),
            ("IsUpgrade", Value::Bool(options.is_upgrade)),
            ("IsInstall", Value::Bool(!options.is_upgrade)),
            ("Revision", Value::Int(options.revision)),
            ("Service", Value::str("Helm")),
        ]
        .into_iter()
        .collect();
        Self { release: Value::Map(release), capabilities: options.capabilities.to_value(), maps: Vec::new() }
    }

    fn add<'c>(
        &mut self,
        node: &Node<'c>,
        path: &str,
        values: &Map,
        templates: &mut Vec<Template<'c>>,
        is_root: bool,
    ) -> Map {
        let subcharts = Map::new();
        let scope: Map = [
            ("Chart", About::value(&node.metadata, is_root)),
            ("Files", Files::value(&node.chart.files)),
            ("Release", self.release.clone()),
            ("Capabilities", self.capabilities.clone()),
            ("Values", Value::Map(values.with_kind(MapKind::Values))),
            ("Subcharts", Value::Map(subcharts.clone())),
        ]
        .into_iter()
        .collect();
        let scope = scope.with_kind(MapKind::Values);
        let index = self.maps.len();
        self.maps.push(scope.clone());
        for child in &node.dependencies {
            let name = child.name();
            // A name with a dot is looked up as a path, and so finds nothing.
            let values = coalesce::table(values, name).unwrap_or_default();
            let below = self.add(child, &format!("{path}/charts/{name}"), &values, templates, false);
            subcharts.insert(Str::from(name), Value::Map(below.with_kind(MapKind::Any)));
        }
        let is_library = node.metadata.is_library();
        for file in &node.chart.templates {
            let template = Template {
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
