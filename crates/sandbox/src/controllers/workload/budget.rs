//! Disruption budgets, and the bookkeeping of objects that select pods.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::super::{Cluster, Controller, Item, Next, Queue};
use super::common::*;
use crate::api::select::Labels;
use crate::status::Result;
use crate::store::{Change, Event};

const TABLE: &str = "poddisruptionbudgets.policy";

/// Finds the objects of a table whose selector matches the pod an event is about.
pub(super) struct Selectors {
    table: &'static str,
    read: fn(&Value) -> Option<Labels>,
    known: HashMap<Item, Labels>,
}

impl Selectors {
    pub(super) fn new(table: &'static str, read: fn(&Value) -> Option<Labels>) -> Selectors {
        Selectors { table, read, known: HashMap::new() }
    }

    pub(super) fn observe(&mut self, event: &Event, queue: &mut Queue) {
        if *event.table == *self.table {
            let item = Item::of(event);
            match (self.read)(&event.object.value()).filter(|_| event.change != Change::Deleted) {
                Some(labels) => self.known.insert(item.clone(), labels),
                None => self.known.remove(&item),
            };
            queue.push(item);
        } else if &*event.table == "pods" {
            let pods = || [Some(&event.object), event.prev.as_ref()].into_iter().flatten();
            for (item, labels) in &self.known {
                if *item.key.namespace == *event.object.key.namespace
                    && !labels.is_empty()
                    && pods().any(|p| labels.matches(p))
                {
                    queue.push(item.clone());
                }
            }
        }
    }
}

pub(super) struct Budgets {
    budgets: Selectors,
}

impl Default for Budgets {
    fn default() -> Budgets {
        Budgets { budgets: Selectors::new(TABLE, |b| Labels::of_selector(&b["spec"]["selector"])) }
    }
}

impl Controller for Budgets {
    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn observe(&mut self, event: &Event, _: &Cluster, queue: &mut Queue) {
        self.budgets.observe(event, queue);
    }

    fn reconcile(&mut self, item: &Item, cluster: &Cluster) -> Result<Next> {
        let Some(budget) = cluster.get(TABLE, &item.key.namespace, &item.key.name) else {
            return Ok(Next::Done);
        };
        let Some(labels) = Labels::of_selector(&budget["spec"]["selector"]) else { return Ok(Next::Done) };
        let mut pods = cluster.select("pods", namespace(&budget), &labels);
        pods.retain(is_active);
        let healthy = i64::try_from(pods.iter().filter(|p| is_ready(p)).count()).unwrap_or(0);
        let (expected, desired) = wanted(&budget["spec"], &pods, cluster);
        let allowed = if expected > 0 { (healthy - desired).max(0) } else { 0 };
        let (state, reason) =
            if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
        let now = cluster.timestamp();
        cluster.update_status(TABLE, &item.key, MANAGER, |value| {
            let known = condition(value, "DisruptionAllowed").filter(|c| c["status"] == state);
            let since = known.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
            let generation = value["metadata"]["generation"].clone();
            value["status"] = json!({
                "observedGeneration": generation,
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": desired,
                "expectedPods": expected,
                "conditions": [{
                    "type": "DisruptionAllowed", "status": state, "observedGeneration": generation,
                    "lastTransitionTime": since, "reason": reason, "message": "",
                }],
            });
        })?;
        Ok(Next::Done)
    }
}

/// How many pods there should be, and how many of them must stay.
fn wanted(spec: &Value, pods: &[Value], cluster: &Cluster) -> (i64, i64) {
    let count = i64::try_from(pods.len()).unwrap_or(0);
    match (&spec["minAvailable"], &spec["maxUnavailable"]) {
        (Value::Number(least), _) => (count, least.as_i64().unwrap_or(0)),
        (Value::Null, Value::Null) => (count, 1.min(count)),
        (Value::Null, most) => {
            let expected = scale(pods, cluster);
            (expected, (expected - amount_of(most, expected, Rounding::Up)).max(0))
        }
        (least, _) => {
            let expected = scale(pods, cluster);
            (expected, amount_of(least, expected, Rounding::Up))
        }
    }
}

/// The sum of what the owners of these pods ask for.
fn scale(pods: &[Value], cluster: &Cluster) -> i64 {
    let mut owners: HashMap<&str, i64> = HashMap::new();
    let mut total = 0;
    for pod in pods {
        let Some(owner) = list(pod, "/metadata/ownerReferences").iter().find(|o| o["controller"] == true)
        else {
            total += 1;
            continue;
        };
        let table = match owner["kind"].as_str().unwrap_or("") {
            "ReplicaSet" => "replicasets.apps",
            "StatefulSet" => "statefulsets.apps",
            "ReplicationController" => "replicationcontrollers",
            _ => {
                total += 1;
                continue;
            }
        };
        let called = owner["name"].as_str().unwrap_or("");
        owners.entry(owner["uid"].as_str().unwrap_or("")).or_insert_with(|| {
            cluster.get(table, namespace(pod), called).map_or(0, |o| int_or(&o, "/spec/replicas", 1))
        });
    }
    total + owners.values().sum::<i64>()
}
