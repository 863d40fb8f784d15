//! The `kurel:` key: who the package is.

use serde::Serialize;
use serde_json::Value as Json;
use slipway_problem::Problems;
use slipway_yaml::YamlNode;

use crate::report::coded_error;

/// A package's identity, as its author wrote it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PackageMetadata {
    pub name: String,
    pub version: String,
    pub app_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<PackageMaintainer>,
    /// The range of Kubernetes versions the author names.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubernetes: Option<String>,
    /// More CRD files, relative to the package.
    #[serde(skip)]
    pub schemas: Vec<String>,
    #[serde(skip)]
    pub schema_overrides: Option<Json>,
    /// References in resources are honoured too.
    #[serde(skip)]
    pub substitute_resources: bool,
}

/// A person who looks after a package.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PackageMaintainer {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub email: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
}

const KNOWN: [&str; 11] = [
    "name",
    "version",
    "appVersion",
    "description",
    "home",
    "keywords",
    "maintainers",
    "schemas",
    "schemaOverrides",
    "substituteResources",
    "kubernetes",
];

impl PackageMetadata {
    /// Reads the `kurel:` key of a parameter file.
    pub(crate) fn read(root: &YamlNode, problems: &mut Problems) -> Self {
        let mut metadata = Self::default();
        let Some(node) = root.get("kurel").filter(|node| !node.is_null()) else {
            problems.push(
                root.problem("the package does not say who it is: `kurel` is missing")
                    .code("KV007")
                    .hint("add kurel: {name: …, version: …, appVersion: …}"),
            );
            return metadata;
        };
        let Some(mapping) = node.as_map() else {
            problems
                .push(node.problem(format!("`kurel` must be a map, not {}", node.kind_name())).code("KV007"));
            return metadata;
        };
        for (key, _) in mapping.iter() {
            let name = key.key_text();
            if !KNOWN.contains(&&*name) {
                problems.push(
                    key.warning(format!("unknown key `kurel.{name}`"))
                        .code("KV012")
                        .did_you_mean(&name, KNOWN),
                );
            }
        }
        let required = |key: &str, problems: &mut Problems| -> String {
            let text = node.get(key).and_then(YamlNode::scalar_text).unwrap_or_default().into_owned();
            if text.is_empty() {
                let place = node.get(key).unwrap_or(node);
                problems.push(place.problem(format!("`kurel.{key}` is required")).code("KV007"));
            }
            text
        };
        metadata.name = required("name", problems);
        metadata.version = required("version", problems);
        metadata.app_version = required("appVersion", problems);
        if !metadata.name.is_empty()
            && let Err(why) = slipway_manifest::names::check_label_1123(&metadata.name)
        {
            let place = node.get("name").unwrap_or(node);
            problems
                .push(place.problem(format!("`kurel.name` is not valid: {}", why.join("; "))).code("KV008"));
        }
        if !metadata.version.is_empty() {
            let place = node.get("version").unwrap_or(node);
            let bare = metadata.version.strip_prefix('v').unwrap_or(&metadata.version);
            if !is_semver(bare) {
                let message = format!("`kurel.version` is not a semantic version: `{}`", metadata.version);
                problems.push(place.problem(message).code("KV009").hint("write three numbers: 1.2.0"));
            } else if bare.len() != metadata.version.len() {
                problems.push(place.warning("`kurel.version` starts with `v`").code("KV010"));
            }
        }
        let text = |key: &str| node.get(key).and_then(YamlNode::as_str).map(str::to_owned);
        metadata.description = text("description");
        metadata.home = text("home");
        if let Some(home) = &metadata.home
            && !home.starts_with("http://")
            && !home.starts_with("https://")
        {
            let place = node.get("home").unwrap_or(node);
            problems.push(place.warning("`kurel.home` is no http or https address").code("KV012"));
        }
        metadata.kubernetes = text("kubernetes");
        let strings = |key: &str, problems: &mut Problems| -> Vec<String> {
            let Some(value) = node.get(key).filter(|value| !value.is_null()) else { return Vec::new() };
            let Some(items) = value.as_seq() else {
                problems.push(value.problem(format!("`kurel.{key}` must be a list")).code("KV008"));
                return Vec::new();
            };
            items.iter().filter_map(|item| Some(item.scalar_text()?.into_owned())).collect()
        };
        metadata.keywords = strings("keywords", problems);
        metadata.schemas = strings("schemas", problems);
        for item in node.get("schemas").and_then(YamlNode::as_seq).unwrap_or_default() {
            let (place, path) = (item, item.scalar_text().unwrap_or_default());
            if path.contains("://") {
                problems.push(
                    place
                        .problem(format!("`{path}` is an address: schemas are files of the package"))
                        .code("KV011")
                        .hint("download it into schemas/crds/"),
                );
            } else if path.starts_with('/') || path.split('/').any(|part| part == "..") {
                problems.push(place.problem(format!("`{path}` leads out of the package")).code("KR010"));
            }
        }
        for item in node.get("maintainers").and_then(YamlNode::as_seq).unwrap_or_default() {
            let part =
                |key: &str| item.get(key).and_then(YamlNode::scalar_text).map(std::borrow::Cow::into_owned);
            metadata.maintainers.push(PackageMaintainer {
                name: part("name").or_else(|| item.as_str().map(str::to_owned)).unwrap_or_default(),
                email: part("email"),
                url: part("url"),
            });
        }
        metadata.schema_overrides =
            node.get("schemaOverrides").filter(|value| !value.is_null()).map(YamlNode::to_json);
        if let Some(value) = node.get("substituteResources") {
            match value.as_bool() {
                Some(on) => metadata.substitute_resources = on,
                None => {
                    let problem = coded_error("KV008", "`kurel.substituteResources` must be true or false");
                    problems.push(problem.at(value.location()));
                }
            }
        }
        metadata
    }
}

/// Returns true if a text is a version of SemVer 2.
fn is_semver(text: &str) -> bool {
    let (rest, build) = text.split_once('+').map_or((text, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let number = |part: &str| {
        !part.is_empty()
            && part.bytes().all(|b| b.is_ascii_digit())
            && (part.len() == 1 || !part.starts_with('0'))
    };
    let words = |text: &str, strict: bool| {
        text.split('.').all(|word| {
            !word.is_empty()
                && word.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
                && !(strict && word.bytes().all(|b| b.is_ascii_digit()) && !number(word))
        })
    };
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| words(pre, true))
        && build.is_none_or(|build| words(build, false))
}

#[cfg(test)]
mod tests {
    use super::is_semver;

    #[test]
    fn knows_semantic_versions() {
        for (text, is) in [
            ("1.2.3", true),
            ("0.0.0-rc.1+b.05", true),
            ("1.2", false),
            ("01.2.3", false),
            ("1.2.3-01", false),
            ("1.2.3-", false),
            ("1.2.3-a.b-c", true),
            ("", false),
        ] {
            assert_eq!(is_semver(text), is, "{text}");
        }
    }
}
