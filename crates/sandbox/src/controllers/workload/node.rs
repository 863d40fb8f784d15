//! The fit of a pod on a node: selectors, affinity, taints, size.

use serde_json::Value;

use super::common::*;

/// The reason a pod cannot run on a node, in the scheduler's words. `preemptible` is set if evicting others could help.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct NodeMisfit {
    pub(super) reason: String,
    pub(super) preemptible: bool,
}

fn node_misfit(reason: &str) -> NodeMisfit {
    NodeMisfit { reason: reason.to_owned(), preemptible: false }
}

pub(super) fn check_fit(spec: &Value, node: &Value) -> Result<(), NodeMisfit> {
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
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let asked: i128 = list_at(spec, "/containers")
            .iter()
            .filter_map(|c| {
                c["resources"]["requests"].get(resource).and_then(crate::write::admit::quota::nanos_of)
            })
            .sum();
        let has = node["status"]["allocatable"].get(resource).and_then(crate::write::admit::quota::nanos_of);
        if has.is_some_and(|h| asked > h) {
            return Err(NodeMisfit { reason: format!("Insufficient {resource}"), preemptible: true });
        }
    }
    Ok(())
}

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
            (
                json!({"tolerations": tolerant, "containers": [{"resources": {"requests": {"cpu": "2500m"}}}]}),
                Some("Insufficient cpu"),
            ),
        ] {
            assert_eq!(check_fit(&spec, &node).err().map(|m| m.reason).as_deref(), why, "{spec}");
        }
    }
}
