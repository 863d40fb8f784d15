//! Observes the cluster: the live objects, and what the server would make of the wanted ones.

use std::collections::{BTreeMap, BTreeSet};

use futures::{FutureExt, StreamExt};
use serde_json::Value;
use slipway_cluster::{ApplyOptions, Cluster, Error, ErrorClass};
use slipway_manifest::fields::FieldSet;
use slipway_manifest::{ObjectId, ObjectRef, object};
use slipway_problem::{Problem, Problems};

use super::ReleaseRequest;
use super::compile::{ScaledWorkload, WantedResource};
use super::planned::{PlannedObject, PlannedVisit};
use super::scopes::{KindScopes, MissingNamespaces};
use crate::decide::{self, DryRun, ObjectRefusal, ObservedObject};
use crate::failure::Failure;
use crate::owners::{self, MANAGER, OwnerRepair};
use crate::resource::{DeletePolicy, DeployType, Ownership, Resource};
use crate::stage::Stage;
use slipway_source::Document;

/// Limit for the requests of an analysis that are under way at once.
const CONCURRENCY: usize = 64;

/// Reads the cluster for one plan.
pub(super) struct ClusterObserver<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) scopes: &'a KindScopes,
    pub(super) namespaces: &'a MissingNamespaces,
    pub(super) previous: &'a [Document],
    pub(super) request: &'a ReleaseRequest,
    pub(super) deploy_type: DeployType,
}

/// An object of the release, the stages it is deployed in now, and what the cluster says to it.
struct ObservedResource {
    resource: Resource,
    stages: Vec<Stage>,
    at: ObjectRef,
    live: Option<Value>,
    /// The server's answer to a dry run that was made before the object was read.
    tried: Option<Result<Value, Error>>,
    left_alone: Vec<String>,
}

impl ObservedResource {
    /// Tells that a dry run has shown that the object does not exist: only what is stored has a version.
    fn is_surely_new(&self) -> bool {
        matches!(&self.tried, Some(Ok(answer)) if version_of(answer).is_none())
    }
}

fn version_of(object: &Value) -> Option<&str> {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).filter(|version| !version.is_empty())
}

/// The server's answer to a dry run of one object.
struct DryRunAnswer {
    dry_run: DryRun,
    predicted: Option<Value>,
    repair: Option<OwnerRepair>,
    unreachable_webhook: Option<String>,
    /// The object, if it had to be read again.
    fresher: Option<Value>,
    /// What would have to change for the server to accept it.
    advice: Option<String>,
}

/// The kinds of refusals a plan met.
#[derive(Clone, Copy, Default)]
pub(super) struct RefusalKinds {
    /// A field that cannot change would have to.
    pub(super) immutable: bool,
    /// An object belongs to somebody else.
    pub(super) foreign: bool,
}

impl RefusalKinds {
    /// The failure of a plan with these problems.
    pub(super) fn into_failure(self, problems: Problems) -> Failure {
        if self.foreign {
            Failure::Ownership(problems)
        } else if self.immutable {
            Failure::Immutable(problems)
        } else {
            Failure::Problems(problems)
        }
    }
}

/// Every object of a release with what is to become of it.
pub(super) struct ObservedObjects {
    pub(super) objects: Vec<PlannedObject>,
    /// The kinds of refusals among the problems.
    pub(super) refusals: RefusalKinds,
}

impl ClusterObserver<'_> {
    /// Observes every object and decides what becomes of it; all refusals are told at once.
    pub(super) async fn observe_objects(
        &self,
        wanted: Vec<WantedResource>,
        scaled: &BTreeSet<ScaledWorkload>,
        previous_failed: bool,
        problems: &mut Problems,
        warnings: &mut Problems,
    ) -> Result<ObservedObjects, Failure> {
        let namespace = &self.request.namespace;
        let observed = self.read_live_objects(wanted, scaled, problems).await?;
        let previous: BTreeMap<ObjectId, &Value> = self
            .previous
            .iter()
            .map(|document| {
                let scope = self.scopes.scope_of(&object::gvk(&document.object));
                (crate::resource::identify(&document.object, namespace, scope), &document.object)
            })
            .collect();
        // Boxed and collected: of a lazy iterator the compiler cannot tell that the future may move
        // between threads.
        let mut asks = Vec::with_capacity(observed.len());
        for observed in &observed {
            let before = previous.get(&observed.resource.id).copied();
            asks.push(self.dry_run(observed, before).boxed());
        }
        let answers: Vec<DryRunAnswer> = futures::stream::iter(asks).buffered(CONCURRENCY).collect().await;

        let mut objects = Vec::with_capacity(observed.len());
        let mut refusals = RefusalKinds::default();
        for (observed, answer) in observed.into_iter().zip(answers) {
            let ObservedResource { resource, stages, at, live, tried: _, left_alone } = observed;
            let DryRunAnswer { dry_run, predicted, repair, unreachable_webhook, fresher, advice } = answer;
            if let Some(why) = &unreachable_webhook {
                let problem = Problem::warning(format!("{} could not be tried: {why}", resource.id))
                    .hint("applying it waits up to four minutes for the webhook, then fails");
                warnings.push(resource.origin.place_problem(&resource.object, "", problem));
            }
            let live = fresher.or(live);
            if let Some(live) = &live {
                let was_ours = previous.contains_key(&resource.id);
                if let Some(problem) = self.ownership_problem(&resource, live, was_ours, warnings) {
                    refusals.foreign = true;
                    problems.push(problem);
                }
            }
            for field in &left_alone {
                warnings.push(Problem::note(format!("{}: {field} is left to others", resource.id)));
            }
            let seen =
                ObservedObject { live: live.as_ref(), dry_run: &dry_run, repairs_owners: repair.is_some() };
            let change = match decide::decide_change(&resource.settings, &seen) {
                Ok(change) => change,
                Err(refusal) => {
                    refusals.immutable |= matches!(refusal, ObjectRefusal::Immutable(_));
                    problems.push(refusal_problem(&resource, &refusal, advice));
                    continue;
                }
            };
            let follow = decide::plan_follow_up(
                &resource.settings,
                &change,
                live.as_ref(),
                resource.is_crd(),
                previous_failed,
            );
            let visits = PlannedVisit::in_stages(&resource, &stages, &change, follow);
            let planned = PlannedObject::new(resource, at, visits);
            objects.push(PlannedObject {
                live,
                predicted,
                repair,
                left_alone,
                unreachable_webhook,
                ..planned
            });
        }
        Ok(ObservedObjects { objects, refusals })
    }

    /// Reads objects; kinds nobody serves and namespaces that are not there have none.
    async fn read_live_objects(
        &self,
        wanted: Vec<WantedResource>,
        scaled: &BTreeSet<ScaledWorkload>,
        problems: &mut Problems,
    ) -> Result<Vec<ObservedResource>, Failure> {
        let mut observed: Vec<ObservedResource> = wanted
            .into_iter()
            .map(|WantedResource { resource, stages }| {
                let at = self.scopes.at(&resource, &self.request.namespace);
                ObservedResource { resource, stages, at, live: None, tried: None, left_alone: Vec::new() }
            })
            .collect();
        let is_there =
            |at: &ObjectRef| self.scopes.is_served(&at.gvk) && self.namespaces.has_namespace_of(at);
        let mut askable: Vec<&mut ObservedResource> =
            observed.iter_mut().filter(|observed| is_there(&observed.at)).collect();
        if self.deploy_type == DeployType::Install && self.previous.is_empty() {
            self.try_as_new(&mut askable).await;
            askable.retain(|observed| !observed.is_surely_new());
        }
        let places: Vec<ObjectRef> = askable.iter().map(|observed| observed.at.clone()).collect();
        for (observed, found) in askable.iter_mut().zip(self.cluster.get_many(&places).await) {
            match found {
                Ok(live) => observed.live = live,
                Err(error) => problems.push(denial_problem(&observed.resource, "be looked at", error)?),
            }
        }
        for observed in &mut observed {
            observed.left_alone = keep_live_fields(&mut observed.resource, observed.live.as_ref(), scaled);
        }
        Ok(observed)
    }

    /// Makes dry runs of objects that most likely do not exist: where the server would create one, it need not be read.
    async fn try_as_new(&self, objects: &mut [&mut ObservedResource]) {
        let dry = ApplyOptions::new(MANAGER).dry_run(true);
        let dry = &dry;
        let tries: Vec<_> = objects
            .iter()
            .map(|observed| self.cluster.apply(&observed.at, &observed.resource.object, dry).boxed())
            .collect();
        let answers: Vec<_> = futures::stream::iter(tries).buffered(CONCURRENCY).collect().await;
        for (observed, answer) in objects.iter_mut().zip(answers) {
            observed.tried = Some(answer);
        }
    }

    /// Asks the server what applying an object would make of it. If somebody wrote it since it was looked at, a
    /// controller its status say, the answer is about another object: it is looked at and asked about once more.
    async fn dry_run(&self, observed: &ObservedResource, before: Option<&Value>) -> DryRunAnswer {
        let ObservedResource { resource, at, live, tried, .. } = observed;
        let tried = tried.as_ref().filter(|_| live.is_none()).cloned();
        let answer = self.dry_run_once(resource, live.as_ref(), at, before, tried).await;
        let seen_and_meant =
            (live.as_ref().and_then(version_of), answer.predicted.as_ref().and_then(version_of));
        let is_stale = matches!(seen_and_meant, (Some(seen), Some(meant)) if seen != meant);
        if is_stale && let Ok(Some(now)) = self.cluster.get(at).await {
            let answer = self.dry_run_once(resource, Some(&now), at, before, None).await;
            return DryRunAnswer { fresher: Some(now), ..answer };
        }
        answer
    }

    async fn dry_run_once(
        &self,
        resource: &Resource,
        live: Option<&Value>,
        at: &ObjectRef,
        before: Option<&Value>,
        tried: Option<Result<Value, Error>>,
    ) -> DryRunAnswer {
        let answer = |dry_run, predicted, repair| DryRunAnswer {
            dry_run,
            predicted,
            repair,
            unreachable_webhook: None,
            fresher: None,
            advice: None,
        };
        let nothing = |dry_run| answer(dry_run, None, None);
        if !self.scopes.is_served(&at.gvk) {
            return nothing(DryRun::Skipped);
        }
        if !self.namespaces.has_namespace_of(at) {
            return nothing(self.dry_run_elsewhere(resource, at).await);
        }
        if live.is_some() && resource.settings.has_delete_policy(DeletePolicy::BeforeCreation) {
            return nothing(DryRun::Skipped);
        }
        let dry = ApplyOptions::new(MANAGER).dry_run(true);
        let mut repair = None;
        if let Some(live) = live {
            let mut set: Option<FieldSet> = None;
            if owners::written_by_old_helm(live)
                && let Some(before) = before
                && let Ok(answer) = self.cluster.apply(at, before, &dry).await
            {
                set = Some(owners::owned_by_helm(&answer));
            }
            repair = owners::repair_owners(
                live,
                &resource.object,
                set.as_ref(),
                self.request.options.keep_manual_changes,
            );
        }
        let applied = match tried {
            Some(tried) => tried,
            None => self.cluster.apply(at, &resource.object, &dry).await,
        };
        match applied {
            Ok(applied) => {
                let after = match &repair {
                    Some(repair) => owners::predict_object(&applied, repair),
                    None => applied,
                };
                let dry_run = DryRun::Accepted(Box::new(after.clone()));
                answer(dry_run, Some(after), repair)
            }
            Err(error) => {
                let message = server_complaint(at, &error);
                let dry_run = match error.class {
                    ErrorClass::Immutable => DryRun::Immutable(message),
                    ErrorClass::Invalid | ErrorClass::TypedPatch | ErrorClass::Forbidden => {
                        DryRun::Rejected(message)
                    }
                    ErrorClass::NotFound | ErrorClass::NoKind => DryRun::Skipped,
                    _ => DryRun::Failed(message),
                };
                let unreachable_webhook =
                    (error.class == ErrorClass::WebhookUnavailable).then(|| error.message.clone());
                let advice = error.hint.map(String::from);
                DryRunAnswer { unreachable_webhook, advice, ..answer(dry_run, None, repair) }
            }
        }
    }

    /// Asks what the server thinks of an object whose namespace is still to come, in one that is always there:
    /// what is wrong with the object itself is wrong everywhere.
    async fn dry_run_elsewhere(&self, resource: &Resource, at: &ObjectRef) -> DryRun {
        let at = ObjectRef::new(at.gvk.clone(), Some("default"), at.name.as_str());
        let mut object = resource.object.clone();
        if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.shift_remove("namespace");
        }
        let tried = self.cluster.apply(&at, &object, &ApplyOptions::new(MANAGER).dry_run(true)).await;
        let Err(error) = tried else { return DryRun::Skipped };
        let is_wrong = match error.class {
            ErrorClass::TypedPatch => true,
            // What webhooks say may hold for that namespace alone.
            ErrorClass::Invalid => !error.is_webhook_denial(),
            _ => false,
        };
        // One of that name that is there already may be what it does not go with.
        let is_free = is_wrong && matches!(self.cluster.get(&at).await, Ok(None));
        if is_free { DryRun::Rejected(server_complaint(&at, &error)) } else { DryRun::Skipped }
    }

    /// The problem with an object that is there and may not become the release's.
    fn ownership_problem(
        &self,
        resource: &Resource,
        live: &Value,
        was_ours: bool,
        warnings: &mut Problems,
    ) -> Option<Problem> {
        let deploys = !matches!(self.deploy_type, DeployType::Delete | DeployType::Test);
        let checked = resource.settings.ownership == Ownership::Release && deploys;
        if !checked || self.request.options.force_adoption {
            return None;
        }
        let name = object::annotation(live, "meta.helm.sh/release-name");
        let place = object::annotation(live, "meta.helm.sh/release-namespace");
        if name == Some(self.request.name.as_str()) && place == Some(self.request.namespace.as_str()) {
            return None;
        }
        let stripped = name.is_none() && place.is_none();
        if was_ours && stripped {
            let problem = Problem::warning(format!(
                "{}: someone removed the annotations of the release; they come back",
                resource.id
            ));
            warnings.push(resource.origin.place_problem(&resource.object, "", problem));
            return None;
        }
        let owner = match (name, place) {
            (Some(name), Some(place)) => format!("it belongs to release {place}/{name}"),
            _ => "it belongs to no release".to_owned(),
        };
        let problem = Problem::error(format!("{} exists already and {owner}", resource.id))
            .hint("delete or rename it, or take it over with --force-adoption");
        Some(resource.origin.place_problem(&resource.object, "", problem))
    }
}

/// The server's complaint about an object, as far as it may be shown: refusals quote values.
fn server_complaint(at: &ObjectRef, error: &Error) -> String {
    let is_secret = at.gvk.group.is_empty() && at.gvk.kind == "Secret";
    if is_secret && error.class != ErrorClass::Forbidden {
        return "the server refuses a value of it".to_owned();
    }
    // The action of the error is of no use to the user.
    let told = error.message.strip_prefix("failed to create typed patch object (");
    let told = told.and_then(|rest| rest.split_once("): ")).map(|(_, told)| told.to_owned());
    told.unwrap_or_else(|| error.message.clone())
}

/// Puts the live value of fields others look after into the manifest; tells which.
fn keep_live_fields(
    resource: &mut Resource,
    live: Option<&Value>,
    scaled: &BTreeSet<ScaledWorkload>,
) -> Vec<String> {
    let Some(live) = live else { return Vec::new() };
    let mut fields = resource.settings.ignore_fields.clone();
    let target = ScaledWorkload {
        kind: resource.gvk.kind.clone(),
        namespace: resource.id.namespace.clone(),
        name: resource.id.name.clone(),
    };
    if scaled.contains(&target) {
        fields.push("spec.replicas".to_owned());
    }
    fields.sort_unstable();
    fields.dedup();
    let mut left = Vec::new();
    for field in fields {
        let pointer = format!("/{}", field.replace('.', "/"));
        let (Some(theirs), Some(ours)) = (live.pointer(&pointer), resource.object.pointer_mut(&pointer))
        else {
            continue;
        };
        if ours != theirs {
            *ours = theirs.clone();
            left.push(field);
        }
    }
    left
}

fn refusal_problem(resource: &Resource, refusal: &ObjectRefusal, advice: Option<String>) -> Problem {
    let problem = match refusal {
        ObjectRefusal::Immutable(why) => {
            Problem::error(format!("{} cannot be changed in place: {why}", resource.id)).hint(
                "annotate it with `werf.io/delete-policy: before-creation-if-immutable` to have it deleted and created again",
            )
        }
        ObjectRefusal::Rejected(why) => {
            let hint = advice.or_else(|| origin_hint(resource, why));
            Problem { hint, ..Problem::error(format!("{}: {why}", resource.id)) }
        }
    };
    let (ObjectRefusal::Immutable(why) | ObjectRefusal::Rejected(why)) = refusal;
    let word = field_of(why).map(|field| format!("{field}:")).unwrap_or_default();
    resource.origin.place_problem(&resource.object, &word, problem)
}

/// Where to look for the origin of a field that a server complains about.
fn origin_hint(resource: &Resource, message: &str) -> Option<String> {
    let path = path_of(message)?.trim_start_matches('.');
    let Resource { gvk, id, .. } = resource;
    Some(format!(
        "`slipway render NAME SOURCE --explain {}/{}:{path}` says which line and value it comes from",
        gvk.kind, id.name
    ))
}

/// The last name of the first field a server complains about: `.spec.nonsense: field not declared in schema`,
/// `Pod "x" is invalid: spec.containers[0].image: Required value`.
fn field_of(message: &str) -> Option<&str> {
    let path = path_of(message)?;
    path.rsplit(['.', '[', ']']).find(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The path of the first field a server complains about.
fn path_of(message: &str) -> Option<&str> {
    let is_path = |word: &&str| {
        let path = word.trim_start_matches('.');
        path.starts_with(|first: char| first.is_ascii_lowercase())
            && path.contains(['.', '['])
            && path.chars().all(|c| c.is_ascii_alphanumeric() || ".[]_-".contains(c))
    };
    message.split_whitespace().filter_map(|word| word.strip_suffix(':')).find(is_path)
}

/// Tells what may not be done to an object as a problem of the object; all other trouble ends the plan.
pub(super) fn denial_problem(resource: &Resource, what: &str, error: Error) -> Result<Problem, Failure> {
    if error.class != ErrorClass::Forbidden {
        return Err(error.into());
    }
    let mut problem = Problem::error(format!("{} cannot {what}: {}", resource.id, error.message));
    problem.hint = error.hint.map(String::from);
    Ok(resource.origin.place_problem(&resource.object, "", problem))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_of_a_refusal_is_found() {
        for (message, field) in [
            (
                "failed to create typed patch object (t1/web; apps/v1, Kind=Deployment): .spec.nonsense: field not declared in schema",
                Some("nonsense"),
            ),
            (
                "Deployment.apps \"x\" is invalid: spec.template.spec.containers[0].image: Required value",
                Some("image"),
            ),
            ("Service \"x\" is invalid: spec.ports[0]: Duplicate value", Some("ports")),
            ("services \"x\" is forbidden: User \"jo\" cannot patch resource", None),
        ] {
            assert_eq!(field_of(message), field, "{message}");
        }
    }
}
