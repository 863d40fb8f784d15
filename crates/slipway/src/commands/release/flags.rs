//! Flags several release commands share.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slipway_chart::Notices;
use slipway_cluster::Cluster;
use slipway_cluster::helm::StorageDriver;
use slipway_release::plan::{PruneOrder, read_situation};
use slipway_release::resource::Propagation;
use slipway_release::show::ViewOptions;
use slipway_release::{ExecuteOptions, PlanOptions, PolicyCheck, ReleaseContent, ReleaseRequest, RunTimeout};
use slipway_secrets::{NodeContext, PolicyTarget};
use slipway_source::{LoadedSource, OfflineFetcher, RenderSettings, SourceRequest};

use crate::charts;
use crate::commands::flags::{DefaultsFlags, NameFlags, RootFlags, SourceFlags, ValueFlags, notes};
use crate::commands::host::RenderHost;
use crate::commands::inputs::{PostRenderFlags, SecretFlags, TemplateFlags};
use crate::commands::metadata::{MetadataFlags, pairs};
use crate::commands::policy::PolicyFlags;
use crate::commands::secrets::flags::ReferenceFlags;
use crate::commands::secrets::resolution::ReferenceResolver;
use crate::commands::words::source_word;
use crate::config::StorageKind;
use crate::exit::UsageError;
use crate::help::Usual;
use crate::session::Session;

/// What a release is made of.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// The release's name; a saved plan knows it, --generate-name and --name-template make one
    #[arg(required_unless_present_any = ["saved", "generate_name", "name_template"])]
    name: Option<String>,

    /// Chart, package, kustomization or manifests: a path, an archive, `-` for an archive on standard input,
    /// `REPO/NAME`, `oci://…`, an address, or a name with --repo [default: this directory, if it is a chart, package or
    /// kustomization]
    #[arg(value_name = "SOURCE")]
    reference: Option<String>,

    #[command(flatten)]
    naming: NameFlags,

    #[command(flatten)]
    values: ValueFlags,

    #[command(flatten)]
    root: RootFlags,

    #[command(flatten)]
    defaults: DefaultsFlags,

    /// Begin with the values of the last revision, under those given now
    #[arg(long, alias = "reset-then-reuse-values")]
    reuse_values: bool,

    /// Values of earlier revisions are not used anyway; accepted for hands used to Helm
    #[arg(long, hide = true, conflicts_with = "reuse_values")]
    reset_values: bool,

    #[command(flatten)]
    source: SourceFlags,

    /// Bring in missing dependencies first
    #[arg(long)]
    dependency_update: bool,

    #[command(flatten)]
    pub secrets: SecretFlags,

    #[command(flatten)]
    pub references: ReferenceFlags,

    #[command(flatten)]
    rendering: RenderingFlags,

    #[command(flatten)]
    planning: PlanningFlags,
}

/// How a source is rendered.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Rendering")]
struct RenderingFlags {
    /// Version of what the chart installs, instead of the chart's appVersion
    #[arg(long, value_name = "VERSION")]
    app_version: Option<String>,

    /// Let `getHostByName` ask the name service
    #[arg(long, alias = "templates-allow-dns")]
    enable_dns: bool,

    #[command(flatten)]
    post: PostRenderFlags,

    /// Notes of subcharts as well
    #[arg(long, alias = "show-subchart-notes")]
    render_subchart_notes: bool,

    /// Ignore crds/
    #[arg(long, alias = "no-install-crds")]
    skip_crds: bool,

    /// Do not check values against the chart's schema
    #[arg(long)]
    skip_schema_validation: bool,

    #[command(flatten)]
    templates: TemplateFlags,
}

/// How to plan.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Planning")]
pub struct PlanningFlags {
    /// Take over objects that belong to nobody or to another release
    #[arg(long, alias = "take-ownership")]
    force_adoption: bool,

    /// Leave fields changed with `kubectl edit` alone
    #[arg(long)]
    no_remove_manual_changes: bool,

    /// Do not wait for what nothing comes after
    #[arg(long, visible_alias = "no-wait")]
    no_final_tracking: bool,

    /// What becomes of the dependents of deleted objects, unless an object says
    #[arg(long, value_name = "HOW", default_value = "foreground", ignore_case = true, alias = "cascade")]
    delete_propagation: Cascade,

    /// Label for the record of the revision
    #[arg(long, value_name = "KEY=VALUE")]
    release_labels: Vec<String>,

    /// Note on the revision, kept in its record
    #[arg(long, value_name = "KEY=VALUE")]
    release_info_annotations: Vec<String>,

    /// When removed objects are deleted
    #[arg(long, value_name = "WHEN", default_value = "after")]
    prune_order: Prune,

    /// Leave hooks out
    #[arg(long, add = Usual)]
    no_hooks: bool,

    /// Make a revision even if nothing changed; hooks run again
    #[arg(long)]
    new_revision: bool,

    /// Where a list names something twice, which the server refuses, let the last count
    #[arg(long)]
    normalise: bool,

    #[command(flatten)]
    pub storage: StorageFlag,

    // Groups with a heading of their own come last: what follows one is shown in it.
    #[command(flatten)]
    metadata: MetadataFlags,

    #[command(flatten)]
    pub policy: PolicyFlags,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Prune {
    Before,
    #[default]
    After,
}

#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
enum Cascade {
    /// They go first
    #[default]
    Foreground,
    /// They go afterwards
    Background,
    /// They stay
    Orphan,
}

impl From<Cascade> for Propagation {
    fn from(how: Cascade) -> Self {
        match how {
            Cascade::Foreground => Self::Foreground,
            Cascade::Background => Self::Background,
            Cascade::Orphan => Self::Orphan,
        }
    }
}

/// Where the releases are.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct StorageFlag {
    /// Where releases are kept
    #[arg(long, value_name = "KIND", default_value = "secret", env = "HELM_DRIVER")]
    release_storage: StorageKind,
}

impl StorageFlag {
    pub fn driver(self) -> StorageDriver {
        self.release_storage.into()
    }
}

/// How differences are shown.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Differences")]
pub struct DiffFlags {
    /// Lines around each change
    #[arg(long, value_name = "N", default_value_t = 3)]
    diff_context_lines: usize,

    /// Show changes of field owners and of tools' annotations too
    #[arg(long)]
    show_insignificant_diffs: bool,

    /// Show the values of secrets too
    #[arg(long)]
    pub show_sensitive_diffs: bool,

    /// Show whole custom resource definitions that change
    #[arg(long)]
    show_verbose_crd_diffs: bool,

    /// Show whole objects that are created or deleted
    #[arg(long, value_name = "BOOL", default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    show_verbose_diffs: bool,
}

impl DiffFlags {
    pub fn options(&self) -> ViewOptions {
        ViewOptions {
            context: self.diff_context_lines,
            show_sensitive: self.show_sensitive_diffs,
            show_insignificant: self.show_insignificant_diffs,
            show_verbose_crds: self.show_verbose_crd_diffs,
            show_verbose: self.show_verbose_diffs,
        }
    }
}

/// Whether to stop before anything is written.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct DryRunFlag {
    /// Only show the plan; the cluster is asked in any case, whichever of Helm's words is given
    #[arg(long = "dry-run", value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "server", add = Usual)]
    way: Option<DryRunWay>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum DryRunWay {
    #[value(alias = "true")]
    Client,
    Server,
    #[value(alias = "false")]
    None,
}

impl DryRunFlag {
    pub fn is_set(self) -> bool {
        self.way.is_some_and(|way| way != DryRunWay::None)
    }
}

/// How to carry out.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Running")]
pub struct RunFlags {
    /// Time limit for the whole operation, from its first request on: `5m`, `1h30m`
    #[arg(long, value_name = "TIME", value_parser = timeout, add = Usual)]
    timeout: Option<RunTimeout>,

    /// How many changes are under way at once
    #[arg(long, value_name = "N", default_value = "30")]
    network_parallelism: std::num::NonZeroUsize,

    /// How many revisions are kept; 0 for all
    #[arg(long, value_name = "N", default_value_t = 10, alias = "history-max")]
    release_history_limit: u32,

    /// How long one object may take to become ready, unless its annotation `slipway.dev/ready-timeout` says; 0 for
    /// as long as it takes [default: 5m, or --timeout]
    #[arg(long, value_name = "TIME", value_parser = time)]
    resource_readiness_timeout: Option<Duration>,

    /// How long something outside of the release may take to appear
    #[arg(long, value_name = "TIME", value_parser = time)]
    resource_creation_timeout: Option<Duration>,

    /// How long one object may take to go away
    #[arg(long, value_name = "TIME", value_parser = time)]
    resource_deletion_timeout: Option<Duration>,

    /// Write what was done to a file, as JSON
    #[arg(long, value_name = "FILE")]
    pub save_report_to: Option<PathBuf>,

    /// Write the graph of operations to a file, as Graphviz reads it
    #[arg(long, value_name = "FILE")]
    pub save_graph_to: Option<PathBuf>,

    /// The file for the graph of undoing a run that fails, where the command has such a flag.
    #[arg(skip)]
    pub save_rollback_graph_to: Option<PathBuf>,

    /// Do not show what containers say
    #[arg(long)]
    no_pod_logs: bool,

    /// Do not show the notes
    #[arg(long, alias = "no-notes")]
    pub hide_notes: bool,

    /// Waiting is what this command does; accepted for hands used to Helm
    #[arg(long, hide = true)]
    wait: bool,

    #[arg(long, hide = true)]
    wait_for_jobs: bool,
}

impl RunFlags {
    /// The time limit for the whole operation.
    pub fn timeout(&self) -> Option<&RunTimeout> {
        self.timeout.as_ref().filter(|time| !time.duration().is_zero())
    }

    pub fn options(&self) -> ExecuteOptions {
        ExecuteOptions {
            parallelism: self.network_parallelism.get(),
            timeout: self.timeout().cloned(),
            history_limit: self.release_history_limit,
            readiness_timeout: self.resource_readiness_timeout,
            presence_timeout: self.resource_creation_timeout.filter(|time| !time.is_zero()),
            deletion_timeout: self.resource_deletion_timeout.filter(|time| !time.is_zero()),
            logs: !self.no_pod_logs,
            ..ExecuteOptions::default()
        }
    }
}

/// Reads a time limit that is printed as it was given.
pub fn timeout(text: &str) -> Result<RunTimeout, String> {
    time(text).map(|duration| RunTimeout::new(duration, text))
}

/// Reads a length of time as Go writes it, or in days.
pub fn time(text: &str) -> Result<Duration, String> {
    slipway_go::time::Duration::parse_days(text)
        .ok_or_else(|| "expected a duration such as 1m30s or 3d".to_owned())
}

impl PlanningFlags {
    pub fn options(&self) -> anyhow::Result<PlanOptions> {
        Ok(PlanOptions {
            force_adoption: self.force_adoption,
            keep_manual_changes: self.no_remove_manual_changes,
            no_final_tracking: self.no_final_tracking,
            extra: self.metadata.kept()?,
            runtime: self.metadata.runtime()?,
            prune_order: match self.prune_order {
                Prune::Before => PruneOrder::Before,
                Prune::After => PruneOrder::After,
            },
            driver: self.storage.driver(),
            release_labels: pairs(&self.release_labels)?.into_iter().collect(),
            info_annotations: pairs(&self.release_info_annotations)?.into_iter().collect(),
            propagation: self.delete_propagation.into(),
            no_hooks: self.no_hooks,
            new_revision: self.new_revision,
            normalise: self.normalise,
            ..PlanOptions::default()
        })
    }
}

/// The release as policies on secrets see it.
fn release_node(name: &str, namespace: &str, session: &Session) -> NodeContext {
    let cluster = session.settings.context.value.clone();
    let target = PolicyTarget { cluster, namespace: Some(namespace.to_owned()), ..PolicyTarget::default() };
    NodeContext { node: Some(format!("{namespace}/{name}")), target }
}

impl SourceArgs {
    /// The release's name, if it was given.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The words as they were given: name and source. Where a flag makes the name, the only word is the source.
    fn given_words(&self) -> [Option<&str>; 2] {
        let words = [&self.name, &self.reference].map(Option::as_deref);
        let is_made = self.naming.generate_name || self.naming.name_template.is_some();
        match words {
            [source, None] if is_made => [None, source],
            words => words,
        }
    }

    /// Refuses a command line without a name or a source, before anything is asked of a cluster.
    pub fn check_words(&self, command: &str) -> Result<(), UsageError> {
        let [name, source] = self.given_words();
        source_word(command, name, source).map(drop)
    }

    /// The release's name and its source.
    fn name_and_reference(&self, host: &RenderHost) -> anyhow::Result<(String, String)> {
        let [name, source] = self.given_words();
        let source = source_word("apply", name, source)?;
        let made = self.naming.make_name(name, &source, host)?;
        let name = made.or_else(|| name.map(str::to_owned)).unwrap_or_default();
        Ok((name, source))
    }

    /// The policies the release is held against on the cluster of a context.
    pub fn policy_check(&self, context: Option<String>) -> anyhow::Result<Option<Arc<PolicyCheck>>> {
        self.planning.policy.check(context)
    }

    /// Gets the source here, reads it and says what is wanted of it.
    pub async fn request(
        &self,
        cluster: &Cluster,
        namespace: &str,
        references: &ReferenceResolver,
        session: &Session,
    ) -> anyhow::Result<ReleaseRequest> {
        let host = RenderHost::new(None, self.rendering.enable_dns);
        let (name, reference) = self.name_and_reference(&host)?;
        let options = PlanOptions {
            no_install_crds: self.rendering.skip_crds,
            skip_schema_validation: self.rendering.skip_schema_validation,
            subchart_notes: self.rendering.render_subchart_notes,
            ..self.planning.options()?
        };
        let fetched = charts::fetch(&self.source.request(&reference, self.dependency_update))?;
        notes(&fetched.notes, session);
        let mut values = self.values.collect_with(&self.source.access)?;
        if self.reuse_values {
            let known =
                read_situation(cluster, &name, namespace, options.driver).await.map_err(super::fail)?;
            let last = known.history.last_deployed().or(known.history.last_release());
            values.base = last.map(|release| release.config.clone()).unwrap_or_default();
        }
        let request = SourceRequest {
            values,
            secret_values: self.secrets.secret_values.clone(),
            default_values: self.defaults.values(),
            default_secret_values: self.defaults.secret_values(),
            app_version: self.rendering.app_version.clone(),
            digest: None,
            node: release_node(&name, namespace, session),
            settings: RenderSettings {
                host: Some(Arc::new(host)),
                post_renderer: self.rendering.post.post_renderer(),
                root: self.root.context()?,
                limits: self.rendering.templates.limits(),
                schemas: self.rendering.templates.schemas(),
            },
        };
        let context =
            charts::load_context_with(OfflineFetcher, self.secrets.decryption(), references.clone(), session);
        let loaded = LoadedSource::load(&fetched.source, request, &context, &mut Notices::new());
        let content = ReleaseContent::Source(Arc::new(loaded.map_err(charts::load_failure)?));
        Ok(ReleaseRequest { name: name.into(), namespace: namespace.into(), content, options })
    }
}
