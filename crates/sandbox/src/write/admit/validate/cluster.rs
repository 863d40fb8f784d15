//! Validation of kinds of the cluster itself: API services, service addresses and ranges, signers.

use serde_json::{Value, json};

use super::{CauseList, add_problems, indexed_items, is_empty};
use crate::status::StatusCause;
use crate::write::admit::meta;

pub(in crate::write) fn validate_api_service(object: &Value, out: &mut CauseList) {
    let spec = &object["spec"];
    let text = |key: &str| spec[key].as_str().unwrap_or("");
    let (group, version) = (text("group"), text("version"));
    let wanted = format!("{version}.{group}");
    if meta::metadata_text(object, "name") != wanted {
        let why = format!("must be `spec.version+\".\"+spec.group`: {}", json!(wanted));
        out.push(StatusCause::invalid("metadata.name", &object["metadata"]["name"], &why));
    }
    if group.is_empty() && version != "v1" {
        let why = "only v1 may have an empty group and it better be legacy kube";
        out.push(StatusCause::required("spec.group", why));
    }
    if !group.is_empty() {
        add_problems(meta::subdomain_problems(group), &json!(group), "spec.group", out);
    }
    add_problems(meta::dns_label_problems(version), &json!(version), "spec.version", out);
    for (key, most) in [("groupPriorityMinimum", 20_000), ("versionPriority", 1000)] {
        let number = spec[key].as_i64().unwrap_or(0);
        if !(1..=most).contains(&number) {
            let why = format!("must be positive and less than {most}");
            out.push(StatusCause::invalid(format!("spec.{key}"), &json!(number), &why));
        }
    }
    let open = spec["insecureSkipTLSVerify"] == true;
    let (bundle, skip) = (&spec["caBundle"], "spec.insecureSkipTLSVerify");
    if spec["service"].is_null() {
        if let Some(bundle) = bundle.as_str().filter(|bundle| !bundle.is_empty()) {
            let shown = format!("{} bytes", bundle.trim_end_matches('=').len() * 3 / 4);
            out.push(StatusCause::invalid(
                "spec.caBundle",
                &json!(shown),
                "local APIServices may not have a caBundle",
            ));
        }
        if open {
            let why = "local APIServices may not have insecureSkipTLSVerify";
            out.push(StatusCause::invalid(skip, &json!(true), why));
        }
        return;
    }
    super::hooks::validate_hook_service(&spec["service"], "spec.service", ["namespace", "name"], out);
    if open && !is_empty(bundle) {
        out.push(StatusCause::invalid(skip, &json!(true), "may not be true if caBundle is present"));
    }
}

pub(in crate::write) fn validate_ip_address(spec: &Value, out: &mut CauseList) {
    let parent = &spec["parentRef"];
    if parent.is_null() {
        return out.push(StatusCause::required("spec.parentRef", ""));
    }
    let text = |key: &str| parent[key].as_str().unwrap_or("");
    if !text("group").is_empty() {
        add_problems(meta::subdomain_problems(text("group")), &parent["group"], "spec.parentRef.group", out);
    }
    for key in ["resource", "name", "namespace"] {
        add_problems(meta::segment_problems(text(key)), &parent[key], &format!("spec.parentRef.{key}"), out);
    }
    // What is missing is said by the rules declared with the type.
    for key in ["resource", "name"] {
        if text(key).is_empty() {
            out.push(StatusCause::required(format!("spec.parentRef.{key}"), ""));
        }
    }
}

pub(in crate::write) fn validate_service_cidr(spec: &Value, out: &mut CauseList) {
    let (all, at) = (&spec["cidrs"], "spec.cidrs");
    match all.as_array().map_or(0, Vec::len) {
        0 => return out.push(StatusCause::required(at, "at least one CIDR required")),
        1 | 2 => {}
        _ => {
            let shown = json!({"CIDRs": all});
            return out.push(StatusCause::invalid(at, &shown, "may only hold up to 2 values"));
        }
    }
    for (i, cidr) in indexed_items(all) {
        super::address::check_cidr(cidr.as_str().unwrap_or(""), &format!("{at}[{i}]"), out);
    }
    let family = |i: usize| {
        let cidr = all[i].as_str().filter(|cidr| super::address::parse_range(cidr).is_some());
        cidr.map(|cidr| cidr.contains(':'))
    };
    if all.as_array().is_some_and(|all| all.len() == 2) && family(0).is_some() && family(0) == family(1) {
        let why = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        out.push(StatusCause::invalid(at, all, why));
    }
}

/// Validates an update of a service range: it may only gain one of the other family.
pub(crate) fn validate_service_cidr_update(new: &Value, old: &Value, out: &mut CauseList) {
    let length = |spec: &Value| spec["cidrs"].as_array().map_or(0, Vec::len);
    let fixed = |i: usize, out: &mut CauseList| {
        if new["cidrs"][i] != old["cidrs"][i] {
            out.push(StatusCause::invalid(
                format!("spec.cidrs[{i}]"),
                &new["cidrs"][i],
                "field is immutable",
            ));
        }
    };
    match (length(old), length(new)) {
        (was, is) if was == is => (0..is).for_each(|i| fixed(i, out)),
        (1, 2) => {
            fixed(0, out);
            validate_service_cidr(new, out);
        }
        _ => out.push(StatusCause::invalid("spec.cidrs", &new["cidrs"], "field is immutable")),
    }
}

/// Validates the signer of a certificate.
pub(in crate::write) fn validate_signer(name: &Value, at: &str, out: &mut CauseList) {
    let text = name.as_str().unwrap_or("");
    if text.is_empty() {
        return out.push(StatusCause::required(at, ""));
    }
    let Some((domain, path)) = text.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return out.push(StatusCause::invalid(at, name, why));
    };
    if domain.len() > 253 {
        out.push(StatusCause::too_long(at, 253));
    }
    // One part that is wrong is enough.
    let refuse = |whole: &str, rule: fn(&str) -> Vec<String>, out: &mut CauseList| {
        let wrong =
            whole.split('.').map(|part| (part, rule(part))).find(|(_, problems)| !problems.is_empty());
        if let Some((part, problems)) = wrong {
            for problem in problems {
                let why = format!("validating label {}: {problem}", json!(part));
                out.push(StatusCause::invalid(at, &json!(whole), &why));
            }
        }
    };
    refuse(domain, meta::label_problems, out);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        out.push(StatusCause::invalid(at, &json!(domain), why));
    }
    refuse(path, meta::subdomain_problems, out);
}
