//! The cells of each kind's row.

mod network;
mod pods;
mod records;
mod storage;
mod work;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_manifest::jsonpath::{JsonPath, MissingFields};

use crate::api::crd::CustomVersion;
use crate::clock::human_duration;
use crate::write::admit::validate::indexed_items;

const NONE: &str = "<none>";

fn text_at<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn int_at(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn text_or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn item_count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// Returns the age of a time, or `<unknown>`.
pub(super) fn age_since(value: &Value, now: Timestamp) -> String {
    value
        .as_str()
        .and_then(|t| t.parse::<Timestamp>().ok())
        .map_or_else(|| "<unknown>".into(), |at| human_duration(now.duration_since(at)))
}

fn join_texts<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = values.collect();
    if all.is_empty() { NONE.into() } else { all.join(",") }
}

fn label_text(map: &Value) -> String {
    let mut all: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or("")))
        .collect();
    all.sort();
    if all.is_empty() { NONE.into() } else { all.join(",") }
}

fn selector_text(selector: &Value) -> String {
    if !selector.is_object() {
        return NONE.into();
    }
    let mut all: Vec<String> = match label_text(&selector["matchLabels"]) {
        text if text == NONE => vec![],
        text => vec![text],
    };
    for (_, e) in indexed_items(&selector["matchExpressions"]) {
        let key = e["key"].as_str().unwrap_or("");
        let values: Vec<&str> =
            e["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        all.push(match e["operator"].as_str().unwrap_or("") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    if all.is_empty() { NONE.into() } else { all.join(",") }
}

fn container_columns(spec: &Value) -> (Value, Value) {
    let field = |key: &str| {
        spec["containers"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|c| c[key].as_str())
            .collect::<Vec<_>>()
            .join(",")
    };
    (field("name").into(), field("image").into())
}

/// Extra facts about a row: finished pods say so.
pub(super) fn row_conditions(table: &str, object: &Value) -> Option<Value> {
    if table != "pods" {
        return None;
    }
    match object["status"]["phase"].as_str()? {
        "Succeeded" => Some(json!([{
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }])),
        "Failed" => Some(json!([{
            "type": "Completed", "status": "True", "reason": "Failed", "message": "The pod failed.",
        }])),
        _ => None,
    }
}

/// Name and the columns a definition declares.
pub(super) fn custom_row(custom: &CustomVersion, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut out = vec![object["metadata"]["name"].clone()];
    if custom.columns.is_empty() {
        out.push(age_since(&object["metadata"]["creationTimestamp"], now).into());
    }
    for column in &custom.columns {
        let path = column["jsonPath"].as_str().unwrap_or("");
        let found = JsonPath::parse_relaxed(path).ok().and_then(|p| {
            let found = p.with_missing_fields(MissingFields::Ignore).find_values(object).ok()?;
            found.into_iter().flatten().next().map(std::borrow::Cow::into_owned)
        });
        let kind = column["type"].as_str().unwrap_or("");
        out.push(match (kind, found) {
            (_, None | Some(Value::Null)) => Value::Null,
            ("date", Some(value)) => match value.as_str().and_then(|t| t.parse::<Timestamp>().ok()) {
                Some(_) => age_since(&value, now).into(),
                None => "<invalid>".into(),
            },
            ("integer", Some(value)) => value.as_i64().map_or(Value::Null, Value::from),
            ("number", Some(value)) => value.as_f64().map_or(Value::Null, Value::from),
            ("boolean", Some(value)) => value.as_bool().map_or(Value::Null, Value::from),
            (_, Some(Value::String(text))) => text.into(),
            (_, Some(value)) => value.to_string().into(),
        });
    }
    out
}

/// The cells of a built-in object, as many as its columns.
pub(super) fn built_in_row(table: &str, object: &Value, now: Timestamp, columns: usize) -> Vec<Value> {
    // Bookmarks are rows of nothing.
    let name = Value::from(text_at(object, "/metadata/name"));
    let age: Value = age_since(&object["metadata"]["creationTimestamp"], now).into();
    let (spec, status) = (&object["spec"], &object["status"]);
    let s = |pointer: &str| Value::from(text_at(object, pointer));
    let n = |pointer: &str| Value::from(int_at(object, pointer));
    let mut out = match table {
        "pods" => pods::pod_row(object, now, age),
        "nodes" => pods::node_row(object, age),
        "services" => network::service_row(object, age),
        "jobs.batch" => work::job_row(object, now, age),
        "configmaps" => {
            let entries = item_count(&object["data"]) + item_count(&object["binaryData"]);
            vec![name, entries.into(), age]
        }
        "secrets" => vec![name, s("/type"), item_count(&object["data"]).into(), age],
        "namespaces" => vec![name, s("/status/phase"), age],
        "serviceaccounts" | "deviceclasses.resource.k8s.io" => vec![name, age],
        "events" => records::event_row(object, now),
        "endpoints" => vec![name, network::endpoints_cell(object).into(), age],
        "limitranges" | "csistoragecapacities.storage.k8s.io" => vec![name, s("/metadata/creationTimestamp")],
        "clusterroles.rbac.authorization.k8s.io" | "roles.rbac.authorization.k8s.io" => {
            vec![name, s("/metadata/creationTimestamp")]
        }
        "persistentvolumeclaims" => storage::claim_row(object, age),
        "persistentvolumes" => storage::volume_row(object, age),
        "podtemplates" => {
            let (names, images) = container_columns(&object["template"]["spec"]);
            vec![name, names, images, label_text(&object["template"]["metadata"]["labels"]).into()]
        }
        "replicationcontrollers" | "replicasets.apps" => {
            let (names, images) = container_columns(&spec["template"]["spec"]);
            let chosen = if table == "replicasets.apps" {
                selector_text(&spec["selector"])
            } else {
                label_text(&spec["selector"])
            };
            vec![
                name,
                n("/spec/replicas"),
                n("/status/replicas"),
                n("/status/readyReplicas"),
                age,
                names,
                images,
                chosen.into(),
            ]
        }
        "resourcequotas" => work::quota_row(object, age),
        "deployments.apps" => {
            let (names, images) = container_columns(&spec["template"]["spec"]);
            let ready =
                format!("{}/{}", int_at(object, "/status/readyReplicas"), int_at(object, "/spec/replicas"));
            vec![
                name,
                ready.into(),
                n("/status/updatedReplicas"),
                n("/status/availableReplicas"),
                age,
                names,
                images,
                selector_text(&spec["selector"]).into(),
            ]
        }
        "statefulsets.apps" => {
            let (names, images) = container_columns(&spec["template"]["spec"]);
            let ready =
                format!("{}/{}", int_at(object, "/status/readyReplicas"), int_at(object, "/spec/replicas"));
            vec![name, ready.into(), age, names, images]
        }
        "daemonsets.apps" => {
            let (names, images) = container_columns(&spec["template"]["spec"]);
            vec![
                name,
                n("/status/desiredNumberScheduled"),
                n("/status/currentNumberScheduled"),
                n("/status/numberReady"),
                n("/status/updatedNumberScheduled"),
                n("/status/numberAvailable"),
                label_text(&spec["template"]["spec"]["nodeSelector"]).into(),
                age,
                names,
                images,
                selector_text(&spec["selector"]).into(),
            ]
        }
        "controllerrevisions.apps" => {
            let owner = indexed_items(&object["metadata"]["ownerReferences"])
                .find(|(_, r)| r["controller"] == true)
                .map_or_else(
                    || NONE.to_owned(),
                    |(_, r)| {
                        let api = r["apiVersion"].as_str().unwrap_or("");
                        let group = slipway_manifest::object::split_api_version(api).0;
                        let kind = r["kind"].as_str().unwrap_or("").to_lowercase();
                        let dot = if group.is_empty() { "" } else { "." };
                        format!("{kind}{dot}{group}/{}", r["name"].as_str().unwrap_or(""))
                    },
                );
            vec![name, owner.into(), n("/revision"), age]
        }
        "cronjobs.batch" => {
            let template = &spec["jobTemplate"]["spec"]["template"]["spec"];
            let (names, images) = container_columns(template);
            let last = match status["lastScheduleTime"].as_str() {
                Some(_) => age_since(&status["lastScheduleTime"], now),
                None => NONE.into(),
            };
            vec![
                name,
                s("/spec/schedule"),
                text_or(text_at(object, "/spec/timeZone"), NONE).into(),
                if spec["suspend"] == true { "True".into() } else { "False".into() },
                item_count(&status["active"]).into(),
                last.into(),
                age,
                names,
                images,
                selector_text(&spec["jobTemplate"]["spec"]["selector"]).into(),
            ]
        }
        "horizontalpodautoscalers.autoscaling" => work::autoscaler_row(object, age),
        "poddisruptionbudgets.policy" => {
            let shown = |key: &str| match &spec[key] {
                Value::Null => "N/A".to_owned(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            vec![
                name,
                shown("minAvailable").into(),
                shown("maxUnavailable").into(),
                n("/status/disruptionsAllowed"),
                age,
            ]
        }
        "ingresses.networking.k8s.io" => network::ingress_row(object, age),
        "ingressclasses.networking.k8s.io" => {
            let parameters = &spec["parameters"];
            let shown = if parameters.is_object() {
                let group = parameters["apiGroup"].as_str().map(|g| format!(".{g}")).unwrap_or_default();
                format!(
                    "{}{group}/{}",
                    parameters["kind"].as_str().unwrap_or(""),
                    parameters["name"].as_str().unwrap_or("")
                )
            } else {
                NONE.into()
            };
            vec![name, s("/spec/controller"), shown.into(), age]
        }
        "networkpolicies.networking.k8s.io" => vec![name, selector_text(&spec["podSelector"]).into(), age],
        "endpointslices.discovery.k8s.io" => network::endpoint_slice_row(object, age),
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            let role = format!("{}/{}", text_at(object, "/roleRef/kind"), text_at(object, "/roleRef/name"));
            let of = |kind: &str| {
                indexed_items(&object["subjects"])
                    .filter(|(_, s)| s["kind"] == kind)
                    .map(|(_, s)| match s["namespace"].as_str().filter(|_| kind == "ServiceAccount") {
                        Some(ns) => format!("{ns}/{}", s["name"].as_str().unwrap_or("")),
                        None => s["name"].as_str().unwrap_or("").to_owned(),
                    })
                    .collect::<Vec<_>>()
                    .join(", ")
            };
            vec![name, role.into(), age, of("User").into(), of("Group").into(), of("ServiceAccount").into()]
        }
        "storageclasses.storage.k8s.io" => {
            let default =
                slipway_manifest::object::annotation(object, "storageclass.kubernetes.io/is-default-class")
                    == Some("true");
            let shown =
                format!("{}{}", text_at(object, "/metadata/name"), if default { " (default)" } else { "" });
            vec![
                shown.into(),
                s("/provisioner"),
                s("/reclaimPolicy"),
                s("/volumeBindingMode"),
                object["allowVolumeExpansion"].as_bool().unwrap_or(false).into(),
                age,
            ]
        }
        "priorityclasses.scheduling.k8s.io" => vec![
            name,
            n("/value"),
            object["globalDefault"].as_bool().unwrap_or(false).into(),
            age,
            s("/preemptionPolicy"),
        ],
        "leases.coordination.k8s.io" => vec![name, s("/spec/holderIdentity"), age],
        "runtimeclasses.node.k8s.io" => vec![name, s("/handler"), age],
        "customresourcedefinitions.apiextensions.k8s.io" => records::definition_row(object),
        "csidrivers.storage.k8s.io" => vec![
            name,
            spec["attachRequired"].as_bool().unwrap_or(true).into(),
            spec["podInfoOnMount"].as_bool().unwrap_or(false).into(),
            spec["storageCapacity"].as_bool().unwrap_or(false).into(),
            join_texts(indexed_items(&spec["tokenRequests"]).filter_map(|(_, t)| t["audience"].as_str()))
                .replace(NONE, "<unset>")
                .into(),
            spec["requiresRepublish"].as_bool().unwrap_or(false).into(),
            join_texts(indexed_items(&spec["volumeLifecycleModes"]).filter_map(|(_, m)| m.as_str())).into(),
            age,
        ],
        "volumeattachments.storage.k8s.io" => vec![
            name,
            s("/spec/attacher"),
            s("/spec/source/persistentVolumeName"),
            s("/spec/nodeName"),
            status["attached"].as_bool().unwrap_or(false).into(),
            age,
        ],
        "validatingadmissionpolicies.admissionregistration.k8s.io"
        | "mutatingadmissionpolicies.admissionregistration.k8s.io" => {
            let kind = &spec["paramKind"];
            let shown = if kind.is_object() {
                format!("{}/{}", text_at(kind, "/apiVersion"), text_at(kind, "/kind"))
            } else {
                "<unset>".into()
            };
            let checks = item_count(&spec["validations"]) + item_count(&spec["mutations"]);
            vec![name, checks.into(), shown.into(), age]
        }
        "validatingadmissionpolicybindings.admissionregistration.k8s.io"
        | "mutatingadmissionpolicybindings.admissionregistration.k8s.io" => {
            let shown = match (text_at(spec, "/paramRef/namespace"), text_at(spec, "/paramRef/name")) {
                _ if spec["paramRef"].is_null() => "<unset>".to_owned(),
                ("", name) => name.to_owned(),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            vec![name, s("/spec/policyName"), shown.into(), age]
        }
        "flowschemas.flowcontrol.apiserver.k8s.io" => {
            let dangling = indexed_items(&status["conditions"]).find(|(_, c)| c["type"] == "Dangling");
            let dangling = dangling.map_or("?", |(_, c)| c["status"].as_str().unwrap_or("?"));
            vec![
                name,
                s("/spec/priorityLevelConfiguration/name"),
                n("/spec/matchingPrecedence"),
                text_or(text_at(spec, "/distinguisherMethod/type"), NONE).into(),
                age,
                dangling.into(),
            ]
        }
        "prioritylevelconfigurations.flowcontrol.apiserver.k8s.io" => {
            let shares = ["/limited/nominalConcurrencyShares", "/exempt/nominalConcurrencyShares"];
            let shares =
                shares.iter().find_map(|at| spec.pointer(at)).cloned().unwrap_or_else(|| NONE.into());
            let queue = &spec["limited"]["limitResponse"]["queuing"];
            let of = |key: &str| queue.get(key).cloned().unwrap_or_else(|| NONE.into());
            vec![name, s("/spec/type"), shares, of("queues"), of("handSize"), of("queueLengthLimit"), age]
        }
        "servicecidrs.networking.k8s.io" => {
            vec![name, join_texts(indexed_items(&spec["cidrs"]).filter_map(|(_, c)| c.as_str())).into(), age]
        }
        "ipaddresses.networking.k8s.io" => {
            let parent = &spec["parentRef"];
            let shown: Vec<&str> = ["/group", "/resource", "/namespace", "/name"]
                .iter()
                .map(|at| text_at(parent, at))
                .filter(|part| !part.is_empty())
                .collect();
            vec![name, shown.join("/").into(), age]
        }
        "volumeattributesclasses.storage.k8s.io" => vec![name, s("/driverName"), age],
        "certificatesigningrequests.certificates.k8s.io" => records::certificate_request_row(object, age),
        "csinodes.storage.k8s.io" => vec![name, item_count(&spec["drivers"]).into(), age],
        "validatingwebhookconfigurations.admissionregistration.k8s.io"
        | "mutatingwebhookconfigurations.admissionregistration.k8s.io" => {
            vec![name, item_count(&object["webhooks"]).into(), age]
        }
        "apiservices.apiregistration.k8s.io" => {
            let service = &spec["service"];
            let shown = if service.is_object() {
                format!(
                    "{}/{}",
                    service["namespace"].as_str().unwrap_or(""),
                    service["name"].as_str().unwrap_or("")
                )
            } else {
                "Local".into()
            };
            let available = indexed_items(&status["conditions"]).find(|(_, c)| c["type"] == "Available");
            let available = available.map_or("Unknown", |(_, c)| c["status"].as_str().unwrap_or("Unknown"));
            vec![name, shown.into(), available.into(), age]
        }
        _ => {
            let mut out = vec![name];
            out.resize(columns.saturating_sub(1).max(1), "".into());
            out.push(age);
            out
        }
    };
    out.resize(columns, "".into());
    out
}
