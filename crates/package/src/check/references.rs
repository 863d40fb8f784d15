//! References between objects: what points at something the package does not have.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value as Json;
use slipway_manifest::ObjectId;
use slipway_problem::{Location, Problems};

use super::pods::{pod_containers, pod_template};
use crate::apply::item_seg;
use crate::build::{BuiltObject, InstallPhase, PHASE, PackageBuild, WELL_KNOWN};
use crate::located::key_path;
use crate::report::{coded_note, coded_warning};
use crate::resources::show_id;

struct ReferenceIndex<'b> {
    build: &'b PackageBuild,
    by_id: HashMap<(&'b str, &'b str, &'b str), &'b BuiltObject>,
    /// Namespace, pod labels and template of every workload.
    pods: Vec<(&'b BuiltObject, &'b Json)>,
    /// Positions in `pods` by each label they carry.
    by_label: HashMap<(&'b str, &'b str), Vec<usize>>,
    /// Positions in the build's objects of Services by each label they carry.
    services: HashMap<(&'b str, &'b str), Vec<usize>>,
    /// Definitions by the group and kind they define.
    definitions: HashMap<(&'b str, &'b str), &'b BuiltObject>,
    /// Old names of objects patches renamed: kind and name.
    renamed: HashMap<(&'b str, &'b str), &'b str>,
}

pub(super) fn check_references(build: &PackageBuild, problems: &mut Problems) {
    let mut index = ReferenceIndex {
        build,
        by_id: build.objects.iter().map(|object| (id_key(&object.id), object)).collect(),
        pods: build.objects.iter().filter_map(|object| Some((object, pod_template(object)?))).collect(),
        by_label: HashMap::new(),
        services: HashMap::new(),
        definitions: HashMap::new(),
        renamed: HashMap::new(),
    };
    for (position, (_, template)) in index.pods.iter().enumerate() {
        index_labels(template, position, &mut index.by_label);
    }
    for (position, object) in build.objects.iter().enumerate() {
        match object.id.kind.as_str() {
            "Service" => index_labels(&object.value, position, &mut index.services),
            "CustomResourceDefinition" => {
                let spec = &object.value["spec"];
                index
                    .definitions
                    .entry((str_of(spec, "group"), str_of(&spec["names"], "kind")))
                    .or_insert(object);
            }
            _ => {}
        }
        let before = &build.resources[object.resource].id;
        if before.name != object.id.name {
            index.renamed.insert((&before.kind, &before.name), &object.id.name);
        }
    }
    check_namespaces(build, problems);
    for object in &build.objects {
        match object.id.kind.as_str() {
            "Service" => check_service(&index, object, problems),
            "Ingress" => check_ingress(&index, object, problems),
            "HTTPRoute" => check_route(&index, object, problems),
            "HorizontalPodAutoscaler" => {
                let target = &object.value["spec"]["scaleTargetRef"];
                check_needed(
                    &index,
                    object,
                    str_of(target, "kind"),
                    str_of(target, "name"),
                    "KR031",
                    problems,
                );
            }
            "PodDisruptionBudget" | "ServiceMonitor" | "PodMonitor" => {
                check_selected(&index, object, problems);
            }
            "RoleBinding" | "ClusterRoleBinding" => check_binding(&index, object, problems),
            _ => {}
        }
        if let Some(template) = pod_template(object) {
            check_pod(&index, object, template, problems);
        }
        check_custom(&index, object, problems);
    }
}

fn id_key(id: &ObjectId) -> (&str, &str, &str) {
    (&id.kind, &id.namespace, &id.name)
}

/// Notes where each label of an object is carried.
fn index_labels<'b>(
    object: &'b Json,
    position: usize,
    by_label: &mut HashMap<(&'b str, &'b str), Vec<usize>>,
) {
    for (label, value) in object["metadata"]["labels"].as_object().into_iter().flatten() {
        if let Some(value) = value.as_str() {
            by_label.entry((label, value)).or_default().push(position);
        }
    }
}

/// Positions of what carries all these labels; `labels_of` gives those of a position.
fn positions_with_labels<'b>(
    by_label: &HashMap<(&'b str, &'b str), Vec<usize>>,
    labels: &serde_json::Map<String, Json>,
    labels_of: impl Fn(usize) -> &'b Json,
) -> Vec<usize> {
    let lists = labels.iter().map(|(label, value)| by_label.get(&(label.as_str(), value.as_str()?)));
    // The rarest label leaves the fewest to look at.
    let Some(rarest) =
        lists.collect::<Option<Vec<_>>>().and_then(|lists| lists.into_iter().min_by_key(|list| list.len()))
    else {
        return Vec::new();
    };
    let carries =
        |position: &usize| labels.iter().all(|(label, value)| labels_of(*position).get(label) == Some(value));
    rarest.iter().copied().filter(carries).collect()
}

fn str_of<'j>(value: &'j Json, field: &str) -> &'j str {
    value[field].as_str().unwrap_or_default()
}

impl<'b> ReferenceIndex<'b> {
    fn get(&self, kind: &str, namespace: &str, name: &str) -> Option<&'b BuiltObject> {
        self.by_id.get(&(kind, namespace, name)).copied()
    }

    /// The workloads in any namespace whose pods carry all these labels.
    fn selected_workloads(&self, labels: &serde_json::Map<String, Json>) -> Vec<(&'b BuiltObject, &'b Json)> {
        positions_with_labels(&self.by_label, labels, |position| &self.pods[position].1["metadata"]["labels"])
            .into_iter()
            .map(|position| self.pods[position])
            .collect()
    }

    fn rename_hint(&self, kind: &str, name: &str) -> Option<String> {
        self.renamed
            .get(&(kind, name))
            .map(|new| format!("a patch renamed it to `{new}`; references are not rewritten"))
    }
}

fn check_namespaces(build: &PackageBuild, problems: &mut Problems) {
    let existing: BTreeSet<&str> = build
        .objects
        .iter()
        .filter(|object| object.id.kind == "Namespace" && object.id.group.is_empty())
        .map(|object| object.id.name.as_str())
        .collect();
    let mut used: BTreeMap<&str, &BuiltObject> = BTreeMap::new();
    for object in &build.objects {
        if !object.id.namespace.is_empty() {
            used.entry(&object.id.namespace).or_insert(object);
        }
    }
    let dropped: BTreeSet<&str> = build
        .dropped
        .iter()
        .filter(|dropped| dropped.id.kind == "Namespace")
        .map(|dropped| dropped.id.name.as_str())
        .collect();
    for (name, object) in &used {
        if !existing.contains(name) && !WELL_KNOWN.contains(name) && !dropped.contains(name) {
            let message = format!("namespace {name} is used but the package has no Namespace object for it");
            let problem = coded_warning("KR024", message)
                .hint("set global.namespaces.create: true, or add resources/namespaces.yaml");
            problems.push(build.locate_field(problem, object, &["metadata", "namespace"]));
        }
    }
    if used.len() > 1 {
        let names: Vec<&str> = used.keys().copied().collect();
        let message =
            format!("resources span {} namespaces: {}", used.len(), crate::report::join_words(&names, 8));
        problems.push(coded_warning("KR025", message).at(Location::file("resources/")));
    }
}

fn check_service(index: &ReferenceIndex<'_>, object: &BuiltObject, problems: &mut Problems) {
    let Some(selector) = object.value["spec"]["selector"].as_object().filter(|selector| !selector.is_empty())
    else {
        return;
    };
    let everywhere = index.selected_workloads(selector);
    let here: Vec<_> = everywhere.iter().filter(|(pod, _)| pod.id.namespace == object.id.namespace).collect();
    if here.is_empty() {
        let id = show_id(&object.id);
        let problem = match everywhere.first() {
            Some((other, _)) => coded_warning(
                "KR033",
                format!("{id} selects pods of {} only, in another namespace", show_id(&other.id)),
            ),
            None => coded_warning("KR026", format!("{id} selects no pods of the package")),
        };
        problems.push(index.build.locate_field(problem, object, &["spec", "selector"]));
        return;
    }
    for (at, port) in object.value["spec"]["ports"].as_array().into_iter().flatten().enumerate() {
        let target = if port["targetPort"].is_null() { &port["port"] } else { &port["targetPort"] };
        let exposes = here.iter().any(|(_, template)| {
            let mut declared = false;
            let found = pod_containers(template).any(|(_, container)| {
                container["ports"].as_array().into_iter().flatten().any(|own| {
                    declared = true;
                    match target {
                        Json::String(name) => own["name"].as_str() == Some(name),
                        number => own["containerPort"] == *number,
                    }
                })
            });
            // Containers that declare no ports at all may listen on any number.
            found || (!declared && !target.is_string())
        });
        if !exposes {
            let shown = target.as_str().map_or_else(|| target.to_string(), str::to_owned);
            let message = format!("{}: no container it selects has the port `{shown}`", show_id(&object.id));
            let mut path = key_path(&["spec", "ports"]);
            path.push(item_seg(at, port));
            let problem = coded_warning("KR027", message);
            problems.push(index.build.locate_write(problem, object, &path));
        }
    }
}

fn check_backend(
    index: &ReferenceIndex<'_>,
    object: &BuiltObject,
    name: &str,
    port: &Json,
    problems: &mut Problems,
) {
    if name.is_empty() {
        return;
    }
    let Some(service) = index.get("Service", &object.id.namespace, name) else {
        let problem = coded_warning(
            "KR028",
            format!("{} points at Service `{name}`, which the package does not have", show_id(&object.id)),
        );
        let problem = match index.rename_hint("Service", name) {
            Some(hint) => problem.hint(hint),
            None => problem,
        };
        problems.push(index.build.locate_name(problem, object, name));
        return;
    };
    let has = service.value["spec"]["ports"].as_array().into_iter().flatten().any(|own| match port {
        Json::Null => true,
        Json::String(name) => own["name"].as_str() == Some(name),
        number => own["port"] == *number,
    });
    if !has {
        let shown = port.as_str().map_or_else(|| port.to_string(), str::to_owned);
        let message = format!(
            "{} points at port `{shown}` of Service `{name}`, which has no such port",
            show_id(&object.id)
        );
        problems.push(index.build.locate_name(coded_warning("KR028", message), object, name));
    }
}

fn check_ingress(index: &ReferenceIndex<'_>, object: &BuiltObject, problems: &mut Problems) {
    let spec = &object.value["spec"];
    let rules = spec["rules"].as_array().into_iter().flatten();
    let paths = rules.flat_map(|rule| rule["http"]["paths"].as_array().into_iter().flatten());
    let backends = paths.map(|path| &path["backend"]).chain([&spec["defaultBackend"]]);
    for found in backends {
        let service = &found["service"];
        let port = if service["port"]["name"].is_null() {
            &service["port"]["number"]
        } else {
            &service["port"]["name"]
        };
        check_backend(index, object, str_of(service, "name"), port, problems);
    }
}

fn check_route(index: &ReferenceIndex<'_>, object: &BuiltObject, problems: &mut Problems) {
    for rule in object.value["spec"]["rules"].as_array().into_iter().flatten() {
        for found in rule["backendRefs"].as_array().into_iter().flatten() {
            let is_service = matches!(str_of(found, "kind"), "" | "Service") && found["namespace"].is_null();
            if is_service {
                check_backend(index, object, str_of(found, "name"), &found["port"], problems);
            }
        }
    }
}

/// One object needs another of the same namespace.
fn check_needed(
    index: &ReferenceIndex<'_>,
    object: &BuiltObject,
    kind: &str,
    name: &str,
    code: &str,
    problems: &mut Problems,
) {
    if kind.is_empty() || name.is_empty() {
        return;
    }
    let cluster = index.build.kinds.is_namespaced("rbac.authorization.k8s.io", kind) == Some(false);
    let namespace = if cluster { "" } else { &object.id.namespace };
    match index.get(kind, namespace, name) {
        Some(found) => warn_if_later(index.build, object, found, problems),
        None => {
            let message =
                format!("{} refers to {kind} `{name}`, which the package does not have", show_id(&object.id));
            let problem =
                if kind == "Secret" { coded_note(code, message) } else { coded_warning(code, message) };
            let problem = match index.rename_hint(kind, name) {
                Some(hint) => problem.hint(hint),
                None => problem,
            };
            problems.push(index.build.locate_name(problem, object, name));
        }
    }
}

/// Warns if something an earlier phase needs comes in a later one.
fn warn_if_later(build: &PackageBuild, object: &BuiltObject, needed: &BuiltObject, problems: &mut Problems) {
    if needed.phase > object.phase {
        let message = format!(
            "{} ({}) needs {}, which comes later ({})",
            show_id(&object.id),
            object.phase,
            show_id(&needed.id),
            needed.phase
        );
        let path = ["metadata", "annotations", PHASE];
        problems.push(build.locate_field(coded_warning("KR035", message), object, &path));
    }
}

fn check_selected(index: &ReferenceIndex<'_>, object: &BuiltObject, problems: &mut Problems) {
    let spec = &object.value["spec"];
    let Some(labels) = spec["selector"]["matchLabels"].as_object().filter(|labels| !labels.is_empty()) else {
        return;
    };
    let elsewhere = !spec["namespaceSelector"].is_null();
    let found = if object.id.kind == "ServiceMonitor" {
        let objects = &index.build.objects;
        positions_with_labels(
            &index.services,
            labels,
            |position| &objects[position].value["metadata"]["labels"],
        )
        .into_iter()
        .any(|position| elsewhere || objects[position].id.namespace == object.id.namespace)
    } else {
        index
            .selected_workloads(labels)
            .iter()
            .any(|(pod, _)| elsewhere || pod.id.namespace == object.id.namespace)
    };
    if !found {
        let message = format!("{} selects nothing of the package", show_id(&object.id));
        let path = ["spec", "selector"];
        problems.push(index.build.locate_field(coded_warning("KR031", message), object, &path));
    }
}

fn check_binding(index: &ReferenceIndex<'_>, object: &BuiltObject, problems: &mut Problems) {
    const BUILT_IN: [&str; 4] = ["cluster-admin", "admin", "edit", "view"];
    let role = &object.value["roleRef"];
    let (kind, name) = (str_of(role, "kind"), str_of(role, "name"));
    if !(kind == "ClusterRole" && (BUILT_IN.contains(&name) || name.starts_with("system:"))) {
        check_needed(index, object, kind, name, "KR032", problems);
    }
    for subject in object.value["subjects"].as_array().into_iter().flatten() {
        if str_of(subject, "kind") != "ServiceAccount" || str_of(subject, "name") == "default" {
            continue;
        }
        let name = str_of(subject, "name");
        let namespace = subject["namespace"].as_str().unwrap_or(&object.id.namespace);
        if index.get("ServiceAccount", namespace, name).is_none() {
            let message = format!(
                "{} binds ServiceAccount `{name}`, which the package does not have in namespace `{namespace}`",
                show_id(&object.id)
            );
            problems.push(index.build.locate_name(coded_warning("KR032", message), object, name));
        }
    }
}

fn check_pod(index: &ReferenceIndex<'_>, object: &BuiltObject, template: &Json, problems: &mut Problems) {
    let mut wanted: BTreeSet<(&str, &str)> = BTreeSet::new();
    let want = |kind: &'static str, source: &'_ Json, field: &str| -> Option<(&'static str, String)> {
        let name = source[field].as_str()?;
        let optional = source["optional"].as_bool() == Some(true);
        (!optional && !name.is_empty()).then(|| (kind, name.to_owned()))
    };
    let mut names: Vec<(&str, String)> = Vec::new();
    let spec = &template["spec"];
    let account = str_of(spec, "serviceAccountName");
    if !account.is_empty() && account != "default" {
        names.push(("ServiceAccount", account.to_owned()));
    }
    for volume in spec["volumes"].as_array().into_iter().flatten() {
        names.extend(want("ConfigMap", &volume["configMap"], "name"));
        names.extend(want("Secret", &volume["secret"], "secretName"));
        names.extend(want("PersistentVolumeClaim", &volume["persistentVolumeClaim"], "claimName"));
        for source in volume["projected"]["sources"].as_array().into_iter().flatten() {
            names.extend(want("ConfigMap", &source["configMap"], "name"));
            names.extend(want("Secret", &source["secret"], "name"));
        }
    }
    for secret in spec["imagePullSecrets"].as_array().into_iter().flatten() {
        names.extend(want("Secret", secret, "name"));
    }
    for (_, container) in pod_containers(template) {
        for source in container["envFrom"].as_array().into_iter().flatten() {
            names.extend(want("ConfigMap", &source["configMapRef"], "name"));
            names.extend(want("Secret", &source["secretRef"], "name"));
        }
        for variable in container["env"].as_array().into_iter().flatten() {
            names.extend(want("ConfigMap", &variable["valueFrom"]["configMapKeyRef"], "name"));
            names.extend(want("Secret", &variable["valueFrom"]["secretKeyRef"], "name"));
        }
    }
    for (kind, name) in &names {
        if wanted.insert((kind, name)) {
            check_needed(index, object, kind, name, "KR030", problems);
        }
    }
}

/// Custom resources and the definitions and namespaces they need.
fn check_custom(index: &ReferenceIndex<'_>, object: &BuiltObject, problems: &mut Problems) {
    if let Some(namespace) = index.get("Namespace", "", &object.id.namespace) {
        warn_if_later(index.build, object, namespace, problems);
    }
    if !index.build.kinds.is_custom(&object.id.group, &object.id.kind) {
        return;
    }
    if let Some(definition) = index.definitions.get(&(object.id.group.as_str(), object.id.kind.as_str())) {
        if definition.phase == object.phase {
            let message = format!("{} comes in the same phase as its definition", show_id(&object.id));
            let problem = coded_note("KR038", message).at(object.at.clone());
            problems.push(if object.phase == InstallPhase::Main {
                problem.hint("put the definition into the pre-install phase")
            } else {
                problem
            });
        } else {
            warn_if_later(index.build, object, definition, problems);
        }
    }
}
