//! From what is wanted and what is there to a plan. Never writes.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use futures::{FutureExt, StreamExt};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_chart::{Capabilities, KubeVersion, UserValues};
use slipway_cluster::helm::{Driver, History, Release, Status, Storage};
use slipway_cluster::{Apply, At, Cluster, ErrorClass};
use slipway_event::Events;
use slipway_graph::Graph;
use slipway_manifest::fields::Set;
use slipway_manifest::{Gvk, ObjectId, object};
use slipway_problem::{Problem, Problems};

use crate::decide::{self, Decision, DryRun, Kept, Observed, Refusal};
use crate::failure::Failure;
use crate::ops::{self, Awaited, Category, Deployed, Op, Parts, Records, Removed};
use crate::owners::{self, MANAGER, Repair};
use crate::record::{self, Heading};
use crate::resource::settings::Reading;
use crate::resource::transform::{Document, Extra, transform};
use crate::resource::{
    ExternalTarget, Moment, Ownership, Resource, Scope, Stored, is_crd, is_namespace,
    is_webhook_configuration,
};
use crate::source::{self, RenderRequest, Rendered, Source};
use crate::stage::Stage;

/// How many requests of an analysis are under way at once.
const CONCURRENCY: usize = 64;

/// When what the release no longer has is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PruneOrder {
    /// Before anything new is applied.
    Before,
    /// Once everything new is ready.
    #[default]
    After,
}

/// How to plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Options {
    /// Take over objects that belong to nobody or somebody else.
    pub force_adoption: bool,
    pub no_install_crds: bool,
    /// Leave fields changed with `kubectl edit` alone.
    pub keep_manual_changes: bool,
    pub no_final_tracking: bool,
    /// Added to all objects and kept in the release.
    pub extra: Extra,
    /// Added to all objects when they are applied.
    pub runtime: Extra,
    pub prune_order: PruneOrder,
    pub driver: Driver,
    pub release_labels: BTreeMap<String, String>,
    pub description: Option<String>,
    pub skip_schema_validation: bool,
    pub subchart_notes: bool,
    /// Deletes keep the last revision as `uninstalled`.
    pub keep_history: bool,
    /// Leave hooks out.
    pub no_hooks: bool,
    /// How deletes treat dependents unless the object says.
    pub propagation: crate::resource::Propagation,
}

/// What the objects of a release come from.
#[derive(Clone, Debug)]
pub enum Content {
    /// A source, rendered for the revision it becomes.
    Source {
        source: Source,
        values: Box<UserValues>,
    },
    Rendered(Box<Rendered>),
    /// A stored revision; none is the last one that was good.
    Revision(Option<u32>),
    /// A record made before, for saved plans.
    Record(Box<Release>, Vec<Document>),
    /// Nothing: the release goes away.
    Nothing,
    /// The tests of the last revision.
    Tests,
}

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Request {
    pub name: String,
    pub namespace: String,
    pub content: Content,
    pub options: Options,
}

/// What was found out about an object to deploy.
#[derive(Clone, Debug)]
pub struct Facts {
    pub at: At,
    pub live: Option<Value>,
    /// What it becomes, as far as the server could say.
    pub after: Option<Value>,
    pub repair: Option<Repair>,
    /// Fields left as others set them.
    pub left_alone: Vec<String>,
}

/// What was found out about an object to delete.
#[derive(Clone, Debug)]
pub struct Doomed {
    pub at: At,
    pub live: Value,
    /// Still in the release, but not deployed at this moment.
    pub excluded: bool,
}

/// An object of an earlier revision that stays.
#[derive(Clone, Debug, Serialize)]
pub struct Remaining {
    pub object: String,
    #[serde(flatten)]
    pub why: Kept,
}

/// What will be done, and why.
#[derive(Debug)]
pub struct Plan {
    pub name: String,
    pub namespace: String,
    pub moment: Moment,
    /// The revision to be written, pending; of a delete, the last one.
    pub release: Release,
    pub history: Arc<History>,
    pub items: Vec<Deployed>,
    pub facts: Vec<Facts>,
    pub removals: Vec<Removed>,
    pub doomed: Vec<Doomed>,
    pub awaited: Vec<Awaited>,
    pub remaining: Vec<Remaining>,
    pub graph: Graph<Op>,
    pub warnings: Problems,
    /// Automatic dependencies: who, whom, through which field.
    pub references: Vec<(String, String, String)>,
    /// Why a revision is needed even if no object changes.
    pub reason: Option<String>,
    pub options: Options,
    /// Definitions of `crds/`, which the record does not keep.
    pub aside: Vec<Document>,
}

impl Plan {
    /// Whether there is nothing to do at all.
    pub fn is_empty(&self) -> bool {
        self.reason.is_none() && !self.touches()
    }

    /// Whether any object is changed or waited for.
    fn touches(&self) -> bool {
        let mut categories = self.graph.nodes().map(|node| node.value().category());
        categories.any(|category| matches!(category, Category::Resource | Category::Track))
    }

    /// Whether any object is changed.
    pub fn changes_objects(&self) -> bool {
        self.graph.nodes().any(|node| node.value().category() == Category::Resource)
    }

    /// 0 nothing to do, 2 objects change, 3 only a new revision.
    pub fn exit_code(&self) -> u8 {
        if self.changes_objects() {
            2
        } else if self.is_empty() {
            0
        } else {
            3
        }
    }
}

/// Where a release stands.
#[derive(Debug)]
pub struct Situation {
    pub history: Arc<History>,
    pub moment: Moment,
    pub revision: u32,
    pub previous_failed: bool,
}

/// Reads the history and tells what deploying now means.
pub async fn situation(
    cluster: &Cluster,
    name: &str,
    namespace: &str,
    driver: Driver,
) -> Result<Situation, Failure> {
    let storage = Storage::new(cluster.clone(), driver, namespace);
    let history = storage.history(name).await?;
    let deleted = history
        .releases
        .iter()
        .rposition(|release| matches!(release.info.status, Status::Uninstalled | Status::Uninstalling));
    let since = deleted.map_or(0, |position| position + 1);
    let is_good = |release: &Release| matches!(release.info.status, Status::Deployed | Status::Superseded);
    let moment =
        if history.releases[since..].iter().any(is_good) { Moment::Upgrade } else { Moment::Install };
    let previous_failed = history.last().is_some_and(|last| {
        let status = last.info.status;
        status.is_pending() || matches!(status, Status::Failed | Status::Unknown | Status::Uninstalling)
    });
    let revision = history.last_revision() + 1;
    Ok(Situation { history: Arc::new(history), moment, revision, previous_failed })
}

/// Makes a plan. Never writes.
pub async fn plan(cluster: &Cluster, request: &Request, events: &Events) -> Result<Plan, Failure> {
    slipway_chart::check_release_name(&request.name).map_err(|error| Problem::error(error.to_string()))?;
    let situation = situation(cluster, &request.name, &request.namespace, request.options.driver).await?;
    let plan = match &request.content {
        Content::Nothing => plan_delete(cluster, request, situation).await?,
        Content::Tests => plan_tests(cluster, request, situation).await?,
        _ => plan_deploy(cluster, request, situation).await?,
    };
    for problem in &plan.warnings {
        events.send(slipway_event::Event::Warning { problem: problem.clone() });
    }
    Ok(plan)
}

/// What the content of a request becomes: a record, its documents, what is kept aside.
struct Made {
    release: Release,
    documents: Vec<Document>,
    warnings: Problems,
    moment: Moment,
}

async fn make(cluster: &Cluster, request: &Request, situation: &Situation) -> Result<Made, Failure> {
    let Request { name, namespace, options, .. } = request;
    let first_deployed = situation.history.releases.first().map(|first| first.info.first_deployed.clone());
    let mut heading = Heading {
        name,
        namespace,
        revision: situation.revision,
        moment: situation.moment,
        now: jiff::Timestamp::now(),
        first_deployed: first_deployed.filter(|time| !time.is_zero()),
    };
    let rendered = match &request.content {
        Content::Source { source, values } => {
            let capabilities = capabilities(cluster).await?;
            let request = RenderRequest {
                name: name.clone(),
                namespace: namespace.clone(),
                revision: situation.revision.into(),
                is_upgrade: situation.moment == Moment::Upgrade,
                values: (**values).clone(),
                capabilities,
                skip_crds: options.no_install_crds,
                skip_schema_validation: options.skip_schema_validation,
                subchart_notes: options.subchart_notes,
            };
            crate::lookup::render(cluster, source.clone(), request).await?
        }
        Content::Rendered(rendered) => (**rendered).clone(),
        Content::Record(release, aside) => {
            let (mut documents, warnings) = record::documents(release);
            documents.extend(aside.iter().cloned());
            let mut release = (**release).clone();
            release.version = situation.revision;
            return Ok(Made { release, documents, warnings, moment: situation.moment });
        }
        Content::Revision(wanted) => {
            let target = rollback_target(&situation.history, *wanted, name)?;
            let (mut documents, warnings) = record::documents(target);
            heading.moment = Moment::Rollback;
            let rendered = Rendered {
                notes: target.info.notes.clone(),
                chart: target.chart.clone(),
                values: target.config.clone(),
                ..Rendered::default()
            };
            let mut release = record::build(&rendered, &mut documents, &heading);
            release.info.rollback_revision = target.version;
            release.labels = target.labels.clone();
            release.labels.extend(options.release_labels.clone());
            return Ok(Made { release, documents, warnings, moment: Moment::Rollback });
        }
        Content::Nothing | Content::Tests => Rendered::default(),
    };
    let (mut documents, found) = transform(rendered.documents.clone(), &options.extra);
    let mut warnings = rendered.warnings.clone();
    let (errors, soft): (Vec<Problem>, Vec<Problem>) =
        found.into_iter().partition(|problem| problem.severity == slipway_problem::Severity::Error);
    warnings.extend(soft);
    if options.no_hooks {
        documents.retain(|document| document.stored != Stored::Hook);
    }
    if !errors.is_empty() {
        // What annotations get wrong is told along with it.
        let (_, more) = record::resources(documents, namespace, |_| Scope::Unknown, Reading::Strict);
        let all: Problems = errors.into_iter().chain(more).collect();
        return Err(Failure::Problems(all));
    }
    let mut release = record::build(&rendered, &mut documents, &heading);
    release.labels.clone_from(&options.release_labels);
    // What is deployed is exactly what is stored.
    Ok(Made { release, documents, warnings, moment: situation.moment })
}

/// What templates may ask of the cluster.
pub async fn capabilities(cluster: &Cluster) -> Result<Capabilities, Failure> {
    let (version, kinds) = futures::try_join!(cluster.version(), cluster.kinds())?;
    let kube_version = KubeVersion::parse(&version.git_version).map_err(|e| Problem::error(e.to_string()))?;
    Ok(Capabilities { kube_version, api_versions: kinds.api_versions().into() })
}

/// The revision a rollback goes to.
pub fn rollback_target<'a>(
    history: &'a History,
    wanted: Option<u32>,
    name: &str,
) -> Result<&'a Release, Failure> {
    if history.releases.is_empty() {
        return Err(Failure::NotFound(format!("release `{name}` not found")));
    }
    if let Some(wanted) = wanted.filter(|wanted| *wanted > 0) {
        let found = history.releases.iter().find(|release| release.version == wanted);
        return found.ok_or_else(|| {
            let known: Vec<String> =
                history.releases.iter().map(|release| release.version.to_string()).collect();
            Failure::NotFound(format!(
                "release `{name}` has no revision {wanted}; there are {}",
                known.join(", ")
            ))
        });
    }
    let is_good = |release: &&Release| matches!(release.info.status, Status::Deployed | Status::Superseded);
    let last = history.releases.last().map(|release| release.version);
    let mut good = history.releases.iter().rev().filter(is_good);
    let target = match good.next() {
        Some(newest) if Some(newest.version) != last => Some(newest),
        _ => good.next(),
    };
    target.ok_or_else(|| Failure::NotFound(format!("release `{name}` has no earlier revision that was good")))
}

async fn plan_deploy(cluster: &Cluster, request: &Request, situation: Situation) -> Result<Plan, Failure> {
    let Request { name, namespace, options, .. } = request;
    let Made { release, documents, mut warnings, moment } = make(cluster, request, &situation).await?;
    let aside: Vec<Document> =
        documents.iter().filter(|document| document.stored == Stored::Aside).cloned().collect();
    let scopes = Scopes::learn(cluster, &documents).await?;
    let (mut resources, found) =
        record::resources(documents, namespace, |gvk| scopes.of(gvk), Reading::Strict);
    let mut problems = Problems::new();
    for problem in found.into_iter().chain(record::check_together(&resources, namespace)) {
        match problem.severity {
            slipway_problem::Severity::Error => problems.push(problem),
            _ => warnings.push(problem),
        }
    }
    problems.extend(scopes.unknown(&resources));
    problems.into_result(())?;
    for resource in &mut resources {
        add_metadata(resource, name, namespace, &options.runtime);
    }

    let all_ids: HashSet<ObjectId> = resources.iter().map(|resource| resource.id.clone()).collect();
    let scaled = scaled_workloads(&resources);
    let wanted: Vec<(Resource, Vec<Stage>)> = resources
        .into_iter()
        .map(|resource| {
            let stages = resource.stages(moment);
            (resource, stages)
        })
        .filter(|(_, stages)| !stages.is_empty())
        .collect();
    let namespaces = Namespaces::learn(cluster, namespace, &wanted).await?;
    let previous = previous_documents(&situation.history);
    let analysis =
        Analysis { cluster, scopes: &scopes, namespaces: &namespaces, previous: &previous, request };
    let (mut items, facts) =
        analysis.deployables(wanted, &scaled, situation.previous_failed, &mut warnings).await?;
    let live_uids: HashSet<String> = facts.iter().filter_map(|fact| uid(fact.live.as_ref()?)).collect();
    let deployed_ids: HashSet<ObjectId> = items.iter().map(|item| item.resource.id.clone()).collect();
    let stage = match options.prune_order {
        PruneOrder::Before => Stage::PrePreUninstall,
        PruneOrder::After => Stage::Uninstall,
    };
    let (removals, doomed, remaining) = analysis.removals(&deployed_ids, &all_ids, &live_uids, stage).await?;
    ops::force_readiness(&mut items);
    let (awaited, item_awaits) = externals(cluster, &items).await?;
    let supersede = situation.history.releases.iter().filter(|old| old.info.status == Status::Deployed);
    let records = Records {
        create: Some(release.version.into()),
        supersede: supersede.map(|old| old.version.into()).collect(),
        ..Records::default()
    };
    let built = ops::build(&Parts {
        items: &items,
        removals: &removals,
        awaited: &awaited,
        item_awaits: &item_awaits,
        records,
        release_namespace: namespace,
        no_final_tracking: options.no_final_tracking,
    })?;
    warnings.extend(built.warnings);
    let reason = record::reason(situation.history.last(), &release).map(str::to_owned);
    Ok(Plan {
        name: name.clone(),
        namespace: namespace.clone(),
        moment,
        release,
        history: situation.history,
        items,
        facts,
        removals,
        doomed,
        awaited,
        remaining,
        graph: built.graph,
        warnings,
        references: built.references,
        reason,
        options: options.clone(),
        aside,
    })
}

async fn plan_delete(cluster: &Cluster, request: &Request, situation: Situation) -> Result<Plan, Failure> {
    let Request { name, namespace, options, .. } = request;
    let last = situation.history.last().cloned();
    let Some(last) = last else { return Err(Failure::NotFound(format!("release `{name}` not found"))) };
    let previous = previous_documents(&situation.history);
    let documents: Vec<Document> = previous.iter().map(|(_, document)| document.clone()).collect();
    let scopes = Scopes::learn(cluster, &documents).await?;
    let (mut resources, _) = record::resources(documents, namespace, |gvk| scopes.of(gvk), Reading::Lenient);
    for resource in &mut resources {
        add_metadata(resource, name, namespace, &options.runtime);
    }
    let wanted: Vec<(Resource, Vec<Stage>)> = resources
        .iter()
        .map(|resource| (resource.clone(), resource.stages(Moment::Delete)))
        .filter(|(_, stages)| !stages.is_empty() && !options.no_hooks)
        .collect();
    let namespaces = Namespaces::learn(cluster, namespace, &wanted).await?;
    let mut warnings = Problems::new();
    let analysis =
        Analysis { cluster, scopes: &scopes, namespaces: &namespaces, previous: &previous, request };
    let (mut items, facts) = analysis.deployables(wanted, &BTreeSet::new(), false, &mut warnings).await?;
    let deployed_ids: HashSet<ObjectId> = items.iter().map(|item| item.resource.id.clone()).collect();
    let live_uids: HashSet<String> = facts.iter().filter_map(|fact| uid(fact.live.as_ref()?)).collect();
    let (removals, doomed, remaining) =
        analysis.removals(&deployed_ids, &HashSet::new(), &live_uids, Stage::Uninstall).await?;
    ops::force_readiness(&mut items);
    let (awaited, item_awaits) = externals(cluster, &items).await?;
    let revision = i64::from(last.version);
    let all = situation.history.releases.iter().map(|old| i64::from(old.version));
    let records = Records {
        delete: Some(revision),
        forget: if options.keep_history { Vec::new() } else { all.collect() },
        keep: options.keep_history.then_some(revision),
        ..Records::default()
    };
    let built = ops::build(&Parts {
        items: &items,
        removals: &removals,
        awaited: &awaited,
        item_awaits: &item_awaits,
        records,
        release_namespace: namespace,
        no_final_tracking: false,
    })?;
    warnings.extend(built.warnings);
    Ok(Plan {
        name: name.clone(),
        namespace: namespace.clone(),
        moment: Moment::Delete,
        release: last,
        history: situation.history,
        items,
        facts,
        removals,
        doomed,
        awaited,
        remaining,
        graph: built.graph,
        warnings,
        references: built.references,
        reason: Some("the release is deleted".to_owned()),
        options: options.clone(),
        aside: Vec::new(),
    })
}

async fn plan_tests(cluster: &Cluster, request: &Request, situation: Situation) -> Result<Plan, Failure> {
    let Request { name, namespace, options, .. } = request;
    let last = situation.history.deployed().or(situation.history.last()).cloned();
    let Some(last) = last else { return Err(Failure::NotFound(format!("release `{name}` not found"))) };
    let (documents, mut warnings) = record::documents(&last);
    let scopes = Scopes::learn(cluster, &documents).await?;
    let (mut resources, _) = record::resources(documents, namespace, |gvk| scopes.of(gvk), Reading::Lenient);
    for resource in &mut resources {
        add_metadata(resource, name, namespace, &options.runtime);
    }
    let wanted: Vec<(Resource, Vec<Stage>)> = resources
        .into_iter()
        .map(|resource| {
            let stages = resource.stages(Moment::Test);
            (resource, stages)
        })
        .filter(|(_, stages)| !stages.is_empty())
        .collect();
    let namespaces = Namespaces::learn(cluster, namespace, &wanted).await?;
    let analysis = Analysis { cluster, scopes: &scopes, namespaces: &namespaces, previous: &[], request };
    let (items, facts) = analysis.deployables(wanted, &BTreeSet::new(), false, &mut warnings).await?;
    let (awaited, item_awaits) = externals(cluster, &items).await?;
    let built = ops::build(&Parts {
        items: &items,
        awaited: &awaited,
        item_awaits: &item_awaits,
        release_namespace: namespace,
        ..Parts::default()
    })?;
    Ok(Plan {
        name: name.clone(),
        namespace: namespace.clone(),
        moment: Moment::Test,
        release: last,
        history: situation.history,
        items,
        facts,
        removals: Vec::new(),
        doomed: Vec::new(),
        awaited,
        remaining: Vec::new(),
        graph: built.graph,
        warnings,
        references: built.references,
        reason: None,
        options: options.clone(),
        aside: Vec::new(),
    })
}

fn uid(live: &Value) -> Option<String> {
    live.pointer("/metadata/uid").and_then(Value::as_str).map(str::to_owned)
}

/// What marks an object as the release's.
fn add_metadata(resource: &mut Resource, name: &str, namespace: &str, runtime: &Extra) {
    if resource.settings.ownership == Ownership::Release {
        object::set_annotation(&mut resource.object, "meta.helm.sh/release-name", name);
        object::set_annotation(&mut resource.object, "meta.helm.sh/release-namespace", namespace);
        object::set_label(&mut resource.object, "app.kubernetes.io/managed-by", "Helm");
    }
    runtime.add_to(&mut resource.object);
}

/// Documents of the last good revision and all after it, newest first: what may have to be deleted.
fn previous_documents(history: &History) -> Vec<(u32, Document)> {
    let start =
        history.releases.iter().rposition(|release| release.info.status == Status::Deployed).unwrap_or(0);
    let deleted = history.releases.iter().rposition(|release| release.info.status == Status::Uninstalled);
    let start = deleted.map_or(start, |deleted| start.max(deleted + 1));
    let mut seen = HashSet::new();
    let mut all = Vec::new();
    for release in history.releases.get(start..).unwrap_or_default().iter().rev() {
        for mut document in record::documents(release).0 {
            let id = crate::resource::normalise(&mut document.object, &release.namespace, Scope::Unknown);
            if seen.insert(id) {
                all.push((release.version, document));
            }
        }
    }
    all
}

/// Workloads an autoscaler of the release looks after.
fn scaled_workloads(resources: &[Resource]) -> BTreeSet<(String, String, String)> {
    let scalers = resources
        .iter()
        .filter(|resource| matches!(resource.gvk.kind.as_str(), "HorizontalPodAutoscaler" | "ScaledObject"));
    let targets = scalers.filter_map(|scaler| {
        let target = scaler.object.pointer("/spec/scaleTargetRef")?;
        let kind = target.get("kind").and_then(Value::as_str).unwrap_or("Deployment");
        let name = target.get("name").and_then(Value::as_str)?;
        Some((kind.to_owned(), scaler.id.namespace.clone(), name.to_owned()))
    });
    targets.collect()
}

/// Whether kinds live in namespaces: the cluster says, or definitions of the release.
struct Scopes {
    known: BTreeMap<Gvk, Scope>,
    /// Kinds the release defines itself, by group and kind.
    own: BTreeMap<(String, String), Scope>,
}

impl Scopes {
    async fn learn(cluster: &Cluster, documents: &[Document]) -> Result<Scopes, Failure> {
        let mut own = BTreeMap::new();
        let mut wanted = BTreeSet::new();
        for document in documents {
            let gvk = object::gvk(&document.object);
            if is_crd(&gvk) {
                let text = |path: &str| document.object.pointer(path).and_then(Value::as_str);
                if let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) {
                    let namespaced = text("/spec/scope") == Some("Namespaced");
                    let scope = if namespaced { Scope::Namespaced } else { Scope::Cluster };
                    own.insert((group.to_owned(), kind.to_owned()), scope);
                }
            }
            wanted.insert(gvk);
        }
        let mut known = BTreeMap::new();
        for gvk in wanted {
            let scope = match cluster.kind(&gvk).await? {
                Some(kind) if kind.namespaced => Scope::Namespaced,
                Some(_) => Scope::Cluster,
                None => continue,
            };
            known.insert(gvk, scope);
        }
        Ok(Scopes { known, own })
    }

    fn is_served(&self, gvk: &Gvk) -> bool {
        self.known.contains_key(gvk)
    }

    fn of(&self, gvk: &Gvk) -> Scope {
        self.known.get(gvk).copied().unwrap_or_else(|| {
            self.own.get(&(gvk.group.clone(), gvk.kind.clone())).copied().unwrap_or(Scope::Unknown)
        })
    }

    /// Kinds neither the cluster nor the release knows.
    fn unknown(&self, resources: &[Resource]) -> Problems {
        let missing = resources.iter().filter(|resource| self.of(&resource.gvk) == Scope::Unknown);
        missing
            .map(|resource| {
                let gvk = &resource.gvk;
                let problem = Problem::error(format!(
                    "{}: the cluster serves no kind {} in {}",
                    resource.human(),
                    gvk.kind,
                    gvk.api_version()
                ))
                .hint("install the definition of the kind first, or correct apiVersion and kind");
                resource.origin.blame(&resource.object, "apiVersion", problem)
            })
            .collect()
    }

    fn at(&self, resource: &Resource, release_namespace: &str) -> At {
        let namespace = match self.of(&resource.gvk) {
            Scope::Cluster => None,
            _ if resource.id.namespace.is_empty() => Some(release_namespace),
            _ => Some(resource.id.namespace.as_str()),
        };
        At::new(resource.gvk.clone(), namespace, resource.id.name.as_str())
    }
}

/// Which namespaces are there.
struct Namespaces {
    missing: BTreeSet<String>,
}

impl Namespaces {
    async fn learn(
        cluster: &Cluster,
        own: &str,
        wanted: &[(Resource, Vec<Stage>)],
    ) -> Result<Namespaces, Failure> {
        let mut names: BTreeSet<String> =
            wanted.iter().map(|(resource, _)| resource.id.namespace.clone()).collect();
        names.remove("");
        names.insert(own.to_owned());
        let names: Vec<String> = names.into_iter().collect();
        let found = futures::future::join_all(names.iter().map(|name| async move {
            cluster.get(&At::new(Gvk::new("", "v1", "Namespace"), None, name.as_str())).await
        }))
        .await;
        let mut missing = BTreeSet::new();
        for (name, found) in names.into_iter().zip(found) {
            match found {
                Ok(Some(_)) => {}
                Ok(None) => {
                    missing.insert(name);
                }
                // Who may not see namespaces may still work in one.
                Err(error) if error.class == ErrorClass::Forbidden => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Namespaces { missing })
    }

    fn has(&self, at: &At) -> bool {
        at.namespace.as_ref().is_none_or(|namespace| !self.missing.contains(namespace))
    }
}

/// What an analysis of objects needs.
struct Analysis<'a> {
    cluster: &'a Cluster,
    scopes: &'a Scopes,
    namespaces: &'a Namespaces,
    previous: &'a [(u32, Document)],
    request: &'a Request,
}

/// What asking the server about one object gave.
struct Asked {
    dry_run: DryRun,
    after: Option<Value>,
    repair: Option<Repair>,
}

impl Analysis<'_> {
    /// Observes every object and decides what becomes of it; all refusals are told at once.
    async fn deployables(
        &self,
        wanted: Vec<(Resource, Vec<Stage>)>,
        scaled: &BTreeSet<(String, String, String)>,
        previous_failed: bool,
        warnings: &mut Problems,
    ) -> Result<(Vec<Deployed>, Vec<Facts>), Failure> {
        let namespace = &self.request.namespace;
        let places: Vec<At> =
            wanted.iter().map(|(resource, _)| self.scopes.at(resource, namespace)).collect();
        let lives = self.observe(&places).await?;
        let mut wanted = wanted;
        let mut left_alone: Vec<Vec<String>> = Vec::with_capacity(wanted.len());
        for ((resource, _), live) in wanted.iter_mut().zip(&lives) {
            left_alone.push(leave_alone(resource, live.as_ref(), scaled));
        }
        let previous: BTreeMap<ObjectId, &Value> = self
            .previous
            .iter()
            .map(|(_, document)| {
                let mut object = document.object.clone();
                let gvk = object::gvk(&object);
                let id = crate::resource::normalise(&mut object, namespace, self.scopes.of(&gvk));
                (id, &document.object)
            })
            .collect();
        // Boxed and collected: of a lazy iterator the compiler cannot tell that the future may move
        // between threads.
        let mut asks = Vec::with_capacity(wanted.len());
        for (((resource, _), live), at) in wanted.iter().zip(&lives).zip(&places) {
            let before = previous.get(&resource.id).copied();
            asks.push(self.ask(resource, live.as_ref(), at, before).boxed());
        }
        let asked: Vec<Asked> = futures::stream::iter(asks).buffered(CONCURRENCY).collect().await;

        let mut problems = Problems::new();
        let (mut items, mut facts) = (Vec::with_capacity(wanted.len()), Vec::with_capacity(wanted.len()));
        let rows = wanted.into_iter().zip(lives).zip(places).zip(asked).zip(left_alone);
        for (((((resource, stages), live), at), asked), left_alone) in rows {
            let Asked { dry_run, after, repair } = asked;
            if let Some(live) = &live {
                self.adoptable(&resource, live, previous.contains_key(&resource.id), &mut problems, warnings);
            }
            for field in &left_alone {
                warnings.push(Problem::note(format!("{}: {field} is left to others", resource.human())));
            }
            let observed =
                Observed { live: live.as_ref(), dry_run: &dry_run, repairs_owners: repair.is_some() };
            let decision = match decide::decide(&resource.settings, &observed) {
                Ok(decision) => decision,
                Err(refusal) => {
                    problems.push(refused(&resource, &refusal));
                    continue;
                }
            };
            let follow = decide::follow(
                &resource.settings,
                &decision,
                live.as_ref(),
                resource.is_crd(),
                previous_failed,
            );
            let visits = ops::visits(&resource, &stages, &decision, follow);
            items.push(Deployed { visits, exists: live.is_some(), resource });
            facts.push(Facts { at, live, after, repair, left_alone });
        }
        problems.into_result(())?;
        Ok((items, facts))
    }

    /// Reads objects; kinds nobody serves and namespaces that are not there have none.
    async fn observe(&self, places: &[At]) -> Result<Vec<Option<Value>>, Failure> {
        let askable: Vec<usize> = (0..places.len())
            .filter(|index| {
                self.scopes.is_served(&places[*index].gvk) && self.namespaces.has(&places[*index])
            })
            .collect();
        let asked: Vec<At> = askable.iter().map(|index| places[*index].clone()).collect();
        let mut lives: Vec<Option<Value>> = vec![None; places.len()];
        for (index, found) in askable.into_iter().zip(self.cluster.get_many(&asked).await) {
            lives[index] = found?;
        }
        Ok(lives)
    }

    /// Asks the server what applying an object would make of it.
    async fn ask(&self, resource: &Resource, live: Option<&Value>, at: &At, before: Option<&Value>) -> Asked {
        let nothing = |dry_run| Asked { dry_run, after: None, repair: None };
        if !self.scopes.is_served(&at.gvk) || !self.namespaces.has(at) {
            return nothing(DryRun::Skipped);
        }
        if live.is_some() && resource.settings.has(crate::resource::DeletePolicy::BeforeCreation) {
            return nothing(DryRun::Skipped);
        }
        let dry = Apply::new(MANAGER).dry_run(true);
        let mut repair = None;
        if let Some(live) = live {
            let mut set: Option<Set> = None;
            if owners::written_by_old_helm(live)
                && let Some(before) = before
                && let Ok(answer) = self.cluster.apply(at, before, &dry).await
            {
                set = Some(owners::owned_by_helm(&answer));
            }
            repair = owners::repair(
                live,
                &resource.object,
                set.as_ref(),
                self.request.options.keep_manual_changes,
            );
        }
        match self.cluster.apply(at, &resource.object, &dry).await {
            Ok(answer) => {
                let after = match &repair {
                    Some(repair) => owners::predict(&answer, repair),
                    None => answer,
                };
                Asked { dry_run: DryRun::Accepted(Box::new(after.clone())), after: Some(after), repair }
            }
            Err(error) => {
                let message = error.message.clone();
                let dry_run = match error.class {
                    ErrorClass::Immutable => DryRun::Immutable(message),
                    ErrorClass::Invalid if decide::says_immutable(&message) => DryRun::Immutable(message),
                    ErrorClass::Invalid | ErrorClass::TypedPatch | ErrorClass::Forbidden => {
                        DryRun::Rejected(message)
                    }
                    ErrorClass::NotFound | ErrorClass::NoKind => DryRun::Skipped,
                    _ => DryRun::Failed(message),
                };
                Asked { dry_run, after: None, repair }
            }
        }
    }

    /// Whether an object that is there may become the release's.
    fn adoptable(
        &self,
        resource: &Resource,
        live: &Value,
        was_ours: bool,
        problems: &mut Problems,
        warnings: &mut Problems,
    ) {
        if resource.settings.ownership != Ownership::Release || self.request.options.force_adoption {
            return;
        }
        let name = object::annotation(live, "meta.helm.sh/release-name");
        let place = object::annotation(live, "meta.helm.sh/release-namespace");
        if name == Some(&self.request.name) && place == Some(&self.request.namespace) {
            return;
        }
        let stripped = name.is_none() && place.is_none();
        if was_ours && stripped {
            let problem = Problem::warning(format!(
                "{}: someone removed the annotations of the release; they come back",
                resource.human()
            ));
            warnings.push(resource.origin.blame(&resource.object, "", problem));
            return;
        }
        let owner = match (name, place) {
            (Some(name), Some(place)) => format!("it belongs to release {place}/{name}"),
            _ => "it belongs to no release".to_owned(),
        };
        let problem = Problem::error(format!("{} exists already and {owner}", resource.human()))
            .hint("delete or rename it, or take it over with --force-adoption");
        problems.push(resource.origin.blame(&resource.object, "", problem));
    }

    /// What of earlier revisions has to go.
    async fn removals(
        &self,
        deployed: &HashSet<ObjectId>,
        in_release: &HashSet<ObjectId>,
        live_uids: &HashSet<String>,
        stage: Stage,
    ) -> Result<(Vec<Removed>, Vec<Doomed>, Vec<Remaining>), Failure> {
        let Request { name, namespace, .. } = self.request;
        let documents: Vec<Document> = self.previous.iter().map(|(_, document)| document.clone()).collect();
        let scopes = Scopes::learn(self.cluster, &documents).await?;
        let (resources, _) = record::resources(documents, namespace, |gvk| scopes.of(gvk), Reading::Lenient);
        let mut candidates: Vec<Resource> = Vec::new();
        let mut remaining = Vec::new();
        for resource in resources {
            if deployed.contains(&resource.id) || resource.settings.ownership == Ownership::Anyone {
                continue;
            }
            if resource.settings.skip_delete {
                remaining.push(Remaining { object: resource.human(), why: Kept::Policy });
                continue;
            }
            if scopes.is_served(&resource.gvk) {
                candidates.push(resource);
            }
        }
        candidates.sort_by(|a, b| {
            let key = |resource: &Resource| (resource.gvk.kind.clone(), resource.id.clone());
            key(a).cmp(&key(b))
        });
        let places: Vec<At> = candidates.iter().map(|resource| scopes.at(resource, namespace)).collect();
        let found = self.cluster.get_many(&places).await;
        let (mut removals, mut doomed) = (Vec::new(), Vec::new());
        for ((resource, at), live) in candidates.into_iter().zip(places).zip(found) {
            let Some(live) = live? else { continue };
            if uid(&live).is_some_and(|uid| live_uids.contains(&uid)) {
                continue;
            }
            if let Err(why) = decide::may_delete(&live, name, namespace) {
                remaining.push(Remaining { object: resource.human(), why });
                continue;
            }
            // Webhooks go before what serves them, or they would refuse the rest.
            let stage = if stage == Stage::Uninstall && is_webhook_configuration(&resource.gvk) {
                Stage::PreUninstall
            } else if stage == Stage::Uninstall && (is_crd(&resource.gvk) || is_namespace(&resource.gvk)) {
                Stage::PostPostUninstall
            } else {
                stage
            };
            let excluded = in_release.contains(&resource.id);
            removals.push(Removed { resource, stage });
            doomed.push(Doomed { at, live, excluded });
        }
        Ok((removals, doomed, remaining))
    }
}

/// Puts the live value of fields others look after into the manifest; tells which.
fn leave_alone(
    resource: &mut Resource,
    live: Option<&Value>,
    scaled: &BTreeSet<(String, String, String)>,
) -> Vec<String> {
    let Some(live) = live else { return Vec::new() };
    let mut fields = resource.settings.ignore_fields.clone();
    let target = (resource.gvk.kind.clone(), resource.id.namespace.clone(), resource.id.name.clone());
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

fn refused(resource: &Resource, refusal: &Refusal) -> Problem {
    let secret = resource.gvk.group.is_empty() && resource.gvk.kind == "Secret";
    // A server quotes values in its refusals.
    let shown =
        |why: &String| if secret { "the server refuses a value of it".to_owned() } else { why.clone() };
    let problem = match refusal {
        Refusal::Immutable(why) => {
            Problem::error(format!("{} cannot be changed in place: {}", resource.human(), shown(why))).hint(
                "annotate it with `werf.io/delete-policy: before-creation-if-immutable` to have it deleted and created again",
            )
        }
        Refusal::Rejected(why) => Problem::error(format!("{}: {}", resource.human(), shown(why))),
    };
    resource.origin.blame(&resource.object, "", problem)
}

type Externals = (Vec<Awaited>, Vec<Vec<usize>>);

/// Resolves what objects wait for outside of the release.
async fn externals(cluster: &Cluster, items: &[Deployed]) -> Result<Externals, Failure> {
    let mut awaited: Vec<Awaited> = Vec::new();
    let mut awaits = Vec::with_capacity(items.len());
    let mut problems = Problems::new();
    for item in items {
        let mut own = Vec::new();
        for external in &item.resource.settings.externals {
            let gvk = match &external.target {
                ExternalTarget::Kind(gvk) => Some(gvk.clone()),
                ExternalTarget::Word(word) => {
                    cluster.kinds().await?.by_name(word).map(|kind| kind.gvk.clone())
                }
            };
            let Some(gvk) = gvk else {
                let problem = Problem::error(format!(
                    "{}: annotation `{}` names a kind the cluster does not serve",
                    item.resource.human(),
                    external.annotation
                ));
                problems.push(item.resource.origin.blame(
                    &item.resource.object,
                    &external.annotation,
                    problem,
                ));
                continue;
            };
            let namespace = external.namespace.clone().unwrap_or_else(|| item.resource.id.namespace.clone());
            let found = Awaited { gvk, namespace, name: external.name.clone() };
            let index = awaited.iter().position(|known| *known == found).unwrap_or_else(|| {
                awaited.push(found);
                awaited.len() - 1
            });
            own.push(index);
        }
        awaits.push(own);
    }
    problems.into_result(())?;
    Ok((awaited, awaits))
}

/// The decision for an item's first visit.
pub fn first_decision(item: &Deployed) -> Option<&Decision> {
    item.visits.first().map(|visit| &visit.decision)
}

/// Renders a source without a cluster behind it.
pub fn render_offline(source: &Source, request: &RenderRequest) -> Result<Rendered, Problems> {
    source::render(source, request, &slipway_gotmpl::NoHost)
}
