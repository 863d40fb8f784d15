//! Reasons no Graph can be made.

use slipway_manifest::ObjectRef;

use super::order::OrderProblem;

/// Why no Graph can be made of a Pipeline and a Bundle; `reason` is what conditions name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    #[error("{}", problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Order { problems: Vec<OrderProblem> },
    #[error("the target `{name}` is no environment of the pipeline{}", did_you_mean(.nearest))]
    UnknownTarget { name: String, nearest: Option<String> },
    #[error("the start `{name}` is no environment of the pipeline{}", did_you_mean(.nearest))]
    UnknownStart { name: String, nearest: Option<String> },
    #[error("nothing leads from `{start}` to the target `{target}`")]
    StartBeyondTarget { start: String, target: String },
    #[error("`{name}` is to be skipped but is no environment of the pipeline{}", did_you_mean(.nearest))]
    UnknownSkipEnvironment { name: String, nearest: Option<String> },
    #[error("every environment is skipped")]
    AllEnvironmentsSkipped,
    #[error("{environment}: {template} does not exist")]
    UnknownTemplate { environment: String, template: ObjectRef },
    #[error("the Graph written for the bundle cannot be used: {}", problems.join("; "))]
    InvalidGraphTemplate { problems: Vec<String> },
    #[error("{template} does not exist or holds no `graph.yaml`")]
    UnknownGraphTemplate { template: ObjectRef },
    #[error("the Graph would have {nodes} nodes and {bytes} bytes; 1000 nodes and 1 MiB is the most")]
    GraphTooLarge { nodes: usize, bytes: usize },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|nearest| format!(" (did you mean `{nearest}`?)")).unwrap_or_default()
}

impl BuildError {
    pub(super) fn from_order(problems: Vec<OrderProblem>) -> Self {
        Self::Order { problems }
    }

    /// The reason of the `InvalidSpec` condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Order { problems } => problems.first().map_or("InvalidPipeline", OrderProblem::reason),
            Self::UnknownTarget { .. } => "UnknownTarget",
            Self::UnknownStart { .. } => "UnknownStart",
            Self::StartBeyondTarget { .. } => "StartBeyondTarget",
            Self::UnknownSkipEnvironment { .. } => "UnknownSkipEnvironment",
            Self::AllEnvironmentsSkipped => "AllEnvironmentsSkipped",
            Self::UnknownTemplate { .. } => "UnknownPromotionTemplate",
            Self::InvalidGraphTemplate { .. } => "InvalidGraphTemplate",
            Self::UnknownGraphTemplate { .. } => "UnknownGraphTemplate",
            Self::GraphTooLarge { .. } => "GraphTooLarge",
        }
    }
}
