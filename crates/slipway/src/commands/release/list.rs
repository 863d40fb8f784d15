//! `slipway list`: the releases of a namespace, or of all.

use slipway_cluster::connect::Connection;
use slipway_cluster::helm::StorageScope;
use slipway_problem::{Location, Problem};
use slipway_release::inspect::{self, ReleaseRow};

use super::flags::StorageFlag;
use super::text::{moment, moment_in_layout, rows_text};
use super::{connect, fail};
use crate::cli::Output;
use crate::exit::{Exit, UsageError};
use crate::session::Session;
use crate::term::show;
use crate::term::table::without_heads;

/// List releases
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Look in all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,

    /// Show names alone
    #[arg(long)]
    short: bool,

    /// Show only names that a regular expression matches
    #[arg(short, long, value_name = "REGEX")]
    filter: Option<String>,

    /// Show only releases whose record has these labels: `team=shop`
    #[arg(short = 'l', long, value_name = "LABELS", default_value = "", hide_default_value = true)]
    selector: String,

    /// Sort by the time of the last deployment instead of by name
    #[arg(short, long)]
    date: bool,

    /// Sort the other way round
    #[arg(short, long)]
    reverse: bool,

    /// Show at most this many; 0 for all
    #[arg(short, long, value_name = "N", default_value_t = 256)]
    max: usize,

    /// Leave out this many first
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: usize,

    /// Layout of times, as Go writes the second of January 2006: `2006-01-02 15:04:05`
    #[arg(long, value_name = "LAYOUT")]
    time_format: Option<String>,

    /// Leave out the line of headings
    #[arg(long)]
    no_headers: bool,

    /// Of every status is what is shown anyway; accepted for hands used to Helm
    #[arg(short, long, hide = true)]
    all: bool,

    #[command(flatten)]
    storage: StorageFlag,

    #[command(flatten)]
    statuses: StatusFlags,
}

/// Which statuses are shown; all unless one is named.
#[derive(Debug, clap::Args)]
struct StatusFlags {
    /// Show deployed ones; several such flags add up
    #[arg(long)]
    deployed: bool,

    /// Show failed ones
    #[arg(long)]
    failed: bool,

    /// Show those under way
    #[arg(long)]
    pending: bool,

    /// Show superseded ones
    #[arg(long)]
    superseded: bool,

    /// Show uninstalled ones that keep their history
    #[arg(long)]
    uninstalled: bool,

    /// Show those being uninstalled
    #[arg(long)]
    uninstalling: bool,
}

impl StatusFlags {
    fn shows(&self, status: &str) -> bool {
        let asked = [
            (self.deployed, "deployed"),
            (self.failed, "failed"),
            (self.pending, "pending"),
            (self.superseded, "superseded"),
            (self.uninstalled, "uninstalled"),
            (self.uninstalling, "uninstalling"),
        ];
        let shown = status.split('-').next().unwrap_or_default();
        asked.iter().all(|(is_asked, _)| !is_asked) || asked.contains(&(true, shown))
    }
}

impl ListArgs {
    /// The rows the user wants, in the order wanted.
    fn choose(&self, mut rows: Vec<ReleaseRow>) -> anyhow::Result<Vec<ReleaseRow>> {
        if let Some(filter) = &self.filter {
            let regex = regex::Regex::new(filter).map_err(|error| {
                // The last line says why; those before draw the place.
                let drawn = error.to_string();
                let why = drawn.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let problem = Problem::error(format!("`{filter}` is not a regular expression: {why}"));
                let problem = problem.hint("write it as Go does: `^web-`, `api|web`");
                UsageError(problem.at(Location::file("--filter")).into())
            })?;
            rows.retain(|row| regex.is_match(&row.name));
        }
        rows.retain(|row| self.statuses.shows(&row.status));
        if self.date {
            rows.sort_by(|a, b| a.updated.cmp(&b.updated));
        } else {
            rows.sort_by(|a, b| (&a.name, &a.namespace).cmp(&(&b.name, &b.namespace)));
        }
        if self.reverse {
            rows.reverse();
        }
        let most = if self.max == 0 { usize::MAX } else { self.max };
        Ok(rows.into_iter().skip(self.offset).take(most).collect())
    }
}

pub fn list(args: &ListArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let Connection { cluster, namespace, .. } = connect(session).await?;
        let scope = if args.all_namespaces { StorageScope::Everywhere } else { StorageScope::Namespace };
        let found =
            inspect::list_releases(&cluster, args.storage.driver(), &namespace, scope, &args.selector).await;
        let mut rows = args.choose(found.map_err(fail)?)?;
        if let Some(layout) = &args.time_format {
            rows.iter_mut().for_each(|row| row.updated = moment_in_layout(&row.updated, layout));
        }
        if rows.is_empty() && session.output() == Output::Table && !session.is_quiet() {
            let place = match scope {
                StorageScope::Everywhere => "in any namespace".to_owned(),
                StorageScope::Namespace => format!("in namespace {namespace}; -A looks in all of them"),
            };
            say!("no releases {place}");
        }
        if args.short {
            let names: String = rows.iter().map(|row| format!("{}\n", row.name)).collect();
            show::print(&names)?;
        } else {
            show::show(session.output(), &rows, |rows| {
                let text = match &args.time_format {
                    Some(_) => rows_text(rows, true, str::to_owned),
                    None => rows_text(rows, true, moment),
                };
                if args.no_headers { without_heads(&text) } else { text }
            })?;
        }
        Ok(Exit::Done)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: ListArgs,
    }

    #[test]
    fn what_is_wanted_is_listed() {
        let row = |name: &str, status: &str, updated: &str| ReleaseRow {
            name: name.into(),
            namespace: "n".into(),
            revision: 1,
            updated: updated.into(),
            status: status.into(),
            chart: String::new(),
            app_version: String::new(),
            description: String::new(),
        };
        let rows = || {
            vec![
                row("b", "deployed", "2026-01-01"),
                row("a", "failed", "2026-01-03"),
                row("c", "pending-upgrade", "2026-01-02"),
            ]
        };
        for (words, names) in [
            (&[][..], "a b c"),
            (&["-d"], "b c a"),
            (&["--reverse", "--max", "2"], "c b"),
            (&["--offset", "1"], "b c"),
            (&["--failed", "--pending"], "a c"),
            (&["--deployed"], "b"),
            (&["-f", "^[bc]$", "-m", "0"], "b c"),
        ] {
            let line = Line::parse_from([&["list"], words].concat());
            let chosen = line.args.choose(rows()).expect("are chosen");
            let chosen: Vec<&str> = chosen.iter().map(|row| row.name.as_str()).collect();
            assert_eq!(chosen.join(" "), names, "{words:?}");
        }
        assert!(Line::parse_from(["list", "-f", "(["]).args.choose(rows()).is_err());
    }
}
