//! `/api/v1/bundles`: creating bundles, reading them, and waiting for them.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_promotion::kinds::{
    self, Bundle, BundlePhase, BundleSpec, KindError, Metadata, Pipeline, PipelineSpec, StepState, labels,
};

use super::access::ApiCaller;
use super::form::{BundleRequest, is_name, parse_request};
use super::reply::{FieldProblem, Refusal, Reply, json_reply};
use super::{ApiServer, QueryValues};

/// The largest body.
pub(super) const LARGEST: usize = 1 << 20;
/// The time within which the same request with the same name is answered with the bundle it made.
const SAME_REQUEST: SignedDuration = SignedDuration::from_secs(600);
/// The longest time a caller waits for a bundle.
const LONGEST_WAIT: Duration = Duration::from_secs(600);
/// Annotation: a hash of the request a bundle was made of.
const REQUEST_HASH: &str = "kardinal.io/request-hash";
/// Annotation: the token a bundle was asked for with.
const REQUESTED_BY: &str = "kardinal.io/requested-by";

impl ApiServer {
    /// Creates a bundle, or answers with the one this request has made before.
    pub(super) async fn create_bundle(
        &self,
        caller: &ApiCaller,
        headers: &HeaderMap,
        body: &[u8],
    ) -> Result<Reply, Refusal> {
        let now = self.clock.now();
        caller.check_body(headers, body, now)?;
        let is_json =
            headers.get(http::header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
                kind.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case("application/json")
            });
        if !is_json {
            let message = "the body must be application/json";
            return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported", message));
        }
        let request = parse_request(body, &self.bundle_namespace).map_err(Refusal::invalid)?;
        caller.check(&request.namespace, &request.pipeline)?;
        self.rate.admit(&request.namespace, &request.pipeline, now).map_err(|wait| {
            let seconds = u64::try_from(wait.as_millis().max(1)).unwrap_or(1).div_ceil(1000);
            let message = format!("more than 100 requests a minute for pipeline {}", request.pipeline);
            Refusal {
                retry_after: Some(seconds),
                ..Refusal::new(StatusCode::TOO_MANY_REQUESTS, "rate-limited", message)
            }
        })?;
        let pipeline = kinds::get::<PipelineSpec>(&self.cluster, &request.namespace, &request.pipeline).await;
        let pipeline = pipeline.map_err(unreadable)?.ok_or_else(|| {
            let message = format!("there is no pipeline {}/{}", request.namespace, request.pipeline);
            Refusal::new(StatusCode::NOT_FOUND, "not-found", message)
        })?;
        check_environments(&pipeline, &request)?;
        let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
        let bundle = bundle_of(&request, key, &caller.name);
        match kinds::create(&self.cluster, &bundle).await {
            Ok(made) => Ok(json_reply(StatusCode::CREATED, &summary(&made))),
            Err(error) if error.is_already_there() => self.known_bundle(&request, &bundle, key, now).await,
            Err(KindError::Cluster(error)) if matches!(error.status_code(), Some(400 | 422)) => {
                Err(Refusal::new(StatusCode::BAD_REQUEST, "invalid", error.to_string()))
            }
            Err(error) => Err(unreadable(error)),
        }
    }

    async fn known_bundle(
        &self,
        request: &BundleRequest,
        bundle: &Bundle,
        key: Option<&str>,
        now: Timestamp,
    ) -> Result<Reply, Refusal> {
        let found = kinds::get::<BundleSpec>(&self.cluster, bundle.namespace(), bundle.name()).await;
        // It went away in between: the same request works now.
        let found = found
            .map_err(unreadable)?
            .ok_or_else(|| Refusal::unavailable("the bundle was deleted just now"))?;
        let is_same = found.metadata.annotation(REQUEST_HASH) == Some(request.hash.as_str());
        let is_recent = now.duration_since(found.metadata.created()) < SAME_REQUEST;
        if is_same && (key.is_some() || is_recent) {
            return Ok(json_reply(StatusCode::OK, &summary(&found)));
        }
        let message = format!("a bundle {}/{} exists with other content", found.namespace(), found.name());
        Err(Refusal::new(StatusCode::CONFLICT, "conflict", message))
    }

    /// Shows a bundle.
    pub(super) async fn show_bundle(
        &self,
        caller: &ApiCaller,
        namespace: &str,
        name: &str,
    ) -> Result<Reply, Refusal> {
        let bundle = self.visible_bundle(caller, namespace, name).await?;
        Ok(json_reply(StatusCode::OK, &details(&bundle)))
    }

    /// Waits until a bundle is verified in an environment, or altogether, or cannot become so.
    pub(super) async fn wait_for_bundle(
        &self,
        caller: &ApiCaller,
        namespace: &str,
        name: &str,
        query: &QueryValues,
    ) -> Result<Reply, Refusal> {
        let limit = match query.get("timeout") {
            None => LONGEST_WAIT,
            Some(text) => slipway_go::time::Duration::parse_unsigned(text).ok_or_else(|| {
                Refusal::invalid(vec![FieldProblem {
                    field: "timeout".to_owned(),
                    message: "must be a time such as `10m`".to_owned(),
                }])
            })?,
        };
        let environment = query.get("env").or_else(|| query.get("environment"));
        let end = tokio::time::Instant::now() + limit.min(LONGEST_WAIT);
        let mut changes = self.changes.subscribe();
        loop {
            changes.mark_unchanged();
            let bundle = self.visible_bundle(caller, namespace, name).await?;
            let outcome = outcome_of(&bundle, environment);
            let is_over = tokio::time::Instant::now() >= end || self.stop.is_cancelled();
            if outcome != "waiting" || is_over {
                let mut body = details(&bundle);
                body["outcome"] = outcome.into();
                body["done"] = (outcome != "waiting").into();
                return Ok(json_reply(StatusCode::OK, &body));
            }
            // Bundles of others change as well: a look costs one request.
            let changed = async {
                let changed = changes
                    .wait_for(|seen| seen.as_ref().is_some_and(|at| at.0 == namespace && at.1 == name))
                    .await
                    .is_ok();
                if !changed {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = changed => {}
                () = tokio::time::sleep_until(end.min(tokio::time::Instant::now() + Duration::from_secs(5))) => {}
                () = self.stop.cancelled() => {}
            }
        }
    }

    async fn visible_bundle(
        &self,
        caller: &ApiCaller,
        namespace: &str,
        name: &str,
    ) -> Result<Bundle, Refusal> {
        let absent = || {
            let message = format!("there is no bundle {namespace}/{name}");
            Refusal::new(StatusCode::NOT_FOUND, "not-found", message)
        };
        if !is_name(namespace) || name.len() > 253 {
            return Err(absent());
        }
        let bundle = kinds::get::<BundleSpec>(&self.cluster, namespace, name).await.map_err(unreadable)?;
        let bundle = bundle.ok_or_else(absent)?;
        caller.check(namespace, bundle.pipeline().unwrap_or_default())?;
        Ok(bundle)
    }
}

/// The cluster cannot be asked: which of its troubles it is, is for the log.
pub(super) fn unreadable(error: KindError) -> Refusal {
    tracing::warn!(%error, "a request could not be carried out");
    Refusal::unavailable("the cluster cannot be asked right now")
}

fn check_environments(pipeline: &Pipeline, request: &BundleRequest) -> Result<(), Refusal> {
    let known = |name: &str| pipeline.spec.environments.iter().any(|environment| environment.name == name);
    let intent = request.spec.intent();
    let mut named: Vec<(String, String)> = Vec::new();
    named.extend(intent.target.map(|name| ("intent.target".to_owned(), name)));
    named.extend(intent.from.map(|name| ("intent.from".to_owned(), name)));
    named.extend(
        intent.skip.into_iter().enumerate().map(|(index, name)| (format!("intent.skip[{index}]"), name)),
    );
    let problems: Vec<FieldProblem> = named
        .into_iter()
        .filter(|(_, name)| !known(name))
        .map(|(field, name)| FieldProblem {
            field,
            message: format!("pipeline {} has no environment `{name}`", request.pipeline),
        })
        .collect();
    if problems.is_empty() { Ok(()) } else { Err(Refusal::invalid(problems)) }
}

fn bundle_of(request: &BundleRequest, key: Option<&str>, caller: &str) -> Bundle {
    let identity = match key {
        Some(key) => labels::short_hash(&format!("{caller}\n{}\n{key}", request.pipeline), 10),
        None => uuid::Uuid::new_v4().simple().to_string().chars().take(10).collect(),
    };
    let generated = || {
        let stem: String = request.pipeline.chars().take(52).collect();
        format!("{}-{identity}", stem.trim_end_matches('-'))
    };
    let name = request.name.clone().unwrap_or_else(generated);
    let texts = |map: &serde_json::Map<String, Value>| -> BTreeMap<String, String> {
        map.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
    };
    let mut metadata = Metadata::named(&request.namespace, name);
    metadata.labels = texts(&request.labels);
    metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(&request.pipeline));
    metadata.annotations = texts(&request.annotations);
    metadata.annotations.insert(REQUEST_HASH.to_owned(), request.hash.clone());
    metadata.annotations.insert(REQUESTED_BY.to_owned(), caller.to_owned());
    metadata.annotations.insert(labels::CREATED_THROUGH.to_owned(), "api".to_owned());
    Bundle::new(metadata, request.spec.clone())
}

fn summary(bundle: &Bundle) -> Value {
    json!({
        "name": bundle.name(),
        "namespace": bundle.namespace(),
        "pipeline": bundle.pipeline(),
        "phase": bundle.phase(),
        "statusURL": format!("/api/v1/bundles/{}/{}", bundle.namespace(), bundle.name()),
    })
}

fn details(bundle: &Bundle) -> Value {
    let mut body = summary(bundle);
    body["version"] = bundle.spec.version().into();
    body["type"] = json!(bundle.spec.kind);
    body["environments"] = json!(bundle.status.environments);
    body["conditions"] = json!(bundle.status.conditions);
    if let Some(newer) = &bundle.status.superseded_by {
        body["supersededBy"] = newer.as_str().into();
    }
    body
}

/// How a bundle stands to somebody who waits for it.
fn outcome_of(bundle: &Bundle, environment: Option<&str>) -> &'static str {
    let state = environment.and_then(|name| bundle.status.environments.get(name)).and_then(|one| one.state);
    match (state, bundle.phase()) {
        (Some(StepState::Verified), _) => "verified",
        (Some(state), _) if state.is_terminal() => "failed",
        (_, BundlePhase::Verified) => "verified",
        (_, phase) if phase.is_terminal() => "failed",
        _ => "waiting",
    }
}
