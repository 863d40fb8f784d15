//! `slipway bundle list|show|delete`.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use slipway_cluster::{DeletePropagation, ListOptions};
use slipway_problem::{Problem, nearest_name};
use slipway_promotion::bundle::compare_age;
use slipway_promotion::kinds::{
    self, Bundle, BundleEnvironmentStatus, BundlePhase, BundleSpec, BundleType, Intent, Provenance,
};
use slipway_promotion::view::{BundleOverview, age_text};

use crate::commands::promotion::{Place, connect, explain};
use crate::exit::Exit;
use crate::session::Session;
use crate::term::table::Table;
use crate::term::{prompt, show};

#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// The pipeline; all of them unless given
    pipeline: Option<String>,

    /// Only those under way
    #[arg(long)]
    active: bool,

    /// In all namespaces
    #[arg(short = 'A', long)]
    all_namespaces: bool,
}

pub fn run(args: &ListArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let namespace = (!args.all_namespaces).then_some(place.namespace.as_str());
        let all = kinds::list::<BundleSpec>(&place.cluster, namespace, &ListOptions::default()).await;
        let mut bundles = all.map_err(explain)?;
        bundles.retain(|bundle| args.pipeline.as_deref().is_none_or(|name| bundle.pipeline() == Some(name)));
        bundles.retain(|bundle| !args.active || !bundle.phase().is_terminal());
        bundles.sort_by(|one, two| compare_age(two, one));
        let rows: Vec<BundleOverview> = bundles.iter().map(BundleOverview::from).collect();
        let now = Timestamp::now();
        show::show(session.output(), &rows, |rows| table(rows, args, now))?;
        Ok(Exit::Done)
    })
}

fn table(rows: &[BundleOverview], args: &ListArgs, now: Timestamp) -> String {
    if rows.is_empty() {
        return "there are no bundles; `slipway bundle create` makes one\n".to_owned();
    }
    let mut heads = if args.all_namespaces { vec!["namespace"] } else { Vec::new() };
    heads.push("bundle");
    if args.pipeline.is_none() {
        heads.push("pipeline");
    }
    heads.extend(["type", "version", "phase", "commit", "author", "envs", "age"]);
    let mut table = Table::new(&heads);
    for row in rows {
        let dash = || "-".to_owned();
        let mut cells = if args.all_namespaces { vec![row.namespace.clone()] } else { Vec::new() };
        cells.push(row.name.clone());
        if args.pipeline.is_none() {
            cells.push(row.pipeline.clone().unwrap_or_else(dash));
        }
        let environments = row.environments.iter().map(|(name, state)| format!("{name}={state:?}"));
        let environments = environments.collect::<Vec<_>>().join(" ");
        cells.extend([
            format!("{:?}", row.kind).to_lowercase(),
            row.version.clone(),
            format!("{:?}", row.phase),
            row.commit_sha.as_ref().map_or_else(dash, |sha| sha.chars().take(8).collect()),
            row.author.clone().unwrap_or_else(dash),
            if environments.is_empty() { dash() } else { environments },
            age_text(row.created_at, now),
        ]);
        table.row(cells);
    }
    table.render()
}

/// Finds a bundle by its name.
async fn find(place: &Place, name: &str) -> anyhow::Result<Bundle> {
    let found = kinds::get::<BundleSpec>(&place.cluster, &place.namespace, name).await.map_err(explain)?;
    if let Some(bundle) = found {
        return Ok(bundle);
    }
    let options = ListOptions::default();
    let known =
        kinds::list::<BundleSpec>(&place.cluster, Some(&place.namespace), &options).await.unwrap_or_default();
    let problem = Problem::error(format!("there is no bundle `{name}` in namespace {}", place.namespace));
    let nearest = nearest_name(name, known.iter().map(Bundle::name));
    Err(match nearest {
        Some(nearest) => problem.hint(format!("did you mean `{nearest}`?")),
        None => problem.hint("`slipway bundle list` shows what there is"),
    }
    .into())
}

#[derive(Debug, clap::Args)]
pub struct ShowArgs {
    /// The bundle
    bundle: String,
}

/// A bundle with everything known of it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BundleView<'a> {
    name: String,
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pipeline: Option<String>,
    #[serde(rename = "type")]
    kind: BundleType,
    version: String,
    phase: BundlePhase,
    /// The reason it is in this phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(rename = "commitSHA", skip_serializing_if = "Option::is_none")]
    commit_sha: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    author: Option<String>,
    images: Vec<String>,
    environments: &'a BTreeMap<String, BundleEnvironmentStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    created_at: Option<Timestamp>,
    pinned: bool,
    rollback: bool,
    emergency: bool,
    provenance: Option<&'a Provenance>,
    intent: Option<&'a Intent>,
}

impl<'a> BundleView<'a> {
    fn new(bundle: &'a Bundle) -> Self {
        let overview = BundleOverview::from(bundle);
        Self {
            name: overview.name,
            namespace: overview.namespace,
            pipeline: overview.pipeline,
            kind: overview.kind,
            version: overview.version,
            phase: overview.phase,
            reason: overview.reason,
            message: overview.message,
            commit_sha: overview.commit_sha,
            author: overview.author,
            images: overview.images,
            environments: &bundle.status.environments,
            created_at: overview.created_at,
            pinned: overview.pinned,
            rollback: overview.rollback,
            emergency: overview.emergency,
            provenance: bundle.spec.provenance.as_ref(),
            intent: bundle.spec.intent.as_ref(),
        }
    }
}

pub fn show_bundle(args: &ShowArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on_reading(async {
        let place = connect(session).await?;
        let bundle = find(&place, &args.bundle).await?;
        let value = BundleView::new(&bundle);
        show::show(session.output(), &value, |_| text(&bundle))?;
        Ok(Exit::Done)
    })
}

fn text(bundle: &Bundle) -> String {
    let overview = BundleOverview::from(bundle);
    let mut text = String::new();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            text.push_str(&format!("{:<11} {value}\n", format!("{name}:")));
        }
    };
    line("Bundle", Some(overview.name));
    line("Pipeline", overview.pipeline);
    line("Version", Some(overview.version));
    let why = overview.message.map(|message| format!(" ({message})")).unwrap_or_default();
    line("Phase", Some(format!("{:?}{why}", overview.phase)));
    line("Images", Some(overview.images.join(", ")));
    let commit = bundle.spec.artifacts.git_commit.as_ref();
    line("Config", commit.map(|commit| format!("{} of {}", commit.sha, commit.repository)));
    line("Commit", overview.commit_sha);
    line("Author", overview.author);
    let provenance = bundle.spec.provenance.clone().unwrap_or_default();
    line("CI run", provenance.ci_run_url);
    line("Takes back", provenance.rollback_of);
    let marks =
        [(overview.pinned, "pinned"), (overview.rollback, "rollback"), (overview.emergency, "emergency")];
    let marks: Vec<&str> = marks.iter().filter(|(is, _)| *is).map(|(_, word)| *word).collect();
    line("Marks", Some(marks.join(", ")));
    let mut table = Table::new(&["environment", "state", "since", "pr", "approved by", "reason"]);
    for (name, record) in &bundle.status.environments {
        let dash = || "-".to_owned();
        let since = record.verified_at.or(record.failed_at).or(record.promoted_at).or(record.started_at);
        let approvers = record.evidence.as_ref().map(|evidence| evidence.approved_by.join(", "));
        let state = if record.skipped {
            Some("Skipped".to_owned())
        } else {
            record.state.map(|state| format!("{state:?}"))
        };
        table.row([
            name.clone(),
            state.unwrap_or_else(dash),
            since.map_or_else(dash, |at| at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            record.pr_url.clone().unwrap_or_else(dash),
            approvers
                .filter(|names| !names.is_empty())
                .or_else(|| record.merged_by.clone())
                .unwrap_or_else(dash),
            record.reason.clone().unwrap_or_default(),
        ]);
    }
    if !bundle.status.environments.is_empty() {
        text.push('\n');
        text.push_str(&table.render());
    }
    text
}

#[derive(Debug, clap::Args)]
pub struct DeleteArgs {
    /// The bundle
    bundle: String,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,
}

/// A bundle that was deleted.
#[derive(Serialize, JsonSchema)]
pub struct DeletedBundle<'a> {
    deleted: &'a str,
}

pub fn delete(args: &DeleteArgs, session: &Session) -> anyhow::Result<Exit> {
    session.block_on(async {
        let place = connect(session).await?;
        let bundle = find(&place, &args.bundle).await?;
        if !args.yes && !bundle.phase().is_terminal() {
            let question =
                format!("{} is under way; delete it and close its pull requests? [y/N] ", args.bundle);
            let agreed = prompt::ask(&question, &session.events(), |answer| {
                let is_yes = answer.is_some_and(|answer| matches!(answer.trim(), "y" | "Y" | "yes"));
                if is_yes { Ok(()) } else { Err(()) }
            });
            if agreed.is_err() {
                say!("nothing was deleted; `--yes` does not ask");
                return Ok(Exit::Unconfirmed);
            }
        }
        kinds::delete(&place.cluster, &bundle, DeletePropagation::Background).await.map_err(explain)?;
        let value = DeletedBundle { deleted: bundle.name() };
        show::show(session.output(), &value, |_| format!("Bundle \"{}\" deleted\n", bundle.name()))?;
        Ok(Exit::Done)
    })
}
