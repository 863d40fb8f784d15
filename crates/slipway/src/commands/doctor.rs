//! `slipway doctor`: looks at everything promotion needs.

use std::sync::Arc;

use slipway_controller::doctor::{DoctorServices, Finding, FindingLevel, diagnose};
use slipway_event::SystemClock;
use slipway_git::{CacheOptions, Git, RepositoryCache};
use slipway_http::{ClientOptions, HttpClient};
use slipway_promotion::PromotionSettings;

use crate::commands::promotion::{Place, connect};
use crate::exit::Exit;
use crate::interrupt;
use crate::session::Session;
use crate::term::show;

/// Look at everything promotion needs and say what is wrong
#[derive(Debug, clap::Args)]
#[command(after_help = "Nothing is written. Exit code 1 when something keeps promotions from working.")]
pub struct Args {
    /// Address of the API as servers of pull requests reach it
    #[arg(long, value_name = "URL")]
    api_url: Option<String>,

    /// Namespace whose gates bind every pipeline; repeat for more
    #[arg(long, value_name = "NAME", default_value = "platform-policies")]
    policy_namespace: Vec<String>,

    /// Host that may be called although it is this machine's, as the controller may; repeat for more
    #[arg(long, value_name = "HOST")]
    allow_host: Vec<String>,

    /// Show what is as it should be as well
    #[arg(long)]
    all: bool,
}

pub fn run(args: &Args, session: &Session) -> anyhow::Result<Exit> {
    let mut findings = session.block_on_reading(async {
        let Place { cluster, namespace } = connect(session).await?;
        let place = tempfile::tempdir()?;
        let clock = Arc::new(SystemClock);
        let repositories = RepositoryCache::open(
            place.path(),
            CacheOptions::default(),
            Arc::new(Git::default()),
            clock.clone(),
            interrupt::stopping().clone(),
        )?;
        let mut steps = PromotionSettings::default().steps;
        steps.promotion.policy_namespaces = args.policy_namespace.iter().cloned().collect();
        steps.outbound.addresses.allowed_hosts.extend(args.allow_host.iter().cloned());
        let services = DoctorServices {
            cluster,
            clock,
            http: HttpClient::new(&ClientOptions::default())?,
            redactor: session.redactor().clone(),
            repositories,
            steps,
            namespace,
            api_url: args.api_url.clone(),
        };
        Ok(diagnose(&services).await)
    })?;
    let is_broken = findings.iter().any(|finding| finding.level == FindingLevel::Broken);
    if !args.all {
        findings.retain(|finding| finding.level != FindingLevel::Good);
    }
    show::show(session.output(), &findings, |findings| text(findings))?;
    Ok(if is_broken { Exit::Failed } else { Exit::Done })
}

fn text(findings: &[Finding]) -> String {
    if findings.is_empty() {
        return "nothing is wrong\n".to_owned();
    }
    let mut text = String::new();
    for (index, finding) in findings.iter().enumerate() {
        let mark = match finding.level {
            FindingLevel::Good => "✓",
            FindingLevel::Warning => "⚠",
            FindingLevel::Broken => "✗",
        };
        text.push_str(&format!("{mark} {}: {}\n", finding.subject, finding.message));
        // Findings with one remedy are told it once, after the last of them.
        let next = findings.get(index + 1).and_then(|next| next.hint.as_ref());
        if let Some(hint) = finding.hint.as_ref().filter(|hint| next != Some(hint)) {
            text.push_str(&format!("  hint: {hint}\n"));
        }
    }
    text
}
