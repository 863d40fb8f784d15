//! The Graph of a Bundle in the cluster.

use serde_json::Value;
use slipway_cluster::{DeleteOptions, ErrorClass, ListOptions, WriteOptions};
use slipway_kro::GraphSpec;
use slipway_manifest::ObjectRef;

use super::org_gates;
use super::reconcile::{BundleReconciler, ReconcileError};
use crate::contract::read_contract_gates;
use crate::kinds::{
    self, Bundle, Pipeline, PolicyGate, PolicyGateSpec, PromotionTemplate, PromotionTemplateSpec, labels,
};
use crate::translate::{BuildError, GraphPlan, TranslationInput, adopt_graph, translate};

/// Everything a Graph is made from, as it was read.
pub(super) struct GraphSources {
    pub(super) gates: Vec<PolicyGate>,
    templates: Vec<PromotionTemplate>,
    /// The Graph the Bundle brings itself.
    authored: Option<AuthoredGraph>,
}

/// A Graph somebody wrote for a Bundle.
struct AuthoredGraph {
    at: ObjectRef,
    /// None if it is not there, or is no Graph.
    spec: Option<Result<GraphSpec, String>>,
}

/// The Graph a Bundle refers to.
pub(super) enum GraphLookup {
    Absent,
    /// Another object has the name, or the Bundle's own is being removed.
    Occupied,
    Own(Box<Value>),
}

impl BundleReconciler {
    /// Reads every gate and step template a Graph of the pipeline may use.
    pub(super) async fn graph_sources(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
    ) -> Result<GraphSources, ReconcileError> {
        let mut namespaces = self.options.policy_namespaces.clone();
        namespaces.extend(pipeline.spec.policy_namespaces.iter().cloned());
        namespaces.insert(pipeline.namespace().to_owned());
        let templates_only = ListOptions::with_labels(format!("{}!=true", labels::INSTANCE));
        let mut gates = Vec::new();
        for namespace in &namespaces {
            gates.extend(
                kinds::list::<PolicyGateSpec>(&self.cluster, Some(namespace), &templates_only).await?,
            );
        }
        gates.retain(|gate| !gate.is_instance() && !gate.metadata.is_being_deleted());
        gates.extend(read_contract_gates(&self.cluster, pipeline).await?);
        gates.extend(self.group_gates(pipeline, bundle).await?);
        let mut templates: Vec<PromotionTemplate> = Vec::new();
        for reference in pipeline
            .spec
            .environments
            .iter()
            .filter_map(|environment| environment.promotion_template.as_ref())
        {
            let namespace = reference.namespace.as_deref().unwrap_or(pipeline.namespace());
            let name = reference.name.as_deref().unwrap_or_default();
            let is_known =
                templates.iter().any(|known| known.name() == name && known.namespace() == namespace);
            if !is_known && !name.is_empty() {
                templates.extend(kinds::get::<PromotionTemplateSpec>(&self.cluster, namespace, name).await?);
            }
        }
        let authored = match bundle.metadata.annotation(labels::GRAPH_TEMPLATE) {
            Some(name) => Some(self.read_authored(bundle, name).await?),
            None => None,
        };
        Ok(GraphSources { gates, templates, authored })
    }

    /// Reads the Graph of a ConfigMap: its spec, or the whole object, under `graph.yaml`.
    async fn read_authored(&self, bundle: &Bundle, name: &str) -> Result<AuthoredGraph, ReconcileError> {
        let at = ObjectRef::core("ConfigMap", Some(bundle.namespace()), name);
        let object = match self.cluster.get(&at).await {
            Ok(object) => object.unwrap_or_default(),
            Err(error) if error.class == ErrorClass::Forbidden => {
                let problem = format!("{at} cannot be read: {error}");
                return Ok(AuthoredGraph { at, spec: Some(Err(problem)) });
            }
            Err(error) => return Err(error.into()),
        };
        let spec = object["data"]["graph.yaml"].as_str().map(|text| {
            let node =
                slipway_yaml::parse_one(text, "graph.yaml").map_err(|problems| problems.to_string())?;
            let mut value = node.to_json();
            let spec = if value["spec"].is_object() { value["spec"].take() } else { value };
            serde_json::from_value::<GraphSpec>(spec).map_err(|error| error.to_string())
        });
        Ok(AuthoredGraph { at, spec })
    }

    pub(super) fn translation<'a>(
        &'a self,
        pipeline: &'a Pipeline,
        bundle: &'a Bundle,
        sources: &'a GraphSources,
    ) -> TranslationInput<'a> {
        TranslationInput {
            pipeline,
            bundle,
            gates: &sources.gates,
            templates: &sources.templates,
            policy_namespaces: &self.options.policy_namespaces,
            group: self.group,
        }
    }

    pub(super) fn plan_graph(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        sources: &GraphSources,
    ) -> Result<GraphPlan, BuildError> {
        let input = self.translation(pipeline, bundle, sources);
        let Some(authored) = &sources.authored else { return translate(&input) };
        match &authored.spec {
            Some(Ok(spec)) => adopt_graph(&input, spec),
            Some(Err(problem)) => Err(BuildError::InvalidGraphTemplate { problems: vec![problem.clone()] }),
            None => Err(BuildError::UnknownGraphTemplate { template: authored.at.clone() }),
        }
    }

    fn graph_at(&self, bundle: &Bundle, name: &str) -> ObjectRef {
        ObjectRef::new(self.group.graph(), Some(bundle.namespace()), name)
    }

    /// Finds the Graph of a Bundle.
    pub(super) async fn find_graph(&self, bundle: &Bundle) -> Result<GraphLookup, ReconcileError> {
        let Some(name) = &bundle.status.graph_ref else { return Ok(GraphLookup::Absent) };
        let Some(graph) = self.cluster.get(&self.graph_at(bundle, name)).await? else {
            return Ok(GraphLookup::Absent);
        };
        let owners = graph["metadata"]["ownerReferences"].as_array().into_iter().flatten();
        let is_own = owners.into_iter().any(|owner| owner["uid"] == bundle.metadata.uid.as_str());
        let is_leaving = graph["metadata"]["deletionTimestamp"].is_string();
        Ok(if is_own && !is_leaving { GraphLookup::Own(Box::new(graph)) } else { GraphLookup::Occupied })
    }

    /// Creates the Graph and the gates beside it. Whoever has the name already is found by the next look.
    pub(super) async fn create_graph(
        &self,
        pipeline: &Pipeline,
        bundle: &Bundle,
        sources: &GraphSources,
        plan: &GraphPlan,
    ) -> Result<(), ReconcileError> {
        org_gates::create_missing(&self.cluster, &plan.org_gates).await?;
        let name = bundle.status.graph_ref.clone().unwrap_or_else(|| plan.name.clone());
        let manifest = plan.manifest(&self.translation(pipeline, bundle, sources));
        let options = WriteOptions::for_manager(labels::FIELD_MANAGER);
        match self.cluster.create(&self.graph_at(bundle, &name), &manifest, &options).await {
            Err(error) if error.class == ErrorClass::AlreadyExists => Ok(()),
            other => other.map(drop).map_err(Into::into),
        }
    }

    /// Deletes the Graph of a Bundle, if it is there; its controller takes gates and steps down in order.
    pub(super) async fn delete_graph(&self, bundle: &Bundle, graph: &Value) -> Result<(), ReconcileError> {
        let Some(name) = &bundle.status.graph_ref else { return Ok(()) };
        let uid = graph["metadata"]["uid"].as_str().map(str::to_owned);
        self.cluster
            .delete(&self.graph_at(bundle, name), &DeleteOptions { uid, ..DeleteOptions::default() })
            .await?;
        Ok(())
    }
}
