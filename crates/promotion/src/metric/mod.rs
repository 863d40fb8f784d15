//! Metric checks: measurements of Prometheus that gates may read.
//!
//! A query with names of a promotion in it has one result for each pipeline and environment whose gates read it; any other has
//! one. [`judge_answer`] turns an answer, or its absence, into a result; [`MetricReconciler`] asks and keeps the results.

mod condition;
mod judge;
mod prometheus;
mod query;
mod reconcile;

pub use condition::{ConditionError, MetricCondition};
pub use judge::{MetricConditions, judge_answer};
pub use prometheus::{PrometheusError, PrometheusLogin, query_prometheus, read_answer};
pub use query::{QueryError, QueryNames, render_query};
pub use reconcile::MetricReconciler;

use crate::gate::MetricContext;
use crate::kinds::MetricCheck;

/// The key of a result of a templated query.
pub fn result_key(namespace: &str, pipeline: &str, environment: &str) -> String {
    format!("{namespace}/{pipeline}/{environment}")
}

/// The measurement gates of a promotion read.
pub(crate) fn context(check: &MetricCheck, key: &str) -> MetricContext {
    let result = if query::is_templated(&check.spec.query) {
        check.status.results.get(key).cloned().unwrap_or_default()
    } else {
        check.status.latest.clone()
    };
    MetricContext {
        value: result.value,
        result: result.result,
        measured_at: result.measured_at.or(result.last_evaluated_at.filter(|_| !result.stale)),
        interval: check.spec.interval.0,
        no_data: check.spec.no_data_behavior,
        assumed: result.assumed,
    }
}
