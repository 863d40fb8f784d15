//! References to secrets in what a step says: they stay references in documents, hashes and records, and become values
//! when the step is looked at or carried out.

use std::borrow::Cow;

use serde_json::{Map, Value};
use slipway_secrets::{NodeContext, PolicyTarget, mentions_secret};
use slipway_source::{ResolvedValues, mark_secrets};

use crate::context::RunContext;
use crate::error::{AttemptError, ErrorKind};
use crate::model::{Action, Step};

/// The action of a step with its references resolved. Values of charts are resolved where charts are loaded, files of
/// manifests are taken as they are.
pub(crate) async fn resolve_action<'a>(
    place: &RunContext<'_>,
    step: &'a Step,
) -> Result<Cow<'a, Action>, AttemptError> {
    if place.sources.resolver.is_none() {
        return Ok(Cow::Borrowed(&step.action));
    }
    let action = step.action.as_step();
    let resolver = StepResolver { place, node: secret_node(&step.name, action.namespace()) };
    let resolved = action.resolve(&resolver).await?;
    Ok(resolved.map_or(Cow::Borrowed(&step.action), Cow::Owned))
}

/// The step as policies on secrets and audit lines see it.
pub(crate) fn secret_node(step: &str, namespace: Option<&str>) -> NodeContext {
    let target = PolicyTarget { namespace: namespace.map(str::to_owned), ..PolicyTarget::default() };
    NodeContext { node: Some(step.to_owned()), target }
}

/// A value where only text has a place.
pub(crate) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Resolves for one step.
pub(crate) struct StepResolver<'a> {
    place: &'a RunContext<'a>,
    node: NodeContext,
}

/// The key a tree is resolved under.
const TREE: &str = "step";

impl StepResolver<'_> {
    /// A tree without references; none if it has none.
    pub(crate) async fn tree(&self, tree: &Value) -> Result<Option<Value>, AttemptError> {
        let resolved = self.resolve(tree).await?;
        Ok(resolved.map(|mut resolved| resolved.used.remove(TREE).unwrap_or_default()))
    }

    /// Manifests without references, as JSON, with the fields that hold secrets marked; none if there are none.
    pub(crate) async fn manifests(&self, text: &str) -> Result<Option<String>, AttemptError> {
        // What cannot be read is told with its place when it is loaded.
        let Ok(documents) = slipway_yaml::parse(text, "inline") else { return Ok(None) };
        let documents: Vec<Value> = documents.iter().map(slipway_yaml::YamlNode::to_json).collect();
        let Some(mut resolved) = self.resolve(&Value::Array(documents)).await? else { return Ok(None) };
        let mut take =
            |values: fn(&mut ResolvedValues) -> &mut Map<String, Value>| match values(&mut resolved)
                .remove(TREE)
            {
                Some(Value::Array(items)) => items,
                _ => Vec::new(),
            };
        let mut used = take(|all| &mut all.used);
        let (masked, varied) = (take(|all| &mut all.masked), take(|all| &mut all.varied));
        for ((object, masked), varied) in used.iter_mut().zip(&masked).zip(&varied) {
            mark_secrets(object, masked, varied);
        }
        Ok(Some(used.iter().map(|object| format!("---\n{object}\n")).collect()))
    }

    /// Resolves on a thread that may wait.
    async fn resolve(&self, tree: &Value) -> Result<Option<ResolvedValues>, AttemptError> {
        let wrapped = Map::from_iter([(TREE.to_owned(), tree.clone())]);
        let Some(resolver) = self.place.sources.resolver.clone().filter(|_| mentions_secret(&wrapped)) else {
            return Ok(None);
        };
        let node = self.node.clone();
        let work = move || resolver.resolve(&wrapped, &node);
        match tokio::task::spawn_blocking(work).await {
            Ok(resolved) => resolved.map_err(|error| AttemptError::from(error.problems()).permanent()),
            Err(error) => {
                Err(AttemptError::new(ErrorKind::Render, format!("resolving secrets broke off: {error}")))
            }
        }
    }
}
