//! Commits: who, when, what and the trailers by which they are found again.

use jiff::Timestamp;

use crate::error::GitError;
use crate::name::{CommitId, InvalidName, TreePath};
use crate::program::GitCall;
use crate::signing::SigningKey;
use crate::tree::WorkTree;

/// A line `Key: value` at the end of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trailer {
    key: String,
    value: String,
}

impl Trailer {
    /// A trailer; the value is brought to one line.
    pub fn new(key: &str, value: &str) -> Result<Self, InvalidName> {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if key.is_empty() || key.len() > 100 || key.starts_with('-') || !key.chars().all(fits) {
            let reason = "it has letters, digits and `-`";
            return Err(InvalidName { kind: "trailer", text: key.chars().take(100).collect(), reason });
        }
        Ok(Self { key: key.to_owned(), value: one_line(value) })
    }

    pub fn key(&self) -> &str {
        &self.key
    }

    pub fn value(&self) -> &str {
        &self.value
    }
}

/// A person or program as Git writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitIdentity {
    name: String,
    email: String,
}

impl CommitIdentity {
    /// An identity; what Git cannot write in one is left out.
    pub fn new(name: &str, email: &str) -> Self {
        let clean = |text: &str| one_line(text).replace(['<', '>'], "");
        Self { name: clean(name), email: clean(email) }
    }

    /// Lets a call commit as author and committer at a moment.
    pub(crate) fn sign(&self, call: GitCall, at: Timestamp) -> GitCall {
        let date = format!("@{} +0000", at.as_second());
        call.variable("GIT_AUTHOR_NAME", &self.name)
            .variable("GIT_AUTHOR_EMAIL", &self.email)
            .variable("GIT_AUTHOR_DATE", &date)
            .variable("GIT_COMMITTER_NAME", &self.name)
            .variable("GIT_COMMITTER_EMAIL", &self.email)
            .variable("GIT_COMMITTER_DATE", &date)
    }
}

/// A commit to make: the same request on the same base gives the same commit.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    pub subject: String,
    /// Paragraphs between subject and trailers; may be empty.
    pub body: String,
    pub trailers: Vec<Trailer>,
    pub author: CommitIdentity,
    pub committer: CommitIdentity,
    pub time: Timestamp,
    /// What may be in the commit: changes elsewhere stay out of it.
    pub paths: Vec<TreePath>,
    pub signing: Option<SigningKey>,
}

impl CommitRequest {
    /// The message as it is committed.
    fn message(&self) -> String {
        let mut parts = vec![one_line(&self.subject)];
        let body = self.body.trim();
        if !body.is_empty() {
            parts.push(body.replace('\0', ""));
        }
        if !self.trailers.is_empty() {
            let lines = self.trailers.iter().map(|one| format!("{}: {}", one.key, one.value));
            parts.push(lines.collect::<Vec<_>>().join("\n"));
        }
        parts.join("\n\n") + "\n"
    }
}

/// The result of committing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    Committed(CommitId),
    /// The files are those of the base already.
    NothingChanged,
}

impl WorkTree {
    /// Commits what changed below the request's paths. Neither hooks nor filters run.
    pub async fn commit(&self, request: &CommitRequest) -> Result<CommitOutcome, GitError> {
        let doing = format!("commit to {}", self.repository.address());
        let git = &self.repository;
        let mut add = GitCall::new(["add", "--all", "--sparse", "--"]);
        for path in &request.paths {
            let place = self.locate(path)?;
            if !place.exists() && !self.is_tracked(path).await? {
                continue;
            }
            add = add.arg(if path.is_root() { "." } else { path.as_str() });
        }
        if add.args.len() > 4 {
            git.read(self.call(add), &doing).await?;
        }
        let tree = git.read(self.call(GitCall::new(["write-tree"])), &doing).await?;
        let head = self.head().await?;
        let before = GitCall::new(["rev-parse", "--verify", "--quiet"]).arg(format!("{head}^{{tree}}"));
        if git.read(self.call(before), &doing).await? == tree {
            return Ok(CommitOutcome::NothingChanged);
        }
        let mut call = GitCall::new(["commit-tree", tree.trim_end()]);
        if !(self.is_rootless && head == *self.base()) {
            call = call.args(["-p", head.as_str()]);
        }
        let signer = match &request.signing {
            Some(key) => Some(key.prepare(git).await?),
            None => None,
        };
        if let Some(signer) = &signer {
            call = signer.equip(call);
        }
        let date = format!("@{} +0000", request.time.as_second());
        let call = call
            .variable("GIT_AUTHOR_NAME", &request.author.name)
            .variable("GIT_AUTHOR_EMAIL", &request.author.email)
            .variable("GIT_AUTHOR_DATE", &date)
            .variable("GIT_COMMITTER_NAME", &request.committer.name)
            .variable("GIT_COMMITTER_EMAIL", &request.committer.email)
            .variable("GIT_COMMITTER_DATE", &date)
            .input(request.message());
        let made = git.read(self.call(call), &doing).await;
        if let Some(signer) = signer {
            signer.finish().await;
        }
        let commit = CommitId::parse(made?.trim_end())?;
        git.read(self.call(GitCall::new(["update-ref", "--no-deref", "HEAD", commit.as_str()])), &doing)
            .await?;
        Ok(CommitOutcome::Committed(commit))
    }

    /// Tells that Git knows something below a path.
    async fn is_tracked(&self, path: &TreePath) -> Result<bool, GitError> {
        let call = GitCall::new(["ls-files", "--error-unmatch", "-z", "--"]).arg(path.as_str());
        Ok(self.run(call, "look at tracked files").await?.is_success())
    }
}

/// A text without line breaks and control characters.
fn one_line(text: &str) -> String {
    let spaced: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    spaced.split_whitespace().collect::<Vec<_>>().join(" ")
}
