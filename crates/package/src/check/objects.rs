//! Objects against their types: unknown fields, wrong types, missing fields, broken rules.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use slipway_problem::{Problem, Problems, nearest};

use crate::apply::{Seg, item_seg, show_segs};
use crate::build::{Build, BuiltObject, Inputs};
use crate::located::keys;
use crate::report::{error, note, warning};
use crate::resources::show_id;
use crate::schema::{FieldScalar, FieldType, Form, Next, constraint};

/// Problems of one object beyond these say nothing new.
const MOST: usize = 50;

pub(super) fn check(build: &Build, inputs: &Inputs, problems: &mut Problems) {
    let mut unknown: BTreeSet<(String, String)> = BTreeSet::new();
    for object in &build.objects {
        let api_version = object.value["apiVersion"].as_str().unwrap_or_default();
        removed(build, object, api_version, inputs, problems);
        let ty = build.kinds.of(api_version, &object.id.kind);
        if ty.is_unknown_kind() {
            if unknown.insert((api_version.to_owned(), object.id.kind.clone())) {
                let message =
                    format!("no schema for {api_version} {}: its fields are not checked", object.id.kind);
                problems.push(note("KS006", message).at(object.at.clone()));
            }
            continue;
        }
        let mut walk = Walk { build, object, inputs, path: Vec::new(), found: Vec::new() };
        walk.value(&object.value, ty);
        problems.extend(walk.found);
    }
}

struct Walk<'a> {
    build: &'a Build,
    object: &'a BuiltObject,
    inputs: &'a Inputs,
    path: Vec<Seg>,
    found: Vec<Problem>,
}

impl Walk<'_> {
    fn push(&mut self, problem: Problem) {
        let paths = [self.path.clone()];
        self.found.push(self.build.located(problem, self.object.resource, &paths));
    }

    fn shown(&self) -> String {
        format!("{} {}", show_id(&self.object.id), show_segs(&self.path))
    }

    fn value(&mut self, value: &Json, ty: FieldType<'_>) {
        if self.found.len() >= MOST || value.is_null() {
            return;
        }
        match (ty.form(), value) {
            (Form::Any, _) => {}
            (Form::Map, Json::Object(map)) => {
                for name in ty.required() {
                    // Objects carry their type themselves; an empty struct is filled by the server.
                    if map.get(name).is_none_or(Json::is_null)
                        && !["apiVersion", "kind", "metadata", "status"].contains(&name)
                        && is_certain(ty, name)
                    {
                        let message = format!("{}: `{name}` is missing", self.shown());
                        self.path.push(Seg::Key(name.to_owned()));
                        self.push(error("KS002", message));
                        self.path.pop();
                    }
                }
                for (key, value) in map {
                    self.path.push(Seg::Key(key.clone()));
                    match ty.child(key) {
                        Next::Known(below) => self.value(value, below),
                        Next::Undeclared | Next::Nothing => self.undeclared(key, ty),
                    }
                    self.path.pop();
                }
            }
            (Form::List, Json::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push(item_seg(index, item));
                    self.value(item, ty.item());
                    self.path.pop();
                }
            }
            (Form::Scalar(scalar), value) => self.scalar(scalar, value, ty),
            (form, value) => {
                let wanted = if form == Form::Map { "a map" } else { "a list" };
                let message =
                    format!("{} must be {wanted}, not {}", self.shown(), crate::val::type_name(value));
                self.push(error("KS002", message));
            }
        }
    }

    fn undeclared(&mut self, key: &str, ty: FieldType<'_>) {
        let message = format!("{}: no such field", self.shown());
        let problem =
            if self.inputs.strict_schema { error("KS001", message) } else { warning("KS001", message) };
        let known = ty.fields();
        let near = nearest(key, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        self.push(match near {
            Some(hint) => problem.hint(hint),
            None => problem,
        });
    }

    fn scalar(&mut self, scalar: FieldScalar, value: &Json, ty: FieldType<'_>) {
        let fits = match (scalar, value) {
            (FieldScalar::String, Json::String(_))
            | (FieldScalar::Bool, Json::Bool(_))
            | (FieldScalar::Number, Json::Number(_)) => true,
            (FieldScalar::Integer, Json::Number(number)) => !number.is_f64(),
            (FieldScalar::Quantity, Json::String(_) | Json::Number(_)) => true,
            (FieldScalar::IntOrString, Json::String(_)) => true,
            (FieldScalar::IntOrString, Json::Number(number)) => !number.is_f64(),
            _ => false,
        };
        if !fits {
            let message =
                format!("{} must be {}, not {}", self.shown(), scalar.name(), crate::val::type_name(value));
            let problem = error("KS002", message);
            let quotes = scalar == FieldScalar::String && !value.is_object() && !value.is_array();
            self.push(if quotes { problem.hint("quote it") } else { problem });
            return;
        }
        if scalar == FieldScalar::Quantity
            && let Json::String(text) = value
            && let Some(wrong) = crate::schema::Format::Quantity.check(text)
        {
            self.push(error("KS003", format!("{}: {wrong}", self.shown())));
        }
        if let Some(rule) = constraint(ty.owner, ty.name)
            && let Some(wrong) = rule.check(value)
        {
            self.push(error("KS003", format!("{}: {wrong}", self.shown())));
        }
        if ty.owner == "ServicePort"
            && ty.name == "nodePort"
            && value.as_i64().is_some_and(|port| port > 0 && !(30000..=32767).contains(&port))
        {
            self.push(warning(
                "KS004",
                format!("{}: node ports are usually from 30000 to 32767", self.shown()),
            ));
        }
        if let Some(schema) = ty.crd() {
            custom(self, value, schema);
        }
    }
}

/// Returns true if a field marked as required is one users must write.
fn is_certain(ty: FieldType<'_>, name: &str) -> bool {
    if ty.crd().is_some() {
        return true;
    }
    // Kubernetes' table marks fields Go always prints; these are the ones its validation insists on.
    matches!(
        (
            ty.built().and_then(slipway_manifest::TypeRef::as_map).map_or("", |map| map
                .name
                .rsplit('.')
                .next()
                .unwrap_or_default()),
            name
        ),
        ("DeploymentSpec" | "StatefulSetSpec" | "DaemonSetSpec", "selector" | "template")
            | ("JobSpec", "template")
            | ("CronJobSpec", "schedule" | "jobTemplate")
            | ("PodSpec", "containers")
            | ("Container" | "EnvVar" | "Volume", "name")
            | ("VolumeMount", "name" | "mountPath")
            | ("ContainerPort", "containerPort")
            | ("ServicePort", "port")
            | ("RoleRef", "kind" | "name")
            | ("HorizontalPodAutoscalerSpec", "maxReplicas" | "scaleTargetRef")
            | ("HTTPIngressPath", "pathType" | "backend")
    )
}

/// The rules a CRD states itself.
fn custom(walk: &mut Walk<'_>, value: &Json, schema: &Json) {
    let mut wrong = None;
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        let all: Vec<String> =
            words.iter().map(|word| word.as_str().map_or_else(|| word.to_string(), str::to_owned)).collect();
        wrong = Some(format!("{value} is none of {}", all.join(", ")));
    }
    if let (Some(number), Some(least)) = (value.as_f64(), schema["minimum"].as_f64())
        && number < least
    {
        wrong = Some(format!("{number} is less than {least}"));
    }
    if let (Some(number), Some(most)) = (value.as_f64(), schema["maximum"].as_f64())
        && number > most
    {
        wrong = Some(format!("{number} is more than {most}"));
    }
    if let (Some(text), Some(pattern)) = (value.as_str(), schema["pattern"].as_str())
        && regex::RegexBuilder::new(pattern)
            .size_limit(1 << 20)
            .build()
            .is_ok_and(|pattern| !pattern.is_match(text))
    {
        wrong = Some(format!("`{text}` does not match {pattern}"));
    }
    if let Some(wrong) = wrong {
        let message = format!("{}: {wrong}", walk.shown());
        walk.push(error("KS003", message));
    }
}

/// Versions Kubernetes no longer serves, and the minor release that dropped them.
const REMOVED: &[(&str, &str, u32, &str)] = &[
    ("extensions/v1beta1", "Deployment", 16, "apps/v1"),
    ("extensions/v1beta1", "DaemonSet", 16, "apps/v1"),
    ("extensions/v1beta1", "ReplicaSet", 16, "apps/v1"),
    ("extensions/v1beta1", "NetworkPolicy", 16, "networking.k8s.io/v1"),
    ("extensions/v1beta1", "Ingress", 22, "networking.k8s.io/v1"),
    ("apps/v1beta1", "", 16, "apps/v1"),
    ("apps/v1beta2", "", 16, "apps/v1"),
    ("networking.k8s.io/v1beta1", "Ingress", 22, "networking.k8s.io/v1"),
    ("networking.k8s.io/v1beta1", "IngressClass", 22, "networking.k8s.io/v1"),
    ("rbac.authorization.k8s.io/v1beta1", "", 22, "rbac.authorization.k8s.io/v1"),
    ("apiextensions.k8s.io/v1beta1", "", 22, "apiextensions.k8s.io/v1"),
    (
        "admissionregistration.k8s.io/v1beta1",
        "MutatingWebhookConfiguration",
        22,
        "admissionregistration.k8s.io/v1",
    ),
    (
        "admissionregistration.k8s.io/v1beta1",
        "ValidatingWebhookConfiguration",
        22,
        "admissionregistration.k8s.io/v1",
    ),
    ("scheduling.k8s.io/v1beta1", "", 22, "scheduling.k8s.io/v1"),
    ("storage.k8s.io/v1beta1", "StorageClass", 22, "storage.k8s.io/v1"),
    ("batch/v1beta1", "CronJob", 25, "batch/v1"),
    ("policy/v1beta1", "PodDisruptionBudget", 25, "policy/v1"),
    ("policy/v1beta1", "PodSecurityPolicy", 25, "pod security admission"),
    ("discovery.k8s.io/v1beta1", "EndpointSlice", 25, "discovery.k8s.io/v1"),
    ("events.k8s.io/v1beta1", "Event", 25, "events.k8s.io/v1"),
    ("autoscaling/v2beta1", "HorizontalPodAutoscaler", 25, "autoscaling/v2"),
    ("autoscaling/v2beta2", "HorizontalPodAutoscaler", 26, "autoscaling/v2"),
    ("flowcontrol.apiserver.k8s.io/v1beta1", "", 26, "flowcontrol.apiserver.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta2", "", 29, "flowcontrol.apiserver.k8s.io/v1"),
    ("flowcontrol.apiserver.k8s.io/v1beta3", "", 32, "flowcontrol.apiserver.k8s.io/v1"),
];

fn removed(build: &Build, object: &BuiltObject, api_version: &str, inputs: &Inputs, problems: &mut Problems) {
    let found = REMOVED
        .iter()
        .find(|(version, kind, ..)| *version == api_version && (kind.is_empty() || *kind == object.id.kind));
    let Some((_, _, minor, instead)) = found else { return };
    let aimed = inputs.kube_version.as_deref().and_then(|version| {
        version.trim_start_matches('v').split('.').nth(1)?.trim_end_matches('+').parse::<u32>().ok()
    });
    if aimed.is_some_and(|aimed| aimed < *minor) {
        return;
    }
    let message = format!("{api_version} {} is not served since Kubernetes 1.{minor}", object.id.kind);
    let problem = if aimed.is_some() { error("KS005", message) } else { warning("KS005", message) };
    let problem = problem.hint(format!("use {instead}"));
    problems.push(build.located(problem, object.resource, &[keys(&["apiVersion"])]));
}
