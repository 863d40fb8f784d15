//! A version taken into one environment by hand.

use jiff::Timestamp;
use slipway_problem::nearest_name;

use super::bundle::bundle_name;
use crate::bundle::covered_environments;
use crate::kinds::{Bundle, BundlePhase, Intent, Metadata, StepState, labels};
use crate::translate::EnvironmentOrder;
use crate::view::PipelineSurvey;

/// The answer to the wish to promote.
#[derive(Clone, Debug, PartialEq)]
pub enum PromotionPlan {
    /// This Bundle is to be created: a copy that goes into the one environment.
    Create(Box<Bundle>),
    /// A bundle is on its way there already.
    UnderWay { bundle: String, state: Option<StepState> },
    /// The version runs there.
    AlreadyThere { version: String },
}

/// Why nothing can be promoted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromoteError {
    #[error("pipeline {pipeline} has no environment `{environment}`{}", nearest.as_ref().map(|name| format!("; did you mean `{name}`?")).unwrap_or_default())]
    UnknownEnvironment { pipeline: String, environment: String, nearest: Option<String> },
    #[error("there is no bundle `{wanted}`; there are: {}", known.join(", "))]
    UnknownBundle { wanted: String, known: Vec<String> },
    #[error("no bundle is verified in {} yet, before {environment}", upstreams.join(" and "))]
    NothingVerified { environment: String, upstreams: Vec<String> },
    #[error("the pipeline has no bundles yet")]
    NoBundles,
}

/// Picks the newest bundle that is verified in everything directly before the environment, or the one named.
pub fn plan_promotion(
    survey: &PipelineSurvey,
    environment: &str,
    wanted: Option<&str>,
    now: Timestamp,
) -> Result<PromotionPlan, PromoteError> {
    let pipeline = &survey.pipeline;
    if !survey.environment_names().any(|name| name == environment) {
        let nearest = nearest_name(environment, survey.environment_names()).map(str::to_owned);
        let (pipeline, environment) = (pipeline.name().to_owned(), environment.to_owned());
        return Err(PromoteError::UnknownEnvironment { pipeline, environment, nearest });
    }
    let order = EnvironmentOrder::of(&pipeline.spec).ok();
    let upstreams: Vec<String> = order
        .iter()
        .flat_map(|order| order.upstreams(environment).iter().map(|name| (*name).to_owned()))
        .collect();
    let state =
        |bundle: &Bundle, name: &str| bundle.status.environments.get(name).and_then(|record| record.state);
    let source = match wanted {
        Some(wanted) => survey.find_bundle(wanted).ok_or_else(|| PromoteError::UnknownBundle {
            wanted: wanted.to_owned(),
            known: survey.bundles.iter().take(5).map(|bundle| bundle.name().to_owned()).collect(),
        })?,
        None if survey.bundles.is_empty() => return Err(PromoteError::NoBundles),
        None => survey
            .bundles
            .iter()
            .find(|bundle| {
                upstreams.iter().all(|name| state(bundle, name) == Some(StepState::Verified))
                    && !matches!(bundle.phase(), BundlePhase::SkipDenied)
                    && !bundle.is_rollback()
            })
            .ok_or_else(|| PromoteError::NothingVerified {
                environment: environment.to_owned(),
                upstreams: upstreams.clone(),
            })?,
    };
    let version = source.spec.version();
    if crate::rollback::current_bundle(environment, &survey.bundles)
        .is_some_and(|current| current.spec.artifacts == source.spec.artifacts)
    {
        return Ok(PromotionPlan::AlreadyThere { version });
    }
    let under_way = survey.bundles.iter().find(|bundle| {
        !bundle.phase().is_terminal()
            && bundle.spec.artifacts == source.spec.artifacts
            && covered_environments(pipeline, bundle).contains(environment)
    });
    if let Some(bundle) = under_way {
        let state = state(bundle, environment);
        return Ok(PromotionPlan::UnderWay { bundle: bundle.name().to_owned(), state });
    }
    let name = bundle_name(&format!("{}-{environment}", pipeline.name()), &version, now);
    let mut metadata = Metadata::named(pipeline.namespace(), name);
    let own = source.metadata.labels.iter().filter(|(key, _)| !key.starts_with(labels::PREFIX));
    metadata.labels = own.map(|(key, value)| (key.clone(), value.clone())).collect();
    metadata.labels.insert(labels::PIPELINE.to_owned(), labels::label_value(pipeline.name()));
    metadata.annotations.insert(labels::PROMOTED_FROM.to_owned(), source.name().to_owned());
    let mut spec = source.spec.clone();
    spec.pipeline = Some(pipeline.name().to_owned());
    let place = Some(environment.to_owned());
    spec.intent = Some(Intent { from: place.clone(), target: place, skip: Vec::new() });
    Ok(PromotionPlan::Create(Box::new(Bundle::new(metadata, spec))))
}
