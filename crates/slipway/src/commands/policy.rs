//! `--policy` of every command that plans: reads the files, shows what the policies say.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use jiff::Timestamp;
use slipway_policy::{PolicyDecision, PolicyReport, PolicySet};
use slipway_problem::{Problem, Problems};
use slipway_release::PolicyCheck;
use slipway_stack::engine::StackPolicy;
use slipway_stack::survey::Surveyed;
use slipway_stack::{Deploy, ReleasePreview, StackPlan, survey};

use crate::exit::{PolicyFileError, PolicyRefusal};
use crate::help::Usual;
use crate::term::style::{BOLD, DIM, ERROR, GOOD, WARNING, paint};

/// Policies that plans are held against.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Policy")]
pub struct PolicyFlags {
    /// Policy file, or directory of policy files, that the plan is held against before anything is written; may be repeated
    #[arg(long = "policy", value_name = "FILE|DIR", add = Usual)]
    files: Vec<PathBuf>,

    /// Environment the run is for, as policies name it
    #[arg(long = "env", value_name = "NAME", add = Usual)]
    environment: Option<String>,
}

impl PolicyFlags {
    /// Tells that there are policies to ask.
    pub fn is_given(&self) -> bool {
        !self.files.is_empty()
    }

    /// The policies of the files, if there are some.
    pub fn policies(&self) -> anyhow::Result<Option<Arc<PolicySet>>> {
        self.load()
    }

    fn load(&self) -> anyhow::Result<Option<Arc<PolicySet>>> {
        if self.files.is_empty() {
            return Ok(None);
        }
        let set = PolicySet::load(&self.files).map_err(PolicyFileError)?;
        Ok(Some(Arc::new(set)))
    }

    /// The policies for releases of one cluster.
    pub fn check(&self, cluster: Option<String>) -> anyhow::Result<Option<Arc<PolicyCheck>>> {
        let check = self.load()?.map(|policies| PolicyCheck {
            policies,
            environment: self.environment.clone(),
            cluster,
            now: Timestamp::now(),
        });
        Ok(check.map(Arc::new))
    }

    /// The policies for the releases of a stack.
    pub fn stack_policy(&self) -> anyhow::Result<Option<StackPolicy>> {
        let policy = self.load()?.map(|policies| StackPolicy {
            policies,
            environment: self.environment.clone(),
            now: Timestamp::now(),
        });
        Ok(policy)
    }
}

/// Holds every release of a stack against the policies before the first is written. What cannot be planned yet is
/// held against them when it is its turn.
pub async fn check_stack<D: Deploy>(plan: &StackPlan, engine: &D) -> anyhow::Result<()> {
    let previews = survey::previews(plan, engine).await;
    let denied = denials(&previews);
    if denied.is_empty() { Ok(()) } else { Err(PolicyRefusal(denied).into()) }
}

/// The findings that deny releases of a stack.
pub fn denials(previews: &[Surveyed<ReleasePreview>]) -> Problems {
    let mut denied = Problems::new();
    for preview in previews {
        let report = preview.found.as_ref().ok().and_then(|found| found.policy.as_ref());
        let problems = report.map(PolicyReport::problems).unwrap_or_default();
        for mut problem in problems.into_iter().filter(Problem::is_error) {
            problem.message = format!("{}: {}", preview.id, problem.message);
            denied.push(problem);
        }
    }
    denied
}

/// The results of a plan's policies, findings first.
pub fn report_text(report: &PolicyReport) -> String {
    let passed = report.count(PolicyDecision::Pass);
    let counts = [
        (PolicyDecision::Deny, "denied"),
        (PolicyDecision::Warn, "warned"),
        (PolicyDecision::Excepted, "excepted"),
        (PolicyDecision::Pass, "passed"),
    ];
    let told: Vec<String> = counts
        .into_iter()
        .map(|(decision, word)| (report.count(decision), word))
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    let told = if told.is_empty() { "no policy is for this target".to_owned() } else { told.join(", ") };
    let mut text = format!("\n{}   {told}\n", paint(BOLD, "POLICY"));
    for result in report.results.iter().filter(|result| result.decision != PolicyDecision::Pass) {
        let style = match result.decision {
            PolicyDecision::Deny => ERROR,
            PolicyDecision::Warn => WARNING,
            PolicyDecision::Excepted | PolicyDecision::Pass => DIM,
        };
        let _ = writeln!(
            text,
            "  {} {result} {}",
            paint(style, format!("{:<8}", result.decision.word())),
            paint(DIM, format!("[{}]", result.code.word()))
        );
    }
    if passed == report.results.len() && passed > 0 {
        let _ = writeln!(text, "  {}", paint(GOOD, "every rule holds"));
    }
    for name in &report.skipped {
        let _ = writeln!(text, "  {}", paint(DIM, format!("{name} is for other targets")));
    }
    text
}
