//! The host of a rendering: the cluster answers `lookup`, the chart its secret files, the machine the rest.

use std::time::SystemTime;

use slipway_chart::secret::SecretFiles;
use slipway_gotmpl::{FuncError, GoValue, TemplateHost};

/// Answers templates from three places.
pub(crate) struct SourceHost<'a> {
    pub(crate) lookup: &'a dyn TemplateHost,
    /// Time, names, randomness.
    pub(crate) machine: &'a dyn TemplateHost,
    pub(crate) secret_files: Option<&'a SecretFiles>,
}

impl TemplateHost for SourceHost<'_> {
    fn lookup_object(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<GoValue, FuncError> {
        self.lookup.lookup_object(api_version, kind, namespace, name)
    }

    fn secret_file(&self, path: &str) -> Result<GoValue, FuncError> {
        let Some(files) = self.secret_files else { return self.machine.secret_file(path) };
        match files.get(path) {
            Ok(content) => Ok(GoValue::from(String::from_utf8_lossy(content).into_owned())),
            Err(error) => Err(FuncError::new(error.to_string())),
        }
    }

    fn resolve_host(&self, host: &str) -> Option<String> {
        self.machine.resolve_host(host)
    }

    fn now(&self) -> SystemTime {
        self.machine.now()
    }

    fn local_zone(&self) -> Option<String> {
        self.machine.local_zone()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        self.machine.fill_random(bytes);
    }

    fn is_seeded(&self) -> bool {
        self.machine.is_seeded()
    }

    fn is_stopped(&self) -> bool {
        self.machine.is_stopped()
    }

    fn tolerates_failure(&self, message: &str) -> bool {
        self.machine.tolerates_failure(message)
    }
}
