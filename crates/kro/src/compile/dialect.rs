//! Tells the three dialects of Graphs apart: what a body is, and which side of an edge a gate stands on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use slipway_cel::{Field, ObjectType, Type};

use super::node::{BodyKind, Gate};
use crate::api::NodeSpec;
use crate::expression::Expression;

/// The body of a node and what it is.
pub(super) struct Shape<'s> {
    pub(super) kind: BodyKind,
    /// The keyword it stands under.
    pub(super) keyword: &'static str,
    pub(super) body: &'s Value,
}

/// The bodies a node has, by keyword.
pub(super) fn bodies(node: &NodeSpec) -> Vec<(&'static str, &Value)> {
    let all = [
        ("template", &node.template),
        ("patch", &node.patch),
        ("ref", &node.reference),
        ("watch", &node.watch),
        ("def", &node.def),
    ];
    all.into_iter().filter_map(|(keyword, body)| Some((keyword, body.as_ref()?))).collect()
}

/// Says what a node's body is. The oldest dialect writes `template` for everything that has a kind.
pub(super) fn shape(node: &NodeSpec) -> Option<Shape<'_>> {
    let (keyword, body) = *bodies(node).first()?;
    let kind = match keyword {
        "patch" => BodyKind::Patch,
        "ref" => BodyKind::Reference,
        "watch" => BodyKind::Watch,
        "def" => BodyKind::Values,
        _ => inferred(body),
    };
    Some(Shape { kind, keyword, body })
}

fn inferred(body: &Value) -> BodyKind {
    let empty = Map::new();
    let fields = body.as_object().unwrap_or(&empty);
    let only = |map: &Map<String, Value>, known: &[&str]| map.keys().all(|key| known.contains(&key.as_str()));
    let metadata = fields.get("metadata").and_then(Value::as_object);
    if only(fields, &["apiVersion", "kind", "metadata"])
        && metadata
            .is_some_and(|metadata| metadata.contains_key("name") && only(metadata, &["name", "namespace"]))
    {
        return BodyKind::Reference;
    }
    let is_named = metadata.is_some_and(|metadata| metadata.contains_key("name"));
    if fields.contains_key("selector")
        && !is_named
        && only(fields, &["apiVersion", "kind", "metadata", "selector"])
    {
        return BodyKind::Watch;
    }
    if fields.contains_key("status") && only(fields, &["apiVersion", "kind", "metadata", "status"]) {
        return BodyKind::Patch;
    }
    BodyKind::Template
}

/// The type of the variable a node is.
pub(super) fn variable_type(kind: Option<BodyKind>, is_repeated: bool) -> Type {
    let one = match kind {
        Some(BodyKind::Values) | None => Type::Dyn,
        Some(_) => object_type(),
    };
    if is_repeated || kind == Some(BodyKind::Watch) { Type::list(one) } else { one }
}

/// An object of which only what every object has is known.
pub(super) fn object_type() -> Type {
    let texts = || Type::map(Type::String, Type::String);
    let metadata = open_type(
        "ObjectMeta",
        [
            ("name", Type::String),
            ("namespace", Type::String),
            ("uid", Type::String),
            ("resourceVersion", Type::String),
            ("labels", texts()),
            ("annotations", texts()),
        ],
    );
    open_type("Object", [("apiVersion", Type::String), ("kind", Type::String), ("metadata", metadata)])
}

fn open_type<const N: usize>(name: &str, fields: [(&str, Type); N]) -> Type {
    let field = |(key, ty): (&str, Type)| {
        let key: Arc<str> = key.into();
        (key.clone(), Field { key, ty })
    };
    let fields: BTreeMap<Arc<str>, Field> = fields.into_iter().map(field).collect();
    Type::Object(Arc::new(ObjectType { name: name.into(), fields, open: true }))
}

/// Says which side a gate stands on. A clause about the node's own data withholds that data; one about others
/// only, or about how fast the node itself changes, holds the node back.
pub(super) fn gate(own: &str, clauses: Vec<Arc<Expression>>) -> Gate {
    if clauses.is_empty() {
        return Gate::Open;
    }
    let reads_itself = |clause: &Arc<Expression>| {
        clause.program.references().iter().any(|reference| reference.variable == own)
    };
    let reads_others = |clause: &Arc<Expression>| {
        clause.program.references().iter().any(|reference| reference.variable != own)
    };
    let about_own_data = |clause: &Arc<Expression>| reads_itself(clause) && !clause.asks_for_state();
    let about_nothing = |clause: &Arc<Expression>| !reads_itself(clause) && !reads_others(clause);
    if clauses.iter().any(about_own_data) || clauses.iter().all(about_nothing) {
        Gate::Output(clauses)
    } else {
        Gate::Input(clauses)
    }
}
