//! The connection to a database: opened when it is first needed, opened again when it broke, shared by all requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;
use tokio_postgres::config::SslMode as Encryption;
use tokio_postgres::{Client, Row};

use super::error::SqlFault;
use super::schema::{self, Tables};
use super::settings::{SqlSettings, SslMode};
use super::statement::Statement;
use super::tls::{self, TlsMaker};
use crate::request::format_seconds;
use crate::{Cluster, Error, ErrorClass, RetryPolicy};

/// How often tables are looked for that somebody else makes at the same moment.
const TABLE_ATTEMPTS: usize = 3;

/// A PostgreSQL database with Helm's tables; cheap to clone. Nothing is sent before a record is asked for.
#[derive(Clone)]
pub struct SqlDatabase(Arc<DatabaseInner>);

struct DatabaseInner {
    settings: SqlSettings,
    session: Mutex<Session>,
}

/// The state of the connection.
#[derive(Default)]
struct Session {
    client: Option<Arc<Client>>,
    /// The tables that were found; looked for again unless they are complete.
    tables: Option<Tables>,
    /// True once the database has answered: from then on it may be away for a while.
    was_reached: bool,
}

impl fmt::Debug for SqlDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqlDatabase").field(&self.0.settings.place).finish()
    }
}

/// The effect of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

/// One request to a database, safe to be sent any number of times.
pub(super) struct SqlCall {
    pub(super) action: String,
    pub(super) access: Access,
    pub(super) statement: Statement,
}

/// The answer to a call; `was_ambiguous` if an earlier attempt may have been carried out without an answer.
pub(super) struct SqlOutcome {
    pub(super) rows: Result<Vec<Row>, Error>,
    pub(super) was_ambiguous: bool,
}

/// The attempts at one call.
#[derive(Default)]
struct SqlAttempts {
    count: u32,
    was_ambiguous: bool,
    last: Option<Error>,
}

impl SqlDatabase {
    pub fn new(settings: SqlSettings) -> SqlDatabase {
        SqlDatabase(Arc::new(DatabaseInner { settings, session: Mutex::default() }))
    }

    /// Sends a call until it is answered, was tried often enough, or the deadline of the handle passes. Writes wait for
    /// the handle's lock as those to the cluster do.
    pub(super) async fn call(&self, cluster: &Cluster, call: &SqlCall) -> SqlOutcome {
        let mut tries = SqlAttempts::default();
        let started = Instant::now();
        let rows = match cluster.deadline() {
            None => self.send_repeatedly(cluster, call, &mut tries).await,
            Some(deadline) if deadline.has_passed() => {
                let error = Error::new(ErrorClass::Timeout, &call.action, "no time is left to send it");
                Err(Error { is_late: true, ..error })
            }
            Some(deadline) => {
                let sent = self.send_repeatedly(cluster, call, &mut tries);
                let sent = tokio::time::timeout_at(deadline.instant(), sent).await;
                sent.unwrap_or_else(|_| {
                    tries.was_ambiguous = true;
                    let late = || {
                        let message = format!("no answer within {}", format_seconds(started.elapsed()));
                        Error::new(ErrorClass::Timeout, &call.action, message)
                    };
                    Err(Error { is_late: true, ..tries.last.take().unwrap_or_else(late) })
                })
            }
        };
        SqlOutcome { rows, was_ambiguous: tries.was_ambiguous }
    }

    async fn send_repeatedly(
        &self,
        cluster: &Cluster,
        call: &SqlCall,
        tries: &mut SqlAttempts,
    ) -> Result<Vec<Row>, Error> {
        let started = Instant::now();
        loop {
            tries.count += 1;
            if call.access == Access::Write && !cluster.holds_lock().await {
                return Err(Error::new(ErrorClass::Other, &call.action, "the lock was lost to another run"));
            }
            let retry = self.retry_policy(cluster.0.retry).await;
            let answer = tokio::time::timeout(retry.answer, self.send_once(call, tries)).await;
            let fault = match answer {
                Ok(Ok(rows)) => return Ok(rows),
                Ok(Err(fault)) => fault,
                Err(_) => SqlFault::NoAnswer(retry.answer.as_secs()),
            };
            if fault.is_broken() {
                self.0.session.lock().await.client = None;
            }
            let mut error = fault.into_error(&call.action, &self.0.settings.place);
            let pause = retry.pause_after(tries.count);
            let is_over = tries.count >= retry.attempts || started.elapsed() + pause > retry.patience;
            let is_late = cluster.deadline().is_some_and(|deadline| pause >= deadline.time_left());
            if !error.is_transient() || is_over || is_late {
                if tries.count > 1 {
                    let elapsed = format_seconds(started.elapsed());
                    error.message.push_str(&format!(" (tried {} times in {elapsed})", tries.count));
                }
                return Err(Error { is_late: is_late && error.is_transient(), ..error });
            }
            tries.last = Some(error);
            tokio::time::sleep(pause).await;
        }
    }

    /// A database that never answered is reported soon.
    async fn retry_policy(&self, usual: RetryPolicy) -> RetryPolicy {
        if self.0.session.lock().await.was_reached {
            return usual;
        }
        let (patience, answer) = (Duration::from_secs(2), Duration::from_secs(20));
        RetryPolicy { attempts: usual.attempts.min(3), patience, answer, ..usual }
    }

    async fn send_once(&self, call: &SqlCall, tries: &mut SqlAttempts) -> Result<Vec<Row>, SqlFault> {
        let (client, tables) = self.open(call.access).await?;
        if tables == Tables::Missing {
            // Whoever only looks makes no tables, and finds nothing.
            return Ok(Vec::new());
        }
        let was_ambiguous = tries.was_ambiguous;
        tries.was_ambiguous = true;
        let answer = call.statement.run(&client, tables).await;
        let is_unknown = answer.as_ref().is_err_and(SqlFault::is_broken);
        tries.was_ambiguous = was_ambiguous || is_unknown;
        answer
    }

    /// Gives the connection and the tables there are; writes find all of them.
    async fn open(&self, access: Access) -> Result<(Arc<Client>, Tables), SqlFault> {
        let mut session = self.0.session.lock().await;
        let client = match &session.client {
            Some(client) if !client.is_closed() => client.clone(),
            _ => {
                let client = Arc::new(self.connect().await?);
                session.client = Some(client.clone());
                client
            }
        };
        session.was_reached = true;
        if session.tables == Some(Tables::Complete) {
            return Ok((client, Tables::Complete));
        }
        let mut tables = schema::find_tables(&client).await?;
        if access == Access::Write {
            for attempt in 1.. {
                match schema::create_tables(&client, tables).await {
                    Ok(()) => {
                        tables = Tables::Complete;
                        break;
                    }
                    // Perhaps somebody else made them just now.
                    Err(fault) if fault.code().is_some() && attempt < TABLE_ATTEMPTS => {
                        let found = schema::find_tables(&client).await?;
                        if found == tables {
                            return Err(fault);
                        }
                        tables = found;
                    }
                    Err(fault) => return Err(fault),
                }
            }
        }
        session.tables = Some(tables);
        Ok((client, tables))
    }

    /// Opens a connection, in the ways `sslmode` allows.
    async fn connect(&self) -> Result<Client, SqlFault> {
        let mode = self.0.settings.mode;
        let ways: &[Encryption] = match mode {
            SslMode::Disable => &[Encryption::Disable],
            SslMode::Allow => &[Encryption::Disable, Encryption::Require],
            SslMode::Prefer => &[Encryption::Require, Encryption::Disable],
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => &[Encryption::Require],
        };
        let mut first_fault = None;
        for way in ways {
            match self.connect_by(*way).await {
                Ok(client) => return Ok(client),
                Err(fault) => first_fault = Some(first_fault.unwrap_or(fault)),
            }
        }
        Err(first_fault.unwrap_or(SqlFault::NoTls))
    }

    async fn connect_by(&self, way: Encryption) -> Result<Client, SqlFault> {
        let settings = &self.0.settings;
        let mut config = settings.config.clone();
        config.ssl_mode(way);
        let tls = TlsMaker::new(tls::client_config(&settings.verification, settings.identity.as_ref())?);
        match config.connect(tls.clone()).await {
            Ok((client, connection)) => {
                // It ends with the client.
                tokio::spawn(async move {
                    if let Err(error) = connection.await {
                        tracing::debug!("the connection to the database ended: {error}");
                    }
                });
                Ok(client)
            }
            Err(error) => {
                let fault = SqlFault::Database(error);
                let is_plain = way == Encryption::Require && !tls.was_greeted();
                if is_plain && !fault.is_broken() && fault.code().is_none() {
                    return Err(SqlFault::NoTls);
                }
                Err(fault)
            }
        }
    }
}
