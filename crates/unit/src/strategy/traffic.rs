//! Traffic split by something other than replicas: routes of the Gateway API, canary Ingresses of NGINX.

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

    fn service_name(&self) -> &str {
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
        scene.apply(&scene.service(name_of(&made)), &made).await
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
            !is_ours && mentions_service(&route["spec"], self.service_name())
        });
        if found.is_empty() {
            let problem =
                Problem::error(format!("no {} leads to Service `{}`", kind.kind, self.service_name()));
            return Err(problem.hint("create one, or use `provider: replicas`").into());
        }
        for route in &found {
            refuse_foreign_weights(route, &kind.kind)?;
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

    /// Sends a share of the traffic to the canary's Service.
    pub(crate) async fn set_weight(
        &self,
        scene: &Scene<'_>,
        owner: ObjectOwner<'_>,
        baseline: &Baseline,
        weight: u8,
    ) -> Result<(), UnitError> {
        for route in self.routes(scene).await? {
            let name = name_of(&route);
            if self.provider == TrafficProvider::GatewayApi {
                let before = baseline.routes.iter().find(|known| known.name == name);
                let before = before.map_or(&route["spec"]["rules"], |known| &known.rules);
                let rules = weighted_rules(before, self.service_name(), weight);
                let at = scene.place("gateway.networking.k8s.io", "v1", "HTTPRoute", name);
                scene.merge(&at, json!({"spec": {"rules": rules}})).await?;
            } else {
                let made = canary_ingress(&route, owner, self.service_name(), weight);
                let at = scene.place("networking.k8s.io", "v1", "Ingress", name_of(&made));
                if let Some(live) = scene.cluster.get(&at).await?
                    && live["metadata"]["labels"].get(OWNED_BY_RUN).is_none()
                {
                    return Err(UnitError::problem(format!("{at} belongs to somebody else")));
                }
                scene.apply(&at, &made).await?;
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

/// Tells whether a part of an object names a Service as a backend.
fn mentions_service(value: &Value, service: &str) -> bool {
    match value {
        Value::Object(map) => {
            let is_backend = |key: &String, value: &Value| match key.as_str() {
                "backendRefs" => {
                    value.as_array().into_iter().flatten().any(|backend| is_service(backend, service))
                }
                "service" => value["name"] == service,
                _ => false,
            };
            map.iter().any(|(key, value)| is_backend(key, value) || mentions_service(value, service))
        }
        Value::Array(items) => items.iter().any(|item| mentions_service(item, service)),
        _ => false,
    }
}

fn is_service(backend: &Value, service: &str) -> bool {
    backend["name"] == service && backend["kind"].as_str().is_none_or(|kind| kind == "Service")
}

/// Refuses a route that another controller steers.
fn refuse_foreign_weights(route: &Value, kind: &str) -> Result<(), UnitError> {
    let managers = route["metadata"]["managedFields"].as_array().into_iter().flatten();
    let owns_rules = |entry: &&Value| {
        entry.pointer("/fieldsV1/f:spec/f:rules").is_some()
            || entry
                .pointer(&format!("/fieldsV1/f:metadata/f:annotations/f:{}", NGINX_WEIGHT.replace('/', "~1")))
                .is_some()
    };
    for entry in managers.filter(owns_rules) {
        let manager = entry["manager"].as_str().unwrap_or_default();
        let is_harmless =
            HARMLESS_MANAGERS.iter().any(|known| manager == *known || manager.starts_with("kubectl-"));
        if !is_harmless {
            let problem = Problem::error(format!(
                "the weights of {kind}/{} belong to `{manager}`: two controllers must not steer one route",
                name_of(route)
            ));
            return Err(problem.hint("stop the other controller, or use `provider: replicas`").into());
        }
    }
    Ok(())
}

/// Rules with a share of one Service's traffic for its canary; other backends keep their proportion.
fn weighted_rules(rules: &Value, service: &str, weight: u8) -> Value {
    let mut rules = rules.clone();
    for rule in rules.as_array_mut().into_iter().flatten() {
        let Some(backends) = rule.get_mut("backendRefs").and_then(Value::as_array_mut) else { continue };
        if !backends.iter().any(|backend| is_service(backend, service)) {
            continue;
        }
        let mut canaries = Vec::new();
        for backend in backends.iter_mut() {
            let own = backend["weight"].as_u64().unwrap_or(1);
            if is_service(backend, service) {
                let mut canary = backend.clone();
                canary["name"] = json!(canary_name(service));
                canary["weight"] = json!(own * u64::from(weight));
                canaries.push(canary);
                backend["weight"] = json!(own * u64::from(100 - weight.min(100)));
            } else {
                backend["weight"] = json!(own * 100);
            }
        }
        backends.extend(canaries);
    }
    rules
}

/// The Ingress that sends a share of the traffic to the canary.
fn canary_ingress(ingress: &Value, owner: ObjectOwner<'_>, service: &str, weight: u8) -> Value {
    let mut made = owner.object("networking.k8s.io/v1", "Ingress", &canary_name(name_of(ingress)));
    let annotations = ingress["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    let kept = annotations.into_iter().filter(|(key, _)| key.starts_with("nginx.ingress.kubernetes.io/"));
    made["metadata"]["annotations"] = Value::Object(kept.collect());
    set_entry(&mut made["metadata"]["annotations"], NGINX_CANARY, "true");
    set_entry(&mut made["metadata"]["annotations"], NGINX_WEIGHT, &weight.to_string());
    let spec = &ingress["spec"];
    made["spec"] = json!({"rules": spec["rules"]});
    if let Some(class) = spec["ingressClassName"].as_str() {
        made["spec"]["ingressClassName"] = json!(class);
    }
    for rule in made["spec"]["rules"].as_array_mut().into_iter().flatten() {
        for path in rule["http"]["paths"].as_array_mut().into_iter().flatten() {
            if path["backend"]["service"]["name"] == service {
                path["backend"]["service"]["name"] = json!(canary_name(service));
            }
        }
    }
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_backends_keep_their_proportion() {
        let rules = json!([
            {"backendRefs": [{"name": "api", "port": 80}, {"name": "other", "weight": 3}]},
            {"backendRefs": [{"name": "unrelated"}]},
        ]);
        assert_eq!(
            weighted_rules(&rules, "api", 10),
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
