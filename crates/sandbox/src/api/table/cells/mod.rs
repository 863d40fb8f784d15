//! The cells of each kind's row.

mod network;
mod pods;
mod records;
mod storage;
mod work;

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_manifest::jsonpath::{JsonPath, MissingFields};

use crate::api::crd::Custom;
use crate::clock::human_duration;
use crate::write::admit::validate::list;

const NONE: &str = "<none>";

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn int(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn or<'a>(text: &'a str, other: &'a str) -> &'a str {
    if text.is_empty() { other } else { text }
}

fn count(value: &Value) -> usize {
    match value {
        Value::Array(items) => items.len(),
        Value::Object(members) => members.len(),
        _ => 0,
    }
}

/// How long ago, or `<unknown>`.
pub(super) fn ago(value: &Value, now: Timestamp) -> String {
    value
        .as_str()
        .and_then(|t| t.parse::<Timestamp>().ok())
        .map_or_else(|| "<unknown>".into(), |at| human_duration(now.duration_since(at)))
}

fn join<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = values.collect();
    if all.is_empty() { NONE.into() } else { all.join(",") }
}

fn labels(map: &Value) -> String {
    let mut all: Vec<String> = map
        .as_object()
        .into_iter()
        .flatten()
        .map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or("")))
        .collect();
    all.sort();
    if all.is_empty() { NONE.into() } else { all.join(",") }
}

fn selector(selector: &Value) -> String {
    if !selector.is_object() {
        return NONE.into();
    }
    let mut all: Vec<String> = match labels(&selector["matchLabels"]) {
        text if text == NONE => vec![],
        text => vec![text],
    };
    for (_, e) in list(&selector["matchExpressions"]) {
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

fn containers(spec: &Value) -> (Value, Value) {
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
pub(super) fn conditions(table: &str, object: &Value) -> Option<Value> {
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
pub(super) fn custom(custom: &Custom, object: &Value, now: Timestamp) -> Vec<Value> {
    let mut out = vec![object["metadata"]["name"].clone()];
    if custom.columns.is_empty() {
        out.push(ago(&object["metadata"]["creationTimestamp"], now).into());
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
                Some(_) => ago(&value, now).into(),
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
pub(super) fn built_in(table: &str, object: &Value, now: Timestamp, columns: usize) -> Vec<Value> {
    // Bookmarks are rows of nothing.
    let name = Value::from(text(object, "/metadata/name"));
    let age: Value = ago(&object["metadata"]["creationTimestamp"], now).into();
    let (spec, status) = (&object["spec"], &object["status"]);
    let s = |pointer: &str| Value::from(text(object, pointer));
    let n = |pointer: &str| Value::from(int(object, pointer));
    let mut out = match table {
        "pods" => pods::pod(object, now, age),
        "nodes" => pods::node(object, age),
        "services" => network::service(object, age),
        "jobs.batch" => work::job(object, now, age),
        "configmaps" => {
            let entries = count(&object["data"]) + count(&object["binaryData"]);
            vec![name, entries.into(), age]
        }
        "secrets" => vec![name, s("/type"), count(&object["data"]).into(), age],
        "namespaces" => vec![name, s("/status/phase"), age],
        "serviceaccounts" | "deviceclasses.resource.k8s.io" => vec![name, age],
        "events" => records::event(object, now),
        "endpoints" => vec![name, network::endpoints(object).into(), age],
        "limitranges" | "csistoragecapacities.storage.k8s.io" => vec![name, s("/metadata/creationTimestamp")],
        "clusterroles.rbac.authorization.k8s.io" | "roles.rbac.authorization.k8s.io" => {
            vec![name, s("/metadata/creationTimestamp")]
        }
        "persistentvolumeclaims" => storage::claim(object, age),
        "persistentvolumes" => storage::volume(object, age),
        "podtemplates" => {
            let (names, images) = containers(&object["template"]["spec"]);
            vec![name, names, images, labels(&object["template"]["metadata"]["labels"]).into()]
        }
        "replicationcontrollers" | "replicasets.apps" => {
            let (names, images) = containers(&spec["template"]["spec"]);
            let chosen = if table == "replicasets.apps" {
                selector(&spec["selector"])
            } else {
                labels(&spec["selector"])
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
        "resourcequotas" => work::quota(object, age),
        "deployments.apps" => {
            let (names, images) = containers(&spec["template"]["spec"]);
            let ready = format!("{}/{}", int(object, "/status/readyReplicas"), int(object, "/spec/replicas"));
            vec![
                name,
                ready.into(),
                n("/status/updatedReplicas"),
                n("/status/availableReplicas"),
                age,
                names,
                images,
                selector(&spec["selector"]).into(),
            ]
        }
        "statefulsets.apps" => {
            let (names, images) = containers(&spec["template"]["spec"]);
            let ready = format!("{}/{}", int(object, "/status/readyReplicas"), int(object, "/spec/replicas"));
            vec![name, ready.into(), age, names, images]
        }
        "daemonsets.apps" => {
            let (names, images) = containers(&spec["template"]["spec"]);
            vec![
                name,
                n("/status/desiredNumberScheduled"),
                n("/status/currentNumberScheduled"),
                n("/status/numberReady"),
                n("/status/updatedNumberScheduled"),
                n("/status/numberAvailable"),
                labels(&spec["template"]["spec"]["nodeSelector"]).into(),
                age,
                names,
                images,
                selector(&spec["selector"]).into(),
            ]
        }
        "controllerrevisions.apps" => {
            let owner = list(&object["metadata"]["ownerReferences"])
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
            let (names, images) = containers(template);
            let last = match status["lastScheduleTime"].as_str() {
                Some(_) => ago(&status["lastScheduleTime"], now),
                None => NONE.into(),
            };
            vec![
                name,
                s("/spec/schedule"),
                or(text(object, "/spec/timeZone"), NONE).into(),
                if spec["suspend"] == true { "True".into() } else { "False".into() },
                count(&status["active"]).into(),
                last.into(),
                age,
                names,
                images,
                selector(&spec["jobTemplate"]["spec"]["selector"]).into(),
            ]
        }
        "horizontalpodautoscalers.autoscaling" => work::autoscaler(object, age),
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
        "ingresses.networking.k8s.io" => network::ingress(object, age),
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
        "networkpolicies.networking.k8s.io" => vec![name, selector(&spec["podSelector"]).into(), age],
        "endpointslices.discovery.k8s.io" => network::slice(object, age),
        "rolebindings.rbac.authorization.k8s.io" | "clusterrolebindings.rbac.authorization.k8s.io" => {
            let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
            let of = |kind: &str| {
                list(&object["subjects"])
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
                format!("{}{}", text(object, "/metadata/name"), if default { " (default)" } else { "" });
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
        "customresourcedefinitions.apiextensions.k8s.io" => records::definition(object),
        "csidrivers.storage.k8s.io" => vec![
            name,
            spec["attachRequired"].as_bool().unwrap_or(true).into(),
            spec["podInfoOnMount"].as_bool().unwrap_or(false).into(),
            spec["storageCapacity"].as_bool().unwrap_or(false).into(),
            join(list(&spec["tokenRequests"]).filter_map(|(_, t)| t["audience"].as_str()))
                .replace(NONE, "<unset>")
                .into(),
            spec["requiresRepublish"].as_bool().unwrap_or(false).into(),
            join(list(&spec["volumeLifecycleModes"]).filter_map(|(_, m)| m.as_str())).into(),
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
                format!("{}/{}", text(kind, "/apiVersion"), text(kind, "/kind"))
            } else {
                "<unset>".into()
            };
            let checks = count(&spec["validations"]) + count(&spec["mutations"]);
            vec![name, checks.into(), shown.into(), age]
        }
        "validatingadmissionpolicybindings.admissionregistration.k8s.io"
        | "mutatingadmissionpolicybindings.admissionregistration.k8s.io" => {
            let shown = match (text(spec, "/paramRef/namespace"), text(spec, "/paramRef/name")) {
                _ if spec["paramRef"].is_null() => "<unset>".to_owned(),
                ("", name) => name.to_owned(),
                (namespace, name) => format!("{namespace}/{name}"),
            };
            vec![name, s("/spec/policyName"), shown.into(), age]
        }
        "flowschemas.flowcontrol.apiserver.k8s.io" => {
            let dangling = list(&status["conditions"]).find(|(_, c)| c["type"] == "Dangling");
            let dangling = dangling.map_or("?", |(_, c)| c["status"].as_str().unwrap_or("?"));
            vec![
                name,
                s("/spec/priorityLevelConfiguration/name"),
                n("/spec/matchingPrecedence"),
                or(text(spec, "/distinguisherMethod/type"), NONE).into(),
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
            vec![name, join(list(&spec["cidrs"]).filter_map(|(_, c)| c.as_str())).into(), age]
        }
        "ipaddresses.networking.k8s.io" => {
            let parent = &spec["parentRef"];
            let shown: Vec<&str> = ["/group", "/resource", "/namespace", "/name"]
                .iter()
                .map(|at| text(parent, at))
                .filter(|part| !part.is_empty())
                .collect();
            vec![name, shown.join("/").into(), age]
        }
        "volumeattributesclasses.storage.k8s.io" => vec![name, s("/driverName"), age],
        "certificatesigningrequests.certificates.k8s.io" => records::certificate_request(object, age),
        "csinodes.storage.k8s.io" => vec![name, count(&spec["drivers"]).into(), age],
        "validatingwebhookconfigurations.admissionregistration.k8s.io"
        | "mutatingwebhookconfigurations.admissionregistration.k8s.io" => {
            vec![name, count(&object["webhooks"]).into(), age]
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
            let available = list(&status["conditions"]).find(|(_, c)| c["type"] == "Available");
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
