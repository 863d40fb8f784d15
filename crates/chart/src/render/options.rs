//! Options of a rendering.

use std::sync::Arc;

use serde_json::{Map, Value};
use slipway_gotmpl::RenderLimits;

use super::capabilities::Capabilities;
use crate::error::{ChartError, ChartFault};
use crate::values::SchemaSource;

/// Options of a rendering. The defaults are those of `helm template`.
#[derive(Clone, Debug)]
pub struct RenderOptions {
    pub name: String,
    pub namespace: String,
    pub is_upgrade: bool,
    pub revision: i64,
    pub capabilities: Capabilities,
    /// Do not check values against schemas.
    pub skip_schema_validation: bool,
    /// Put the definitions of `crds/` before the manifests.
    pub include_crds: bool,
    /// Leave hooks out of the output.
    pub no_hooks: bool,
    /// Leave tests out of the output.
    pub skip_tests: bool,
    /// Only the documents of these templates, as patterns on their path in the chart.
    pub show_only: Vec<String>,
    /// Notes of subcharts as well as the chart's own.
    pub subchart_notes: bool,
    /// Keys of `$` besides Helm's own.
    pub root: RootContext,
    /// Limits of the rendering.
    pub limits: RenderLimits,
    /// Fetches schemas a chart refers to by address; without it they are an error.
    pub schemas: Option<Arc<dyn SchemaSource>>,
}

impl Default for RenderOptions {
    fn default() -> Self {
        Self {
            name: "release-name".into(),
            namespace: "default".into(),
            is_upgrade: false,
            revision: 1,
            capabilities: Capabilities::default(),
            skip_schema_validation: false,
            include_crds: false,
            no_hooks: false,
            skip_tests: false,
            show_only: Vec::new(),
            subchart_notes: false,
            root: RootContext::default(),
            limits: RenderLimits::default(),
            schemas: None,
        }
    }
}

/// Keys that every template of a chart and its subcharts finds in `$` besides Helm's own, as with Nelm. They are no
/// values: no schema knows them and no release records them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RootContext {
    /// Keys of `$.Runtime`, which is there if one is given.
    pub runtime: Map<String, Value>,
    /// Keys of `$` itself; Helm's own win.
    pub extra: Map<String, Value>,
}

/// The longest a release's name may be.
const LONGEST_NAME: usize = 53;

/// Checks a release's name.
pub fn check_release_name(name: &str) -> Result<(), ChartError> {
    let part = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let bytes = part.as_bytes();
        match (bytes.first(), bytes.last()) {
            (Some(first), Some(last)) => {
                inner(*first) && inner(*last) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
            }
            _ => false,
        }
    };
    if name.is_empty() {
        return Err(ChartError::Unusable("no name provided".into()));
    }
    if name.len() <= LONGEST_NAME && name.split('.').all(part) {
        return Ok(());
    }
    Err(ChartError::Unusable(ChartFault::new(format!(
        "release name {}: invalid release name, must match regex ^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$ and the length must not be longer than {LONGEST_NAME}",
        crate::values::go_quote(name)
    )).hint("write lower-case letters, digits and dashes, such as `web-1`")))
}
