//! The cells of each kind's row.

use jiff::Timestamp;
use serde_json::{Value, json};
use slipway_manifest::jsonpath::{JsonPath, Missing};

use crate::admit::validate::list;
use crate::clock::human_duration;
use crate::crd::Custom;

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
fn ago(value: &Value, now: Timestamp) -> String {
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
            let found = p.missing(Missing::Ignore).find(object).ok()?;
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
        "pods" => pod(object, now, age),
        "nodes" => node(object, age),
        "services" => service(object, age),
        "jobs.batch" => job(object, now, age),
        "configmaps" => {
            let entries = count(&object["data"]) + count(&object["binaryData"]);
            vec![name, entries.into(), age]
        }
        "secrets" => vec![name, s("/type"), count(&object["data"]).into(), age],
        "namespaces" => vec![name, s("/status/phase"), age],
        "serviceaccounts" | "deviceclasses.resource.k8s.io" => vec![name, age],
        "events" => event(object, now),
        "endpoints" => vec![name, endpoints(object).into(), age],
        "limitranges" | "csistoragecapacities.storage.k8s.io" => vec![name, s("/metadata/creationTimestamp")],
        "clusterroles.rbac.authorization.k8s.io" | "roles.rbac.authorization.k8s.io" => {
            vec![name, s("/metadata/creationTimestamp")]
        }
        "persistentvolumeclaims" => claim(object, age),
        "persistentvolumes" => volume(object, age),
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
        "resourcequotas" => quota(object, age),
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
        "horizontalpodautoscalers.autoscaling" => autoscaler(object, age),
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
        "ingresses.networking.k8s.io" => ingress(object, age),
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
        "endpointslices.discovery.k8s.io" => slice(object, age),
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
        "customresourcedefinitions.apiextensions.k8s.io" => definition(object),
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
        "certificatesigningrequests.certificates.k8s.io" => certificate_request(object, age),
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

fn certificate_request(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let has = |kind: &str| list(&status["conditions"]).any(|(_, c)| c["type"] == kind);
    let mut state = match (has("Denied"), has("Approved")) {
        (true, _) => "Denied",
        (false, true) => "Approved",
        (false, false) => "Pending",
    }
    .to_owned();
    if has("Failed") {
        state.push_str(",Failed");
    }
    if !text(status, "/certificate").is_empty() {
        state.push_str(",Issued");
    }
    let lasts = spec["expirationSeconds"]
        .as_i64()
        .map_or_else(|| NONE.to_owned(), |seconds| human_duration(jiff::SignedDuration::from_secs(seconds)));
    vec![
        object["metadata"]["name"].clone(),
        age,
        or(text(spec, "/signerName"), NONE).into(),
        text(spec, "/username").into(),
        lasts.into(),
        state.into(),
    ]
}

fn pod(object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let sidecars = list(&spec["initContainers"]).filter(|(_, c)| c["restartPolicy"] == "Always").count();
    let total = count(&spec["containers"]) + sidecars;
    let mut reason = or(text(status, "/reason"), text(status, "/phase")).to_owned();
    for (_, condition) in list(&status["conditions"]) {
        if condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated" {
            reason = "SchedulingGated".into();
        }
    }
    let mut restarts = 0;
    let mut last_restart: Option<String> = None;
    let mut ready = 0;
    let sidecar = |name: &Value| {
        list(&spec["initContainers"]).any(|(_, c)| c["name"] == *name && c["restartPolicy"] == "Always")
    };
    let mut initialising = false;
    let init_total = count(&spec["initContainers"]);
    for (i, container) in list(&status["initContainerStatuses"]) {
        restarts += int(container, "/restartCount");
        let state = &container["state"];
        if state["terminated"].is_object() && int(state, "/terminated/exitCode") == 0 {
            continue;
        }
        if sidecar(&container["name"]) && container["started"] == true {
            if container["ready"] == true {
                ready += 1;
            }
            continue;
        }
        reason = if state["terminated"].is_object() {
            let why = text(state, "/terminated/reason");
            if why.is_empty() {
                format!("Init:ExitCode:{}", int(state, "/terminated/exitCode"))
            } else {
                format!("Init:{why}")
            }
        } else {
            let why = text(state, "/waiting/reason");
            if why.is_empty() || why == "PodInitializing" {
                format!("Init:{i}/{init_total}")
            } else {
                format!("Init:{why}")
            }
        };
        initialising = true;
        break;
    }
    if !initialising {
        restarts = 0;
        let mut has_running = false;
        for (_, container) in list(&status["containerStatuses"]).collect::<Vec<_>>().into_iter().rev() {
            restarts += int(container, "/restartCount");
            let finished = text(container, "/lastState/terminated/finishedAt");
            if !finished.is_empty() && last_restart.as_deref().is_none_or(|l| l < finished) {
                last_restart = Some(finished.to_owned());
            }
            let state = &container["state"];
            if !text(state, "/waiting/reason").is_empty() {
                reason = text(state, "/waiting/reason").into();
            } else if !text(state, "/terminated/reason").is_empty() {
                reason = text(state, "/terminated/reason").into();
            } else if state["terminated"].is_object() {
                reason = format!("ExitCode:{}", int(state, "/terminated/exitCode"));
            } else if container["ready"] == true && state["running"].is_object() {
                has_running = true;
                ready += 1;
            }
        }
        if reason == "Completed" && has_running {
            let is_ready =
                list(&status["conditions"]).any(|(_, c)| c["type"] == "Ready" && c["status"] == "True");
            reason = if is_ready { "Running" } else { "NotReady" }.into();
        }
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        reason = if text(status, "/reason") == "NodeLost" { "Unknown" } else { "Terminating" }.into();
    }
    let restarts = match last_restart {
        Some(at) if restarts > 0 => format!("{restarts} ({} ago)", ago(&at.into(), now)),
        _ => restarts.to_string(),
    };
    let gates = spec["readinessGates"].as_array().map_or(0, Vec::len);
    let open = list(&spec["readinessGates"])
        .filter(|(_, g)| {
            list(&status["conditions"]).any(|(_, c)| c["type"] == g["conditionType"] && c["status"] == "True")
        })
        .count();
    vec![
        object["metadata"]["name"].clone(),
        format!("{ready}/{total}").into(),
        reason.into(),
        restarts.into(),
        age,
        or(text(status, "/podIP"), NONE).into(),
        or(text(spec, "/nodeName"), NONE).into(),
        or(text(status, "/nominatedNodeName"), NONE).into(),
        if gates == 0 { NONE.into() } else { format!("{open}/{gates}").into() },
    ]
}

fn node(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let ready = list(&status["conditions"]).find(|(_, c)| c["type"] == "Ready");
    let mut state = match ready {
        Some((_, c)) if c["status"] == "True" => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    }
    .to_owned();
    if spec["unschedulable"] == true {
        state.push_str(",SchedulingDisabled");
    }
    let mut roles: Vec<&str> = object["metadata"]["labels"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(k, _)| k.strip_prefix("node-role.kubernetes.io/"))
        .filter(|r| !r.is_empty())
        .collect();
    roles.sort_unstable();
    let address = |kind: &str| {
        list(&status["addresses"])
            .find(|(_, a)| a["type"] == kind)
            .and_then(|(_, a)| a["address"].as_str())
            .unwrap_or(NONE)
            .to_owned()
    };
    let info = |key: &str| or(text(status, &format!("/nodeInfo/{key}")), "<unknown>").to_owned();
    let kernel = match text(status, "/nodeInfo/architecture") {
        "" => info("kernelVersion"),
        arch => format!("{} ({arch})", info("kernelVersion")),
    };
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        join(roles.into_iter()).into(),
        age,
        text(status, "/nodeInfo/kubeletVersion").into(),
        address("InternalIP").into(),
        address("ExternalIP").into(),
        info("osImage").into(),
        kernel.into(),
        info("containerRuntimeVersion").into(),
    ]
}

fn service(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let kind = text(spec, "/type");
    let ips = join(list(&spec["externalIPs"]).filter_map(|(_, ip)| ip.as_str()));
    let external = match kind {
        "LoadBalancer" => {
            let given = join(list(&object["status"]["loadBalancer"]["ingress"]).filter_map(|(_, i)| {
                i["ip"].as_str().filter(|t| !t.is_empty()).or_else(|| i["hostname"].as_str())
            }));
            match (given == NONE, ips == NONE) {
                (true, true) => "<pending>".to_owned(),
                (true, false) => ips,
                (false, true) => given,
                (false, false) => format!("{given},{ips}"),
            }
        }
        "ExternalName" => text(spec, "/externalName").to_owned(),
        _ => ips,
    };
    let ports: Vec<String> = list(&spec["ports"])
        .map(|(_, p)| match p["nodePort"].as_i64().unwrap_or(0) {
            0 => format!("{}/{}", p["port"], text(p, "/protocol")),
            node => format!("{}:{node}/{}", p["port"], text(p, "/protocol")),
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        kind.into(),
        or(text(spec, "/clusterIP"), NONE).into(),
        external.into(),
        if ports.is_empty() { NONE.into() } else { ports.join(",").into() },
        age,
        labels(&spec["selector"]).into(),
    ]
}

fn job(object: &Value, now: Timestamp, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let holds =
        |kind: &str| list(&status["conditions"]).any(|(_, c)| c["type"] == kind && c["status"] == "True");
    let state = if holds("Complete") {
        "Complete"
    } else if holds("Failed") {
        "Failed"
    } else if object["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if holds("Suspended") {
        "Suspended"
    } else if holds("FailureTarget") {
        "FailureTarget"
    } else if holds("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let succeeded = int(status, "/succeeded");
    let completions = match (spec["completions"].as_i64(), spec["parallelism"].as_i64().unwrap_or(0)) {
        (Some(total), _) => format!("{succeeded}/{total}"),
        (None, parallel) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        (None, _) => format!("{succeeded}/1"),
    };
    let time = |key: &str| status[key].as_str().and_then(|t| t.parse::<Timestamp>().ok());
    let duration = match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), Some(end)) => human_duration(end.duration_since(start)),
        (Some(start), None) => human_duration(now.duration_since(start)),
    };
    let (names, images) = containers(&spec["template"]["spec"]);
    vec![
        object["metadata"]["name"].clone(),
        state.into(),
        completions.into(),
        duration.into(),
        age,
        names,
        images,
        selector(&spec["selector"]).into(),
    ]
}

fn event(object: &Value, now: Timestamp) -> Vec<Value> {
    let (about, source) = if object["regarding"].is_object() {
        (&object["regarding"], &object["deprecatedSource"])
    } else {
        (&object["involvedObject"], &object["source"])
    };
    let pick = |a: &str, b: &str| if object[a].is_string() { object[a].clone() } else { object[b].clone() };
    let first = pick("firstTimestamp", "deprecatedFirstTimestamp");
    let last = pick("lastTimestamp", "deprecatedLastTimestamp");
    let seen = |v: &Value| {
        let at = if v.is_string() { v } else { &object["eventTime"] };
        Value::from(ago(at, now))
    };
    let count = object["series"]["count"]
        .as_i64()
        .or_else(|| object["count"].as_i64())
        .or_else(|| object["deprecatedCount"].as_i64())
        .filter(|c| *c > 0)
        .unwrap_or(1);
    let (component, instance) = match text(source, "/component") {
        "" => {
            let reporter = or(text(object, "/reportingComponent"), text(object, "/reportingController"));
            (reporter, text(object, "/reportingInstance"))
        }
        component => (component, text(source, "/host")),
    };
    let source = if instance.is_empty() { component.to_owned() } else { format!("{component}, {instance}") };
    let message = or(text(object, "/message"), text(object, "/note")).trim().to_owned();
    vec![
        seen(&last),
        text(object, "/type").into(),
        text(object, "/reason").into(),
        format!("{}/{}", text(about, "/kind").to_lowercase(), text(about, "/name")).into(),
        text(about, "/fieldPath").into(),
        source.into(),
        message.into(),
        seen(&first),
        count.into(),
        object["metadata"]["name"].clone(),
    ]
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for (_, subset) in list(&object["subsets"]) {
        let ports: Vec<i64> = list(&subset["ports"]).filter_map(|(_, p)| p["port"].as_i64()).collect();
        for (_, address) in list(&subset["addresses"]) {
            let ip = text(address, "/ip");
            if ports.is_empty() {
                all.push(ip.to_owned());
            }
            all.extend(ports.iter().map(|port| format!("{ip}:{port}")));
        }
    }
    capped(&all, NONE)
}

/// At most three, and how many more.
fn capped(all: &[String], none: &str) -> String {
    match all.len() {
        0 => none.to_owned(),
        n if n > 3 => format!("{} + {} more...", all[..3].join(","), n - 3),
        _ => all.join(","),
    }
}

fn slice(object: &Value, age: Value) -> Vec<Value> {
    let ports: Vec<String> = list(&object["ports"])
        .map(|(_, p)| p["port"].as_i64().map_or_else(|| "*".to_owned(), |n| n.to_string()))
        .collect();
    let addresses: Vec<String> = list(&object["endpoints"])
        .flat_map(|(_, e)| {
            list(&e["addresses"]).filter_map(|(_, a)| a.as_str().map(str::to_owned)).collect::<Vec<_>>()
        })
        .collect();
    vec![
        object["metadata"]["name"].clone(),
        text(object, "/addressType").into(),
        capped(&ports, "<unset>").into(),
        capped(&addresses, "<unset>").into(),
        age,
    ]
}

fn modes(value: &Value) -> String {
    let has = |mode: &str| list(value).any(|(_, m)| m == mode);
    [
        ("ReadWriteOnce", "RWO"),
        ("ReadOnlyMany", "ROX"),
        ("ReadWriteMany", "RWX"),
        ("ReadWriteOncePod", "RWOP"),
    ]
    .iter()
    .filter(|(mode, _)| has(mode))
    .map(|(_, short)| *short)
    .collect::<Vec<_>>()
    .join(",")
}

fn claim(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut phase = text(status, "/phase").to_owned();
    if object["metadata"]["deletionTimestamp"].is_string() {
        phase = "Terminating".into();
    }
    let bound = !text(spec, "/volumeName").is_empty();
    vec![
        object["metadata"]["name"].clone(),
        phase.into(),
        text(spec, "/volumeName").into(),
        if bound { text(status, "/capacity/storage") } else { "" }.into(),
        if bound { modes(&status["accessModes"]) } else { String::new() }.into(),
        text(spec, "/storageClassName").into(),
        or(text(spec, "/volumeAttributesClassName"), "<unset>").into(),
        age,
        or(text(spec, "/volumeMode"), "<unset>").into(),
    ]
}

fn volume(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let mut phase = text(status, "/phase").to_owned();
    if object["metadata"]["deletionTimestamp"].is_string() {
        phase = "Terminating".into();
    }
    let claim = if spec["claimRef"].is_object() {
        format!("{}/{}", text(spec, "/claimRef/namespace"), text(spec, "/claimRef/name"))
    } else {
        String::new()
    };
    vec![
        object["metadata"]["name"].clone(),
        text(spec, "/capacity/storage").into(),
        modes(&spec["accessModes"]).into(),
        text(spec, "/persistentVolumeReclaimPolicy").into(),
        phase.into(),
        claim.into(),
        text(spec, "/storageClassName").into(),
        or(text(spec, "/volumeAttributesClassName"), "<unset>").into(),
        text(status, "/reason").into(),
        age,
        or(text(spec, "/volumeMode"), "<unset>").into(),
    ]
}

fn quota(object: &Value, age: Value) -> Vec<Value> {
    let (hard, used) = (&object["status"]["hard"], &object["status"]["used"]);
    let mut requests = Vec::new();
    let mut limits = Vec::new();
    for (name, limit) in crate::admit::meta::sorted(hard) {
        let has = used.get(name).and_then(Value::as_str).unwrap_or("0");
        let shown = format!("{name}: {has}/{}", limit.as_str().unwrap_or(""));
        if name.starts_with("limits") { limits.push(shown) } else { requests.push(shown) }
    }
    vec![object["metadata"]["name"].clone(), requests.join(", ").into(), limits.join(", ").into(), age]
}

fn autoscaler(object: &Value, age: Value) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let reference = format!("{}/{}", text(spec, "/scaleTargetRef/kind"), text(spec, "/scaleTargetRef/name"));
    let mut targets = Vec::new();
    for (_, metric) in list(&spec["metrics"]) {
        let resource = &metric["resource"];
        let target = &resource["target"];
        let wanted = match target["averageUtilization"].as_i64() {
            Some(percent) => format!("{percent}%"),
            None => or(text(target, "/averageValue"), "<auto>").to_owned(),
        };
        targets.push(match metric["type"].as_str() {
            Some("Resource") => format!("{}: <unknown>/{wanted}", text(resource, "/name")),
            Some("External") => {
                let target = &metric["external"]["target"];
                match (text(target, "/averageValue"), text(target, "/value")) {
                    ("", value) => format!("<unknown>/{}", or(value, "<auto>")),
                    (average, _) => format!("<unknown>/{average} (avg)"),
                }
            }
            Some("Pods") => {
                let target = &metric["pods"]["target"];
                format!("<unknown>/{}", or(text(target, "/averageValue"), "<auto>"))
            }
            Some("Object") => {
                let target = &metric["object"]["target"];
                match (text(target, "/averageValue"), text(target, "/value")) {
                    ("", value) => format!("<unknown>/{}", or(value, "<auto>")),
                    (average, _) => format!("<unknown>/{average} (avg)"),
                }
            }
            _ => format!("<unknown>/{wanted}"),
        });
    }
    if let Some(percent) = spec["targetCPUUtilizationPercentage"].as_i64() {
        targets.push(format!("cpu: <unknown>/{percent}%"));
    }
    let shown = match targets.len() {
        0 => NONE.to_owned(),
        n if n > 2 => format!("{} + {} more...", targets[..2].join(", "), n - 2),
        _ => targets.join(", "),
    };
    let min = spec["minReplicas"].as_i64().map_or_else(|| "<unset>".to_owned(), |m| m.to_string());
    vec![
        object["metadata"]["name"].clone(),
        reference.into(),
        shown.into(),
        min.into(),
        int(spec, "/maxReplicas").into(),
        int(status, "/currentReplicas").into(),
        age,
    ]
}

fn ingress(object: &Value, age: Value) -> Vec<Value> {
    let spec = &object["spec"];
    let class = match text(spec, "/ingressClassName") {
        "" => slipway_manifest::object::annotation(object, "kubernetes.io/ingress.class").unwrap_or(NONE),
        class => class,
    };
    let hosts: Vec<String> = list(&spec["rules"])
        .filter_map(|(_, r)| r["host"].as_str().filter(|h| !h.is_empty()).map(str::to_owned))
        .collect();
    let addresses =
        join(list(&object["status"]["loadBalancer"]["ingress"]).filter_map(|(_, i)| {
            i["ip"].as_str().filter(|t| !t.is_empty()).or_else(|| i["hostname"].as_str())
        }));
    let ports = if spec["tls"].as_array().is_some_and(|t| !t.is_empty()) { "80, 443" } else { "80" };
    vec![
        object["metadata"]["name"].clone(),
        class.into(),
        capped(&hosts, "*").into(),
        addresses.replace(NONE, "").into(),
        ports.into(),
        age,
    ]
}

fn definition(object: &Value) -> Vec<Value> {
    let spec = &object["spec"];
    let versions: Vec<String> = list(&spec["versions"])
        .map(|(_, v)| {
            let mut marks = Vec::new();
            if v["storage"] == true {
                marks.push("storage");
            }
            if v["served"] != true {
                marks.push("unserved");
            }
            let marks = if marks.is_empty() { String::new() } else { format!("({})", marks.join(",")) };
            format!("{}{marks}", text(v, "/name"))
        })
        .collect();
    let established = list(&object["status"]["conditions"])
        .any(|(_, c)| c["type"] == "Established" && c["status"] == "True");
    vec![
        object["metadata"]["name"].clone(),
        text(spec, "/scope").into(),
        versions.join(",").into(),
        object["metadata"]["creationTimestamp"].clone(),
        text(spec, "/group").into(),
        text(spec, "/names/kind").into(),
        list(&spec["names"]["shortNames"])
            .filter_map(|(_, s)| s.as_str())
            .collect::<Vec<_>>()
            .join(",")
            .into(),
        established.into(),
    ]
}
