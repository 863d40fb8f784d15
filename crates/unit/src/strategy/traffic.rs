//! Traffic split by something other than replicas: routes of the Gateway API, canary Ingresses of NGINX.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use slipway_manifest::{Gvk, object};
use slipway_problem::Problem;
use slipway_source::RenderedSource;

use super::baseline::{Baseline, RouteBaseline};
use super::canary::name_of;
use super::labels::{MANAGER, OWNED_BY_RUN, set_entry};
use super::objects::{ObjectOwner, canary_name, canary_service};
use super::rollout::Scene;
use super::settings::TrafficProvider;
use super::target::selects;
use crate::error::UnitError;

/// Managers that may own the rules of a route beside us: tools people and releases use.
const HARMLESS_MANAGERS: [&str; 4] = [MANAGER, "helm", "slipway", "kubectl"];
const NGINX_CANARY: &str = "nginx.ingress.kubernetes.io/canary";
const NGINX_WEIGHT: &str = "nginx.ingress.kubernetes.io/canary-weight";

/// The largest weight the Gateway API allows.
const LARGEST_WEIGHT: u64 = 1_000_000;

/// The split of one Service's traffic.
pub(crate) struct TrafficRoute {
    provider: TrafficProvider,
    /// The Service of the old pods.
    service: Value,
}

/// Finds the Service whose traffic is split.
pub(crate) fn find_service<'r>(
    rendered: &'r RenderedSource,
    named: Option<&str>,
    deployment: &Value,
) -> Result<&'r Value, UnitError> {
    let services = rendered.documents.iter().map(|document| &document.object).filter(|candidate| {
        let gvk = object::gvk(candidate);
        gvk.group.is_empty() && gvk.kind == "Service" && selects(candidate, deployment)
    });
    let all: Vec<&Value> =
        services.filter(|service| named.is_none_or(|name| name_of(service) == name)).collect();
    let target = name_of(deployment);
    match (all.as_slice(), named) {
        ([service], _) => Ok(service),
        ([], Some(name)) => Err(UnitError::problem(format!(
            "no Service `{name}` of the unit selects the pods of Deployment `{target}`"
        ))),
        ([], None) => Err(UnitError::problem(format!(
            "no Service of the unit selects the pods of Deployment `{target}`"
        ))),
        (several, _) => {
            let names: Vec<&str> = several.iter().map(|service| name_of(service)).collect();
            let problem = Problem::error(format!(
                "several Services select the pods of Deployment `{target}`: {}",
                names.join(", ")
            ));
            Err(problem.hint("name one with `canary.service`").into())
        }
    }
}

fn route_kind() -> Gvk {
    Gvk::new("gateway.networking.k8s.io", "v1", "HTTPRoute")
}

fn ingress_kind() -> Gvk {
    Gvk::new("networking.k8s.io", "v1", "Ingress")
}

impl TrafficRoute {
    pub(crate) fn new(provider: TrafficProvider, service: Value) -> Self {
        Self { provider, service }
    }

    pub(crate) fn service_name(&self) -> &str {
        name_of(&self.service)
    }

    /// The selector of the old pods, which those of the canary must not fit.
    pub(crate) fn selector(&self) -> &Map<String, Value> {
        static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
        self.service.pointer("/spec/selector").and_then(Value::as_object).unwrap_or(&EMPTY)
    }

    pub(crate) async fn create_service(
        &self,
        scene: &Scene<'_>,
        owner: ObjectOwner<'_>,
    ) -> Result<(), UnitError> {
        let made = canary_service(&self.service, owner, self.selector());
        scene.apply_own(&scene.service(name_of(&made)), &made).await
    }

    /// The routes that lead to the Service; refuses those whose weights somebody else sets.
    async fn routes(&self, scene: &Scene<'_>) -> Result<Vec<Value>, UnitError> {
        let kind = match self.provider {
            TrafficProvider::GatewayApi => route_kind(),
            TrafficProvider::NginxIngress | TrafficProvider::Replicas => ingress_kind(),
        };
        let mut found = scene.list(&kind, "").await?;
        found.retain(|route| {
            let is_ours = route["metadata"]["labels"].get(OWNED_BY_RUN).is_some();
            !is_ours && mentions_service(&route["spec"], Backend::new(scene, self.service_name()))
        });
        if found.is_empty() {
            let problem =
                Problem::error(format!("no {} leads to Service `{}`", kind.kind, self.service_name()));
            return Err(problem.hint("create one, or use `provider: replicas`").into());
        }
        for route in &found {
            match self.provider {
                TrafficProvider::GatewayApi => refuse_foreign_weights(route)?,
                TrafficProvider::NginxIngress | TrafficProvider::Replicas => refuse_canary_ingress(route)?,
            }
        }
        Ok(found)
    }

    /// Remembers the routes whose rules are changed; checks that they may be.
    pub(crate) async fn baselines(&self, scene: &Scene<'_>) -> Result<Vec<RouteBaseline>, UnitError> {
        let routes = self.routes(scene).await?;
        if self.provider != TrafficProvider::GatewayApi {
            return Ok(Vec::new());
        }
        let baseline = |route: &Value| RouteBaseline {
            name: name_of(route).to_owned(),
            rules: route["spec"]["rules"].clone(),
        };
        Ok(routes.iter().map(baseline).collect())
    }

    /// Sends a share of the traffic to the canary's Service. A route may lead to several Services of the rollout: those in
    /// `split` get their shares together.
    pub(crate) async fn set_weight(
        &self,
        scene: &Scene<'_>,
        owner: ObjectOwner<'_>,
        baseline: &Baseline,
        split: &BTreeSet<String>,
        weight: u8,
    ) -> Result<(), UnitError> {
        for route in self.routes(scene).await? {
            let name = name_of(&route);
            if self.provider == TrafficProvider::GatewayApi {
                // A route that came later leads to the old pods alone, and is left as it is.
                let Some(before) = baseline.routes.iter().find(|known| known.name == name) else { continue };
                let rules = split.iter().fold(before.rules.clone(), |rules, service| {
                    weighted_rules(rules, Backend::new(scene, service), weight)
                });
                let at = scene.place("gateway.networking.k8s.io", "v1", "HTTPRoute", name);
                scene.merge(&at, json!({"spec": {"rules": rules}})).await?;
            } else {
                let made = canary_ingress(&route, owner, split, weight);
                let at = scene.place("networking.k8s.io", "v1", "Ingress", name_of(&made));
                scene.apply_own(&at, &made).await?;
            }
        }
        Ok(())
    }
}

impl Scene<'_> {
    /// Gives a route its rules back, if it has others.
    pub(crate) async fn restore_route(&self, route: &RouteBaseline) -> Result<(), UnitError> {
        let at = self.place("gateway.networking.k8s.io", "v1", "HTTPRoute", &route.name);
        let Some(live) = self.cluster.get(&at).await? else { return Ok(()) };
        if live["spec"]["rules"] != route.rules {
            self.merge(&at, json!({"spec": {"rules": route.rules}})).await?;
        }
        Ok(())
    }
}

/// A Service that routes lead to.
#[derive(Clone, Copy)]
struct Backend<'a> {
    service: &'a str,
    namespace: &'a str,
}

impl<'a> Backend<'a> {
    fn new(scene: &'a Scene<'_>, service: &'a str) -> Self {
        Self { service, namespace: scene.namespace }
    }

    /// Tells that a reference of a route means the Service: a Service of its name elsewhere is another one.
    fn is_meant_by(self, reference: &Value) -> bool {
        let is =
            |field: &str, expected: &str| reference[field].as_str().is_none_or(|found| found == expected);
        reference["name"] == self.service
            && is("kind", "Service")
            && is("group", "")
            && is("namespace", self.namespace)
    }
}

/// Tells whether a part of an object names a Service as a backend.
fn mentions_service(value: &Value, backend: Backend<'_>) -> bool {
    match value {
        Value::Object(map) => {
            let is_backend = |key: &String, value: &Value| match key.as_str() {
                "backendRefs" => {
                    value.as_array().into_iter().flatten().any(|reference| backend.is_meant_by(reference))
                }
                "service" => value["name"] == backend.service,
                _ => false,
            };
            map.iter().any(|(key, value)| is_backend(key, value) || mentions_service(value, backend))
        }
        Value::Array(items) => items.iter().any(|item| mentions_service(item, backend)),
        _ => false,
    }
}

/// Refuses an Ingress that is a canary already: the controller knows one for each path.
fn refuse_canary_ingress(ingress: &Value) -> Result<(), UnitError> {
    if ingress["metadata"]["annotations"][NGINX_CANARY] != "true" {
        return Ok(());
    }
    let problem = Problem::error(format!(
        "Ingress/{} is a canary of somebody else: two must not split the traffic of one Service",
        name_of(ingress)
    ));
    Err(problem.hint("stop the other rollout, or use `provider: replicas`").into())
}

/// Refuses a route that another controller steers.
fn refuse_foreign_weights(route: &Value) -> Result<(), UnitError> {
    let managers = route["metadata"]["managedFields"].as_array().into_iter().flatten();
    let owns_rules = |entry: &&Value| entry.pointer("/fieldsV1/f:spec/f:rules").is_some();
    for entry in managers.filter(owns_rules) {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let is_harmless =
            HARMLESS_MANAGERS.iter().any(|known| manager == *known || manager.starts_with("kubectl-"));
        if !is_harmless {
            let problem = Problem::error(format!(
                "the weights of HTTPRoute/{} belong to `{manager}`: two controllers must not steer one route",
                name_of(route)
            ));
            return Err(problem.hint("stop the other controller, or use `provider: replicas`").into());
        }
    }
    Ok(())
}

/// Rules with a share of one Service's traffic for its canary; other backends keep their proportion.
fn weighted_rules(mut rules: Value, service: Backend<'_>, weight: u8) -> Value {
    for rule in rules.as_array_mut().into_iter().flatten() {
        let Some(backends) = rule.get_mut("backendRefs").and_then(Value::as_array_mut) else { continue };
        if !backends.iter().any(|backend| service.is_meant_by(backend)) {
            continue;
        }
        let mut canaries = Vec::new();
        for backend in backends.iter_mut() {
            let own = backend["weight"].as_u64().unwrap_or(1);
            if service.is_meant_by(backend) {
                let mut canary = backend.clone();
                canary["name"] = json!(canary_name(service.service));
                canary["weight"] = json!(own * u64::from(weight));
                canaries.push(canary);
                backend["weight"] = json!(own * u64::from(100 - weight.min(100)));
            } else {
                backend["weight"] = json!(own * 100);
            }
        }
        backends.extend(canaries);
        limit_weights(backends);
    }
    rules
}

/// Makes weights small enough for the server; a backend with traffic keeps some.
fn limit_weights(backends: &mut [Value]) {
    let weight_of = |backend: &Value| backend["weight"].as_u64().unwrap_or_default();
    let largest = backends.iter().map(weight_of).max().unwrap_or_default();
    if largest > LARGEST_WEIGHT {
        for backend in backends {
            let weight = weight_of(backend);
            backend["weight"] = json!((weight * LARGEST_WEIGHT / largest).max(weight.min(1)));
        }
    }
}

/// The Ingress that sends a share of the traffic to canaries: with the paths to their Services and no others.
fn canary_ingress(ingress: &Value, owner: ObjectOwner<'_>, split: &BTreeSet<String>, weight: u8) -> Value {
    let mut made = owner.object("networking.k8s.io/v1", "Ingress", &canary_name(name_of(ingress)));
    let annotations = ingress["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let kept = annotations.into_iter().filter(|(key, _)| key.starts_with("nginx.ingress.kubernetes.io/"));
    made["metadata"]["annotations"] = Value::Object(kept.collect());
    set_entry(&mut made["metadata"]["annotations"], NGINX_CANARY, "true");
    set_entry(&mut made["metadata"]["annotations"], NGINX_WEIGHT, &weight.to_string());
    let spec = &ingress["spec"];
    made["spec"] = json!({});
    if let Some(class) = spec["ingressClassName"].as_str() {
        made["spec"]["ingressClassName"] = json!(class);
    }
    let canary_backend = |backend: &Value| {
        let service = backend["service"]["name"].as_str().filter(|name| split.contains(*name))?;
        let mut backend = backend.clone();
        backend["service"]["name"] = json!(canary_name(service));
        Some(backend)
    };
    if let Some(backend) = canary_backend(&spec["defaultBackend"]) {
        made["spec"]["defaultBackend"] = backend;
    }
    let mut rules = Vec::new();
    for rule in spec["rules"].as_array().into_iter().flatten() {
        let paths = rule["http"]["paths"].as_array().into_iter().flatten().filter_map(|path| {
            let mut made = path.clone();
            made["backend"] = canary_backend(&path["backend"])?;
            Some(made)
        });
        let paths: Vec<Value> = paths.collect();
        if !paths.is_empty() {
            let mut rule = rule.clone();
            rule["http"]["paths"] = json!(paths);
            rules.push(rule);
        }
    }
    if !rules.is_empty() {
        made["spec"]["rules"] = json!(rules);
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    const API: Backend<'_> = Backend { service: "api", namespace: "shop" };

    #[test]
    fn services_of_the_same_name_elsewhere_are_others() {
        for (reference, is_meant) in [
            (json!({"name": "api"}), true),
            (json!({"name": "api", "group": "", "kind": "Service", "namespace": "shop"}), true),
            (json!({"name": "api", "namespace": "other"}), false),
            (json!({"name": "api", "group": "multicluster.x-k8s.io", "kind": "ServiceImport"}), false),
            (json!({"name": "other"}), false),
        ] {
            assert_eq!(API.is_meant_by(&reference), is_meant, "{reference}");
        }
    }

    #[test]
    fn weights_stay_below_the_largest_the_server_takes() {
        let rules = json!([{"backendRefs": [
            {"name": "api", "weight": 500_000}, {"name": "other", "weight": 1_000_000}, {"name": "little", "weight": 1},
            {"name": "off", "weight": 0},
        ]}]);
        let weighted = weighted_rules(rules, API, 10);
        let weights: Vec<u64> = weighted[0]["backendRefs"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|backend| backend["weight"].as_u64())
            .collect();
        assert_eq!(weights, [450_000, 1_000_000, 1, 0, 50_000]);
    }

    #[test]
    fn a_canary_ingress_has_the_paths_to_the_canaries_alone() {
        let path = |path: &str, service: &str| json!({"path": path, "pathType": "Prefix", "backend": {"service": {"name": service, "port": {"number": 80}}}});
        let ingress = json!({"metadata": {"name": "all"}, "spec": {
            "ingressClassName": "nginx",
            "defaultBackend": {"service": {"name": "api", "port": {"number": 80}}},
            "rules": [
                {"host": "a.example", "http": {"paths": [path("/", "api"), path("/web", "web"), path("/docs", "docs")]}},
                {"host": "b.example"},
                {"host": "c.example", "http": {"paths": [path("/", "docs")]}},
            ],
        }});
        let owner = ObjectOwner { run: "r", release: "demo", namespace: "shop" };
        let made = canary_ingress(&ingress, owner, &["api", "web"].map(str::to_owned).into(), 10);
        assert_eq!(
            made["spec"],
            json!({
                "ingressClassName": "nginx",
                "defaultBackend": {"service": {"name": "api-canary", "port": {"number": 80}}},
                "rules": [
                    {"host": "a.example", "http": {"paths": [path("/", "api-canary"), path("/web", "web-canary")]}},
                ],
            })
        );
    }

    #[test]
    fn other_backends_keep_their_proportion() {
        let rules = json!([
            {"backendRefs": [{"name": "api", "port": 80}, {"name": "other", "weight": 3}]},
            {"backendRefs": [{"name": "unrelated"}]},
        ]);
        assert_eq!(
            weighted_rules(rules, API, 10),
            json!([
                {"backendRefs": [
                    {"name": "api", "port": 80, "weight": 90},
                    {"name": "other", "weight": 300},
                    {"name": "api-canary", "port": 80, "weight": 10},
                ]},
                {"backendRefs": [{"name": "unrelated"}]},
            ])
        );
    }
}
