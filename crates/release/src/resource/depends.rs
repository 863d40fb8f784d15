//! References from one object to another: needs nobody wrote down.

use std::collections::HashMap;

use serde_json::Value;
use slipway_manifest::object::split_api_version;
use slipway_manifest::pods::pod_template;
use slipway_manifest::{Gvk, ObjectId};

use super::settings::ObjectSelector;
use super::{Resource, is_crd};

/// A reference found in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldReference {
    pub selector: ObjectSelector,
    /// The field it stands in.
    pub field: String,
}

const RBAC: &str = "rbac.authorization.k8s.io";

/// Bindings of service accounts, for workloads that run as them.
#[derive(Debug, Default)]
pub struct AccountBindings(HashMap<(String, String), Vec<ObjectSelector>>);

impl AccountBindings {
    /// Looks through a release for role bindings of service accounts.
    pub fn find_in<'a>(resources: impl IntoIterator<Item = &'a Resource>, release_namespace: &str) -> Self {
        let mut all: HashMap<(String, String), Vec<ObjectSelector>> = HashMap::new();
        for resource in resources {
            if !is_binding(&resource.gvk) {
                continue;
            }
            let binding = ObjectSelector::exactly(
                RBAC,
                &resource.gvk.kind,
                Some(&resource.id.namespace),
                &resource.id.name,
            );
            for (namespace, name) in bound_accounts(&resource.object, &resource.id, release_namespace) {
                all.entry((namespace, name)).or_default().push(binding.clone());
            }
        }
        Self(all)
    }

    fn for_account(&self, namespace: &str, name: &str) -> &[ObjectSelector] {
        self.0.get(&(namespace.to_owned(), name.to_owned())).map(Vec::as_slice).unwrap_or_default()
    }
}

fn is_binding(gvk: &Gvk) -> bool {
    gvk.group == RBAC && matches!(gvk.kind.as_str(), "RoleBinding" | "ClusterRoleBinding")
}

/// The service accounts a binding names: namespace (empty for the release's) and name.
fn bound_accounts(object: &Value, id: &ObjectId, release_namespace: &str) -> Vec<(String, String)> {
    let all = object.get("subjects").and_then(Value::as_array).into_iter().flatten();
    all.filter(|subject| text_field(subject, "kind") == Some("ServiceAccount"))
        .filter_map(|subject| {
            let namespace = match text_field(subject, "namespace") {
                Some(given) if given == release_namespace => "",
                Some(given) => given,
                None => &id.namespace,
            };
            Some((namespace.to_owned(), text_field(subject, "name")?.to_owned()))
        })
        .collect()
}

fn text_field<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field)?.as_str().filter(|text| !text.is_empty())
}

/// Finds every reference of a resource to others. `release_namespace` is what an empty namespace means.
pub fn find_references(
    resource: &Resource,
    bindings: &AccountBindings,
    release_namespace: &str,
) -> Vec<FieldReference> {
    let mut found =
        ReferenceFinder { namespace: &resource.id.namespace, release_namespace, references: Vec::new() };
    let object = &resource.object;
    if let Some(spec) = pod_template(&resource.gvk, object).and_then(|template| template.get("spec")) {
        found.add_pod_references(spec, bindings);
    }
    let (group, kind) = (resource.gvk.group.as_str(), resource.gvk.kind.as_str());
    match (group, kind) {
        ("apps", "StatefulSet") => {
            if let Some(name) = object.pointer("/spec/serviceName").and_then(Value::as_str) {
                found.add_reference("", "Service", name, "spec.serviceName");
            }
        }
        (RBAC, "RoleBinding" | "ClusterRoleBinding") => {
            if let Some(role) = object.get("roleRef")
                && let (Some(role_group), Some(role_kind), Some(name)) =
                    (text_field(role, "apiGroup"), text_field(role, "kind"), text_field(role, "name"))
            {
                let namespace = if role_kind == "ClusterRole" { "" } else { &resource.id.namespace };
                found.add_reference_in(role_group, role_kind, Some(namespace), name, "roleRef");
            }
            for (namespace, name) in bound_accounts(object, &resource.id, release_namespace) {
                found.add_reference_in("", "ServiceAccount", Some(&namespace), &name, "subjects");
            }
        }
        ("", "ServiceAccount") => {
            for field in ["imagePullSecrets", "secrets"] {
                for entry in list_field(object, field) {
                    if let Some(name) = text_field(entry, "name") {
                        found.add_reference("", "Secret", name, field);
                    }
                }
            }
        }
        ("networking.k8s.io", "Ingress") => found.add_ingress_references(object),
        ("autoscaling", "HorizontalPodAutoscaler") | ("keda.sh", "ScaledObject") => {
            if let Some(target) = object.pointer("/spec/scaleTargetRef")
                && let Some(name) = text_field(target, "name")
            {
                let target_kind = text_field(target, "kind").unwrap_or("Deployment");
                let (target_group, _) =
                    split_api_version(text_field(target, "apiVersion").unwrap_or("apps/v1"));
                found.add_reference(target_group, target_kind, name, "spec.scaleTargetRef");
            }
        }
        ("", "PersistentVolumeClaim") => {
            if let Some(name) = object.pointer("/spec/storageClassName").and_then(Value::as_str) {
                found.add_reference_in("storage.k8s.io", "StorageClass", None, name, "spec.storageClassName");
            }
            if let Some(name) = object.pointer("/spec/volumeName").and_then(Value::as_str) {
                found.add_reference_in("", "PersistentVolume", None, name, "spec.volumeName");
            }
        }
        ("admissionregistration.k8s.io", _) => {
            for hook in list_field(object, "webhooks") {
                found.add_service(hook.pointer("/clientConfig/service"), "webhooks[].clientConfig.service");
            }
        }
        ("apiregistration.k8s.io", "APIService") => {
            found.add_service(object.pointer("/spec/service"), "spec.service");
        }
        ("cert-manager.io", "Certificate") => {
            if let Some(issuer) = object.pointer("/spec/issuerRef")
                && let Some(name) = text_field(issuer, "name")
            {
                let issuer_kind = text_field(issuer, "kind").unwrap_or("Issuer");
                let issuer_group = text_field(issuer, "group").unwrap_or("cert-manager.io");
                let namespace = (issuer_kind != "ClusterIssuer").then_some(resource.id.namespace.as_str());
                found.add_reference_in(issuer_group, issuer_kind, namespace, name, "spec.issuerRef");
            }
        }
        ("gateway.networking.k8s.io", "Gateway") => {
            if let Some(class) = object.pointer("/spec/gatewayClassName").and_then(Value::as_str) {
                found.add_reference_in(group, "GatewayClass", None, class, "spec.gatewayClassName");
            }
        }
        ("gateway.networking.k8s.io", _) => {
            for parent in object.pointer("/spec/parentRefs").and_then(Value::as_array).into_iter().flatten() {
                if let Some(name) = text_field(parent, "name") {
                    let parent_kind = text_field(parent, "kind").unwrap_or("Gateway");
                    let parent_group = text_field(parent, "group").unwrap_or(group);
                    let namespace = found.own_namespace(text_field(parent, "namespace"));
                    found.add_reference_in(
                        parent_group,
                        parent_kind,
                        Some(&namespace),
                        name,
                        "spec.parentRefs",
                    );
                }
            }
            for rule in object.pointer("/spec/rules").and_then(Value::as_array).into_iter().flatten() {
                for backend in list_field(rule, "backendRefs") {
                    if let Some(name) = text_field(backend, "name")
                        && text_field(backend, "kind").is_none_or(|kind| kind == "Service")
                    {
                        let namespace = found.own_namespace(text_field(backend, "namespace"));
                        found.add_reference_in(
                            "",
                            "Service",
                            Some(&namespace),
                            name,
                            "spec.rules[].backendRefs",
                        );
                    }
                }
            }
        }
        _ => {}
    }
    found.references
}

/// Users of objects, by the kind, namespace and name of what is used: users go first.
#[derive(Debug, Default)]
pub struct ObjectUsers(HashMap<(String, String, String), Vec<FieldReference>>);

impl ObjectUsers {
    pub fn find_in<'a>(
        resources: impl Iterator<Item = &'a Resource>,
        release_namespace: &str,
    ) -> ObjectUsers {
        let mut users = ObjectUsers::default();
        for user in resources {
            users.add_all(user, release_namespace);
        }
        users
    }

    fn add_all(&mut self, user: &Resource, release_namespace: &str) {
        let Resource { gvk, id, object, .. } = user;
        let mut add = |kind: &str, namespace: &str, name: &str, field: &str| {
            let selector = ObjectSelector::exactly(&gvk.group, &gvk.kind, Some(&id.namespace), &id.name);
            let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            self.0.entry(key).or_default().push(FieldReference { selector, field: field.to_owned() });
        };
        if is_binding(gvk) {
            let role = object.get("roleRef");
            let of = |field: &str| role.and_then(|role| text_field(role, field));
            if let (Some(kind), Some(name)) = (of("kind"), of("name")) {
                let namespace = if kind == "ClusterRole" { "" } else { &id.namespace };
                add(kind, namespace, name, "roleRef");
            }
            for (namespace, name) in bound_accounts(object, id, release_namespace) {
                add("ServiceAccount", &namespace, &name, "subjects");
            }
            return;
        }
        if let Some(spec) = pod_template(gvk, object).and_then(|template| template.get("spec")) {
            let mut names: Vec<&str> = ["serviceAccountName", "serviceAccount"]
                .iter()
                .filter_map(|field| text_field(spec, field))
                .collect();
            names.dedup();
            for name in names {
                add("ServiceAccount", &id.namespace, name, "serviceAccountName");
            }
        }
        if gvk.group == "admissionregistration.k8s.io" || gvk.kind == "APIService" {
            for reference in find_references(user, &AccountBindings::default(), release_namespace) {
                let ObjectSelector { kind, namespace, name, .. } = &reference.selector;
                if let (Some("Service"), Some(namespace), Some(name)) = (kind.as_deref(), namespace, name) {
                    add("Service", namespace, name, "service");
                }
            }
        }
    }
}

/// Finds what must be gone before a resource is deleted.
pub fn delete_references(resource: &Resource, users: &ObjectUsers) -> Vec<FieldReference> {
    let Resource { gvk, id, object, .. } = resource;
    if is_crd(gvk) {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let (Some(group), Some(kind)) = (text("/spec/group"), text("/spec/names/kind")) else {
            return Vec::new();
        };
        let selector = ObjectSelector { group: Some(group), kind: Some(kind), ..ObjectSelector::default() };
        return vec![FieldReference { selector, field: "spec.names".to_owned() }];
    }
    let is_used = match gvk.kind.as_str() {
        "Role" | "ClusterRole" => gvk.group == RBAC,
        "ServiceAccount" | "Service" => gvk.group.is_empty(),
        _ => false,
    };
    let key = (gvk.kind.clone(), id.namespace.clone(), id.name.clone());
    if is_used { users.0.get(&key).cloned().unwrap_or_default() } else { Vec::new() }
}

fn list_field<'a>(value: &'a Value, field: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(field).and_then(Value::as_array).into_iter().flatten()
}

struct ReferenceFinder<'a> {
    namespace: &'a str,
    release_namespace: &'a str,
    references: Vec<FieldReference>,
}

impl ReferenceFinder<'_> {
    /// A namespace as written, or the object's own.
    fn own_namespace(&self, written: Option<&str>) -> String {
        match written {
            Some(given) if given == self.release_namespace => String::new(),
            Some(given) => given.to_owned(),
            None => self.namespace.to_owned(),
        }
    }

    fn add_reference(&mut self, group: &str, kind: &str, name: &str, field: &str) {
        let namespace = self.namespace.to_owned();
        self.add_reference_in(group, kind, Some(&namespace), name, field);
    }

    fn add_reference_in(
        &mut self,
        group: &str,
        kind: &str,
        namespace: Option<&str>,
        name: &str,
        field: &str,
    ) {
        if name.is_empty() {
            return;
        }
        let selector = ObjectSelector::exactly(group, kind, namespace, name);
        if !self.references.iter().any(|known| known.selector == selector) {
            self.references.push(FieldReference { selector, field: field.to_owned() });
        }
    }

    fn add_service(&mut self, service: Option<&Value>, field: &str) {
        if let Some(service) = service
            && let Some(name) = text_field(service, "name")
        {
            let namespace = self.own_namespace(text_field(service, "namespace"));
            self.add_reference_in("", "Service", Some(&namespace), name, field);
        }
    }

    fn add_optional(&mut self, reference: Option<&Value>, kind: &str, name: &str, field: &str) {
        if let Some(reference) = reference
            && reference.get("optional").and_then(Value::as_bool) != Some(true)
            && let Some(name) = text_field(reference, name)
        {
            self.add_reference("", kind, name, field);
        }
    }

    fn add_pod_references(&mut self, spec: &Value, bindings: &AccountBindings) {
        for containers in ["initContainers", "containers", "ephemeralContainers"] {
            for container in list_field(spec, containers) {
                for variable in list_field(container, "env") {
                    let from = variable.get("valueFrom");
                    let of = |field: &str| from.and_then(|from| from.get(field));
                    self.add_optional(of("configMapKeyRef"), "ConfigMap", "name", "env");
                    self.add_optional(of("secretKeyRef"), "Secret", "name", "env");
                }
                for source in list_field(container, "envFrom") {
                    self.add_optional(source.get("configMapRef"), "ConfigMap", "name", "envFrom");
                    self.add_optional(source.get("secretRef"), "Secret", "name", "envFrom");
                }
            }
        }
        for volume in list_field(spec, "volumes") {
            self.add_optional(volume.get("configMap"), "ConfigMap", "name", "volumes");
            self.add_optional(volume.get("secret"), "Secret", "secretName", "volumes");
            for source in
                volume.get("projected").into_iter().flat_map(|projected| list_field(projected, "sources"))
            {
                self.add_optional(source.get("configMap"), "ConfigMap", "name", "volumes[].projected");
                self.add_optional(source.get("secret"), "Secret", "name", "volumes[].projected");
            }
            if let Some(claim) = volume.pointer("/persistentVolumeClaim/claimName").and_then(Value::as_str) {
                self.add_reference("", "PersistentVolumeClaim", claim, "volumes");
            }
            if let Some(secret) = volume.pointer("/csi/nodePublishSecretRef/name").and_then(Value::as_str) {
                self.add_reference("", "Secret", secret, "volumes[].csi");
            }
        }
        for secret in list_field(spec, "imagePullSecrets") {
            if let Some(name) = text_field(secret, "name") {
                self.add_reference("", "Secret", name, "imagePullSecrets");
            }
        }
        for field in ["serviceAccountName", "serviceAccount"] {
            if let Some(name) = text_field(spec, field) {
                self.add_reference("", "ServiceAccount", name, field);
                for binding in bindings.for_account(self.namespace, name) {
                    if !self.references.iter().any(|known| known.selector == *binding) {
                        self.references
                            .push(FieldReference { selector: binding.clone(), field: field.to_owned() });
                    }
                }
            }
        }
        for (field, group, kind) in [
            ("nodeName", "", "Node"),
            ("priorityClassName", "scheduling.k8s.io", "PriorityClass"),
            ("runtimeClassName", "node.k8s.io", "RuntimeClass"),
        ] {
            if let Some(name) = text_field(spec, field) {
                self.add_reference_in(group, kind, None, name, field);
            }
        }
        for claim in list_field(spec, "resourceClaims") {
            let of =
                |field: &str| text_field(claim, field).or_else(|| text_field(claim.get("source")?, field));
            if let Some(name) = of("resourceClaimName") {
                self.add_reference("resource.k8s.io", "ResourceClaim", name, "resourceClaims");
            }
            if let Some(name) = of("resourceClaimTemplateName") {
                self.add_reference("resource.k8s.io", "ResourceClaimTemplate", name, "resourceClaims");
            }
        }
    }

    fn add_ingress_references(&mut self, object: &Value) {
        let Some(spec) = object.get("spec") else { return };
        for tls in list_field(spec, "tls") {
            if let Some(name) = text_field(tls, "secretName") {
                self.add_reference("", "Secret", name, "spec.tls");
            }
        }
        let backend = |found: &mut Self, backend: Option<&Value>| {
            if let Some(name) =
                backend.and_then(|backend| backend.pointer("/service/name")).and_then(Value::as_str)
            {
                found.add_reference("", "Service", name, "spec.rules");
            }
        };
        backend(self, spec.get("defaultBackend"));
        for rule in list_field(spec, "rules") {
            for path in rule.get("http").into_iter().flat_map(|http| list_field(http, "paths")) {
                backend(self, path.get("backend"));
            }
        }
        if let Some(class) = text_field(spec, "ingressClassName") {
            self.add_reference_in("networking.k8s.io", "IngressClass", None, class, "spec.ingressClassName");
        }
    }
}
