//! `slipway lint`

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use slipway_chart::lint::{self, LintFinding, LintOptions, LintReport, LintSeverity};
use slipway_chart::{KubeVersion, Notices};
use slipway_secrets::discover_references;

use super::flags::ValueFlags;
use super::inputs::TemplateFlags;
use crate::cli::Output;
use crate::exit::Exit;
use crate::logs::Verbosity;
use crate::session::Session;
use crate::term::show;

/// Look charts over for mistakes, as `helm lint` does
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The charts' directories
    #[arg(value_name = "CHART", default_value = ".")]
    charts: Vec<PathBuf>,

    /// Fail on warnings as well
    #[arg(long)]
    strict: bool,

    /// Kubernetes version templates see and deprecations are judged by
    #[arg(long, value_name = "VERSION")]
    kube_version: Option<String>,

    /// Do not check values against the chart's schema
    #[arg(long)]
    skip_schema_validation: bool,

    /// Look the charts inside the charts over too
    #[arg(long)]
    with_subcharts: bool,

    #[command(flatten)]
    values: ValueFlags,

    #[command(flatten)]
    templates: TemplateFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let values = args.values.collect()?.build_map()?;
    let options = LintOptions {
        namespace: session.settings.namespace.value.clone().unwrap_or_else(|| "default".to_owned()),
        kube_version: args.kube_version.as_deref().map(KubeVersion::parse).transpose()?,
        strict: args.strict,
        quiet: session.verbosity == Verbosity::Quiet,
        skip_schema_validation: args.skip_schema_validation,
        limits: args.templates.limits(),
        schemas: args.templates.schemas(),
    };
    let mut charts = args.charts.clone();
    if args.with_subcharts {
        for chart in &args.charts {
            charts.extend(subcharts(chart));
        }
    }
    let mut notices = Notices::new();
    let report = |path: &PathBuf| {
        let mut report = lint::lint_chart(path, &values, &options, &mut notices);
        warn_of_references(path, &mut report);
        report
    };
    let reports: Vec<_> = charts.iter().map(report).collect();
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

/// A report for programs.
fn report_data(report: &LintReport, options: &LintOptions) -> Value {
    let finding = |finding: &LintFinding| {
        let severity = finding.severity.to_string().to_lowercase();
        json!({"severity": severity, "file": finding.file, "message": finding.text})
    };
    json!({
        "chart": report.path,
        "failed": report.has_failed(options),
        "failure": report.failure,
        "findings": report.findings.iter().map(finding).collect::<Vec<_>>(),
    })
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
