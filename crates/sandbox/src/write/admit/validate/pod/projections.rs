//! Validation of projected volumes.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::text_member;
use super::volume_files::{check_local_path, validate_downward_file, validate_file_mode, validate_key_file};
use crate::status::StatusCause;
use crate::write::admit::meta;
use crate::write::admit::validate::{
    CauseList, add_problems, indexed_items, is_empty, names, validate_label_selector,
};

const KINDS: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

pub(super) fn validate_projected(volume: &Value, field: &str, out: &mut CauseList) {
    validate_file_mode(&volume["defaultMode"], format!("{field}.defaultMode"), out);
    let mut paths = BTreeSet::new();
    let mut once = |path: &str, shown: &str, out: &mut CauseList| {
        if !paths.insert(path.to_owned()) {
            out.push(StatusCause::invalid(field, &json!(shown), "conflicting duplicate paths"));
        }
    };
    for (i, source) in indexed_items(&volume["sources"]) {
        let each = format!("{field}.sources[{i}]");
        for kind in ["secret", "configMap"] {
            let source = &source[kind];
            if !source.is_object() {
                continue;
            }
            if is_empty(&source["name"]) {
                out.push(StatusCause::required(format!("{each}.{kind}.name"), ""));
            }
            for (j, item) in indexed_items(&source["items"]) {
                validate_key_file(item, &format!("{each}.{kind}.items[{j}]"), out);
                if !is_empty(&item["path"]) {
                    once(text_member(item, "path"), text_member(source, "name"), out);
                }
            }
        }
        for (_, item) in indexed_items(&source["downwardAPI"]["items"]) {
            validate_downward_file(item, &format!("{each}.downwardAPI"), out);
            if !is_empty(&item["path"]) {
                once(text_member(item, "path"), text_member(item, "path"), out);
            }
        }
        validate_token_source(
            &source["serviceAccountToken"],
            &format!("{each}.serviceAccountToken"),
            field,
            out,
        );
        let bundle = &source["clusterTrustBundle"];
        if bundle.is_object() {
            validate_trust_bundle(bundle, &format!("{each}.clusterTrustBundle"), out);
            once(text_member(bundle, "path"), text_member(bundle, "path"), out);
        }
        let certificate = &source["podCertificate"];
        if certificate.is_object() {
            let at = format!("{each}.podCertificate");
            validate_certificate_source(certificate, &at, out);
            let keys = ["credentialBundlePath", "keyPath", "certificateChainPath"];
            for key in keys.iter().filter(|key| !is_empty(&certificate[**key])) {
                check_local_path(text_member(certificate, key), &format!("{at}.{key}"), out);
                once(text_member(certificate, key), text_member(certificate, key), out);
            }
            if keys.iter().all(|key| is_empty(&certificate[*key])) {
                let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
                out.push(StatusCause::required(at, why));
            }
        }
        if KINDS.iter().filter(|kind| source[**kind].is_object()).count() > 1 {
            out.push(StatusCause::forbidden(each, "may not specify more than 1 volume type per source"));
        }
    }
}

fn validate_token_source(token: &Value, at: &str, field: &str, out: &mut CauseList) {
    if !token.is_object() {
        return;
    }
    let seconds = &token["expirationSeconds"];
    let why = match seconds.as_i64().unwrap_or(3600) {
        ..600 => "may not specify a duration less than 10 minutes",
        600..=4_294_967_296 => "",
        _ => "may not specify a duration larger than 2^32 seconds",
    };
    if !why.is_empty() {
        out.push(StatusCause::invalid(format!("{at}.expirationSeconds"), seconds, why));
    }
    match text_member(token, "path") {
        "" => out.push(StatusCause::required(format!("{field}.path"), "")),
        path => check_local_path(path, &format!("{field}.path"), out),
    }
}

fn validate_trust_bundle(bundle: &Value, at: &str, out: &mut CauseList) {
    match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
        (Some(_), Some(_)) => {
            let names = [
                ("Name", "name"),
                ("SignerName", "signerName"),
                ("LabelSelector", "labelSelector"),
                ("Optional", "optional"),
                ("Path", "path"),
            ];
            let shown = crate::write::admit::validate::go_internal(bundle, &names);
            out.push(StatusCause::invalid(at, &shown, "only one of name and signerName may be used"));
        }
        (Some(name), None) => {
            let field = format!("{at}.name");
            if name.is_empty() {
                out.push(StatusCause::required(&field, "must be a valid object name"));
            }
            for why in bundle_name_problems(name) {
                let why = format!("not a valid clustertrustbundlename: {why}");
                out.push(StatusCause::invalid(&field, &json!(name), &why));
            }
            if !bundle["labelSelector"].is_null() {
                let why = "labelSelector must be unset if name is specified";
                out.push(StatusCause::invalid(format!("{at}.labelSelector"), &bundle["labelSelector"], why));
            }
        }
        (None, Some(signer)) => {
            let field = format!("{at}.signerName");
            if signer.is_empty() {
                out.push(StatusCause::required(&field, "must be a valid signer name"));
            }
            names::validate_signer_name(signer, &field, out);
            validate_label_selector(&bundle["labelSelector"], &format!("{at}.labelSelector"), out);
        }
        (None, None) => out.push(StatusCause::required(at, "either name or signerName must be specified")),
    }
    let path = text_member(bundle, "path");
    if path.is_empty() {
        out.push(StatusCause::required(format!("{at}.path"), ""));
    }
    check_local_path(path, &format!("{at}.path"), out);
}

/// Returns the problems of a trust bundle's name, which starts with its signer's name if it has one.
fn bundle_name_problems(name: &str) -> Vec<String> {
    let Some((signer, _)) = name.rsplit_once(':') else { return meta::subdomain_problems(name) };
    // A signer's name has one slash, which is a colon here.
    let signer = signer.replace(':', "/");
    let start = format!("{}:", signer.replace('/', ":"));
    meta::subdomain_problems(name.strip_prefix(&start).unwrap_or(name))
}

fn validate_certificate_source(certificate: &Value, at: &str, out: &mut CauseList) {
    names::validate_signer_name(text_member(certificate, "signerName"), &format!("{at}.signerName"), out);
    for (key, _) in meta::sorted_members(&certificate["userAnnotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        add_problems(problems, &json!(key), &format!("{at}.userAnnotations"), out);
    }
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    super::containers::check_known_or_empty(&certificate["keyType"], format!("{at}.keyType"), &kinds, out);
    let seconds = &certificate["maxExpirationSeconds"];
    let most =
        if text_member(certificate, "signerName").starts_with("kubernetes.io/") { 86_400 } else { 7_862_400 };
    let why = match seconds.as_i64() {
        Some(..3600) => "if provided, maxExpirationSeconds must be >= 3600".to_owned(),
        Some(n) if n > most => format!("if provided, maxExpirationSeconds must be <= {most}"),
        _ => return,
    };
    out.push(StatusCause::invalid(format!("{at}.maxExpirationSeconds"), seconds, &why));
}
