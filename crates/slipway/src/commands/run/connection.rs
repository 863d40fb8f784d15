//! What a runbook that meets a cluster needs: the connection, the network, where paths start.

use std::path::{Path, PathBuf};

use slipway_cluster::{Cluster, RetryPolicy};
use slipway_event::Events;
use slipway_problem::Problem;
use slipway_runbook::state::store_hint;
use slipway_runbook::{POLL, RunContext, RunError, RunTarget};
use slipway_source::LoadContext;

use super::fetch::Network;
use crate::charts;
use crate::commands::inputs::SecretFlags;
use crate::commands::release::cluster_words;
use crate::commands::secrets::resolution::ReferenceResolver;
use crate::exit::UsageError;
use crate::session::Session;
use crate::term::style::{DIM, paint};

/// The ground a runbook is run on.
pub struct Ground {
    pub cluster: Cluster,
    /// The cluster and the namespace as people know them.
    target: String,
    pub context: Option<String>,
    base: PathBuf,
    sources: LoadContext,
    references: ReferenceResolver,
    events: Events,
}

impl Ground {
    /// Connects. Must run inside [`Session::block_on`].
    pub async fn open(
        session: &Session,
        base: PathBuf,
        references: ReferenceResolver,
    ) -> anyhow::Result<Self> {
        let connection = session.with_releases(session.connect().await?)?;
        let decryption = SecretFlags::default().decryption();
        let resolver = references.clone();
        let target = format!("{}, namespace {}", cluster_words(&connection, session), connection.namespace);
        Ok(Self {
            target,
            cluster: connection.cluster,
            context: session.settings.context.value.clone(),
            base,
            sources: charts::load_context_with(Network::new()?, decryption, resolver, session),
            references,
            events: session.events(),
        })
    }

    /// Says where the runbook is about to write.
    pub fn say_target(&self, session: &Session) {
        if !session.is_quiet() {
            say!("{} {}", paint(DIM, "cluster:"), self.target);
        }
    }

    /// Gives back what backends of secrets lent.
    pub fn finish(&self) {
        self.references.finish();
    }

    /// For looking only: a cluster that cannot be reached is told soon.
    pub fn for_looking(mut self) -> Self {
        self.cluster = self.cluster.with_retry(RetryPolicy { attempts: 5, ..RetryPolicy::default() });
        self
    }

    pub fn place(&self) -> RunContext<'_> {
        let (base, sources) = (&self.base, &self.sources);
        let (cluster, events) = (&self.cluster, &self.events);
        RunContext { cluster, base, sources, events, poll: POLL, target: RunTarget::Cluster }
    }
}

/// What kept a run from starting, as the user is told.
pub fn failed(error: RunError) -> anyhow::Error {
    match error {
        RunError::Usage(problems) => UsageError(problems).into(),
        RunError::State(error) => {
            let problem = Problem::error(error.to_string());
            match store_hint(&error) {
                Some(hint) => problem.hint(hint).into(),
                None => problem.into(),
            }
        }
        RunError::Cluster(error) => Problem::error(error.to_string()).into(),
        RunError::Internal(message) => Problem::error(message).into(),
        stale @ RunError::Stale(_) => stale.into(),
    }
}

/// The directory of a file, for the paths in it.
pub fn directory(file: &Path) -> PathBuf {
    match file.parent() {
        Some(parent) if file.as_os_str() != "-" && !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
