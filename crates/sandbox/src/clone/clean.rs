//! Cleaning of live objects: everything that belongs to their cluster is removed.

use serde_json::{Map, Value, json};

use super::{SecretHandling, SkipReason};

/// A cleaned object.
#[derive(Debug)]
pub(super) struct CleanedObject {
    pub object: Value,
    pub secret_replaced: bool,
    pub finalizers_dropped: usize,
}

/// Kinds a cluster fills by itself, for its own nodes and servers.
const OWN_BUSINESS: &[(&str, &str)] = &[
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "endpoints"),
    ("", "events"),
    ("", "nodes"),
    ("", "persistentvolumes"),
    ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("admissionregistration.k8s.io", "validatingwebhookconfigurations"),
    ("apiregistration.k8s.io", "apiservices"),
    ("apps", "controllerrevisions"),
    ("certificates.k8s.io", "certificatesigningrequests"),
    ("certificates.k8s.io", "podcertificaterequests"),
    ("coordination.k8s.io", "leases"),
    ("coordination.k8s.io", "leasecandidates"),
    ("discovery.k8s.io", "endpointslices"),
    ("events.k8s.io", "events"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("internal.apiserver.k8s.io", "storageversions"),
    ("metrics.k8s.io", "nodes"),
    ("metrics.k8s.io", "pods"),
    ("networking.k8s.io", "ipaddresses"),
    ("networking.k8s.io", "servicecidrs"),
    ("storage.k8s.io", "csidrivers"),
    ("storage.k8s.io", "csinodes"),
    ("storage.k8s.io", "csistoragecapacities"),
    ("storage.k8s.io", "volumeattachments"),
];

pub(super) fn is_own_business(group: &str, plural: &str) -> bool {
    OWN_BUSINESS.contains(&(group, plural))
}

/// Finalizers that a controller of the sandbox removes.
const FINALIZERS: &[&str] = &[
    "foregroundDeletion",
    "kubernetes",
    "kubernetes.io/pv-protection",
    "kubernetes.io/pvc-protection",
    "orphan",
];

/// Groups whose controllers the sandbox simulates: what they made, it makes again.
const SIMULATED: &[&str] = &["", "apps", "batch"];

/// Kinds whose status the sandbox's controllers write from nothing.
const RECOMPUTED: &[(&str, &str)] = &[
    ("", "Pod"),
    ("", "ReplicationController"),
    ("", "PersistentVolumeClaim"),
    ("", "ResourceQuota"),
    ("apps", "DaemonSet"),
    ("apps", "Deployment"),
    ("apps", "ReplicaSet"),
    ("apps", "StatefulSet"),
    ("autoscaling", "HorizontalPodAutoscaler"),
    ("policy", "PodDisruptionBudget"),
    ("apiextensions.k8s.io", "CustomResourceDefinition"),
];

/// Cleans one object; the error is the reason it is not copied.
pub(super) fn clean_object(mut object: Value, secrets: SecretHandling) -> Result<CleanedObject, SkipReason> {
    let api_version = object["apiVersion"].as_str().unwrap_or("").to_owned();
    let group = slipway_manifest::object::split_api_version(&api_version).0.to_owned();
    let kind = object["kind"].as_str().unwrap_or("").to_owned();
    let name = object["metadata"]["name"].as_str().unwrap_or("").to_owned();
    check_copyable(&object, (&group, &kind), &name, secrets)?;
    let mut kept = CleanedObject { object: Value::Null, secret_replaced: false, finalizers_dropped: 0 };
    if let Some(meta) = object["metadata"].as_object_mut() {
        for key in ["resourceVersion", "selfLink", "deletionGracePeriodSeconds", "generateName"] {
            meta.shift_remove(key);
        }
        if let Some(Value::Array(finalizers)) = meta.get_mut("finalizers") {
            let before = finalizers.len();
            finalizers.retain(|f| f.as_str().is_some_and(|f| FINALIZERS.contains(&f)));
            kept.finalizers_dropped = before - finalizers.len();
            if finalizers.is_empty() {
                meta.shift_remove("finalizers");
            }
        }
    }
    if RECOMPUTED.contains(&(group.as_str(), kind.as_str())) || (kind == "Job" && !is_finished(&object)) {
        drop_member(&mut object, "status");
        forget_status_owners(&mut object);
    }
    match (group.as_str(), kind.as_str()) {
        ("", "Namespace") => object["status"] = json!({"phase": "Active"}),
        ("", "Pod") => {
            drop_member(&mut object["spec"], "nodeName");
        }
        ("", "PersistentVolumeClaim") => {
            drop_member(&mut object["spec"], "volumeName");
            drop_annotations(&mut object, |key| {
                key.starts_with("pv.kubernetes.io/") || key.starts_with("volume.")
            });
        }
        ("apps", "Deployment") => {
            drop_annotations(&mut object, |key| key == "deployment.kubernetes.io/revision");
        }
        ("batch", "CronJob") if object["status"].is_object() => {
            drop_member(&mut object["status"], "active");
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => {
            // No conversion webhook can be reached from here.
            object["spec"]["conversion"] = json!({"strategy": "None"});
        }
        ("", "Secret") if secrets == SecretHandling::Replaced => {
            kept.secret_replaced = replace_values(&mut object);
            drop_annotations(&mut object, |key| key == "kubectl.kubernetes.io/last-applied-configuration");
        }
        _ => {}
    }
    kept.object = object;
    Ok(kept)
}

fn check_copyable(
    object: &Value,
    kind: (&str, &str),
    name: &str,
    secrets: SecretHandling,
) -> Result<(), SkipReason> {
    let meta = &object["metadata"];
    if meta["deletionTimestamp"].is_string() {
        return Err("it is being deleted".into());
    }
    if meta["labels"]["kubernetes.io/bootstrapping"].is_string() {
        return Err("every cluster has its own".into());
    }
    let controller =
        meta["ownerReferences"].as_array().into_iter().flatten().find(|o| o["controller"] == true);
    if let Some(owner) = controller {
        let group = slipway_manifest::object::split_api_version(owner["apiVersion"].as_str().unwrap_or("")).0;
        if SIMULATED.contains(&group) {
            let owner = |key: &str| owner[key].as_str().unwrap_or("").to_owned();
            return Err(SkipReason::MadeAnew { owner: format!("{} {}", owner("kind"), owner("name")) });
        }
    }
    match kind {
        ("", "ConfigMap") if name == "kube-root-ca.crt" => Err("every cluster has its own".into()),
        ("", "Service") if name == "kubernetes" && meta["namespace"] == "default" => {
            Err("every cluster has its own".into())
        }
        ("", "Secret") => match object["type"].as_str().unwrap_or("") {
            "kubernetes.io/service-account-token" => Err("its token is good only in its cluster".into()),
            "bootstrap.kubernetes.io/token" => Err("its token is good only in its cluster".into()),
            "helm.sh/release.v1" if secrets == SecretHandling::Replaced => {
                Err("a release record holds values in the clear; it comes along with secrets only".into())
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn is_finished(job: &Value) -> bool {
    job["status"]["conditions"].as_array().is_some_and(|all| {
        all.iter().any(|c| matches!(c["type"].as_str(), Some("Complete" | "Failed")) && c["status"] == "True")
    })
}

fn drop_member(value: &mut Value, key: &str) {
    if let Some(members) = value.as_object_mut() {
        members.shift_remove(key);
    }
}

fn drop_annotations(object: &mut Value, unwanted: impl Fn(&str) -> bool) {
    let Some(meta) = object["metadata"].as_object_mut() else { return };
    if let Some(Value::Object(annotations)) = meta.get_mut("annotations") {
        annotations.retain(|key, _| !unwanted(key));
        if annotations.is_empty() {
            meta.shift_remove("annotations");
        }
    }
}

/// Removes the owners of the status, which is gone.
fn forget_status_owners(object: &mut Value) {
    if let Some(Value::Array(entries)) = object["metadata"].get_mut("managedFields") {
        entries.retain(|entry| entry["subresource"] != "status");
    }
}

/// Puts placeholders where a Secret's values were. Keys stay: workloads refer to them.
fn replace_values(secret: &mut Value) -> bool {
    use base64::Engine;
    let encode = |text: &str| base64::engine::general_purpose::STANDARD.encode(text);
    let mut any = false;
    for (member, encoded) in [("data", true), ("stringData", false)] {
        let Some(values) = secret.get_mut(member).and_then(Value::as_object_mut) else { continue };
        let replaced: Map<String, Value> = values
            .iter()
            .map(|(key, _)| {
                let placeholder = match key.as_str() {
                    ".dockerconfigjson" => r#"{"auths":{}}"#,
                    ".dockercfg" => "{}",
                    _ => "replaced",
                };
                let text = if encoded { encode(placeholder) } else { placeholder.to_owned() };
                (key.clone(), Value::String(text))
            })
            .collect();
        any |= !replaced.is_empty();
        *values = replaced;
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_the_cluster_stays_there() {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {
                "name": "s", "resourceVersion": "7", "uid": "u", "finalizers": ["example.com/x"],
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "hunter2", "a": "b"},
            },
            "data": {"password": "aHVudGVyMg==", ".dockerconfigjson": "e30="},
        });
        let kept = clean_object(secret.clone(), SecretHandling::Replaced).unwrap();
        assert_eq!(
            kept.object,
            json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": "s", "uid": "u", "annotations": {"a": "b"}},
                "data": {"password": "cmVwbGFjZWQ=", ".dockerconfigjson": "eyJhdXRocyI6e319"},
            })
        );
        assert_eq!((kept.secret_replaced, kept.finalizers_dropped), (true, 1));
        let kept = clean_object(secret, SecretHandling::Copied).unwrap();
        assert_eq!(kept.object["data"]["password"], "aHVudGVyMg==");
    }

    #[test]
    fn what_the_sandbox_makes_itself_is_not_copied() {
        let owned = |api_version: &str, kind: &str| {
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "ownerReferences": [
                {"apiVersion": api_version, "kind": kind, "name": "o", "uid": "1", "controller": true},
            ]}})
        };
        assert!(clean_object(owned("apps/v1", "ReplicaSet"), SecretHandling::Copied).is_err());
        assert!(clean_object(owned("example.com/v1", "Database"), SecretHandling::Copied).is_ok());
        let release = json!({"apiVersion": "v1", "kind": "Secret", "type": "helm.sh/release.v1",
            "metadata": {"name": "sh.helm.release.v1.a.v1"}, "data": {"release": "x"}});
        assert!(clean_object(release.clone(), SecretHandling::Replaced).is_err());
        assert!(clean_object(release, SecretHandling::Copied).is_ok());
    }
}
