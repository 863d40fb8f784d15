//! What a strategy would do to a cluster: its steps with effective weights, its risks, and why it cannot be carried out.

use serde::Serialize;
use serde_json::Value;
use slipway_cluster::Cluster;
use slipway_event::Events;
use slipway_manifest::selector::LabelSelector;
use slipway_manifest::{Gvk, object};
use slipway_problem::{Problem, Problems};
use slipway_source::RenderedSource;

use super::baseline::ServiceBaseline;
use super::bluegreen::{is_selected, next_color};
use super::canary::{name_of, split_of};
use super::labels::OWNED_BY_RUN;
use super::objects::{canary_name, colored_name, needed_objects};
use super::rollout::{Scene, find_object};
use super::settings::{
    BlueGreenSettings, CanarySettings, StepPause, Strategy, StrategyKind, TrafficProvider,
};
use super::steps::{StepAction, pause_word};
use super::traffic::{TrafficRoute, find_service};
use crate::error::UnitError;

/// A strategy held against a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, schemars::JsonSchema)]
pub struct StrategyPlan {
    pub steps: Vec<PlannedStep>,
    /// What a reader should know before agreeing.
    pub risks: Vec<String>,
}

/// A step as a plan shows it.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    /// The step's name in the ledger.
    pub step: String,
    /// What it does.
    pub action: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<u8>,
    /// The share the new version really gets, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effective_weight: Option<f64>,
}

/// Holds a strategy against a cluster. Reads only; everything that stands in its way is told at once.
pub async fn plan_steps(
    strategy: &Strategy,
    cluster: &Cluster,
    rendered: &RenderedSource,
    namespace: &str,
) -> Result<StrategyPlan, UnitError> {
    let events = Events::silent();
    let scene = Scene { cluster, namespace, release: "", events: &events, timeout: None };
    let mut planning =
        Planning { scene, rendered, strategy, problems: Problems::new(), plan: StrategyPlan::default() };
    match &strategy.kind {
        StrategyKind::Rolling => planning.add_steps(|_| None, &[]),
        StrategyKind::Canary(settings) => planning.plan_canary(settings).await?,
        StrategyKind::BlueGreen(settings) => planning.plan_blue_green(settings).await?,
    }
    planning.problems.into_result(planning.plan).map_err(UnitError::Problems)
}

struct Planning<'a> {
    scene: Scene<'a>,
    rendered: &'a RenderedSource,
    strategy: &'a Strategy,
    problems: Problems,
    plan: StrategyPlan,
}

/// The weight of a step as it turns out.
struct EffectiveWeight {
    weight: f64,
    text: String,
}

impl Planning<'_> {
    fn add_steps(&mut self, effective: impl Fn(u8) -> Option<EffectiveWeight>, colors: &[&str]) {
        for step in self.strategy.steps() {
            let mut planned =
                PlannedStep { step: step.id, action: String::new(), weight: None, effective_weight: None };
            planned.action = match step.action {
                StepAction::Prepare => "remember what is there, create what new pods need".to_owned(),
                StepAction::Weight(weight) => {
                    planned.weight = Some(weight);
                    let known = effective(weight);
                    planned.effective_weight = known.as_ref().map(|known| known.weight);
                    format!("{weight}%{}", known.map(|known| format!(": {}", known.text)).unwrap_or_default())
                }
                StepAction::Color => format!("run {}", colors.join(" beside ")),
                StepAction::Pause(StepPause::Manual) => "wait to be resumed".to_owned(),
                StepAction::Pause(pause) => format!("wait {}", pause_word(&pause)),
                StepAction::Check => "check the new pods".to_owned(),
                StepAction::Switch => "switch the Service".to_owned(),
                StepAction::Promote => "deploy the release".to_owned(),
                StepAction::Cleanup => "remove what only the rollout needed".to_owned(),
            };
            self.plan.steps.push(planned);
        }
    }

    fn report(&mut self, message: String, hint: &str) {
        self.problems.push(Problem::error(message).hint(hint));
    }

    fn target(&mut self, name: &str) -> Option<&'static str> {
        let is_there = find_object(self.rendered, "apps", "Deployment", name).is_some();
        if !is_there {
            let known: Vec<String> = self
                .rendered
                .documents
                .iter()
                .map(|document| &document.object)
                .filter(|object| object::kind(object) == Some("Deployment"))
                .map(|object| name_of(object).to_owned())
                .collect();
            let problem = Problem::error(format!("the unit has no Deployment `{name}`"));
            self.problems.push(problem.did_you_mean(name, known.iter().map(String::as_str)));
        }
        is_there.then_some("Deployment")
    }

    async fn plan_canary(&mut self, settings: &CanarySettings) -> Result<(), UnitError> {
        let mut smallest: Option<u64> = None;
        for target in &self.strategy.targets {
            let name = &target.0;
            if self.target(name).is_none() {
                continue;
            }
            let Some(rendered) = find_object(self.rendered, "apps", "Deployment", name) else { continue };
            let Some(workload) = self.scene.read_workload(name).await? else {
                self.plan
                    .risks
                    .push(format!("Deployment/{name} is not there yet: the release is deployed as a whole"));
                continue;
            };
            smallest = Some(smallest.map_or(workload.replicas, |known| known.min(workload.replicas)));
            if let Some(scaler) = &workload.autoscaler {
                self.plan.risks.push(format!(
                    "HorizontalPodAutoscaler/{} is kept at a fixed number of replicas during the rollout",
                    scaler.name
                ));
            }
            self.check_name_is_free(&canary_name(name)).await?;
            if settings.provider == TrafficProvider::Replicas {
                self.check_weights(settings, name, workload.replicas);
                self.check_budgets(rendered).await?;
            } else {
                let found = find_service(self.rendered, settings.service.as_deref(), rendered);
                let route = found.map(|service| TrafficRoute::new(settings.provider, service.clone()));
                let checked = match route {
                    Ok(route) => route.baselines(&self.scene).await.map(drop),
                    Err(error) => Err(error),
                };
                self.keep_problems(checked)?;
            }
            self.tell_shared_changes(rendered).await?;
        }
        let provider = settings.provider;
        let effective = |weight: u8| {
            let split = split_of(settings, smallest?, weight);
            let (canary, stable) = (split.canary, split.stable);
            Some(match provider {
                TrafficProvider::Replicas => EffectiveWeight {
                    weight: split.effective_weight(),
                    text: format!("{canary} new and {stable} old pods"),
                },
                _ => EffectiveWeight {
                    weight: f64::from(weight),
                    text: format!("{canary} new pods beside {stable}"),
                },
            })
        };
        self.add_steps(effective, &[]);
        Ok(())
    }

    fn check_weights(&mut self, settings: &CanarySettings, name: &str, replicas: u64) {
        let weights = self.strategy.steps().into_iter().filter_map(|step| match step.action {
            StepAction::Weight(weight) => Some(weight),
            _ => None,
        });
        for weight in weights.collect::<Vec<u8>>() {
            let split = split_of(settings, replicas, weight);
            if split.weight_error(weight) > f64::from(settings.max_weight_error) {
                let message = format!(
                    "weight {weight} of Deployment/{name} with {replicas} replicas would be {:.0}%: more than {} points off",
                    split.effective_weight(),
                    settings.max_weight_error
                );
                self.report(message, "use more replicas, a larger `maxWeightError`, or `provider: gateway-api` or `nginx-ingress`");
            }
        }
    }

    /// A disruption budget counts the pods of both versions as one set, and blocks evictions of either.
    async fn check_budgets(&mut self, deployment: &Value) -> Result<(), UnitError> {
        let template = &deployment["spec"]["template"];
        for budget in self.scene.list(&Gvk::new("policy", "v1", "PodDisruptionBudget"), "").await? {
            let selector = LabelSelector::from_object(&budget["spec"]["selector"]).ok().flatten();
            if selector.is_some_and(|selector| selector.matches_object(template)) {
                let message = format!(
                    "PodDisruptionBudget/{} covers the pods of Deployment/{}: a canary by replicas would count against it",
                    name_of(&budget),
                    name_of(deployment)
                );
                self.report(message, "use `provider: gateway-api` or `nginx-ingress`");
            }
        }
        Ok(())
    }

    /// A Deployment of the rollout's name that is not its own belongs to another tool.
    async fn check_name_is_free(&mut self, name: &str) -> Result<(), UnitError> {
        let live = self.scene.cluster.get(&self.scene.deployment(name)).await?;
        if live.is_some_and(|live| live["metadata"]["labels"].get(OWNED_BY_RUN).is_none()) {
            self.report(
                format!("Deployment/{name} is there and belongs to somebody else"),
                "is another tool rolling this workload out? remove it first",
            );
        }
        Ok(())
    }

    /// Old pods read the new content of what both versions share.
    async fn tell_shared_changes(&mut self, deployment: &Value) -> Result<(), UnitError> {
        for needed in needed_objects(deployment) {
            if !matches!(needed.kind, "ConfigMap" | "Secret") {
                continue;
            }
            let Some(rendered) = find_object(self.rendered, "", needed.kind, &needed.name) else { continue };
            let at = self.scene.place("", "v1", needed.kind, &needed.name);
            let Some(live) = self.scene.cluster.get(&at).await? else { continue };
            if needed.kind == "ConfigMap" && live["data"] != rendered["data"] {
                self.plan.risks.push(format!(
                    "{}/{} is shared by both versions and changes with the promotion: the canary runs with the old content",
                    needed.kind, needed.name
                ));
            }
        }
        Ok(())
    }

    async fn plan_blue_green(&mut self, settings: &BlueGreenSettings) -> Result<(), UnitError> {
        let name = self.strategy.targets.first().map(|target| target.0.clone()).unwrap_or_default();
        if self.target(&name).is_none() {
            return Ok(());
        }
        if !is_selected(self.rendered, &settings.service, &name) {
            let message = format!(
                "no Service `{}` of the unit selects the pods of Deployment `{name}`",
                settings.service
            );
            self.report(message, "`bluegreen.service` is the Service in front of the target");
            return Ok(());
        }
        let live = self.scene.cluster.get(&self.scene.service(&settings.service)).await?;
        let before = live.as_ref().map(|live| ServiceBaseline {
            name: settings.service.clone(),
            selector: live.pointer("/spec/selector").and_then(Value::as_object).cloned().unwrap_or_default(),
        });
        let color = next_color(before.as_ref());
        let new = colored_name(&name, color);
        let mut colors = vec![new.clone()];
        if let Some(service) = &before {
            if self.scene.cluster.get(&self.scene.deployment(&name)).await?.is_some() {
                self.plan.risks.push(format!(
                    "Deployment/{name} has no color yet: it counts as the old one and is removed after the delay"
                ));
                colors.push(name.clone());
            } else {
                colors.push(colored_name(&name, if color == "green" { "blue" } else { "green" }));
            }
            self.check_name_is_free(&new).await?;
            if let Some(rendered) = find_object(self.rendered, "apps", "Deployment", &name) {
                self.problems.extend(self.scene.check_quota(rendered, service).await?);
            }
        }
        let colors: Vec<&str> = colors.iter().map(String::as_str).collect();
        self.add_steps(|_| None, &colors);
        Ok(())
    }

    /// Keeps what is wrong with the strategy; anything else ends planning.
    fn keep_problems(&mut self, checked: Result<(), UnitError>) -> Result<(), UnitError> {
        match checked {
            Err(UnitError::Problems(problems)) => {
                self.problems.extend(problems);
                Ok(())
            }
            other => other,
        }
    }
}
