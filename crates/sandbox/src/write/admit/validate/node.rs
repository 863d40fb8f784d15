//! Validation of what a cluster consists of: its namespaces and nodes.

use serde_json::{Value, json};

use super::{Causes, address, list, one_of, texts};
use crate::status::Cause;
use crate::write::admit::meta;

pub(super) fn namespace(object: &Value, old: Option<&Value>, out: &mut Causes) {
    for (i, finalizer) in list(&object["spec"]["finalizers"]) {
        let text = finalizer.as_str().unwrap_or("");
        // Which one is only said of those that are changed later.
        let at = &if old.is_some() { format!("spec.finalizers[{i}]") } else { "spec.finalizers".to_owned() };
        let problems = meta::qualified_problems(text);
        if problems.is_empty() && text != "kubernetes" && !text.contains('/') {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            out.push(Cause::invalid(at.as_str(), finalizer, why));
        }
        texts(problems, finalizer, at, out);
    }
    let phase = object["status"]["phase"].as_str().unwrap_or("");
    let ends = !meta::text(object, "deletionTimestamp").is_empty();
    let why = match (ends, phase) {
        (false, "" | "Active") | (true, "Terminating") => return,
        (false, _) => "may only be 'Active' if `deletionTimestamp` is empty",
        (true, _) => "may only be 'Terminating' if `deletionTimestamp` is not empty",
    };
    out.push(Cause::invalid("status.Phase", &json!(phase), why));
}

pub(super) fn node(object: &Value, old: Option<&Value>, out: &mut Causes) {
    let spec = &object["spec"];
    taints(&spec["taints"], out);
    node_ranges(&spec["podCIDRs"], out);
    if let Some(old) = old {
        node_changes(spec, &old["spec"], out);
        taints(&spec["taints"], out);
        if spec["externalID"].as_str().unwrap_or("") != old["spec"]["externalID"].as_str().unwrap_or("") {
            out.push(Cause::forbidden("spec.externalID", "may not be updated"));
        }
    }
}

fn taints(taints: &Value, out: &mut Causes) {
    let mut seen = Vec::new();
    for (i, taint) in list(taints) {
        let at = format!("metadata.taints[{i}]");
        let (key, value) = (taint["key"].as_str().unwrap_or(""), taint["value"].as_str().unwrap_or(""));
        texts(meta::qualified_problems(key), &json!(key), &format!("{at}.key"), out);
        let problems = meta::label_value_problems(value);
        if !problems.is_empty() {
            out.push(Cause::invalid(format!("{at}.value"), &json!(value), &problems.join(";")));
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        one_of(&taint["effect"], format!("{at}.effect"), &effects, out);
        let effect = taint["effect"].as_str().unwrap_or("");
        if seen.contains(&(key, effect)) {
            let shown =
                json!({"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint["timeAdded"]});
            let mut cause = Cause::duplicate(at, &shown);
            cause.message.push_str(": taints must be unique by key and effect pair");
            out.push(cause);
        }
        seen.push((key, effect));
    }
}

/// What a node is called by its provider and which addresses its pods have is settled once.
fn node_changes(new: &Value, old: &Value, out: &mut Causes) {
    let ranges = |spec: &Value| spec["podCIDRs"].as_array().cloned().unwrap_or_default();
    let (now, was) = (ranges(new), ranges(old));
    let changed = if now.len() == was.len() {
        now.iter().zip(&was).filter(|(now, was)| now != was).count()
    } else {
        usize::from(!was.is_empty())
    };
    for _ in 0..changed {
        let why = "node updates may not change podCIDR except from \"\" to valid";
        out.push(Cause::forbidden("spec.podCIDRs", why));
    }
    let provider = |spec: &Value| spec["providerID"].as_str().unwrap_or("").to_owned();
    if !provider(old).is_empty() && provider(old) != provider(new) {
        let verb = if provider(new).is_empty() { "cleared" } else { "modified" };
        let why = format!("field cannot be {verb} once set");
        out.push(Cause::invalid("spec.providerID", &Value::Null, &why));
    }
}

fn node_ranges(ranges: &Value, out: &mut Causes) {
    let at = "spec.podCIDRs";
    for (i, range) in list(ranges) {
        address::check_cidr(range.as_str().unwrap_or(""), &format!("{at}[{i}]"), out);
    }
    let read: Option<Vec<bool>> = list(ranges)
        .map(|(_, range)| address::range(range.as_str().unwrap_or("")).map(|(ip, _)| ip.is_ipv4()))
        .collect();
    if let Some(read) = read.filter(|read| read.len() > 1)
        && (read.len() > 2 || read[0] == read[1])
    {
        out.push(Cause::invalid(at, ranges, "may specify no more than one CIDR for each IP family"));
    }
}
