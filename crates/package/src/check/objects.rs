//! Objects against their types: unknown fields, wrong types, missing fields, broken rules.

use std::collections::BTreeSet;

use serde_json::Value as Json;
use slipway_problem::{Problem, Problems, nearest_name};

use crate::apply::{PathSegment, item_seg, show_segs};
use crate::build::{BuildInputs, BuiltObject, PackageBuild};
use crate::located::key_path;
use crate::report::{coded_error, coded_note, coded_warning};
use crate::resources::show_id;
use crate::schema::{ChildType, FieldScalar, FieldType, ValueForm, constraint_of};

/// Problems of one object beyond these say nothing new.
const MOST_PROBLEMS: usize = 50;

pub(super) fn check_objects(build: &PackageBuild, inputs: &BuildInputs, problems: &mut Problems) {
    let mut unknown: BTreeSet<(String, String)> = BTreeSet::new();
    for object in &build.objects {
        let api_version = object.value["apiVersion"].as_str().unwrap_or_default();
        check_removed_version(build, object, api_version, inputs, problems);
        let ty = build.kinds.of(api_version, &object.id.kind);
        if ty.is_unknown_kind() {
            if unknown.insert((api_version.to_owned(), object.id.kind.clone())) {
                let message =
                    format!("no schema for {api_version} {}: its fields are not checked", object.id.kind);
                problems.push(coded_note("KS006", message).at(object.at.clone()));
            }
            continue;
        }
        let mut walk = ObjectChecker { build, object, inputs, path: Vec::new(), found: Vec::new() };
        walk.check_value(&object.value, ty);
        problems.extend(walk.found);
    }
}

struct ObjectChecker<'a> {
    build: &'a PackageBuild,
    object: &'a BuiltObject,
    inputs: &'a BuildInputs,
    path: Vec<PathSegment>,
    found: Vec<Problem>,
}

impl ObjectChecker<'_> {
    fn push_problem(&mut self, problem: Problem) {
        let paths = [self.path.clone()];
        self.found.push(self.build.locate_problem(problem, self.object.resource, &paths));
    }

    fn shown_path(&self) -> String {
        format!("{} {}", show_id(&self.object.id), show_segs(&self.path))
    }

    fn check_value(&mut self, value: &Json, ty: FieldType<'_>) {
        if self.found.len() >= MOST_PROBLEMS || value.is_null() {
            return;
        }
        match (ty.form(), value) {
            (ValueForm::Any, _) => {}
            (ValueForm::Map, Json::Object(map)) => {
                for name in ty.required() {
                    // Objects carry their type themselves; an empty struct is filled by the server.
                    if map.get(name).is_none_or(Json::is_null)
                        && !["apiVersion", "kind", "metadata", "status"].contains(&name)
                        && is_certain(ty, name)
                    {
                        let message = format!("{}: `{name}` is missing", self.shown_path());
                        self.path.push(PathSegment::Key(name.to_owned()));
                        self.push_problem(coded_error("KS002", message));
                        self.path.pop();
                    }
                }
                for (key, value) in map {
                    self.path.push(PathSegment::Key(key.clone()));
                    match ty.child(key) {
                        ChildType::Known(below) => self.check_value(value, below),
                        ChildType::Undeclared | ChildType::Nothing => self.report_undeclared(key, ty),
                    }
                    self.path.pop();
                }
            }
            (ValueForm::List, Json::Array(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.path.push(item_seg(index, item));
                    self.check_value(item, ty.item());
                    self.path.pop();
                }
            }
            (ValueForm::Scalar(scalar), value) => self.check_scalar(scalar, value, ty),
            (form, value) => {
                let wanted = if form == ValueForm::Map { "a map" } else { "a list" };
                let message =
                    format!("{} must be {wanted}, not {}", self.shown_path(), crate::val::type_name(value));
                self.push_problem(coded_error("KS002", message));
            }
        }
    }

    fn report_undeclared(&mut self, key: &str, ty: FieldType<'_>) {
        let message = format!("{}: no such field", self.shown_path());
        let problem = if self.inputs.strict_schema {
            coded_error("KS001", message)
        } else {
            coded_warning("KS001", message)
        };
        let known = ty.fields();
        let near = nearest_name(key, known.iter().copied()).map(|near| format!("did you mean `{near}`?"));
        self.push_problem(match near {
            Some(hint) => problem.hint(hint),
            None => problem,
        });
    }

    fn check_scalar(&mut self, scalar: FieldScalar, value: &Json, ty: FieldType<'_>) {
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
            let message = format!(
                "{} must be {}, not {}",
                self.shown_path(),
                scalar.name(),
                crate::val::type_name(value)
            );
            let problem = coded_error("KS002", message);
            let quotes = scalar == FieldScalar::String && !value.is_object() && !value.is_array();
            self.push_problem(if quotes { problem.hint("quote it") } else { problem });
            return;
        }
        if scalar == FieldScalar::Quantity
            && let Json::String(text) = value
            && let Some(wrong) = crate::schema::TextFormat::Quantity.check(text)
        {
            self.push_problem(coded_error("KS003", format!("{}: {wrong}", self.shown_path())));
        }
        if let Some(rule) = constraint_of(ty.owner, ty.name)
            && let Some(wrong) = rule.check(value)
        {
            self.push_problem(coded_error("KS003", format!("{}: {wrong}", self.shown_path())));
        }
        if ty.owner == "ServicePort"
            && ty.name == "nodePort"
            && value.as_i64().is_some_and(|port| port > 0 && !(30000..=32767).contains(&port))
        {
            self.push_problem(coded_warning(
                "KS004",
                format!("{}: node ports are usually from 30000 to 32767", self.shown_path()),
            ));
        }
        if let Some(schema) = ty.crd() {
            check_crd_rules(self, value, schema);
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
fn check_crd_rules(walk: &mut ObjectChecker<'_>, value: &Json, schema: &Json) {
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
        let message = format!("{}: {wrong}", walk.shown_path());
        walk.push_problem(coded_error("KS003", message));
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

fn check_removed_version(
    build: &PackageBuild,
    object: &BuiltObject,
    api_version: &str,
    inputs: &BuildInputs,
    problems: &mut Problems,
) {
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
    let problem =
        if aimed.is_some() { coded_error("KS005", message) } else { coded_warning("KS005", message) };
    let problem = problem.hint(format!("use {instead}"));
    problems.push(build.locate_problem(problem, object.resource, &[key_path(&["apiVersion"])]));
}
