//! Private work trees: one an operation, gone with it.

use std::fs;
use std::path::{Path, PathBuf};

use slipway_process::ProgramOutput;

use crate::cache::remove_tree;
use crate::error::GitError;
use crate::lock::FileLock;
use crate::mirror::Repository;
use crate::name::{BranchName, CommitId, OperationId, TreePath};
use crate::program::GitCall;

/// The commit a work tree starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckoutBase {
    Branch(BranchName),
    /// The branch, or nothing at all: the first commit then has no parent.
    BranchOrEmpty(BranchName),
    /// A commit in the history of a branch.
    Commit {
        branch: BranchName,
        commit: CommitId,
    },
}

/// A work tree to make.
#[derive(Clone, Debug)]
pub struct CheckoutRequest {
    pub operation: OperationId,
    pub base: CheckoutBase,
    /// The directories to have; all if empty. Files at the top are always there.
    pub paths: Vec<TreePath>,
}

/// A work tree of one operation. It is removed when dropped, unless it is kept.
pub struct WorkTree {
    pub(crate) repository: Repository,
    pub(crate) path: PathBuf,
    git_directory: PathBuf,
    base: CommitId,
    /// Tells that `base` is only there to have something to start from.
    pub(crate) is_rootless: bool,
    is_sparse: bool,
    is_kept: bool,
    _lock: FileLock,
}

/// The file in a work tree's Git directory that says what it started from.
const MARKER: &str = "slipway-base";
/// History that is fetched for a commit that is not at the end of its branch.
const SEARCHED_DEPTHS: [u32; 3] = [100, 2_000, 2_147_483_647];

impl Repository {
    /// Fetches and gives a work tree at the base. One that an earlier run left under the same name is replaced.
    pub async fn check_out(&self, request: &CheckoutRequest) -> Result<WorkTree, GitError> {
        let mut is_rootless = false;
        let base = match &request.base {
            CheckoutBase::Branch(branch) => self.fetch(branch).await?,
            CheckoutBase::Commit { branch, commit } => self.fetch_commit(branch, commit).await?,
            CheckoutBase::BranchOrEmpty(branch) => match self.fetch(branch).await {
                Err(GitError::BranchMissing { .. }) => {
                    is_rootless = true;
                    self.empty_commit().await?
                }
                result => result?,
            },
        };
        self.add_tree(request, base, is_rootless).await
    }

    async fn add_tree(
        &self,
        request: &CheckoutRequest,
        base: CommitId,
        is_rootless: bool,
    ) -> Result<WorkTree, GitError> {
        let doing = format!("check out {} of {}", base.short(), self.address);
        let guard = self.lock().await?;
        let (path, lock) = self.claim(&request.operation)?;
        remove_tree(&path)?;
        let mirror = self.mirror();
        self.read(GitCall::new(["worktree", "prune"]).directory(&mirror), &doing).await?;
        let add = GitCall::new(["worktree", "add", "--quiet", "--force", "--detach", "--no-checkout"]);
        self.read(add.arg(&path).arg(base.as_str()).directory(&mirror), &doing).await?;
        drop(guard);
        let git_directory = git_directory_of(&path)?;
        let mut tree = WorkTree {
            repository: self.clone(),
            path,
            git_directory,
            base,
            is_rootless,
            is_sparse: false,
            is_kept: false,
            _lock: lock,
        };
        tree.write_sparse(&request.paths)?;
        tree.write_marker()?;
        tree.reset_files(&doing).await?;
        Ok(tree)
    }

    /// Opens a work tree that was kept, if it is still whole.
    pub async fn reopen(&self, operation: &OperationId) -> Result<Option<WorkTree>, GitError> {
        let _guard = self.lock().await?;
        if !self.beside("wt").join(operation.as_str()).is_dir() {
            return Ok(None);
        }
        let (path, lock) = self.claim(operation)?;
        let Ok(git_directory) = git_directory_of(&path) else { return Ok(None) };
        let marker = fs::read_to_string(git_directory.join(MARKER)).unwrap_or_default();
        let mut words = marker.split_whitespace();
        let Some(Ok(base)) = words.next().map(CommitId::parse) else { return Ok(None) };
        let is_rootless = words.next() == Some("rootless");
        let is_sparse = git_directory.join("info/sparse-checkout").is_file();
        let repository = self.clone();
        let tree = WorkTree {
            repository,
            path,
            git_directory,
            base,
            is_rootless,
            is_sparse,
            is_kept: false,
            _lock: lock,
        };
        Ok(tree.head().await.is_ok().then_some(tree))
    }

    /// Takes the name of a work tree.
    fn claim(&self, operation: &OperationId) -> Result<(PathBuf, FileLock), GitError> {
        let trees = self.beside("wt");
        fs::create_dir_all(&trees).map_err(GitError::files(&trees))?;
        let file = trees.join(format!("{operation}.lock"));
        let lock = FileLock::try_acquire(&file).map_err(GitError::files(&file))?;
        let lock = lock.ok_or_else(|| GitError::InUse { operation: operation.to_string() })?;
        Ok((trees.join(operation.as_str()), lock))
    }

    /// Fetches so much history that a commit is there.
    async fn fetch_commit(&self, branch: &BranchName, commit: &CommitId) -> Result<CommitId, GitError> {
        for depth in SEARCHED_DEPTHS {
            self.fetch_deep(branch, depth).await?;
            let call = GitCall::new(["merge-base", "--is-ancestor", commit.as_str()])
                .arg(branch.mirror_ref())
                .directory(&self.mirror());
            if self.call_local(call, "look for a commit").await?.is_success() {
                return Ok(commit.clone());
            }
        }
        Err(GitError::CommitMissing { repository: self.address.to_string(), commit: commit.clone() })
    }

    /// A commit without parents and files, the same every time.
    async fn empty_commit(&self) -> Result<CommitId, GitError> {
        let doing = format!("start an empty branch of {}", self.address);
        let mirror = self.mirror();
        let tree = GitCall::new(["hash-object", "-t", "tree", "-w", "--stdin"]).directory(&mirror);
        let tree = self.read(tree, &doing).await?;
        let call = GitCall::new(["commit-tree", tree.trim_end()]).directory(&mirror);
        let call =
            call.variable("GIT_AUTHOR_NAME", "slipway").variable("GIT_AUTHOR_EMAIL", "slipway@localhost");
        let call = call
            .variable("GIT_COMMITTER_NAME", "slipway")
            .variable("GIT_COMMITTER_EMAIL", "slipway@localhost");
        let call = call.variable("GIT_AUTHOR_DATE", "@0 +0000").variable("GIT_COMMITTER_DATE", "@0 +0000");
        Ok(CommitId::parse(self.read(call.input("empty\n"), &doing).await?.trim_end())?)
    }
}

impl WorkTree {
    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        &self.path
    }

    /// The commit it started from.
    pub fn base(&self) -> &CommitId {
        &self.base
    }

    pub fn repository(&self) -> &Repository {
        &self.repository
    }

    /// The file or directory a path stands for. A link on the way, which could lead anywhere, is refused.
    pub fn locate(&self, path: &TreePath) -> Result<PathBuf, GitError> {
        let mut place = self.path.clone();
        for part in path.as_str().split('/').filter(|part| !part.is_empty()) {
            place.push(part);
            if place.is_symlink() {
                return Err(GitError::Escapes { path: path.to_string() });
            }
        }
        Ok(place)
    }

    /// The commit it is at.
    pub async fn head(&self) -> Result<CommitId, GitError> {
        let call = self.call(GitCall::new(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]));
        Ok(CommitId::parse(self.repository.read(call, "read HEAD of a work tree").await?.trim_end())?)
    }

    /// Throws every change away and starts again from the present tip of a branch.
    pub async fn reset_to_branch(&mut self, branch: &BranchName) -> Result<(), GitError> {
        let commit = self.repository.fetch(branch).await?;
        self.reset_to(commit).await
    }

    pub(crate) async fn reset_to(&mut self, commit: CommitId) -> Result<(), GitError> {
        let doing = format!("reset a work tree to {}", commit.short());
        let call = self.call(GitCall::new(["update-ref", "--no-deref", "HEAD", commit.as_str()]));
        self.repository.read(call, &doing).await?;
        self.base = commit;
        self.is_rootless = false;
        self.write_marker()?;
        self.reset_files(&doing).await
    }

    /// Makes the files those of HEAD, and removes all others.
    async fn reset_files(&self, doing: &str) -> Result<(), GitError> {
        for words in [["read-tree", "--reset", "-u", "HEAD"].as_slice(), &["clean", "-ffdxq"]] {
            // Contents that were left out of the fetch are fetched now.
            let call = self.call(GitCall::new(words.iter().copied()));
            let output = self.repository.call_bounded(call, doing).await?;
            if !output.is_success() {
                return Err(self.repository.failure(doing, &output));
            }
        }
        Ok(())
    }

    /// Leaves its files on disk for [`Repository::reopen`].
    pub fn keep(mut self) {
        self.is_kept = true;
    }

    /// A call that works in this tree.
    pub(crate) fn call(&self, call: GitCall) -> GitCall {
        let call = call.directory(&self.git_directory).work_tree(&self.path);
        if self.is_sparse {
            call.setting("core.sparseCheckout", "true").setting("core.sparseCheckoutCone", "true")
        } else {
            call
        }
    }

    /// Calls Git in this tree without the remote.
    pub(crate) async fn run(&self, call: GitCall, doing: &str) -> Result<ProgramOutput, GitError> {
        self.repository.call_local(self.call(call), doing).await
    }

    fn write_marker(&self) -> Result<(), GitError> {
        let path = self.git_directory.join(MARKER);
        let kind = if self.is_rootless { "rootless" } else { "" };
        fs::write(&path, format!("{} {kind}\n", self.base)).map_err(GitError::files(&path))
    }

    /// Chooses the directories to have, in the form of Git's cone mode.
    fn write_sparse(&mut self, paths: &[TreePath]) -> Result<(), GitError> {
        if paths.is_empty() || paths.iter().any(TreePath::is_root) {
            return Ok(());
        }
        let mut lines = vec!["/*".to_owned(), "!/*/".to_owned()];
        let mut add = |line: String| {
            if !lines.contains(&line) {
                lines.push(line);
            }
        };
        for path in paths {
            let mut above = String::new();
            let parts: Vec<String> = path.as_str().split('/').map(escape_pattern).collect();
            for part in &parts[..parts.len() - 1] {
                above = format!("{above}/{part}");
                add(format!("{above}/"));
                add(format!("!{above}/*/"));
            }
            add(format!("/{}/", parts.join("/")));
        }
        let info = self.git_directory.join("info");
        fs::create_dir_all(&info).map_err(GitError::files(&info))?;
        let file = info.join("sparse-checkout");
        fs::write(&file, lines.join("\n") + "\n").map_err(GitError::files(&file))?;
        self.is_sparse = true;
        Ok(())
    }
}

/// A name as Git's patterns write it.
fn escape_pattern(name: &str) -> String {
    name.chars().flat_map(|c| "*?[\\".contains(c).then_some('\\').into_iter().chain([c])).collect()
}

impl Drop for WorkTree {
    fn drop(&mut self) {
        if !self.is_kept {
            // Git forgets the tree with the next one it makes.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The directory Git keeps of a work tree.
fn git_directory_of(tree: &Path) -> Result<PathBuf, GitError> {
    let file = tree.join(".git");
    let text = fs::read_to_string(&file).map_err(GitError::files(&file))?;
    let path = text.strip_prefix("gitdir: ").map(str::trim_end).unwrap_or_default();
    Ok(PathBuf::from(path))
}
