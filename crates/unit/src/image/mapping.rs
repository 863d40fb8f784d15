//! The mapping file: where images belong, said by the user.

use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{FieldReader, YamlReader};

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
    /// Ways through the values, with texts in which `{{repo}}`, `{{tag}}` and `{{digest}}` stand for the image's.
    pub(super) set: Vec<(String, String)>,
    pub(super) post_render: Vec<RewriteRule>,
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
                set: fields.string_map("set"),
                post_render: fields.list("postRender", |rule| {
                    Some(RewriteRule {
                        kind: rule.string("kind"),
                        name: rule.string("name"),
                        container: rule.string("container"),
                        repository: rule.string("repository"),
                        image: rule.string("image"),
                        field_paths: rule.strings("fieldPaths"),
                    })
                }),
            };
            if image.set.is_empty() && image.post_render.is_empty() {
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
