//! The rules about Chart.yaml.

use std::path::Path;

use serde_json::Value;
use slipway_go::semver::{Constraints, Version};

use super::{LintReport, LintSeverity};
use crate::codec;
use crate::metadata::ChartMetadata;
use slipway_go::GoError;
use slipway_go::filepath;

const FILE: &str = "Chart.yaml";

pub(super) fn check_chart_yaml(path: &Path, report: &mut LintReport) {
    if path.is_dir() {
        report.apply_rule(LintSeverity::Error, FILE, Err("should be a file, not a directory".into()));
        return;
    }
    let mut metadata = ChartMetadata::default();
    let read = slipway_problem::read_file(path)
        .map_err(|error| GoError::new(error.to_string()))
        .and_then(|bytes| codec::read_document(&bytes))
        .and_then(|value| metadata.read_fields(&value).map(|()| value));
    let value = match read {
        Ok(value) => value,
        Err(error) => {
            report.apply_rule(
                LintSeverity::Error,
                FILE,
                Err(format!("unable to parse YAML\n\t{error}").into()),
            );
            return;
        }
    };
    for result in [
        check_name(&metadata),
        api_version(&metadata),
        is_text(&value, "version"),
        check_version(&metadata),
        is_text(&value, "appVersion"),
        check_maintainers(&metadata),
        check_sources(&metadata),
    ] {
        report.apply_rule(LintSeverity::Error, FILE, result);
    }
    if metadata.icon.is_empty() {
        report.apply_rule(LintSeverity::Info, FILE, Err("icon is recommended".into()));
    } else if !is_request_url(&metadata.icon) {
        report.apply_rule(
            LintSeverity::Error,
            FILE,
            Err(format!("invalid icon URL '{}'", metadata.icon).into()),
        );
    }
    let api = &metadata.api_version;
    if !metadata.chart_type.is_empty() && api != "v2" {
        let text = format!("chart type is not valid in apiVersion '{api}'. It is valid in apiVersion 'v2'");
        report.apply_rule(LintSeverity::Error, FILE, Err(text.into()));
    }
    if !metadata.dependencies.is_empty() && api != "v2" {
        let text = format!(
            "dependencies are not valid in the Chart file with apiVersion '{api}'. They are valid in apiVersion 'v2'"
        );
        report.apply_rule(LintSeverity::Error, FILE, Err(text.into()));
    }
}

fn check_name(metadata: &ChartMetadata) -> Result<(), GoError> {
    if metadata.name.is_empty() {
        return Err("name is required".into());
    }
    if filepath::base(&metadata.name) != metadata.name {
        return Err(format!("chart name {:?} is invalid", metadata.name).into());
    }
    Ok(())
}

fn api_version(metadata: &ChartMetadata) -> Result<(), GoError> {
    match metadata.api_version.as_str() {
        "" => Err("apiVersion is required. The value must be either \"v1\" or \"v2\"".into()),
        "v1" | "v2" => Ok(()),
        other => {
            Err(format!("apiVersion '{other}' is not valid. The value must be either \"v1\" or \"v2\"")
                .into())
        }
    }
}

fn is_text(value: &Value, key: &str) -> Result<(), GoError> {
    let kind = match value.get(key) {
        None | Some(Value::String(_)) => return Ok(()),
        Some(Value::Null) => "<nil>",
        Some(Value::Bool(_)) => "bool",
        Some(Value::Number(_)) => "float64",
        Some(Value::Array(_)) => "[]interface {}",
        Some(Value::Object(_)) => "map[string]interface {}",
    };
    Err(format!("{key} should be of type string but it's of type {kind}").into())
}

fn check_version(metadata: &ChartMetadata) -> Result<(), GoError> {
    if metadata.version.is_empty() {
        return Err("version is required".into());
    }
    let Ok(version) = Version::parse(&metadata.version) else {
        return Err(format!("version '{}' is not a valid SemVer", metadata.version).into());
    };
    if Constraints::parse(">0.0.0-0").is_ok_and(|constraint| !constraint.check(&version)) {
        return Err(format!("version {version} is less than or equal to 0.0.0-0").into());
    }
    Ok(())
}

fn check_maintainers(metadata: &ChartMetadata) -> Result<(), GoError> {
    if metadata.null_maintainer {
        return Err("a maintainer entry is empty".into());
    }
    for maintainer in &metadata.maintainers {
        let name = &maintainer.name;
        if name.is_empty() {
            return Err("each maintainer requires a name".into());
        }
        if !maintainer.email.is_empty() && !is_email(&maintainer.email) {
            return Err(format!("invalid email '{}' for maintainer '{name}'", maintainer.email).into());
        }
        if !maintainer.url.is_empty() && !is_url(&maintainer.url) {
            return Err(format!("invalid url '{}' for maintainer '{name}'", maintainer.url).into());
        }
    }
    Ok(())
}

fn check_sources(metadata: &ChartMetadata) -> Result<(), GoError> {
    match metadata.sources.iter().find(|source| !is_request_url(source)) {
        Some(source) => Err(format!("invalid source URL '{source}'").into()),
        None => Ok(()),
    }
}

fn is_request_url(text: &str) -> bool {
    text.split_once(':').is_some_and(|(scheme, rest)| {
        scheme.starts_with(|letter: char| letter.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
            && !rest.is_empty()
            && !text.contains([' ', '\t', '\n'])
    })
}

fn is_email(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(local, domain)| {
        let part = |part: &str| {
            !part.is_empty()
                && !part.starts_with('-')
                && !part.ends_with('-')
                && part.chars().all(|letter| letter.is_alphanumeric() || letter == '-')
        };
        !local.is_empty()
            && !local.starts_with('.')
            && !local.ends_with('.')
            && !local.contains([' ', '@', ',', '<', '>', '(', ')'])
            && domain.contains('.')
            && domain.split('.').all(part)
    })
}

fn is_url(text: &str) -> bool {
    if text.contains([' ', '\t', '\n', '<', '>', '"']) || text.len() < 3 || text.starts_with('.') {
        return false;
    }
    let host = text.split_once("://").map_or(text, |(_, rest)| rest);
    let host = host.split(['/', '?', '#']).next().unwrap_or_default();
    let host = host.rsplit('@').next().unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    !host.is_empty()
        && (host.contains('.') || host == "localhost")
        && !host.starts_with('.')
        && !host.contains("..")
}
