//! Names that several kinds hold: of signers and of drivers.

use serde_json::json;

use super::{CauseList, add_problems};
use crate::status::StatusCause;
use crate::write::admit::meta;

/// The name of a signer: a domain and a path.
pub(in crate::write) fn validate_signer_name(name: &str, field: &str, out: &mut CauseList) {
    const FORM: &str = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
    if name.is_empty() {
        out.push(StatusCause::required(field, ""));
        return;
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts.as_slice() else {
        out.push(StatusCause::invalid(field, &json!(name), FORM));
        return;
    };
    if domain.len() > 253 {
        out.push(StatusCause::too_long(field, 253));
    }
    check_dotted_labels(domain, meta::label_problems, field, out);
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        out.push(StatusCause::invalid(field, &json!(domain), why));
    }
    check_dotted_labels(path, meta::subdomain_problems, field, out);
    if name.len() > 571 {
        out.push(StatusCause::too_long(field, 571));
    }
}

/// Labels between dots; of several bad ones the first is told of.
fn check_dotted_labels(part: &str, problems: fn(&str) -> Vec<String>, field: &str, out: &mut CauseList) {
    let bad = part.split('.').map(|label| (label, problems(label))).find(|(_, why)| !why.is_empty());
    let Some((label, all)) = bad else { return };
    for why in all {
        out.push(StatusCause::invalid(field, &json!(part), &format!("validating label {label:?}: {why}")));
    }
}

/// The name of a driver, which may have capitals.
pub(in crate::write) fn validate_csi_driver_name(name: &str, field: &str, out: &mut CauseList) {
    if name.is_empty() {
        out.push(StatusCause::required(field, ""));
        return;
    }
    if name.len() > 63 {
        out.push(StatusCause::too_long(field, 63));
    }
    add_problems(meta::subdomain_problems(&name.to_lowercase()), &json!(name), field, out);
}
