//! Queries with the names of a promotion in them.

use std::sync::{Arc, LazyLock};

use slipway_gotmpl::{FuncMap, GoMap, GoValue, NoHost, RenderLimits, TemplateRenderer, TemplateSet};

const NAME: &str = "query";

static LIMITS: LazyLock<RenderLimits> = LazyLock::new(|| RenderLimits {
    steps: 100_000,
    value_bytes: 1 << 20,
    total_bytes: 4 << 20,
    ..RenderLimits::default()
});
static FUNCTIONS: LazyLock<Arc<FuncMap>> = LazyLock::new(|| Arc::new(FuncMap::builtins()));

/// The names a query may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryNames {
    pub pipeline: String,
    pub environment: String,
    pub bundle: String,
    pub version: String,
    pub namespace: String,
}

/// Why a query cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the query cannot be made: {0}")]
pub struct QueryError(String);

/// Returns true if a query depends on the promotion.
pub(crate) fn is_templated(query: &str) -> bool {
    query.contains("{{")
}

/// Puts names into a query: `{{ .AppName }}` and `{{ .Pipeline }}` are the pipeline.
pub fn render_query(query: &str, names: &QueryNames) -> Result<String, QueryError> {
    if !is_templated(query) {
        return Ok(query.to_owned());
    }
    let mut set = TemplateSet::new(Arc::clone(&FUNCTIONS), &LIMITS);
    set.parse_file(NAME, query).map_err(|error| QueryError(error.to_string()))?;
    let values = [
        ("AppName", &names.pipeline),
        ("Pipeline", &names.pipeline),
        ("Environment", &names.environment),
        ("Bundle", &names.bundle),
        ("Version", &names.version),
        ("Namespace", &names.namespace),
    ];
    let data: GoMap = values.into_iter().map(|(key, value)| (key, GoValue::from(escape(value)))).collect();
    let rendered = TemplateRenderer::new(&set, &LIMITS, &NoHost)
        .execute_template(NAME, &GoValue::Map(data))
        .map_err(|error| QueryError(error.to_string()))?;
    let text = String::from_utf8(rendered).map_err(|_| QueryError("it is no text".to_owned()))?;
    if text.contains("<no value>") {
        let known = values.map(|(key, _)| format!(".{key}")).join(", ");
        return Err(QueryError(format!("it uses a name that is not known; known are {known}")));
    }
    Ok(text)
}

/// Names stand within quotes.
fn escape(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"")
}
