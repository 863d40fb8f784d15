//! A bare repository on this machine, for rehearsals and demonstrations: made from files, merged like a server would.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;

use crate::commit::CommitIdentity;
use crate::error::GitError;
use crate::name::{BranchName, CommitId};
use crate::program::{GitCall, GitProgram};

/// A file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalFile {
    /// From the top of the repository, with slashes.
    pub path: String,
    pub content: Vec<u8>,
}

/// A bare repository on this machine.
#[derive(Clone)]
pub struct LocalRepository {
    program: Arc<dyn GitProgram>,
    directory: PathBuf,
}

impl LocalRepository {
    /// Makes an empty repository whose first branch is named.
    pub async fn create(
        program: Arc<dyn GitProgram>,
        directory: &Path,
        branch: &BranchName,
    ) -> Result<Self, GitError> {
        let repository = Self { program, directory: directory.to_owned() };
        let call = GitCall::new(["init", "-q", "--bare"])
            .arg(format!("--initial-branch={branch}"))
            .arg(directory.as_os_str());
        repository.run(call, "make a repository").await?;
        for (name, value) in [("uploadpack.allowFilter", "true"), ("uploadpack.allowAnySHA1InWant", "true")] {
            repository.run(repository.call(["config", name, value]), "set up the repository").await?;
        }
        Ok(repository)
    }

    /// The address clients use.
    pub fn url(&self) -> String {
        format!("file://{}", self.directory.display())
    }

    fn call<I: Into<std::ffi::OsString>>(&self, args: impl IntoIterator<Item = I>) -> GitCall {
        GitCall::new(args).directory(&self.directory)
    }

    async fn run(&self, call: GitCall, doing: &str) -> Result<String, GitError> {
        let ran = self.program.run(call).await;
        let output = ran.map_err(|source| GitError::Program { doing: doing.to_owned(), source })?;
        if !output.is_success() {
            let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(GitError::Failed { doing: doing.to_owned(), message });
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
    }

    /// Commits files to a branch, and nothing else: what is not named is not there afterwards.
    pub async fn commit_files(
        &self,
        branch: &BranchName,
        files: &[LocalFile],
        subject: &str,
        by: &CommitIdentity,
        at: Timestamp,
    ) -> Result<CommitId, GitError> {
        let doing = "commit files";
        let mut entries = Vec::new();
        for file in files {
            let call = self.call(["hash-object", "-w", "--stdin"]).input(file.content.clone());
            let blob = self.run(call, doing).await?;
            entries.extend(format!("100644 {blob}\t{}\n", file.path).into_bytes());
        }
        let index = self.directory.join("slipway-index");
        let index = index.to_string_lossy().into_owned();
        let call = self.call(["update-index", "--add", "--index-info"]);
        self.run(call.input(entries).variable("GIT_INDEX_FILE", &index), doing).await?;
        let tree = self.run(self.call(["write-tree"]).variable("GIT_INDEX_FILE", &index), doing).await?;
        // The next commit begins with an empty index.
        let _ = std::fs::remove_file(&index);
        let parent = self.head(branch).await?;
        self.commit_tree(branch, &tree, parent.as_slice(), subject, by, at).await
    }

    async fn commit_tree(
        &self,
        branch: &BranchName,
        tree: &str,
        parents: &[CommitId],
        subject: &str,
        by: &CommitIdentity,
        at: Timestamp,
    ) -> Result<CommitId, GitError> {
        let mut call = self.call(["commit-tree", tree]).args(["-m", subject]);
        for parent in parents {
            call = call.args(["-p", parent.as_str()]);
        }
        let call = by.sign(call, at);
        let commit = CommitId::parse(&self.run(call, "commit").await?)?;
        let name = format!("refs/heads/{branch}");
        self.run(self.call(["update-ref", &name, commit.as_str()]), "move the branch").await?;
        Ok(commit)
    }

    /// The commit a branch is at.
    pub async fn head(&self, branch: &BranchName) -> Result<Option<CommitId>, GitError> {
        let name = format!("refs/heads/{branch}");
        let found =
            self.run(self.call(["for-each-ref", "--format=%(objectname)", &name]), "look at a branch");
        let found = found.await?;
        if found.is_empty() { Ok(None) } else { Ok(Some(CommitId::parse(&found)?)) }
    }

    /// Tells whether a branch has commits that another has not.
    pub async fn is_ahead(&self, head: &BranchName, base: &BranchName) -> Result<bool, GitError> {
        let range = format!("refs/heads/{base}..refs/heads/{head}");
        Ok(self.run(self.call(["rev-list", "--count", &range]), "compare branches").await? != "0")
    }

    /// The tree of a merge; none if the branches have changed the same lines.
    pub async fn merged_tree(&self, base: &CommitId, head: &CommitId) -> Result<Option<String>, GitError> {
        let call = self.call(["merge-tree", "--write-tree", base.as_str(), head.as_str()]);
        let doing = "merge branches";
        let ran = self.program.run(call).await;
        let output = ran.map_err(|source| GitError::Program { doing: doing.to_owned(), source })?;
        let tree = String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned);
        Ok(tree.filter(|_| output.is_success()))
    }

    /// Merges a branch into another with a commit of its own; none if that is not possible.
    pub async fn merge(
        &self,
        head: &BranchName,
        base: &BranchName,
        subject: &str,
        by: &CommitIdentity,
        at: Timestamp,
    ) -> Result<Option<CommitId>, GitError> {
        let (Some(head_commit), Some(base_commit)) = (self.head(head).await?, self.head(base).await?) else {
            return Ok(None);
        };
        let Some(tree) = self.merged_tree(&base_commit, &head_commit).await? else { return Ok(None) };
        self.commit_tree(base, &tree, &[base_commit, head_commit], subject, by, at).await.map(Some)
    }

    /// Deletes a branch; one that is gone is deleted.
    pub async fn delete_branch(&self, branch: &BranchName) -> Result<(), GitError> {
        let name = format!("refs/heads/{branch}");
        self.run(self.call(["update-ref", "-d", &name]), "delete a branch").await.map(drop)
    }

    /// The subjects of a branch, the newest first.
    pub async fn subjects(&self, branch: &BranchName) -> Result<Vec<String>, GitError> {
        let name = format!("refs/heads/{branch}");
        let log = self.run(self.call(["log", "--format=%s", &name]), "read the history").await?;
        Ok(log.lines().map(str::to_owned).collect())
    }
}
