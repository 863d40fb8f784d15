//! The graph file: nodes, needs and, to run it, commands.

use std::str::FromStr;
use std::time::Duration;

use serde_json::{Value, json};
use slipway_go::time::Duration as GoDuration;
use slipway_graph::{Graph, GraphBuilder};
use slipway_problem::{Location, Problem, Problems};
use slipway_yaml::{FieldReader, YamlNode, YamlReader};

use crate::files::Text;

/// What a node does.
#[derive(Debug)]
pub struct Job {
    pub run: Option<String>,
    pub timeout: Option<Duration>,
    pub retries: u32,
}

/// Reads and checks a graph file.
pub fn load(file: &Text) -> Result<Graph<Job>, Problems> {
    let mut problems = Problems::new();
    let Some(root) = YamlReader::new().gather_one(&file.text, &file.name, &mut problems) else {
        return Err(problems);
    };
    if root.is_null() {
        return Err(Problem::error("the file is empty")
            .at(Location::new(file.name.as_str(), 1, 1))
            .hint("expected `nodes:` with a mapping of names to `{needs: [..], run: ..}`")
            .into());
    }
    let mut builder = Graph::builder();
    let mut fields = FieldReader::new(&root, &mut problems);
    fields.required("nodes");
    fields.entries("nodes", |name, node, problems| {
        add_node(&mut builder, name, node, problems);
        None::<()>
    });
    fields.finish();
    // Cycles and unknown needs are worth knowing even when something else is wrong as well.
    let graph = problems.collect_from(builder.build());
    problems.sort_by_location();
    problems.add_excerpts(&file.name, &file.text);
    match graph {
        Some(graph) => problems.into_result(graph),
        None => Err(problems),
    }
}

fn add_node(builder: &mut GraphBuilder<Job>, name: &YamlNode, node: &YamlNode, problems: &mut Problems) {
    let id = name.key_text().into_owned();
    if id.is_empty() {
        problems.push(name.problem("a node needs a name"));
        return;
    }
    let mut fields = FieldReader::new(node, problems);
    let needs = fields.strings("needs");
    let run = fields.string("run");
    let timeout = fields.parsed::<Timeout>("timeout").map(|timeout| timeout.0);
    let retries = fields.u64("retries").unwrap_or(0);
    let retries = u32::try_from(retries).unwrap_or_else(|_| {
        fields.report_problem("retries", "`retries` is too large");
        0
    });
    fields.finish();
    builder.add(id, Job { run, timeout, retries }, needs).at(name.location());
}

/// What editors should know of the file.
pub fn schema() -> Value {
    let node = json!({
        "type": ["object", "null"],
        "additionalProperties": false,
        "properties": {
            "needs": {
                "description": "Nodes that must be done before this one starts",
                "type": "array",
                "items": {"type": "string"},
            },
            "run": {"description": "A command for sh -c", "type": "string"},
            "timeout": {
                "description": "How long one attempt may take: 30s, 5m",
                "type": "string",
                "pattern": "^\\+?([0-9]+d)?(([0-9]+(\\.[0-9]*)?|\\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))*$",
                "not": {"pattern": "^[^1-9]*$"},
            },
            "retries": {
                "description": "How many more attempts a failed command gets",
                "type": "integer",
                "minimum": 0,
                "maximum": u32::MAX,
            },
        },
    });
    json!({
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Slipway graph file",
        "type": "object",
        "additionalProperties": false,
        "required": ["nodes"],
        "properties": {"nodes": {"type": "object", "propertyNames": {"minLength": 1}, "additionalProperties": node}},
    })
}

/// More than no time at all.
struct Timeout(Duration);

impl FromStr for Timeout {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let positive = GoDuration::parse_days(text).filter(|duration| !duration.is_zero());
        positive.map(Self).ok_or("expected a time such as `30s` or `5m`")
    }
}

/// What a journal of the graph is bound to beyond its shape: the commands themselves.
pub fn fingerprint(graph: &Graph<Job>) -> Vec<u8> {
    let commands: Vec<_> = graph.nodes().map(|node| json!([node.id().as_str(), node.value().run])).collect();
    json!(commands).to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_names_just_what_is_read() {
        let schema = schema();
        let node = &schema["properties"]["nodes"]["additionalProperties"]["properties"];
        let known: Vec<&str> = node.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(known, ["needs", "run", "timeout", "retries"]);
        let text = "nodes: {a: {}, b: {needs: [a], run: x, timeout: 5s, retries: 1}}\n".to_owned();
        assert!(load(&Text { name: "f".into(), text }).is_ok());
        let wrong = load(&Text { name: "f".into(), text: "nodes: {a: {x: 1}}\n".into() }).unwrap_err();
        let hint = wrong.iter().next().unwrap().hint.clone().unwrap();
        assert!(known.iter().all(|key| hint.contains(key)), "{hint}");
    }
}
