//! `helm template` with this crate: the same arguments, the same standard output.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::ExitCode;

use slipway_chart::{
    Capabilities, Chart, ChartError, ChartProgram, KubeVersion, LoadOptions, Notices, RenderOptions,
    SeededHost, UserValues,
};

#[derive(Default)]
struct Arguments {
    words: Vec<String>,
    values: UserValues,
    files: Vec<String>,
    api_versions: Vec<String>,
    kube_version: Option<String>,
    repeat: usize,
}

fn main() -> ExitCode {
    let mut notices = Notices::new();
    let result = run(&mut notices);
    let mut err = std::io::stderr().lock();
    for notice in notices {
        let _ = writeln!(err, "{notice}");
    }
    match result {
        Ok(text) => {
            let _ = std::io::stdout().lock().write_all(&text);
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(err, "Error: {}", error.helm_text());
            ExitCode::FAILURE
        }
    }
}

fn run(notices: &mut Notices) -> Result<Vec<u8>, ChartError> {
    let mut options = RenderOptions::default();
    let mut given = Arguments { repeat: 1, ..Arguments::default() };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let (flag, mut inline) = match argument.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(value.to_owned())),
            _ => (argument.clone(), None),
        };
        let mut value = || inline.take().or_else(|| arguments.next()).unwrap_or_default();
        match flag.as_str() {
            "-f" | "--values" => given.files.push(value()),
            "--set" => given.values.set.push(value()),
            "--set-string" => given.values.set_string.push(value()),
            "--set-file" => given.values.set_file.push(value()),
            "--set-json" => given.values.set_json.push(value()),
            "--set-literal" => given.values.set_literal.push(value()),
            "-n" | "--namespace" => options.namespace = value(),
            "-a" | "--api-versions" => given.api_versions.extend(value().split(',').map(str::to_owned)),
            "--kube-version" => given.kube_version = Some(value()),
            "-s" | "--show-only" => options.show_only.push(value()),
            "--include-crds" => options.include_crds = true,
            "--skip-tests" => options.skip_tests = true,
            "--no-hooks" => options.no_hooks = true,
            "--is-upgrade" => options.is_upgrade = true,
            "--skip-schema-validation" => options.skip_schema_validation = true,
            "--repeat" => given.repeat = value().parse().unwrap_or(1),
            _ => given.words.push(argument),
        }
    }
    let path = match given.words.as_slice() {
        [chart] => chart.clone(),
        [name, chart] => {
            options.name = name.clone();
            chart.clone()
        }
        _ => return Err(ChartError::Unusable("usage: render [NAME] CHART [flags]".into())),
    };
    for file in &given.files {
        if file == "-" {
            let mut content = Vec::new();
            let _ = std::io::stdin().read_to_end(&mut content);
            given.values.files.push(("-".into(), content));
        } else {
            given.values.read_file(Path::new(file))?;
        }
    }
    let values = given.values.build()?;
    if let Some(version) = &given.kube_version {
        options.capabilities.kube_version = KubeVersion::parse(version)?;
    }
    let capabilities: Capabilities = options.capabilities.clone();
    options.capabilities = capabilities.with_api_versions(given.api_versions);
    let chart = Chart::load_with(Path::new(&path), &LoadOptions::default(), notices)?;
    let program = ChartProgram::new(chart);
    let host = SeededHost::new(1, 1_700_000_000);
    let mut output = Vec::new();
    for _ in 0..given.repeat {
        output = program.render_with(&values, &options, &host, notices)?.to_template_output(&options)?;
    }
    Ok(output)
}
