//! Loads the chart of a step with its values, and asks the release engine for it.

use std::sync::Arc;

use serde_json::Value;
use slipway_chart::UserValues;
use slipway_cluster::helm::{ReleaseHistory, StorageDriver};
use slipway_release::{MissingNamespace, PlanOptions, ReleaseContent, ReleaseRequest};
use slipway_source::{LoadError, LoadedSource, SourcePath, SourceReference, SourceRequest, shown_address};

use super::is_good;
use crate::context::RunContext;
use crate::error::{AttemptError, ErrorKind};
use crate::files;
use crate::model::{Helm, ValuesSource};
use crate::references::secret_node;

/// The treatment of a namespace that is not there.
pub(super) fn missing_namespace(helm: &Helm) -> MissingNamespace {
    if helm.create_namespace { MissingNamespace::Create } else { MissingNamespace::Refuse }
}

/// Makes the request to the release engine. Definitions beside the templates are for the first install.
pub(crate) fn release_request(
    helm: &Helm,
    content: ReleaseContent,
    history: &ReleaseHistory,
    driver: StorageDriver,
) -> ReleaseRequest {
    ReleaseRequest {
        name: helm.release.as_str().into(),
        namespace: helm.namespace.as_str().into(),
        content,
        options: PlanOptions {
            no_install_crds: history.releases.iter().any(is_good),
            no_final_tracking: !helm.wait,
            track_hooks: true,
            new_revision: true,
            driver,
            missing_namespace: missing_namespace(helm),
            ..PlanOptions::default()
        },
    }
}

/// Reads the chart, brought here if need be, and its values: files in order, then what the step says itself.
pub(crate) async fn load_content(
    place: &RunContext<'_>,
    helm: &Helm,
) -> Result<ReleaseContent, AttemptError> {
    let fetch = |message: String| AttemptError::new(ErrorKind::Fetch, message);
    let fetcher = &*place.sources.fetcher;
    let path = match helm.chart.reference() {
        SourceReference::Path(path) => {
            let path = place.base.join(path);
            files::check_chart(&path).map_err(|error| fetch(error).permanent())?;
            path
        }
        SourceReference::Chart(reference) => {
            let fetched = fetcher.fetch_chart(&reference).await.map_err(|error| {
                let failed = fetch(format!("chart {}: {error}", helm.chart));
                if error.permanent { failed.permanent() } else { failed }
            })?;
            fetched.path
        }
    };
    let mut values = UserValues::default();
    for source in &helm.values_from {
        let (name, bytes) = match source {
            ValuesSource::File(path) => {
                let file = place.base.join(path);
                let bytes = files::read(&file);
                let bytes = bytes
                    .map_err(|e| fetch(format!("valuesFrom {path}: {}", files::explain(&e))).permanent())?;
                (path.clone(), bytes)
            }
            ValuesSource::Url(url) => {
                let name = shown_address(url);
                let bytes = fetcher.fetch_file(url).await;
                let bytes = bytes.map_err(|error| fetch(format!("valuesFrom {name}: {error}")))?;
                (name, bytes)
            }
        };
        values.files.push((name, bytes));
    }
    if !helm.values.is_empty() {
        let own = Value::Object(helm.values.clone()).to_string();
        values.files.push(("values".to_owned(), own.into_bytes()));
    }
    let node = secret_node(&helm.release, Some(&helm.namespace));
    let request = SourceRequest { values, node, ..SourceRequest::default() };
    let context = place.sources.clone();
    let load = move || LoadedSource::load(&SourcePath::Chart(path), request, &context, &mut Vec::new());
    match tokio::task::spawn_blocking(load).await {
        Ok(loaded) => Ok(ReleaseContent::Source(Arc::new(loaded.map_err(unloaded)?))),
        Err(error) => Err(AttemptError::new(ErrorKind::Render, format!("loading broke off: {error}"))),
    }
}

/// Makes a chart that could not be read an error of the step.
fn unloaded(error: LoadError) -> AttemptError {
    let is_secret = error.is_secret();
    let error = AttemptError::from(error.into_problems());
    // Neither a key nor a value comes by itself.
    if is_secret { error.permanent() } else { error }
}
