//! Rules of names.

use slipway_problem::Problem;

fn is_label(name: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !name.is_empty()
        && name.bytes().all(|byte| inner(byte) || byte == b'-')
        && name.bytes().next().is_some_and(inner)
        && name.bytes().last().is_some_and(inner)
}

/// Finds what is wrong with a step's name, if anything, and its code.
pub(crate) fn step(name: &str) -> Option<(&'static str, Problem)> {
    if !is_label(name) {
        let message =
            format!("name `{name}` must match lower-case letters, digits and `-`, with none at the ends");
        return Some(("E052", Problem::error(message).hint("it becomes the name of a Job")));
    }
    (name.len() > 63)
        .then(|| ("E053", Problem::error(format!("name has {} characters, 63 are allowed", name.len()))))
}

/// Finds what is wrong with a name that must be a DNS label.
pub(crate) fn label(what: &str, name: &str) -> Option<Problem> {
    if is_label(name) && name.len() <= 63 {
        return None;
    }
    Some(Problem::error(format!(
        "{what} must match a DNS label (lower-case letters, digits, `-`, at most 63), found `{name}`"
    )))
}

/// Finds what is wrong with a name that must be a DNS subdomain.
pub(crate) fn subdomain(what: &str, name: &str) -> Option<Problem> {
    if name.len() <= 253 && name.split('.').all(is_label) {
        return None;
    }
    Some(Problem::error(format!(
        "{what} must match a DNS subdomain (labels joined by dots, at most 253), found `{name}`"
    )))
}

/// Finds what is wrong with a Helm release's name.
pub(crate) fn release(name: &str) -> Option<Problem> {
    if name.len() <= 53 && name.split('.').all(is_label) {
        return None;
    }
    Some(Problem::error(format!("release `{name}` must match a DNS subdomain of at most 53 characters")))
}
