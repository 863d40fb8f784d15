//! Keeps the last transport error of a retried request, so that a timeout can report its cause.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

tokio::task_local! {
    static WATCHED: LastRequestError;
}

/// Remembers the last transient error of the requests made inside [`LastRequestError::record_during`].
#[derive(Clone, Debug, Default)]
pub struct LastRequestError(Arc<Mutex<Option<Error>>>);

impl LastRequestError {
    /// Does some work and records the transient errors of its requests.
    pub async fn record_during<T>(&self, work: impl Future<Output = T>) -> T {
        WATCHED.scope(self.clone(), work).await
    }

    /// The last error, if no request has succeeded since.
    pub fn last_error(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Records the error a request is repeated for, or that one succeeded.
pub(crate) fn record_error(error: Option<&Error>) {
    // The task may not be recorded.
    let _ = WATCHED.try_with(|watched| {
        *watched.0.lock().unwrap_or_else(PoisonError::into_inner) = error.cloned();
    });
}
