//! Judges what a copy of a cluster cannot show, from the plan and the cluster itself: webhooks that do not answer,
//! objects that cannot be deleted, and the questions nobody can answer before the real run.

use std::collections::BTreeSet;

use serde_json::Value;
use slipway_cluster::{Cluster, ListOptions};
use slipway_manifest::{Gvk, ObjectRef, object, pods};
use slipway_problem::{Problem, Problems};
use slipway_release::ReleasePlan;
use slipway_release::decide::ObjectChange;
use slipway_release::plan::PlannedObject;

/// How many names of a kind a question lists.
const NAMES: usize = 5;

/// The outcome of a plan as far as it can be known without carrying it out.
#[derive(Default)]
pub struct Forecast {
    /// Reasons why the real run would fail.
    pub problems: Problems,
    /// Questions a rehearsal leaves open.
    pub open_questions: Vec<String>,
}

impl Forecast {
    /// Takes in the forecast of another plan; a question is asked once.
    pub fn extend(&mut self, other: Self) {
        self.problems.extend(other.problems);
        for question in other.open_questions {
            if !self.open_questions.contains(&question) {
                self.open_questions.push(question);
            }
        }
    }
}

/// Judges a plan made for a cluster; nobody acts for the groups in `unattended` on the copy.
pub async fn forecast(cluster: &Cluster, plan: &ReleasePlan, unattended: &[String]) -> Forecast {
    let webhooks = webhooks(cluster).await;
    let mut forecast = Forecast::default();
    let unreachable = unreachable(plan);
    let is_brought =
        |why: &str| webhooks.iter().any(|webhook| webhook.is_named_in(why) && webhook.comes_with(plan));
    for (object, why) in unreachable {
        if is_brought(&why) {
            let question =
                format!("whether the webhook that comes with the release is up in time for {object}");
            forecast.open_questions.push(question);
            continue;
        }
        let problem = Problem::error(format!("{object} would not be admitted: {why}"))
            .hint("the webhook must answer before this is carried out; the run would wait for it and fail");
        forecast.problems.push(problem);
    }
    let groups = crate::unattended_groups(cluster).await.unwrap_or_default();
    deletions(plan, &groups, &mut forecast);
    forecast.open_questions.extend(open_questions(plan, &webhooks, unattended));
    forecast
}

/// An admission webhook of the cluster.
struct Webhook {
    name: String,
    /// Namespace and name of the service that answers.
    service: Option<(String, String)>,
}

impl Webhook {
    /// Whether the server speaks of this webhook: it names it in quotation marks.
    fn is_named_in(&self, message: &str) -> bool {
        message.contains(&format!("\"{}\"", self.name))
    }

    /// Whether the service that answers is part of the release.
    fn comes_with(&self, plan: &ReleasePlan) -> bool {
        let Some((namespace, name)) = &self.service else { return false };
        plan.objects.iter().any(|object| {
            object.at.gvk.kind == "Service"
                && object.at.namespace.as_deref() == Some(namespace)
                && object.at.name == *name
        })
    }
}

/// The webhooks of a cluster, as far as they may be seen.
async fn webhooks(cluster: &Cluster) -> Vec<Webhook> {
    let mut all = Vec::new();
    for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
        let gvk = Gvk::new("admissionregistration.k8s.io", "v1", kind);
        let Ok(Some(kind)) = cluster.find_kind(&gvk).await else { continue };
        let Ok(listed) = cluster.list(&kind, None, &ListOptions::default()).await else { continue };
        for webhook in listed.items.iter().flat_map(|item| item["webhooks"].as_array().into_iter().flatten())
        {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let service = &webhook["clientConfig"]["service"];
            let service = service.is_object().then(|| (text(&service["namespace"]), text(&service["name"])));
            all.push(Webhook { name: text(&webhook["name"]), service });
        }
    }
    all
}

/// Objects that could not be tried because a webhook did not answer, with what the server said.
fn unreachable(plan: &ReleasePlan) -> Vec<(String, String)> {
    let untried = plan.objects.iter();
    untried.filter_map(|object| Some((object.at.to_string(), object.unreachable_webhook.clone()?))).collect()
}

/// Objects that are to go, or are going already, and what may hold them; `groups` are those of the cluster's
/// custom resources.
fn deletions(plan: &ReleasePlan, groups: &[String], forecast: &mut Forecast) {
    let is_recreated = |object: &PlannedObject| {
        object.visits.iter().any(|visit| matches!(visit.change, ObjectChange::Recreate { .. }))
    };
    let present = plan
        .objects
        .iter()
        .filter_map(|object| Some((&object.at, object.live.as_ref()?, is_recreated(object))));
    let deleted = plan.deletions.iter().map(|deletion| (&deletion.at, &deletion.live, true));
    for (at, live, goes) in present.chain(deleted) {
        let finalizers = foreign_finalizers(live);
        if let Some(since) = live["metadata"]["deletionTimestamp"].as_str() {
            let held = match finalizers.as_slice() {
                [] => String::new(),
                some => format!(", and its finalizers hold it: {}", some.join(", ")),
            };
            let told = format!("{at} is being deleted since {since}{held}");
            if goes {
                let problem = Problem::error(told).hint("wait until it is gone, or remove what holds it");
                forecast.problems.push(problem);
            } else {
                forecast.open_questions.push(format!("whether what is written lasts: {told}"));
            }
        } else if goes {
            let (orphaned, attended): (Vec<&str>, Vec<&str>) =
                finalizers.into_iter().partition(|finalizer| is_orphaned(live, finalizer, groups));
            if !orphaned.is_empty() {
                let problem = Problem::error(format!(
                    "{at} cannot be deleted: nobody in this cluster removes its finalizer {}",
                    orphaned.join(", ")
                ));
                let hint = "remove the finalizer first, or install the controller that does";
                forecast.problems.push(problem.hint(hint));
            }
            if !attended.is_empty() {
                forecast.open_questions.push(question_of_finalizers(at, &attended));
            }
        }
    }
}

fn question_of_finalizers(at: &ObjectRef, finalizers: &[&str]) -> String {
    format!(
        "whether anybody removes the finalizer {} of {at}: deleting it waits for that",
        finalizers.join(", ")
    )
}

/// Finalizers that no part of Kubernetes itself removes.
fn foreign_finalizers(live: &Value) -> Vec<&str> {
    let all = live["metadata"]["finalizers"].as_array().into_iter().flatten().filter_map(Value::as_str);
    all.filter(|finalizer| {
        let domain = finalizer.split_once('/').map_or("", |(domain, _)| domain);
        let is_own = domain.is_empty()
            || ["kubernetes.io", "k8s.io"]
                .iter()
                .any(|own| domain == *own || domain.ends_with(&format!(".{own}")));
        !is_own
    })
    .collect()
}

/// Tools that people and pipelines write objects with. They put finalizers on them and never take them off.
const TOOLS: [&str; 5] = ["kubectl", "helm", "nelm", "slipway", "before-first-apply"];

/// Whether a finalizer seems to be nobody's business: a tool wrote it, and no custom resource of the cluster is of
/// its domain, so that no controller for it is to be expected.
fn is_orphaned(live: &Value, finalizer: &str, groups: &[String]) -> bool {
    let domain = finalizer.split_once('/').map_or(finalizer, |(domain, _)| domain);
    let within = |inner: &str, outer: &str| {
        inner.strip_suffix(outer).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    let is_known = groups.iter().any(|group| within(domain, group) || within(group, domain));
    let key = format!("v:\"{finalizer}\"");
    let mut entries = live["metadata"]["managedFields"].as_array().into_iter().flatten();
    let by_tool = entries.any(|entry| {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let fields = &entry["fieldsV1"]["f:metadata"]["f:finalizers"];
        fields.get(&key).is_some() && TOOLS.iter().any(|tool| manager.starts_with(tool))
    });
    by_tool && !is_known
}

/// What depends on the real nodes, registries, controllers and webhooks.
fn open_questions(plan: &ReleasePlan, webhooks: &[Webhook], unattended: &[String]) -> Vec<String> {
    let objects = || plan.objects.iter().map(|object| &object.resource.object);
    let mut questions = questions_of_pods(&objects().flat_map(images).collect());
    questions.extend(question_of_webhooks("the real requests, after the dry run", webhooks));
    let groups = plan.objects.iter().map(|object| object.at.gvk.group.as_str());
    let groups: BTreeSet<&str> =
        groups.filter(|group| unattended.iter().any(|known| known == group)).collect();
    if !groups.is_empty() {
        questions
            .push(format!("whether controllers make objects of these groups ready: {}", some_of(&groups)));
    }
    questions
}

fn questions_of_pods(images: &BTreeSet<&str>) -> Vec<String> {
    if images.is_empty() {
        return Vec::new();
    }
    let room = "whether the nodes have room for the pods: those of the copy are simulated";
    vec![format!("whether the images can be pulled: {}", some_of(images)), room.to_owned()]
}

fn question_of_webhooks(requests: &str, webhooks: &[Webhook]) -> Option<String> {
    let names: BTreeSet<&str> = webhooks.iter().map(|webhook| webhook.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("what webhooks say to {requests}: {}", some_of(&names)))
}

/// Asks what a run on the stage leaves open, where there is no plan to read it from: the images of pods that run
/// there and not yet in the cluster, and the cluster's webhooks.
pub async fn stage_questions(cluster: &Cluster, stage: &Cluster) -> Vec<String> {
    let (tried, running) = (pods(stage).await, pods(cluster).await);
    let running: BTreeSet<&str> = running.iter().flat_map(images).collect();
    let fresh = tried.iter().flat_map(images).filter(|image| !running.contains(image)).collect();
    let mut questions = questions_of_pods(&fresh);
    questions.extend(question_of_webhooks("the real requests", &webhooks(cluster).await));
    questions
}

/// The pods of a cluster, as far as they may be seen.
async fn pods(cluster: &Cluster) -> Vec<Value> {
    let Ok(Some(kind)) = cluster.find_kind(&Gvk::new("", "v1", "Pod")).await else { return Vec::new() };
    let listed = cluster.list(&kind, None, &ListOptions::default()).await;
    let mut pods = listed.map(|listed| listed.items).unwrap_or_default();
    // Items of a list do not say what they are.
    for pod in &mut pods {
        pod["kind"] = "Pod".into();
    }
    pods
}

fn some_of(names: &BTreeSet<&str>) -> String {
    let shown: Vec<&str> = names.iter().copied().take(NAMES).collect();
    match names.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The images of an object's pods.
fn images(object: &Value) -> Vec<&str> {
    let containers = pods::pod_containers(&object::gvk(object), object);
    containers.iter().filter_map(pods::PodContainer::image).collect()
}
