//! Compiles the expressions of a node and finds what they read.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use serde_json::Value;
use slipway_cel::Type;
use slipway_manifest::{Gvk, object};

use super::dialect::{self, Shape};
use super::node::{Body, BodyKind, Dependency, Gate, Node, Read, Repeat};
use super::{SpecFault, SpecProblem, declare};
use crate::api::NodeSpec;
use crate::expression::{Expression, Expressions, Names};
use crate::scan::{Segment, scan};
use crate::template::{Template, TextPart};

/// How deep a body may be nested.
const DEEPEST: usize = 100;

/// A spec being compiled.
pub(super) struct Compiling<'e> {
    expressions: &'e Expressions,
    pub(super) problems: Vec<SpecProblem>,
}

impl<'e> Compiling<'e> {
    pub(super) fn new(expressions: &'e Expressions) -> Self {
        Self { expressions, problems: Vec::new() }
    }

    /// The names of every node but one: a body cannot read itself.
    pub(super) fn without(&self, declared: &BTreeMap<&str, Type>, own: &str) -> Names {
        let mut names = self.expressions.names();
        for (id, ty) in declared.iter().filter(|(id, _)| **id != own) {
            names.declare(id, ty.clone());
        }
        names
    }

    pub(super) fn node(
        &mut self,
        index: usize,
        node: &NodeSpec,
        shape: Shape<'_>,
        others: &Names,
        all: &Names,
    ) -> Node {
        let place = format!("spec.nodes[{index}]");
        let repeats: Vec<Repeat> = declare::repeats(node)
            .into_iter()
            .filter_map(|(variable, text)| {
                let collection = self.whole(&format!("{place}.forEach.{variable}"), text, others)?;
                Some(Repeat { variable: variable.to_owned(), collection })
            })
            .collect();
        let with_variables = |names: &Names| {
            declare::repeats(node)
                .iter()
                .fold(names.clone(), |names, (variable, _)| names.with(variable, Type::Dyn))
        };
        let inner = with_variables(others);
        // A condition of a repeated node sees one object at a time, or all of them where it paces their changes.
        let own_type = match repeats.is_empty() {
            true => dialect::variable_type(Some(shape.kind), false),
            false => Type::Dyn,
        };
        let own = with_variables(&all.with(&node.id, own_type));
        let content = self.template(&format!("{place}.{}", shape.keyword), shape.body, &inner, 0);
        let include_when = self.clauses(&format!("{place}.includeWhen"), &node.include_when, others);
        let ready_when = self.clauses(&format!("{place}.readyWhen"), &node.ready_when, &own);
        let clauses = self.clauses(&format!("{place}.propagateWhen"), &node.propagate_when, &own);
        let gate = dialect::gate(&node.id, clauses);

        let mut rendered: Vec<&Arc<Expression>> = Vec::new();
        content.expressions(&mut rendered);
        rendered.extend(repeats.iter().map(|repeat| &repeat.collection));
        rendered.extend(&include_when);
        let is_volatile = rendered.iter().any(|expression| expression.is_volatile());
        let gates: &[Arc<Expression>] = match &gate {
            Gate::Open => &[],
            Gate::Output(clauses) | Gate::Input(clauses) => clauses,
        };
        let asks_for_state = rendered
            .iter()
            .copied()
            .chain(gates)
            .chain(&ready_when)
            .any(|expression| expression.asks_for_state());
        let mut dependencies: BTreeMap<String, Dependency> = BTreeMap::new();
        let mut reads: Vec<Read> = Vec::new();
        let known = |name: &str| others.known().any(|known| known == name);
        for expression in rendered.iter().copied().chain(gates).chain(&ready_when) {
            for reference in expression.program.references() {
                if reference.variable == node.id || !known(&reference.variable) {
                    continue;
                }
                let wanted = if reference.optional { Dependency::Lazy } else { Dependency::Hard };
                let kind = dependencies.entry(reference.variable.clone()).or_insert(wanted);
                if wanted == Dependency::Hard {
                    *kind = Dependency::Hard;
                }
                reads.push(Read { node: reference.variable.clone(), path: reference.path.clone() });
            }
        }
        reads.sort();
        reads.dedup();
        for id in node.depends_on.iter().chain(&node.finalizes) {
            dependencies.insert(id.clone(), Dependency::Hard);
        }
        let hash = {
            let mut hasher = DefaultHasher::new();
            (shape.keyword, &node.id).hash(&mut hasher);
            content.feed(&mut hasher);
            for expression in repeats.iter().map(|repeat| &repeat.collection).chain(&include_when) {
                expression.source.hash(&mut hasher);
            }
            hasher.finish()
        };
        let gvk = (shape.kind != BodyKind::Values).then(|| -> Gvk { object::gvk(shape.body) });
        Node {
            id: node.id.clone(),
            body: Body { kind: shape.kind, gvk, content },
            repeats,
            finalizes: node.finalizes.clone(),
            include_when,
            ready_when,
            gate,
            is_forced: node.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.apply.is_some()),
            recheck_after: node.recheck_after.as_deref().and_then(declare::recheck),
            dependencies,
            reads,
            exposed: Vec::new(),
            hash,
            is_volatile,
            asks_for_state,
        }
    }

    /// Compiles conditions, each of which is one whole expression that is true or false.
    fn clauses(&mut self, place: &str, clauses: &[String], names: &Names) -> Vec<Arc<Expression>> {
        let mut compiled = Vec::new();
        for (index, clause) in clauses.iter().enumerate() {
            let place = format!("{place}[{index}]");
            let Some(expression) = self.whole(&place, clause, names) else { continue };
            let ty = expression.program.ty();
            if *ty != Type::Bool && !ty.is_dyn() {
                self.say(&place, format!("a condition is true or false, this is {ty}"), None);
            }
            compiled.push(expression);
        }
        compiled
    }

    /// Compiles a text that must be one whole expression.
    fn whole(&mut self, place: &str, text: &str, names: &Names) -> Option<Arc<Expression>> {
        match scan(text.trim()).as_deref() {
            Ok([Segment::Expression { source, .. }]) => self.expression(place, source, names),
            Ok(_) => {
                self.say(place, "must be one whole expression, `${…}`".to_owned(), None);
                None
            }
            Err(error) => {
                self.say(place, error.to_string(), None);
                None
            }
        }
    }

    fn expression(&mut self, place: &str, source: &str, names: &Names) -> Option<Arc<Expression>> {
        match self.expressions.compile(names, source) {
            Ok(expression) => Some(expression),
            Err(errors) => {
                for error in errors {
                    self.say(place, error.to_string(), error.hint.clone());
                }
                None
            }
        }
    }

    fn say(&mut self, place: &str, message: String, hint: Option<String>) {
        self.problems.push(SpecProblem {
            fault: SpecFault::Expression,
            path: place.to_owned(),
            message,
            hint,
        });
    }

    fn template(&mut self, place: &str, value: &Value, names: &Names, depth: usize) -> Template {
        if depth > DEEPEST {
            self.say(place, format!("is nested deeper than {DEEPEST} levels"), None);
            return Template::Literal(Value::Null);
        }
        match value {
            Value::String(text) if text.contains("${") => self.text(place, text, names),
            Value::Array(items) => {
                let compile =
                    |(index, item)| self.template(&format!("{place}[{index}]"), item, names, depth + 1);
                let compiled: Vec<Template> = items.iter().enumerate().map(compile).collect();
                if compiled.iter().all(|item| matches!(item, Template::Literal(_))) {
                    return Template::Literal(literal_list(compiled));
                }
                Template::List(compiled)
            }
            Value::Object(map) => {
                let mut compiled = Vec::with_capacity(map.len());
                for (key, value) in map {
                    compiled.push((
                        key.clone(),
                        self.template(&format!("{place}.{key}"), value, names, depth + 1),
                    ));
                }
                if compiled.iter().all(|(_, value)| matches!(value, Template::Literal(_))) {
                    return Template::Literal(literal_map(compiled));
                }
                Template::Map(compiled)
            }
            other => Template::Literal(other.clone()),
        }
    }

    fn text(&mut self, place: &str, text: &str, names: &Names) -> Template {
        let segments = match scan(text) {
            Ok(segments) => segments,
            Err(error) => {
                self.say(place, error.to_string(), None);
                return Template::Literal(Value::Null);
            }
        };
        if let [Segment::Expression { source, .. }] = segments.as_slice() {
            return match self.expression(place, source, names) {
                Some(expression) => Template::Whole(expression),
                None => Template::Literal(Value::Null),
            };
        }
        let mut parts = Vec::with_capacity(segments.len());
        for segment in segments {
            match segment {
                Segment::Text(text) => parts.push(TextPart::Literal(text.into_owned())),
                Segment::Expression { source, .. } => {
                    parts.extend(self.expression(place, source, names).map(TextPart::Expression));
                }
            }
        }
        match parts.as_slice() {
            [TextPart::Literal(text)] => Template::Literal(Value::String(text.clone())),
            _ => Template::Text(parts),
        }
    }
}

fn literal(template: Template) -> Value {
    match template {
        Template::Literal(value) => value,
        _ => Value::Null,
    }
}

fn literal_list(items: Vec<Template>) -> Value {
    Value::Array(items.into_iter().map(literal).collect())
}

fn literal_map(entries: Vec<(String, Template)>) -> Value {
    Value::Object(entries.into_iter().map(|(key, value)| (key, literal(value))).collect())
}
