//! The interface of a template to the outside, and the limits of a rendering.

use std::time::{Duration, SystemTime};

use crate::func::FuncError;
use crate::value::{GoMap, GoValue};

/// The environment of the templates. The default gives what `helm template` gives: nothing.
pub trait TemplateHost {
    /// Helm's `lookup`: one object, a list when `name` is empty, an empty map when there is none.
    fn lookup_object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<GoValue, FuncError> {
        let _ = (api_version, kind, namespace, name);
        Ok(GoValue::Map(GoMap::new()))
    }

    /// The address `getHostByName` gives.
    fn resolve_host(&self, host: &str) -> Option<String> {
        let _ = host;
        None
    }

    /// The decrypted content of a secret file of the chart, for werf's `werf_secret_file`.
    fn secret_file(&self, path: &str) -> Result<GoValue, FuncError> {
        Err(FuncError::new(format!("secret file {path:?} cannot be read: there is no secret key")))
    }

    /// The time `now` gives.
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// The IANA name of the local time zone; none is UTC.
    fn local_zone(&self) -> Option<String> {
        None
    }

    /// Random bytes for passwords, keys and identifiers.
    fn fill_random(&self, bytes: &mut [u8]) {
        rand::Rng::fill_bytes(&mut rand::rng(), bytes);
    }

    /// Returns true if [`TemplateHost::fill_random`] repeats itself: then keys and signatures are made from it alone.
    fn is_seeded(&self) -> bool {
        false
    }

    /// Returns true if nobody waits for the result any more; asked now and then while rendering.
    fn is_stopped(&self) -> bool {
        false
    }

    /// Lint mode: `required` and `fail` report here and go on, if this returns true.
    fn tolerates_failure(&self, message: &str) -> bool {
        let _ = message;
        false
    }
}

/// A host with nothing behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHost;

impl TemplateHost for NoHost {}

/// Bounds on what one rendering may consume, so that a hostile chart fails instead of hanging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderLimits {
    /// Nodes evaluated, loop turns and the like.
    pub steps: u64,
    /// Time from the start of a rendering, all files of a chart together; none is for ever.
    pub time: Option<Duration>,
    /// Bytes of one output, string or list.
    pub value_bytes: usize,
    /// Bytes of everything built while rendering one file.
    pub total_bytes: u64,
    /// Nesting of `{{template}}` (Go's own limit).
    pub template_depth: usize,
    /// Nesting of `include` of one name (Helm's own limit).
    pub include_depth: usize,
    /// Nesting of `tpl` (Helm overflows its stack instead).
    pub tpl_depth: usize,
    /// Nesting of parentheses and blocks in the text of a template.
    pub parse_depth: usize,
}

impl Default for RenderLimits {
    fn default() -> Self {
        RenderLimits {
            steps: 200_000_000,
            time: Some(Duration::from_secs(5 * 60)),
            value_bytes: 128 << 20,
            total_bytes: 2 << 30,
            template_depth: 100_000,
            include_depth: 1000,
            tpl_depth: 1000,
            parse_depth: 2000,
        }
    }
}
