//! Blue-green: a second set of pods that takes over all traffic at once.

use serde_json::{Map, Value, json};
use slipway_cluster::Cluster;
use slipway_manifest::{Gvk, ObjectRef, object};
use slipway_source::RenderedSource;

use super::baseline::{Baseline, ServiceBaseline};
use super::labels::{BASELINE, COLOR, OWNED_BY_RUN, mark_owned, mark_released, set_entry, set_metadata};
use super::objects::{colored_deployment, colored_name, preview_service};
use super::rollout::{RolloutContext, Scene, find_object, replicas_of};
use super::run::StepError;
use super::settings::{BlueGreenSettings, Strategy, StrategyKind, TargetName};
use super::target::pod_labels;
use crate::error::UnitError;

/// The color of a first install.
const FIRST: &str = "blue";

/// The color that a rollout brings, given the selector of the Service before. A Deployment without a color counts as blue.
pub(crate) fn next_color(before: Option<&ServiceBaseline>) -> &'static str {
    let Some(service) = before else { return FIRST };
    match service.selector.get(COLOR).and_then(Value::as_str) {
        Some("green") => "blue",
        _ => "green",
    }
}

/// The objects of a release in which the target has a color: its Deployment is renamed, its Service selects the color, its
/// autoscaler follows.
pub(crate) fn colored_release(
    rendered: &RenderedSource,
    target: &str,
    service: &str,
    color: &str,
) -> RenderedSource {
    let mut colored = rendered.clone();
    for document in &mut colored.documents {
        let made = &mut document.object;
        let (gvk, name) = (object::gvk(made), object::name(made).unwrap_or_default().to_owned());
        match (gvk.group.as_str(), gvk.kind.as_str()) {
            ("apps", "Deployment") if name == target => *made = colored_deployment(made, color),
            ("", "Service") if name == service => set_entry(&mut made["spec"]["selector"], COLOR, color),
            ("autoscaling", "HorizontalPodAutoscaler") => {
                let scaled = &mut made["spec"]["scaleTargetRef"];
                if scaled["kind"] == "Deployment" && scaled["name"] == target {
                    scaled["name"] = json!(colored_name(target, color));
                }
            }
            _ => {}
        }
    }
    colored
}

/// The objects of a release as they are deployed: with the color its Service selects, where the strategy has colors.
pub(crate) async fn deployed_objects(
    strategy: &Strategy,
    cluster: &Cluster,
    namespace: &str,
    rendered: &RenderedSource,
) -> Result<RenderedSource, UnitError> {
    let (StrategyKind::BlueGreen(settings), Some(TargetName(target))) =
        (&strategy.kind, strategy.targets.first())
    else {
        return Ok(rendered.clone());
    };
    let live = cluster.get(&ObjectRef::core("Service", Some(namespace), settings.service.as_str())).await?;
    let selector = live.as_ref().and_then(|live| live.pointer("/spec/selector"));
    Ok(match selector.and_then(|selector| selector.get(COLOR)).and_then(Value::as_str) {
        Some(color) => colored_release(rendered, target, &settings.service, color),
        None => rendered.clone(),
    })
}

impl RolloutContext<'_> {
    fn rendered_service(&self, settings: &BlueGreenSettings) -> Result<&Value, UnitError> {
        let missing = || UnitError::problem(format!("the unit has no Service `{}`", settings.service));
        self.rendered_object("", "Service", &settings.service).ok_or_else(missing)
    }

    /// Remembers the selector of the live Service; none before the first install.
    pub(crate) async fn color_baseline(&self, settings: &BlueGreenSettings) -> Result<Baseline, UnitError> {
        let scene = self.scene();
        let live = self.cluster.get(&scene.service(&settings.service)).await?;
        let service = live.map(|live| ServiceBaseline {
            name: settings.service.clone(),
            selector: live.pointer("/spec/selector").and_then(Value::as_object).cloned().unwrap_or_default(),
        });
        Ok(Baseline { service, ..Baseline::default() })
    }

    /// The selector of the Service after the switch.
    fn color_selector(
        &self,
        settings: &BlueGreenSettings,
        color: &str,
    ) -> Result<Map<String, Value>, UnitError> {
        let service = self.rendered_service(settings)?;
        let mut selector =
            service.pointer("/spec/selector").and_then(Value::as_object).cloned().unwrap_or_default();
        selector.insert(COLOR.to_owned(), json!(color));
        Ok(selector)
    }

    /// Runs the new color beside the old one, with a Service that shows it. A first install has nothing to go beside.
    pub(crate) async fn run_color(
        &self,
        settings: &BlueGreenSettings,
        target: &str,
        baseline: &Baseline,
    ) -> Result<(), StepError> {
        let Some(service) = &baseline.service else { return Ok(()) };
        let (scene, color) = (self.scene(), next_color(Some(service)));
        let rendered = self.rendered_target(target)?;
        self.create_needed(rendered).await?;
        let mut made = colored_deployment(rendered, color);
        made["spec"]["replicas"] = json!(scene.color_replicas(rendered, service).await?);
        made["metadata"]["namespace"] = json!(scene.namespace);
        mark_owned(&mut made, self.log.run_id(), scene.release);
        mark_released(&mut made, scene.release, scene.namespace);
        set_metadata(&mut made, "annotations", BASELINE, &baseline.to_value().to_string());
        let name = colored_name(target, color);
        scene.apply_own(&scene.deployment(&name), &made).await?;
        if let Some(preview) = &settings.preview {
            let service = self.rendered_service(settings)?;
            let selector = self.color_selector(settings, color)?;
            let made = preview_service(service, self.owner(), preview, &selector);
            match self.rendered_object("", "Service", preview) {
                // The release has it as its own in the end.
                Some(_) => scene.apply(&scene.service(preview), &made).await?,
                None => scene.apply_own(&scene.service(preview), &made).await?,
            }
        }
        scene.wait_ready(&name).await
    }

    /// Lets the Service select the new color: one write, all traffic. A first install brings a Service that does.
    pub(crate) async fn switch_service(
        &self,
        settings: &BlueGreenSettings,
        target: &str,
        baseline: &Baseline,
    ) -> Result<(), StepError> {
        if baseline.service.is_none() {
            return Ok(());
        }
        let (scene, color) = (self.scene(), next_color(baseline.service.as_ref()));
        // Pods may have failed since the last look at them.
        scene.wait_ready(&colored_name(target, color)).await?;
        let selector = self.color_selector(settings, color)?;
        scene.select(&settings.service, &selector).await?;
        Ok(())
    }
}

impl Scene<'_> {
    /// Gives a Service a selector, as a whole; nothing is written if it has it.
    async fn select(&self, service: &str, selector: &Map<String, Value>) -> Result<(), UnitError> {
        let at = self.service(service);
        let Some(live) = self.cluster.get(&at).await? else {
            return Err(UnitError::problem(format!("the cluster has no Service `{service}`")));
        };
        let before = live.pointer("/spec/selector").and_then(Value::as_object);
        if before == Some(selector) {
            return Ok(());
        }
        // A merge patch removes what it sets to null.
        let mut patch: Map<String, Value> =
            before.into_iter().flatten().map(|(key, _)| (key.clone(), Value::Null)).collect();
        patch.extend(selector.clone());
        self.merge(&at, json!({"spec": {"selector": patch}})).await
    }

    /// The Deployments whose pods a Service selected before a rollout.
    async fn selected_before(&self, service: &ServiceBaseline) -> Result<Vec<Value>, UnitError> {
        let mut deployments = self.list(&Gvk::new("apps", "v1", "Deployment"), "").await?;
        deployments.retain(|deployment| {
            let labels = pod_labels(deployment);
            let is_ours = deployment["metadata"]["labels"].get(OWNED_BY_RUN).is_some();
            let fits =
                |(key, value): (&String, &Value)| labels.is_some_and(|labels| labels.get(key) == Some(value));
            !is_ours && service.selector.iter().all(fits)
        });
        Ok(deployments)
    }

    /// The number of pods a new color starts with. Where the Deployment does not say, an autoscaler decides: all traffic
    /// comes at once, so there are as many pods as before.
    pub(crate) async fn color_replicas(
        &self,
        deployment: &Value,
        service: &ServiceBaseline,
    ) -> Result<u64, UnitError> {
        if !deployment["spec"]["replicas"].is_null() {
            return Ok(replicas_of(deployment));
        }
        let old = self.selected_before(service).await?;
        Ok(old.iter().map(replicas_of).max().unwrap_or(1))
    }

    /// Takes a blue-green rollout back: all traffic to the old pods, if they are still there.
    pub(crate) async fn restore_color(&self, service: &ServiceBaseline) -> Result<(), StepError> {
        if self.selected_before(service).await?.is_empty() {
            let problem = slipway_problem::Problem::error(format!(
                "the pods that Service/{} selected before the rollout are gone",
                service.name
            ));
            return Err(StepError::Unit(problem.hint("resume the rollout instead").into()));
        }
        self.select(&service.name, &service.selector).await?;
        Ok(())
    }
}

/// Tells that the objects of a release name a Service and a Deployment that it selects.
pub(crate) fn is_selected(rendered: &RenderedSource, service: &str, target: &str) -> bool {
    let service = find_object(rendered, "", "Service", service);
    let deployment = find_object(rendered, "apps", "Deployment", target);
    match (service, deployment) {
        (Some(service), Some(deployment)) => super::target::selects(service, deployment),
        _ => false,
    }
}
