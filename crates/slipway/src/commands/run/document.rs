//! The flags that say which runbook, and with which variables.

use std::path::PathBuf;

use slipway_problem::Problems;
use slipway_runbook::{Diagnostics, DollarEscape, Inputs, LoadOptions, LoadedDocument, Variables};

use crate::commands::secrets::flags::ReferenceFlags;
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::exit::UsageError;
use crate::files::{self, TextError};
use crate::help::Usual;
use crate::session::Session;

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Runbook options")]
pub struct Flags {
    /// The runbook; `-` for standard input
    #[arg(short, long, value_name = "FILE", add = Usual)]
    file: PathBuf,

    /// Give a variable a value; repeat for more
    #[arg(long, value_name = "NAME=VALUE", add = Usual)]
    set: Vec<String>,

    /// Take variables from a YAML file; repeat for more, later ones win
    #[arg(long, value_name = "FILE")]
    var_file: Vec<PathBuf>,

    /// Environment variables that start with this are variables
    #[arg(long, value_name = "PREFIX", default_value = "KHOOK_VAR_")]
    var_prefix: String,

    /// Environment variables that start with this are secret variables
    #[arg(long, value_name = "PREFIX", default_value = "KHOOK_SECRET_")]
    secret_prefix: String,

    /// Refuse values that change the structure of the document
    #[arg(long)]
    strict_vars: bool,

    /// Read `$${` as a literal `${`
    #[arg(long)]
    escape_dollar: bool,

    /// Treat warnings as errors
    #[arg(long)]
    warnings_as_errors: bool,

    /// Where relative paths start; the runbook's own directory unless told
    #[arg(short = 'C', long, value_name = "DIR")]
    chdir: Option<PathBuf>,

    #[command(flatten)]
    references: ReferenceFlags,
}

/// What came of reading a runbook.
pub struct Read {
    pub name: String,
    pub result: Result<LoadedDocument, Diagnostics>,
}

impl Flags {
    /// Where the runbook's relative paths start.
    pub fn base(&self) -> PathBuf {
        self.chdir.clone().unwrap_or_else(|| super::connection::directory(&self.file))
    }

    /// The resolver of `${secret://…}` in the runbook.
    pub fn resolver(
        &self,
        mode: ReferenceMode,
        command: &'static str,
        session: &Session,
    ) -> ReferenceResolver {
        ReferenceResolver::new(&self.references, mode, command, session).at(self.base()).with_interpolation()
    }

    /// Reads the runbook.
    pub fn read(&self, session: &Session) -> anyhow::Result<Read> {
        let text = files::try_read_text(&self.file).map_err(|error| {
            let problem = match error {
                TextError::Unreadable(problem) => problem.code("E001"),
                TextError::NotText(problem) => problem.code("E002"),
            };
            UsageError(problem.into())
        })?;
        let mut problems = Problems::new();
        let mut var_files = Vec::new();
        for path in &self.var_file {
            let read = files::read_text(path).map_err(|problem| problem.code("E104"));
            var_files.extend(problems.collect_from(read).map(|file| (file.name, file.text)));
        }
        if self.var_prefix == self.secret_prefix {
            let message = "--var-prefix and --secret-prefix are the same";
            problems.push(slipway_problem::Problem::error(message).code("E106"));
        }
        let inputs = Inputs {
            set: self.set.clone(),
            files: var_files,
            environment: crate::config::environment(),
            prefix: self.var_prefix.clone(),
            secret_prefix: self.secret_prefix.clone(),
        };
        let variables = problems.collect_from(Variables::gather(&inputs)).unwrap_or_default();
        if problems.has_errors() {
            return Err(UsageError(problems).into());
        }
        let options = LoadOptions {
            escape: if self.escape_dollar { DollarEscape::On } else { DollarEscape::Off },
            strict_variables: self.strict_vars,
            warnings_as_errors: self.warnings_as_errors,
        };
        let result = slipway_runbook::load(&text.name, &text.text, &variables, options, session.redactor());
        Ok(Read { name: text.name, result })
    }

    /// Reads the runbook and stops if anything is wrong with it.
    pub fn load(&self, session: &Session) -> anyhow::Result<LoadedDocument> {
        Ok(self.read(session)?.result.map_err(|found| UsageError(found.into_problems()))?)
    }
}
