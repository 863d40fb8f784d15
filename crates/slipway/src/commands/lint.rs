//! `slipway lint`

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use slipway_chart::lint::{self, LintFinding, LintOptions, LintReport, LintSeverity};
use slipway_chart::{KubeVersion, Notices, RenderOptions, UserValues};
use slipway_release::validate::ExistingObjects;
use slipway_secrets::discover_references;
use slipway_source::{LoadError, LoadedSource, OfflineFetcher, SourcePath, SourceRequest};

use super::flags::{CapabilityFlags, DefaultsFlags, RootFlags, ValueFlags};
use super::host::RenderHost;
use super::inputs::{SecretFlags, TemplateFlags};
use super::validate::Live;
use crate::charts;
use crate::cli::Output;
use crate::exit::Exit;
use crate::help::Usual;
use crate::logs::Verbosity;
use crate::session::Session;
use crate::term::show;

/// Look charts over for mistakes, as `helm lint` does
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The charts' directories
    #[arg(value_name = "CHART", default_value = ".")]
    charts: Vec<PathBuf>,

    /// Name of the release that templates see
    #[arg(short, long, value_name = "NAME", default_value = "test-release", add = Usual)]
    release: String,

    /// Fail on warnings as well
    #[arg(long)]
    strict: bool,

    /// Check against the cluster as well: that it serves every kind and that nothing is in the way
    #[arg(long, alias = "remote")]
    validate: bool,

    /// With --validate, do not mind objects that belong to nobody or another release
    #[arg(long, alias = "force-adoption", requires = "validate")]
    take_ownership: bool,

    /// Let `getHostByName` ask the name service
    #[arg(long, alias = "templates-allow-dns")]
    enable_dns: bool,

    /// Version of what the chart installs, instead of the chart's appVersion
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,

    /// Do not check values against the chart's schema
    #[arg(long)]
    skip_schema_validation: bool,

    /// Look the charts inside the charts over too
    #[arg(long)]
    with_subcharts: bool,

    #[command(flatten)]
    capabilities: CapabilityFlags,

    #[command(flatten)]
    values: ValueFlags,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    defaults: DefaultsFlags,

    #[command(flatten)]
    secrets: SecretFlags,

    #[command(flatten)]
    templates: TemplateFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let values = args.values.collect()?;
    let options = LintOptions {
        release: args.release.clone(),
        namespace: session.settings.namespace.value.clone().unwrap_or_else(|| "default".to_owned()),
        kube_version: args.capabilities.kube_version.as_deref().map(KubeVersion::parse).transpose()?,
        api_versions: args.capabilities.api_versions.clone(),
        strict: args.strict,
        quiet: session.verbosity == Verbosity::Quiet,
        skip_schema_validation: args.skip_schema_validation,
        skip_default_values: args.defaults.no_default_values,
        app_version: args.app_version.clone(),
        root: args.root.context()?,
        limits: args.templates.limits(),
        schemas: args.templates.schemas(),
    };
    let mut charts = args.charts.clone();
    if args.with_subcharts {
        for chart in &args.charts {
            charts.extend(subcharts(chart));
        }
    }
    let live = args.validate.then(|| Live::connect(session)).transpose()?.map(Arc::new);
    let mut reports = Vec::with_capacity(charts.len());
    for path in &charts {
        let mut report = lint_one(args, path, &values, &options, live.as_ref(), session)?;
        warn_of_references(path, &mut report);
        reports.push(report);
    }
    let has_failed = reports.iter().any(|report| report.has_failed(&options));
    if session.output() != Output::Table {
        let data: Vec<_> = reports.iter().map(|report| report_data(report, &options)).collect();
        show::show(session.output(), &data, |_| String::new())?;
        return Ok(if has_failed { Exit::Invalid } else { Exit::Done });
    }
    let (text, last) = lint::to_text(&reports, &options);
    show::print(&text)?;
    if has_failed {
        say!("error: {last}");
        return Ok(Exit::Invalid);
    }
    if !options.quiet {
        show::print(&format!("{last}\n"))?;
    }
    Ok(Exit::Done)
}

/// Looks one chart over: with its encrypted values made readable, and against the cluster if there is one.
fn lint_one(
    args: &Args,
    path: &Path,
    values: &UserValues,
    options: &LintOptions,
    live: Option<&Arc<Live>>,
    session: &Session,
) -> anyhow::Result<LintReport> {
    let mut notices = Notices::new();
    let mut host = RenderHost::new(None, args.enable_dns);
    host.live = live.cloned();
    let request = SourceRequest {
        values: values.clone(),
        secret_values: args.secrets.secret_values.clone(),
        default_values: args.defaults.values(),
        default_secret_values: args.defaults.secret_values(),
        app_version: args.app_version.clone(),
        ..SourceRequest::default()
    };
    let context = charts::load_context(OfflineFetcher, args.secrets.decryption(), session);
    let loaded = LoadedSource::load(&SourcePath::Chart(path.to_owned()), request, &context, &mut notices);
    let loaded = match loaded {
        Ok(loaded) => loaded,
        // A chart that cannot be read is what a lint is for.
        Err(LoadError::Chart(_)) => {
            return Ok(lint::lint_chart(path, &values.build_map()?, options, &host, &mut notices));
        }
        Err(error) => return Err(charts::load_failure(error)),
    };
    let report = loaded.lint_chart(options, &host, &mut notices);
    let mut report = report.unwrap_or_default();
    if let Some(live) = live.filter(|_| report.failure.is_none()) {
        check_against(live, args, &loaded, options, &host, &mut report)?;
    }
    Ok(report)
}

/// Notes what the cluster has against a chart.
fn check_against(
    live: &Live,
    args: &Args,
    loaded: &LoadedSource,
    options: &LintOptions,
    host: &RenderHost,
    report: &mut LintReport,
) -> anyhow::Result<()> {
    let render = RenderOptions {
        name: options.release.clone(),
        namespace: options.namespace.clone(),
        capabilities: live.capabilities()?.with_api_versions(options.api_versions.iter().cloned()),
        skip_schema_validation: options.skip_schema_validation,
        root: options.root.clone(),
        limits: options.limits.clone(),
        schemas: options.schemas.clone(),
        ..RenderOptions::default()
    };
    let existing = match args.take_ownership {
        true => ExistingObjects::Allowed,
        false => ExistingObjects::MustBelong,
    };
    let checked = match loaded.render_chart(&render, host, &mut Notices::new()) {
        Some(Ok(rendered)) => live.check(&rendered, &render, existing),
        Some(Err(error)) => Err(error.into()),
        None => Ok(()),
    };
    if let Err(error) = checked {
        report.findings.push(LintFinding {
            severity: LintSeverity::Error,
            file: "templates/".to_owned(),
            text: format!("{error:#}"),
        });
    }
    Ok(())
}

/// A report for programs.
fn report_data(report: &LintReport, options: &LintOptions) -> LintView {
    let finding = |finding: &LintFinding| FindingView {
        severity: finding.severity.to_string().to_lowercase(),
        file: finding.file.clone(),
        message: finding.text.clone(),
    };
    LintView {
        chart: report.path.clone(),
        failed: report.has_failed(options),
        failure: report.failure.clone(),
        findings: report.findings.iter().map(finding).collect(),
    }
}

/// The findings about one chart.
#[derive(Serialize, JsonSchema)]
pub struct LintView {
    /// The path as given.
    chart: String,
    failed: bool,
    /// The reason the chart could not be read.
    failure: Option<String>,
    findings: Vec<FindingView>,
}

/// One finding about a chart.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "LintFinding")]
struct FindingView {
    /// `info`, `warning` or `error`.
    severity: String,
    file: String,
    message: String,
}

/// Warns of references to secrets among a chart's defaults: only values a user gives are resolved.
fn warn_of_references(chart: &Path, report: &mut LintReport) {
    let (found, _) = discover_references(&chart.join("values.yaml"));
    report.findings.extend(found.into_iter().map(|found| LintFinding {
        severity: LintSeverity::Warning,
        file: format!("values.yaml:{}:{}", found.place.line, found.place.column),
        text: format!(
            "{} stays as it is: references in a chart's defaults are not resolved",
            found.reference
        ),
    }));
}

/// The directories under `charts/` that hold a chart, in order, those inside them included.
fn subcharts(chart: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(chart.join("charts")) else { return Vec::new() };
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.join("Chart.yaml").is_file())
        .collect();
    found.sort();
    let inner: Vec<PathBuf> = found.iter().flat_map(|path| subcharts(path)).collect();
    found.extend(inner);
    found
}
