//! The rules about objects' names.

use slipway_go::GoError;

/// Checks a name by the rules of its kind.
pub(super) fn check_object_name(kind: &str, name: &str) -> Result<(), GoError> {
    let problems = match kind.to_lowercase().as_str() {
        "certificatesigningrequest" => Vec::new(),
        "role" | "clusterrole" | "rolebinding" | "clusterrolebinding" => path_segment(name),
        "service" => dns_1035_label(name),
        "namespace" => dns_1123_label(name),
        _ => dns_1123_subdomain(name),
    };
    let quoted = crate::values::go_quote(name);
    let all: Vec<String> =
        problems.into_iter().map(|text| format!("metadata.name: Invalid value: {quoted}: {text}")).collect();
    let all = match all.as_slice() {
        [] => return Ok(()),
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Err(format!("object name does not conform to Kubernetes naming requirements: {quoted}: {all}").into())
}

fn is_label(text: &str, first: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    match (bytes.first(), bytes.last()) {
        (Some(start), Some(end)) => {
            first(*start) && inner(*end) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        }
        _ => false,
    }
}

fn is_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn dns_1123_subdomain(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 253 {
        problems.push("must be no more than 253 characters".to_owned());
    }
    if !name.split('.').all(|label| is_label(label, is_alphanumeric)) {
        problems.push("a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')".to_owned());
    }
    problems
}

fn dns_1123_label(name: &str) -> Vec<String> {
    if name.contains('.') {
        return vec!["must not contain dots".to_owned()];
    }
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(name, is_alphanumeric) {
        problems.push("a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    problems
}

fn dns_1035_label(name: &str) -> Vec<String> {
    let mut problems = Vec::new();
    if name.len() > 63 {
        problems.push("must be no more than 63 characters".to_owned());
    }
    if !is_label(name, |byte| byte.is_ascii_lowercase()) {
        problems.push("a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')".to_owned());
    }
    problems
}

fn path_segment(name: &str) -> Vec<String> {
    if matches!(name, "." | "..") {
        return vec![format!("may not be '{name}'")];
    }
    ['/', '%']
        .into_iter()
        .filter(|letter| name.contains(*letter))
        .map(|letter| format!("may not contain '{letter}'"))
        .collect()
}
