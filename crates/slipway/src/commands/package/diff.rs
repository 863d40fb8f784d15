//! `slipway package diff`: two packages, or one with two sets of parameters.

use std::fmt::Write as _;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use slipway_manifest::ObjectId;
use slipway_package::{BuildDiff, EmitOptions, PackageBuild, show_segs};
use slipway_problem::Problem;

use super::flags::{CheckFlags, LoadFlags, ParameterFlags, Sides, resolved};
use crate::cli::Output;
use crate::commands::secrets::flags::ReferenceFlags;
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::style::{ADDED, DIM, REMOVED, paint};
use crate::term::{diff, show};

/// With parameters alone: what they change. With another package: both are built with them. With
/// `--against`: those before it against those after it.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The package's directory
    #[arg(value_name = "PACKAGE")]
    package: PathBuf,

    /// Another package or another version of it
    #[arg(value_name = "OTHER")]
    other: Option<PathBuf>,

    /// Show lines that differ instead of fields
    #[arg(long)]
    unified: bool,

    #[command(flatten)]
    loading: LoadFlags,

    #[command(flatten)]
    sides: Sides,

    #[command(flatten)]
    checks: CheckFlags,

    #[command(flatten)]
    references: ReferenceFlags,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let none = ParameterFlags::default();
    let Sides { before, after } = &args.sides;
    let (first, second) = match (&args.other, after) {
        (_, Some(after)) => (before, after),
        (Some(_), None) => (before, before),
        (None, None) if args.sides.is_empty() => {
            let problem = Problem::error("there is nothing to compare with")
                .hint("name another package, or parameters with -f, --set and --against");
            return Err(UsageError(problem.into()).into());
        }
        (None, None) => (&none, before),
    };
    let references = ReferenceResolver::new(&args.references, ReferenceMode::Show, "package diff", session);
    let built = |package: &PathBuf, parameters: &ParameterFlags| -> anyhow::Result<PackageBuild> {
        let inputs = resolved(parameters.inputs(&args.checks)?, &references)?;
        Ok(args.loading.load(package)?.build(&inputs)?)
    };
    let (old, new) =
        (built(&args.package, first)?, built(args.other.as_ref().unwrap_or(&args.package), second)?);
    let difference = old.diff(&new);
    if args.unified && session.output() == Output::Table {
        show::print(&diff::unified(
            &old.stream(EmitOptions::default()),
            &new.stream(EmitOptions::default()),
        ))?;
    } else {
        show::show(session.output(), &data(&difference), |_| text(&difference))?;
    }
    Ok(if difference.is_empty() { Exit::Done } else { Exit::Failed })
}

/// The difference between two builds.
#[derive(Serialize, JsonSchema)]
pub struct PackageDifference {
    added: Vec<String>,
    removed: Vec<String>,
    changed: Vec<ChangedPackageObject>,
}

/// An object that is in both builds and differs.
#[derive(Serialize, JsonSchema)]
struct ChangedPackageObject {
    object: String,
    fields: Vec<ChangedPackageField>,
}

/// A field that differs; null where a build does not have it.
#[derive(Serialize, JsonSchema)]
struct ChangedPackageField {
    path: String,
    old: Option<Value>,
    new: Option<Value>,
}

fn data(difference: &BuildDiff) -> PackageDifference {
    let ids = |ids: &[ObjectId]| ids.iter().map(ToString::to_string).collect::<Vec<_>>();
    let changed = difference.changed.iter().map(|(id, changes)| {
        let fields = changes.iter().map(|change| ChangedPackageField {
            path: show_segs(&change.path),
            old: change.old.clone(),
            new: change.new.clone(),
        });
        ChangedPackageObject { object: id.to_string(), fields: fields.collect() }
    });
    PackageDifference {
        changed: changed.collect(),
        added: ids(&difference.added),
        removed: ids(&difference.removed),
    }
}

fn text(difference: &BuildDiff) -> String {
    let mut text = String::new();
    for id in &difference.removed {
        let _ = writeln!(text, "{}", paint(REMOVED, format!("- {id}")));
    }
    for id in &difference.added {
        let _ = writeln!(text, "{}", paint(ADDED, format!("+ {id}")));
    }
    for (id, changes) in &difference.changed {
        let _ = writeln!(text, "~ {id}");
        for change in changes {
            let shown = |value: &Option<Value>| {
                value.as_ref().map_or_else(|| "(none)".to_owned(), ToString::to_string)
            };
            let _ = writeln!(
                text,
                "    {}: {} {} {}",
                show_segs(&change.path),
                paint(REMOVED, shown(&change.old)),
                paint(DIM, "->"),
                paint(ADDED, shown(&change.new))
            );
        }
    }
    text
}
