//! The inputs of a step: files and addresses it reads, whatever its type.

use slipway_problem::Location;

use crate::model::{ChartSource, ManifestSource, ValuesSource};

/// Everything a step reads besides its own text.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepInputs<'a> {
    pub(crate) manifests: &'a [ManifestSource],
    pub(crate) chart: Option<&'a ChartSource>,
    pub(crate) values: &'a [ValuesSource],
    /// Other files of this machine, by the field that names them.
    pub(crate) files: Vec<(&'static str, &'a str)>,
}

/// A path a step reads on this machine, and what is there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LocalInput<'a> {
    File(&'a str),
    Chart(&'a str),
    Kustomization(&'a str),
}

impl<'a> StepInputs<'a> {
    /// The inputs of a step that reads manifests alone.
    pub(crate) fn manifests(manifests: &'a [ManifestSource]) -> Self {
        Self { manifests, ..Self::default() }
    }

    /// Lists what it reads on this machine.
    pub(crate) fn local(&self) -> Vec<LocalInput<'a>> {
        let manifests = self.manifests.iter().filter_map(|source| match source {
            ManifestSource::File(path) => Some(LocalInput::File(path)),
            ManifestSource::Kustomize(path) => Some(LocalInput::Kustomization(path)),
            ManifestSource::Inline { .. } | ManifestSource::Url(_) => None,
        });
        let chart = self.chart.and_then(|chart| match chart {
            ChartSource::Path(path) => Some(LocalInput::Chart(path)),
            ChartSource::Repo { .. } | ChartSource::Oci { .. } => None,
        });
        let values = self.values.iter().filter_map(|source| match source {
            ValuesSource::File(path) => Some(LocalInput::File(path)),
            ValuesSource::Url(_) => None,
        });
        let files = self.files.iter().map(|(_, path)| LocalInput::File(path));
        manifests.chain(chart).chain(values).chain(files).collect()
    }

    /// Names what can change behind the step's text, if anything can.
    pub(crate) fn mutable(&self) -> Option<&'static str> {
        let unpinned = self.chart.is_some_and(|chart| match chart {
            ChartSource::Repo { version, .. } => version.is_none(),
            ChartSource::Oci { version, reference, .. } => version.is_none() && !reference.contains('@'),
            ChartSource::Path(_) => false,
        });
        if unpinned {
            Some("an unpinned chart")
        } else if self.values.iter().any(|source| matches!(source, ValuesSource::Url(_))) {
            Some("a values file by URL")
        } else if self.manifests.iter().any(|source| matches!(source, ManifestSource::Url(_))) {
            Some("a manifest by URL")
        } else {
            None
        }
    }

    /// The password the chart is fetched with.
    pub(crate) fn password(&self) -> Option<&'a str> {
        self.chart?.auth().map(|auth| auth.password.as_str())
    }

    /// Manifests that stand in the document itself.
    pub(crate) fn inline(&self) -> impl Iterator<Item = (&'a String, &'a Location)> {
        self.manifests.iter().filter_map(|source| match source {
            ManifestSource::Inline { text, at } => Some((text, at)),
            ManifestSource::File(_) | ManifestSource::Url(_) | ManifestSource::Kustomize(_) => None,
        })
    }
}
