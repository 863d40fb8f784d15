//! The rollback a person asks for.

use jiff::Timestamp;
use slipway_problem::nearest_name;

use super::history::{current_bundle, record, rollback_target};
use super::plan::{RollbackSpan, rollback_bundle};
use crate::kinds::{Bundle, Pipeline, labels};

/// The urgency of a rollback.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RollbackPriority {
    #[default]
    Normal,
    /// Goes first in its environment. Gates apply all the same.
    Emergency,
}

/// A rollback that was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManualRollback<'a> {
    pub environment: &'a str,
    /// The name or version of the bundle to go back to; the one before the current when absent.
    pub to: Option<&'a str>,
    pub priority: RollbackPriority,
    pub now: Timestamp,
}

/// Why there is nothing to go back to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RollbackError {
    #[error("pipeline {pipeline} has no environment `{environment}`{}", hint(nearest.as_deref()))]
    UnknownEnvironment { pipeline: String, environment: String, nearest: Option<String> },
    #[error("nothing was promoted to {environment} yet")]
    NothingThere { environment: String },
    #[error("no version was verified in {environment} before {current}")]
    NoHistory { environment: String, current: String },
    #[error("`{wanted}` was never verified in {environment}; there are: {}", known.join(", "))]
    NotVerified { environment: String, wanted: String, known: Vec<String> },
    #[error("{environment} runs {version} already")]
    AlreadyThere { environment: String, version: String },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|name| format!("; did you mean `{name}`?")).unwrap_or_default()
}

/// Makes the bundle that takes an environment back to an earlier version.
pub fn manual_rollback(
    pipeline: &Pipeline,
    bundles: &[Bundle],
    request: &ManualRollback<'_>,
) -> Result<Bundle, RollbackError> {
    let environment = request.environment;
    let names = || pipeline.spec.environments.iter().map(|known| known.name.as_str());
    if !names().any(|known| known == environment) {
        let nearest = nearest_name(environment, names()).map(str::to_owned);
        let (pipeline, environment) = (pipeline.name().to_owned(), environment.to_owned());
        return Err(RollbackError::UnknownEnvironment { pipeline, environment, nearest });
    }
    let place = || environment.to_owned();
    let current = current_bundle(environment, bundles)
        .ok_or_else(|| RollbackError::NothingThere { environment: place() })?;
    let target = match request.to {
        None => rollback_target(environment, current, bundles).ok_or_else(|| RollbackError::NoHistory {
            environment: place(),
            current: current.spec.version(),
        })?,
        Some(wanted) => {
            let mut verified: Vec<(Option<Timestamp>, &Bundle)> = bundles
                .iter()
                .filter_map(|bundle| Some((record(bundle, environment)?.verified_at, bundle)))
                .filter(|(verified, _)| verified.is_some())
                .collect();
            verified.sort_by_key(|(at, bundle)| (*at, bundle.name()));
            let fits = |bundle: &Bundle| bundle.name() == wanted || bundle.spec.version() == wanted;
            let found = verified.iter().rev().find(|(_, bundle)| fits(bundle)).map(|(_, bundle)| *bundle);
            found.ok_or_else(|| {
                let mut known: Vec<String> = Vec::new();
                for (_, bundle) in verified.iter().rev() {
                    let version = bundle.spec.version();
                    if !known.contains(&version) {
                        known.push(version);
                    }
                }
                known.truncate(5);
                RollbackError::NotVerified { environment: place(), wanted: wanted.to_owned(), known }
            })?
        }
    };
    if target.metadata.uid == current.metadata.uid {
        let version = current.spec.version();
        return Err(RollbackError::AlreadyThere { environment: place(), version });
    }
    let name = format!("{}-rollback-{environment}-{}", pipeline.name(), request.now.as_second());
    let name = labels::bounded_name(&name, &name);
    let span = RollbackSpan { from: current, to: target, bundles };
    let mut bundle = rollback_bundle(pipeline.name(), environment, name, span);
    if request.priority == RollbackPriority::Emergency {
        bundle.metadata.labels.insert(labels::EMERGENCY.to_owned(), "true".to_owned());
    }
    Ok(bundle)
}
