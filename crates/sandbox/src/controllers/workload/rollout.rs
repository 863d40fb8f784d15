//! The arithmetic of deployments: how many replicas go where, and what the status says of it.

use serde_json::{Value, json};

use super::super::Cluster;
use super::common::*;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";

pub(super) fn replicas(object: &Value) -> i64 {
    int_or(object, "/spec/replicas", 1)
}

pub(super) fn is_recreate(deployment: &Value) -> bool {
    text(deployment, "/spec/strategy/type") == "Recreate"
}

/// How many pods may be there beyond, and missing from, what is asked for.
pub(super) fn surge_and_unavailable(deployment: &Value) -> (i64, i64) {
    if is_recreate(deployment) {
        return (0, 0);
    }
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    let wanted = replicas(deployment);
    let surge = amount_of(&rolling["maxSurge"], wanted, Rounding::Up);
    let mut unavailable = amount_of(&rolling["maxUnavailable"], wanted, Rounding::Down);
    // With neither, nothing could ever move.
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    (surge, unavailable.min(wanted))
}

pub(super) fn total(sets: &[Value]) -> i64 {
    sets.iter().map(replicas).sum()
}

fn sum(sets: &[Value], pointer: &str) -> i64 {
    sets.iter().map(|s| int(s, pointer)).sum()
}

pub(super) fn available(sets: &[Value]) -> i64 {
    sum(sets, "/status/availableReplicas")
}

pub(super) fn revision(object: &Value) -> i64 {
    annotation(object, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

/// The size the newest set should have now, given all of them.
pub(super) fn new_size(deployment: &Value, newest: i64, all: i64) -> i64 {
    let wanted = replicas(deployment);
    if is_recreate(deployment) {
        return wanted;
    }
    let limit = wanted + surge_and_unavailable(deployment).0;
    if all >= limit {
        return newest;
    }
    newest + (limit - all).min(wanted - newest).max(0)
}

/// Sizes for sets that share a change of scale in proportion, newest first among equals when growing.
pub(super) fn in_proportion(deployment: &Value, sets: &[Value]) -> Vec<i64> {
    let wanted = replicas(deployment);
    let surge = surge_and_unavailable(deployment).0;
    let all = total(sets);
    let allowed = if wanted > 0 { wanted + surge } else { 0 };
    let change = allowed - all;
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|i| {
        let created = text(&sets[*i], "/metadata/creationTimestamp").to_owned();
        let rank = revision(&sets[*i]);
        (-replicas(&sets[*i]), if change > 0 { -rank } else { rank }, created)
    });
    let mut sizes: Vec<i64> = sets.iter().map(replicas).collect();
    let mut left = change;
    for index in &order {
        let size = replicas(&sets[*index]);
        if left == 0 || size == 0 {
            continue;
        }
        let before = sets[*index]["metadata"]["annotations"][MAXIMUM]
            .as_str()
            .and_then(|m| m.parse::<i64>().ok())
            .filter(|m| *m > 0)
            .unwrap_or_else(|| int(deployment, "/status/replicas").max(1));
        let share = (size as f64 * allowed as f64 / before as f64).round() as i64 - size;
        let share = if change > 0 { share.clamp(0, left) } else { share.clamp(left, 0) };
        sizes[*index] = (size + share).max(0);
        left -= share;
    }
    if let Some(first) = order.first() {
        sizes[*first] = (sizes[*first] + left).max(0);
    }
    sizes
}

pub(super) struct Sets<'a> {
    pub(super) newest: Option<&'a Value>,
    pub(super) all: &'a [Value],
}

/// The status a deployment should show, without the condition about progress.
pub(super) fn status(deployment: &Value, sets: &Sets<'_>, cluster: &Cluster) -> Value {
    let has = available(sets.all);
    let wanted = replicas(deployment);
    let mut status = json!({"observedGeneration": deployment["metadata"]["generation"]});
    let mut put = |key: &str, count: i64| put_count(&mut status, key, usize::try_from(count).unwrap_or(0));
    put("replicas", sum(sets.all, "/status/replicas"));
    put("updatedReplicas", sets.newest.map_or(0, |s| int(s, "/status/replicas")));
    put("readyReplicas", sum(sets.all, "/status/readyReplicas"));
    put("availableReplicas", has);
    put("unavailableReplicas", total(sets.all) - has);
    status["terminatingReplicas"] = sum(sets.all, "/status/terminatingReplicas").into();
    if let Some(count) = deployment["status"].get("collisionCount") {
        status["collisionCount"] = count.clone();
    }
    let mut conditions = list(deployment, "/status/conditions").to_vec();
    let enough = has >= wanted - surge_and_unavailable(deployment).1;
    let (state, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set_condition(&mut conditions, "Available", state, reason, message, cluster);
    let failure = sets.all.iter().find_map(|s| condition(s, "ReplicaFailure"));
    match failure {
        Some(f) => set_condition(
            &mut conditions,
            "ReplicaFailure",
            "True",
            f["reason"].as_str().unwrap_or(""),
            f["message"].as_str().unwrap_or(""),
            cluster,
        ),
        None => conditions.retain(|c| c["type"] != "ReplicaFailure"),
    }
    status["conditions"] = conditions.into();
    status
}

/// Sets a condition unless it says so already; a changed one moves to the end.
pub(super) fn set_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    cluster: &Cluster,
) {
    let known = conditions.iter().find(|c| c["type"] == kind);
    if known.is_some_and(|c| c["status"] == state && c["reason"] == reason) {
        return;
    }
    replace_condition(conditions, kind, state, reason, message, cluster);
}

/// Sets a condition and its time of update whatever it said before.
pub(super) fn replace_condition(
    conditions: &mut Vec<Value>,
    kind: &str,
    state: &str,
    reason: &str,
    message: &str,
    cluster: &Cluster,
) {
    let now = cluster.timestamp();
    let known = conditions.iter().find(|c| c["type"] == kind && c["status"] == state);
    let since = known.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
    conditions.retain(|c| c["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": state, "lastUpdateTime": now, "lastTransitionTime": since,
        "reason": reason, "message": message,
    }));
}

/// Whether everything asked for is there and nothing else.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = replicas(deployment);
    int(status, "/updatedReplicas") == wanted
        && int(status, "/replicas") == wanted
        && int(status, "/availableReplicas") == wanted
        && int(status, "/observedGeneration") >= int(deployment, "/metadata/generation")
}

/// Whether the new status is nearer to completion than the old.
pub(super) fn has_progressed(old: &Value, new: &Value) -> bool {
    let outdated = |s: &Value| int(s, "/replicas") - int(s, "/updatedReplicas");
    let grew = |pointer: &str| int(new, pointer) > int(old, pointer);
    grew("/updatedReplicas")
        || outdated(new) < outdated(old)
        || grew("/readyReplicas")
        || grew("/availableReplicas")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(replicas: i64, surge: Value, unavailable: Value) -> Value {
        json!({"spec": {"replicas": replicas, "strategy": {
            "type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
        }}})
    }

    #[test]
    fn room_to_move() {
        for (replicas, surge, unavailable, want) in [
            (2, json!("25%"), json!("25%"), (1, 0)),
            (10, json!("25%"), json!("25%"), (3, 2)),
            (1, json!(0), json!(0), (0, 1)),
            (2, json!(0), json!(5), (0, 2)),
            (0, json!("25%"), json!("25%"), (0, 0)),
        ] {
            let d = deployment(replicas, surge, unavailable);
            assert_eq!(surge_and_unavailable(&d), want, "{d}");
        }
    }

    #[test]
    fn sizes_of_the_newest_set() {
        let d = deployment(4, json!(1), json!(1));
        for (newest, all, want) in [(0, 0, 4), (0, 4, 1), (1, 5, 1), (2, 4, 3), (4, 4, 4)] {
            assert_eq!(new_size(&d, newest, all), want, "{newest} of {all}");
        }
    }

    #[test]
    fn scaling_keeps_proportions() {
        let d = deployment(20, json!(0), json!(1));
        let set = |size: i64, revision: &str| {
            json!({"spec": {"replicas": size}, "metadata": {"annotations": {
                REVISION: revision, MAXIMUM: "10",
            }}})
        };
        let sizes = in_proportion(&d, &[set(7, "1"), set(3, "2")]);
        assert_eq!(sizes, [14, 6]);
        let none = in_proportion(&deployment(0, json!(0), json!(1)), &[set(7, "1"), set(3, "2")]);
        assert_eq!(none, [0, 0]);
    }
}
