//! Validation of statuses written on their own: counts, addresses, states and the ends of jobs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{CauseList, add_problems, address, check_non_negative, indexed_items};
use crate::status::StatusCause;
use crate::write::admit::meta;

/// The counts of a workload's status, in the order they are reported.
pub(in crate::write) struct StatusCounts {
    pub all: &'static [&'static str],
    /// Those that are part of `replicas`.
    pub parts: &'static [&'static str],
    /// The path by which a count of available replicas that is too large names the ready ones.
    pub ready: &'static str,
    pub collides: bool,
}

pub(in crate::write) const CONTROLLER: StatusCounts = StatusCounts {
    all: &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
    parts: &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
    collides: false,
};

pub(in crate::write) const REPLICA_SET: StatusCounts = StatusCounts {
    all: &[
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ],
    ..CONTROLLER
};

pub(in crate::write) const DEPLOYMENT: StatusCounts = StatusCounts {
    all: &[
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ],
    parts: &["updatedReplicas", "readyReplicas", "availableReplicas"],
    ready: "readyReplicas",
    collides: true,
};

pub(in crate::write) const STATEFUL_SET: StatusCounts = StatusCounts {
    all: &[
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ],
    parts: &["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"],
    ready: "status.readyReplicas",
    collides: true,
};

pub(in crate::write) const DAEMON_SET: StatusCounts = StatusCounts {
    all: &[
        "currentNumberScheduled",
        "numberMisscheduled",
        "desiredNumberScheduled",
        "numberReady",
        "observedGeneration",
        "updatedNumberScheduled",
        "numberAvailable",
        "numberUnavailable",
        "collisionCount",
    ],
    parts: &[],
    ready: "",
    collides: true,
};

impl StatusCounts {
    /// Counts are not negative, no part is more than the whole, and collisions are not forgotten.
    pub(in crate::write) fn validate(&self, object: &Value, old: &Value, out: &mut CauseList) {
        let status = &object["status"];
        let count = |key: &str| status[key].as_i64().unwrap_or(0);
        for key in self.all {
            check_non_negative(&status[*key], format!("status.{key}"), out);
        }
        for key in self.parts.iter().filter(|key| count(key) > count("replicas")) {
            let why = "cannot be greater than status.replicas";
            out.push(StatusCause::invalid(format!("status.{key}"), &status[*key], why));
        }
        if !self.ready.is_empty() && count("availableReplicas") > count("readyReplicas") {
            let why = format!("cannot be greater than {}", self.ready);
            out.push(StatusCause::invalid("status.availableReplicas", &status["availableReplicas"], &why));
        }
        let (now, was) = (status["collisionCount"].as_i64(), old["status"]["collisionCount"].as_i64());
        if self.collides && was.is_some_and(|was| now.is_none_or(|now| now < was)) {
            let shown = json!(now.unwrap_or(0));
            out.push(StatusCause::invalid("status.collisionCount", &shown, "cannot be decremented"));
        }
    }
}

/// The counts of a status that are only not negative.
pub(in crate::write) fn validate_plain_counts(status: &Value, keys: &[&str], out: &mut CauseList) {
    for key in keys {
        check_non_negative(&status[*key], format!("status.{key}"), out);
    }
}

/// The addresses of a load balancer. A Service says how its addresses are reached.
pub(in crate::write) fn validate_balancer(object: &Value, old: &Value, modes: bool, out: &mut CauseList) {
    let entries = |object: &Value| object["status"]["loadBalancer"]["ingress"].clone();
    let had: Vec<Value> = indexed_items(&entries(old)).map(|(_, entry)| entry["ip"].clone()).collect();
    for (i, entry) in indexed_items(&entries(object)) {
        let at = format!("status.loadBalancer.ingress[{i}]");
        let ip = entry["ip"].as_str().unwrap_or("");
        if !ip.is_empty() {
            check_kept_ip(&entry["ip"], &had, &format!("{at}.ip"), out);
        }
        let mode = &entry["ipMode"];
        match (modes, mode.is_null(), ip.is_empty()) {
            (true, true, false) => {
                out.push(StatusCause::required(format!("{at}.ipMode"), "must be specified when `ip` is set"));
            }
            (true, false, true) => out.push(StatusCause::forbidden(
                format!("{at}.ipMode"),
                "may not be specified when `ip` is not set",
            )),
            (true, false, false) if *mode != "VIP" && *mode != "Proxy" => {
                out.push(StatusCause::not_supported(format!("{at}.ipMode"), mode, &["Proxy", "VIP"]));
            }
            _ => {}
        }
        if let Some(name) = entry["hostname"].as_str().filter(|name| !name.is_empty()) {
            let at = format!("{at}.hostname");
            add_problems(meta::subdomain_problems(name), &entry["hostname"], &at, out);
            if address::parse_lenient_ip(name).is_some() {
                let why = "must be a DNS name, not an IP address";
                out.push(StatusCause::invalid(at, &entry["hostname"], why));
            }
        }
    }
}

/// An address as older versions read it; what was there may stay, whatever it is.
fn check_kept_ip(ip: &Value, had: &[Value], at: &str, out: &mut CauseList) {
    if !had.contains(ip) {
        address::check_ip(ip, at, out);
    }
}

/// The conditions of flow control have a type, each another.
pub(in crate::write) fn validate_condition_types(status: &Value, out: &mut CauseList) {
    let mut seen = BTreeSet::new();
    for (i, condition) in indexed_items(&status["conditions"]) {
        let at = format!("status.conditions[{i}].type");
        let kind = condition["type"].as_str().unwrap_or("");
        if !seen.insert(kind) {
            out.push(StatusCause::duplicate(&at, &json!(kind)));
        }
        if kind.is_empty() {
            out.push(StatusCause::required(at, ""));
        }
    }
}

const POD_CONDITIONS: [&str; 3] = ["PodScheduled", "Ready", "Initialized"];

/// The status of a pod: its conditions, addresses and the states of its containers.
pub(in crate::write) fn validate_pod(object: &Value, old: &Value, out: &mut CauseList) {
    let (status, was) = (&object["status"], &old["status"]);
    for (i, condition) in indexed_items(&status["conditions"]) {
        let at = format!("status.conditions[{i}]");
        check_generation(&condition["observedGeneration"], format!("{at}.observedGeneration"), out);
        let kind = condition["type"].as_str().unwrap_or("");
        if !POD_CONDITIONS.contains(&kind) {
            add_problems(meta::qualified_problems(kind), &json!(kind), &format!("{at}.Type"), out);
        }
    }
    let nominated = status["nominatedNodeName"].as_str().unwrap_or("");
    if !nominated.is_empty() && status["nominatedNodeName"] != was["nominatedNodeName"] {
        let at = "status.nominatedNodeName";
        add_problems(meta::subdomain_problems(nominated), &json!(nominated), at, out);
        if old["spec"]["nodeName"].as_str().is_some_and(|node| !node.is_empty()) {
            let why = "may not be set on pods that are already bound to a node";
            out.push(StatusCause::forbidden(at, why));
        }
    }
    check_generation(&status["observedGeneration"], "status.observedGeneration".into(), out);
    if status["qosClass"].as_str().unwrap_or("") != was["qosClass"].as_str().unwrap_or("") {
        let shown = json!(status["qosClass"].as_str().unwrap_or(""));
        out.push(StatusCause::invalid("status.qosClass", &shown, "field is immutable"));
    }
    let why = "may not be transitioned to non-terminated state";
    for kind in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for (i, before) in indexed_items(&was[kind]).filter(|(_, c)| c["state"]["terminated"].is_object()) {
            let mut after = indexed_items(&status[kind]).map(|(_, after)| after);
            let after = after.find(|after| after["name"] == before["name"]);
            let revived = after.is_some_and(|after| !after["state"]["terminated"].is_object());
            if revived && !may_restart(&old["spec"], kind, before) {
                out.push(StatusCause::forbidden(format!("status.{kind}[{i}].state"), why));
            }
        }
    }
    validate_addresses(status, was, "podIP", "podIPs", out);
    validate_addresses(status, was, "hostIP", "hostIPs", out);
}

fn check_generation(value: &Value, at: String, out: &mut CauseList) {
    if value.as_i64().is_some_and(|n| n < 0) {
        out.push(StatusCause::invalid(at, value, "must be a non-negative integer"));
    }
}

/// Tells whether a container that ended may run again.
fn may_restart(spec: &Value, kind: &str, ended: &Value) -> bool {
    let list = match kind {
        "containerStatuses" => "containers",
        "initContainerStatuses" => "initContainers",
        _ => return false,
    };
    let all = ["initContainers", "containers"];
    let rules = all.iter().flat_map(|key| indexed_items(&spec[*key]));
    let mut rules = rules.flat_map(|(_, container)| indexed_items(&container["restartPolicyRules"]));
    if rules.any(|(_, rule)| rule["action"] == "RestartAllContainers") {
        return true;
    }
    let Some((_, container)) = indexed_items(&spec[list]).find(|(_, c)| c["name"] == ended["name"]) else {
        return false;
    };
    let code = ended["state"]["terminated"]["exitCode"].as_i64().unwrap_or(0);
    for (_, rule) in indexed_items(&container["restartPolicyRules"]) {
        let codes = &rule["exitCodes"];
        let named = indexed_items(&codes["values"]).any(|(_, value)| value.as_i64() == Some(code));
        if rule["action"] == "Restart" && named == (codes["operator"] == "In") {
            return true;
        }
    }
    let own = container["restartPolicy"].as_str();
    match own.or_else(|| spec["restartPolicy"].as_str()) {
        Some("Never") => false,
        // An init container that succeeded has done its work.
        Some("OnFailure") => code != 0,
        _ => list == "containers" || own == Some("Always") || code != 0,
    }
}

/// The addresses of a pod or its host: the single one is the first of all, and there is one of a family.
fn validate_addresses(status: &Value, was: &Value, one: &str, all: &str, out: &mut CauseList) {
    let at = format!("status.{all}");
    let first = status[one].as_str().unwrap_or("");
    let given: Vec<&str> =
        indexed_items(&status[all]).map(|(_, entry)| entry["ip"].as_str().unwrap_or("")).collect();
    let hosts = one == "hostIP";
    let differs = StatusCause::invalid(
        format!("{at}[0].ip"),
        &json!(given.first().unwrap_or(&"")),
        &format!("must be equal to `{one}`"),
    );
    if hosts && given.first().is_some_and(|ip| *ip != first) {
        out.push(differs.clone());
    }
    let had: Vec<Value> = indexed_items(&was[all]).map(|(_, entry)| entry["ip"].clone()).collect();
    for (i, ip) in given.iter().enumerate() {
        check_kept_ip(&json!(ip), &had, &format!("{at}[{i}]"), out);
    }
    let shown: Value = given.iter().map(|ip| json!({"IP": ip})).collect();
    let families: BTreeSet<bool> =
        given.iter().filter_map(|ip| address::parse_lenient_ip(ip)).map(|ip| ip.is_ipv4()).collect();
    if given.len() > 1 && (given.len() > 2 || families.len() != 2) {
        let why = "may specify no more than one IP for each IP family";
        out.push(StatusCause::invalid(&at, &shown, why));
    }
    if hosts {
        return;
    }
    if first.is_empty() != given.is_empty() {
        let why = format!("{one} and {all} must either both be set or both be unset");
        let shown = if given.is_empty() { Value::Null } else { shown };
        out.push(StatusCause::invalid(at, &shown, &why));
    } else if given.first().is_some_and(|ip| *ip != first) {
        out.push(differs);
    }
}

/// The amounts of a node, and its addresses, of which none is there twice.
pub(in crate::write) fn validate_node(status: &Value, out: &mut CauseList) {
    for side in ["capacity", "allocatable"] {
        for (name, amount) in meta::sorted_members(&status[side]) {
            super::limits::validate_resource_amount(name, amount, &format!("status.{side}.{name}"), out);
        }
    }
    let mut seen = Vec::new();
    for (i, entry) in indexed_items(&status["addresses"]) {
        if seen.contains(&entry) {
            let shown = json!({"Type": entry["type"], "Address": entry["address"]});
            out.push(StatusCause::duplicate(format!("status.addresses[{i}]"), &shown));
        }
        seen.push(entry);
    }
}

/// A status of a job: what it counts, and how it may end.
pub(in crate::write) fn validate_job(object: &Value, old: &Value, out: &mut CauseList) {
    let (spec, status, was) = (&object["spec"], &object["status"], &old["status"]);
    let at = |key: &str| format!("status.{key}");
    let count = |status: &Value, key: &str| status[key].as_i64().unwrap_or(0);
    validate_plain_counts(status, &["active", "succeeded", "failed", "ready", "terminating"], out);
    let uncounted = &status["uncountedTerminatedPods"];
    let mut seen = BTreeSet::new();
    for side in ["succeeded", "failed"] {
        for (i, uid) in indexed_items(&uncounted[side]) {
            let at = at(&format!("uncountedTerminatedPods.{side}[{i}]"));
            match uid.as_str().unwrap_or("") {
                "" => out.push(StatusCause::invalid(at, &json!(""), "must not be empty")),
                uid if !seen.insert(uid) => out.push(StatusCause::duplicate(at, &json!(uid))),
                _ => {}
            }
        }
    }
    let holds = |status: &Value, kind: &str| {
        indexed_items(&status["conditions"]).any(|(_, c)| c["type"] == kind && c["status"] == "True")
    };
    let is = |kind: &str| holds(status, kind);
    let turned = |kind: &str| holds(status, kind) != holds(was, kind);
    let changed = |key: &str| status[key] != was[key];
    let (complete, failed, met) = (is("Complete"), is("Failed"), is("SuccessCriteriaMet"));
    let finished = complete || failed;
    let ended = finished != (holds(was, "Complete") || holds(was, "Failed"));
    let conditions = |holds: bool, why: &str, out: &mut CauseList| {
        if holds {
            out.push(StatusCause::invalid_unshown(at("conditions"), why));
        }
    };
    conditions(
        complete && failed && (turned("Complete") || turned("Failed")),
        "cannot set Complete=True and Failed=true conditions",
        out,
    );
    conditions(
        complete && is("FailureTarget") && (turned("Complete") || turned("FailureTarget")),
        "cannot set Complete=True and FailureTarget=true conditions",
        out,
    );
    let completion = &status["completionTime"];
    if turned("Complete") || changed("completionTime") {
        if !completion.is_null() && !complete {
            let why = "cannot set completionTime when there is no Complete=True condition";
            out.push(StatusCause::invalid(at("completionTime"), completion, why));
        }
        if completion.is_null() && complete {
            let why = "completionTime is required for Complete jobs";
            out.push(StatusCause::required(at("completionTime"), why));
        }
    }
    let start = &status["startTime"];
    if (changed("startTime") || changed("completionTime"))
        && let (Some(start), Some(end)) = (start.as_str(), completion.as_str())
        && end < start
    {
        let why = "must be equal to or after `startTime`";
        out.push(StatusCause::invalid(at("completionTime"), completion, why));
    }
    conditions(
        failed && !is("FailureTarget") && (turned("Failed") || changed("failedIndexes")),
        "cannot set Failed=True condition without the FailureTarget=true condition",
        out,
    );
    conditions(
        complete && !met && (turned("Complete") || turned("SuccessCriteriaMet")),
        "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
        out,
    );
    if count(status, "active") > 0 && finished && (ended || changed("active")) {
        let why = "active>0 is invalid for finished job";
        out.push(StatusCause::invalid(at("active"), &status["active"], why));
    }
    let nothing = spec["suspend"] == true && spec["completions"] == 0;
    if start.is_null() && finished && (ended || changed("startTime")) && !nothing {
        out.push(StatusCause::required(at("startTime"), "startTime is required for finished job"));
    }
    if !seen.is_empty() && finished && (ended || changed("uncountedTerminatedPods")) {
        let shown = json!({"Succeeded": uncounted["succeeded"], "Failed": uncounted["failed"]});
        let why = "must be empty for finished job";
        out.push(StatusCause::invalid(at("uncountedTerminatedPods"), &shown, why));
    }
    let indexed = spec["completionMode"] == "Indexed";
    if changed("completedIndexes")
        && !indexed
        && status["completedIndexes"].as_str().is_some_and(|text| !text.is_empty())
    {
        let why = "cannot set non-empty completedIndexes when non-indexed completion mode";
        out.push(StatusCause::invalid(at("completedIndexes"), &status["completedIndexes"], why));
    }
    if changed("failedIndexes")
        && spec["backoffLimitPerIndex"].is_null()
        && status["failedIndexes"].is_string()
    {
        let why = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        out.push(StatusCause::invalid(at("failedIndexes"), &status["failedIndexes"], why));
    }
    if count(status, "terminating") > 0 && finished && (ended || changed("terminating")) {
        let why = "terminating>0 is invalid for finished job";
        out.push(StatusCause::invalid(at("terminating"), &status["terminating"], why));
    }
    if count(status, "ready") > count(status, "active") && (changed("ready") || changed("active")) {
        let why = "cannot set more ready pods than active";
        out.push(StatusCause::invalid(at("ready"), &status["ready"], why));
    }
    conditions(met && failed, "cannot set SuccessCriteriaMet=True and Failed=true conditions", out);
    conditions(
        met && is("FailureTarget"),
        "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions",
        out,
    );
    conditions(
        !spec["successPolicy"].is_null() && complete && !met,
        "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        out,
    );
    for kind in ["Failed", "Complete", "FailureTarget"] {
        let why = format!("cannot disable the terminal {kind}=True condition");
        conditions(holds(was, kind) && !is(kind), &why, out);
    }
    let scaled = indexed && spec["completions"] == spec["parallelism"];
    for (key, kept) in [("failed", true), ("succeeded", !scaled)] {
        if kept && count(status, key) < count(was, key) {
            let why = format!("cannot decrease the {key} counter");
            out.push(StatusCause::invalid(at(key), &json!(count(status, key)), &why));
        }
    }
    if !completion.is_null() && !was["completionTime"].is_null() && changed("completionTime") {
        out.push(StatusCause::invalid(at("completionTime"), completion, "field is immutable"));
    }
    let suspended = |status: &Value, word: &str| {
        indexed_items(&status["conditions"]).any(|(_, c)| c["type"] == "Suspended" && c["status"] == word)
    };
    let resumes = suspended(was, "True") && suspended(status, "False");
    if !was["startTime"].is_null() && changed("startTime") && spec["suspend"] != true && !resumes {
        let why = "field is immutable for unsuspended job once set";
        out.push(StatusCause::invalid(at("startTime"), start, why));
    }
    let had_met = holds(was, "SuccessCriteriaMet");
    conditions(had_met && !met, "cannot disable the SuccessCriteriaMet=True condition", out);
    conditions(
        holds(was, "Complete") && !had_met && met,
        "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
        out,
    );
}
