//! Validation of jobs and cron jobs.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::pod::{self, check_known_or_empty};
use super::workload::MISMATCH;
use super::{
    CauseList, add_problems, check_non_negative, check_one_of, indexed_items, is_empty, selector_matches,
    validate_label_selector,
};
use crate::status::StatusCause;
use crate::write::admit::meta;
use slipway_go::GoError;

pub(in crate::write) fn validate_job(object: &Value, new: bool, out: &mut CauseList) {
    let spec = &object["spec"];
    let selector = &spec["selector"];
    let mut problems = CauseList::new();
    validate_label_selector(selector, "spec.selector", &mut problems);
    let readable = problems.is_empty();
    if new && spec["manualSelector"] != true && !selector.is_null() {
        validate_generated_selector(object, readable, out);
    }
    validate_job_spec(spec, "spec", out);
    if selector.is_null() {
        out.push(StatusCause::required("spec.selector", ""));
    }
    out.append(&mut problems);
    let labels = &spec["template"]["metadata"]["labels"];
    if readable && !selector_matches(selector, labels) {
        out.push(StatusCause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
    let completions = spec["completions"].as_i64().unwrap_or(0);
    if new && spec["completionMode"] == "Indexed" && completions > 0 {
        let name = meta::metadata_text(object, "name");
        let last = format!("{name}-{}", completions - 1);
        if !meta::label_problems(&last).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {last}");
            out.push(StatusCause::invalid("metadata.name", &json!(name), &why));
        }
    }
}

/// The selector and the labels a job is given are its own.
fn validate_generated_selector(object: &Value, readable: bool, out: &mut CauseList) {
    let spec = &object["spec"];
    let (uid, name) = (meta::metadata_text(object, "uid"), meta::metadata_text(object, "name"));
    let labels = &spec["template"]["metadata"]["labels"];
    let expected = json!({
        "controller-uid": uid, "job-name": name,
        "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": name,
    });
    for (key, value) in expected.as_object().into_iter().flatten() {
        let at = format!("spec.template.metadata.labels[{key}]");
        match labels.get(key) {
            None => {
                let why = format!("must be '{}'", value.as_str().unwrap_or(""));
                out.push(StatusCause::required(at, &why));
            }
            Some(given) if given != value => {
                let why = format!("must be '{}'", value.as_str().unwrap_or(""));
                out.push(StatusCause::invalid(at, labels, &why));
            }
            Some(_) => {}
        }
    }
    if readable && !selector_matches(&spec["selector"], &expected) {
        out.push(StatusCause::invalid("spec.selector", &spec["selector"], "`selector` not auto-generated"));
    }
}

fn validate_job_spec(spec: &Value, field: &str, out: &mut CauseList) {
    let at = |key: &str| format!("{field}.{key}");
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        check_non_negative(&spec[key], at(key), out);
    }
    if spec["backoffLimitPerIndex"].is_null() && !spec["maxFailedIndexes"].is_null() {
        out.push(StatusCause::required(at("backoffLimitPerIndex"), "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        validate_managed_by(manager, &at("managedBy"), out);
    }
    let mode = &spec["completionMode"];
    if !mode.is_null() {
        check_known_or_empty(mode, at("completionMode"), &["NonIndexed", "Indexed"], out);
    }
    if *mode == "Indexed" {
        validate_indexed_job(spec, &at, out);
    }
    if mode.is_null() || *mode == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[key].is_null() {
                out.push(StatusCause::invalid(at(key), &spec[key], "requires indexed completion mode"));
            }
        }
    }
    validate_failure_policy(spec, field, out);
    validate_success_policy(spec, field, out);
    if !spec["podReplacementPolicy"].is_null() {
        let policies: &[&str] =
            if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"] } else { &["Failed"] };
        check_known_or_empty(&spec["podReplacementPolicy"], at("podReplacementPolicy"), policies, out);
    }
    pod::validate_template(&spec["template"], &at("template"), out);
    let policy = &spec["template"]["spec"]["restartPolicy"];
    let at = at("template.spec.restartPolicy");
    match policy.as_str().unwrap_or("") {
        "" | "Always" => out.push(StatusCause::required(at, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            out.push(StatusCause::invalid(at, policy, why));
        }
        _ => check_known_or_empty(policy, at, &["OnFailure", "Never"], out),
    }
}

/// Validates the fields of an indexed job.
fn validate_indexed_job(spec: &Value, at: &dyn Fn(&str) -> String, out: &mut CauseList) {
    const MANY: i64 = 100_000;
    const FEWER: i64 = 10_000;
    if spec["completions"].is_null() {
        out.push(StatusCause::required(at("completions"), "when completion mode is Indexed"));
    }
    let at_most = |key: &str, most: i64, rest: &str, out: &mut CauseList| {
        if spec[key].as_i64().is_some_and(|n| n > most) {
            out.push(StatusCause::invalid(
                at(key),
                &spec[key],
                &format!("must be less than or equal to {rest}"),
            ));
        }
    };
    at_most("parallelism", MANY, "100000 when completion mode is Indexed", out);
    let completions = spec["completions"].as_i64();
    if let Some(completions) = completions {
        at_most("maxFailedIndexes", completions, "completions", out);
    }
    at_most("maxFailedIndexes", MANY, "100000", out);
    if completions.is_some_and(|n| n > MANY) && !spec["backoffLimitPerIndex"].is_null() {
        if spec["maxFailedIndexes"].is_null() {
            let why = "must be specified when completions is above 100000";
            out.push(StatusCause::required(at("maxFailedIndexes"), why));
        }
        let rest = "10000 when completions are above 100000 and used with backoff limit per index";
        at_most("parallelism", FEWER, rest, out);
        at_most("maxFailedIndexes", FEWER, rest, out);
    }
}

/// Validates `managedBy`: a path below a domain.
fn validate_managed_by(manager: &str, field: &str, out: &mut CauseList) {
    const PATH: &str = "Invalid path (regex used for validation is '[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+')";
    match manager.split_once('/') {
        _ if manager.is_empty() => out.push(StatusCause::required(field, "")),
        Some((host, path)) if !host.is_empty() && !path.is_empty() => {
            add_problems(meta::subdomain_problems(host), &json!(host), field, out);
            if !path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
                out.push(StatusCause::invalid(field, &json!(path), PATH));
            }
        }
        _ => {
            let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
            out.push(StatusCause::invalid(field, &json!(manager), why));
        }
    }
    if manager.len() > 63 {
        out.push(StatusCause::too_long(field, 63));
    }
}

pub(in crate::write) fn validate_cron_job(object: &Value, old: Option<&Value>, out: &mut CauseList) {
    let spec = &object["spec"];
    let schedule = spec["schedule"].as_str().unwrap_or("");
    if !schedule.is_empty() {
        if let Err(why) = crate::controllers::cron::CronSchedule::parse(schedule) {
            out.push(StatusCause::invalid("spec.schedule", &spec["schedule"], &why));
        }
        let had = old.is_some_and(|old| old["spec"]["schedule"].as_str().unwrap_or("").contains("TZ"));
        let why = match (had, schedule.contains("TZ")) {
            (false, true) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
            (true, true) if !spec["timeZone"].is_null() => {
                "cannot use both timeZone field and TZ or CRON_TZ in schedule"
            }
            _ => "",
        };
        if !why.is_empty() {
            out.push(StatusCause::invalid("spec.schedule", &spec["schedule"], why));
        }
    }
    check_non_negative(&spec["startingDeadlineSeconds"], "spec.startingDeadlineSeconds".into(), out);
    if let Some(zone) = spec["timeZone"].as_str()
        && old.is_none_or(|old| old["spec"]["timeZone"] != spec["timeZone"])
    {
        validate_time_zone(zone, out);
    }
    check_one_of(
        &spec["concurrencyPolicy"],
        "spec.concurrencyPolicy".into(),
        &["Allow", "Forbid", "Replace"],
        out,
    );
    let job = &spec["jobTemplate"]["spec"];
    validate_job_spec(job, "spec.jobTemplate.spec", out);
    if !job["selector"].is_null() {
        let why = "`selector` will be auto-generated";
        out.push(StatusCause::invalid("spec.jobTemplate.spec.selector", &job["selector"], why));
    }
    if job["manualSelector"] == true {
        let at = "spec.jobTemplate.spec.manualSelector";
        out.push(StatusCause::not_supported(at, &json!(true), &["nil", "false"]));
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        check_non_negative(&spec[key], format!("spec.{key}"), out);
    }
    if old.is_none() && meta::metadata_text(object, "name").len() > 52 {
        let why = "must be no more than 52 characters";
        out.push(StatusCause::invalid("metadata.name", &object["metadata"]["name"], why));
    }
    if schedule.is_empty() {
        out.push(StatusCause::required("spec.schedule", ""));
    }
}

fn validate_time_zone(zone: &str, out: &mut CauseList) {
    let mut refuse = |why: &str| out.push(StatusCause::invalid("spec.timeZone", &json!(zone), why));
    let unknown = format!("unknown time zone {zone}");
    let part = |part: &str| {
        (1..=14).contains(&part.len())
            && !matches!(part, "." | "..")
            && !part.starts_with('-')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b))
    };
    if zone.is_empty() {
        refuse("timeZone must be nil or non-empty string");
    } else if !zone.split('/').all(part) {
        refuse(&unknown);
    } else {
        if zone.eq_ignore_ascii_case("local") {
            refuse("timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones");
        }
        if zone != "Local" && jiff::tz::TimeZone::get(zone).is_err() {
            refuse(&unknown);
        }
    }
}

/// Validates the success policy of a job.
fn validate_success_policy(spec: &Value, field: &str, out: &mut CauseList) {
    let policy = &spec["successPolicy"];
    if !policy.is_object() {
        return;
    }
    let at = format!("{field}.successPolicy");
    if spec["completionMode"] != "Indexed" {
        let names = [("SucceededIndexes", "succeededIndexes"), ("SucceededCount", "succeededCount")];
        let rules: Vec<Value> =
            indexed_items(&policy["rules"]).map(|(_, rule)| super::go_internal(rule, &names)).collect();
        let rules = if rules.is_empty() { Value::Null } else { Value::Array(rules) };
        out.push(StatusCause::invalid(at, &json!({"Rules": rules}), "requires indexed completion mode"));
        return;
    }
    if is_empty(&policy["rules"]) {
        let why = "at least one rules must be specified when the successPolicy is specified";
        out.push(StatusCause::required(format!("{at}.rules"), why));
    }
    let count = policy["rules"].as_array().map_or(0, Vec::len);
    if count > 20 {
        out.push(StatusCause::too_many(format!("{at}.rules"), count, 20));
    }
    for (i, rule) in indexed_items(&policy["rules"]) {
        let at = format!("{at}.rules[{i}]");
        if rule["succeededCount"].is_null() && rule["succeededIndexes"].is_null() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            out.push(StatusCause::required(at.clone(), why));
        }
        let Some(completions) = spec["completions"].as_i64() else { continue };
        let mut indexes = None;
        if let Some(text) = rule["succeededIndexes"].as_str() {
            let counted = count_indexes(text, completions);
            indexes = Some(*counted.as_ref().unwrap_or(&0));
            if let Err(why) = counted {
                let why = format!("error parsing succeededIndexes: {why}");
                out.push(StatusCause::invalid(
                    format!("{at}.succeededIndexes"),
                    &rule["succeededIndexes"],
                    &why,
                ));
            }
        }
        let at = format!("{at}.succeededCount");
        check_non_negative(&rule["succeededCount"], at.clone(), out);
        let Some(count) = rule["succeededCount"].as_i64() else { continue };
        let mut at_most = |most: i64, what: &str| {
            if count > most {
                let why = format!("must be less than or equal to {most} (the number of {what})");
                out.push(StatusCause::invalid(at.clone(), &rule["succeededCount"], &why));
            }
        };
        at_most(completions, "specified completions");
        if let Some(indexes) = indexes {
            at_most(indexes, "indexes in the specified succeededIndexes field");
        }
    }
}

/// Counts the indexes in a list such as `0,2-4`.
fn count_indexes(text: &str, completions: i64) -> Result<i64, GoError> {
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let ends: Vec<&str> = part.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ).into());
        }
        for (i, end) in ends.into_iter().enumerate() {
            let Ok(index) = end.parse::<i64>() else {
                return Err(format!("cannot convert string to integer for index: {end:?}").into());
            };
            if index >= completions {
                return Err(format!("too large index: {end:?}").into());
            }
            if let Some(last) = last.filter(|last| *last >= index) {
                return Err(format!("non-increasing order, previous: {last}, current: {index}").into());
            }
            // The second of two ends stands for all those after the first.
            total += last.filter(|_| i == 1).map_or(1, |first| index - first);
            last = Some(index);
        }
    }
    Ok(total)
}

/// Validates the pod failure policy of a job.
fn validate_failure_policy(spec: &Value, field: &str, out: &mut CauseList) {
    let policy = &spec["podFailurePolicy"];
    if policy.is_null() {
        return;
    }
    let at = format!("{field}.podFailurePolicy");
    let template = &spec["template"]["spec"];
    let names: Vec<&Value> = ["containers", "initContainers"]
        .into_iter()
        .flat_map(|kind| indexed_items(&template[kind]).map(|(_, container)| &container["name"]))
        .collect();
    let count = policy["rules"].as_array().map_or(0, Vec::len);
    if count > 20 {
        out.push(StatusCause::too_many(format!("{at}.rules"), count, 20));
    }
    for (i, rule) in indexed_items(&policy["rules"]) {
        let at = format!("{at}.rules[{i}]");
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        match rule["action"].as_str().unwrap_or("") {
            "" => out.push(StatusCause::required(
                format!("{at}.action"),
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            )),
            "FailIndex" if spec["backoffLimitPerIndex"].is_null() => out.push(StatusCause::invalid(
                format!("{at}.action"),
                &rule["action"],
                "requires the backoffLimitPerIndex to be set",
            )),
            action if actions.contains(&action) => {}
            _ => out.push(StatusCause::not_supported(format!("{at}.action"), &rule["action"], &actions)),
        }
        let codes = &rule["onExitCodes"];
        let conditions = !is_empty(&rule["onPodConditions"]);
        if !codes.is_null() {
            let at = format!("{at}.onExitCodes");
            validate_exit_codes(codes, &names, &at, out);
        }
        let count = rule["onPodConditions"].as_array().map_or(0, Vec::len);
        if count > 20 {
            out.push(StatusCause::too_many(format!("{at}.onPodConditions"), count, 20));
        }
        for (j, condition) in indexed_items(&rule["onPodConditions"]) {
            let at = format!("{at}.onPodConditions[{j}]");
            let kind = condition["type"].as_str().unwrap_or("");
            add_problems(meta::qualified_problems(kind), &json!(kind), &format!("{at}.type"), out);
            let status = format!("{at}.status");
            if is_empty(&condition["status"]) {
                let why = "valid values: [\"False\" \"True\" \"Unknown\"]";
                out.push(StatusCause::required(status, why));
            } else {
                check_known_or_empty(&condition["status"], status, &["False", "True", "Unknown"], out);
            }
        }
        match (codes.is_null(), conditions) {
            (false, true) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                out.push(StatusCause::invalid_unshown(at, why));
            }
            (true, false) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                out.push(StatusCause::invalid_unshown(at, why));
            }
            _ => {}
        }
    }
}

/// The exit codes a rule is about, and of which container.
fn validate_exit_codes(codes: &Value, names: &[&Value], at: &str, out: &mut CauseList) {
    if is_empty(&codes["operator"]) {
        out.push(StatusCause::required(format!("{at}.operator"), "valid values: [\"In\" \"NotIn\"]"));
    } else {
        check_known_or_empty(&codes["operator"], format!("{at}.operator"), &["In", "NotIn"], out);
    }
    let name = &codes["containerName"];
    if !name.is_null() && !names.contains(&name) {
        let why = "must be one of the container or initContainer names in the pod template";
        out.push(StatusCause::invalid(format!("{at}.containerName"), name, why));
    }
    let field = format!("{at}.values");
    let values: Vec<i64> =
        indexed_items(&codes["values"]).map(|(_, code)| code.as_i64().unwrap_or(0)).collect();
    if values.is_empty() {
        out.push(StatusCause::invalid(&field, &codes["values"], "at least one value is required"));
    } else if values.len() > 255 {
        out.push(StatusCause::too_many(&field, values.len(), 255));
    }
    let mut seen = BTreeSet::new();
    for (i, code) in values.iter().enumerate() {
        let at = format!("{field}[{i}]");
        if codes["operator"] == "In" && *code == 0 {
            out.push(StatusCause::invalid(&at, &json!(0), "must not be 0 for the In operator"));
        }
        if !seen.insert(code) {
            out.push(StatusCause::duplicate(at, &json!(code)));
        }
    }
    if !values.is_sorted() {
        out.push(StatusCause::invalid(field, &json!(values), "must be ordered"));
    }
}
