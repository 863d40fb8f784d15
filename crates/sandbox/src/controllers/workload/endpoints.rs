//! Services: the endpoints and endpoint slices that follow their pods.

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::budget::Selectors;
use super::common::*;
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::{Event, Key};

const SLICES: &str = "endpointslices.discovery.k8s.io";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const HEADLESS: &str = "service.kubernetes.io/headless";
const SERVICE: &str = "kubernetes.io/service-name";
const SLICE_MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
const MIRROR_MANAGER: &str = "endpoints.kubernetes.io/managed-by";
/// A service annotation that gives a load balancer its address; `none` leaves it waiting for one.
const BALANCER: &str = "sim/load-balancer";
/// Endpoints per slice.
const FULL: usize = 100;

pub(super) struct Endpoints {
    services: Selectors,
}

impl Default for Endpoints {
    fn default() -> Endpoints {
        Endpoints { services: Selectors::new("services", |s| Some(Labels::of_map(&s["spec"]["selector"]))) }
    }
}

impl Controller for Endpoints {
    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        self.services.observe(event, queue);
        if &*event.table == SLICES
            && let Some(service) = event.object.label(SERVICE)
        {
            queue.push(Item::new("services", event.object.namespace(), service));
        }
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let (space, called) = (&*item.key.namespace, &*item.key.name);
        let Some(service) = cluster.get("services", space, called) else {
            let mirror = cluster.object("endpoints", &item.key);
            if mirror.is_some_and(|m| m.label(MIRROR_MANAGER).is_some()) {
                cluster.delete("endpoints", &item.key, &crate::write::delete::DeleteOptions::default())?;
            }
            return Ok(Next::Done);
        };
        balance(&service, cluster)?;
        let selector = &service["spec"]["selector"];
        let selects = selector.as_object().is_some_and(|s| !s.is_empty());
        if !selects || service["spec"]["type"] == "ExternalName" || deleting(&service) {
            return Ok(Next::Done);
        }
        let mut pods = cluster.select("pods", space, &Labels::of_map(selector));
        pods.retain(|p| !is_finished(p) && !text(p, "/status/podIP").is_empty());
        pods.sort_by(|a, b| name(a).cmp(name(b)));
        let (service, pods) = (&service, pods.as_slice());
        slices(service, pods, cluster)?;
        mirror(service, pods, cluster)?;
        Ok(Next::Done)
    }
}

/// Gives a load balancer the address its annotation names.
fn balance(service: &Value, cluster: &Cluster) -> Result<()> {
    if service["spec"]["type"] != "LoadBalancer" {
        return Ok(());
    }
    let address = match annotation(service, BALANCER) {
        Some("none") => return Ok(()),
        Some(address) => address.to_owned(),
        None => {
            let key = key(service);
            let number = crate::ids::fnv32a(format!("{}/{}", key.namespace, key.name).as_bytes());
            format!("172.18.255.{}", 1 + number % 250)
        }
    };
    if list(service, "/status/loadBalancer/ingress").is_empty() {
        cluster.update_status("services", &key(service), MANAGER, |value| {
            value["status"]["loadBalancer"]["ingress"] = json!([{"ip": address, "ipMode": "VIP"}]);
        })?;
    }
    Ok(())
}

/// The ports of a service as its pods open them.
fn ports(service: &Value, pods: &[Value]) -> Vec<Value> {
    let mut out = Vec::new();
    for port in list(service, "/spec/ports") {
        let number = match &port["targetPort"] {
            Value::String(wanted) => pods
                .iter()
                .flat_map(|p| list(p, "/spec/containers"))
                .flat_map(|c| list(c, "/ports"))
                .find(|p| p["name"] == wanted.as_str())
                .and_then(|p| p["containerPort"].as_i64()),
            Value::Number(number) => number.as_i64().filter(|n| *n > 0),
            _ => None,
        }
        .or_else(|| port["port"].as_i64().filter(|_| !port["targetPort"].is_string()));
        let Some(number) = number else { continue };
        let mut made = json!({
            "name": port["name"].as_str().unwrap_or(""),
            "protocol": port["protocol"].as_str().unwrap_or("TCP"),
            "port": number,
        });
        if let Some(protocol) = port.get("appProtocol") {
            made["appProtocol"] = protocol.clone();
        }
        out.push(made);
    }
    out
}

fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod)})
}

fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIP"] == "None"
}

fn labels(service: &Value) -> serde_json::Map<String, Value> {
    let mut labels = service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    if is_headless(service) {
        labels.insert(HEADLESS.into(), "".into());
    } else {
        labels.shift_remove(HEADLESS);
    }
    labels
}

fn slices(service: &Value, pods: &[Value], cluster: &Cluster) -> Result<()> {
    let publish = service["spec"]["publishNotReadyAddresses"] == true;
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let (serving, going) = (is_ready(pod), deleting(pod));
            let mut endpoint = json!({
                "addresses": [pod["status"]["podIP"]],
                "conditions": {
                    "ready": publish || (serving && !going), "serving": serving, "terminating": going,
                },
                "targetRef": target(pod),
                "nodeName": pod["spec"]["nodeName"],
            });
            if pod["spec"]["hostname"].is_string() && pod["spec"]["subdomain"] == *name(service) {
                endpoint["hostname"] = pod["spec"]["hostname"].clone();
            }
            endpoint
        })
        .collect();
    let ports = if pods.is_empty() { Value::Null } else { ports(service, pods).into() };
    let mut wanted: Vec<Value> = endpoints.chunks(FULL).map(|c| json!(c)).collect();
    if wanted.is_empty() {
        wanted.push(Value::Null);
    }
    let mut labels = labels(service);
    labels.insert(SLICE_MANAGER.into(), "endpointslice-controller.k8s.io".into());
    labels.insert(SERVICE.into(), name(service).into());
    let mut known = cluster.owned(SLICES, namespace(service), uid(service));
    known.retain(|s| !deleting(s));
    known.sort_by(|a, b| name(a).cmp(name(b)));
    let now = cluster.timestamp();
    for (index, endpoints) in wanted.iter().enumerate() {
        let Some(slice) = known.get(index) else {
            let mut made = json!({
                "metadata": {
                    "generateName": format!("{}-", name(service)),
                    "labels": labels,
                    "ownerReferences": [owner_reference(service)],
                },
                "addressType": "IPv4",
                "endpoints": endpoints,
                "ports": ports,
            });
            if !endpoints.is_null() {
                made["metadata"]["annotations"][TRIGGER] = now.as_str().into();
            }
            cluster.create(SLICES, namespace(service), made, MANAGER)?;
            continue;
        };
        let none = |v: &Value| v.as_array().is_none_or(Vec::is_empty);
        let same = |a: &Value, b: &Value| a == b || (none(a) && none(b));
        if same(&slice["endpoints"], endpoints)
            && same(&slice["ports"], &ports)
            && slice["metadata"]["labels"] == Value::Object(labels.clone())
        {
            continue;
        }
        cluster.update(SLICES, &key(slice), MANAGER, |value| {
            value["endpoints"] = endpoints.clone();
            value["ports"] = ports.clone();
            value["metadata"]["labels"] = labels.clone().into();
            slipway_manifest::object::set_annotation(value, TRIGGER, &now);
        })?;
    }
    for slice in known.iter().skip(wanted.len()) {
        remove(cluster, SLICES, slice)?;
    }
    Ok(())
}

/// The older form of the same.
fn mirror(service: &Value, pods: &[Value], cluster: &Cluster) -> Result<()> {
    let publish = service["spec"]["publishNotReadyAddresses"] == true;
    let (mut ready, mut unready) = (Vec::new(), Vec::new());
    for pod in pods.iter().filter(|p| !deleting(p)) {
        let address = json!({
            "ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target(pod),
        });
        if publish || is_ready(pod) { ready.push(address) } else { unready.push(address) }
    }
    let mut subsets = Value::Null;
    if !ready.is_empty() || !unready.is_empty() {
        let mut subset = json!({});
        if !ready.is_empty() {
            subset["addresses"] = ready.into();
        }
        if !unready.is_empty() {
            subset["notReadyAddresses"] = unready.into();
        }
        let mut open = ports(service, pods);
        for port in &mut open {
            if port["name"] == ""
                && let Some(port) = port.as_object_mut()
            {
                port.shift_remove("name");
            }
        }
        if !open.is_empty() {
            subset["ports"] = open.into();
        }
        subsets = json!([subset]);
    }
    let mut labels = labels(service);
    labels.insert(MIRROR_MANAGER.into(), "endpoint-controller".into());
    let place = Key::new(namespace(service), name(service));
    let now = cluster.timestamp();
    let Some(known) = cluster.get("endpoints", namespace(service), name(service)) else {
        let mut made = json!({"metadata": {"name": name(service), "labels": labels}});
        if !subsets.is_null() {
            made["subsets"] = subsets;
            made["metadata"]["annotations"][TRIGGER] = now.into();
        }
        cluster.create("endpoints", namespace(service), made, MANAGER)?;
        return Ok(());
    };
    if label(&known, MIRROR_MANAGER).is_some()
        && known.get("subsets").unwrap_or(&Value::Null) == &subsets
        && known["metadata"]["labels"] == Value::Object(labels.clone())
    {
        return Ok(());
    }
    cluster.update("endpoints", &place, MANAGER, |value| {
        match (&subsets, value.as_object_mut()) {
            (Value::Null, Some(members)) => {
                members.shift_remove("subsets");
            }
            _ => value["subsets"] = subsets.clone(),
        }
        value["metadata"]["labels"] = labels.clone().into();
        slipway_manifest::object::set_annotation(value, TRIGGER, &now);
    })?;
    Ok(())
}
