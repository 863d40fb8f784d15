//! Names for releases that were not given one.

use slipway_gotmpl::{FuncMap, GoValue, RenderLimits, TemplateHost, TemplateRenderer, TemplateSet};

use crate::error::ChartError;
use slipway_go::filepath;

/// The name `--generate-name` makes: the chart's, without extension, and the time in seconds.
pub fn generate_name(chart: &str, seconds: u64) -> String {
    let base = filepath::base(chart);
    let base = if matches!(base, "." | "") { "chart" } else { base };
    let base = base.split('.').next().unwrap_or(base);
    format!("{base}-{seconds}")
}

/// The name `--name-template` makes.
pub fn name_from_template(template: &str, host: &dyn TemplateHost) -> Result<String, ChartError> {
    render_named(NAME_TEMPLATE, template, &GoValue::Nil, host)
}

/// Renders one template that belongs to no chart.
pub fn render_text(template: &str, data: &GoValue, host: &dyn TemplateHost) -> Result<String, ChartError> {
    render_named("template", template, data, host)
}

const NAME_TEMPLATE: &str = "name-template";

fn render_named(
    name: &str,
    template: &str,
    data: &GoValue,
    host: &dyn TemplateHost,
) -> Result<String, ChartError> {
    let limits = RenderLimits::default();
    let mut functions = FuncMap::builtins();
    functions.extend(&slipway_gotmpl::sprig::functions());
    let mut set = TemplateSet::new(functions, &limits);
    set.parse_file(name, template).map_err(|error| ChartError::Unusable(error.to_string().into()))?;
    let mut renderer = TemplateRenderer::new(&set, &limits, host);
    let text = renderer
        .execute_template(name, data)
        .map_err(|error| ChartError::Unusable(error.to_string().into()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
