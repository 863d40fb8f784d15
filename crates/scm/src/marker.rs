//! The hidden comment by which a pull request is known again.

use serde::{Deserialize, Serialize};

/// The step a pull request belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepMarker {
    pub step: String,
    pub bundle: String,
    pub env: String,
    pub v: u32,
    /// The id of the pipeline, by which one installation knows its own pull requests from another's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
}

const START: &str = "<!-- kardinal:";
const END: &str = " -->";
/// The longest marker that is looked at.
const LONGEST: usize = 4_096;

impl StepMarker {
    pub fn new(step: &str, bundle: &str, environment: &str) -> Self {
        Self {
            step: step.to_owned(),
            bundle: bundle.to_owned(),
            env: environment.to_owned(),
            v: 1,
            owner: None,
        }
    }

    pub fn of_pipeline(self, id: &str) -> Self {
        Self { owner: Some(id.to_owned()), ..self }
    }

    /// The comment. No value can end it early.
    pub fn to_comment(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_default();
        let json = json.replace('<', "\\u003c").replace('>', "\\u003e").replace("--", "-\\u002d");
        format!("{START}{json}{END}")
    }

    /// Finds the marker of a body. Others may have written the body: what is found is only a hint.
    pub fn find(body: &str) -> Option<Self> {
        let rest = body.split_once(START)?.1;
        let limit = rest.char_indices().map(|(at, _)| at).find(|at| *at > LONGEST).unwrap_or(rest.len());
        let json = rest[..limit].split_once(END)?.0;
        serde_json::from_str(json).ok()
    }
}
