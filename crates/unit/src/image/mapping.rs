//! The mapping file: where images belong, said by the user.

use globset::Glob;
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{FieldReader, YamlNode, YamlReader};

use super::path::{ValueStep, parse_path};
use super::rewrite::RewriteRule;

const API_VERSION: &str = "ktl.dev/image-map/v1";

/// Where images belong, as the user says it.
#[derive(Clone, Debug)]
pub struct ImageMapping {
    pub(super) images: Vec<MappedImage>,
    /// Places that look like an image and are none.
    pub(super) ignore: Vec<String>,
    /// Places are also looked for.
    pub(super) autodetect: bool,
}

impl Default for ImageMapping {
    fn default() -> Self {
        Self { images: Vec::new(), ignore: Vec::new(), autodetect: true }
    }
}

/// The places of one image.
#[derive(Clone, Debug)]
pub(super) struct MappedImage {
    pub(super) name: String,
    /// The place in the file that says it.
    pub(super) at: Location,
    pub(super) set: Vec<MappedValue>,
    pub(super) post_render: Vec<RewriteRule>,
}

/// A value an image is written to.
#[derive(Clone, Debug)]
pub(super) struct MappedValue {
    /// The way to it as the user wrote it.
    pub(super) shown: String,
    pub(super) path: Vec<ValueStep>,
    /// A text in which `{{repo}}`, `{{tag}}` and `{{digest}}` stand for the image's.
    pub(super) template: String,
}

impl ImageMapping {
    /// Reads a mapping file; reports everything that is wrong with it.
    pub fn parse(text: &str, file: &str) -> Result<Self, Problems> {
        let mut problems = Problems::new();
        let Some(root) = YamlReader::new().gather_one(text, file, &mut problems) else {
            return Err(problems);
        };
        let mut fields = FieldReader::new(&root, &mut problems);
        let version = fields.required_str("apiVersion");
        if !version.is_empty() && version != API_VERSION {
            fields.report_problem("apiVersion", format!("expected `{API_VERSION}`"));
        }
        let images = fields.entries("images", |name, node, problems| {
            let mut fields = FieldReader::new(node, problems);
            let image = MappedImage {
                name: name.key_text().into_owned(),
                at: name.location(),
                set: mapped_values(&mut fields),
                post_render: fields.list("postRender", |rule| {
                    Some(RewriteRule {
                        kind: pattern(rule, "kind"),
                        name: pattern(rule, "name"),
                        container: pattern(rule, "container"),
                        repository: rule.string("repository"),
                        image: rule.string("image"),
                        field_paths: rule.strings("fieldPaths"),
                    })
                }),
            };
            if !has_values(&fields) && image.post_render.is_empty() {
                let problem = Problem::error(format!("image `{}` is mapped to nothing", image.name));
                fields.problems().push(problem.at(node.location()).hint("write `set` or `postRender`"));
            }
            fields.finish();
            Some(image)
        });
        let ignore = fields.strings("ignore");
        let autodetect = fields.bool("autodetect").unwrap_or(true);
        fields.finish();
        problems.into_result(Self { images, ignore, autodetect })
    }
}

/// Tells that `set` names a value, be it a wrong one.
fn has_values(fields: &FieldReader<'_, '_>) -> bool {
    fields.has_key("set") && fields.node_of("set").as_map().is_some_and(|map| !map.is_empty())
}

/// The values of `set`, with every way that cannot be read reported.
fn mapped_values(fields: &mut FieldReader<'_, '_>) -> Vec<MappedValue> {
    let written = fields.string_map("set");
    let values = fields.has_key("set").then(|| fields.node_of("set")).and_then(YamlNode::as_map);
    for (key, _) in values.into_iter().flat_map(slipway_yaml::Mapping::iter) {
        if let Err(why) = parse_path(&key.key_text()) {
            let hint = "write it as `--set` does: `backend.images[0].tag`";
            fields.problems().push(Problem::error(why).at(key.location()).hint(hint));
        }
    }
    let values = written.into_iter().filter_map(|(shown, template)| {
        let path = parse_path(&shown).ok()?;
        Some(MappedValue { shown, path, template })
    });
    values.collect()
}

/// A pattern of names, which must be one.
fn pattern(rule: &mut FieldReader<'_, '_>, key: &'static str) -> Option<String> {
    let pattern = rule.string(key)?;
    if let Err(error) = Glob::new(&pattern) {
        rule.report_problem(key, format!("`{pattern}` is not a pattern: {}", error.kind()));
    }
    Some(pattern)
}
