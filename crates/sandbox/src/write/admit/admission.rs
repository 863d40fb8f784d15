//! Admission: additions and refusals of the real server's built-in plugins.

use serde_json::{Value, json};

use crate::core::Core;
use crate::status::{NamedResource, Result, Status, StatusCause};
use crate::store::ObjectKey;

const ACCOUNT_MOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Refuses admin access to devices outside of namespaces with its label.
pub(crate) fn check_admin_access(
    core: &Core,
    kind: (&str, &str),
    object: &Value,
    out: &mut Vec<StatusCause>,
) {
    const LABEL: &str = "resource.kubernetes.io/admin-access";
    let spec = match kind {
        ("resource.k8s.io", "ResourceClaim") => &object["spec"],
        ("resource.k8s.io", "ResourceClaimTemplate") => &object["spec"]["spec"],
        _ => return,
    };
    let requests = spec["devices"]["requests"].as_array().into_iter().flatten();
    let wanted = requests.enumerate().find(|(_, request)| request["exactly"]["adminAccess"] == true);
    let Some((i, _)) = wanted else { return };
    let namespace =
        core.store.get("namespaces", &ObjectKey::new("", super::meta::metadata_text(object, "namespace")));
    if namespace.is_some_and(|n| n.value()["metadata"]["labels"][LABEL] == "true") {
        return;
    }
    // The path is that of the first version of the kind.
    let at = format!("spec.devices.requests[{i}].adminAccess");
    let why =
        format!("admin access to devices requires the `{LABEL}: true` label on the containing namespace");
    out.push(StatusCause::forbidden(at, &why));
}

pub(in crate::write) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let meta = super::meta::metadata_mut(object);
    let list = meta.entry("finalizers").or_insert_with(|| json!([]));
    if !list.is_array() {
        *list = json!([]);
    }
    if let Value::Array(all) = list
        && !all.iter().any(|f| f == finalizer)
    {
        all.push(finalizer.into());
    }
}

pub(in crate::write) fn admit_pod(core: &Core, object: &mut Value) -> Result<()> {
    let namespace = super::meta::metadata_text(object, "namespace").to_owned();
    let name = super::meta::metadata_text(object, "name").to_owned();
    let refuse = |why: String| Status::forbidden(NamedResource { group: "", what: "pods" }, &name, &why);
    super::quota::apply_limit_ranges(core, &namespace, object).map_err(&refuse)?;
    let spec = &mut object["spec"];
    let account = match spec["serviceAccountName"].as_str() {
        Some(account) if !account.is_empty() => account.to_owned(),
        _ => {
            spec["serviceAccountName"] = json!("default");
            spec["serviceAccount"] = json!("default");
            "default".to_owned()
        }
    };
    let Some(found) = core.store.get("serviceaccounts", &ObjectKey::new(&namespace, &account)) else {
        let why =
            name_path_problem(&account).unwrap_or_else(|| format!("serviceaccount \"{account}\" not found"));
        return Err(refuse(format!("error looking up service account {namespace}/{account}: {why}")));
    };
    let found = found.value();
    let mount = spec["automountServiceAccountToken"]
        .as_bool()
        .or_else(|| found["automountServiceAccountToken"].as_bool())
        .unwrap_or(true);
    if spec["automountServiceAccountToken"].is_null()
        && let Some(members) = spec.as_object_mut()
    {
        members.shift_remove("automountServiceAccountToken");
    }
    if mount {
        mount_token(core, spec);
    }
    if spec["imagePullSecrets"].as_array().is_none_or(Vec::is_empty)
        && found["imagePullSecrets"].as_array().is_some_and(|s| !s.is_empty())
    {
        spec["imagePullSecrets"] = found["imagePullSecrets"].clone();
    }
    resolve_priority(core, spec).map_err(&refuse)?;
    if let Some(class) = spec.get("runtimeClassName").and_then(Value::as_str)
        && let Some(why) = name_path_problem(class)
    {
        return Err(Status::plain_500(why));
    }
    add_default_tolerations(spec);
    apply_runtime_class(core, spec).map_err(&refuse)
}

/// Returns the error of a request path that this name cannot be part of.
fn name_path_problem(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("resource name may not be empty".into());
    }
    let mut why = Vec::new();
    if matches!(name, "." | "..") {
        why.push(format!("may not be '{name}'"));
    }
    why.extend(
        ["/", "%"].iter().filter(|odd| name.contains(**odd)).map(|odd| format!("may not contain '{odd}'")),
    );
    (!why.is_empty()).then(|| format!("invalid resource name {name:?}: [{}]", why.join(" ")))
}

fn mount_token(core: &Core, spec: &mut Value) {
    let lacks = |container: &Value| {
        !container["volumeMounts"]
            .as_array()
            .is_some_and(|m| m.iter().any(|m| m["mountPath"] == ACCOUNT_MOUNT))
    };
    let any = ["initContainers", "containers"]
        .iter()
        .any(|list| spec[*list].as_array().is_some_and(|all| all.iter().any(lacks)));
    if !any {
        return;
    }
    let existing = spec["volumes"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|v| v["name"].as_str())
        .find(|n| n.starts_with("kube-api-access-"))
        .map(str::to_owned);
    let volume = existing.clone().unwrap_or_else(|| format!("kube-api-access-{}", core.ids.name_suffix()));
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array_mut().into_iter().flatten() {
            if !lacks(container) {
                continue;
            }
            if !container["volumeMounts"].is_array() {
                container["volumeMounts"] = json!([]);
            }
            if let Value::Array(mounts) = &mut container["volumeMounts"] {
                mounts.push(json!({"name": volume, "readOnly": true, "mountPath": ACCOUNT_MOUNT}));
            }
        }
        super::default::remove_null(spec, list);
    }
    if existing.is_none() {
        if !spec["volumes"].is_array() {
            spec["volumes"] = json!([]);
        }
        if let Value::Array(volumes) = &mut spec["volumes"] {
            volumes.push(json!({"name": volume, "projected": {"sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ], "defaultMode": 420}}));
        }
    }
}

fn resolve_priority(core: &Core, spec: &mut Value) -> std::result::Result<(), String> {
    const TABLE: &str = "priorityclasses.scheduling.k8s.io";
    let named = spec["priorityClassName"].as_str().unwrap_or("").to_owned();
    let class = if named.is_empty() {
        core.store
            .list(TABLE, None)
            .into_iter()
            .map(|o| (o.name().to_owned(), o.value()))
            .find(|(_, v)| v["globalDefault"] == true)
    } else {
        match core.store.get(TABLE, &ObjectKey::new("", &named)) {
            Some(found) => Some((named.clone(), found.value())),
            None => match named.as_str() {
                "system-node-critical" => Some((named.clone(), json!({"value": 2_000_001_000}))),
                "system-cluster-critical" => Some((named.clone(), json!({"value": 2_000_000_000}))),
                _ => return Err(format!("no PriorityClass with name {named} was found")),
            },
        }
    };
    let (value, policy) = match &class {
        Some((name, class)) => {
            if named.is_empty() {
                spec["priorityClassName"] = name.as_str().into();
            }
            (class["value"].as_i64().unwrap_or(0), class["preemptionPolicy"].clone())
        }
        None => (0, Value::Null),
    };
    if let Some(given) = spec["priority"].as_i64().filter(|given| *given != value) {
        return Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller computed {value} from the given PriorityClass name"
        ));
    }
    spec["priority"] = value.into();
    let policy = if policy.is_string() { policy } else { json!("PreemptLowerPriority") };
    if let Some(given) = spec["preemptionPolicy"].as_str()
        && policy != given
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({given}) must not be provided in pod spec; priority admission controller computed {} from the given PriorityClass name",
            policy.as_str().unwrap_or("")
        ));
    }
    spec["preemptionPolicy"] = policy;
    super::default::remove_null(spec, "priorityClassName");
    Ok(())
}

/// Applies a runtime class to a pod: its overhead and its scheduling.
fn apply_runtime_class(core: &Core, spec: &mut Value) -> std::result::Result<(), String> {
    let Some(name) = spec.get("runtimeClassName").and_then(Value::as_str).filter(|n| !n.is_empty()) else {
        return match spec.get("overhead") {
            Some(Value::Object(_)) => {
                Err("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                    .into())
            }
            _ => Ok(()),
        };
    };
    let Some(class) = core.store.get("runtimeclasses.node.k8s.io", &ObjectKey::new("", name)) else {
        return Err(format!("pod rejected: RuntimeClass \"{name}\" not found"));
    };
    let class = class.value();
    if class["overhead"]["podFixed"].is_object() {
        spec["overhead"] = class["overhead"]["podFixed"].clone();
    }
    for (key, value) in class["scheduling"]["nodeSelector"].as_object().into_iter().flatten() {
        if !spec["nodeSelector"].is_object() {
            spec["nodeSelector"] = json!({});
        }
        if let Some(own) = spec["nodeSelector"].get(key).filter(|own| *own != value) {
            let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
            return Err(format!(
                "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                text(value),
                text(own)
            ));
        }
        spec["nodeSelector"][key] = value.clone();
    }
    for toleration in class["scheduling"]["tolerations"].as_array().into_iter().flatten() {
        if !spec["tolerations"].is_array() {
            spec["tolerations"] = json!([]);
        }
        if let Value::Array(all) = &mut spec["tolerations"]
            && !all.contains(toleration)
        {
            all.push(toleration.clone());
        }
    }
    Ok(())
}

pub(crate) fn add_default_tolerations(spec: &mut Value) {
    if !spec["tolerations"].is_array() {
        spec["tolerations"] = json!([]);
    }
    let Value::Array(all) = &mut spec["tolerations"] else { return };
    for key in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let covered = all.iter().any(|t| {
            let effect = t["effect"].as_str().unwrap_or("");
            let tolerated = t["key"].as_str().unwrap_or("");
            (tolerated == key || tolerated.is_empty()) && (effect == "NoExecute" || effect.is_empty())
        });
        if !covered {
            all.push(
                json!({"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}),
            );
        }
    }
}

pub(in crate::write) fn admit_node(object: &mut Value) {
    if !object["spec"]["taints"].is_array() {
        object["spec"]["taints"] = json!([]);
    }
    if let Value::Array(taints) = &mut object["spec"]["taints"]
        && !taints.iter().any(|t| t["key"] == "node.kubernetes.io/not-ready")
    {
        taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
    }
}

pub(in crate::write) fn default_storage_class(core: &Core, claim: &mut Value) {
    if !claim["spec"]["storageClassName"].is_null() {
        return;
    }
    super::default::remove_null(&mut claim["spec"], "storageClassName");
    let mut classes: Vec<_> = core
        .store
        .list("storageclasses.storage.k8s.io", None)
        .into_iter()
        .filter(|o| {
            slipway_manifest::object::annotation(&o.value(), "storageclass.kubernetes.io/is-default-class")
                == Some("true")
        })
        .collect();
    classes.sort_by_key(|o| std::cmp::Reverse(o.rev));
    if let Some(class) = classes.first() {
        claim["spec"]["storageClassName"] = class.name().into();
    }
}

pub(in crate::write) fn default_ingress_class(core: &Core, ingress: &mut Value) {
    let annotated = slipway_manifest::object::annotation(ingress, "kubernetes.io/ingress.class").is_some();
    if annotated || !ingress["spec"]["ingressClassName"].is_null() {
        return;
    }
    super::default::remove_null(&mut ingress["spec"], "ingressClassName");
    for class in core.store.list("ingressclasses.networking.k8s.io", None) {
        let default = slipway_manifest::object::annotation(
            &class.value(),
            "ingressclass.kubernetes.io/is-default-class",
        ) == Some("true");
        if default {
            ingress["spec"]["ingressClassName"] = class.name().into();
            return;
        }
    }
}

/// Guaranteed, Burstable or BestEffort, from the resources of a pod's containers.
pub(crate) fn qos_class(spec: &Value) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for list in ["initContainers", "containers"] {
        for container in spec[list].as_array().into_iter().flatten() {
            for resource in ["cpu", "memory"] {
                let amount = |side: &str| {
                    container["resources"][side]
                        .get(resource)
                        .and_then(super::amounts::nanos_of)
                        .filter(|a| *a != 0)
                };
                let (request, limit) = (amount("requests"), amount("limits"));
                any |= request.is_some() || limit.is_some();
                if limit.is_none() || request.is_some_and(|r| Some(r) != limit) {
                    guaranteed = false;
                }
            }
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

/// Refuses a claim that grows though its class does not allow it.
pub(in crate::write) fn check_claim_growth(core: &Core, new: &Value, old: &Value) -> Result<()> {
    let size = |claim: &Value| {
        claim["spec"]["resources"]["requests"].get("storage").and_then(super::amounts::nanos_of).unwrap_or(0)
    };
    if size(new) <= size(old) {
        return Ok(());
    }
    let refuse = |why: &str| {
        let named = NamedResource { group: "", what: "persistentvolumeclaims" };
        Err(Status::forbidden(named, super::meta::metadata_text(new, "name"), why))
    };
    if old["status"]["phase"] != "Bound" {
        return refuse("Only bound persistent volume claims can be expanded");
    }
    let class =
        new["spec"]["storageClassName"].as_str().filter(|class| old["spec"]["storageClassName"] == *class);
    let class =
        class.and_then(|class| core.store.get("storageclasses.storage.k8s.io", &ObjectKey::new("", class)));
    if class.is_some_and(|class| class.value()["allowVolumeExpansion"] == true) {
        return Ok(());
    }
    refuse(
        "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
    )
}
