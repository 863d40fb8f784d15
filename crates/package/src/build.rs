//! From a package and inputs to objects: merge, resolve, decide, apply, check, order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value as Json};
use slipway_manifest::ObjectId;
use slipway_manifest::object::{annotation, split_api_version};
use slipway_problem::{Location, Problem, ProblemSeverity, Problems};

use crate::apply::{self, PatchWrite, ValueRealizer, WriteKind, show_segs};
use crate::check;
use crate::enable::{PatchDecision, PatchState, decide_patches};
use crate::located::key_path;
use crate::package::Package;
use crate::params::{LayerKind, ParamData, ParamLayers, ResolvedParams, SetValue, read_tree, resolve_params};
use crate::patches::PatchOrigin;
use crate::report::{coded_error, coded_warning, warnings_to_errors};
use crate::resources::{self, Resource, show_id};
use crate::schema::{KindTypes, check_parameters};
use crate::template::{ParamPath, ParamStep};
use crate::val::{ValueData, ValueReader, WrittenValue};

/// The annotation that says when an object is installed.
pub const PHASE: &str = "kurel.gokure.dev/install-phase";

/// Undefined parameters of one disabled patch beyond these say nothing new.
const MOST_UNDEFINED: usize = 100;

/// A file of values: its name and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValuesFile {
    pub name: String,
    pub text: String,
}

/// Everything that varies from build to build.
#[derive(Clone, Debug, Default)]
pub struct BuildInputs {
    /// Laid over the package and the local extension, first to last.
    pub values: Vec<ValuesFile>,
    /// Laid over all files, first to last.
    pub sets: Vec<SetValue>,
    /// Warnings are errors.
    pub strict: bool,
    /// Fields no schema knows are errors.
    pub strict_schema: bool,
    /// Two patches that set a field to different values are a mistake.
    pub no_contention: bool,
    /// CRDs, Namespaces, RBAC and Secrets without a phase go first.
    pub auto_phase: bool,
    /// The Kubernetes version aimed at, `1.29`.
    pub kube_version: Option<String>,
}

/// The install phase of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InstallPhase {
    PreInstall,
    #[default]
    Main,
    PostInstall,
}

impl InstallPhase {
    /// All of them, in order.
    pub const ALL: [Self; 3] = [Self::PreInstall, Self::Main, Self::PostInstall];

    /// As the annotation spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PreInstall => "pre-install",
            Self::Main => "main",
            Self::PostInstall => "post-install",
        }
    }

    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == text)
    }
}

impl fmt::Display for InstallPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One object of the result.
#[derive(Clone, Debug, PartialEq)]
pub struct BuiltObject {
    /// As it is now, renames and all.
    pub id: ObjectId,
    pub value: Arc<Json>,
    pub phase: InstallPhase,
    /// The beginning of its manifest; `generated:namespaces` for those we made.
    pub at: Location,
    /// Index into [`PackageBuild::resources`].
    pub resource: usize,
}

/// An object that is not part of the result, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DroppedObject {
    pub id: ObjectId,
    pub why: String,
}

/// A finished build.
#[derive(Clone, Debug)]
pub struct PackageBuild {
    pub package: String,
    pub version: String,
    /// In the order they are written.
    pub objects: Vec<BuiltObject>,
    /// Warnings and notes; a build has no errors.
    pub problems: Problems,
    pub params: ResolvedParams,
    pub decision: PatchDecision,
    pub patches: Arc<Vec<crate::patches::Patch>>,
    /// All objects, also those left out, as patches left them.
    pub resources: Vec<Resource>,
    /// Every change every patch made.
    pub writes: Vec<PatchWrite>,
    pub dropped: Vec<DroppedObject>,
    /// Names of Namespaces added because `global.namespaces.create` is true.
    pub synthesised: Vec<String>,
    pub(crate) kinds: KindTypes,
    /// Digest of package and inputs.
    pub digest: String,
}

/// The findings of a validation, with the build if there is one.
#[derive(Clone, Debug)]
pub struct PackageValidation {
    pub problems: Problems,
    pub build: Option<PackageBuild>,
    pub decision: PatchDecision,
    /// The number of objects of each kind.
    pub(crate) counts: Vec<(String, usize)>,
}

/// The checks of a run beyond building.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CheckDepth {
    Build,
    /// Disabled patches are checked too.
    Validate,
}

impl Package {
    /// Builds the objects. All problems come at once; with an error there is no build.
    pub fn build(&self, inputs: &BuildInputs) -> Result<PackageBuild, Problems> {
        let mut problems = Problems::new();
        let build = self.run_build(inputs, CheckDepth::Build, &mut problems).ok();
        self.finish_build(build, problems, inputs)
    }

    /// Does everything but write, and looks at disabled patches as well.
    pub fn validate(&self, inputs: &BuildInputs) -> PackageValidation {
        let mut problems = Problems::new();
        let run = self.run_build(inputs, CheckDepth::Validate, &mut problems);
        let (decision, counts) = match &run {
            Ok(build) => (build.decision.clone(), build.counts()),
            Err(decision) => (decision.clone(), Vec::new()),
        };
        match self.finish_build(run.ok(), problems, inputs) {
            Ok(build) => {
                PackageValidation { problems: build.problems.clone(), build: Some(build), decision, counts }
            }
            Err(problems) => PackageValidation { problems, build: None, decision, counts },
        }
    }

    /// The merged and resolved parameters.
    pub fn params(&self, inputs: &BuildInputs) -> Result<ResolvedParams, Problems> {
        let mut problems = Problems::new();
        problems.extend(
            self.problems
                .iter()
                .filter(|problem| problem.code.as_deref().is_some_and(|code| code.starts_with("KV")))
                .cloned(),
        );
        match self.merge_layers(inputs, &mut problems) {
            Some(params) if !problems.has_errors() => Ok(params),
            _ => Err(problems),
        }
    }

    fn merge_layers(&self, inputs: &BuildInputs, problems: &mut Problems) -> Option<ResolvedParams> {
        let mut layers = ParamLayers::new("parameters.yaml", self.tree.clone()?);
        let mut lay = |kind: LayerKind, name: &str, text: &str, layers: &mut ParamLayers| {
            let layer = layers.add(kind, name);
            if let Some((tree, _)) = read_tree(name, text, layer, problems) {
                layers.merge(tree, problems);
            }
        };
        if let Some((name, text)) = &self.local {
            lay(LayerKind::Local, name, text, &mut layers);
        }
        for file in &inputs.values {
            let text = file.text.strip_prefix('\u{feff}').unwrap_or(&file.text);
            lay(LayerKind::Values, &file.name, text, &mut layers);
        }
        for set in &inputs.sets {
            layers.set(set, problems);
        }
        Some(resolve_params(layers, problems))
    }

    /// Goes as far as it can whatever is wrong; the build is of use only if nothing is. Without
    /// parameters there is none.
    fn run_build(
        &self,
        inputs: &BuildInputs,
        thorough: CheckDepth,
        problems: &mut Problems,
    ) -> Result<PackageBuild, PatchDecision> {
        problems.extend(self.problems.iter().cloned());
        let loaded = !problems.has_errors();
        let Some(params) = self.merge_layers(inputs, problems) else { return Err(PatchDecision::default()) };
        let of_parameters = summary(problems).0;
        let decision = decide_patches(&self.patches, &params, problems);
        if thorough == CheckDepth::Validate {
            self.check_names(|index| !decision.states[index].is_on(), &params, problems);
        }
        // Patches run even if something is wrong already, so that one run shows every mistake; a package
        // whose patches could not be chosen would only show consequences.
        let mut resources = self.resources.clone();
        if self.metadata.substitute_resources {
            substitute_references(&mut resources, &params, &self.kinds, problems);
        } else {
            let known = |path: &ParamPath| params.get(path).is_some();
            resources.iter().for_each(|resource| resources::warn_unsubstituted(resource, &known, problems));
        }
        let applied = apply::apply_patches(
            &mut resources,
            &self.patches,
            &decision.order,
            &params,
            &self.kinds,
            problems,
        );
        // Objects are whole when nothing but parameters is wrong.
        let whole = loaded && summary(problems).0 == of_parameters;
        if problems.has_errors() {
            // A mistake hides the statements after it, but not the names in them.
            self.check_names(|index| decision.order.contains(&index), &params, problems);
        }
        let own = self.own_params(&mut Problems::new());
        let schema = self.schema_of(own.as_ref().unwrap_or(&params), &params, problems);
        self.check_exported(&schema, problems);
        check_parameters(&schema, &params, problems);
        params.layers.report_unknown(
            &|path| schema.allows_key(path),
            &|path| schema.forbids_key(path),
            &params.names(),
            problems,
        );
        contention_problems(&resources, &applied.writes, &self.patches, inputs.no_contention, problems);
        let mut build = PackageBuild {
            package: self.metadata.name.clone(),
            version: self.metadata.version.clone(),
            objects: Vec::new(),
            problems: Problems::new(),
            decision,
            patches: Arc::clone(&self.patches),
            resources,
            writes: applied.writes,
            dropped: Vec::new(),
            synthesised: Vec::new(),
            kinds: self.kinds.clone(),
            digest: self.input_digest(inputs),
            params,
        };
        build.choose_objects(inputs, problems);
        // What else could be said of objects that are half made follows from the mistakes known already.
        if !problems.has_errors() {
            check::check_build(&build, inputs, problems);
        } else if whole {
            // With a wrong parameter in them, errors of objects would only repeat it.
            let mut found = Problems::new();
            check::check_build(&build, inputs, &mut found);
            problems.extend(found.into_iter().filter(|problem| problem.severity != ProblemSeverity::Error));
        }
        Ok(build)
    }

    /// Reports undefined parameters in some patches, each once: those that do not apply today would fail
    /// on the day they do.
    fn check_names(&self, chosen: impl Fn(usize) -> bool, params: &ResolvedParams, problems: &mut Problems) {
        let known: HashSet<(Arc<str>, u32, String)> = problems
            .iter()
            .filter(|problem| problem.code.as_deref() == Some("KV020"))
            .filter_map(|problem| Some((problem.at.clone()?, problem.message.clone())))
            .map(|(at, message)| (at.file, at.line, message))
            .collect();
        for (_, patch) in self.patches.iter().enumerate().filter(|(index, _)| chosen(*index)) {
            let mut found = Problems::new();
            for (path, pos) in crate::trace::patch_references(&patch.content) {
                if params.get(path).is_some() || found.len() >= MOST_UNDEFINED {
                    continue;
                }
                let at = Location::new(&*patch.file, pos.line, pos.column);
                let problem = params.undefined(path, at.clone());
                if !known.contains(&(at.file, at.line, problem.message.clone())) {
                    found.push(problem);
                }
            }
            found.add_excerpts(&patch.file, &patch.text);
            problems.extend(found);
        }
    }

    /// Sorts the problems, gives each the line it is about, and keeps the build if none is an error.
    fn finish_build(
        &self,
        build: Option<PackageBuild>,
        mut problems: Problems,
        inputs: &BuildInputs,
    ) -> Result<PackageBuild, Problems> {
        if inputs.strict {
            warnings_to_errors(&mut problems);
        }
        problems.sort_by_location();
        let mut files: Vec<Arc<str>> = problems
            .iter()
            .filter(|problem| problem.excerpt.is_none())
            .filter_map(|problem| Some(Arc::clone(&problem.at.as_ref()?.file)))
            .collect();
        files.dedup();
        for file in files {
            let values =
                inputs.values.iter().find(|values| *values.name == *file).map(|values| values.text.as_str());
            let local =
                self.local.as_ref().filter(|(name, _)| **name == *file).map(|(_, text)| text.as_str());
            let own = || std::str::from_utf8(self.files.get(&file)?).ok();
            if let Some(text) = values.or(local).or_else(own) {
                problems.add_excerpts(&file, text);
            }
        }
        match build {
            Some(mut build) if !problems.has_errors() => {
                build.problems = problems;
                Ok(build)
            }
            _ => Err(problems),
        }
    }

    fn input_digest(&self, inputs: &BuildInputs) -> String {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        hash.update(self.schema_digest());
        let mut add = |text: &str| {
            hash.update((text.len() as u64).to_be_bytes());
            hash.update(text.as_bytes());
        };
        for patch in self.patches.iter().filter(|patch| patch.origin == PatchOrigin::Local) {
            add(&patch.id);
            add(&patch.text);
        }
        if let Some((name, text)) = &self.local {
            add(name);
            add(text);
        }
        for file in &inputs.values {
            add(&file.text);
        }
        for set in &inputs.sets {
            add(&set.text);
        }
        crate::package::hex_text(&hash.finalize())
    }
}

/// Puts references in resources, value by value and never as text.
fn substitute_references(
    resources: &mut [Resource],
    params: &ResolvedParams,
    kinds: &KindTypes,
    problems: &mut Problems,
) {
    for resource in resources {
        let Some(node) = resource.node() else { continue };
        let mut found = Problems::new();
        let reading = ValueReader { file: &resource.at.file, lines: 0, columns: 0, layer: 0 };
        let mut val = reading.value(node, &mut found);
        let file = Arc::clone(&resource.at.file);
        let mut warnings = Problems::new();
        let mut realize = ValueRealizer { params, file: &file, warnings: &mut warnings };
        let ty = resource.ty(kinds);
        let label = resource.label();
        if !found.has_errors() && mark_references(&mut val) {
            match realize.value(&val, ty, &|| label.clone()) {
                Ok(value) => {
                    resource.value = Arc::new(value);
                    let id = ObjectId::of(&resource.value);
                    if id.kind == resource.id.kind && !id.name.is_empty() {
                        resource.id = id;
                    }
                }
                Err(apply::NoValue::Broken) => {}
                Err(apply::NoValue::Problem(problem)) => found.push(problem),
            }
        }
        found.extend(warnings);
        problems.extend(found);
    }
}

/// Returns true if a tree holds references; literals in it keep the type they were written with.
fn mark_references(val: &mut WrittenValue) -> bool {
    match &mut val.data {
        ValueData::Text(template) => {
            if !resources::has_references(template) {
                val.tag = Some(crate::val::ForcedType::Str);
                return template.literal().is_some_and(|text| text.contains("${"));
            }
            true
        }
        ValueData::List(items) => items.iter_mut().map(mark_references).fold(false, |any, one| any | one),
        ValueData::Map(map) => map.values_mut().map(mark_references).fold(false, |any, one| any | one),
        _ => {
            val.tag = Some(crate::val::ForcedType::Str);
            false
        }
    }
}

impl PackageBuild {
    /// Decides which objects are part of the result, their phases and their order.
    fn choose_objects(&mut self, inputs: &BuildInputs, problems: &mut Problems) {
        let namespaces = |key: &str| {
            let path = ["global", "namespaces", key].map(|key| ParamStep::Key(key.to_owned()));
            self.params.get(&ParamPath(path.to_vec()))
        };
        let create =
            namespaces("create").filter(|param| !matches!(param.data, ParamData::Null | ParamData::Broken));
        let truth = create.and_then(apply::bool_value);
        if let (Some(param), None) = (create, truth) {
            let message = format!("global.namespaces.create must be true or false, not {}", param.to_json());
            problems.push(coded_error("KV041", message).at(self.params.location(param.pos)));
        }
        let create = truth;
        let mut exclude: BTreeSet<String> = BTreeSet::new();
        match namespaces("exclude").map(|param| (param, &param.data)) {
            None | Some((_, ParamData::Null | ParamData::Broken)) => {}
            Some((_, ParamData::List(items))) => {
                for item in items {
                    match item.text() {
                        Ok((name, _)) => {
                            exclude.insert(name.into_owned());
                        }
                        Err(_) => problems.push(
                            coded_error("KV041", "global.namespaces.exclude lists names of namespaces")
                                .at(self.params.location(item.pos)),
                        ),
                    }
                }
            }
            Some((param, _)) => problems.push(
                coded_error("KV041", "global.namespaces.exclude must be a list of names")
                    .at(self.params.location(param.pos))
                    .hint("write `exclude: [NAME]`"),
            ),
        }
        let mut objects = Vec::new();
        let mut dropped = Vec::new();
        for (index, resource) in self.resources.iter().enumerate() {
            let mut id = ObjectId::of(&resource.value);
            let is_namespace = id.kind == "Namespace" && id.group.is_empty();
            let why = match &resource.enabled {
                Some((true, _)) => None,
                Some((false, at)) => Some(format!("disabled by {}:{}", at.file, at.line)),
                None if is_namespace && exclude.contains(&id.name) => {
                    Some("listed in global.namespaces.exclude".to_owned())
                }
                None if is_namespace && create == Some(false) => {
                    Some("global.namespaces.create is false".to_owned())
                }
                None => None,
            };
            if let Some(why) = why {
                dropped.push(DroppedObject { id, why });
                continue;
            }
            if !id.namespace.is_empty() && self.kinds.is_namespaced(&id.group, &id.kind) == Some(false) {
                let message = format!(
                    "{} `{}` belongs to no namespace, but names `{}`",
                    id.kind, id.name, id.namespace
                );
                let path = key_path(&["metadata", "namespace"]);
                problems.push(self.locate_problem(coded_warning("KR022", message), index, &[path]));
                id.namespace.clear();
            }
            objects.push(BuiltObject {
                phase: self.phase_of(index, resource, inputs, problems),
                value: Arc::clone(&resource.value),
                at: resource.at.clone(),
                resource: index,
                id,
            });
        }
        if create == Some(true) {
            self.synthesise_namespaces(&mut objects, &exclude);
        }
        let mut seen: HashMap<&ObjectId, &BuiltObject> = HashMap::new();
        for object in &objects {
            if let Some(first) = seen.insert(&object.id, object) {
                let loaded = |object: &BuiltObject| &self.resources[object.resource].id;
                if loaded(first) == loaded(object) {
                    // Reported when they were read.
                    continue;
                }
                let message = format!(
                    "two objects are {} after patches; the other is from {}:{}",
                    show_id(&object.id),
                    first.at.file,
                    first.at.line
                );
                let paths = [key_path(&["metadata", "name"]), key_path(&["metadata", "namespace"])];
                // The patch may have moved either of them.
                let moved = |resource: usize| self.writes.iter().any(|write| write.resource == resource);
                let which = if moved(object.resource) { object } else { first };
                let problem =
                    coded_error("KR021", message).hint("a patch renamed or moved one onto the other");
                problems.push(self.locate_problem(problem, which.resource, &paths));
            }
        }
        // Ranking looks a kind up in a list: once an object, not once a comparison.
        let mut ranked: Vec<(usize, BuiltObject)> =
            objects.into_iter().map(|object| (install_rank(&object), object)).collect();
        ranked.sort_by(|a, b| order_key(a).cmp(&order_key(b)));
        self.objects = ranked.into_iter().map(|(_, object)| object).collect();
        self.dropped = dropped;
    }

    fn phase_of(
        &self,
        index: usize,
        resource: &Resource,
        inputs: &BuildInputs,
        problems: &mut Problems,
    ) -> InstallPhase {
        match annotation(&resource.value, PHASE) {
            Some(text) => InstallPhase::parse(text).unwrap_or_else(|| {
                let message = format!("`{text}` is no install phase of {}", resource.label());
                let problem =
                    coded_error("KR036", message).hint("phases are pre-install, main and post-install");
                let path = key_path(&["metadata", "annotations", PHASE]);
                problems.push(self.locate_problem(problem, index, &[path]));
                InstallPhase::Main
            }),
            None => {
                let id = &resource.id;
                let early = matches!(
                    id.kind.as_str(),
                    "CustomResourceDefinition" | "Namespace" | "Secret" | "ServiceAccount"
                ) || id.group == "rbac.authorization.k8s.io";
                if inputs.auto_phase && early { InstallPhase::PreInstall } else { InstallPhase::Main }
            }
        }
    }

    fn synthesise_namespaces(&mut self, objects: &mut Vec<BuiltObject>, exclude: &BTreeSet<String>) {
        let existing: BTreeSet<&str> = objects
            .iter()
            .filter(|object| object.id.kind == "Namespace" && object.id.group.is_empty())
            .map(|object| object.id.name.as_str())
            .collect();
        let wanted: BTreeSet<String> = objects
            .iter()
            .map(|object| object.id.namespace.as_str())
            .filter(|name| {
                !name.is_empty()
                    && !existing.contains(name)
                    && !exclude.contains(*name)
                    && !WELL_KNOWN.contains(name)
            })
            .map(str::to_owned)
            .collect();
        let path = ParamPath(["global", "labels"].map(|key| ParamStep::Key(key.to_owned())).to_vec());
        let labels: Option<Map<String, Json>> = self.params.get(&path).and_then(|param| match &param.data {
            ParamData::Map(map) => map
                .iter()
                .map(|(key, value)| Some((key.clone(), Json::String(value.text().ok()?.0.into_owned()))))
                .collect(),
            _ => None,
        });
        for name in wanted {
            let mut metadata = Map::new();
            metadata.insert("name".to_owned(), Json::String(name.clone()));
            if let Some(labels) = labels.as_ref().filter(|labels| !labels.is_empty()) {
                metadata.insert("labels".to_owned(), Json::Object(labels.clone()));
            }
            let value = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
            let resource = Resource::from_generated(value, "generated:namespaces");
            objects.push(BuiltObject {
                id: resource.id.clone(),
                value: Arc::clone(&resource.value),
                phase: InstallPhase::PreInstall,
                at: resource.at.clone(),
                resource: self.resources.len(),
            });
            self.resources.push(resource);
            self.synthesised.push(name);
        }
    }

    /// The number of objects of each kind, in the order of the result.
    pub fn counts(&self) -> Vec<(String, usize)> {
        let mut counts: Vec<(String, usize)> = Vec::new();
        for object in &self.objects {
            match counts.iter_mut().find(|(kind, _)| *kind == object.id.kind) {
                Some((_, count)) => *count += 1,
                None => counts.push((object.id.kind.clone(), 1)),
            }
        }
        counts
    }

    /// Fields several patches wrote, with what each wrote.
    pub fn contention(&self) -> Vec<FieldContention> {
        contended_fields(&self.resources, &self.writes)
    }

    /// The patches that apply only because another one requires them, one line each.
    pub fn required_patches(&self) -> Vec<String> {
        crate::text::required_patches(self)
    }

    /// The lines of the report: stages, patches, counts, problems, summary.
    pub fn report(&self) -> Vec<String> {
        crate::text::build_report(self)
    }
}

/// Namespaces every cluster has.
pub(crate) const WELL_KNOWN: [&str; 4] = ["default", "kube-system", "kube-public", "kube-node-lease"];

/// The order kinds are installed in.
const RANKS: &[&str] = &[
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodSecurityPolicy",
    "PriorityClass",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "PodDisruptionBudget",
    "HorizontalPodAutoscaler",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "HTTPRoute",
];

fn install_rank(object: &BuiltObject) -> usize {
    let (group, _) = split_api_version(object.value["apiVersion"].as_str().unwrap_or_default());
    let built_in = !group.contains('.') || group.ends_with(".k8s.io");
    match object.id.kind.as_str() {
        "APIService" => RANKS.len() + 2,
        "MutatingWebhookConfiguration" => RANKS.len() + 3,
        "ValidatingWebhookConfiguration" => RANKS.len() + 4,
        kind if built_in => RANKS.iter().position(|known| *known == kind).unwrap_or(RANKS.len()),
        _ => RANKS.len() + 1,
    }
}

fn order_key((rank, object): &(usize, BuiltObject)) -> (InstallPhase, usize, &str, &str, &str, &str) {
    let id = &object.id;
    (object.phase, *rank, &id.group, &id.kind, &id.namespace, &id.name)
}

/// The patch, the line and the value of one write to a field.
pub type LeafWrite = (usize, u32, Json);

/// A field several patches wrote.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldContention {
    /// Index into [`PackageBuild::resources`].
    pub resource: usize,
    pub path: String,
    /// Patch, line and value of each write, in order.
    pub writes: Vec<LeafWrite>,
}

impl FieldContention {
    /// Returns true if the patches disagree.
    pub fn differs(&self) -> bool {
        self.writes.windows(2).any(|pair| pair[0].2 != pair[1].2)
    }
}

fn contended_fields(resources: &[Resource], writes: &[PatchWrite]) -> Vec<FieldContention> {
    let mut leaves: BTreeMap<(usize, String), Vec<LeafWrite>> = BTreeMap::new();
    // Objects only one patch touched need no closer look.
    let mut touched: Vec<Option<usize>> = vec![None; resources.len()];
    let mut shared: Vec<bool> = vec![false; resources.len()];
    for write in writes {
        match touched[write.resource] {
            None => touched[write.resource] = Some(write.patch),
            Some(patch) if patch != write.patch => shared[write.resource] = true,
            Some(_) => {}
        }
    }
    for write in writes.iter().filter(|write| shared[write.resource] && write.kind != WriteKind::Insert) {
        let base = show_segs(&write.path);
        match &write.new {
            None => leaves.entry((write.resource, base)).or_default().push((
                write.patch,
                write.pos.line,
                Json::Null,
            )),
            Some(value) => visit_leaves(base, value, &mut |path, value| {
                leaves.entry((write.resource, path)).or_default().push((
                    write.patch,
                    write.pos.line,
                    value.clone(),
                ));
            }),
        }
    }
    leaves
        .into_iter()
        .filter(|(_, writes)| writes.iter().any(|write| write.0 != writes[0].0))
        .map(|((resource, path), writes)| FieldContention { resource, path, writes })
        .collect()
}

fn visit_leaves(path: String, value: &Json, visit: &mut dyn FnMut(String, &Json)) {
    match value {
        Json::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let below = if key.contains(['.', '[', ' ']) {
                    format!("{path}[{key:?}]")
                } else {
                    format!("{path}.{key}")
                };
                visit_leaves(below, value, visit);
            }
        }
        other => visit(path, other),
    }
}

fn contention_problems(
    resources: &[Resource],
    writes: &[PatchWrite],
    patches: &[crate::patches::Patch],
    refuse: bool,
    problems: &mut Problems,
) {
    if !refuse {
        return;
    }
    for found in contended_fields(resources, writes).into_iter().filter(FieldContention::differs) {
        let who: Vec<String> = found
            .writes
            .iter()
            .map(|(patch, line, value)| format!("{}:{line} sets {value}", patches[*patch].file))
            .collect();
        let message = format!(
            "patches disagree on {} of {}: {}",
            found.path,
            show_id(&resources[found.resource].id),
            who.join(", ")
        );
        let (patch, line, _) = &found.writes[found.writes.len() - 1];
        problems.push(coded_error("KX060", message).at(Location::new(&*patches[*patch].file, *line, 1)));
    }
}

/// Counts errors and warnings.
pub fn summary(problems: &Problems) -> (usize, usize) {
    let count = |severity: ProblemSeverity| {
        problems.iter().filter(|problem: &&Problem| problem.severity == severity).count()
    };
    (count(ProblemSeverity::Error), count(ProblemSeverity::Warning))
}

/// The state of a patch in words, for tables.
pub(crate) fn state_word(state: &PatchState) -> &'static str {
    state.mark().0
}
