//! `lint`: what is wrong or unwise about a chart, in Helm's words.

mod chart_yaml;
mod duplicates;
mod manifests;
mod names;

use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::{Map, Value};
use slipway_gotmpl::{FuncError, GoValue, TemplateHost};

use crate::codec;
use crate::error::{ChartError, Notices};
use crate::load::{Chart, LoadOptions, go_io};
use crate::render::{ChartProgram, KubeVersion, RenderOptions, RootContext, TraceMode};
use crate::values::{self, ChartNode, SchemaSource, coalesce};
use slipway_go::GoError;

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LintSeverity {
    Info,
    Warning,
    Error,
}

impl std::fmt::Display for LintSeverity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Info => "INFO",
            Self::Warning => "WARNING",
            Self::Error => "ERROR",
        })
    }
}

/// One finding; prints as Helm prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LintFinding {
    pub severity: LintSeverity,
    /// `Chart.yaml`, `values.yaml`, `templates/`, a template, or the chart's directory.
    pub file: String,
    pub text: String,
}

impl std::fmt::Display for LintFinding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "[{}] {}: {}", self.severity, self.file, self.text)
    }
}

/// The findings of one chart.
#[derive(Clone, Debug, Default)]
pub struct LintReport {
    /// The path as given.
    pub path: String,
    pub findings: Vec<LintFinding>,
    /// The reason the chart could not be read.
    pub failure: Option<String>,
}

/// Options of a lint.
#[derive(Clone, Debug)]
pub struct LintOptions {
    /// The name of the release that templates see.
    pub release: String,
    pub namespace: String,
    pub kube_version: Option<KubeVersion>,
    /// API versions templates see besides the usual ones.
    pub api_versions: Vec<String>,
    /// Warnings count as failures.
    pub strict: bool,
    /// Only what failed.
    pub quiet: bool,
    pub skip_schema_validation: bool,
    /// Leaves out the values the chart itself brings.
    pub skip_default_values: bool,
    /// The version of what the chart installs, instead of the one it says.
    pub app_version: Option<String>,
    /// Keys of `$` besides Helm's own.
    pub root: RootContext,
    /// Limits of rendering the chart.
    pub limits: slipway_gotmpl::RenderLimits,
    /// Fetches schemas a chart refers to by address.
    pub schemas: Option<Arc<dyn SchemaSource>>,
}

impl Default for LintOptions {
    fn default() -> Self {
        Self {
            release: "test-release".into(),
            namespace: "default".into(),
            kube_version: None,
            api_versions: Vec::new(),
            strict: false,
            quiet: false,
            skip_schema_validation: false,
            skip_default_values: false,
            app_version: None,
            root: RootContext::default(),
            limits: slipway_gotmpl::RenderLimits::default(),
            schemas: None,
        }
    }
}

impl LintReport {
    /// Returns true if the chart fails the lint.
    pub fn has_failed(&self, options: &LintOptions) -> bool {
        let worst = if options.strict { LintSeverity::Warning } else { LintSeverity::Error };
        self.failure.is_some() || self.findings.iter().any(|finding| finding.severity >= worst)
    }
}

/// The standard output of `helm lint` for these reports, and its last line apart: it goes to standard
/// output when nothing failed, and is the error when something did.
pub fn to_text(reports: &[LintReport], options: &LintOptions) -> (String, String) {
    let mut text = String::new();
    let failed = reports.iter().filter(|report| report.has_failed(options)).count();
    for report in reports {
        let shown: Vec<&LintFinding> = report
            .findings
            .iter()
            .filter(|finding| !options.quiet || finding.severity > LintSeverity::Info)
            .collect();
        if options.quiet && shown.is_empty() && report.failure.is_none() {
            continue;
        }
        text.push_str(&format!("==> Linting {}\n", report.path));
        if let Some(failure) = &report.failure {
            text.push_str(&format!("Error {failure}\n"));
        }
        for finding in shown {
            text.push_str(&format!("{finding}\n"));
        }
        text.push('\n');
    }
    (text, format!("{} chart(s) linted, {failed} chart(s) failed", reports.len()))
}

/// Lints a chart directory with the user's values. Templates ask the host for names, time and secret files.
pub fn lint_chart(
    path: &Path,
    values: &Map<String, Value>,
    options: &LintOptions,
    host: &dyn TemplateHost,
    notices: &mut Notices,
) -> LintReport {
    let mut report = LintReport { path: path.display().to_string(), ..LintReport::default() };
    let chart_file = path.join("Chart.yaml");
    if let Err(error) = std::fs::metadata(&chart_file) {
        report.failure =
            Some(format!("unable to check Chart.yaml file in chart: {}", go_io("stat", &chart_file, &error)));
        return report;
    }
    chart_yaml::check_chart_yaml(&chart_file, &mut report);
    check_values(path, values, options, &mut report);
    let mut loaded = Chart::load_with(path, &LoadOptions::default(), notices);
    if let Ok(chart) = &mut loaded {
        if let Some(version) = &options.app_version {
            chart.metadata.app_version.clone_from(version);
        }
        if options.skip_default_values {
            chart.values.clear();
        }
    }
    check_templates(path, &loaded, values, options, &Tolerant(host), &mut report, notices);
    check_dependencies(path, &loaded, &mut report);
    report
}

impl LintReport {
    /// Notes a finding; tells whether there was none.
    fn apply_rule(&mut self, severity: LintSeverity, file: &str, result: Result<(), GoError>) -> bool {
        match result {
            Ok(()) => true,
            Err(text) => {
                self.findings.push(LintFinding { severity, file: file.to_owned(), text: text.into() });
                false
            }
        }
    }
}

fn check_values(path: &Path, given: &Map<String, Value>, options: &LintOptions, report: &mut LintReport) {
    let file = path.join("values.yaml");
    let Ok(bytes) = slipway_problem::read_file(&file) else {
        report.apply_rule(LintSeverity::Info, "values.yaml", Err("file does not exist".into()));
        return;
    };
    let check = || -> Result<(), GoError> {
        let mut defaults =
            codec::read_values(&bytes).map_err(|error| format!("unable to parse YAML: {error}"))?;
        if options.skip_default_values {
            defaults.clear();
        }
        let schema = slipway_problem::read_file(&path.join("values.schema.json")).unwrap_or_default();
        if schema.is_empty() || options.skip_schema_validation {
            return Ok(());
        }
        let merged = coalesce::to_map(given);
        coalesce::lay_over(&merged, &coalesce::to_map(&defaults), &mut Notices::new());
        let json = serde_json::to_value(GoValue::Map(merged)).unwrap_or_default();
        match values::check_schema(&schema, &json, options.schemas.as_deref()) {
            Ok(text) if text.is_empty() => Ok(()),
            Ok(text) => Err(text.into()),
            Err(error) => Err(error),
        }
    };
    report.apply_rule(LintSeverity::Error, "values.yaml", check());
}

/// `required` and `fail` do not stop a lint; everything else is asked of the host behind it.
struct Tolerant<'a>(&'a dyn TemplateHost);

impl TemplateHost for Tolerant<'_> {
    fn lookup_object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<GoValue, FuncError> {
        self.0.lookup_object(api_version, kind, namespace, name)
    }

    fn resolve_host(&self, host: &str) -> Option<String> {
        self.0.resolve_host(host)
    }

    fn secret_file(&self, path: &str) -> Result<GoValue, FuncError> {
        self.0.secret_file(path)
    }

    fn now(&self) -> SystemTime {
        self.0.now()
    }

    fn local_zone(&self) -> Option<String> {
        self.0.local_zone()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.0.fill_random(bytes);
    }

    fn is_seeded(&self) -> bool {
        self.0.is_seeded()
    }

    fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    fn tolerates_failure(&self, _message: &str) -> bool {
        true
    }
}

fn check_templates(
    path: &Path,
    loaded: &Result<Chart, ChartError>,
    given: &Map<String, Value>,
    options: &LintOptions,
    host: &dyn TemplateHost,
    report: &mut LintReport,
    notices: &mut Notices,
) {
    const FOLDER: &str = "templates/";
    let folder = path.join("templates");
    match std::fs::metadata(&folder) {
        Ok(metadata) if !metadata.is_dir() => {
            report.apply_rule(LintSeverity::Warning, FOLDER, Err("not a directory".into()));
            return;
        }
        _ => {}
    }
    let chart = match loaded {
        Ok(chart) => chart,
        Err(error) => {
            report.apply_rule(LintSeverity::Error, FOLDER, Err(error.to_string().into()));
            return;
        }
    };
    let mut render = RenderOptions {
        name: options.release.clone(),
        namespace: options.namespace.clone(),
        skip_schema_validation: options.skip_schema_validation,
        root: options.root.clone(),
        limits: options.limits.clone(),
        ..RenderOptions::default()
    };
    if let Some(version) = &options.kube_version {
        render.capabilities.kube_version = version.clone();
    }
    render.capabilities = render.capabilities.with_api_versions(options.api_versions.iter().cloned());
    let user = coalesce::to_map(given);
    // Helm says nothing of failures here; `render` does.
    let Ok(tree) = ChartNode::with_dependencies(chart, &user, notices) else { return };
    let Ok(merged) = coalesce::final_values(&tree, &user, notices) else { return };
    if !options.skip_schema_validation
        && let Err(error) = values::check_schemas(&tree, &merged, options.schemas.as_deref())
    {
        report.apply_rule(LintSeverity::Error, FOLDER, Err(error.to_string().into()));
        return;
    }
    let program = ChartProgram::new(chart.clone());
    let output = match program.execute_tree(&tree, &merged, &render, host, TraceMode::No) {
        Ok(output) => output,
        Err(error) => {
            report.apply_rule(LintSeverity::Error, FOLDER, Err(error.to_string().into()));
            return;
        }
    };
    for template in &chart.templates {
        let rendered = format!("{}/{}", chart.name(), template.name);
        let text = output.files.iter().find(|(name, _)| *name == rendered).map(|(_, text)| text.as_slice());
        if !manifests::check_template(template, text.unwrap_or_default(), &render, report) {
            return;
        }
    }
    let mut files: Vec<(&str, &[u8])> =
        output.files.iter().map(|(name, text)| (name.as_str(), text.as_slice())).collect();
    files.sort_unstable();
    duplicates::check_duplicates(chart.name(), files.into_iter(), &options.namespace, report);
}

fn check_dependencies(path: &Path, loaded: &Result<Chart, ChartError>, report: &mut LintReport) {
    let chart = match loaded {
        Ok(chart) => chart,
        Err(error) => {
            report.apply_rule(
                LintSeverity::Error,
                "",
                Err(format!("unable to load chart\n\t{error}").into()),
            );
            return;
        }
    };
    let folder = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string();
    let declared = &chart.metadata.dependencies;
    let undeclared: Vec<&str> = chart
        .dependencies
        .iter()
        .map(Chart::name)
        .filter(|name| !declared.iter().any(|dependency| dependency.name == *name))
        .collect();
    if !undeclared.is_empty() {
        let text = format!("chart metadata is missing these dependencies: {}", undeclared.join(","));
        report.apply_rule(LintSeverity::Error, &folder, Err(text.into()));
    }
    let absent: Vec<&str> = declared
        .iter()
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !chart.dependencies.iter().any(|loaded| loaded.name() == *name))
        .collect();
    if !absent.is_empty() {
        let text = format!("chart directory is missing these dependencies: {}", absent.join(","));
        report.apply_rule(LintSeverity::Warning, &folder, Err(text.into()));
    }
}
