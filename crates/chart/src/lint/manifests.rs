//! The rules about templates and what they render to.

use std::sync::LazyLock;

use regex::bytes::Regex;
use serde_json::Value;

use super::names;
use super::{LintReport, LintSeverity};
use crate::codec;
use crate::decode::{self, StructFields};
use crate::load::ChartFile;
use crate::render::RenderOptions;
use slipway_go::GoError;
use slipway_go::filepath;

static CRD_HOOK: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#""?helm\.sh/hook"?:\s+crd-install"#).ok());

/// The API versions that are on their way out, one message each.
const DEPRECATIONS: &str = include_str!("deprecations.txt");

/// Checks one template; false stops the lint of templates.
pub(super) fn check_template(
    template: &ChartFile,
    rendered: &[u8],
    options: &RenderOptions,
    report: &mut LintReport,
) -> bool {
    let name = &template.name;
    let extension = filepath::ext(name);
    if !matches!(extension, ".yaml" | ".yml" | ".tpl" | ".txt") {
        let text = format!(
            "file extension '{extension}' not valid. Valid extensions are .yaml, .yml, .tpl, or .txt"
        );
        report.apply_rule(LintSeverity::Error, name, Err(text.into()));
    }
    if CRD_HOOK.as_ref().is_some_and(|regex| regex.is_match(&template.data)) {
        let text = "manifest is a crd-install hook. This hook is no longer supported in v3 and all CRDs should also exist the crds/ directory at the top level of the chart";
        report.apply_rule(LintSeverity::Warning, name, Err(text.into()));
    }
    if contains(&template.data, b".Release.Time") {
        let text =
            ".Release.Time has been removed in v3, please replace with the `now` function in your templates";
        report.apply_rule(LintSeverity::Error, name, Err(text.into()));
    }
    if extension != ".yaml" || rendered.trim_ascii().is_empty() {
        return true;
    }
    report.apply_rule(LintSeverity::Warning, name, top_indent(rendered));
    for document in split_documents(rendered) {
        let head = match codec::read_document(document).and_then(|value| Head::read_head(&value)) {
            Ok(Some(head)) => head,
            Ok(None) => continue,
            Err(error) => {
                return report.apply_rule(
                    LintSeverity::Error,
                    name,
                    Err(format!("unable to parse YAML: {error}").into()),
                );
            }
        };
        let Head { api_version, kind, name: object } = head;
        report.apply_rule(LintSeverity::Warning, name, names::check_object_name(&kind, &object));
        report.apply_rule(LintSeverity::Warning, name, check_deprecation(&api_version, &kind, options));
        let needs_selector =
            matches!(kind.as_str(), "Deployment" | "ReplicaSet" | "DaemonSet" | "StatefulSet");
        if needs_selector && !contains(rendered, b"matchLabels") && !contains(rendered, b"matchExpressions") {
            let text =
                format!("a {kind} must contain matchLabels or matchExpressions, and {object:?} does not");
            report.apply_rule(LintSeverity::Error, name, Err(text.into()));
        }
        if kind == "List" {
            report.apply_rule(LintSeverity::Error, name, list_annotations(rendered));
        }
    }
    true
}

/// The part of a document that the rules look at.
struct Head {
    api_version: String,
    kind: String,
    name: String,
}

impl Head {
    /// Nothing for a document that says nothing.
    fn read_head(value: &Value) -> Result<Option<Self>, GoError> {
        let Some(map) = decode::expect_object(value, "rules.K8sYamlStruct")? else { return Ok(None) };
        let fields = StructFields::new(map, "K8sYamlStruct");
        let name = match fields.object_field("Metadata", "rules.k8sYamlMetadata")? {
            Some(metadata) => StructFields::new(metadata, "k8sYamlMetadata.Metadata").string_field("Name")?,
            None => String::new(),
        };
        Ok(Some(Self {
            api_version: fields.string_field("apiVersion")?,
            kind: fields.string_field("Kind")?,
            name,
        }))
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn top_indent(text: &[u8]) -> Result<(), GoError> {
    for line in text.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if line.trim_ascii().is_empty() {
            continue;
        }
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            return Err(format!(
                "document starts with an illegal indent: {}, which may cause parsing problems",
                crate::values::go_quote(&String::from_utf8_lossy(line))
            )
            .into());
        }
        break;
    }
    Ok(())
}

/// Documents as Kubernetes' decoder splits them: at lines that start with `---`.
pub(super) fn split_documents(text: &[u8]) -> Vec<&[u8]> {
    let mut documents = Vec::new();
    let mut start = 0;
    let mut at = 0;
    while let Some(offset) = text[at..].windows(4).position(|window| window == b"\n---") {
        let separator = at + offset;
        let after = separator + 4;
        let Some(newline) = text[after..].iter().position(|byte| *byte == b'\n') else { break };
        documents.push(&text[start..separator]);
        start = after + newline + 1;
        at = start.saturating_sub(1);
    }
    documents.push(&text[start..]);
    documents
}

fn check_deprecation(api_version: &str, kind: &str, options: &RenderOptions) -> Result<(), GoError> {
    let prefix = format!("{api_version} {kind} is deprecated in v1.");
    let Some(message) = DEPRECATIONS.lines().find(|line| line.starts_with(&prefix)) else { return Ok(()) };
    let version = &options.capabilities.kube_version;
    let since: u64 =
        message[prefix.len()..].split('+').next().unwrap_or_default().parse().unwrap_or_default();
    let number = |text: &str| text.parse::<u64>().unwrap_or_default();
    if number(&version.major) > 1 || number(&version.minor) >= since {
        return Err(message.into());
    }
    Ok(())
}

fn list_annotations(text: &[u8]) -> Result<(), GoError> {
    let list = codec::read_document(text)?;
    let kept = list.get("items").and_then(Value::as_array).into_iter().flatten().any(|item| {
        item.pointer("/metadata/annotations").is_some_and(|annotations| {
            annotations.get("helm.sh/resource-policy").is_some_and(|policy| policy.as_str() != Some(""))
        })
    });
    if kept {
        return Err("Annotation 'helm.sh/resource-policy' within List objects are ignored".into());
    }
    Ok(())
}
