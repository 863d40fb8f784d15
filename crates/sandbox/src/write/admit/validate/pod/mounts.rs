//! Validation of what a container mounts, and of the devices it has.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::containers::known;
use super::text;
use super::volumes::{Volumes, climbs, descending};
use crate::status::Cause;
use crate::write::admit::validate::{Causes, list};

/// Whether an item of a list says `value` for `key`.
fn says(items: &Value, key: &str, value: &str) -> bool {
    list(items).any(|(_, item)| text(item, key) == value)
}

pub(super) fn mounts(container: &Value, volumes: &Volumes<'_>, at: &str, out: &mut Causes) {
    let mut paths = BTreeSet::new();
    let whole = format!("{at}.volumeMounts");
    let devices = &container["volumeDevices"];
    for (i, mount) in list(&container["volumeMounts"]) {
        let at = format!("{whole}[{i}]");
        let (name, path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            out.push(Cause::required(format!("{at}.name"), ""));
        }
        if !volumes.contains_key(name) {
            out.push(Cause::not_found(format!("{at}.name"), &json!(name)));
        }
        if path.is_empty() {
            out.push(Cause::required(format!("{at}.mountPath"), ""));
        }
        if !paths.insert(path) {
            out.push(Cause::invalid(format!("{at}.mountPath"), &json!(path), "must be unique"));
        }
        if says(devices, "name", name) {
            let why = "must not already exist in volumeDevices";
            out.push(Cause::invalid(format!("{at}.name"), &json!(name), why));
        }
        if says(devices, "devicePath", path) {
            let why = "must not already exist as a path in volumeDevices";
            out.push(Cause::invalid(format!("{at}.mountPath"), &json!(path), why));
        }
        let (part, pattern) = (text(mount, "subPath"), text(mount, "subPathExpr"));
        descending(part, &format!("{whole}.subPath"), out);
        if !pattern.is_empty() && !part.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            out.push(Cause::invalid(format!("{at}.subPathExpr"), &json!(pattern), why));
        }
        descending(pattern, &format!("{whole}.subPathExpr"), out);
        let way = &mount["mountPropagation"];
        if !way.is_null() {
            let field = format!("{whole}.mountPropagation");
            known(way, field.clone(), &["Bidirectional", "HostToContainer", "None"], out);
            if *way == "Bidirectional" && container["securityContext"]["privileged"] != true {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                out.push(Cause::forbidden(field, why));
            }
        }
        let field = format!("{whole}.recursiveReadOnly");
        match mount["recursiveReadOnly"].as_str() {
            None | Some("Disabled") => {}
            Some("Enabled" | "IfPossible") => {
                if mount["readOnly"] != true {
                    out.push(Cause::forbidden(&field, "may only be specified when readOnly is true"));
                }
                if !way.is_null() && *way != "None" {
                    let why = "may only be specified when mountPropagation is None or not specified";
                    out.push(Cause::forbidden(&field, why));
                }
            }
            _ => known(&mount["recursiveReadOnly"], field, &["Disabled", "Enabled", "IfPossible"], out),
        }
    }
}

pub(super) fn devices(container: &Value, volumes: &Volumes<'_>, at: &str, out: &mut Causes) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let mounts = &container["volumeMounts"];
    for (i, device) in list(&container["volumeDevices"]) {
        let at = format!("{at}.volumeDevices[{i}]");
        let (name, path) = (text(device, "name"), text(device, "devicePath"));
        let (named, placed) = (format!("{at}.name"), format!("{at}.devicePath"));
        if name.is_empty() {
            out.push(Cause::required(&named, ""));
        }
        if names.contains(name) {
            out.push(Cause::invalid(&named, &json!(name), "must be unique"));
        }
        match volumes.get(name) {
            None => out.push(Cause::not_found(&named, &json!(name))),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let why =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                out.push(Cause::invalid(&named, &json!(name), why));
            }
            Some(_) => {}
        }
        if path.is_empty() {
            out.push(Cause::required(&placed, ""));
        }
        if paths.contains(path) {
            out.push(Cause::invalid(&placed, &json!(path), "must be unique"));
        }
        if climbs(path) {
            out.push(Cause::invalid(&placed, &json!(path), "can not contain backsteps ('..')"));
        } else {
            paths.insert(path);
        }
        if says(mounts, "name", name) {
            out.push(Cause::invalid(&named, &json!(name), "must not already exist in volumeMounts"));
        }
        if says(mounts, "mountPath", path) {
            let why = "must not already exist as a path in volumeMounts";
            out.push(Cause::invalid(&placed, &json!(path), why));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}
