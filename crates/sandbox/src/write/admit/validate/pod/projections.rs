//! Validation of volumes that show several sources as one.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::text;
use super::volumes::{file, local, mode, told_file};
use crate::status::Cause;
use crate::write::admit::meta;
use crate::write::admit::validate::{Causes, is_empty, label_selector, list, names, texts};

const KINDS: [&str; 6] =
    ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];

pub(super) fn projected(volume: &Value, field: &str, out: &mut Causes) {
    mode(&volume["defaultMode"], format!("{field}.defaultMode"), out);
    let mut paths = BTreeSet::new();
    let mut once = |path: &str, shown: &str, out: &mut Causes| {
        if !paths.insert(path.to_owned()) {
            out.push(Cause::invalid(field, &json!(shown), "conflicting duplicate paths"));
        }
    };
    for (i, source) in list(&volume["sources"]) {
        let each = format!("{field}.sources[{i}]");
        for kind in ["secret", "configMap"] {
            let source = &source[kind];
            if !source.is_object() {
                continue;
            }
            if is_empty(&source["name"]) {
                out.push(Cause::required(format!("{each}.{kind}.name"), ""));
            }
            for (j, item) in list(&source["items"]) {
                file(item, &format!("{each}.{kind}.items[{j}]"), out);
                if !is_empty(&item["path"]) {
                    once(text(item, "path"), text(source, "name"), out);
                }
            }
        }
        for (_, item) in list(&source["downwardAPI"]["items"]) {
            told_file(item, &format!("{each}.downwardAPI"), out);
            if !is_empty(&item["path"]) {
                once(text(item, "path"), text(item, "path"), out);
            }
        }
        token(&source["serviceAccountToken"], &format!("{each}.serviceAccountToken"), field, out);
        let bundle = &source["clusterTrustBundle"];
        if bundle.is_object() {
            trust(bundle, &format!("{each}.clusterTrustBundle"), out);
            once(text(bundle, "path"), text(bundle, "path"), out);
        }
        let certificate = &source["podCertificate"];
        if certificate.is_object() {
            let at = format!("{each}.podCertificate");
            self::certificate(certificate, &at, out);
            let keys = ["credentialBundlePath", "keyPath", "certificateChainPath"];
            for key in keys.iter().filter(|key| !is_empty(&certificate[**key])) {
                local(text(certificate, key), &format!("{at}.{key}"), out);
                once(text(certificate, key), text(certificate, key), out);
            }
            if keys.iter().all(|key| is_empty(&certificate[*key])) {
                let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
                out.push(Cause::required(at, why));
            }
        }
        if KINDS.iter().filter(|kind| source[**kind].is_object()).count() > 1 {
            out.push(Cause::forbidden(each, "may not specify more than 1 volume type per source"));
        }
    }
}

fn token(token: &Value, at: &str, field: &str, out: &mut Causes) {
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
        out.push(Cause::invalid(format!("{at}.expirationSeconds"), seconds, why));
    }
    match text(token, "path") {
        "" => out.push(Cause::required(format!("{field}.path"), "")),
        path => local(path, &format!("{field}.path"), out),
    }
}

fn trust(bundle: &Value, at: &str, out: &mut Causes) {
    match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
        (Some(_), Some(_)) => {
            let names = [
                ("Name", "name"),
                ("SignerName", "signerName"),
                ("LabelSelector", "labelSelector"),
                ("Optional", "optional"),
                ("Path", "path"),
            ];
            let shown = crate::write::admit::validate::internal(bundle, &names);
            out.push(Cause::invalid(at, &shown, "only one of name and signerName may be used"));
        }
        (Some(name), None) => {
            let field = format!("{at}.name");
            if name.is_empty() {
                out.push(Cause::required(&field, "must be a valid object name"));
            }
            for why in bundle_name_problems(name) {
                let why = format!("not a valid clustertrustbundlename: {why}");
                out.push(Cause::invalid(&field, &json!(name), &why));
            }
            if !bundle["labelSelector"].is_null() {
                let why = "labelSelector must be unset if name is specified";
                out.push(Cause::invalid(format!("{at}.labelSelector"), &bundle["labelSelector"], why));
            }
        }
        (None, Some(signer)) => {
            let field = format!("{at}.signerName");
            if signer.is_empty() {
                out.push(Cause::required(&field, "must be a valid signer name"));
            }
            names::signer(signer, &field, out);
            label_selector(&bundle["labelSelector"], &format!("{at}.labelSelector"), out);
        }
        (None, None) => out.push(Cause::required(at, "either name or signerName must be specified")),
    }
    let path = text(bundle, "path");
    if path.is_empty() {
        out.push(Cause::required(format!("{at}.path"), ""));
    }
    local(path, &format!("{at}.path"), out);
}

/// What is wrong with the name of a bundle, which starts with the name of its signer if it has one.
fn bundle_name_problems(name: &str) -> Vec<String> {
    let Some((signer, _)) = name.rsplit_once(':') else { return meta::subdomain_problems(name) };
    // A signer's name has one slash, which is a colon here.
    let signer = signer.replace(':', "/");
    let start = format!("{}:", signer.replace('/', ":"));
    meta::subdomain_problems(name.strip_prefix(&start).unwrap_or(name))
}

fn certificate(certificate: &Value, at: &str, out: &mut Causes) {
    names::signer(text(certificate, "signerName"), &format!("{at}.signerName"), out);
    for (key, _) in meta::sorted(&certificate["userAnnotations"]) {
        let problems = meta::qualified_problems(&key.to_lowercase());
        texts(problems, &json!(key), &format!("{at}.userAnnotations"), out);
    }
    let kinds = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
    super::containers::known(&certificate["keyType"], format!("{at}.keyType"), &kinds, out);
    let seconds = &certificate["maxExpirationSeconds"];
    let most = if text(certificate, "signerName").starts_with("kubernetes.io/") { 86_400 } else { 7_862_400 };
    let why = match seconds.as_i64() {
        Some(..3600) => "if provided, maxExpirationSeconds must be >= 3600".to_owned(),
        Some(n) if n > most => format!("if provided, maxExpirationSeconds must be <= {most}"),
        _ => return,
    };
    out.push(Cause::invalid(format!("{at}.maxExpirationSeconds"), seconds, &why));
}
