//! Names that several kinds hold: of signers and of drivers.

use serde_json::json;

use super::{Causes, texts};
use crate::status::Cause;
use crate::write::admit::meta;

/// The name of a signer: a domain and a path.
pub(super) fn signer(name: &str, field: &str, out: &mut Causes) {
    const FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    if name.is_empty() {
        out.push(Cause::required(field, ""));
        return;
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts.as_slice() else {
        out.push(Cause::invalid(field, &json!(name), FORM));
        return;
    };
    if domain.len() > 253 {
        out.push(Cause::too_long(field, 253));
    }
    labels(domain, meta::label_problems, field, out);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        out.push(Cause::invalid(field, &json!(domain), why));
    }
    labels(path, meta::subdomain_problems, field, out);
    if name.len() > 571 {
        out.push(Cause::too_long(field, 571));
    }
}

/// Labels between dots; of several bad ones the first is told of.
fn labels(part: &str, problems: fn(&str) -> Vec<String>, field: &str, out: &mut Causes) {
    let bad = part.split('.').map(|label| (label, problems(label))).find(|(_, why)| !why.is_empty());
    let Some((label, all)) = bad else { return };
    for why in all {
        out.push(Cause::invalid(field, &json!(part), &format!("validating label {label:?}: {why}")));
    }
}

/// The name of a driver, which may have capitals.
pub(super) fn driver(name: &str, field: &str, out: &mut Causes) {
    if name.is_empty() {
        out.push(Cause::required(field, ""));
        return;
    }
    if name.len() > 63 {
        out.push(Cause::too_long(field, 63));
    }
    texts(meta::subdomain_problems(&name.to_lowercase()), &json!(name), field, out);
}
