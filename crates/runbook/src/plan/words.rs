//! How plans put things.

use crate::context::shown;
use crate::model::{Action, Delete, RolloutVerb, Selection};
use crate::steps::{delete, rollout};

/// How many objects a detail names.
const NAMED: usize = 3;

/// The first few names, and how many more there are.
pub(super) fn listed(names: &[String]) -> String {
    let mut text = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > NAMED {
        text.push_str(&format!(" +{}", names.len() - NAMED));
    }
    text
}

/// What a step says, in a few words; never a credential.
pub(super) fn summary(action: &Action) -> String {
    let sources = |count: usize| format!("{count} source{}", if count == 1 { "" } else { "s" });
    match action {
        Action::Helm(helm) => format!("{} -> {}", helm.chart, helm.namespace),
        Action::Apply(apply) => match &apply.namespace {
            Some(namespace) => format!("{} -> {namespace}", sources(apply.manifests.len())),
            None => sources(apply.manifests.len()),
        },
        Action::Delete(Delete::Manifests { manifests, .. }) => sources(manifests.len()),
        Action::Delete(Delete::Resource { selection, .. }) => {
            format!("{}{}", delete::named(selection), scope(selection))
        }
        Action::Delete(Delete::Release { release, namespace, .. }) => {
            format!("release {release}@{namespace}")
        }
        Action::Patch(patch) => format!("{}/{}", patch.kind, patch.name),
        Action::Wait(wait) => format!("{} on {}{}", wait.until, delete::named(&wait.on), scope(&wait.on)),
        Action::Rollout(own) => {
            let verb = if own.what == RolloutVerb::Restart { "restart" } else { "status of" };
            format!("{verb} {}", shown(&rollout::place(own)))
        }
        Action::Job(job) => job.image.clone(),
    }
}

fn scope(selection: &Selection) -> String {
    match (&selection.namespace, selection.all_namespaces) {
        (_, true) => ", all namespaces".to_owned(),
        (Some(namespace), _) => format!(", namespace {namespace}"),
        (None, _) => String::new(),
    }
}
