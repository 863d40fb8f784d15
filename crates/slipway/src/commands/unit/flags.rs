//! Flags several commands of units share.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use slipway_cluster::connect::Connection;
use slipway_event::{Events, Memory, RunId, Sink, SystemClock, Tee};
use slipway_policy::PolicySet;
use slipway_release::saved::cluster_identity;
use slipway_secrets::{ConfigPlaces, Purpose, find_layers};
use slipway_source::{LoadContext, OfflineFetcher, RenderSettings};
use slipway_unit::{
    Environments, ExecProbe, LedgerIdentity, OpenOptions, Overlay, PublicKey, TargetChoice, UnitFile,
    UnitLedger, UnitTarget, VerifyOptions, VerifyProbe,
};

use super::fail;
use crate::charts;
use crate::commands::inputs::TemplateFlags;
use crate::commands::release::flags::time;
use crate::commands::secrets::flags::ReferenceFlags;
use crate::commands::secrets::resolution::{ReferenceMode, ReferenceResolver};
use crate::config;
use crate::exit::PolicyFileError;
use crate::files;
use crate::help::Usual;
use crate::session::Session;

/// The unit to work with, and whom to trust with it.
#[derive(Debug, clap::Args)]
pub struct UnitFlags {
    /// The unit
    #[arg(value_name = "UNIT")]
    unit: PathBuf,

    #[command(flatten)]
    trust: TrustFlags,
}

/// The keys a unit must be signed with.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Trust")]
pub struct TrustFlags {
    /// Key the unit must be signed with: `ed25519:…` or a file with a public key; may be repeated
    #[arg(long = "trusted-key", value_name = "KEY|FILE")]
    trusted_keys: Vec<String>,

    /// Digest the unit must have
    #[arg(long, value_name = "DIGEST")]
    expect_digest: Option<String>,
}

impl TrustFlags {
    pub fn options(&self) -> anyhow::Result<OpenOptions> {
        let mut trusted_keys = Vec::new();
        for key in &self.trusted_keys {
            let key: PublicKey = match key.starts_with("ed25519:") {
                true => key.parse().map_err(fail)?,
                false => PublicKey::parse_file(&files::read_text(Path::new(key))?.text).map_err(fail)?,
            };
            trusted_keys.push(key);
        }
        Ok(OpenOptions { trusted_keys, digest: self.expect_digest.clone() })
    }
}

impl UnitFlags {
    /// Opens the unit; everything about it is checked.
    pub fn open(&self) -> anyhow::Result<UnitFile> {
        UnitFile::open(&self.unit, &self.trust.options()?).map_err(fail)
    }
}

/// The ledger of a unit, written in the user's name.
pub fn ledger(unit: &UnitFile) -> UnitLedger {
    let identity = LedgerIdentity { actor: config::user_name(), host: config::machine_name() };
    UnitLedger::of(unit, identity)
}

/// The place a unit goes to.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Target")]
pub struct TargetFlags {
    /// Target as ENV[/CONTEXT[/NAMESPACE]]; environments are listed in slipway.yaml
    #[arg(long, value_name = "TARGET", add = Usual)]
    to: Option<String>,

    /// Values of the environment, within the slots of the unit
    #[arg(long, value_name = "FILE")]
    overlay: Option<PathBuf>,
}

/// A connected target.
pub struct ConnectedTarget {
    pub connection: Connection,
    pub target: UnitTarget,
    pub overlay: Option<Overlay>,
    pub environments: Environments,
}

/// The environments of the user's and the repository's settings.
pub fn read_environments(session: &Session) -> anyhow::Result<Environments> {
    let places = ConfigPlaces { user: session.settings.file.clone(), start: PathBuf::from("."), only: None };
    let mut environments = Environments::default();
    for layer in find_layers(&places)? {
        environments.read(&layer.text, &layer.path.display().to_string())?;
    }
    Ok(environments)
}

/// Connects to an environment; must run inside of the session's runtime.
pub async fn connect_environment(
    TargetChoice { env, place }: TargetChoice,
    unit: &UnitFile,
    session: &Session,
) -> anyhow::Result<(Connection, UnitTarget)> {
    let connection = match (&place.context, session.settings.sandbox) {
        (Some(context), false) => session.connect_to_context(&session.settings, Some(context)).await?,
        _ => session.connect().await?,
    };
    let connection = session.with_releases(connection)?;
    crate::connect::reached(connection.cluster.clone(), &connection).await?;
    let uid = cluster_identity(&connection.cluster).await;
    let cluster = connection.context.clone().unwrap_or_else(|| connection.server.clone());
    let target = UnitTarget {
        cluster: if session.settings.sandbox { "sandbox".to_owned() } else { cluster },
        cluster_uid: (!uid.is_empty()).then_some(uid),
        namespace: place.namespace.unwrap_or_else(|| unit.namespace().to_owned()),
        release: unit.release_name().to_owned(),
        env,
    };
    Ok((connection, target))
}

impl TargetFlags {
    /// The environment that was named.
    pub fn choice(&self, environments: &Environments) -> anyhow::Result<TargetChoice> {
        Ok(match &self.to {
            Some(to) => environments.choose(to)?,
            None => TargetChoice::default(),
        })
    }

    /// Connects to the target; must run inside of the session's runtime.
    pub async fn connect(&self, unit: &UnitFile, session: &Session) -> anyhow::Result<ConnectedTarget> {
        let environments = read_environments(session)?;
        let mut choice = self.choice(&environments)?;
        if let Some(given) = &session.settings.namespace.value {
            choice.place.namespace = Some(given.clone());
        }
        let (connection, target) = connect_environment(choice, unit, session).await?;
        let overlay = match &self.overlay {
            Some(path) => {
                let text = files::read_text(path)?;
                let env = target.env.as_deref().unwrap_or_default();
                Some(Overlay::read(unit, env, &text.name, &text.text).map_err(fail)?)
            }
            None => None,
        };
        Ok(ConnectedTarget { connection, target, overlay, environments })
    }
}

/// How a unit is loaded: twice, without secrets to be proven and with them to be deployed.
#[derive(Debug, clap::Args)]
pub struct LoadFlags {
    #[command(flatten)]
    pub references: ReferenceFlags,

    #[command(flatten)]
    templates: TemplateFlags,
}

/// Both ways of loading a unit.
pub struct UnitContexts {
    pub masked: LoadContext,
    pub resolving: LoadContext,
    pub settings: RenderSettings,
    fetched: ReferenceResolver,
}

impl UnitContexts {
    pub fn loader(&self) -> slipway_unit::UnitLoader<'_> {
        slipway_unit::UnitLoader {
            masked: &self.masked,
            resolving: &self.resolving,
            settings: &self.settings,
        }
    }

    /// Gives back what was lent for the secrets.
    pub fn finish(&self) {
        self.fetched.finish();
    }
}

impl LoadFlags {
    pub fn settings(&self) -> RenderSettings {
        RenderSettings {
            limits: self.templates.limits(),
            schemas: self.templates.schemas(),
            ..RenderSettings::default()
        }
    }

    pub fn masked(&self, command: &'static str, session: &Session) -> LoadContext {
        let references = ReferenceResolver::new(&self.references, ReferenceMode::Show, command, session);
        charts::load_context_with(OfflineFetcher, slipway_source::Decryption::default(), references, session)
    }

    pub fn contexts(&self, command: &'static str, session: &Session) -> UnitContexts {
        let mode = ReferenceMode::Fetch(Purpose::Apply);
        let fetched = ReferenceResolver::new(&self.references, mode, command, session);
        let decryption = slipway_source::Decryption::default();
        UnitContexts {
            masked: self.masked(command, session),
            resolving: charts::load_context_with(OfflineFetcher, decryption, fetched.clone(), session),
            settings: self.settings(),
            fetched,
        }
    }
}

/// Policies a unit is held against besides its own.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Policy")]
pub struct UnitPolicyFlags {
    /// Policy file, or directory of policy files; may be repeated
    #[arg(long = "policy", value_name = "FILE|DIR")]
    files: Vec<PathBuf>,
}

impl UnitPolicyFlags {
    /// The policies of the files, if there are some.
    pub fn load(&self) -> anyhow::Result<Option<Arc<PolicySet>>> {
        if self.files.is_empty() {
            return Ok(None);
        }
        Ok(Some(Arc::new(PolicySet::load(&self.files).map_err(PolicyFileError)?)))
    }
}

/// How a unit is verified.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Verification")]
pub struct VerifyFlags {
    /// How long containers have to stay up
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "60s")]
    soak: Duration,

    /// Restarts a container may have
    #[arg(long, value_name = "N", default_value_t = 0)]
    restart_budget: i64,

    /// Address that must answer with success; may be repeated
    #[arg(long, value_name = "URL")]
    probe_http: Vec<String>,

    /// Address that must take connections, HOST:PORT; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    probe_tcp: Vec<String>,

    /// Command that must succeed in a Job of this image, IMAGE=COMMAND; may be repeated
    #[arg(long, value_name = "IMAGE=COMMAND", value_parser = exec_probe)]
    probe_exec: Vec<ExecProbe>,
}

/// Reads `IMAGE=COMMAND`; words are separated by blanks.
fn exec_probe(text: &str) -> Result<ExecProbe, String> {
    let (image, command) = text.split_once('=').unwrap_or((text, ""));
    let command: Vec<String> = command.split_whitespace().map(str::to_owned).collect();
    if image.is_empty() || command.is_empty() {
        return Err(
            "write IMAGE=COMMAND, for example curlimages/curl:8.10.0=curl -fsS http://shop".to_owned()
        );
    }
    Ok(ExecProbe { image: image.to_owned(), command })
}

impl VerifyFlags {
    pub fn options(&self) -> VerifyOptions {
        let http = self.probe_http.iter().cloned().map(VerifyProbe::Http);
        let tcp = self.probe_tcp.iter().cloned().map(VerifyProbe::Tcp);
        let exec = self.probe_exec.iter().cloned().map(VerifyProbe::Exec);
        VerifyOptions {
            soak: self.soak,
            restart_budget: self.restart_budget,
            probes: http.chain(tcp).chain(exec).collect(),
        }
    }
}

/// The events of a run: shown as the user asked for, and kept for the ledger.
pub fn recorded_events(session: &Session) -> (Events, Arc<Memory>) {
    let recorder = Arc::new(Memory::default());
    let sink: Arc<dyn Sink> = Arc::new(Tee(vec![session.sink(), Arc::clone(&recorder) as _]));
    let clock = Arc::new(SystemClock);
    (Events::new(RunId::generate(&SystemClock), clock, session.redactor().clone(), sink), recorder)
}

pub fn now() -> Timestamp {
    Timestamp::now()
}
