//! Reads everything there is to know about a pipeline; writes nothing.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use slipway_cluster::{Cluster, ErrorClass, ListOptions};
use slipway_kro::ApiGroup;
use slipway_kro::api::GraphStatus;
use slipway_manifest::{Gvk, ObjectRef};

use super::overview::PipelineOverview;
use crate::agents::{OFFLINE_AFTER, lease_name};
use crate::bundle::{GraphEnvironment, compare_age, graph_environments};
use crate::contract::read_contract_gates;
use crate::gate::freeze::{ActiveFreeze, active_freeze};
use crate::gate::{GateEvaluator, current_values};
use crate::kinds::{
    self, Bundle, BundlePhase, BundleSpec, GatePhase, KindError, Pipeline, PipelineSpec, PolicyGate,
    PolicyGateSpec, PromotionStep, PromotionStepSpec, PromotionTemplate, PromotionTemplateSpec, labels,
};

/// Where to look.
#[derive(Clone, Debug)]
pub struct SurveySettings {
    /// Namespaces whose gates bind every pipeline.
    pub policy_namespaces: BTreeSet<String>,
}

/// The last sign of life of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentHeartbeat {
    Online,
    /// No heartbeat for more than a minute, or never one.
    Offline {
        last_seen: Option<Timestamp>,
    },
    /// Heartbeats cannot be read from here.
    Unknown,
}

/// The Graph of a bundle as far as people ask for it.
#[derive(Clone, Debug, Default)]
pub(super) struct SurveyedGraph {
    pub(super) status: GraphStatus,
    pub(super) environments: Vec<GraphEnvironment>,
}

/// Everything there is to know about a pipeline at one moment.
#[derive(Clone, Debug)]
pub struct PipelineSurvey {
    pub now: Timestamp,
    pub pipeline: Pipeline,
    /// The bundles, the newest first.
    pub bundles: Vec<Bundle>,
    pub steps: Vec<PromotionStep>,
    /// The gates of its bundles.
    pub gates: Vec<PolicyGate>,
    /// The gate templates that may apply to it.
    pub templates: Vec<PolicyGate>,
    /// The step templates its environments name.
    pub step_templates: Vec<PromotionTemplate>,
    pub freeze: Option<ActiveFreeze>,
    /// The Secret of its repository, where it does not exist.
    pub missing_secret: Option<ObjectRef>,
    /// The agents of its shards.
    pub agents: BTreeMap<String, AgentHeartbeat>,
    /// Namespaces whose gates may not be read from here.
    pub unread_namespaces: BTreeSet<String>,
    pub policy_namespaces: BTreeSet<String>,
    pub(super) graphs: BTreeMap<String, SurveyedGraph>,
}

/// Lists the pipelines of a namespace, or of all.
pub async fn list_pipelines(cluster: &Cluster, namespace: Option<&str>) -> Result<Vec<Pipeline>, KindError> {
    let mut found = kinds::list::<PipelineSpec>(cluster, namespace, &ListOptions::default()).await?;
    found.sort_by(|one, two| (one.namespace(), one.name()).cmp(&(two.namespace(), two.name())));
    Ok(found)
}

/// Sums up the pipelines of a namespace, or of all.
pub async fn list_overviews(
    cluster: &Cluster,
    namespace: Option<&str>,
) -> Result<Vec<PipelineOverview>, KindError> {
    let pipelines = list_pipelines(cluster, namespace).await?;
    let bundles = kinds::list::<BundleSpec>(cluster, namespace, &ListOptions::default()).await?;
    let frozen = ListOptions::with_labels(format!("{}=true", labels::FREEZE));
    let freezes = kinds::list::<PolicyGateSpec>(cluster, namespace, &frozen).await?;
    let overview = |pipeline: &Pipeline| {
        let is_own = |bundle: &&Bundle| {
            bundle.namespace() == pipeline.namespace() && bundle.pipeline() == Some(pipeline.name())
        };
        let own: Vec<Bundle> = bundles.iter().filter(is_own).cloned().collect();
        let freeze = active_freeze(&freezes, pipeline.namespace(), pipeline.name());
        PipelineOverview::new(pipeline, &own, freeze.as_ref())
    };
    Ok(pipelines.iter().map(overview).collect())
}

/// Reads everything about a pipeline; none if it does not exist.
pub async fn survey_pipeline(
    cluster: &Cluster,
    settings: &SurveySettings,
    namespace: &str,
    name: &str,
    now: Timestamp,
) -> Result<Option<PipelineSurvey>, KindError> {
    let Some(pipeline) = kinds::get::<PipelineSpec>(cluster, namespace, name).await? else { return Ok(None) };
    let own = ListOptions::with_labels(format!("{}={}", labels::PIPELINE, labels::label_value(name)));
    let mut bundles = kinds::list::<BundleSpec>(cluster, Some(namespace), &ListOptions::default()).await?;
    bundles.retain(|bundle| bundle.pipeline() == Some(name));
    bundles.sort_by(|one, two| compare_age(two, one));
    let mut steps = kinds::list::<PromotionStepSpec>(cluster, Some(namespace), &own).await?;
    steps.retain(|step| step.spec.pipeline == name);
    let mut gates = GateReader { cluster, unread: BTreeSet::new(), found: Vec::new() };
    let mut namespaces = settings.policy_namespaces.clone();
    namespaces.extend(pipeline.spec.policy_namespaces.iter().cloned());
    namespaces.insert(namespace.to_owned());
    for namespace in &namespaces {
        gates.read(namespace).await?;
    }
    let GateReader { unread, found, .. } = gates;
    let freeze = active_freeze(&found, namespace, name);
    let (mut gates, mut templates): (Vec<_>, Vec<_>) = found.into_iter().partition(PolicyGate::is_instance);
    gates.retain(|gate| {
        gate.bundle_namespace() == namespace && gate.spec.pipeline.as_deref().is_none_or(|of| of == name)
    });
    templates.retain(|gate| !gate.metadata.is_being_deleted());
    templates.extend(read_contract_gates(cluster, &pipeline).await?);
    refresh_values(cluster, &mut gates, &bundles, &steps, now).await;
    let graphs = read_graphs(cluster, &bundles).await?;
    let missing_secret = find_missing_secret(cluster, &pipeline).await?;
    let agents = read_agents(cluster, &pipeline, now).await;
    let step_templates = read_step_templates(cluster, &pipeline).await?;
    Ok(Some(PipelineSurvey {
        now,
        pipeline,
        bundles,
        steps,
        gates,
        templates,
        step_templates,
        freeze,
        missing_secret,
        agents,
        unread_namespaces: unread,
        policy_namespaces: settings.policy_namespaces.clone(),
        graphs,
    }))
}

/// Brings the values of closed gates up to date: the controller writes a refusal once, however long it lasts.
async fn refresh_values(
    cluster: &Cluster,
    gates: &mut [PolicyGate],
    bundles: &[Bundle],
    steps: &[PromotionStep],
    now: Timestamp,
) {
    let evaluator = GateEvaluator::new();
    for gate in gates.iter_mut().filter(|gate| gate.status.phase == Some(GatePhase::Block)) {
        let is_own = |bundle: &&Bundle| gate.spec.bundle_ref.as_deref() == Some(bundle.name());
        let Some(bundle) = bundles.iter().find(is_own) else { continue };
        let is_of_bundle = |step: &&PromotionStep| step.spec.bundle_ref == bundle.name();
        let steps: Vec<PromotionStep> = steps.iter().filter(is_of_bundle).cloned().collect();
        if let Some(values) = current_values(cluster, &evaluator, gate, bundle, &steps, now).await {
            gate.status.values = values;
        }
    }
}

/// Reads gates namespace by namespace; one that may not be read is noted.
struct GateReader<'c> {
    cluster: &'c Cluster,
    unread: BTreeSet<String>,
    found: Vec<PolicyGate>,
}

impl GateReader<'_> {
    async fn read(&mut self, namespace: &str) -> Result<(), KindError> {
        match kinds::list::<PolicyGateSpec>(self.cluster, Some(namespace), &ListOptions::default()).await {
            Ok(gates) => self.found.extend(gates),
            Err(KindError::Cluster(error)) if error.class == ErrorClass::Forbidden => {
                self.unread.insert(namespace.to_owned());
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// The Graphs of bundles, in whichever group the controller keeps them.
async fn read_graphs(
    cluster: &Cluster,
    bundles: &[Bundle],
) -> Result<BTreeMap<String, SurveyedGraph>, KindError> {
    let mut graphs = BTreeMap::new();
    for group in ApiGroup::ALL {
        if cluster.find_kind(&group.graph()).await?.is_none() {
            continue;
        }
        // What has ended is told by the record of the bundle.
        for bundle in bundles
            .iter()
            .filter(|bundle| !bundle.phase().is_terminal() || bundle.phase() == BundlePhase::Failed)
        {
            let Some(name) = &bundle.status.graph_ref else { continue };
            let at = ObjectRef::new(group.graph(), Some(bundle.namespace()), name);
            // In a group that another controller works on, somebody else may have the name.
            if let Some(mut graph) = cluster.get(&at).await?.filter(|graph| is_owned_by(graph, bundle)) {
                let environments = graph_environments(&graph);
                let status = serde_json::from_value(graph["status"].take()).unwrap_or_default();
                graphs.insert(bundle.name().to_owned(), SurveyedGraph { status, environments });
            }
        }
    }
    Ok(graphs)
}

fn is_owned_by(graph: &Value, bundle: &Bundle) -> bool {
    let owners = graph["metadata"]["ownerReferences"].as_array();
    owners.into_iter().flatten().any(|owner| owner["uid"] == bundle.metadata.uid.as_str())
}

async fn find_missing_secret(cluster: &Cluster, pipeline: &Pipeline) -> Result<Option<ObjectRef>, KindError> {
    let Some(secret) = &pipeline.spec.git.secret_ref else { return Ok(None) };
    let namespace = secret.namespace.as_deref().unwrap_or(pipeline.namespace());
    let at = ObjectRef::core("Secret", Some(namespace), &secret.name);
    match cluster.get(&at).await {
        Ok(Some(_)) => Ok(None),
        Ok(None) => Ok(Some(at)),
        // People who promote need not be able to read credentials; the controller says when they are missing.
        Err(error) if error.class == ErrorClass::Forbidden => {
            let ready = kinds::find_condition(&pipeline.status.conditions, "Ready");
            Ok(ready.filter(|ready| ready.reason == "SecretMissing").map(|_| at))
        }
        Err(error) => Err(error.into()),
    }
}

async fn read_step_templates(
    cluster: &Cluster,
    pipeline: &Pipeline,
) -> Result<Vec<PromotionTemplate>, KindError> {
    let mut found: Vec<PromotionTemplate> = Vec::new();
    for reference in pipeline.spec.environments.iter().filter_map(|one| one.promotion_template.as_ref()) {
        let namespace = reference.namespace.as_deref().unwrap_or(pipeline.namespace());
        let name = reference.name.as_deref().unwrap_or_default();
        if name.is_empty() || found.iter().any(|one| one.name() == name && one.namespace() == namespace) {
            continue;
        }
        found.extend(kinds::get::<PromotionTemplateSpec>(cluster, namespace, name).await?);
    }
    Ok(found)
}

/// Reads the heartbeat of each agent the environments name: a Lease `kardinal-agent-<shard>`.
async fn read_agents(
    cluster: &Cluster,
    pipeline: &Pipeline,
    now: Timestamp,
) -> BTreeMap<String, AgentHeartbeat> {
    let shards: BTreeSet<&String> =
        pipeline.spec.environments.iter().filter_map(|environment| environment.shard.as_ref()).collect();
    if shards.is_empty() {
        return BTreeMap::new();
    }
    let lease = Gvk::new("coordination.k8s.io", "v1", "Lease");
    let leases = match cluster.find_kind(&lease).await {
        Ok(Some(kind)) => cluster.list(&kind, None, &ListOptions::default()).await.map(|list| list.items),
        Ok(None) => Ok(Vec::new()),
        Err(error) => Err(error),
    };
    let heartbeat = |shard: &str| {
        let Ok(leases) = &leases else { return AgentHeartbeat::Unknown };
        let name = lease_name(shard);
        let heard = |lease: &Value| {
            let at = lease["spec"]["renewTime"].as_str()?.parse::<Timestamp>().ok()?;
            // An agent that was told to stop has given its Lease back.
            let is_held = lease["spec"]["holderIdentity"].as_str().is_some_and(|holder| !holder.is_empty());
            Some((at, is_held))
        };
        let own = leases.iter().filter(|lease| lease["metadata"]["name"] == name.as_str());
        match own.filter_map(heard).max() {
            Some((at, true)) if now.duration_since(at) <= OFFLINE_AFTER => AgentHeartbeat::Online,
            last => AgentHeartbeat::Offline { last_seen: last.map(|(at, _)| at) },
        }
    };
    shards.into_iter().map(|shard| (shard.clone(), heartbeat(shard))).collect()
}

impl PipelineSurvey {
    /// The newest bundle of a name or version.
    pub fn find_bundle(&self, wanted: &str) -> Option<&Bundle> {
        self.bundles
            .iter()
            .find(|bundle| bundle.name() == wanted)
            .or_else(|| self.bundles.iter().find(|bundle| bundle.spec.version() == wanted))
    }

    /// The steps of a bundle into an environment: several where it has regions.
    pub fn steps_of<'s>(
        &'s self,
        bundle: &'s str,
        environment: &'s str,
    ) -> impl Iterator<Item = &'s PromotionStep> {
        self.steps
            .iter()
            .filter(move |step| step.spec.bundle_ref == bundle && step.spec.environment == environment)
    }

    /// The names of the environments, in the order they are declared.
    pub fn environment_names(&self) -> impl Iterator<Item = &str> {
        self.pipeline.spec.environments.iter().map(|environment| environment.name.as_str())
    }
}
