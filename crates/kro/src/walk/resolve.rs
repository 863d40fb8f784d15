//! Renders a node and finds or applies its objects.

use std::collections::BTreeMap;

use serde_json::Value;
use slipway_cel::{Bindings, Value as CelValue};
use slipway_manifest::selector::{LabelCondition, LabelRequirement, LabelSelector};

use slipway_manifest::{ObjectRef, object};

use super::admit::is_pacing;
use super::evaluate::{LiveObject, NodeFailure, Stop};
use super::scope::{self, Mark};
use super::{Walk, apply};
use crate::compile::{BodyKind, Gate, Node};
use crate::memory::{NodeMemory, NodeObject};

/// How many objects one node may be repeated for.
const MOST_ITEMS: usize = 1000;

/// The objects a node came to.
pub(super) struct Resolved {
    pub(super) live: Vec<LiveObject>,
    /// How many were not touched because the node paces itself.
    pub(super) withheld: usize,
}

/// The values of the variables of one repetition.
type Item = Vec<(String, Value)>;

impl Walk<'_> {
    pub(super) async fn resolve(
        &self,
        node: &Node,
        before: &NodeMemory,
        done: &[NodeMemory],
    ) -> Result<Resolved, Stop> {
        let scope = scope::dependencies(node, done);
        for condition in &node.include_when {
            match condition.eval(&scope, self.now)? {
                CelValue::Bool(true) => {}
                CelValue::Bool(false) => {
                    return Err(Stop::Excluded(format!("`{}` does not hold", condition.source)));
                }
                other => {
                    let message =
                        format!("`{}` gave {}, not true or false", condition.source, other.type_name());
                    return Err(NodeFailure::wrong("ExpressionError", message).into());
                }
            }
        }
        let items = self.items(node, &scope)?;
        let rendered = self.render(node, &scope, &items)?;
        match node.body.kind {
            BodyKind::Values => {
                Ok(Resolved { live: rendered.into_iter().map(value_object).collect(), withheld: 0 })
            }
            BodyKind::Reference => self.read_references(node, rendered).await,
            BodyKind::Watch => self.read_collection(node, rendered),
            BodyKind::Template | BodyKind::Patch => self.write_objects(node, before, rendered).await,
        }
    }

    /// Every combination of the collections a node is repeated for; one without variables if it is not.
    fn items(&self, node: &Node, scope: &Bindings<'_>) -> Result<Vec<Item>, Stop> {
        let mut items: Vec<Item> = vec![Vec::new()];
        for repeat in &node.repeats {
            let collection = repeat.collection.json(scope, self.now)?.unwrap_or(Value::Null);
            let Value::Array(values) = collection else {
                let message = format!("`{}` is no list", repeat.collection.source);
                return Err(NodeFailure::wrong("ExpressionError", message).into());
            };
            if items.len().saturating_mul(values.len()) > MOST_ITEMS {
                let message = format!("more than {MOST_ITEMS} repetitions");
                return Err(NodeFailure::wrong("TooMany", message).into());
            }
            let combine = |item: &Item| -> Vec<Item> {
                let add = |value: &Value| {
                    let mut longer = item.clone();
                    longer.push((repeat.variable.clone(), value.clone()));
                    longer
                };
                values.iter().map(add).collect()
            };
            items = items.iter().flat_map(combine).collect();
        }
        Ok(items)
    }

    pub(super) fn render(
        &self,
        node: &Node,
        scope: &Bindings<'_>,
        items: &[Item],
    ) -> Result<Vec<Value>, Stop> {
        let mut rendered = Vec::with_capacity(items.len());
        for item in items {
            let mut inner = scope.clone();
            for (variable, value) in item {
                inner.set(variable, CelValue::from_json(value));
            }
            let Some(mut value) = node.body.content.render(&inner, self.now)? else { continue };
            if self.compiled.asks_for_state {
                scope::unmark(&mut value);
            }
            rendered.push(value);
        }
        Ok(rendered)
    }

    /// Where a rendered object belongs.
    pub(super) fn place(&self, node: &Node, rendered: &Value) -> Result<ObjectRef, Stop> {
        let gvk = node.body.gvk.clone().unwrap_or_else(|| object::gvk(rendered));
        let feed = self.feed(&gvk).map_err(|error| NodeFailure::of(&error))?;
        let at = feed.kind.object_ref(rendered, &self.graph.namespace);
        if at.name.is_empty() {
            return Err(NodeFailure::wrong("NoName", "`metadata.name` is empty").into());
        }
        Ok(at)
    }

    async fn read_references(&self, node: &Node, rendered: Vec<Value>) -> Result<Resolved, Stop> {
        let mut live = Vec::new();
        for wanted in rendered {
            let at = self.place(node, &wanted)?;
            self.check_allowed(&at)?;
            let feed = self.feed(&at.gvk).map_err(|error| NodeFailure::of(&error))?;
            let found = self.read(feed, &at).await.map_err(|error| NodeFailure::of(&error))?;
            let Some(value) = found else {
                return Err(Stop::Pending { reason: "Absent", message: format!("{at} does not exist") });
            };
            let object = NodeObject { at, desired: 0, equivalent: 0 };
            live.push(LiveObject { object, value, is_updated: true });
        }
        Ok(Resolved { live, withheld: 0 })
    }

    fn read_collection(&self, node: &Node, rendered: Vec<Value>) -> Result<Resolved, Stop> {
        let mut live = Vec::new();
        for wanted in rendered {
            let gvk = object::gvk(&wanted);
            let feed = self.feed(&gvk).map_err(|error| NodeFailure::of(&error))?;
            let selector =
                selector(&wanted["selector"]).map_err(|message| NodeFailure::wrong("Selector", message))?;
            let namespace =
                feed.kind.namespaced.then(|| object::namespace(&wanted).unwrap_or(&self.graph.namespace));
            for value in feed.select(namespace, &selector) {
                let object = NodeObject { at: ObjectRef::of(&value), desired: 0, equivalent: 0 };
                live.push(LiveObject { object, value, is_updated: true });
            }
        }
        let _ = node;
        Ok(Resolved { live, withheld: 0 })
    }

    async fn write_objects(
        &self,
        node: &Node,
        before: &NodeMemory,
        rendered: Vec<Value>,
    ) -> Result<Resolved, Stop> {
        let mut wanted: BTreeMap<ObjectRef, usize> = BTreeMap::new();
        let mut places = Vec::with_capacity(rendered.len());
        for (index, manifest) in rendered.iter().enumerate() {
            let at = self.place(node, manifest)?;
            if let Some(first) = wanted.insert(at.clone(), index) {
                let message = format!("items {first} and {index} both give {at}");
                return Err(NodeFailure::wrong("DuplicateIdentity", message).into());
            }
            places.push(at);
        }
        let mut live: Vec<LiveObject> = Vec::with_capacity(rendered.len());
        let mut withheld = 0;
        for (manifest, at) in rendered.into_iter().zip(places) {
            let known = before.objects.iter().find(|object| object.at == at);
            if self.is_paced(node, &live, &at, &manifest)? {
                withheld += 1;
                if let Some(existing) =
                    self.existing_objects(node).into_iter().find(|live| live.object.at == at)
                {
                    live.push(existing);
                }
                continue;
            }
            live.push(self.write(node, at, manifest, known).await?);
        }
        Ok(Resolved { live, withheld })
    }

    /// Whether a repeated node holds back a change of this object because enough others are changing.
    fn is_paced(
        &self,
        node: &Node,
        done: &[LiveObject],
        at: &ObjectRef,
        manifest: &Value,
    ) -> Result<bool, Stop> {
        let Gate::Input(clauses) = &node.gate else { return Ok(false) };
        let pacing: Vec<_> = clauses.iter().filter(|clause| is_pacing(node, clause)).collect();
        if pacing.is_empty() {
            return Ok(false);
        }
        let existing = self.existing_objects(node);
        let hash = apply::template_hash(manifest);
        if existing
            .iter()
            .any(|live| live.object.at == *at && self.applied_hash(node, &live.value) == Some(hash))
        {
            return Ok(false);
        }
        let others = done
            .iter()
            .chain(existing.iter().filter(|live| !done.iter().any(|done| done.object.at == live.object.at)));
        let marked: Vec<Value> = others
            .map(|live| {
                let ready = self.is_object_ready(node, &live.value);
                scope::mark(live.value.clone(), Mark::from(ready), Mark::from(live.is_updated))
            })
            .collect();
        let own = Value::Array(marked);
        let scope = Bindings::new().json(&node.id, &own);
        for clause in pacing {
            if !clause.holds(&scope, self.now)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

fn value_object(value: Value) -> LiveObject {
    let at = ObjectRef::new(slipway_manifest::Gvk::new("", "", ""), None, "");
    LiveObject { object: NodeObject { at, desired: 0, equivalent: 0 }, value, is_updated: true }
}

/// Reads a map of labels or a label selector.
fn selector(value: &Value) -> Result<LabelSelector, String> {
    let is_selector = value.get("matchLabels").is_some() || value.get("matchExpressions").is_some();
    if is_selector {
        return LabelSelector::from_object(value)
            .map(Option::unwrap_or_default)
            .map_err(|error| error.to_string());
    }
    let Some(labels) = value.as_object() else { return Err("the selector is no map".to_owned()) };
    let requirement = |(key, value): (&String, &Value)| {
        let value = value.as_str().ok_or_else(|| format!("the label `{key}` is no text"))?;
        Ok(LabelRequirement { key: key.clone(), requires: LabelCondition::In(vec![value.to_owned()]) })
    };
    labels.iter().map(requirement).collect::<Result<Vec<_>, String>>().map(LabelSelector)
}
