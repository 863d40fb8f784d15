//! Reads the block of a `helm` step, and describes it to editors.

use serde_json::{Value, json};
use slipway_problem::Problem;

use crate::decode::actions as fields;
use crate::decode::block::Block;
use crate::decode::{chart, json, names};
use crate::model::{Helm, ValuesSource};
use crate::schema::{
    ADDRESS_OR_NONE, CHART, LABEL_OR_NONE, SUBDOMAIN_OR_NONE, at_most, described, like, list_of, object,
    one_of, text, with, word,
};

pub(super) fn decode(block: &Block<'_, '_>, step: &str) -> Option<Helm> {
    let chart = chart::read(block);
    let release = block.filled("release");
    let effective = release.map_or(step, |(_, release)| release);
    if let Some(problem) = names::release(effective)
        && !effective.is_empty()
    {
        match release {
            Some((node, _)) => block.report(node, "release", "E213", problem),
            None => block.missing("E213", problem.hint("set release:")),
        }
    }
    let namespace = fields::namespace(block, "E214");
    let skip_if_installed = fields::skip_if(block, "installed", "E215");
    let values = match block.get("values") {
        None => Some(serde_json::Map::new()),
        Some(node) => match json(node) {
            Value::Object(values) => Some(values),
            _ => {
                block.error(
                    node,
                    "values",
                    "E008",
                    format!("values must be a mapping, found {}", node.kind_name()),
                );
                None
            }
        },
    };
    let mut values_from = Vec::new();
    for (at, node) in block.list("valuesFrom") {
        let source = Block::new(node, at, block.findings);
        let (file, url) = (source.filled("file"), source.filled("url"));
        match (file, url) {
            (Some((_, file)), None) => values_from.push(ValuesSource::File(file.to_owned())),
            (None, Some((place, url))) => {
                if !fields::is_http(url) {
                    source.error(place, "url", "E212", "url must be an HTTP(S) URL");
                }
                values_from.push(ValuesSource::Url(url.to_owned()));
            }
            _ => source.missing("E211", Problem::error("expected exactly one of file, url")),
        }
        source.finish(&[]);
    }
    let atomic = block.bool("atomic").unwrap_or(false);
    let (create_namespace, wait) = (block.bool("createNamespace"), block.bool("wait"));
    Some(Helm {
        chart: chart?,
        release: effective.to_owned(),
        namespace: namespace.unwrap_or_else(|| "default".into()),
        create_namespace: create_namespace.unwrap_or(false),
        atomic,
        wait: wait.unwrap_or(false) || atomic,
        skip_if_installed,
        values: values?,
        values_from,
    })
}

pub(super) fn schema() -> Value {
    let schema = object(
        &["chart"],
        vec![
            (
                "chart",
                like("A name in `repo`, `oci://…`, or a path starting with `./`, `../` or `/`.", CHART),
            ),
            ("repo", like("The URL of the repository of a chart given by its name.", ADDRESS_OR_NONE)),
            ("version", text("The chart's version.")),
            ("auth", described("HelmAuth", "Credentials for the repository or registry.")),
            ("release", at_most(53, like("The release's name; the step's unless told.", SUBDOMAIN_OR_NONE))),
            ("namespace", like("The release's namespace.", LABEL_OR_NONE)),
            ("createNamespace", described("BoolOrRef", "Creates the namespace if it is missing.")),
            ("atomic", described("BoolOrRef", "Undoes a release that fails; implies `wait`.")),
            ("wait", described("BoolOrRef", "Waits until everything is ready.")),
            ("skipIf", word(&["installed"], "Leaves an installed release alone.")),
            ("values", json!({ "type": "object", "description": "Values of the chart." })),
            ("valuesFrom", list_of("ValuesSource", "Values read from elsewhere; later ones win.")),
        ],
    );
    let starts =
        |pattern: &str| json!({ "properties": { "chart": { "pattern": pattern } }, "required": ["chart"] });
    let forbid = |keys: &[&str]| json!({ "not": { "anyOf": one_of(keys) } });
    with(
        schema,
        "allOf",
        json!([
            { "if": starts("^oci://"), "then": forbid(&["repo"]) },
            { "if": starts("^(\\./|\\.\\./|/)"), "then": forbid(&["repo", "version", "auth"]) },
            { "if": starts("^[A-Za-z0-9._-]+(:[^:]+)?$"), "then": {
                "required": ["repo"], "properties": { "repo": { "minLength": 1 } },
            } },
            // A version stands in one place only, and so do credentials.
            {
                "if": starts("^([A-Za-z0-9._-]+:[^:]+|oci://[^/]+/(.*/)?[^/]*[:@][^/]*)$"),
                "then": { "not": { "properties": { "version": { "minLength": 1 } }, "required": ["version"] } },
            },
            {
                "if": { "anyOf": [
                    starts("^oci://[^/]*@"),
                    { "properties": { "repo": { "pattern": "^https?://[^/?#]*@" } }, "required": ["repo"] },
                ] },
                "then": forbid(&["auth"]),
            },
        ]),
    )
}
