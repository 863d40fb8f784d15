//! References to secrets in what a step says: they stay references in documents, hashes and records, and become values
//! when the step is looked at or carried out.

use std::borrow::Cow;

use serde_json::{Map, Value, json};
use slipway_secrets::{NodeContext, PolicyTarget, mentions_secret};
use slipway_source::{ResolvedValues, mark_secrets};

use crate::context::RunContext;
use crate::error::{ErrorKind, StepError};
use crate::model::{Action, Auth, ChartSource, Helm, ManifestSource, Step};

/// The action of a step with its references resolved. Values of charts are resolved where charts are loaded, files of
/// manifests are taken as they are.
pub(crate) async fn resolve_action<'a>(
    place: &RunContext<'_>,
    step: &'a Step,
) -> Result<Cow<'a, Action>, StepError> {
    if place.sources.resolver.is_none() {
        return Ok(Cow::Borrowed(&step.action));
    }
    let resolver = StepResolver { place, node: secret_node(&step.name, namespace(&step.action)) };
    let mut action = Cow::Borrowed(&step.action);
    match &step.action {
        Action::Apply(apply) => {
            for (index, source) in apply.manifests.iter().enumerate() {
                let ManifestSource::Inline { text, at } = source else { continue };
                if let Some(text) = resolver.manifests(text).await?
                    && let Action::Apply(apply) = action.to_mut()
                {
                    apply.manifests[index] = ManifestSource::Inline { text, at: at.clone() };
                }
            }
        }
        Action::Patch(patch) => {
            if let Some(body) = resolver.tree(&patch.body).await?
                && let Action::Patch(patch) = action.to_mut()
            {
                patch.body = body;
            }
        }
        Action::Job(job) => {
            let env: Map<String, Value> =
                job.env.iter().map(|(name, value)| (name.clone(), value.as_str().into())).collect();
            let tree = json!({"env": env, "command": job.command, "args": job.args});
            if let Some(tree) = resolver.tree(&tree).await?
                && let Action::Job(job) = action.to_mut()
            {
                let texts = |list: &Value| list.as_array().into_iter().flatten().map(text).collect();
                (job.command, job.args) = (texts(&tree["command"]), texts(&tree["args"]));
                let env = tree["env"].as_object().into_iter().flatten();
                job.env = env.map(|(name, value)| (name.clone(), text(value))).collect();
            }
        }
        Action::Helm(helm) => {
            if let Some(auth) = login(helm) {
                let tree = json!({"username": auth.username, "password": auth.password});
                if let Some(tree) = resolver.tree(&tree).await?
                    && let Action::Helm(helm) = action.to_mut()
                    && let Some(auth) = login_mut(helm)
                {
                    (auth.username, auth.password) = (text(&tree["username"]), text(&tree["password"]));
                }
            }
        }
        Action::Delete(_) | Action::Wait(_) | Action::Rollout(_) => {}
    }
    Ok(action)
}

/// The step as policies on secrets and audit lines see it.
pub(crate) fn secret_node(step: &str, namespace: Option<&str>) -> NodeContext {
    let target = PolicyTarget { namespace: namespace.map(str::to_owned), ..PolicyTarget::default() };
    NodeContext { node: Some(step.to_owned()), target }
}

fn namespace(action: &Action) -> Option<&str> {
    match action {
        Action::Helm(helm) => Some(&helm.namespace),
        Action::Apply(apply) => apply.namespace.as_deref(),
        Action::Patch(patch) => Some(&patch.namespace),
        Action::Job(job) => Some(&job.namespace),
        Action::Delete(_) | Action::Wait(_) | Action::Rollout(_) => None,
    }
}

fn login(helm: &Helm) -> Option<&Auth> {
    match &helm.chart {
        ChartSource::Repo { auth, .. } | ChartSource::Oci { auth, .. } => auth.as_ref(),
        ChartSource::Path(_) => None,
    }
}

fn login_mut(helm: &mut Helm) -> Option<&mut Auth> {
    match &mut helm.chart {
        ChartSource::Repo { auth, .. } | ChartSource::Oci { auth, .. } => auth.as_mut(),
        ChartSource::Path(_) => None,
    }
}

/// A value where only text has a place.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Resolves for one step.
struct StepResolver<'a> {
    place: &'a RunContext<'a>,
    node: NodeContext,
}

/// The key a tree is resolved under.
const TREE: &str = "step";

impl StepResolver<'_> {
    /// A tree without references; none if it has none.
    async fn tree(&self, tree: &Value) -> Result<Option<Value>, StepError> {
        let resolved = self.resolve(tree).await?;
        Ok(resolved.map(|mut resolved| resolved.used.remove(TREE).unwrap_or_default()))
    }

    /// Manifests without references, as JSON, with the fields that hold secrets marked; none if there are none.
    async fn manifests(&self, text: &str) -> Result<Option<String>, StepError> {
        // What cannot be read is told with its place when it is loaded.
        let Ok(documents) = slipway_yaml::parse(text, "inline") else { return Ok(None) };
        let documents: Vec<Value> = documents.iter().map(slipway_yaml::Node::to_json).collect();
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
    async fn resolve(&self, tree: &Value) -> Result<Option<ResolvedValues>, StepError> {
        let wrapped = Map::from_iter([(TREE.to_owned(), tree.clone())]);
        let Some(resolver) = self.place.sources.resolver.clone().filter(|_| mentions_secret(&wrapped)) else {
            return Ok(None);
        };
        let node = self.node.clone();
        let work = move || resolver.resolve(&wrapped, &node);
        match tokio::task::spawn_blocking(work).await {
            Ok(resolved) => resolved.map_err(|error| StepError::from(error.problems).permanent()),
            Err(error) => {
                Err(StepError::new(ErrorKind::Render, format!("resolving secrets broke off: {error}")))
            }
        }
    }
}
