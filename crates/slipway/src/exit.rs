//! Exit codes: one table for every command, `docs/reference/exit-codes.md` is made from it.

use std::fmt::Write as _;
use std::process::ExitCode;

use slipway_problem::{Problem, ProblemSeverity, Problems};

/// Tells how the process ends. A code means the same in every command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    Changes,
    Revision,
    Invalid,
    NothingSelected,
    Stale,
    Locked,
    Unconfirmed,
    Refused,
    SecretMissing,
    DaemonUnreachable,
    Usage,
    Interrupted,
    Terminated,
}

impl Exit {
    /// The table, by code.
    pub const ALL: [Self; 15] = [
        Self::Done,
        Self::Failed,
        Self::Changes,
        Self::Revision,
        Self::Invalid,
        Self::NothingSelected,
        Self::Stale,
        Self::Locked,
        Self::Unconfirmed,
        Self::Refused,
        Self::SecretMissing,
        Self::DaemonUnreachable,
        Self::Usage,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// The code, its name and what it means.
    const fn row(self) -> (u8, &'static str, &'static str) {
        match self {
            Self::Done => (0, "done", "done"),
            Self::Failed => (1, "failed", "failed; standard error says what"),
            Self::Changes => {
                (2, "changes", "changes pending, where `--exit-code` or `--detailed-exitcode` asked for it")
            }
            Self::Revision => {
                (3, "revision", "only a new revision pending, where `--exit-code` asked for it")
            }
            Self::Invalid => (
                10,
                "invalid",
                "invalid files: a source, values, stack, unit, policy, plan or kubeconfig that is missing, cannot be read or is \
                 wrong; selectors, references to secrets",
            ),
            Self::NothingSelected => (11, "nothing-selected", "nothing selected"),
            Self::Stale => (12, "stale", "inputs or cluster changed since the plan"),
            Self::Locked => (13, "locked", "locked by somebody else"),
            Self::Unconfirmed => (14, "unconfirmed", "not confirmed"),
            Self::Refused => {
                (15, "refused", "refused by a policy or gate, or for want of a signature or evidence")
            }
            Self::SecretMissing => (16, "secret-missing", "a secret could not be had"),
            Self::DaemonUnreachable => (
                17,
                "daemon-unreachable",
                "reserved for a required daemon that is not reachable; no command needs one",
            ),
            Self::Usage => {
                (64, "usage", "the command line or configuration is wrong; of a runbook, its file as well")
            }
            Self::Interrupted => (130, "interrupted", "interrupted by Ctrl-C"),
            Self::Terminated => (143, "terminated", "stopped by a termination signal or a closed terminal"),
        }
    }

    pub fn code(self) -> u8 {
        self.row().0
    }

    /// The name, as error objects show it.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The message of a command that ended so and has printed the reasons.
    pub fn verdict(self) -> &'static str {
        match self {
            Self::Interrupted | Self::Terminated => "stopped by a signal",
            Self::Unconfirmed => "not confirmed; nothing was changed",
            Self::Refused => "refused; the data on standard output says by what",
            Self::Invalid | Self::Usage => "invalid; the data on standard output says what is wrong",
            _ => "failed; the data on standard output says why",
        }
    }

    /// Whether the command did what it was asked to.
    pub fn is_success(self) -> bool {
        matches!(self, Self::Done | Self::Changes | Self::Revision)
    }

    /// The same, or [`Exit::Failed`] of a command that did its work and could not show it.
    pub fn or_failed(self) -> Self {
        if self.is_success() { Self::Failed } else { self }
    }

    /// The code for a failure that reached `main`: that of the outermost cause that has one of its own.
    pub fn of(failure: &anyhow::Error) -> Self {
        failure.chain().find_map(Self::of_cause).unwrap_or(Self::Failed)
    }

    fn of_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Self> {
        if cause.is::<UsageError>() {
            return Some(Self::Usage);
        }
        if cause.is::<InterruptedError>() || cause.is::<StoppedRun>() {
            return Some(Self::of_signal());
        }
        if cause.is::<PolicyFileError>() {
            return Some(Self::Invalid);
        }
        if cause.is::<PolicyRefusal>() {
            return Some(Self::Refused);
        }
        if let Some(slipway_rehearsal::RehearsalError::Refused(_)) = cause.downcast_ref() {
            return Some(Self::Refused);
        }
        if cause.is::<SecretError>() {
            return Some(Self::SecretMissing);
        }
        if let Some(error) = cause.downcast_ref::<slipway_secrets::SecretsError>() {
            return Some(Self::of_secrets(error));
        }
        if let Some(failure) = cause.downcast_ref::<slipway_release::Failure>() {
            return Self::of_release(failure);
        }
        if let Some(error) = cause.downcast_ref::<slipway_unit::UnitError>() {
            return Self::of_unit(error);
        }
        if let Some(slipway_runbook::RunError::Stale(_)) = cause.downcast_ref() {
            return Some(Self::Stale);
        }
        if let Some(error) = cause.downcast_ref::<slipway_stack::Error>() {
            return Some(Self::of_stack(error));
        }
        if let Some(error) = cause.downcast_ref::<slipway_chart::ChartError>() {
            return Self::of_chart(error);
        }
        if let Some(problems) = cause.downcast_ref::<Problems>() {
            return Self::of_problems(problems);
        }
        if let Some(problem) = cause.downcast_ref::<Problem>() {
            return Self::of_problems([problem]);
        }
        None
    }

    /// The code of problems: those with a place are about a file, which is wrong, missing or cannot be read. What cannot be
    /// written has its path in the message.
    fn of_problems<'p>(problems: impl IntoIterator<Item = &'p Problem>) -> Option<Self> {
        let is_in_file =
            |problem: &Problem| problem.severity == ProblemSeverity::Error && problem.at.is_some();
        problems.into_iter().any(is_in_file).then_some(Self::Invalid)
    }

    fn of_release(failure: &slipway_release::Failure) -> Option<Self> {
        use slipway_release::Failure;
        match failure {
            Failure::Stale(_) => Some(Self::Stale),
            Failure::Locked(_) => Some(Self::Locked),
            Failure::Source(_) => Some(Self::Invalid),
            Failure::Problems(problems) => Self::of_problems(problems),
            Failure::Refused(_) => Some(Self::Refused),
            Failure::Immutable(_)
            | Failure::Ownership(_)
            | Failure::Cluster(_)
            | Failure::NotFound(_)
            | Failure::Run { .. }
            | Failure::Cancelled { .. } => None,
        }
    }

    fn of_chart(error: &slipway_chart::ChartError) -> Option<Self> {
        use slipway_chart::ChartError;
        match error {
            ChartError::Load(_)
            | ChartError::Values(_)
            | ChartError::Unusable(_)
            | ChartError::Schema(_)
            | ChartError::Template(_)
            | ChartError::Manifest(_) => Some(Self::Invalid),
            ChartError::Secret(_) => Some(Self::SecretMissing),
            ChartError::Publish(_)
            | ChartError::UnknownRepository(_)
            | ChartError::Denied(_)
            | ChartError::UnknownVersion(_)
            | ChartError::Interrupted(_) => None,
        }
    }

    /// The code of a unit that cannot be used as asked.
    fn of_unit(error: &slipway_unit::UnitError) -> Option<Self> {
        use slipway_unit::UnitError;
        match error {
            UnitError::Problems(_)
            | UnitError::NotAUnit { .. }
            | UnitError::Tampered { .. }
            | UnitError::LedgerChanged { .. } => Some(Self::Invalid),
            UnitError::NotReproduced(_) => Some(Self::Stale),
            UnitError::Signature(_) | UnitError::NoEvidence(_) | UnitError::Refused(_) => Some(Self::Refused),
            UnitError::Locked(_) => Some(Self::Locked),
            _ => None,
        }
    }

    /// The code of references that did not become values.
    fn of_secrets(error: &slipway_secrets::SecretsError) -> Self {
        use slipway_secrets::SecretsError;
        match error {
            SecretsError::Invalid(_) => Self::Invalid,
            SecretsError::Refused(_) => Self::Refused,
            SecretsError::Unresolved(_) | SecretsError::Audit(_) => Self::SecretMissing,
            SecretsError::Interrupted => Self::of_signal(),
        }
    }

    /// The code of work that a signal ended.
    fn of_signal() -> Self {
        let received = crate::interrupt::Interrupt::listen().ok().and_then(crate::interrupt::Interrupt::exit);
        received.unwrap_or(Self::Interrupted)
    }

    /// The code of a stack that cannot be run.
    fn of_stack(error: &slipway_stack::Error) -> Self {
        use slipway_stack::Error;
        match error {
            Error::Invalid(_) => Self::Invalid,
            // A range of commits without changes selects nothing, and that is fine.
            Error::Empty { git_only: true, .. } => Self::Done,
            Error::Empty { .. } => Self::NothingSelected,
            Error::Drift(_) => Self::Stale,
            Error::Locked { .. } => Self::Locked,
            Error::Unconfirmed(_) => Self::Unconfirmed,
            _ => Self::Failed,
        }
    }

    /// The table as Markdown.
    pub fn markdown() -> String {
        let mut text = String::from(
            "# Exit codes\n\nOne table for every command; a code means the same everywhere.\n\n\
             | code | name | meaning |\n| --- | --- | --- |\n",
        );
        for (code, name, meaning) in Self::ALL.map(Self::row) {
            let _ = writeln!(text, "| {code} | `{name}` | {meaning} |");
        }
        text.push_str(
            "\n## Failures for programs\n\n\
             With `-o json`, `-o yaml` or `--log-format json`, a failure is one JSON object in one line on standard error\n\
             instead of a text ([schema](failure.schema.json)):\n\n\
             ```json\n\
             {\"error\": {\"id\": \"invalid\", \"message\": \"unknown key `replica`\", \"file\": \"release.yaml\", \"line\": 4, \"column\": 3,\n\
             \x20          \"hint\": \"did you mean `replicas`?\", \"exitCode\": 10, \"causes\": [], \"problems\": [...]}}\n\
             ```\n\n\
             `id` is the code of the first problem where there is one (`ST020`, `RB-V07`), otherwise the name of the exit code. `problems`\n\
             has everything that is wrong with files and input, `causes` the chain of causes of any other failure.\n\n\
             The object comes with every code but 0, 2 and 3, as the last line of standard error. A command that judges (`lint`, `unit verify`,\n\
             `gate test`, `plan` with policies) prints its findings as [data](data.md) first. An interrupted run says so too: `id` is\n\
             `interrupted` or `terminated`.\n\n\
             ```sh example\n\
             slipway plan web ./nowhere -o json 2> failure.json || jq -r '.error | \"\\(.exitCode) \\(.id): \\(.message)\"' failure.json\n\
             ```\n\n\
             ## Output that cannot be written\n\n\
             What cannot be shown does not end a run: a release, stack or runbook is carried out and recorded\n\
             whatever becomes of its output. When standard output cannot be written (a full disk), a command that\n\
             otherwise succeeded ends with 1. A reader that left (`| head`) is no failure, and neither is standard\n\
             error that cannot be written. A stream that was closed before the start (`>&-`) counts as `/dev/null`.\n\
             A reader that stops reading holds up data, never a run: messages wait in memory, then are left out,\n\
             and a signal ends the run as always. A closed terminal (SIGHUP) ends a run as SIGTERM does, unless it\n\
             was started with `nohup`.\n",
        );
        text
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// Marks a failure as the user's way of calling, not of the work itself.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct UsageError(pub Problems);

/// Marks work that ended because the user wanted it to.
#[derive(Debug, thiserror::Error)]
#[error("stopped; nothing was changed")]
pub struct InterruptedError;

/// A run that a signal ended, with the failure it ended by.
#[derive(Debug, thiserror::Error)]
#[error("stopped by a signal")]
pub struct StoppedRun(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// Policy files that cannot be read or are wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PolicyFileError(pub Problems);

/// Plans that policies deny.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct PolicyRefusal(pub Problems);

/// Marks a failure to get hold of a secret.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SecretError(pub Problem);

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use slipway_problem::Location;

    use super::*;

    #[test]
    fn every_code_is_in_the_table_once_and_in_the_help() {
        let codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
        assert_eq!(codes, [0, 1, 2, 3, 10, 11, 12, 13, 14, 15, 16, 17, 64, 130, 143]);
        let help = crate::cli::Cli::command().render_long_help().to_string();
        for code in codes {
            assert!(
                help.contains(&format!("{code} ")) || help.contains(&format!("{code}/")),
                "{code}: {help}"
            );
        }
    }

    #[test]
    fn failures_have_the_code_of_their_kind() {
        let problem = || Problem::error("wrong");
        let located_release =
            slipway_release::Failure::Problems(problem().at(Location::in_text("web.yaml", "", 0)).into());
        for (failure, expected) in [
            (anyhow::anyhow!("any"), Exit::Failed),
            (problem().into(), Exit::Failed),
            (problem().at(Location::file("web.yaml")).into(), Exit::Invalid),
            (problem().at(Location::in_text("web.yaml", "", 0)).into(), Exit::Invalid),
            (Problems::from(problem().at(Location::in_text("web.yaml", "", 0))).into(), Exit::Invalid),
            (slipway_release::Failure::Problems(problem().into()).into(), Exit::Failed),
            (located_release.into(), Exit::Invalid),
            (slipway_release::Failure::Source(problem().into()).into(), Exit::Invalid),
            (slipway_chart::ChartError::Template("parse error".into()).into(), Exit::Invalid),
            (slipway_chart::ChartError::Denied("401".into()).into(), Exit::Failed),
            (UsageError(problem().into()).into(), Exit::Usage),
            (anyhow::Error::from(SecretError(problem())).context("render"), Exit::SecretMissing),
            (slipway_release::Failure::Stale(problem().into()).into(), Exit::Stale),
            (slipway_release::Failure::Locked("held".into()).into(), Exit::Locked),
            (slipway_release::Failure::Refused(problem().into()).into(), Exit::Refused),
            (PolicyRefusal(problem().into()).into(), Exit::Refused),
            (PolicyFileError(problem().into()).into(), Exit::Invalid),
            (slipway_unit::UnitError::NotReproduced(Vec::new()).into(), Exit::Stale),
            (slipway_unit::UnitError::NoEvidence(Problem::error("never").into()).into(), Exit::Refused),
            (slipway_unit::UnitError::Locked("held".into()).into(), Exit::Locked),
            (slipway_release::Failure::NotFound("web".into()).into(), Exit::Failed),
            (slipway_stack::Error::from(problem()).into(), Exit::Invalid),
            (slipway_chart::ChartError::Secret("no key fits".into()).into(), Exit::SecretMissing),
            (slipway_chart::ChartError::Publish("gone".into()).into(), Exit::Failed),
            (slipway_secrets::SecretsError::Invalid(Problems::from(problem()).into()).into(), Exit::Invalid),
            (slipway_secrets::SecretsError::Refused(Problems::from(problem()).into()).into(), Exit::Refused),
            (slipway_secrets::SecretsError::Unresolved(Vec::new()).into(), Exit::SecretMissing),
        ] {
            assert_eq!(Exit::of(&failure), expected, "{failure:#}");
        }
    }
}
