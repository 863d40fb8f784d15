//! The arithmetic of deployments: how many replicas go where, and what the status says of it.

use serde_json::{Value, json};

use super::super::ClusterHandle;
use super::common::*;

pub(super) const REVISION: &str = "deployment.kubernetes.io/revision";
pub(super) const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub(super) const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub(super) const MAXIMUM: &str = "deployment.kubernetes.io/max-replicas";

pub(super) fn wanted_replicas(object: &Value) -> i64 {
    int_or(object, "/spec/replicas", 1)
}

pub(super) fn is_recreate(deployment: &Value) -> bool {
    text_at(deployment, "/spec/strategy/type") == "Recreate"
}

/// Returns how many pods may exist beyond the wanted number, and how many may be missing.
pub(super) fn surge_and_unavailable(deployment: &Value) -> (i64, i64) {
    if is_recreate(deployment) {
        return (0, 0);
    }
    let rolling = &deployment["spec"]["strategy"]["rollingUpdate"];
    let wanted = wanted_replicas(deployment);
    let surge = amount_of(&rolling["maxSurge"], wanted, PercentRounding::Up);
    let mut unavailable = amount_of(&rolling["maxUnavailable"], wanted, PercentRounding::Down);
    // With both zero no replica could ever be replaced.
    if surge == 0 && unavailable == 0 {
        unavailable = 1;
    }
    (surge, unavailable.min(wanted))
}

pub(super) fn total_replicas(sets: &[Value]) -> i64 {
    sets.iter().map(wanted_replicas).sum()
}

fn sum_at(sets: &[Value], pointer: &str) -> i64 {
    sets.iter().map(|s| int_at(s, pointer)).sum()
}

pub(super) fn available_replicas(sets: &[Value]) -> i64 {
    sum_at(sets, "/status/availableReplicas")
}

pub(super) fn revision_number(object: &Value) -> i64 {
    annotation(object, REVISION).and_then(|r| r.parse().ok()).unwrap_or(0)
}

/// The size the newest set should have now, given all of them.
pub(super) fn new_size(deployment: &Value, newest: i64, all: i64) -> i64 {
    let wanted = wanted_replicas(deployment);
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
    let wanted = wanted_replicas(deployment);
    let surge = surge_and_unavailable(deployment).0;
    let all = total_replicas(sets);
    let allowed = if wanted > 0 { wanted + surge } else { 0 };
    let change = allowed - all;
    let mut order: Vec<usize> = (0..sets.len()).collect();
    order.sort_by_key(|i| {
        let created = text_at(&sets[*i], "/metadata/creationTimestamp").to_owned();
        let rank = revision_number(&sets[*i]);
        (-wanted_replicas(&sets[*i]), if change > 0 { -rank } else { rank }, created)
    });
    let mut sizes: Vec<i64> = sets.iter().map(wanted_replicas).collect();
    let mut left = change;
    for index in &order {
        let size = wanted_replicas(&sets[*index]);
        if left == 0 || size == 0 {
            continue;
        }
        let before = sets[*index]["metadata"]["annotations"][MAXIMUM]
            .as_str()
            .and_then(|m| m.parse::<i64>().ok())
            .filter(|m| *m > 0)
            .unwrap_or_else(|| int_at(deployment, "/status/replicas").max(1));
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

pub(super) struct RolloutSets<'a> {
    pub(super) newest: Option<&'a Value>,
    pub(super) all: &'a [Value],
}

/// The status a deployment should show, without the condition about progress.
pub(super) fn deployment_status(
    deployment: &Value,
    sets: &RolloutSets<'_>,
    cluster: &ClusterHandle,
) -> Value {
    let has = available_replicas(sets.all);
    let wanted = wanted_replicas(deployment);
    let mut status = json!({"observedGeneration": deployment["metadata"]["generation"]});
    let mut put = |key: &str, count: i64| put_count(&mut status, key, usize::try_from(count).unwrap_or(0));
    put("replicas", sum_at(sets.all, "/status/replicas"));
    put("updatedReplicas", sets.newest.map_or(0, |s| int_at(s, "/status/replicas")));
    put("readyReplicas", sum_at(sets.all, "/status/readyReplicas"));
    put("availableReplicas", has);
    put("unavailableReplicas", total_replicas(sets.all) - has);
    status["terminatingReplicas"] = sum_at(sets.all, "/status/terminatingReplicas").into();
    if let Some(count) = deployment["status"].get("collisionCount") {
        status["collisionCount"] = count.clone();
    }
    let mut conditions = list_at(deployment, "/status/conditions").to_vec();
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
    cluster: &ClusterHandle,
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
    cluster: &ClusterHandle,
) {
    let now = cluster.now_text();
    let known = conditions.iter().find(|c| c["type"] == kind && c["status"] == state);
    let since = known.map_or_else(|| json!(now), |c| c["lastTransitionTime"].clone());
    conditions.retain(|c| c["type"] != kind);
    conditions.push(json!({
        "type": kind, "status": state, "lastUpdateTime": now, "lastTransitionTime": since,
        "reason": reason, "message": message,
    }));
}

/// Returns true if all wanted replicas are updated and available, and no others exist.
pub(super) fn is_complete(deployment: &Value, status: &Value) -> bool {
    let wanted = wanted_replicas(deployment);
    int_at(status, "/updatedReplicas") == wanted
        && int_at(status, "/replicas") == wanted
        && int_at(status, "/availableReplicas") == wanted
        && int_at(status, "/observedGeneration") >= int_at(deployment, "/metadata/generation")
}

/// Returns true if the new status is nearer to completion than the old.
pub(super) fn has_progressed(old: &Value, new: &Value) -> bool {
    let outdated = |s: &Value| int_at(s, "/replicas") - int_at(s, "/updatedReplicas");
    let grew = |pointer: &str| int_at(new, pointer) > int_at(old, pointer);
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
