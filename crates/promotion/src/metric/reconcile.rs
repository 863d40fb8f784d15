//! Keeps the results of metric checks up to date.

use std::collections::BTreeMap;
use std::sync::Arc;

use data_encoding::BASE64;
use jiff::Timestamp;
use slipway_cluster::{Cluster, ListOptions};
use slipway_event::Clock;
use slipway_http::Login;
use slipway_manifest::{Gvk, ObjectRef};

use super::judge::{MetricConditions, judge_answer};
use super::prometheus::{PrometheusLogin, query_prometheus};
use super::query::{QueryNames, is_templated, render_query};
use super::result_key;
use crate::bundle::compare_age;
use crate::kinds::{
    Bundle, BundleSpec, ConditionStatus, KindError, MetricCheck, MetricCheckSpec, MetricResultStatus,
    NewCondition, PolicyGate, PolicyGateSpec, SecretRef, get, labels, list, patch_status, set_condition,
};
use crate::{OutboundClients, Requeue};

/// The shortest interval that is honoured.
const SHORTEST: std::time::Duration = std::time::Duration::from_secs(10);

/// Asks for measurements and keeps their results.
pub struct MetricReconciler {
    cluster: Cluster,
    clock: Arc<dyn Clock>,
    outbound: OutboundClients,
}

/// A promotion a query is asked for.
struct MetricTarget {
    key: String,
    names: QueryNames,
}

impl MetricReconciler {
    pub fn new(cluster: Cluster, clock: Arc<dyn Clock>, outbound: OutboundClients) -> Self {
        Self { cluster, clock, outbound }
    }

    /// Brings a check up to date: asks where its interval has passed.
    pub async fn reconcile(&self, at: &ObjectRef) -> Result<Requeue, KindError> {
        let namespace = at.namespace.as_deref().unwrap_or_default();
        let Some(check) = get::<MetricCheckSpec>(&self.cluster, namespace, &at.name).await? else {
            return Ok(Requeue::Done);
        };
        if check.metadata.is_being_deleted() {
            return Ok(Requeue::Done);
        }
        let now = self.clock.now();
        let mut status = check.status.clone();
        let generation = check.metadata.generation;
        status.observed_generation = Some(generation);
        let conditions = match MetricConditions::parse(&check.spec) {
            Ok(conditions) => conditions,
            Err(errors) => {
                let message = errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
                set_usable(&mut status.conditions, Err(("InvalidCondition", message)), generation, now);
                patch_status(&self.cluster, &check, &status).await?;
                return Ok(Requeue::Done);
            }
        };
        let login = match self.login(&check).await? {
            Ok(login) => login,
            Err(why) => {
                set_usable(&mut status.conditions, Err(("NoSecret", why)), generation, now);
                patch_status(&self.cluster, &check, &status).await?;
                return Ok(Requeue::after(now, check.spec.interval.0.max(SHORTEST)));
            }
        };
        set_usable(&mut status.conditions, Ok(()), generation, now);
        let mut next = Requeue::Done;
        if is_templated(&check.spec.query) {
            let targets = self.targets(&check).await?;
            status.results.retain(|key, _| targets.iter().any(|target| target.key == *key));
            for target in targets {
                let before = status.results.get(&target.key).cloned().unwrap_or_default();
                let after =
                    self.measure(&check, &conditions, login.as_ref(), &target.names, before, now).await;
                next = next.or_sooner(due(&check, &after));
                status.results.insert(target.key, after);
            }
        } else {
            let before = std::mem::take(&mut status.latest);
            let names = QueryNames::default();
            status.latest = self.measure(&check, &conditions, login.as_ref(), &names, before, now).await;
            next = due(&check, &status.latest);
        }
        patch_status(&self.cluster, &check, &status).await?;
        Ok(next)
    }

    /// Asks if it is time to.
    async fn measure(
        &self,
        check: &MetricCheck,
        conditions: &MetricConditions,
        login: Option<&PrometheusLogin>,
        names: &QueryNames,
        before: MetricResultStatus,
        now: Timestamp,
    ) -> MetricResultStatus {
        let is_current = check.status.observed_generation == Some(check.metadata.generation);
        if let Requeue::At(at) = due(check, &before)
            && is_current
            && before.last_evaluated_at.is_some_and(|last| last <= now)
            && now < at
        {
            return before;
        }
        let answer = match render_query(&check.spec.query, names) {
            Ok(query) => query_prometheus(&self.outbound, &check.spec.provider.address, login, &query)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        judge_answer(&check.spec, conditions, answer, &before, now)
    }

    /// The promotions whose gates may read the check, each with its newest bundle.
    async fn targets(&self, check: &MetricCheck) -> Result<Vec<MetricTarget>, KindError> {
        let instances = ListOptions::with_labels(format!("{}=true", labels::INSTANCE));
        let gates = list::<PolicyGateSpec>(&self.cluster, None, &instances).await?;
        let mut newest: BTreeMap<String, (Bundle, QueryNames)> = BTreeMap::new();
        for gate in gates.iter().filter(|gate| may_read(gate, check)) {
            let Some((namespace, bundle, pipeline, environment)) = place(gate) else { continue };
            let Some(bundle) = get::<BundleSpec>(&self.cluster, namespace, bundle).await? else { continue };
            if bundle.phase().is_terminal() {
                continue;
            }
            let key = result_key(namespace, pipeline, environment);
            let newer = |known: &(Bundle, QueryNames)| compare_age(&known.0, &bundle).is_lt();
            if newest.get(&key).is_none_or(newer) {
                let names = QueryNames {
                    pipeline: pipeline.to_owned(),
                    environment: environment.to_owned(),
                    bundle: bundle.name().to_owned(),
                    version: bundle.spec.version(),
                    namespace: namespace.to_owned(),
                };
                newest.insert(key, (bundle, names));
            }
        }
        Ok(newest.into_iter().map(|(key, (_, names))| MetricTarget { key, names }).collect())
    }

    /// The credentials of a check, from a Secret of its namespace.
    async fn login(&self, check: &MetricCheck) -> Result<Result<Option<PrometheusLogin>, String>, KindError> {
        let Some(SecretRef { name, namespace }) = &check.spec.provider.secret_ref else {
            return Ok(Ok(None));
        };
        if namespace.as_deref().is_some_and(|namespace| namespace != check.namespace()) {
            return Ok(Err("the Secret must be in the namespace of the check".to_owned()));
        }
        let at = ObjectRef::new(Gvk::new("", "v1", "Secret"), Some(check.namespace()), name);
        let Some(secret) = self.cluster.get(&at).await? else {
            return Ok(Err(format!("Secret {name} does not exist")));
        };
        let key = |key: &str| {
            let bytes = BASE64.decode(secret["data"][key].as_str()?.as_bytes()).ok()?;
            Some(String::from_utf8(bytes).ok()?.trim().to_owned()).filter(|text| !text.is_empty())
        };
        if let Some(token) = key("token") {
            return Ok(Ok(Some(PrometheusLogin::Token(token))));
        }
        Ok(match (key("username"), key("password")) {
            (Some(username), Some(password)) => Ok(Some(PrometheusLogin::User(Login { username, password }))),
            _ => Err(format!("Secret {name} has neither `token` nor `username` and `password`")),
        })
    }
}

/// The moment a result is to be renewed.
fn due(check: &MetricCheck, result: &MetricResultStatus) -> Requeue {
    let interval = check.spec.interval.0.max(SHORTEST);
    result.last_evaluated_at.map_or(Requeue::Done, |last| Requeue::after(last, interval))
}

fn set_usable(
    conditions: &mut Vec<crate::kinds::Condition>,
    usable: Result<(), (&'static str, String)>,
    generation: i64,
    now: Timestamp,
) {
    let (status, reason, message) = match usable {
        Ok(()) => (ConditionStatus::True, "Usable", String::new()),
        Err((reason, message)) => (ConditionStatus::False, reason, message),
    };
    let new = NewCondition { kind: "Ready", status, reason, message, observed_generation: generation };
    set_condition(conditions, new, now);
}

/// Namespace and name of the bundle, pipeline and environment of a gate.
fn place(gate: &PolicyGate) -> Option<(&str, &str, &str, &str)> {
    let spec = &gate.spec;
    Some((
        spec.bundle_namespace.as_deref().unwrap_or(gate.namespace()),
        spec.bundle_ref.as_deref()?,
        spec.pipeline.as_deref()?,
        spec.environment.as_deref()?,
    ))
}

fn may_read(gate: &PolicyGate, check: &MetricCheck) -> bool {
    let Some((namespace, _, pipeline, environment)) = place(gate) else { return false };
    let template =
        gate.spec.template_ref.as_ref().map_or(gate.namespace(), |template| template.namespace.as_str());
    let is = |wanted: &Option<String>, found: &str| wanted.as_deref().is_none_or(|wanted| wanted == found);
    let refs = &gate.spec.metric_refs;
    [namespace, template].contains(&check.namespace())
        && (refs.is_empty() || refs.iter().any(|name| name == check.name()))
        && is(&check.spec.pipeline, pipeline)
        && is(&check.spec.environment, environment)
        && gate.spec.expression.contains("metric")
}
