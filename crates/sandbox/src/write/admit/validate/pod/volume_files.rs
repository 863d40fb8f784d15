//! Validation of the files a volume shows: modes, keys, fields of the pod, paths.

use serde_json::{Value, json};

use super::environment::{validate_field_path, validate_resource_field};
use super::text_member;
use crate::status::StatusCause;
use crate::write::admit::validate::{CauseList, indexed_items, is_empty};

/// The mode of a file.
pub(super) fn validate_file_mode(value: &Value, field: String, out: &mut CauseList) {
    if value.as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let why = "must be a number between 0 and 0777 (octal), both inclusive";
        out.push(StatusCause::invalid(field, value, why));
    }
}

/// The files of a volume that shows a secret or a config map.
pub(super) fn validate_files(source: &Value, field: &str, out: &mut CauseList) {
    validate_file_mode(&source["defaultMode"], format!("{field}.defaultMode"), out);
    for (i, item) in indexed_items(&source["items"]) {
        validate_key_file(item, &format!("{field}.items[{i}]"), out);
    }
}

/// A key shown as a file.
pub(super) fn validate_key_file(item: &Value, at: &str, out: &mut CauseList) {
    if is_empty(&item["key"]) {
        out.push(StatusCause::required(format!("{at}.key"), ""));
    }
    let path = text_member(item, "path");
    if path.is_empty() {
        out.push(StatusCause::required(format!("{at}.path"), ""));
    }
    check_local_path(path, &format!("{at}.path"), out);
    validate_file_mode(&item["mode"], format!("{at}.mode"), out);
}

/// A field or resource of the pod shown as a file.
pub(super) fn validate_downward_file(file: &Value, field: &str, out: &mut CauseList) {
    const SHOWN: &[&str] =
        &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    let path = text_member(file, "path");
    if path.is_empty() {
        out.push(StatusCause::required(format!("{field}.path"), ""));
    }
    check_local_path(path, &format!("{field}.path"), out);
    if file["fieldRef"].is_object() {
        validate_field_path(&file["fieldRef"], SHOWN, &format!("{field}.fieldRef"), out);
        if file["resourceFieldRef"].is_object() {
            let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
            out.push(StatusCause::invalid(field, &json!("resource"), why));
        }
    } else if file["resourceFieldRef"].is_object() {
        validate_resource_field(&file["resourceFieldRef"], true, &format!("{field}.resourceFieldRef"), out);
    } else {
        out.push(StatusCause::required(field, "one of fieldRef and resourceFieldRef is required"));
    }
    validate_file_mode(&file["mode"], format!("{field}.mode"), out);
}

/// Checks that a path is relative and does not lead upwards.
pub(super) fn check_descending_path(path: &str, field: &str, out: &mut CauseList) {
    if path.starts_with('/') {
        out.push(StatusCause::invalid(field, &json!(path), "must be a relative path"));
    }
    if leads_out(path) {
        out.push(StatusCause::invalid(field, &json!(path), "must not contain '..'"));
    }
}

/// A path within a volume, where names with two dots at the start are the system's.
pub(super) fn check_local_path(path: &str, field: &str, out: &mut CauseList) {
    check_descending_path(path, field, out);
    if path.starts_with("..") && !path.starts_with("../") {
        out.push(StatusCause::invalid(field, &json!(path), "must not start with '..'"));
    }
}

/// Returns true if a path leads out of its start.
pub(super) fn leads_out(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}
