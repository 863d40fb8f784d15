//! Checks of the installation: the cluster, the definitions, the controller, agents.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use slipway_cluster::election::read_lease;
use slipway_cluster::{Error, ListOptions, RetryPolicy};
use slipway_http::{HttpRequest, Method, parse_url};
use slipway_kro::ApiGroup;
use slipway_manifest::{Gvk, ObjectRef};
use slipway_promotion::agents::{OFFLINE_AFTER, lease_name, shard_of};
use slipway_promotion::audit::{list_events, verify_chain};
use slipway_promotion::kinds::{self, PipelineSpec, PromotionStepSpec};

use super::{DoctorServices, Fault, Finding, FindingLevel};
use crate::settings::{API_SECRET, LEASE};

/// The time the API is given to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Tells whether the cluster answers.
pub(super) async fn cluster(services: &DoctorServices, findings: &mut Vec<Finding>) -> bool {
    let hasty = RetryPolicy { attempts: 1, patience: Duration::from_secs(2), ..RetryPolicy::default() };
    match services.cluster.clone().with_retry(hasty).ask_version().await {
        Ok(_) => {
            findings.push(Finding::good("cluster", "answers"));
            true
        }
        Err(error) => {
            findings.push(Finding::fault(
                FindingLevel::Broken,
                Fault::ClusterUnreachable,
                "cluster",
                format!("does not answer: {}", error.message),
                "check --kubeconfig and --context",
            ));
            false
        }
    }
}

async fn definition(services: &DoctorServices, name: &str) -> Result<Option<Value>, Error> {
    let gvk = Gvk::new("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    services.cluster.get(&ObjectRef::new(gvk, None, name)).await
}

/// Tells whether the cluster has every kind, as this version knows it. Returns true if all are there.
pub(super) async fn definitions(services: &DoctorServices, findings: &mut Vec<Finding>) -> bool {
    let mut is_complete = true;
    let ours = kinds::definitions();
    let count = ours.len();
    let mut wrong = 0;
    for wanted in ours {
        let name = wanted["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let subject = format!("CustomResourceDefinition/{name}");
        match definition(services, &name).await {
            Ok(Some(found)) if serves_fields_of(&found, &wanted) => continue,
            Ok(Some(_)) => findings.push(Finding::fault(
                FindingLevel::Warning,
                Fault::DefinitionOutdated,
                subject,
                "is of another version: fields of this version are dropped",
                "`slipway controller install` upgrades the definitions",
            )),
            Ok(None) => {
                is_complete = false;
                findings.push(Finding::fault(
                    FindingLevel::Broken,
                    Fault::DefinitionMissing,
                    subject,
                    "does not exist",
                    "`slipway controller install` installs the definitions",
                ));
            }
            Err(error) => findings.push(Finding::fault(
                FindingLevel::Warning,
                Fault::DefinitionMissing,
                subject,
                format!("cannot be read: {}", error.message),
                "somebody who may read definitions has to run this",
            )),
        }
        wrong += 1;
    }
    if wrong == 0 {
        findings.push(Finding::good("definitions", format!("{count} kinds are served")));
    }
    let mut served = Vec::new();
    for group in ApiGroup::ALL {
        if matches!(services.cluster.find_kind(&group.graph()).await, Ok(Some(_))) {
            served.push(group.name());
        }
    }
    if served.is_empty() {
        findings.push(Finding::fault(
            FindingLevel::Broken,
            Fault::GraphsMissing,
            "Graphs",
            "the cluster serves none: no bundle gets anywhere",
            "install with `graph.installCRDs=true`",
        ));
    } else {
        findings.push(Finding::good("Graphs", format!("are served under {}", served.join(" and "))));
    }
    is_complete
}

/// Tells whether a definition knows every field of ours.
fn serves_fields_of(found: &Value, wanted: &Value) -> bool {
    let schema = |definition: &Value| {
        let versions = definition["spec"]["versions"].as_array().cloned().unwrap_or_default();
        let version = versions.into_iter().find(|version| version["served"] == true);
        version.map(|version| version["schema"]["openAPIV3Schema"].clone()).unwrap_or_default()
    };
    let (mut known, mut needed) = (BTreeSet::new(), BTreeSet::new());
    collect_fields(&schema(found), String::new(), &mut known);
    collect_fields(&schema(wanted), String::new(), &mut needed);
    needed.is_subset(&known)
}

fn collect_fields(schema: &Value, path: String, fields: &mut BTreeSet<String>) {
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        collect_fields(inner, path.clone(), fields);
        fields.insert(path);
    }
    for part in ["items", "additionalProperties"] {
        if schema[part].is_object() {
            collect_fields(&schema[part], format!("{path}[]"), fields);
        }
    }
}

/// Looks at the controller and what it reads.
pub(super) async fn installation(services: &DoctorServices, findings: &mut Vec<Finding>) {
    let now = services.clock.now();
    let (cluster, namespace) = (&services.cluster, services.namespace.as_str());
    let lease = read_lease(cluster, namespace, LEASE).await.ok().flatten();
    let heard = lease.as_ref().and_then(|lease| lease.renewed_at);
    let is_alive = lease.as_ref().is_some_and(|lease| !lease.holder.is_empty())
        && heard.is_some_and(|heard| now.duration_since(heard) < OFFLINE_AFTER);
    if is_alive {
        let holder = lease.map(|lease| lease.holder).unwrap_or_default();
        findings.push(Finding::good("controller", format!("{holder} leads")));
    } else {
        findings.push(Finding::fault(
            FindingLevel::Broken,
            Fault::ControllerNotRunning,
            "controller",
            format!("nobody holds the lease {namespace}/{LEASE}: nothing is promoted"),
            "`slipway controller install`, or `slipway controller run` for a try; -n names its namespace",
        ));
    }
    for name in &services.steps.promotion.policy_namespaces {
        if matches!(cluster.get(&ObjectRef::core("Namespace", None, name)).await, Ok(None)) {
            findings.push(Finding::fault(
                FindingLevel::Warning,
                Fault::PolicyNamespaceMissing,
                format!("Namespace/{name}"),
                "does not exist: no gate binds every pipeline",
                "create it, or name another with --policy-namespace",
            ));
        }
    }
    let secret = cluster.get(&ObjectRef::core("Secret", Some(namespace), API_SECRET)).await;
    let has = |secret: &Value, key: &str| secret["data"][key].as_str().is_some_and(|text| !text.is_empty());
    match secret {
        Ok(Some(secret)) if has(&secret, "token") || has(&secret, "tokens.yaml") => {
            findings.push(Finding::good("API", "has tokens"));
        }
        Ok(_) => findings.push(Finding::fault(
            FindingLevel::Warning,
            Fault::ApiTokensMissing,
            format!("Secret {namespace}/{API_SECRET}"),
            "has no token: builds cannot create bundles over HTTP",
            "create it with `tokens.yaml`, a list of `{name, sha256, allow}`",
        )),
        Err(_) => {}
    }
    let policies = Gvk::new("admissionregistration.k8s.io", "v1", "ValidatingAdmissionPolicy");
    if let Ok(Some(kind)) = cluster.find_kind(&policies).await
        && let Ok(all) = cluster.list(&kind, None, &ListOptions::default()).await
    {
        let guards = |policy: &&Value| {
            let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array();
            rules.into_iter().flatten().any(|rule| {
                rule["resources"].as_array().into_iter().flatten().any(|one| one == "promotionsteps")
            })
        };
        if !all.items.iter().any(|policy| guards(&policy)) {
            findings.push(Finding::fault(
                FindingLevel::Warning,
                Fault::AdmissionPoliciesMissing,
                "admission policies",
                "nothing keeps people from writing promotion steps themselves",
                "install with `validatingAdmissionPolicy.enabled=true`",
            ));
        }
    }
}

/// Looks at the agents steps wait for.
pub(super) async fn agents(services: &DoctorServices, findings: &mut Vec<Finding>) {
    let now = services.clock.now();
    let mut shards = BTreeSet::new();
    let all = ListOptions::default();
    if let Ok(pipelines) = kinds::list::<PipelineSpec>(&services.cluster, None, &all).await {
        let named = pipelines.iter().flat_map(|pipeline| &pipeline.spec.environments);
        shards.extend(named.filter_map(|environment| environment.shard.clone()));
    }
    if let Ok(steps) = kinds::list::<PromotionStepSpec>(&services.cluster, None, &all).await {
        let waiting = steps.iter().filter(|step| !step.state().is_terminal());
        shards.extend(waiting.filter_map(shard_of).map(str::to_owned));
    }
    for shard in shards.into_iter().filter(|shard| !shard.is_empty()) {
        let lease =
            read_lease(&services.cluster, &services.namespace, &lease_name(&shard)).await.ok().flatten();
        let heard = lease.filter(|lease| !lease.holder.is_empty()).and_then(|lease| lease.renewed_at);
        let subject = format!("agent {shard}");
        if heard.is_some_and(|heard| now.duration_since(heard) <= OFFLINE_AFTER) {
            findings.push(Finding::good(subject, "sends heartbeats"));
            continue;
        }
        let since =
            heard.map_or_else(|| "was never heard of".to_owned(), |at| format!("was last heard of at {at}"));
        findings.push(Finding::fault(
            FindingLevel::Broken,
            Fault::AgentOffline,
            subject,
            format!("{since}: steps of its environments wait"),
            "start `slipway agent --shard` in its cluster, and look at its log",
        ));
    }
}

/// Holds the audit trail against its hashes.
pub(super) async fn audit(services: &DoctorServices, findings: &mut Vec<Finding>) {
    let Ok(events) = list_events(&services.cluster, None, None).await else { return };
    for report in verify_chain(&events).into_iter().filter(|report| !report.faults.is_empty()) {
        findings.push(Finding::fault(
            FindingLevel::Broken,
            Fault::AuditChainBroken,
            format!("audit trail of {}/{}", report.namespace, report.pipeline),
            report.faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "),
            "`slipway audit verify` shows every entry that does not fit",
        ));
    }
}

/// Asks the API as servers of pull requests would.
pub(super) async fn webhook(services: &DoctorServices, findings: &mut Vec<Finding>) {
    let Some(address) = &services.api_url else { return };
    let url = format!("{}/webhook/scm/health", address.trim_end_matches('/'));
    let asked = async {
        let request = HttpRequest::new(Method::GET, parse_url(&url).map_err(|error| error.to_string())?);
        let answer = services.http.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status_code();
        if status.is_success() { Ok(()) } else { Err(format!("answers with {status}")) }
    };
    let answered = tokio::time::timeout(ANSWER_LIMIT, asked).await;
    match answered.unwrap_or_else(|_| Err("does not answer".to_owned())) {
        Ok(()) => findings.push(Finding::good("webhooks", format!("{address} answers"))),
        Err(why) => findings.push(Finding::fault(
            FindingLevel::Broken,
            Fault::WebhookUnreachable,
            "webhooks",
            format!("{address}: {why}: merges are noticed by polling only, minutes later"),
            "check the ingress, its certificate and the network policy",
        )),
    }
}
