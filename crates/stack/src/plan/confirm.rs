//! The question before a run: a large deletion is agreed to by the stack's name, anything else by a letter.

use super::{Command, StackPlan};
use crate::error::Error;

/// The most releases a question names.
const NAMED: usize = 10;

/// The runs a person has to agree to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConfirmPolicy {
    /// Everything is agreed to already.
    pub agreed: bool,
    /// An apply is asked about too.
    pub confirm_apply: bool,
    /// From how many releases on a deletion is confirmed by the stack's name; 0 asks nothing.
    pub delete_threshold: usize,
}

/// A question, and what counts as agreeing to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfirmQuestion {
    text: String,
    command: Command,
    expected: ExpectedAnswer,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedAnswer {
    Yes,
    StackName(String),
}

impl ConfirmQuestion {
    pub(super) fn new(plan: &StackPlan, policy: &ConfirmPolicy) -> Option<Self> {
        let deletes = plan.command == Command::Delete;
        let asks = if deletes { policy.delete_threshold > 0 } else { policy.confirm_apply };
        if policy.agreed || !asks {
            return None;
        }
        let count = plan.nodes.len();
        let mut clusters: Vec<&str> = plan.nodes.iter().map(|node| node.cluster.name.as_str()).collect();
        clusters.sort_unstable();
        clusters.dedup();
        let (verb, side) = if deletes { ("deletes", "from") } else { ("applies", "to") };
        let in_order = plan.order.iter().filter_map(|id| plan.node(id));
        let names: Vec<&str> = in_order.take(NAMED).map(|node| node.name.as_str()).collect();
        let more = if count > names.len() { ", …" } else { "" };
        let by_name = deletes && count >= policy.delete_threshold;
        let how = if by_name { "Type the stack name to confirm: " } else { "Go on? [y/N] " };
        let text = format!(
            "This {verb} {count} releases {side} {} ({}{more}). {how}",
            clusters.join(", "),
            names.join(", ")
        );
        let expected =
            if by_name { ExpectedAnswer::StackName(plan.stack_name.clone()) } else { ExpectedAnswer::Yes };
        Some(Self { text, command: plan.command, expected })
    }

    /// The text a person is asked.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Judges an answer; none when nobody was there to give one.
    pub fn check(&self, answer: Option<&str>) -> Result<(), Error> {
        let Some(answer) = answer.map(str::trim) else {
            let what = if self.command == Command::Delete { "deletion" } else { "apply" };
            let message = format!("{what} needs confirmation; pass --yes to skip the prompt");
            return Err(Error::Unconfirmed(message));
        };
        let agreed = match &self.expected {
            ExpectedAnswer::StackName(name) => answer == name,
            ExpectedAnswer::Yes => ["y", "yes"].contains(&answer.to_lowercase().as_str()),
        };
        if agreed { Ok(()) } else { Err(Error::Unconfirmed("not confirmed; nothing was changed".to_owned())) }
    }
}
