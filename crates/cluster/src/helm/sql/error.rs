//! Trouble with a database, sorted into the classes of all other requests.

use std::io;

use tokio_postgres::error::SqlState;

use super::tls::TlsSetupError;
use crate::error::{ConnectionFault, Error, ErrorClass};
use crate::request::error_chain;

/// The variable every hint is about.
const VARIABLE: &str = "HELM_DRIVER_SQL_CONNECTION_STRING";

/// The reason a statement was not carried out.
#[derive(Debug, thiserror::Error)]
pub(super) enum SqlFault {
    #[error(transparent)]
    Database(#[from] tokio_postgres::Error),
    #[error(transparent)]
    TlsSetup(#[from] TlsSetupError),
    #[error("the server does not encrypt connections")]
    NoTls,
    #[error("no answer within {0} s")]
    NoAnswer(u64),
}

/// The class of an answer, by its code; codes that begin alike are of one kind.
fn class_of(code: &SqlState) -> ErrorClass {
    match *code {
        SqlState::UNIQUE_VIOLATION => ErrorClass::AlreadyExists,
        SqlState::INSUFFICIENT_PRIVILEGE | SqlState::READ_ONLY_SQL_TRANSACTION => ErrorClass::Forbidden,
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            ErrorClass::Unauthorized
        }
        SqlState::T_R_SERIALIZATION_FAILURE | SqlState::T_R_DEADLOCK_DETECTED => ErrorClass::Conflict,
        SqlState::TOO_MANY_CONNECTIONS => ErrorClass::Throttled,
        SqlState::QUERY_CANCELED | SqlState::LOCK_NOT_AVAILABLE => ErrorClass::Timeout,
        ref other => match other.code().get(..2) {
            Some("08" | "57") => ErrorClass::Transport,
            Some("53" | "58" | "XX") => ErrorClass::Server,
            // Databases, tables and columns that are not there, and values they do not take.
            Some("22" | "23" | "3D" | "3F" | "42") => ErrorClass::Invalid,
            _ => ErrorClass::Other,
        },
    }
}

fn hint_for(code: &SqlState) -> Option<String> {
    let hint = match *code {
        SqlState::INVALID_PASSWORD => format!("check user and password in {VARIABLE}"),
        SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            format!(
                "check user, dbname and sslmode in {VARIABLE}; the server's pg_hba.conf says who may connect how"
            )
        }
        SqlState::INVALID_CATALOG_NAME => {
            format!("create the database, or name another: dbname in {VARIABLE}")
        }
        SqlState::INSUFFICIENT_PRIVILEGE => {
            "connect as the owner of Helm's tables, or let the owner grant rights and \
             create a policy: their rows are kept from everybody else (row level security)"
                .to_owned()
        }
        SqlState::READ_ONLY_SQL_TRANSACTION => {
            format!(
                "the server is a standby; name the primary, or both and target_session_attrs=read-write, in {VARIABLE}"
            )
        }
        SqlState::TOO_MANY_CONNECTIONS => "wait, or raise max_connections of the server".to_owned(),
        _ => return None,
    };
    Some(hint)
}

/// Finds an I/O error among the causes.
fn find_io<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e io::Error> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(io) = error.downcast_ref() {
            return Some(io);
        }
        current = error.source();
    }
    None
}

impl SqlFault {
    /// The code the server answered with.
    pub(super) fn code(&self) -> Option<&SqlState> {
        match self {
            SqlFault::Database(error) => error.code(),
            _ => None,
        }
    }

    /// Returns true if the connection broke off or was never there, so that another has to be opened.
    pub(super) fn is_broken(&self) -> bool {
        match self {
            SqlFault::Database(error) => {
                let ends_session = |code: &SqlState| matches!(code.code().get(..2), Some("08" | "57"));
                error.is_closed() || error.code().is_some_and(ends_session) || find_io(error).is_some()
            }
            SqlFault::NoAnswer(_) => true,
            _ => false,
        }
    }

    /// The same as an error of an action at a server.
    pub(super) fn into_error(self, action: &str, place: &str) -> Error {
        let (class, message, hint, fault) = match &self {
            SqlFault::Database(error) => describe(error, place),
            SqlFault::TlsSetup(error) => (ErrorClass::Invalid, error_chain(error), None, None),
            SqlFault::NoTls => {
                let hint = format!(
                    "let the server encrypt (`ssl = on`), or say sslmode=disable in {VARIABLE} if the network is trusted"
                );
                (
                    ErrorClass::Invalid,
                    format!("the server at {place} does not encrypt connections"),
                    Some(hint),
                    None,
                )
            }
            SqlFault::NoAnswer(_) => (ErrorClass::Timeout, format!("{self} from {place}"), None, None),
        };
        let hint = hint.map(String::into_boxed_str);
        Error { hint, fault, ..Error::new(class, action, message) }
    }
}

type Description = (ErrorClass, String, Option<String>, Option<ConnectionFault>);

fn describe(error: &tokio_postgres::Error, place: &str) -> Description {
    if let Some(answer) = error.as_db_error() {
        let mut message = format!("the database {place} answered: {}", answer.message());
        if let Some(detail) = answer.detail() {
            message.push_str(&format!(" ({detail})"));
        }
        let hint = hint_for(answer.code()).or_else(|| answer.hint().map(str::to_owned));
        return (class_of(answer.code()), message, hint, None);
    }
    let fault = ConnectionFault::find_in(error);
    if fault == Some(ConnectionFault::Untrusted) {
        let message =
            format!("the certificate of the database {place} is not trusted: {}", error_chain(error));
        let hint =
            format!("name its authority with sslrootcert in {VARIABLE}, and the host the certificate is for");
        return (ErrorClass::Other, message, Some(hint), fault);
    }
    if error.is_closed() || find_io(error).is_some() {
        let message = format!("the database {place} is not reachable: {}", error_chain(error));
        let hint = format!("is the server up, and are host and port in {VARIABLE} right?");
        return (ErrorClass::Transport, message, Some(hint), fault);
    }
    // Left are logins that the library could not complete.
    let message = format!("cannot log in to the database {place}: {}", error_chain(error));
    (ErrorClass::Unauthorized, message, Some(format!("check user and password in {VARIABLE}")), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_databases_are_sorted() {
        use ErrorClass::*;
        for (code, class) in [
            ("23505", AlreadyExists),
            ("28P01", Unauthorized),
            ("28000", Unauthorized),
            ("42501", Forbidden),
            ("25006", Forbidden),
            ("40001", Conflict),
            ("40P01", Conflict),
            ("53300", Throttled),
            ("53100", Server),
            ("57P01", Transport),
            ("57P03", Transport),
            ("57014", Timeout),
            ("08006", Transport),
            ("3D000", Invalid),
            ("42P01", Invalid),
            ("22001", Invalid),
            ("XX000", Server),
            ("0A000", Other),
        ] {
            assert_eq!(class_of(&SqlState::from_code(code)), class, "{code}");
        }
    }
}
