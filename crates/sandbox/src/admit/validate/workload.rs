//! Validation of the kinds that make, scale and protect pods.

use serde_json::{Value, json};

use super::pod;
use super::{Causes, is_empty, label_selector, list, non_negative, one_of, selects, texts};
use crate::admit::meta;
use crate::status::Cause;

const MISMATCH: &str = "`selector` does not match template `labels`";

/// The checks every kind with a selector and a template shares.
fn selector_and_template(spec: &Value, what: &str, out: &mut Causes) {
    let selector = &spec["selector"];
    if selector.is_null() {
        out.push(Cause::required("spec.selector", ""));
    } else {
        label_selector(selector, "spec.selector", out);
        if is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
            out.push(Cause::invalid(
                "spec.selector",
                selector,
                &format!("empty selector is invalid for {what}"),
            ));
        }
    }
    if unreadable(selector) {
        if what == "statefulset" {
            let shown = format!("Invalid value: {selector}");
            out.push(Cause { message: shown, ..Cause::invalid_unshown("spec.selector", "") });
        } else {
            out.push(Cause::invalid("spec.selector", selector, "invalid label selector"));
        }
        return;
    }
    template_matches(spec, out);
}

/// Whether a selector cannot even be turned into one.
fn unreadable(selector: &Value) -> bool {
    let mut problems = Causes::new();
    label_selector(selector, "", &mut problems);
    !problems.is_empty()
}

fn template_matches(spec: &Value, out: &mut Causes) {
    let template = &spec["template"];
    let labels = &template["metadata"]["labels"];
    let selector = &spec["selector"];
    let everything =
        selector.is_object() && is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]);
    if !everything && !selects(selector, labels) {
        out.push(Cause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
    pod::template(template, "spec.template", out);
}

fn always_restarts(spec: &Value, what: &str, out: &mut Causes) {
    let template = &spec["template"]["spec"];
    if template["restartPolicy"] != "Always" {
        out.push(Cause::not_supported(
            "spec.template.spec.restartPolicy",
            &json!(template["restartPolicy"].as_str().unwrap_or("")),
            &["Always"],
        ));
    }
    if !template["activeDeadlineSeconds"].is_null() {
        out.push(Cause::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            &format!("activeDeadlineSeconds in {what} is not Supported"),
        ));
    }
}

pub(super) fn deployment(spec: &Value, out: &mut Causes) {
    non_negative(&spec["replicas"], "spec.replicas".into(), out);
    selector_and_template(spec, "deployment", out);
    always_restarts(spec, "ReplicaSet", out);
    let strategy = &spec["strategy"];
    match strategy["type"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.strategy.type", "")),
        "Recreate" => {
            if !strategy["rollingUpdate"].is_null() {
                out.push(Cause::forbidden(
                    "spec.strategy.rollingUpdate",
                    "may not be specified when strategy `type` is 'Recreate'",
                ));
            }
        }
        "RollingUpdate" => {
            if strategy["rollingUpdate"].is_null() {
                out.push(Cause::required(
                    "spec.strategy.rollingUpdate",
                    "this should be defaulted and never be nil",
                ));
            } else {
                rolling(&strategy["rollingUpdate"], "spec.strategy.rollingUpdate", out);
            }
        }
        _ => out.push(Cause::not_supported(
            "spec.strategy",
            &super::internal(strategy, &[("Type", "type"), ("RollingUpdate", "rollingUpdate")]),
            &["Recreate", "RollingUpdate"],
        )),
    }
    for key in ["minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"] {
        non_negative(&spec[key], format!("spec.{key}"), out);
    }
    if let Some(deadline) = spec["progressDeadlineSeconds"].as_i64()
        && deadline <= spec["minReadySeconds"].as_i64().unwrap_or(0)
    {
        out.push(Cause::invalid(
            "spec.progressDeadlineSeconds",
            &spec["progressDeadlineSeconds"],
            "must be greater than minReadySeconds",
        ));
    }
}

/// A count or a percentage, not negative.
fn count_or_percent(value: &Value, field: &str, out: &mut Causes) {
    match value {
        Value::String(text) => {
            let digits = text.strip_suffix('%').unwrap_or("");
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                out.push(Cause::invalid(
                    field,
                    value,
                    "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ));
            }
        }
        _ => non_negative(value, field.to_owned(), out),
    }
}

fn percent_over(value: &Value, field: &str, out: &mut Causes) {
    let percent = value.as_str().and_then(|t| t.strip_suffix('%')).and_then(|t| t.parse::<i64>().ok());
    if percent.is_some_and(|p| p > 100) {
        out.push(Cause::invalid(field, value, "must not be greater than 100%"));
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Number(n) => n.as_i64() == Some(0),
        Value::String(s) => s.strip_suffix('%').and_then(|t| t.parse::<i64>().ok()) == Some(0),
        _ => value.is_null(),
    }
}

fn rolling(rolling: &Value, field: &str, out: &mut Causes) {
    count_or_percent(&rolling["maxUnavailable"], &format!("{field}.maxUnavailable"), out);
    count_or_percent(&rolling["maxSurge"], &format!("{field}.maxSurge"), out);
    if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
        out.push(Cause::invalid(
            format!("{field}.maxUnavailable"),
            &rolling["maxUnavailable"],
            "may not be 0 when `maxSurge` is 0",
        ));
    }
    percent_over(&rolling["maxUnavailable"], &format!("{field}.maxUnavailable"), out);
}

pub(super) fn replica_set(spec: &Value, out: &mut Causes) {
    non_negative(&spec["replicas"], "spec.replicas".into(), out);
    non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    // The text says so in every release.
    selector_and_template(spec, "deployment", out);
    always_restarts(spec, "ReplicaSet", out);
}

pub(super) fn replication_controller(object: &Value, out: &mut Causes) {
    let spec = &object["spec"];
    non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    if is_empty(&spec["selector"]) {
        out.push(Cause::required("spec.selector", ""));
    }
    non_negative(&spec["replicas"], "spec.replicas".into(), out);
    if spec["template"].is_null() {
        out.push(Cause::required("spec.template", ""));
        return;
    }
    let selector = json!({"matchLabels": spec["selector"]});
    let labels = &spec["template"]["metadata"]["labels"];
    if !is_empty(&spec["selector"]) && !selects(&selector, labels) {
        out.push(Cause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
    pod::template(&spec["template"], "spec.template", out);
    always_restarts(spec, "ReplicationController", out);
}

pub(super) fn stateful_set(spec: &Value, new: bool, out: &mut Causes) {
    match spec["podManagementPolicy"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.podManagementPolicy", "")),
        "OrderedReady" | "Parallel" => {}
        _ => out.push(Cause::invalid(
            "spec.podManagementPolicy",
            &spec["podManagementPolicy"],
            "must be 'OrderedReady' or 'Parallel'",
        )),
    }
    let strategy = &spec["updateStrategy"];
    match strategy["type"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.updateStrategy", "")),
        "OnDelete" => {
            if !strategy["rollingUpdate"].is_null() {
                out.push(Cause::invalid(
                    "spec.updateStrategy.rollingUpdate",
                    &strategy["rollingUpdate"],
                    "only allowed for updateStrategy 'RollingUpdate'",
                ));
            }
        }
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            non_negative(&rolling["partition"], "spec.updateStrategy.rollingUpdate.partition".into(), out);
            if !rolling["maxUnavailable"].is_null() {
                let field = "spec.updateStrategy.rollingUpdate.maxUnavailable";
                count_or_percent(&rolling["maxUnavailable"], field, out);
                if is_zero(&rolling["maxUnavailable"]) {
                    out.push(Cause::invalid(field, &rolling["maxUnavailable"], "cannot be 0"));
                }
                percent_over(&rolling["maxUnavailable"], field, out);
            }
        }
        _ => {
            let rolling = &strategy["rollingUpdate"];
            let names = [("Partition", "partition"), ("MaxUnavailable", "maxUnavailable")];
            let rolling = rolling.is_object().then(|| super::internal(rolling, &names));
            out.push(Cause::invalid(
                "spec.updateStrategy",
                &json!({"Type": strategy["type"], "RollingUpdate": rolling}),
                "must be 'RollingUpdate' or 'OnDelete'",
            ));
        }
    }
    if let Some(name) = spec["serviceName"].as_str().filter(|name| !name.is_empty()) {
        texts(meta::label_problems(name), &spec["serviceName"], "spec.serviceName", out);
    }
    for key in ["whenDeleted", "whenScaled"] {
        let policy = &spec["persistentVolumeClaimRetentionPolicy"];
        if !policy.is_null() {
            one_of(
                &policy[key],
                format!("spec.persistentVolumeClaimRetentionPolicy.{key}"),
                &["Retain", "Delete"],
                out,
            );
        }
    }
    non_negative(&spec["replicas"], "spec.replicas".into(), out);
    non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    non_negative(&spec["ordinals"]["start"], "spec.ordinals.start".into(), out);
    for (i, claim) in list(&spec["volumeClaimTemplates"]).filter(|_| new) {
        super::storage::claim(&claim["spec"], &format!("spec.volumeClaimTemplates[{i}].spec"), out);
    }
    for (i, claim) in list(&spec["volumeClaimTemplates"]) {
        let at = format!("spec.template.spec.volumes[{i}]");
        match claim["metadata"]["name"].as_str().unwrap_or("") {
            "" => {
                out.push(Cause::required(format!("{at}.persistentVolumeClaim.claimName"), ""));
                out.push(Cause::required(format!("{at}.name"), ""));
            }
            name => texts(meta::label_problems(name), &json!(name), &format!("{at}.name"), out),
        }
    }
    selector_and_template(spec, "statefulset", out);
    always_restarts(spec, "StatefulSet", out);
    // Every claim template is a volume of each pod, whether or not the template lists it.
    for (_, claim) in list(&spec["volumeClaimTemplates"]) {
        let missing = format!("Not found: {}", claim["metadata"]["name"]);
        out.retain(|cause| !(cause.message == missing && cause.field.contains(".volumeMounts[")));
    }
}

pub(super) fn daemon_set(spec: &Value, out: &mut Causes) {
    label_selector(&spec["selector"], "spec.selector", out);
    let selector = &spec["selector"];
    let labels = &spec["template"]["metadata"]["labels"];
    if !unreadable(selector) && !selects(selector, labels) {
        out.push(Cause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
    if selector.is_object() && is_empty(&selector["matchLabels"]) && is_empty(&selector["matchExpressions"]) {
        out.push(Cause::invalid("spec.selector", selector, "empty selector is invalid for daemonset"));
    }
    pod::template(&spec["template"], "spec.template", out);
    always_restarts(spec, "DaemonSet", out);
    non_negative(&spec["minReadySeconds"], "spec.minReadySeconds".into(), out);
    let strategy = &spec["updateStrategy"];
    match strategy["type"].as_str().unwrap_or("") {
        "OnDelete" => {}
        "RollingUpdate" => {
            let rolling = &strategy["rollingUpdate"];
            let field = "spec.updateStrategy.rollingUpdate";
            count_or_percent(&rolling["maxUnavailable"], &format!("{field}.maxUnavailable"), out);
            count_or_percent(&rolling["maxSurge"], &format!("{field}.maxSurge"), out);
            if !is_zero(&rolling["maxUnavailable"]) && !is_zero(&rolling["maxSurge"]) {
                out.push(Cause::invalid(
                    format!("{field}.maxSurge"),
                    &rolling["maxSurge"],
                    "may not be set when maxUnavailable is non-zero",
                ));
            }
            if is_zero(&rolling["maxUnavailable"]) && is_zero(&rolling["maxSurge"]) {
                out.push(Cause::required(
                    format!("{field}.maxUnavailable"),
                    "cannot be 0 when maxSurge is 0",
                ));
            }
        }
        _ => out.push(Cause::not_supported(
            "spec.updateStrategy",
            &super::internal(strategy, &[("Type", "type"), ("RollingUpdate", "rollingUpdate")]),
            &["RollingUpdate", "OnDelete"],
        )),
    }
    non_negative(&spec["revisionHistoryLimit"], "spec.revisionHistoryLimit".into(), out);
}

pub(super) fn job(object: &Value, new: bool, out: &mut Causes) {
    let spec = &object["spec"];
    job_spec(spec, "spec", out);
    if spec["selector"].is_null() {
        out.push(Cause::required("spec.selector", ""));
    } else {
        label_selector(&spec["selector"], "spec.selector", out);
    }
    let uid = &object["metadata"]["uid"];
    let generated = json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}});
    if new && spec["manualSelector"] != true && !spec["selector"].is_null() && spec["selector"] != generated {
        out.push(Cause::invalid("spec.selector", &spec["selector"], "`selector` not auto-generated"));
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if !selects(&spec["selector"], labels) {
        out.push(Cause::invalid("spec.template.metadata.labels", labels, MISMATCH));
    }
}

fn job_spec(spec: &Value, field: &str, out: &mut Causes) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(&spec[key], format!("{field}.{key}"), out);
    }
    if spec["backoffLimitPerIndex"].is_null() && !spec["maxFailedIndexes"].is_null() {
        let why = "when maxFailedIndexes is specified";
        out.push(Cause::required(format!("{field}.backoffLimitPerIndex"), why));
    }
    if let Some(mode) = spec["completionMode"].as_str() {
        if mode != "NonIndexed" && mode != "Indexed" {
            out.push(Cause::not_supported(
                format!("{field}.completionMode"),
                &spec["completionMode"],
                &["NonIndexed", "Indexed"],
            ));
        }
        if mode == "Indexed" && spec["completions"].is_null() {
            out.push(Cause::required(format!("{field}.completions"), "when completion mode is Indexed"));
        }
        if mode == "Indexed" && spec["parallelism"].as_i64().is_some_and(|n| n > 100_000) {
            let why = "must be less than or equal to 100000 when completion mode is Indexed";
            out.push(Cause::invalid(format!("{field}.parallelism"), &spec["parallelism"], why));
        }
    }
    if let (Some(most), Some(all)) = (spec["maxFailedIndexes"].as_i64(), spec["completions"].as_i64())
        && spec["completionMode"] == "Indexed"
        && most > all
    {
        let why = "must be less than or equal to completions";
        out.push(Cause::invalid(format!("{field}.maxFailedIndexes"), &spec["maxFailedIndexes"], why));
    }
    if spec["completionMode"] == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[key].is_null() {
                let why = "requires indexed completion mode";
                out.push(Cause::invalid(format!("{field}.{key}"), &spec[key], why));
            }
        }
    }
    failure_policy(spec, field, out);
    success_policy(spec, field, out);
    if let Some(policy) = spec["podReplacementPolicy"].as_str() {
        let known: &[&str] =
            if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"] } else { &["Failed"] };
        if !known.contains(&policy) {
            let at = format!("{field}.podReplacementPolicy");
            out.push(Cause::not_supported(at, &spec["podReplacementPolicy"], known));
        }
    }
    pod::template(&spec["template"], &format!("{field}.template"), out);
    let at = format!("{field}.template.spec.restartPolicy");
    match spec["template"]["spec"]["restartPolicy"].as_str().unwrap_or("") {
        "" | "Always" => out.push(Cause::required(at, "valid values: \"OnFailure\", \"Never\"")),
        "OnFailure" if !spec["podFailurePolicy"].is_null() => out.push(Cause::invalid(
            at,
            &spec["template"]["spec"]["restartPolicy"],
            "only \"Never\" is supported when podFailurePolicy is specified",
        )),
        "OnFailure" | "Never" => {}
        _ => out.push(Cause::not_supported(
            at,
            &spec["template"]["spec"]["restartPolicy"],
            &["OnFailure", "Never"],
        )),
    }
}

pub(super) fn cron_job(object: &Value, out: &mut Causes) {
    let spec = &object["spec"];
    job_spec(&spec["jobTemplate"]["spec"], "spec.jobTemplate.spec", out);
    match spec["schedule"].as_str().unwrap_or("") {
        "" => out.push(Cause::required("spec.schedule", "")),
        schedule => {
            if let Err(why) = crate::cron::Schedule::parse(schedule) {
                out.push(Cause::invalid("spec.schedule", &spec["schedule"], &why));
            } else if schedule.contains("TZ") {
                out.push(Cause::invalid(
                    "spec.schedule",
                    &spec["schedule"],
                    "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                ));
            }
        }
    }
    non_negative(&spec["startingDeadlineSeconds"], "spec.startingDeadlineSeconds".into(), out);
    if let Some(zone) = spec["timeZone"].as_str() {
        if zone.is_empty() {
            out.push(Cause::invalid(
                "spec.timeZone",
                &spec["timeZone"],
                "timeZone must be nil or non-empty string",
            ));
        } else if zone.eq_ignore_ascii_case("local") {
            out.push(Cause::invalid(
                "spec.timeZone",
                &spec["timeZone"],
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
            ));
        } else if jiff::tz::TimeZone::get(zone).is_err() {
            out.push(Cause::invalid(
                "spec.timeZone",
                &spec["timeZone"],
                &format!("unknown time zone {zone}"),
            ));
        }
    }
    one_of(&spec["concurrencyPolicy"], "spec.concurrencyPolicy".into(), &["Allow", "Forbid", "Replace"], out);
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(&spec[key], format!("spec.{key}"), out);
    }
    if meta::text(object, "name").len() > 52 {
        out.push(Cause::invalid(
            "metadata.name",
            &object["metadata"]["name"],
            "must be no more than 52 characters",
        ));
    }
}

pub(super) fn revision(object: &Value, out: &mut Causes) {
    non_negative(&object["revision"], "revision".into(), out);
    if object["data"].is_null() {
        out.push(Cause::required("data", "data is mandatory"));
    }
}

/// What lets a job end well before all of it has.
fn success_policy(spec: &Value, field: &str, out: &mut Causes) {
    let policy = &spec["successPolicy"];
    if !policy.is_object() {
        return;
    }
    let at = format!("{field}.successPolicy");
    if spec["completionMode"] != "Indexed" {
        let names = [("SucceededIndexes", "succeededIndexes"), ("SucceededCount", "succeededCount")];
        let rules: Vec<Value> =
            list(&policy["rules"]).map(|(_, rule)| super::internal(rule, &names)).collect();
        out.push(Cause::invalid(at, &json!({"Rules": rules}), "requires indexed completion mode"));
        return;
    }
    if is_empty(&policy["rules"]) {
        let why = "at least one rules must be specified when the successPolicy is specified";
        out.push(Cause::required(format!("{at}.rules"), why));
    }
    for (i, rule) in list(&policy["rules"]) {
        let at = format!("{at}.rules[{i}]");
        if rule["succeededCount"].is_null() && rule["succeededIndexes"].is_null() {
            let why = "at least one of succeededCount or succeededIndexes must be specified";
            out.push(Cause::required(at.clone(), why));
        }
        let Some(completions) = spec["completions"].as_i64() else { continue };
        let mut indexes = None;
        if let Some(text) = rule["succeededIndexes"].as_str() {
            let counted = count_indexes(text, completions);
            indexes = Some(*counted.as_ref().unwrap_or(&0));
            if let Err(why) = counted {
                let why = format!("error parsing succeededIndexes: {why}");
                out.push(Cause::invalid(format!("{at}.succeededIndexes"), &rule["succeededIndexes"], &why));
            }
        }
        let at = format!("{at}.succeededCount");
        non_negative(&rule["succeededCount"], at.clone(), out);
        let Some(count) = rule["succeededCount"].as_i64() else { continue };
        let mut at_most = |most: i64, what: &str| {
            if count > most {
                let why = format!("must be less than or equal to {most} (the number of {what})");
                out.push(Cause::invalid(at.clone(), &rule["succeededCount"], &why));
            }
        };
        at_most(completions, "specified completions");
        if let Some(indexes) = indexes {
            at_most(indexes, "indexes in the specified succeededIndexes field");
        }
    }
}

/// How many indexes a list such as `0,2-4` names.
fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let (mut total, mut last) = (0, None);
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let ends: Vec<&str> = part.split('-').collect();
        if ends.len() > 2 {
            return Err(format!(
                "the fragment {part:?} violates the requirement that an index interval can have at most two parts separated by '-'"
            ));
        }
        for (i, end) in ends.into_iter().enumerate() {
            let Ok(index) = end.parse::<i64>() else {
                return Err(format!("cannot convert string to integer for index: {end:?}"));
            };
            if index >= completions {
                return Err(format!("too large index: {end:?}"));
            }
            if let Some(last) = last.filter(|last| *last >= index) {
                return Err(format!("non-increasing order, previous: {last}, current: {index}"));
            }
            // The second of two ends stands for all those after the first.
            total += last.filter(|_| i == 1).map_or(1, |first| index - first);
            last = Some(index);
        }
    }
    Ok(total)
}

/// What ends a job early, or does not count against it.
fn failure_policy(spec: &Value, field: &str, out: &mut Causes) {
    let policy = &spec["podFailurePolicy"];
    if policy.is_null() {
        return;
    }
    let at = format!("{field}.podFailurePolicy");
    for (i, rule) in list(&policy["rules"]) {
        let at = format!("{at}.rules[{i}]");
        let actions = ["Count", "FailIndex", "FailJob", "Ignore"];
        match rule["action"].as_str().unwrap_or("") {
            "" => out.push(Cause::required(
                format!("{at}.action"),
                "valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
            )),
            "FailIndex" if spec["backoffLimitPerIndex"].is_null() => out.push(Cause::invalid(
                format!("{at}.action"),
                &rule["action"],
                "requires the backoffLimitPerIndex to be set",
            )),
            action if actions.contains(&action) => {}
            _ => out.push(Cause::not_supported(format!("{at}.action"), &rule["action"], &actions)),
        }
        let codes = &rule["onExitCodes"];
        let conditions = !is_empty(&rule["onPodConditions"]);
        if !codes.is_null() {
            let at = format!("{at}.onExitCodes");
            if is_empty(&codes["operator"]) {
                out.push(Cause::required(format!("{at}.operator"), "valid values: [\"In\" \"NotIn\"]"));
            } else {
                one_of(&codes["operator"], format!("{at}.operator"), &["In", "NotIn"], out);
            }
            for (j, code) in list(&codes["values"]) {
                if codes["operator"] == "In" && *code == json!(0) {
                    out.push(Cause::invalid(
                        format!("{at}.values[{j}]"),
                        code,
                        "must not be 0 for the In operator",
                    ));
                }
            }
            if is_empty(&codes["values"]) {
                out.push(Cause::invalid(
                    format!("{at}.values"),
                    &codes["values"],
                    "at least one value is required",
                ));
            }
        }
        for (j, condition) in list(&rule["onPodConditions"]) {
            let at = format!("{at}.onPodConditions[{j}]");
            let kind = condition["type"].as_str().unwrap_or("");
            texts(meta::qualified_problems(kind), &json!(kind), &format!("{at}.type"), out);
            one_of(&condition["status"], format!("{at}.status"), &["False", "True", "Unknown"], out);
        }
        match (codes.is_null(), conditions) {
            (false, true) => {
                let why = "specifying both OnExitCodes and OnPodConditions is not supported";
                out.push(Cause::invalid_unshown(at, why));
            }
            (true, false) => {
                let why = "specifying one of OnExitCodes and OnPodConditions is required";
                out.push(Cause::invalid_unshown(at, why));
            }
            _ => {}
        }
    }
}

pub(super) fn disruption_budget(spec: &Value, out: &mut Causes) {
    if !spec["minAvailable"].is_null() && !spec["maxUnavailable"].is_null() {
        let shown = super::internal(
            spec,
            &[
                ("MinAvailable", "minAvailable"),
                ("Selector", "selector"),
                ("MaxUnavailable", "maxUnavailable"),
                ("UnhealthyPodEvictionPolicy", "unhealthyPodEvictionPolicy"),
            ],
        );
        out.push(Cause::invalid("spec", &shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for key in ["minAvailable", "maxUnavailable"] {
        if !spec[key].is_null() {
            count_or_percent(&spec[key], &format!("spec.{key}"), out);
            percent_over(&spec[key], &format!("spec.{key}"), out);
        }
    }
    label_selector(&spec["selector"], "spec.selector", out);
    let policies = &["AlwaysAllow", "IfHealthyBudget"];
    super::known(
        &spec["unhealthyPodEvictionPolicy"],
        "spec.unhealthyPodEvictionPolicy".into(),
        policies,
        out,
    );
}
