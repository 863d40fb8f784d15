//! Validation of namespaces and nodes.

use serde_json::{Value, json};

use super::{CauseList, add_problems, address, check_one_of, indexed_items};
use crate::status::StatusCause;
use crate::write::admit::meta;

pub(in crate::write) fn validate_namespace(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    for (i, finalizer) in indexed_items(&object["spec"]["finalizers"]) {
        let text = finalizer.as_str().unwrap_or("");
        // Which one is only said of those that are changed later.
        let at = &if old.is_some() { format!("spec.finalizers[{i}]") } else { "spec.finalizers".to_owned() };
        let problems = meta::qualified_problems(text);
        if problems.is_empty() && text != "kubernetes" && !text.contains('/') {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(StatusCause::invalid(at.as_str(), finalizer, why));
        }
        add_problems(problems, finalizer, at, out);
    }
    let phase = object["status"]["phase"].as_str().unwrap_or("");
    let ends = !meta::metadata_text(object, "deletionTimestamp").is_empty();
    let why = match (ends, phase) {
        (false, "" | "Active") | (true, "Terminating") => return,
        (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
        (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
    };
    out.push(StatusCause::invalid("status.Phase", &json!(phase), why));
}

pub(in crate::write) fn validate_node(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    let spec = &object["spec"];
    validate_taints(&spec["taints"], out);
    validate_node_ranges(&spec["podCIDRs"], out);
    if let Some(old) = old {
        validate_node_update(spec, &old["spec"], out);
        validate_taints(&spec["taints"], out);
        if spec["externalID"].as_str().unwrap_or("") != old["spec"]["externalID"].as_str().unwrap_or("") {
            out.push(StatusCause::forbidden("spec.externalID", "may not be updated"));
        }
    }
}

fn validate_taints(taints: &Value, out: &mut CauseList) {
    let mut seen = Vec::new();
    for (i, taint) in indexed_items(taints) {
        let at = format!("metadata.taints[{i}]");
        let (key, value) = (taint["key"].as_str().unwrap_or(""), taint["value"].as_str().unwrap_or(""));
        add_problems(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        let problems = meta::label_value_problems(value);
        if !problems.is_empty() {
            out.push(StatusCause::invalid(format!("{at}.value"), &json!(value), &problems.join(";")));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        check_one_of(&taint["effect"], format!("{at}.effect"), &effects, out);
        let effect = taint["effect"].as_str().unwrap_or("");
        if seen.contains(&(key, effect)) {
            let shown =
                json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint["timeAdded"]});
            let mut cause = StatusCause::duplicate(at, &shown);
            cause.message.push_str(": taints must be unique by key and effect pair");
            out.push(cause);
        }
        seen.push((key, effect));
    }
}

/// Validates that a node's provider id and pod ranges do not change once set.
fn validate_node_update(new: &Value, old: &Value, out: &mut CauseList) {
    let ranges = |spec: &Value| spec["podCIDRs"].as_array().cloned().unwrap_or_default();
    let (now, was) = (ranges(new), ranges(old));
    let changed = if now.len() == was.len() {
        now.iter().zip(&was).filter(|(now, was)| now != was).count()
    } else {
        usize::from(!was.is_empty())
    };
    for _ in 0..changed {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        out.push(StatusCause::forbidden("spec.podCIDRs", why));
    }
    let provider = |spec: &Value| spec["providerID"].as_str().unwrap_or("").to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        let verb = if provider(new).is_empty() { "cleared" } else { "modified" };
        let why = format!("field cannot be {verb} once set");
        out.push(StatusCause::invalid("spec.providerID", &Value::Null, &why));
    }
}

fn validate_node_ranges(ranges: &Value, out: &mut CauseList) {
    let at = "spec.podCIDRs";
    for (i, range) in indexed_items(ranges) {
        address::check_cidr(range.as_str().unwrap_or(""), &format!("{at}[{i}]"), out);
    }
    let read: Option<Vec<bool>> = indexed_items(ranges)
        .map(|(_, range)| address::parse_range(range.as_str().unwrap_or("")).map(|(ip, _)| ip.is_ipv4()))
        .collect();
    if let Some(read) = read.filter(|read| read.len() > 1)
        && (read.len() > 2 || read[0] == read[1])
    {
        out.push(StatusCause::invalid(at, ranges, "may specify no more than one CIDR for each IP family"));
    }
}
