//! The origin of a login, for messages: which user of which kubeconfig, and the program that logs in.

use std::fmt;

use kube::client::AuthError;
use slipway_problem::Problem;

use crate::request::error_chain;

/// The longest part of what a login program says that a message repeats.
const LONGEST_REMARK: usize = 300;

/// The program a kubeconfig names to log in with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginProgram {
    pub command: String,
    /// The text of the kubeconfig on how to get the program.
    pub install_hint: Option<String>,
}

/// The origin of a login. It holds no credential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoginOrigin {
    /// A user of a kubeconfig.
    User { name: String, context: Option<String>, file: String, program: Option<LoginProgram> },
    /// A user that a context names and no kubeconfig has: nobody is logged in.
    UnknownUser { name: String, file: String },
    /// Flags or variables, instead of what a kubeconfig says.
    Given,
    /// The service account of the pod this runs in.
    ServiceAccount,
}

impl fmt::Display for LoginOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User { name, context: Some(context), file, .. } => {
                write!(f, "user `{name}` of context `{context}` in {file}")
            }
            Self::User { name, context: None, file, .. } => write!(f, "user `{name}` in {file}"),
            Self::UnknownUser { name, file } => write!(f, "user `{name}`, who is not in {file}"),
            Self::Given => f.write_str("the login given by flags or variables"),
            Self::ServiceAccount => f.write_str("the service account of this pod"),
        }
    }
}

impl LoginOrigin {
    fn program(&self) -> Option<&LoginProgram> {
        match self {
            Self::User { program, .. } => program.as_ref(),
            Self::UnknownUser { .. } | Self::Given | Self::ServiceAccount => None,
        }
    }

    /// Says whose credentials the server does not take and what to do.
    pub(crate) fn refusal_hint(&self) -> String {
        let advice = match (self, self.program()) {
            (_, Some(program)) => format!("log in again with `{}`", program.command),
            (Self::UnknownUser { .. }, None) => "add the user, or correct the context".to_owned(),
            (Self::User { .. }, None) => "if they expired, get new ones for this user".to_owned(),
            (Self::Given, _) => "check --kube-token, --kube-cert and their variables".to_owned(),
            (Self::ServiceAccount, _) => "check that the service account still exists".to_owned(),
        };
        format!("the credentials are those of {self}: {advice}")
    }

    /// Says why nobody could be logged in. No output of a program but its own complaint is repeated.
    pub(super) fn login_problem(&self, server: &str, error: &AuthError) -> Problem {
        let message = format!("cannot log in to {server}: {}", describe_login_error(self.program(), error));
        let problem = Problem::error(message);
        match (error, self.program(), self) {
            (AuthError::AuthExecStart(why), Some(program), _)
                if why.kind() == std::io::ErrorKind::NotFound =>
            {
                let advice = match program.install_hint.as_deref().map(one_line) {
                    Some(hint) if !hint.is_empty() => hint,
                    _ => format!("install `{}` and put it on the PATH", program.command),
                };
                problem.hint(format!("{self} asks for it: {advice}"))
            }
            (_, Some(program), _) => {
                problem.hint(format!("{self} asks for it: run `{}` by hand to see more", program.command))
            }
            (_, None, Self::User { .. }) => problem.hint(format!("correct {self}")),
            (_, None, _) => problem.hint(format!("it comes from {self}")),
        }
    }
}

/// The reason of a failed login, without what a program printed on its standard output: credentials.
pub(crate) fn describe_login_error(program: Option<&LoginProgram>, error: &AuthError) -> String {
    let program = match program {
        Some(program) => format!("the program `{}`", program.command),
        None => "the program of the kubeconfig".to_owned(),
    };
    match error {
        AuthError::AuthExecStart(why) if why.kind() == std::io::ErrorKind::NotFound => {
            format!("{program} is not installed here")
        }
        AuthError::AuthExecStart(why) => format!("{program} cannot be started: {why}"),
        AuthError::AuthExecRun { out, .. } => {
            let said = String::from_utf8_lossy(&out.stderr);
            let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
            let remark: String = last.unwrap_or_default().chars().take(LONGEST_REMARK).collect();
            match remark.as_str() {
                "" => format!("{program} failed ({})", out.status),
                remark => format!("{program} failed ({}): {remark}", out.status),
            }
        }
        AuthError::AuthExecParse(_) => format!("{program} printed no ExecCredential"),
        AuthError::ExecPluginFailed => format!("{program} printed an ExecCredential without a status"),
        AuthError::MissingCommand => "its `exec` names no `command`".to_owned(),
        other => error_chain(other),
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
