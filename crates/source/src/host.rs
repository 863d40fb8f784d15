//! The host of a rendering: the cluster answers `lookup`, the chart its secret files, the machine the rest.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
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
    fn lookup(
        &self,
        api_version: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<GoValue, FuncError> {
        self.lookup.lookup(api_version, kind, namespace, name)
    }

    fn secret_file(&self, path: &str) -> Result<GoValue, FuncError> {
        let Some(files) = self.secret_files else { return self.machine.secret_file(path) };
        match files.get(path) {
            Ok(content) => Ok(GoValue::from(String::from_utf8_lossy(content).into_owned())),
            Err(error) => Err(FuncError::new(error.to_string())),
        }
    }

    fn resolve(&self, host: &str) -> Option<String> {
        self.machine.resolve(host)
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

    fn tolerate(&self, message: &str) -> bool {
        self.machine.tolerate(message)
    }
}

/// Answers the same at every rendering of one source: what the first was told of time and chance, the others are told
/// again, so that renders differ in their values alone.
pub(crate) struct RepeatingHost<'a> {
    machine: &'a dyn TemplateHost,
    now: SystemTime,
    drawn: Mutex<Vec<Vec<u8>>>,
    /// The draws the rendering under way has still to repeat.
    ahead: Mutex<VecDeque<Vec<u8>>>,
}

impl<'a> RepeatingHost<'a> {
    pub(crate) fn new(machine: &'a dyn TemplateHost) -> Self {
        Self { machine, now: machine.now(), drawn: Mutex::default(), ahead: Mutex::default() }
    }

    /// Begins another rendering.
    pub(crate) fn repeat(&self) {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        *self.ahead.lock().unwrap_or_else(PoisonError::into_inner) = drawn.iter().cloned().collect();
    }
}

impl TemplateHost for RepeatingHost<'_> {
    fn resolve(&self, host: &str) -> Option<String> {
        self.machine.resolve(host)
    }

    fn secret_file(&self, path: &str) -> Result<GoValue, FuncError> {
        self.machine.secret_file(path)
    }

    fn now(&self) -> SystemTime {
        self.now
    }

    fn local_zone(&self) -> Option<String> {
        self.machine.local_zone()
    }

    fn fill_random(&self, bytes: &mut [u8]) {
        let ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        match ahead {
            Some(earlier) if earlier.len() == bytes.len() => bytes.copy_from_slice(&earlier),
            _ => {
                self.machine.fill_random(bytes);
                self.drawn.lock().unwrap_or_else(PoisonError::into_inner).push(bytes.to_vec());
            }
        }
    }

    fn is_seeded(&self) -> bool {
        // Keys come from the draws alone, so that they repeat.
        true
    }

    fn is_stopped(&self) -> bool {
        self.machine.is_stopped()
    }

    fn tolerate(&self, message: &str) -> bool {
        self.machine.tolerate(message)
    }
}
