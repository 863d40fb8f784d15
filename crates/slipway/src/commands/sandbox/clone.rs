//! `slipway sandbox clone`: a live cluster's objects, copied for rehearsals.

use std::collections::BTreeMap;

use anyhow::Context;
use indicatif::{ProgressBar, ProgressStyle};
use slipway_problem::Problem;
use slipway_sandbox::clone::{self, CloneError, CloneProgress, CloneReport, CloneSelection, SecretHandling};

use super::place::Place;
use super::steer;
use crate::connect;
use crate::exit::Exit;
use crate::session::Session;
use crate::term::show;
use crate::term::table::Table;

#[derive(Debug, clap::Args)]
pub struct CloneArgs {
    /// Context of the kubeconfig to copy from; the current one unless given
    #[arg(long, value_name = "NAME", conflicts_with = "context")]
    from_context: Option<String>,

    /// Only objects with these labels
    #[arg(short = 'l', long, value_name = "SELECTOR")]
    selector: Option<String>,

    /// Only these kinds, as kubectl names them
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<String>,

    /// Copy the values of Secrets instead of replacing them
    #[arg(long)]
    with_secrets: bool,

    /// Empty the sandbox before
    #[arg(long)]
    reset: bool,
}

pub async fn run(args: &CloneArgs, place: &Place, session: &Session) -> anyhow::Result<Exit> {
    let source = session.connect_to_context(&session.settings, args.from_context.as_deref()).await?;
    let target = place.ensure()?;
    if source.server.ends_with(&format!("://{}", target.address)) {
        return Err(Problem::error("the cluster to copy from is the sandbox itself")
            .hint("name another one with --from-context or --kubeconfig")
            .into());
    }
    let namespaces = session.settings.namespace.value.as_deref().unwrap_or("");
    let selection = CloneSelection {
        namespaces: namespaces.split(',').filter(|n| !n.is_empty()).map(str::to_owned).collect(),
        labels: args.selector.clone(),
        kinds: args.kinds.clone(),
        objects: None,
        secrets: if args.with_secrets { SecretHandling::Copied } else { SecretHandling::Replaced },
    };
    let bar = bar(session);
    let collected = clone::collect(&source.cluster.client(), &selection, &mut |step| match step {
        CloneProgress::Kinds(kinds) => bar.set_length(kinds as u64),
        CloneProgress::Read { resource, objects } => {
            tracing::info!("read {objects} {resource}");
            bar.set_message(resource);
            bar.inc(1);
        }
    })
    .await;
    bar.finish_and_clear();
    let collected = collected.map_err(|error| explain(error, &source.server))?;
    if args.reset {
        steer::call(session, place, "POST", "reset", Vec::new()).await?;
    }
    let body = serde_json::to_vec(&collected)?;
    let said = steer::call(session, place, "POST", "import", body).await?;
    let report: CloneReport = serde_json::from_value(said).context("read the sandbox's answer")?;
    show(&report, session)?;
    Ok(Exit::Done)
}

fn bar(session: &Session) -> ProgressBar {
    let bar = if session.is_quiet() { ProgressBar::hidden() } else { ProgressBar::new(0) };
    // The template is ours and right.
    if let Ok(style) = ProgressStyle::with_template("  reading {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}

fn explain(error: CloneError, server: &str) -> anyhow::Error {
    match error {
        CloneError::UnknownKind { kind, known } => Problem::error(format!("the cluster serves no `{kind}`"))
            .did_you_mean(&kind, known.iter().map(String::as_str))
            .into(),
        CloneError::Discovery(why) => connect::explain(*why, &format!("ask {server} what it serves")),
        CloneError::Read { what, why } => connect::explain(*why, &format!("read {what}")),
    }
}

/// What was copied on standard output, what was not on standard error.
fn show(report: &CloneReport, session: &Session) -> anyhow::Result<()> {
    show::show(session.output(), report, |report| {
        let mut table = Table::new(&["kind", "copied"]);
        for (kind, count) in &report.copied {
            table.row([kind.clone(), count.to_string()]);
        }
        table.render()
    })?;
    if session.is_quiet() {
        return Ok(());
    }
    if report.secrets_replaced > 0 {
        say!("values of {} Secrets were replaced; --with-secrets copies them", report.secrets_replaced);
    }
    if report.finalizers_dropped > 0 {
        say!(
            "{} finalizers were left out: nobody in the sandbox would remove them",
            report.finalizers_dropped
        );
    }
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for skipped in &report.skipped {
        // Which owner makes an object anew is of interest one by one only.
        let reason = if skipped.made_anew_by.is_some() { "its owner makes it anew" } else { &skipped.reason };
        *reasons.entry(reason).or_default() += 1;
        tracing::info!("left out {}: {}", skipped.object, skipped.reason);
    }
    for (reason, count) in reasons {
        say!("{count} left out: {reason}");
    }
    for (what, why) in &report.unreadable {
        say!("warning: {what} could not be read: {why}");
    }
    Ok(())
}
