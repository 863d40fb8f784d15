//! What every command needs: settings, the redactor, and how to show progress.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use secrecy::ExposeSecret as _;
use slipway_cluster::connect::Connection;
use slipway_cluster::helm::ReleasePlace;
use slipway_event::{Events, JsonLines, Redactor, RunId, Sink, SystemClock};

use crate::cli::{Globals, LogFormat, Output};
use crate::config::{self, Settings};
use crate::exit::{InterruptedError, UsageError};
use crate::interrupt;
use crate::logs::{self, Verbosity};
use crate::term;
use crate::term::failure::FailureForm;

/// One invocation of the binary.
pub struct Session {
    pub settings: Settings,
    pub verbosity: Verbosity,
    redactor: Redactor,
    /// One place for all clusters of an invocation, so that a database is connected to once.
    releases: OnceLock<ReleasePlace>,
}

impl Session {
    /// Settles the settings and prepares the terminal.
    pub fn open(globals: &Globals) -> anyhow::Result<Self> {
        let settings = Settings::resolve(globals).map_err(UsageError)?;
        term::style::choose(settings.color.value);
        let verbosity = Verbosity::from_flags(globals.verbose, globals.quiet);
        if verbosity != Verbosity::Quiet {
            term::next::remember_cluster(&settings);
        }
        let redactor = Redactor::new();
        settings.connection.register_secrets(&redactor);
        for secret in config::release_secrets() {
            redactor.register(secret.expose_secret());
        }
        term::output::mask_with(&redactor);
        logs::start(verbosity);
        Ok(Self { settings, verbosity, redactor, releases: OnceLock::new() })
    }

    /// Whether only what went wrong is to be said.
    pub fn is_quiet(&self) -> bool {
        self.verbosity == Verbosity::Quiet
    }

    pub fn output(&self) -> Output {
        self.settings.output.value
    }

    pub fn failure_form(&self) -> FailureForm {
        FailureForm::new(self.output(), self.settings.log_format.value)
    }

    /// Masks registered values wherever something is shown.
    pub fn redactor(&self) -> &Redactor {
        &self.redactor
    }

    /// The same connection, whose cluster knows where its releases are kept.
    pub fn with_releases(&self, connection: Connection) -> anyhow::Result<Connection> {
        let place = match self.releases.get() {
            Some(place) => place,
            None => {
                let place = config::release_place().map_err(|problem| UsageError(problem.into()))?;
                self.releases.get_or_init(|| place)
            }
        };
        let cluster = connection.cluster.with_release_storage(place.clone());
        Ok(Connection { cluster, ..connection })
    }

    /// Shows events as the user asked for: JSON lines, a live view, or plain lines.
    pub fn sink(&self) -> Arc<dyn Sink> {
        match self.settings.log_format.value {
            LogFormat::Json => Arc::new(JsonLines::new(term::output::Stderr)),
            LogFormat::Text => term::progress::sink(self.verbosity, self.settings.progress_interval.value.0),
        }
    }

    /// Starts an event stream that is [shown](Session::sink).
    pub fn events(&self) -> Events {
        Events::new(RunId::generate(&SystemClock), Arc::new(SystemClock), self.redactor.clone(), self.sink())
    }

    /// Runs asynchronous work on a runtime of its own. The work itself runs on this thread; what it left to
    /// tasks (connections, watches, the renewal of a lock, signals) runs on another, so that a long
    /// computation does not keep them waiting.
    pub fn block_on<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let result = runtime.block_on(work);
        // What blocks a thread, a stalled download or an endless template, must not keep the process.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }

    /// As [`Session::block_on`], for work that changes nothing: it ends where it stands once the user wants to stop.
    pub fn block_on_reading<T>(&self, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        self.block_on(async {
            let ended = interrupt::stopping().run_until_cancelled(work).await;
            ended.unwrap_or_else(|| Err(InterruptedError.into()))
        })
    }
}
