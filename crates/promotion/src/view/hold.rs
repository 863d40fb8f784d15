//! Reasons why a promotion does not move that are not gates.

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

/// Something that keeps a bundle out of an environment, other than a gate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
#[serde(tag = "kind", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Hold {
    /// The pipeline is paused.
    Paused { gate: String, reason: String },
    /// The pipeline is wrong or lacks something.
    PipelineInvalid { reason: String, message: String },
    /// The Secret of the repository does not exist.
    SecretMissing { secret: String },
    /// No controller has looked at the bundle.
    NoController { since: Option<Timestamp> },
    /// The bundle waits for others.
    BundleWaiting { reason: String, message: String },
    /// The bundle cannot be promoted at all.
    BundleRefused { reason: String, message: String },
    /// A newer bundle took over.
    Superseded { by: String },
    /// The Graph of the bundle is not there.
    GraphMissing { graph: String },
    /// The Graph cannot be carried out.
    GraphRefused { reason: String, message: String },
    /// The controller of Graphs does not answer.
    GraphSilent { message: String },
    /// A node of the Graph has failed.
    NodeFailed { node: String, state: String, message: String },
    /// The agent of the environment's shard is silent.
    AgentOffline { shard: String, last_seen: Option<Timestamp> },
    /// Another bundle is at work in the environment.
    EnvironmentBusy { message: String },
    /// The step waits for something of its own.
    StepWaiting { reason: String, message: String },
    /// A gate template cannot be compiled.
    GateBroken { gate: String, message: String },
    /// The gates of a namespace cannot be read from here.
    GatesUnreadable { namespace: String },
}

impl Hold {
    /// One word for lists.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "paused",
            Self::PipelineInvalid { .. } => "pipeline invalid",
            Self::SecretMissing { .. } => "missing Secret",
            Self::NoController { .. } => "no controller",
            Self::BundleWaiting { .. } => "bundle waits",
            Self::BundleRefused { .. } => "bundle refused",
            Self::Superseded { .. } => "superseded",
            Self::GraphMissing { .. } => "no Graph",
            Self::GraphRefused { .. } => "Graph refused",
            Self::GraphSilent { .. } => "Graph controller silent",
            Self::NodeFailed { .. } => "node failed",
            Self::AgentOffline { .. } => "agent offline",
            Self::EnvironmentBusy { .. } => "environment busy",
            Self::StepWaiting { .. } => "step waits",
            Self::GateBroken { .. } => "gate broken",
            Self::GatesUnreadable { .. } => "gates unreadable",
        }
    }

    /// Something to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Paused { .. } => "`slipway pipeline resume` lets it go on",
            Self::SecretMissing { .. } => "create it with the key `token`",
            Self::NoController { .. } => "is a controller running? `slipway controller install` installs one",
            Self::BundleWaiting { .. } | Self::GraphSilent { .. } | Self::NodeFailed { .. } => return None,
            Self::AgentOffline { .. } => "start `slipway agent` for the shard; nobody else takes over",
            Self::GateBroken { .. } => "`slipway gate test` checks gates before they are applied",
            Self::GatesUnreadable { .. } => "you may not list PolicyGates there: its gates are not shown",
            _ => return None,
        })
    }

    /// The promotion cannot go on while this holds.
    pub fn blocks(&self) -> bool {
        !matches!(self, Self::GatesUnreadable { .. })
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        match self {
            Self::Paused { gate, reason } => write!(f, "{word}: {reason} (PolicyGate/{gate})"),
            Self::PipelineInvalid { reason, message }
            | Self::BundleWaiting { reason, message }
            | Self::BundleRefused { reason, message }
            | Self::GraphRefused { reason, message }
            | Self::StepWaiting { reason, message } => write!(f, "{word}: {reason}: {message}"),
            Self::SecretMissing { secret } => write!(f, "{word}: {secret} does not exist"),
            Self::NoController { since: None } => write!(f, "{word}: nobody has looked at the bundle yet"),
            Self::NoController { since: Some(since) } => {
                write!(f, "{word}: nobody has looked at the bundle since {since}")
            }
            Self::Superseded { by } => write!(f, "{word}: by {by}"),
            Self::GraphMissing { graph } => write!(f, "{word}: Graph/{graph} does not exist"),
            Self::GraphSilent { message } | Self::EnvironmentBusy { message } => {
                write!(f, "{word}: {message}")
            }
            Self::NodeFailed { node, state, message } => write!(f, "{word}: {node} is {state}: {message}"),
            Self::AgentOffline { shard, last_seen } => match last_seen {
                Some(at) => write!(f, "{word}: shard {shard}, last heard of at {at}"),
                None => write!(f, "{word}: shard {shard} was never heard of"),
            },
            Self::GateBroken { gate, message } => write!(f, "{word}: {gate}: {message}"),
            Self::GatesUnreadable { namespace } => write!(f, "{word}: namespace {namespace}"),
        }
    }
}
