//! The fit of a pod on a node: selectors, affinity, taints, size.

use std::collections::BTreeMap;

use serde_json::Value;

use super::common::*;
use crate::write::admit::amounts::{nanos_of, pod_amounts};

/// The reason a pod cannot run on a node, in the scheduler's words. `preemptible` is set if evicting others could help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeMisfit {
    pub(super) reason: String,
    pub(super) preemptible: bool,
}

fn node_misfit(reason: &str) -> NodeMisfit {
    NodeMisfit { reason: reason.to_owned(), preemptible: false }
}

/// Returns why a pod may not be placed on a node, whatever else runs there.
pub(super) fn check_placement(spec: &Value, node: &Value) -> Result<(), NodeMisfit> {
    if node["spec"]["unschedulable"] == true && !tolerates_taint(spec, &unschedulable_taint()) {
        return Err(node_misfit("node(s) were unschedulable"));
    }
    for taint in list_at(node, "/spec/taints") {
        let repels = matches!(taint["effect"].as_str(), Some("NoSchedule" | "NoExecute"));
        if repels && !tolerates_taint(spec, taint) {
            return Err(node_misfit("node(s) had untolerated taint(s)"));
        }
    }
    if !is_selected(spec, node) {
        return Err(node_misfit("node(s) didn't match Pod's node affinity/selector"));
    }
    Ok(())
}

/// The resources and ports that a pod takes of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PodDemand {
    /// In billionths, by resource.
    amounts: BTreeMap<Box<str>, i128>,
    ports: Vec<HostPort>,
}

/// A port of the node itself.
#[derive(Debug, Clone, PartialEq, Eq)]
struct HostPort {
    protocol: String,
    /// Empty for every address.
    address: String,
    port: i64,
}

impl HostPort {
    fn conflicts(&self, other: &HostPort) -> bool {
        let shared = self.address.is_empty() || other.address.is_empty() || self.address == other.address;
        shared && self.port == other.port && self.protocol == other.protocol
    }
}

impl PodDemand {
    pub(super) fn of(spec: &Value) -> PodDemand {
        let amounts = pod_amounts(spec, "requests");
        let amounts = amounts.into_iter().map(|(resource, amount)| (resource, amount.nanos())).collect();
        let sidecars = list_at(spec, "/initContainers").iter().filter(|c| c["restartPolicy"] == "Always");
        let ports = list_at(spec, "/containers")
            .iter()
            .chain(sidecars)
            .flat_map(|container| list_at(container, "/ports"))
            .filter(|port| int_at(port, "/hostPort") > 0)
            .map(|port| HostPort {
                protocol: text_at(port, "/protocol").to_owned(),
                address: text_at(port, "/hostIP").trim_start_matches("0.0.0.0").to_owned(),
                port: int_at(port, "/hostPort"),
            });
        PodDemand { ports: ports.collect(), amounts }
    }
}

/// The pods of a node, and what they take together.
#[derive(Debug, Default)]
pub(super) struct NodeUsage {
    pub(super) pods: usize,
    amounts: BTreeMap<Box<str>, i128>,
    ports: Vec<HostPort>,
}

impl NodeUsage {
    pub(super) fn add(&mut self, demand: &PodDemand) {
        self.pods += 1;
        for (resource, amount) in &demand.amounts {
            *self.amounts.entry(resource.clone()).or_default() += amount;
        }
        self.ports.extend(demand.ports.iter().cloned());
    }

    pub(super) fn remove(&mut self, demand: &PodDemand) {
        self.pods = self.pods.saturating_sub(1);
        for (resource, amount) in &demand.amounts {
            *self.amounts.entry(resource.clone()).or_default() -= amount;
        }
        for port in &demand.ports {
            if let Some(at) = self.ports.iter().position(|known| known == port) {
                self.ports.swap_remove(at);
            }
        }
    }

    /// Returns what of a node is too little for one more pod.
    pub(super) fn check_room(&self, demand: &PodDemand, node: &Value) -> Result<(), Vec<NodeMisfit>> {
        let misfit = |reason: String, preemptible: bool| NodeMisfit { reason, preemptible };
        if demand.ports.iter().any(|port| self.ports.iter().any(|taken| taken.conflicts(port))) {
            let reason = "node(s) didn't have free ports for the requested pod ports";
            return Err(vec![misfit(reason.into(), true)]);
        }
        let has = |resource: &str| node["status"]["allocatable"].get(resource).and_then(nanos_of);
        let mut lacks = Vec::new();
        if has("pods").is_some_and(|most| (self.pods as i128 + 1) * ONE > most) {
            lacks.push(misfit("Too many pods".into(), true));
        }
        for (resource, asked) in demand.amounts.iter().filter(|(_, asked)| **asked > 0) {
            let taken = self.amounts.get(resource).copied().unwrap_or_default();
            // A resource nobody has heard of is not there at all; a node that tells nothing takes everything.
            let most = match has(resource) {
                Some(most) => most,
                None if node["status"]["allocatable"].is_object() => 0,
                None => continue,
            };
            if taken + asked > most {
                // Evicting others does not help where even an empty node is too small.
                lacks.push(misfit(format!("Insufficient {resource}"), *asked <= most));
            }
        }
        if lacks.is_empty() { Ok(()) } else { Err(lacks) }
    }
}

/// One pod, in billionths.
const ONE: i128 = 1_000_000_000;

fn unschedulable_taint() -> Value {
    serde_json::json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"})
}

fn tolerates_taint(spec: &Value, taint: &Value) -> bool {
    list_at(spec, "/tolerations").iter().any(|t| {
        let same_effect = t["effect"].as_str().is_none_or(|e| e.is_empty() || taint["effect"] == e);
        let key = t["key"].as_str().unwrap_or("");
        let same_key = key.is_empty() || taint["key"] == key;
        let exists = t["operator"] == "Exists";
        let value = |v: &Value| v["value"].as_str().unwrap_or("").to_owned();
        same_effect && same_key && if exists { true } else { !key.is_empty() && value(t) == value(taint) }
    })
}

/// Node selector and required affinity.
fn is_selected(spec: &Value, node: &Value) -> bool {
    let labels = &node["metadata"]["labels"];
    let wanted = spec["nodeSelector"].as_object();
    if wanted.is_some_and(|w| w.iter().any(|(k, v)| labels.get(k) != Some(v))) {
        return false;
    }
    let required = &spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(terms) = required["nodeSelectorTerms"].as_array() else { return true };
    terms.iter().any(|term| {
        let expressions = list_at(term, "/matchExpressions");
        let fields = list_at(term, "/matchFields");
        let empty = expressions.is_empty() && fields.is_empty();
        !empty
            && expressions
                .iter()
                .all(|e| expression_holds(e, e["key"].as_str().and_then(|k| labels.get(k)?.as_str())))
            && fields.iter().all(|f| f["key"] == "metadata.name" && expression_holds(f, Some(name_of(node))))
    })
}

fn expression_holds(expression: &Value, value: Option<&str>) -> bool {
    let values = list_at(expression, "/values");
    let listed = || value.is_some_and(|v| values.iter().any(|x| x == v));
    let number = |v: Option<&str>| v.and_then(|v| v.parse::<i64>().ok());
    let compare = || Some((number(value)?, number(values.first().and_then(Value::as_str))?));
    match expression["operator"].as_str().unwrap_or("") {
        "In" => listed(),
        "NotIn" => !listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare().is_some_and(|(has, wants)| has > wants),
        "Lt" => compare().is_some_and(|(has, wants)| has < wants),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pods_and_nodes() {
        let node = json!({
            "metadata": {"name": "n", "labels": {"zone": "a", "size": "3"}},
            "spec": {"taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]},
            "status": {"allocatable": {"cpu": "2"}},
        });
        let tolerant = json!([{"key": "gpu", "operator": "Exists"}]);
        let affinity = |e: Value| {
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [e]}]}}})
        };
        let affinity_text = "node(s) didn't match Pod's node affinity/selector";
        for (spec, why) in [
            (json!({}), Some("node(s) had untolerated taint(s)")),
            (json!({"tolerations": tolerant}), None),
            (json!({"tolerations": [{"key": "gpu", "value": "yes"}]}), None),
            (json!({"tolerations": tolerant, "nodeSelector": {"zone": "b"}}), Some(affinity_text)),
            (
                json!({"tolerations": tolerant, "affinity": affinity(json!({"key": "size", "operator": "Gt", "values": ["2"]}))}),
                None,
            ),
            (
                json!({"tolerations": tolerant, "affinity": affinity(json!({"key": "zone", "operator": "NotIn", "values": ["a"]}))}),
                Some(affinity_text),
            ),
        ] {
            assert_eq!(check_placement(&spec, &node).err().map(|m| m.reason).as_deref(), why, "{spec}");
        }
    }
    #[test]
    fn room_of_a_node() {
        let node = json!({"status": {"allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"}}});
        let asks =
            |cpu: &str| PodDemand::of(&json!({"containers": [{"resources": {"requests": {"cpu": cpu}}}]}));
        let port = |address: &str| {
            PodDemand::of(
                &json!({"containers": [{"ports": [{"hostPort": 80, "protocol": "TCP", "hostIP": address}]}]}),
            )
        };
        let reasons = |usage: &NodeUsage, demand: &PodDemand| -> Vec<String> {
            let lacks = usage.check_room(demand, &node).err().unwrap_or_default();
            lacks.into_iter().map(|misfit| misfit.reason).collect()
        };
        let mut usage = NodeUsage::default();
        assert_eq!(reasons(&usage, &asks("2500m")), ["Insufficient cpu"]);
        usage.add(&asks("1500m"));
        assert_eq!(reasons(&usage, &asks("600m")), ["Insufficient cpu"]);
        assert_eq!(reasons(&usage, &asks("500m")), [""; 0]);
        usage.add(&port("1.2.3.4"));
        assert_eq!(reasons(&usage, &asks("600m")), ["Too many pods", "Insufficient cpu"]);
        assert_eq!(
            reasons(&usage, &port("")),
            ["node(s) didn't have free ports for the requested pod ports"]
        );
        assert_eq!(reasons(&usage, &port("4.3.2.1")), ["Too many pods"]);
        usage.remove(&port("1.2.3.4"));
        usage.remove(&asks("1500m"));
        assert_eq!(reasons(&usage, &port("")), [""; 0]);
        let device = json!({"containers": [{"resources": {"requests": {"example.com/gpu": "1"}}}]});
        assert_eq!(reasons(&usage, &PodDemand::of(&device)), ["Insufficient example.com/gpu"]);
        // What runs before the others counts by its largest, what runs beside them adds up.
        let staged = json!({
            "initContainers": [
                {"resources": {"requests": {"cpu": "1"}}, "restartPolicy": "Always"},
                {"resources": {"requests": {"cpu": "3"}}},
            ],
            "containers": [{"resources": {"requests": {"cpu": "1"}}}], "overhead": {"cpu": "1"},
        });
        assert_eq!(PodDemand::of(&staged).amounts["cpu"], 5 * ONE);
    }
}
