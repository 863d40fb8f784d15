//! A canary: new pods beside the old ones, more with each step.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use slipway_manifest::object;

use super::baseline::{Baseline, WorkloadBaseline};
use super::labels::{mark_owned, mark_released};
use super::objects::{
    CanaryLabels, NeededObject, ObjectOwner, canary_deployment, canary_name, needed_objects,
};
use super::rollout::{RolloutContext, Scene};
use super::run::StepError;
use super::settings::{CanarySettings, Strategy, TrafficProvider};
use super::traffic::{TrafficRoute, find_service};
use super::weights::ReplicaSplit;
use crate::error::UnitError;

/// A target whose new pods run, and how its traffic is split.
struct RunningCanary<'b> {
    workload: &'b WorkloadBaseline,
    /// None where replicas split it.
    route: Option<TrafficRoute>,
    split: ReplicaSplit,
}

impl RolloutContext<'_> {
    pub(crate) fn owner(&self) -> ObjectOwner<'_> {
        ObjectOwner {
            run: self.log.run_id(),
            release: self.request.name.as_str(),
            namespace: self.request.namespace.as_str(),
        }
    }

    /// The Deployment of a target, as it is to be.
    pub(crate) fn rendered_target(&self, name: &str) -> Result<&Value, UnitError> {
        let missing = || UnitError::problem(format!("the unit has no Deployment `{name}`"));
        self.rendered_object("apps", "Deployment", name).ok_or_else(missing)
    }

    /// Creates what new pods read and is not there yet. What is there stays as it is until the release is deployed.
    pub(crate) async fn create_needed(&self, deployment: &Value) -> Result<(), UnitError> {
        let scene = self.scene();
        for NeededObject { kind, name } in needed_objects(deployment) {
            let Some(rendered) = self.rendered_object("", kind, &name) else { continue };
            let at = scene.place("", "v1", kind, &name);
            if self.cluster.get(&at).await?.is_some() {
                continue;
            }
            let mut made = rendered.clone();
            mark_owned(&mut made, self.log.run_id(), scene.release);
            mark_released(&mut made, scene.release, scene.namespace);
            scene.apply(&at, &made).await?;
        }
        Ok(())
    }

    /// Remembers what a canary changes.
    pub(crate) async fn canary_baseline(
        &self,
        strategy: &Strategy,
        settings: &CanarySettings,
    ) -> Result<Baseline, UnitError> {
        let scene = self.scene();
        let mut baseline = Baseline::default();
        for target in &strategy.targets {
            let missing = || UnitError::problem(format!("the cluster has no Deployment `{}`", target.0));
            baseline.workloads.push(scene.read_workload(&target.0).await?.ok_or_else(missing)?);
            if let Some(route) = self.traffic_route(settings, &target.0)? {
                // One route may lead to several targets.
                for found in route.baselines(&scene).await? {
                    if !baseline.routes.contains(&found) {
                        baseline.routes.push(found);
                    }
                }
            }
        }
        Ok(baseline)
    }

    /// The split of traffic of a target, where something other than replicas does it.
    pub(crate) fn traffic_route(
        &self,
        settings: &CanarySettings,
        target: &str,
    ) -> Result<Option<TrafficRoute>, UnitError> {
        if settings.provider == TrafficProvider::Replicas {
            return Ok(None);
        }
        let service =
            find_service(self.rendered, settings.service.as_deref(), self.rendered_target(target)?)?;
        Ok(Some(TrafficRoute::new(settings.provider, service.clone())))
    }

    /// Creates everything the canary needs, without traffic.
    pub(crate) async fn prepare_canary(
        &self,
        strategy: &Strategy,
        settings: &CanarySettings,
    ) -> Result<(), StepError> {
        for target in &strategy.targets {
            self.create_needed(self.rendered_target(&target.0)?).await?;
            if let Some(route) = self.traffic_route(settings, &target.0)? {
                route.create_service(&self.scene(), self.owner()).await?;
            }
        }
        Ok(())
    }

    /// Brings every target to a weight: new pods of all first, then their traffic or fewer old ones.
    pub(crate) async fn set_weight(
        &self,
        strategy: &Strategy,
        settings: &CanarySettings,
        baseline: &Baseline,
        weight: u8,
    ) -> Result<(), StepError> {
        let scene = self.scene();
        let mut canaries = Vec::new();
        for target in &strategy.targets {
            let workload = baseline.workload(&target.0);
            let unknown = || UnitError::problem(format!("the rollout knows nothing of `{}`", target.0));
            let workload = workload.ok_or_else(unknown)?;
            let route = self.traffic_route(settings, &workload.name)?;
            let split = split_of(settings, workload.replicas, weight);
            self.run_canary(baseline, workload, route.as_ref(), split).await?;
            canaries.push(RunningCanary { workload, route, split });
        }
        let routes = canaries.iter().filter_map(|canary| canary.route.as_ref());
        let services: BTreeSet<String> = routes.map(|route| route.service_name().to_owned()).collect();
        for RunningCanary { workload, route, split } in canaries {
            match route {
                Some(route) => route.set_weight(&scene, self.owner(), baseline, &services, weight).await?,
                None => {
                    scene.pin_autoscaler(workload, split.stable).await?;
                    scene.scale(&workload.name, split.stable).await?;
                    scene.wait_ready(&workload.name).await?;
                }
            }
        }
        Ok(())
    }

    /// Runs the new pods of a target, and waits until they are ready.
    async fn run_canary(
        &self,
        baseline: &Baseline,
        workload: &WorkloadBaseline,
        route: Option<&TrafficRoute>,
        split: ReplicaSplit,
    ) -> Result<(), StepError> {
        let (scene, rendered) = (self.scene(), self.rendered_target(&workload.name)?);
        let labels = match route {
            Some(route) => CanaryLabels::Apart(route.selector()),
            None => CanaryLabels::Shared,
        };
        let canary = canary_deployment(rendered, self.owner(), labels, split.canary, &baseline.to_value());
        let name = canary_name(&workload.name);
        scene.apply_own(&scene.deployment(&name), &canary).await?;
        scene.wait_ready(&name).await
    }

    /// Gives the old Deployment its replicas back before the release is deployed, where the manifest does not say how many.
    pub(crate) async fn restore_unsaid_replicas(&self, baseline: &Baseline) -> Result<(), UnitError> {
        for workload in &baseline.workloads {
            let rendered = self.rendered_target(&workload.name)?;
            if rendered.pointer("/spec/replicas").is_none_or(Value::is_null) {
                self.scene().pin_autoscaler(workload, workload.replicas).await?;
                self.scene().scale(&workload.name, workload.replicas).await?;
            }
        }
        Ok(())
    }
}

/// The replicas of both versions at a weight.
pub(crate) fn split_of(settings: &CanarySettings, replicas: u64, weight: u8) -> ReplicaSplit {
    // What is scaled to nothing is tried with one pod.
    let replicas = replicas.max(1);
    match settings.provider {
        TrafficProvider::Replicas => ReplicaSplit::by_replicas(replicas, weight),
        TrafficProvider::GatewayApi | TrafficProvider::NginxIngress => {
            ReplicaSplit::by_traffic(replicas, weight)
        }
    }
}

impl Scene<'_> {
    /// Keeps an autoscaler at a number of replicas while a canary counts them itself.
    async fn pin_autoscaler(&self, workload: &WorkloadBaseline, replicas: u64) -> Result<(), UnitError> {
        let Some(scaler) = &workload.autoscaler else { return Ok(()) };
        let at = self.autoscaler(&scaler.name);
        let Some(live) = self.cluster.get(&at).await? else { return Ok(()) };
        let is_pinned = live["spec"]["minReplicas"] == replicas && live["spec"]["maxReplicas"] == replicas;
        if !is_pinned {
            self.merge(&at, json!({"spec": {"minReplicas": replicas, "maxReplicas": replicas}})).await?;
        }
        Ok(())
    }

    /// Gives an autoscaler its own limits back.
    pub(crate) async fn restore_autoscaler(&self, workload: &WorkloadBaseline) -> Result<(), UnitError> {
        let Some(scaler) = &workload.autoscaler else { return Ok(()) };
        let at = self.autoscaler(&scaler.name);
        let Some(live) = self.cluster.get(&at).await? else { return Ok(()) };
        let limits = json!({"minReplicas": scaler.min_replicas, "maxReplicas": scaler.max_replicas});
        let is_same = live["spec"]["minReplicas"].as_u64() == scaler.min_replicas
            && live["spec"]["maxReplicas"].as_u64() == Some(scaler.max_replicas);
        if !is_same {
            self.merge(&at, json!({"spec": limits})).await?;
        }
        Ok(())
    }

    /// Takes a canary back: all traffic and replicas to the old pods first, then nothing of the new ones is left.
    pub(crate) async fn restore_canary(&self, baseline: &Baseline) -> Result<(), StepError> {
        for route in &baseline.routes {
            self.restore_route(route).await?;
        }
        for workload in &baseline.workloads {
            // The other way round the autoscaler would undo it.
            self.restore_autoscaler(workload).await?;
            self.scale(&workload.name, workload.replicas).await?;
        }
        for workload in &baseline.workloads {
            if self.cluster.get(&self.deployment(&workload.name)).await.map_err(UnitError::from)?.is_some() {
                self.wait_ready(&workload.name).await?;
            }
        }
        Ok(())
    }
}

/// The name of an object of a rollout, for those that look for it.
pub(crate) fn name_of(object: &Value) -> &str {
    object::name(object).unwrap_or_default()
}
