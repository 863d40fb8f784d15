//! From a chart and values to manifests.

mod capabilities;
mod chart_object;
mod files;
mod glob;
mod host;
mod manifests;
mod name;
mod options;
mod program;
mod rendered;

use slipway_gotmpl::NoHost;

pub use capabilities::{Capabilities, HELM_VERSION, KubeVersion};
pub use host::SeededHost;
pub use manifests::{INSTALL_ORDER, RenderedHook, RenderedManifest, install_rank, split_documents};
pub use name::{generate_name, name_from_template, render_text};
pub use options::{RenderOptions, RootContext, check_release_name};
pub use program::ChartProgram;
pub(crate) use program::TraceMode;
pub use rendered::RenderedChart;

use crate::error::{ChartError, Notices};
use crate::load::Chart;

/// Renders a chart once. For many renderings of one chart keep a [`ChartProgram`].
pub fn render(
    chart: &Chart,
    values: &serde_json::Map<String, serde_json::Value>,
    options: &RenderOptions,
) -> Result<RenderedChart, ChartError> {
    ChartProgram::new(chart.clone()).render_with(values, options, &NoHost, &mut Notices::new())
}
