//! Services: the endpoints and endpoint slices that follow their pods.

use serde_json::{Value, json};

use super::super::{ClusterHandle, Controller, NextReconcile, WorkItem, WorkQueue};
use super::budget::SelectorIndex;
use super::common::*;
use crate::api::select::LabelFilter;
use crate::status::Result;
use crate::store::{ObjectKey, StoreEvent};

const SLICES: &str = "endpointslices.discovery.k8s.io";
const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
const HEADLESS: &str = "service.kubernetes.io/headless";
const SERVICE: &str = "kubernetes.io/service-name";
const SLICE_MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
pub(super) const MIRROR_MANAGER: &str = "endpoints.kubernetes.io/managed-by";
/// A service annotation that gives a load balancer its address; `none` leaves it waiting for one.
const BALANCER: &str = "sim/load-balancer";
/// Endpoints per slice.
const FULL: usize = 100;

pub(super) struct EndpointsController {
    services: SelectorIndex,
}

impl Default for EndpointsController {
    fn default() -> EndpointsController {
        EndpointsController {
            services: SelectorIndex::new("services", |s| Some(LabelFilter::of_map(&s["spec"]["selector"]))),
        }
    }
}

impl Controller for EndpointsController {
    fn name(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn observe_event(&mut self, event: &StoreEvent, _: &ClusterHandle, queue: &mut WorkQueue) {
        self.services.observe_selected(event, queue);
        if &*event.table == SLICES
            && let Some(service) = event.object.label(SERVICE)
        {
            queue.push(WorkItem::new("services", event.object.namespace(), service));
        }
    }

    fn reconcile(&mut self, item: &WorkItem, cluster: &ClusterHandle) -> Result<NextReconcile> {
        let (space, called) = (&*item.key.namespace, &*item.key.name);
        let Some(service) = cluster.get("services", space, called) else {
            let mirror = cluster.stored_object("endpoints", &item.key);
            if mirror.is_some_and(|m| m.label(MIRROR_MANAGER).is_some()) {
                cluster.delete("endpoints", &item.key, &crate::write::delete::DeleteOptions::default())?;
            }
            return Ok(NextReconcile::Done);
        };
        assign_balancer_address(&service, cluster)?;
        let selector = &service["spec"]["selector"];
        let selects = selector.as_object().is_some_and(|s| !s.is_empty());
        if !selects || service["spec"]["type"] == "ExternalName" || is_deleting(&service) {
            return Ok(NextReconcile::Done);
        }
        let mut pods = cluster.select_values("pods", space, &LabelFilter::of_map(selector));
        pods.retain(|p| !is_finished(p) && !text_at(p, "/status/podIP").is_empty());
        pods.sort_by(|a, b| name_of(a).cmp(name_of(b)));
        let (service, pods) = (&service, pods.as_slice());
        sync_slices(service, pods, cluster)?;
        sync_endpoints(service, pods, cluster)?;
        Ok(NextReconcile::Done)
    }
}

/// Gives a load balancer the address its annotation names.
fn assign_balancer_address(service: &Value, cluster: &ClusterHandle) -> Result<()> {
    if service["spec"]["type"] != "LoadBalancer" {
        return Ok(());
    }
    let address = match annotation(service, BALANCER) {
        Some("none") => return Ok(()),
        Some(address) => address.to_owned(),
        None => {
            let key = key_of(service);
            let number = crate::ids::fnv32a(format!("{}/{}", key.namespace, key.name).as_bytes());
            format!("172.18.255.{}", 1 + number % 250)
        }
    };
    if list_at(service, "/status/loadBalancer/ingress").is_empty() {
        cluster.update_status("services", &key_of(service), MANAGER, |value| {
            value["status"]["loadBalancer"]["ingress"] = json!([{"ip": address, "ipMode": "VIP"}]);
        })?;
    }
    Ok(())
}

/// Returns the ports of a service as its pods open them.
fn endpoint_ports(service: &Value, pods: &[Value]) -> Vec<Value> {
    let mut out = Vec::new();
    for port in list_at(service, "/spec/ports") {
        let number = match &port["targetPort"] {
            Value::String(wanted) => pods
                .iter()
                .flat_map(|p| list_at(p, "/spec/containers"))
                .flat_map(|c| list_at(c, "/ports"))
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

fn target_reference(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": namespace_of(pod), "name": name_of(pod), "uid": uid_of(pod)})
}

fn is_headless(service: &Value) -> bool {
    service["spec"]["clusterIP"] == "None"
}

fn slice_labels(service: &Value) -> serde_json::Map<String, Value> {
    let mut labels = service["metadata"]["labels"].as_object().cloned().unwrap_or_default();
    if is_headless(service) {
        labels.insert(HEADLESS.into(), "".into());
    } else {
        labels.shift_remove(HEADLESS);
    }
    labels
}

fn sync_slices(service: &Value, pods: &[Value], cluster: &ClusterHandle) -> Result<()> {
    let publish = service["spec"]["publishNotReadyAddresses"] == true;
    let endpoints: Vec<Value> = pods
        .iter()
        .map(|pod| {
            let (serving, going) = (is_ready(pod), is_deleting(pod));
            let mut endpoint = json!({
                "addresses": [pod["status"]["podIP"]],
                "conditions": {
                    "ready": publish || (serving && !going), "serving": serving, "terminating": going,
                },
                "targetRef": target_reference(pod),
                "nodeName": pod["spec"]["nodeName"],
            });
            if pod["spec"]["hostname"].is_string() && pod["spec"]["subdomain"] == *name_of(service) {
                endpoint["hostname"] = pod["spec"]["hostname"].clone();
            }
            endpoint
        })
        .collect();
    let ports = if pods.is_empty() { Value::Null } else { endpoint_ports(service, pods).into() };
    let mut wanted: Vec<Value> = endpoints.chunks(FULL).map(|c| json!(c)).collect();
    if wanted.is_empty() {
        wanted.push(Value::Null);
    }
    let mut labels = slice_labels(service);
    labels.insert(SLICE_MANAGER.into(), "endpointslice-controller.k8s.io".into());
    labels.insert(SERVICE.into(), name_of(service).into());
    let mut known = cluster.owned_values(SLICES, namespace_of(service), uid_of(service));
    known.retain(|s| !is_deleting(s));
    known.sort_by(|a, b| name_of(a).cmp(name_of(b)));
    let now = cluster.now_text();
    for (index, endpoints) in wanted.iter().enumerate() {
        let Some(slice) = known.get(index) else {
            let mut made = json!({
                "metadata": {
                    "generateName": format!("{}-", name_of(service)),
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
            cluster.create(SLICES, namespace_of(service), made, MANAGER)?;
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
        cluster.update(SLICES, &key_of(slice), MANAGER, |value| {
            value["endpoints"] = endpoints.clone();
            value["ports"] = ports.clone();
            value["metadata"]["labels"] = labels.clone().into();
            slipway_manifest::object::set_annotation(value, TRIGGER, &now);
        })?;
    }
    for slice in known.iter().skip(wanted.len()) {
        delete_exactly(cluster, SLICES, slice)?;
    }
    Ok(())
}

/// Writes the Endpoints object of a service, the older form of its slices.
fn sync_endpoints(service: &Value, pods: &[Value], cluster: &ClusterHandle) -> Result<()> {
    let publish = service["spec"]["publishNotReadyAddresses"] == true;
    let (mut ready, mut unready) = (Vec::new(), Vec::new());
    for pod in pods.iter().filter(|p| !is_deleting(p)) {
        let address = json!({
            "ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target_reference(pod),
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
        let mut open = endpoint_ports(service, pods);
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
    let mut labels = slice_labels(service);
    labels.insert(MIRROR_MANAGER.into(), "endpoint-controller".into());
    let place = ObjectKey::new(namespace_of(service), name_of(service));
    let now = cluster.now_text();
    let Some(known) = cluster.get("endpoints", namespace_of(service), name_of(service)) else {
        let mut made = json!({"metadata": {"name": name_of(service), "labels": labels}});
        if !subsets.is_null() {
            made["subsets"] = subsets;
            made["metadata"]["annotations"][TRIGGER] = now.into();
        }
        cluster.create("endpoints", namespace_of(service), made, MANAGER)?;
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
