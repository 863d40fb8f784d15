//! Who is looked at again when an object changes: objects announce topics and follow topics.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::kinds::{
    self, Bundle, BundlePhase, BundleSpec, BundleType, GateRef, KindSpec, MetricCheckSpec, PipelineSpec,
    PolicyGate, PolicyGateSpec, PromotionContractSpec, PromotionStep, PromotionStepSpec, labels,
};

/// An object a reconciler looks at.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct WorkKey {
    pub(super) kind: WorkKind,
    /// Empty for objects of the whole cluster.
    pub(super) namespace: String,
    pub(super) name: String,
}

/// The kinds that have a reconciler, or whose changes matter to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum WorkKind {
    Pipeline,
    Bundle,
    Step,
    Gate,
    Metric,
    Window,
    Subscription,
    Contract,
    /// Groups of pipelines, which their bundles follow.
    Group,
    Hook,
    /// Entries of the audit trail, which hooks tell of.
    Audit,
    Graph,
    /// The drift of a pipeline's environments.
    Drift,
    /// Pull requests of a pipeline whose steps are gone.
    Orphans,
}

impl WorkKey {
    pub(super) fn new(kind: WorkKind, namespace: &str, name: &str) -> Self {
        Self { kind, namespace: namespace.to_owned(), name: name.to_owned() }
    }
}

/// Something that may change.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Topic {
    Object(WorkKey),
    /// The Graph, steps and gates of a Bundle.
    BundleParts(String, String),
    /// The Bundles of a pipeline.
    PipelineBundles(String, String),
    /// The steps into an environment of a pipeline.
    Environment(String, String, String),
    /// Gates that hold the pipelines of a namespace.
    Freezes(String),
    /// Metric checks of a namespace.
    Metrics(String),
    /// New gates that read metric checks of a namespace.
    MetricReaders(String),
    /// All change windows.
    Windows,
    /// The members of a group's bundle.
    Members(String, String),
    /// The audit trail of a namespace.
    Trail(String),
}

/// What one object announces when it changes, and what wakes it.
#[derive(Debug, Default)]
struct Interests {
    announces: Vec<Topic>,
    follows: Vec<Topic>,
}

/// Who follows which topic.
#[derive(Debug, Default)]
pub(super) struct Topics {
    objects: HashMap<WorkKey, Interests>,
    followers: BTreeMap<Topic, BTreeSet<WorkKey>>,
}

impl Topics {
    /// Notes an object as it is now; returns everybody to look at.
    pub(super) fn changed(&mut self, key: &WorkKey, object: &Value) -> BTreeSet<WorkKey> {
        let interests = interests_of(key, object);
        // What an object no longer announces has changed as well: a gate that is no freeze any more.
        let mut affected = self.remove(key);
        for topic in &interests.follows {
            self.followers.entry(topic.clone()).or_default().insert(key.clone());
        }
        affected.extend(self.followers_of(&interests.announces));
        self.objects.insert(key.clone(), interests);
        affected.extend(self.followers_of(&[Topic::Object(key.clone())]));
        affected.insert(key.clone());
        affected
    }

    /// Forgets an object that is gone; returns everybody to look at.
    pub(super) fn deleted(&mut self, key: &WorkKey) -> BTreeSet<WorkKey> {
        let mut affected = self.remove(key);
        affected.extend(self.followers_of(&[Topic::Object(key.clone())]));
        affected.insert(key.clone());
        affected
    }

    /// The objects of a kind that are known.
    pub(super) fn keys(&self, kind: WorkKind) -> BTreeSet<WorkKey> {
        self.objects.keys().filter(|key| key.kind == kind).cloned().collect()
    }

    fn remove(&mut self, key: &WorkKey) -> BTreeSet<WorkKey> {
        let Some(interests) = self.objects.remove(key) else { return BTreeSet::new() };
        for topic in &interests.follows {
            if let Some(followers) = self.followers.get_mut(topic) {
                followers.remove(key);
                if followers.is_empty() {
                    self.followers.remove(topic);
                }
            }
        }
        self.followers_of(&interests.announces)
    }

    fn followers_of(&self, topics: &[Topic]) -> BTreeSet<WorkKey> {
        topics.iter().filter_map(|topic| self.followers.get(topic)).flatten().cloned().collect()
    }
}

fn interests_of(key: &WorkKey, object: &Value) -> Interests {
    let found = match key.kind {
        WorkKind::Pipeline => Some(pipeline_interests(key)),
        WorkKind::Bundle => parse::<BundleSpec>(object).map(|bundle| bundle_interests(key, &bundle)),
        WorkKind::Step => parse::<PromotionStepSpec>(object).map(|step| step_interests(key, &step)),
        WorkKind::Gate => parse::<PolicyGateSpec>(object).map(|gate| gate_interests(key, &gate)),
        WorkKind::Metric => parse::<MetricCheckSpec>(object).map(|_| Interests {
            announces: vec![Topic::Metrics(key.namespace.clone())],
            follows: vec![Topic::MetricReaders(key.namespace.clone())],
        }),
        WorkKind::Window => Some(Interests { announces: vec![Topic::Windows], follows: Vec::new() }),
        WorkKind::Subscription => None,
        WorkKind::Group => Some(Interests::default()),
        WorkKind::Contract => parse::<PromotionContractSpec>(object).map(|contract| Interests {
            announces: Vec::new(),
            follows: provider_topic(&contract.provider_key()).into_iter().collect(),
        }),
        WorkKind::Hook => {
            Some(Interests { announces: Vec::new(), follows: vec![Topic::Trail(key.namespace.clone())] })
        }
        WorkKind::Audit => {
            Some(Interests { announces: vec![Topic::Trail(key.namespace.clone())], follows: Vec::new() })
        }
        WorkKind::Graph => Some(graph_interests(key, object)),
        // Kept by the controller itself: there are no such objects.
        WorkKind::Drift | WorkKind::Orphans => None,
    };
    found.unwrap_or_default()
}

fn parse<S: KindSpec>(object: &Value) -> Option<kinds::Resource<S>> {
    kinds::parse(object.clone()).ok()
}

fn pipeline_interests(key: &WorkKey) -> Interests {
    Interests {
        announces: Vec::new(),
        follows: vec![
            Topic::PipelineBundles(key.namespace.clone(), key.name.clone()),
            Topic::Freezes(key.namespace.clone()),
        ],
    }
}

/// The bundles of the pipeline a contract names, as `namespace/pipeline/environment`.
fn provider_topic(name: &str) -> Option<Topic> {
    let mut parts = name.split('/');
    let (namespace, pipeline) = (parts.next()?, parts.next()?);
    Some(Topic::PipelineBundles(namespace.to_owned(), pipeline.to_owned()))
}

/// The names of contracts in an expression: the texts that index `contracts`.
fn contract_names(expression: &str) -> impl Iterator<Item = &str> {
    expression.split("contracts[").skip(1).filter_map(|rest| {
        let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
        rest[1..].split(quote).next()
    })
}

/// The bundle of a group follows its group and its members, and wakes whoever follows the members.
fn group_interests(key: &WorkKey, bundle: &Bundle) -> Interests {
    let group = bundle.spec.group.as_deref().unwrap_or_default();
    let member = |status: &kinds::GroupMemberStatus| {
        Topic::Object(WorkKey::new(WorkKind::Bundle, &status.namespace, &status.bundle))
    };
    Interests {
        announces: bundle.status.members.values().map(member).collect(),
        follows: vec![
            Topic::Object(WorkKey::new(WorkKind::Group, &key.namespace, group)),
            Topic::Members(key.namespace.clone(), key.name.clone()),
        ],
    }
}

fn bundle_interests(key: &WorkKey, bundle: &Bundle) -> Interests {
    if bundle.spec.kind == BundleType::Group {
        return group_interests(key, bundle);
    }
    let Some(pipeline) = bundle.pipeline() else { return Interests::default() };
    let namespace = key.namespace.clone();
    let siblings = Topic::PipelineBundles(namespace.clone(), pipeline.to_owned());
    let of_pipeline = Topic::Object(WorkKey::new(WorkKind::Pipeline, &namespace, pipeline));
    let parts = Topic::BundleParts(namespace, key.name.clone());
    let follows = match bundle.phase() {
        BundlePhase::Available | BundlePhase::Promoting => vec![of_pipeline, siblings.clone(), parts],
        // A step of a bundle that failed may begin anew.
        BundlePhase::Superseded | BundlePhase::Failed => vec![of_pipeline, parts],
        BundlePhase::Verified | BundlePhase::SkipDenied => vec![of_pipeline],
    };
    let mut announces = vec![siblings];
    if let Some((namespace, name)) =
        bundle.metadata.annotation(labels::GROUP_BUNDLE).and_then(|group| group.split_once('/'))
    {
        announces.push(Topic::Members(namespace.to_owned(), name.to_owned()));
    }
    Interests { announces, follows }
}

fn step_interests(key: &WorkKey, step: &PromotionStep) -> Interests {
    let (namespace, spec) = (&key.namespace, &step.spec);
    let environment = Topic::Environment(namespace.clone(), spec.pipeline.clone(), spec.environment.clone());
    let parts = Topic::BundleParts(namespace.clone(), spec.bundle_ref.clone());
    let mut follows = vec![Topic::Object(WorkKey::new(WorkKind::Bundle, namespace, &spec.bundle_ref))];
    if !step.state().is_terminal() {
        follows.extend([environment.clone(), Topic::Freezes(namespace.clone())]);
        follows.extend(spec.required_gates.iter().map(|entry| {
            let gate = GateRef::parse(entry, namespace);
            Topic::Object(WorkKey::new(WorkKind::Gate, &gate.namespace, &gate.name))
        }));
    }
    Interests { announces: vec![environment, parts], follows }
}

fn gate_interests(key: &WorkKey, gate: &PolicyGate) -> Interests {
    if !gate.is_instance() {
        let freezes = gate.metadata.label(labels::FREEZE) == Some("true");
        let announces = freezes.then(|| Topic::Freezes(key.namespace.clone())).into_iter().collect();
        return Interests { announces, follows: Vec::new() };
    }
    let namespace = gate.bundle_namespace().to_owned();
    let bundle = gate.spec.bundle_ref.clone().unwrap_or_default();
    let mut follows = vec![
        Topic::Object(WorkKey::new(WorkKind::Bundle, &namespace, &bundle)),
        Topic::Freezes(namespace.clone()),
        Topic::Metrics(namespace.clone()),
        Topic::Windows,
    ];
    if let (Some(pipeline), Some(environment)) = (&gate.spec.pipeline, &gate.spec.environment) {
        follows.push(Topic::Environment(namespace.clone(), pipeline.clone(), environment.clone()));
    }
    follows.extend(contract_names(&gate.spec.expression).filter_map(provider_topic));
    let mut readers = vec![namespace.clone()];
    if let Some(template) = &gate.spec.template_ref {
        follows.push(Topic::Object(WorkKey::new(WorkKind::Gate, &template.namespace, &template.name)));
        if template.namespace != namespace {
            follows.push(Topic::Metrics(template.namespace.clone()));
            readers.push(template.namespace.clone());
        }
    }
    // A check with a template measures for the promotions there are: a new one is not known to it yet.
    let is_new = gate.status.last_evaluated_at.is_none() && gate.spec.expression.contains("metric");
    let announces = if is_new { readers.into_iter().map(Topic::MetricReaders).collect() } else { Vec::new() };
    Interests { announces, follows }
}

fn graph_interests(key: &WorkKey, graph: &Value) -> Interests {
    let owners = graph["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    let bundles =
        owners.filter(|owner| owner["kind"] == BundleSpec::KIND).filter_map(|owner| owner["name"].as_str());
    let announces = bundles.map(|name| Topic::BundleParts(key.namespace.clone(), name.to_owned())).collect();
    Interests { announces, follows: Vec::new() }
}

/// The kinds that are watched, with what they are to the controller.
pub(super) fn watched_kinds() -> Vec<(WorkKind, slipway_manifest::Gvk)> {
    vec![
        (WorkKind::Pipeline, PipelineSpec::gvk()),
        (WorkKind::Bundle, BundleSpec::gvk()),
        (WorkKind::Step, PromotionStepSpec::gvk()),
        (WorkKind::Gate, PolicyGateSpec::gvk()),
        (WorkKind::Metric, MetricCheckSpec::gvk()),
        (WorkKind::Window, kinds::ChangeWindowSpec::gvk()),
        (WorkKind::Subscription, kinds::SubscriptionSpec::gvk()),
        (WorkKind::Contract, PromotionContractSpec::gvk()),
        (WorkKind::Group, kinds::PipelineGroupSpec::gvk()),
        (WorkKind::Hook, kinds::NotificationHookSpec::gvk()),
        (WorkKind::Audit, kinds::AuditEventSpec::gvk()),
    ]
}
