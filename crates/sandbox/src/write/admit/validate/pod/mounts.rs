//! Validation of what a container mounts, and of the devices it has.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::check_known_or_empty;
use super::text_member;
use super::volume_files::{check_descending_path, leads_out};
use super::volumes::VolumesByName;
use crate::status::StatusCause;
use crate::write::admit::validate::{CauseList, indexed_items};

/// Returns true if an item of a list has `value` at `key`.
fn has_item(items: &Value, key: &str, value: &str) -> bool {
    indexed_items(items).any(|(_, item)| text_member(item, key) == value)
}

pub(super) fn validate_mounts(container: &Value, volumes: &VolumesByName<'_>, at: &str, out: &mut CauseList) {
    let mut paths = BTreeSet::new();
    let whole = format!("{at}.volumeMounts");
    let devices = &container["volumeDevices"];
    for (i, mount) in indexed_items(&container["volumeMounts"]) {
        let at = format!("{whole}[{i}]");
        let (name, path) = (text_member(mount, "name"), text_member(mount, "mountPath"));
        if name.is_empty() {
            out.push(StatusCause::required(format!("{at}.name"), ""));
        }
        if !volumes.contains_key(name) {
            out.push(StatusCause::not_found(format!("{at}.name"), &json!(name)));
        }
        if path.is_empty() {
            out.push(StatusCause::required(format!("{at}.mountPath"), ""));
        }
        if !paths.insert(path) {
            out.push(StatusCause::invalid(format!("{at}.mountPath"), &json!(path), "must be unique"));
        }
        if has_item(devices, "name", name) {
            let why = "must not already exist in volumeDevices";
            out.push(StatusCause::invalid(format!("{at}.name"), &json!(name), why));
        }
        if has_item(devices, "devicePath", path) {
            let why = "must not already exist as a path in volumeDevices";
            out.push(StatusCause::invalid(format!("{at}.mountPath"), &json!(path), why));
        }
        let (part, pattern) = (text_member(mount, "subPath"), text_member(mount, "subPathExpr"));
        check_descending_path(part, &format!("{whole}.subPath"), out);
        if !pattern.is_empty() && !part.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            out.push(StatusCause::invalid(format!("{at}.subPathExpr"), &json!(pattern), why));
        }
        check_descending_path(pattern, &format!("{whole}.subPathExpr"), out);
        let way = &mount["mountPropagation"];
        if !way.is_null() {
            let field = format!("{whole}.mountPropagation");
            check_known_or_empty(way, field.clone(), &["Bidirectional", "HostToContainer", "None"], out);
            if *way == "Bidirectional" && container["securityContext"]["privileged"] != true {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                out.push(StatusCause::forbidden(field, why));
            }
        }
        let field = format!("{whole}.recursiveReadOnly");
        match mount["recursiveReadOnly"].as_str() {
            None | Some("Disabled") => {}
            Some("Enabled" | "IfPossible") => {
                if mount["readOnly"] != true {
                    out.push(StatusCause::forbidden(&field, "may only be specified when readOnly is true"));
                }
                if !way.is_null() && *way != "None" {
                    let why = "may only be specified when mountPropagation is None or not specified";
                    out.push(StatusCause::forbidden(&field, why));
                }
            }
            _ => check_known_or_empty(
                &mount["recursiveReadOnly"],
                field,
                &["Disabled", "Enabled", "IfPossible"],
                out,
            ),
        }
    }
}

pub(super) fn validate_devices(
    container: &Value,
    volumes: &VolumesByName<'_>,
    at: &str,
    out: &mut CauseList,
) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let mounts = &container["volumeMounts"];
    for (i, device) in indexed_items(&container["volumeDevices"]) {
        let at = format!("{at}.volumeDevices[{i}]");
        let (name, path) = (text_member(device, "name"), text_member(device, "devicePath"));
        let (named, placed) = (format!("{at}.name"), format!("{at}.devicePath"));
        if name.is_empty() {
            out.push(StatusCause::required(&named, ""));
        }
        if names.contains(name) {
            out.push(StatusCause::invalid(&named, &json!(name), "must be unique"));
        }
        match volumes.get(name) {
            None => out.push(StatusCause::not_found(&named, &json!(name))),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                out.push(StatusCause::invalid(&named, &json!(name), why));
            }
            Some(_) => {}
        }
        if path.is_empty() {
            out.push(StatusCause::required(&placed, ""));
        }
        if paths.contains(path) {
            out.push(StatusCause::invalid(&placed, &json!(path), "must be unique"));
        }
        if leads_out(path) {
            out.push(StatusCause::invalid(&placed, &json!(path), "can not contain backsteps ('..')"));
        } else {
            paths.insert(path);
        }
        if has_item(mounts, "name", name) {
            out.push(StatusCause::invalid(&named, &json!(name), "must not already exist in volumeMounts"));
        }
        if has_item(mounts, "mountPath", path) {
            let why = "must not already exist as a path in volumeMounts";
            out.push(StatusCause::invalid(&placed, &json!(path), why));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
