//! What requests are up against while they are sent again and again, for whoever runs out of patience first.

use std::sync::{Arc, Mutex, PoisonError};

use crate::Error;

tokio::task_local! {
    static WATCHED: Trouble;
}

/// Remembers the last passing trouble of the requests made inside [`Trouble::watch`].
#[derive(Clone, Debug, Default)]
pub struct Trouble(Arc<Mutex<Option<Error>>>);

impl Trouble {
    /// Does some work and takes note of trouble its requests meet on the way.
    pub async fn watch<T>(&self, work: impl Future<Output = T>) -> T {
        WATCHED.scope(self.clone(), work).await
    }

    /// The trouble no request has overcome since.
    pub fn last(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Takes note that a request will be sent again because of this, or that one went well after all.
pub(crate) fn note(error: Option<&Error>) {
    // Nobody may be watching.
    let _ = WATCHED.try_with(|watched| {
        *watched.0.lock().unwrap_or_else(PoisonError::into_inner) = error.cloned();
    });
}
