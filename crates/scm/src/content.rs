//! What a promotion's pull request says: title, labels, branch, body and the comment on gates.

use crate::escape::{escape_markdown, link_target};
use crate::marker::StepMarker;

/// A promotion forwards, or back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionKind {
    Promotion,
    Rollback { failed_version: String },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromotionUrgency {
    Normal,
    Emergency,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateStatus {
    Pass,
    Block,
    Override,
    Unknown,
}

/// A policy gate and its verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateRow {
    pub name: String,
    pub scope: String,
    pub status: GateStatus,
    pub detail: String,
}

/// A text that leads somewhere, if it does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    pub text: String,
    pub url: Option<String>,
}

/// An image of a bundle and where it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArtifactRow {
    pub image: String,
    pub digest: Option<String>,
    pub source_commit: Option<Link>,
    pub ci_run: Option<Link>,
    pub author: Option<String>,
}

/// An environment the bundle has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamRow {
    pub environment: String,
    /// `45m ago`.
    pub verified: String,
    /// None for one that is not directly upstream.
    pub soak: Option<String>,
}

/// An image before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeRow {
    pub image: String,
    pub old: String,
    pub new: String,
}

/// A change of configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    pub commit: Link,
    pub message: String,
    pub files: Vec<String>,
}

/// Everything a pull request says about a promotion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotionSummary {
    pub kind: PromotionKind,
    pub urgency: PromotionUrgency,
    pub pipeline: String,
    pub environment: String,
    pub version: String,
    pub marker: StepMarker,
    pub gates: Vec<GateRow>,
    pub artifacts: Vec<ArtifactRow>,
    pub upstreams: Vec<UpstreamRow>,
    pub changes: Vec<ChangeRow>,
    pub compare: Option<Link>,
    pub config: Option<ConfigChange>,
    pub rollback_command: Option<String>,
    pub console: Option<Link>,
}

/// The longest body.
const LONGEST_BODY: usize = 60_000;
/// The longest title every server takes.
const LONGEST_TITLE: usize = 250;
/// The most rows of a table, and the longest text of a cell.
const MOST_ROWS: usize = 200;
const LONGEST_CELL: usize = 500;

impl PromotionSummary {
    pub fn title(&self) -> String {
        let (pipeline, version, environment) = (&self.pipeline, &self.version, &self.environment);
        let text = match &self.kind {
            PromotionKind::Promotion => format!("[kardinal] Promote {pipeline} {version} to {environment}"),
            PromotionKind::Rollback { failed_version } => format!(
                "[kardinal] Rollback {pipeline} in {environment} to {version} (reverts {failed_version})"
            ),
        };
        let text = match self.urgency {
            PromotionUrgency::Normal => text,
            PromotionUrgency::Emergency => format!("[EMERGENCY] {text}"),
        };
        let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        spaced.chars().take(LONGEST_TITLE).collect()
    }

    pub fn labels(&self) -> Vec<String> {
        let kind = match (&self.kind, self.urgency) {
            (_, PromotionUrgency::Emergency) => "kardinal/emergency",
            (PromotionKind::Rollback { .. }, _) => "kardinal/rollback",
            (PromotionKind::Promotion, _) => "kardinal/promotion",
        };
        let own = |text: &str| {
            let plain: String = text.chars().filter(|c| !c.is_control() && *c != ',').take(39).collect();
            format!("kardinal/{plain}")
        };
        let mut labels = vec!["kardinal".to_owned(), kind.to_owned()];
        if self.urgency == PromotionUrgency::Emergency && matches!(self.kind, PromotionKind::Rollback { .. })
        {
            labels.push("kardinal/rollback".to_owned());
        }
        labels.extend([own(&self.pipeline), own(&self.environment)]);
        labels
    }

    /// The body, within what every server but Azure DevOps takes.
    pub fn body(&self) -> String {
        let mut page = Page::default();
        page.line(&self.marker.to_comment());
        let word = match self.kind {
            PromotionKind::Promotion => "Promotion",
            PromotionKind::Rollback { .. } => "Rollback",
        };
        let [pipeline, version, environment] =
            [&self.pipeline, &self.version, &self.environment].map(|text| cell(text));
        page.paragraph(&format!("## {word}: {pipeline} {version} to {environment}"));
        page.section("Policy Gates", &gates_table(&self.gates));
        page.section("Artifact", &self.artifact_table());
        page.section("Upstream Verification", &self.upstream_table());
        page.section("Changes", &self.change_list());
        if let Some(command) = &self.rollback_command {
            let command: String =
                command.chars().filter(|c| !c.is_control() && *c != '`').take(LONGEST_CELL).collect();
            page.section("Rollback", &[format!("`{command}`")]);
        }
        if let Some(console) = &self.console {
            page.paragraph("---");
            page.line(&link(console));
        }
        page.finish()
    }

    fn artifact_table(&self) -> Vec<String> {
        if self.artifacts.is_empty() {
            return Vec::new();
        }
        let mut rows = vec!["| | |".to_owned(), "|---|---|".to_owned()];
        for artifact in self.artifacts.iter().take(MOST_ROWS) {
            rows.push(format!("| Image | {} |", cell(&artifact.image)));
            if let Some(digest) = &artifact.digest {
                let short: String = digest.chars().take("sha256:".len() + 12).collect();
                rows.push(format!("| Digest | {} |", cell(&short)));
            }
            if let Some(commit) = &artifact.source_commit {
                let short = Link { text: commit.text.chars().take(7).collect(), url: commit.url.clone() };
                rows.push(format!("| Source Commit | {} |", link(&short)));
            }
            if let Some(run) = &artifact.ci_run {
                rows.push(format!("| CI Run | {} |", link(run)));
            }
            if let Some(author) = &artifact.author {
                rows.push(format!("| Author | {} |", cell(author)));
            }
        }
        rows
    }

    fn upstream_table(&self) -> Vec<String> {
        if self.upstreams.is_empty() {
            return Vec::new();
        }
        let mut rows = vec!["| Environment | Verified | Soak |".to_owned(), "|---|---|---|".to_owned()];
        rows.extend(self.upstreams.iter().take(MOST_ROWS).map(|row| {
            let soak = row.soak.as_deref().unwrap_or("n/a");
            format!("| {} | {} | {} |", cell(&row.environment), cell(&row.verified), cell(soak))
        }));
        rows
    }

    fn change_list(&self) -> Vec<String> {
        let mut rows: Vec<String> = self
            .changes
            .iter()
            .take(MOST_ROWS)
            .map(|change| {
                format!("- {}: {} to {}", cell(&change.image), cell(&change.old), cell(&change.new))
            })
            .collect();
        if let Some(config) = &self.config {
            rows.push(format!("- {} {}", link(&config.commit), cell(&config.message)));
            rows.extend(config.files.iter().take(MOST_ROWS).map(|file| format!("  - {}", cell(file))));
        }
        if let Some(compare) = &self.compare {
            rows.push(format!("- {}", link(compare)));
        }
        rows
    }
}

/// The comment that is kept up to date while a pull request is open.
pub fn gates_comment(gates: &[GateRow], evaluated: jiff::Timestamp) -> String {
    let mut page = Page::default();
    page.line(GATES_MARKER);
    page.section("Policy Gates", &gates_table(gates));
    page.paragraph(&format!("Evaluated {evaluated}. A snapshot: the live state may be newer."));
    page.finish()
}

/// The marker of that comment.
pub(crate) const GATES_MARKER: &str = "<!-- kardinal:gates -->";

fn gates_table(gates: &[GateRow]) -> Vec<String> {
    if gates.is_empty() {
        return vec!["No gates apply.".to_owned()];
    }
    let mut rows = vec!["| Gate | Scope | Status | Detail |".to_owned(), "|---|---|---|---|".to_owned()];
    rows.extend(gates.iter().take(MOST_ROWS).map(|gate| {
        let status = match gate.status {
            GateStatus::Pass => "PASS",
            GateStatus::Block => "BLOCK",
            GateStatus::Override => "OVERRIDDEN",
            GateStatus::Unknown => "UNKNOWN",
        };
        format!("| {} | {} | {status} | {} |", cell(&gate.name), cell(&gate.scope), cell(&gate.detail))
    }));
    rows
}

fn cell(text: &str) -> String {
    let short: String = text.chars().take(LONGEST_CELL).collect();
    escape_markdown(short.trim())
}

fn link(link: &Link) -> String {
    match link.url.as_deref().and_then(link_target) {
        Some(url) => format!("[{}]({url})", cell(&link.text)),
        None => cell(&link.text),
    }
}

/// A body that is written from its top until it is full.
#[derive(Default)]
struct Page {
    text: String,
    is_full: bool,
}

/// The room that is kept for the note on what was left out.
const NOTE: &str = "\n_More was left out: see the console._\n";

impl Page {
    fn line(&mut self, line: &str) {
        if self.is_full || self.text.chars().count() + line.chars().count() + NOTE.len() >= LONGEST_BODY {
            self.is_full = true;
            return;
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn paragraph(&mut self, line: &str) {
        self.line("");
        self.line(line);
    }

    fn section(&mut self, heading: &str, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.paragraph(&format!("### {heading}"));
        self.line("");
        lines.iter().for_each(|line| self.line(line));
    }

    fn finish(mut self) -> String {
        if self.is_full {
            self.text.push_str(NOTE);
        }
        self.text
    }
}

/// The colour of a label we make.
pub(crate) fn label_colour(label: &str) -> &'static str {
    match label {
        "kardinal/promotion" => "2196f3",
        "kardinal/rollback" => "e91e63",
        "kardinal/emergency" => "f44336",
        _ => "0075ca",
    }
}
