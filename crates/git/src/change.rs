//! The change one commit makes, and three-way merges of texts: what cherry-picking into another directory needs.

use std::fs;

use crate::credential::private_directory;
use crate::error::GitError;
use crate::mirror::Repository;
use crate::name::{CommitId, CommitPrefix, TreePath};
use crate::program::GitCall;

/// The change a commit makes to the files below a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitChange {
    pub commit: CommitId,
    /// The first line of its message.
    pub subject: String,
    /// Sorted by path.
    pub files: Vec<FileChange>,
}

/// A file before and after a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileChange {
    /// Relative to the path that was asked for.
    pub path: TreePath,
    /// None for a file the commit adds.
    pub before: Option<FileContent>,
    /// None for a file the commit deletes.
    pub after: Option<FileContent>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileContent {
    pub bytes: Vec<u8>,
    pub is_executable: bool,
}

/// The result of merging texts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextMerge {
    Merged(Vec<u8>),
    /// Both sides have changed the same lines, or the content is no text.
    Conflict,
}

/// Git's name of the commit before the first one.
const EMPTY_TREE: &str = "4b825dc642cb6eb9a060e54bf8d69288fbee4904";

/// A line of `git diff-tree`: modes and ids of both sides.
struct RawChange {
    before: RawSide,
    after: RawSide,
    path: String,
}

struct RawSide {
    mode: String,
    id: String,
}

impl Repository {
    /// Reads the change of a commit against its first parent. The commit may be on any branch.
    pub async fn commit_change(
        &self,
        wanted: &CommitPrefix,
        below: &TreePath,
    ) -> Result<CommitChange, GitError> {
        let commit = self.fetch_any(wanted).await?;
        let doing = format!("read commit {} of {}", commit.short(), self.address());
        let show = GitCall::new(["log", "--no-color", "--no-show-signature", "--max-count=1"])
            .args(["--format=%P%x1f%s", "--end-of-options", commit.as_str()])
            .directory(&self.mirror());
        let shown = self.read(show, &doing).await?;
        let (parents, subject) = shown.trim_end().split_once('\u{1f}').unwrap_or_default();
        let parent = parents.split(' ').find(|one| !one.is_empty()).unwrap_or(EMPTY_TREE);
        let mut compare = GitCall::new(["diff-tree", "-r", "-z", "--no-renames", "--full-index", "--raw"])
            .args([parent, commit.as_str()])
            .directory(&self.mirror());
        if !below.is_root() {
            compare = compare.args(["--", below.as_str()]);
        }
        let output = self.call_local(compare, &doing).await?;
        if !output.is_success() {
            return Err(self.failure(&doing, &output));
        }
        let mut files = Vec::new();
        for change in raw_changes(&output.stdout) {
            let inner = change.path.strip_prefix(below.as_str()).unwrap_or(&change.path);
            let path = TreePath::parse(inner.trim_start_matches('/'))?;
            let before = self.side(&change.before, &path, &doing).await?;
            let after = self.side(&change.after, &path, &doing).await?;
            files.push(FileChange { path, before, after });
        }
        files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(CommitChange { commit, subject: subject.to_owned(), files })
    }

    /// One side of a change. Links and submodules are refused: they could lead anywhere.
    async fn side(
        &self,
        side: &RawSide,
        path: &TreePath,
        doing: &str,
    ) -> Result<Option<FileContent>, GitError> {
        let is_executable = match side.mode.as_str() {
            "000000" => return Ok(None),
            "100644" => false,
            "100755" => true,
            _ => return Err(GitError::Escapes { path: path.to_string() }),
        };
        let call = GitCall::new(["cat-file", "blob", &side.id]).directory(&self.mirror());
        // Contents that were left out of the fetch are fetched now.
        let output = self.call_bounded(call, doing).await?;
        if !output.is_success() {
            return Err(self.remote_failure(doing, &output));
        }
        Ok(Some(FileContent { bytes: output.stdout, is_executable }))
    }

    /// Fetches a commit with its parent, whatever branch it is on.
    async fn fetch_any(&self, wanted: &CommitPrefix) -> Result<CommitId, GitError> {
        let _guard = self.lock().await?;
        self.ensure_mirror().await?;
        let doing = format!("fetch commit {wanted} of {}", self.address());
        let fetch = |depth: u32, refs: String| {
            GitCall::new(["fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head"])
                .args(["--no-recurse-submodules", "--filter=blob:none"])
                .arg(format!("--depth={depth}"))
                .args(["origin".to_owned(), refs])
                .directory(&self.mirror())
        };
        if let Ok(commit) = CommitId::parse(wanted.as_str()) {
            let name = format!("refs/slipway/commits/{commit}");
            let output = self.call_bounded(fetch(2, format!("+{commit}:{name}")), &doing).await?;
            if output.is_success() {
                return self.resolve(&name).await;
            }
        }
        // Part of an id, or a server that gives away only the ends of branches.
        let everything = fetch(2_147_483_647, "+refs/heads/*:refs/remotes/origin/*".to_owned());
        let output = self.call_bounded(everything, &doing).await?;
        if !output.is_success() {
            return Err(self.remote_failure(&doing, &output));
        }
        let unknown =
            || GitError::UnknownCommit { repository: self.address().to_string(), commit: wanted.to_string() };
        self.resolve(wanted.as_str()).await.map_err(|error| match error {
            GitError::Failed { .. } => unknown(),
            other => other,
        })
    }

    /// Merges what two sides have made of a text.
    pub async fn merge_text(&self, ours: &[u8], base: &[u8], theirs: &[u8]) -> Result<TextMerge, GitError> {
        if theirs == base || ours == theirs {
            return Ok(TextMerge::Merged(ours.to_vec()));
        }
        if ours == base {
            return Ok(TextMerge::Merged(theirs.to_vec()));
        }
        if [ours, base, theirs].iter().any(|side| side.contains(&0)) {
            return Ok(TextMerge::Conflict);
        }
        let scratch = self.scratch();
        let directory = private_directory(&scratch).map_err(GitError::files(&scratch))?;
        let mut call = GitCall::new(["merge-file", "--stdout", "--quiet"]);
        for (name, content) in [("ours", ours), ("base", base), ("theirs", theirs)] {
            let file = directory.path().join(name);
            fs::write(&file, content).map_err(GitError::files(&file))?;
            call = call.arg(file);
        }
        let doing = "merge two changes of a file";
        let output = self.call_local(call.directory(&self.mirror()), doing).await?;
        match output.status.code() {
            Some(0) => Ok(TextMerge::Merged(output.stdout)),
            // The number of conflicts, at most 127.
            Some(1..=127) => Ok(TextMerge::Conflict),
            _ => Err(self.failure(doing, &output)),
        }
    }
}

/// Reads `:MODE MODE ID ID STATUS NUL PATH NUL`, again and again.
fn raw_changes(output: &[u8]) -> Vec<RawChange> {
    let text = String::from_utf8_lossy(output);
    let mut fields = text.split('\0');
    let mut changes = Vec::new();
    while let (Some(about), Some(path)) = (fields.next(), fields.next()) {
        let words: Vec<&str> = about.trim_start_matches(':').split(' ').collect();
        if let [before, after, before_id, after_id, ..] = words.as_slice() {
            let side = |mode: &str, id: &str| RawSide { mode: mode.to_owned(), id: id.to_owned() };
            changes.push(RawChange {
                before: side(before, before_id),
                after: side(after, after_id),
                path: path.to_owned(),
            });
        }
    }
    changes
}
