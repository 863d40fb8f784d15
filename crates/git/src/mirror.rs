//! One mirrored repository: fetched once at a time, healed when damaged, bounded in size.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use slipway_event::{Redactor, without_credentials};
use slipway_process::{ProgramError, ProgramOutput};
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::address::RepositoryAddress;
use crate::cache::{CacheState, is_idle, remove_tree, size_of};
use crate::credential::GitCredential;
use crate::error::GitError;
use crate::lock::FileLock;
use crate::name::{BranchName, CommitId};
use crate::program::GitCall;

/// What the uses of one mirror in this process share.
#[derive(Default)]
pub(crate) struct MirrorState {
    /// Held around everything that talks to the remote or changes the mirror.
    fetched: Mutex<BTreeMap<BranchName, Fetched>>,
    /// Held while an edit is put on a branch, so that this process does not race with itself.
    pub(crate) writing: Mutex<()>,
}

/// The last fetch of a branch.
#[derive(Clone)]
struct Fetched {
    started: Instant,
    depth: u32,
    commit: CommitId,
}

/// A repository, seen with somebody's credentials.
#[derive(Clone)]
pub struct Repository {
    pub(crate) cache: Arc<CacheState>,
    pub(crate) state: Arc<MirrorState>,
    /// Holds `mirror.git`, `wt` and `used`.
    pub(crate) place: PathBuf,
    pub(crate) address: RepositoryAddress,
    pub(crate) credential: GitCredential,
    redactor: Redactor,
}

/// The right to change a mirror, in this process and among all.
pub(crate) struct MirrorGuard<'m> {
    fetched: MutexGuard<'m, BTreeMap<BranchName, Fetched>>,
    _file: FileLock,
}

impl Repository {
    pub(crate) fn new(
        cache: Arc<CacheState>,
        state: Arc<MirrorState>,
        place: PathBuf,
        address: RepositoryAddress,
        credential: GitCredential,
    ) -> Self {
        let redactor = credential.redactor();
        Self { cache, state, place, address, credential, redactor }
    }

    pub fn address(&self) -> &RepositoryAddress {
        &self.address
    }

    pub(crate) fn mirror(&self) -> PathBuf {
        self.place.join("mirror.git")
    }

    /// Directory for files that live no longer than a call.
    pub(crate) fn scratch(&self) -> PathBuf {
        self.place.join("scratch")
    }

    /// The commit a branch is at, as the remote says now.
    pub async fn remote_head(&self, branch: &BranchName) -> Result<Option<CommitId>, GitError> {
        let doing = format!("look at `{branch}` of {}", self.address);
        // Read without the mirror: it may not exist yet.
        let call = GitCall::new(["ls-remote", "--exit-code", "--refs", "--"])
            .args([self.address.as_str().to_owned(), branch.remote_ref()]);
        let output = self.call_remote(call, &doing).await?;
        match output.status.code() {
            Some(0) => {
                let text = String::from_utf8_lossy(&output.stdout);
                let line = text.lines().find(|line| line.ends_with(&format!("\t{}", branch.remote_ref())));
                Ok(line.and_then(|line| CommitId::parse(line.split('\t').next()?).ok()))
            }
            // Git's own code for "no such reference".
            Some(2) => Ok(None),
            _ => Err(self.remote_failure(&doing, &output)),
        }
    }

    /// Fetches a branch and says where it is. Requests that wait for each other share one fetch.
    pub async fn fetch(&self, branch: &BranchName) -> Result<CommitId, GitError> {
        self.fetch_deep(branch, 1).await
    }

    pub(crate) async fn fetch_deep(&self, branch: &BranchName, depth: u32) -> Result<CommitId, GitError> {
        let asked = Instant::now();
        let mut guard = self.lock().await?;
        if let Some(last) = guard.fetched.get(branch)
            && last.started > asked
            && last.depth >= depth
            && self.mirror().is_dir()
        {
            return Ok(last.commit.clone());
        }
        let started = Instant::now();
        let commit = match self.fetch_locked(branch, depth).await {
            Ok(commit) => commit,
            Err(GitError::DiskFull { .. }) => {
                self.cache.make_room(&self.place)?;
                self.fetch_locked(branch, depth).await?
            }
            Err(error) => self.heal(&mut guard, branch, depth, error).await?,
        };
        guard.fetched.insert(branch.clone(), Fetched { started, depth, commit: commit.clone() });
        drop(guard);
        self.cache.shrink(Some(&self.place))?;
        Ok(commit)
    }

    /// Waits for the right to change the mirror.
    pub(crate) async fn lock(&self) -> Result<MirrorGuard<'_>, GitError> {
        let path = self.place.with_extension("lock");
        let both = async {
            let fetched = self.state.fetched.lock().await;
            let file = FileLock::acquire(&path).await.map_err(GitError::files(&path))?;
            Ok(MirrorGuard { fetched, _file: file })
        };
        let stopped = || GitError::Interrupted { repository: self.address.to_string() };
        self.cache.stop.run_until_cancelled(both).await.unwrap_or_else(|| Err(stopped()))
    }

    /// After a failed fetch: a remote that answers means that the mirror is to blame, so it is made anew, once.
    async fn heal(
        &self,
        guard: &mut MirrorGuard<'_>,
        branch: &BranchName,
        depth: u32,
        error: GitError,
    ) -> Result<CommitId, GitError> {
        if !matches!(
            error,
            GitError::Failed { .. } | GitError::Unreachable { .. } | GitError::AccessDenied { .. }
        ) {
            return Err(error);
        }
        if self.remote_head(branch).await?.is_none() {
            let repository = self.address.to_string();
            return Err(GitError::BranchMissing { repository, branch: branch.clone() });
        }
        if !is_idle(&self.place) {
            return Err(error);
        }
        guard.fetched.clear();
        remove_tree(&self.mirror())?;
        self.fetch_locked(branch, depth).await
    }

    async fn fetch_locked(&self, branch: &BranchName, depth: u32) -> Result<CommitId, GitError> {
        self.ensure_mirror().await?;
        let used = self.place.join("used");
        fs::write(&used, "").map_err(GitError::files(&used))?;
        let doing = format!("fetch `{branch}` of {}", self.address);
        let call = GitCall::new(["fetch", "--quiet", "--force", "--no-tags", "--no-write-fetch-head"])
            .args(["--no-recurse-submodules", "--filter=blob:none"])
            .arg(format!("--depth={depth}"))
            .arg("origin")
            .arg(format!("+{}:{}", branch.remote_ref(), branch.mirror_ref()))
            .directory(&self.mirror());
        let output = self.call_bounded(call, &doing).await?;
        if !output.is_success() {
            return Err(self.remote_failure(&doing, &output));
        }
        self.resolve(&branch.mirror_ref()).await
    }

    /// The commit a name stands for in the mirror.
    pub(crate) async fn resolve(&self, name: &str) -> Result<CommitId, GitError> {
        let doing = format!("read `{name}` of {}", self.address);
        let call = GitCall::new(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{name}^{{commit}}"))
            .directory(&self.mirror());
        Ok(CommitId::parse(self.read(call, &doing).await?.trim_end())?)
    }

    /// Makes the mirror if there is none, or if it is too old and nobody uses it.
    pub(crate) async fn ensure_mirror(&self) -> Result<(), GitError> {
        let mirror = self.mirror();
        let stamp = mirror.join("slipway-created");
        let now = self.cache.clock.now();
        let made = fs::read_to_string(&stamp).ok().and_then(|text| text.parse::<jiff::Timestamp>().ok());
        let is_fresh = made.is_some_and(|made| {
            let age = Duration::try_from(now.duration_since(made)).unwrap_or_default();
            age < self.cache.options.most_age
        });
        if is_fresh || (made.is_some() && !is_idle(&self.place)) {
            return Ok(());
        }
        // Made beside its place and moved there, so that a crash leaves no half of one.
        let fresh = self.place.join("mirror.new");
        remove_tree(&fresh)?;
        fs::create_dir_all(&self.place).map_err(GitError::files(&self.place))?;
        let doing = format!("create a mirror of {}", self.address);
        let call = GitCall::new(["init", "--quiet", "--bare", "--template="]).arg(&fresh);
        self.read(call, &doing).await?;
        for (name, value) in [
            ("remote.origin.url", self.address.as_str()),
            ("remote.origin.promisor", "true"),
            ("remote.origin.partialCloneFilter", "blob:none"),
            ("core.repositoryFormatVersion", "1"),
            ("extensions.partialClone", "origin"),
        ] {
            self.read(GitCall::new(["config", name, value]).directory(&fresh), &doing).await?;
        }
        let new_stamp = fresh.join("slipway-created");
        fs::write(&new_stamp, now.to_string()).map_err(GitError::files(&new_stamp))?;
        remove_tree(&mirror)?;
        fs::rename(&fresh, &mirror).map_err(GitError::files(&mirror))
    }

    /// Calls Git without the remote and gives what it printed.
    pub(crate) async fn read(&self, call: GitCall, doing: &str) -> Result<String, GitError> {
        let output = self.call_local(call, doing).await?;
        if !output.is_success() {
            return Err(self.failure(doing, &output));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Calls Git without the remote.
    pub(crate) async fn call_local(&self, mut call: GitCall, doing: &str) -> Result<ProgramOutput, GitError> {
        call.stop = self.cache.stop.clone();
        let program = |source| GitError::Program { doing: doing.to_owned(), source };
        self.cache.git.run(call).await.map_err(program)
    }

    /// Calls Git with the credentials of the remote.
    pub(crate) async fn call_remote(&self, call: GitCall, doing: &str) -> Result<ProgramOutput, GitError> {
        self.call_remote_until(call, doing, self.cache.stop.clone()).await
    }

    async fn call_remote_until(
        &self,
        mut call: GitCall,
        doing: &str,
        stop: CancellationToken,
    ) -> Result<ProgramOutput, GitError> {
        call.stop = stop;
        call.time = Some(self.cache.options.network_time);
        let (call, _files) = self.credential.equip(call, &self.address, &self.scratch())?;
        let program = |source| GitError::Program { doing: doing.to_owned(), source };
        self.cache.git.run(call).await.map_err(program)
    }

    /// Calls Git with the remote, and ends it once the mirror is larger than a repository may be.
    pub(crate) async fn call_bounded(&self, call: GitCall, doing: &str) -> Result<ProgramOutput, GitError> {
        let limit = self.cache.options.largest_repository;
        let stop = self.cache.stop.child_token();
        let mirror = self.mirror();
        let watch = async {
            loop {
                tokio::time::sleep(Duration::from_millis(250)).await;
                let measured = mirror.clone();
                let size = tokio::task::spawn_blocking(move || size_of(&measured)).await.unwrap_or_default();
                if size > limit {
                    return stop.cancel();
                }
            }
        };
        let work = self.call_remote_until(call, doing, stop.clone());
        tokio::pin!(work);
        let result = tokio::select! {
            result = &mut work => result,
            () = watch => work.await,
        };
        let is_too_large = matches!(
            &result,
            Err(GitError::Program { source: ProgramError::Interrupted { .. }, .. }) if !self.cache.stop.is_cancelled()
        );
        if is_too_large || size_of(&mirror) > limit {
            if is_idle(&self.place) {
                remove_tree(&mirror)?;
            }
            return Err(GitError::TooLarge { repository: self.address.to_string(), limit });
        }
        result
    }

    /// A failure of Git's own.
    pub(crate) fn failure(&self, doing: &str, output: &ProgramOutput) -> GitError {
        let (doing, message) = (doing.to_owned(), self.message(output));
        if is_disk_full(output) {
            return GitError::DiskFull { doing, message };
        }
        GitError::Failed { doing, message }
    }

    /// A failure of a conversation with the remote. Git has one exit code for all of them, so its words, which are
    /// fixed by `LC_ALL=C`, tell refused credentials from the rest.
    pub(crate) fn remote_failure(&self, doing: &str, output: &ProgramOutput) -> GitError {
        let (doing, message) = (doing.to_owned(), self.message(output));
        if is_disk_full(output) {
            return GitError::DiskFull { doing, message };
        }
        let stderr = String::from_utf8_lossy(&output.stderr).to_ascii_lowercase();
        if DENIED.iter().any(|words| stderr.contains(words)) {
            GitError::AccessDenied { doing, message }
        } else {
            GitError::Unreachable { doing, message }
        }
    }

    /// The lines of Git's explanation that say something, without credentials.
    pub(crate) fn message(&self, output: &ProgramOutput) -> String {
        let text = String::from_utf8_lossy(&output.stderr);
        let told: Vec<&str> = text
            .lines()
            .map(str::trim)
            .map(|line| line.trim_start_matches("fatal: ").trim_start_matches("error: "))
            .filter(|line| {
                !line.is_empty() && !line.starts_with("hint:") && !line.starts_with("warning: filtering")
            })
            .take(5)
            .collect();
        let told = if told.is_empty() { output.status.to_string() } else { told.join("; ") };
        let told: String = told.chars().filter(|c| !c.is_control()).take(500).collect();
        self.redactor.redact(&without_credentials(&told)).into_owned()
    }

    /// A path of the mirror's own, for what is kept beside it.
    pub(crate) fn beside(&self, name: &str) -> PathBuf {
        Path::new(&self.place).join(name)
    }
}

/// Tells by Git's words that the disk of this machine is full; what the remote says of its own disk is another matter.
fn is_disk_full(output: &ProgramOutput) -> bool {
    let text = String::from_utf8_lossy(&output.stderr).to_ascii_lowercase();
    let own = text.lines().filter(|line| !line.trim_start().starts_with("remote:"));
    own.into_iter().any(|line| FULL.iter().any(|words| line.contains(words)))
}

const FULL: [&str; 2] = ["no space left on device", "disk quota exceeded"];

/// Git's words for a remote that does not let us in.
const DENIED: [&str; 8] = [
    "authentication failed",
    "could not read username",
    "could not read password",
    "permission denied",
    "host key verification failed",
    "repository not found",
    "the requested url returned error: 401",
    "the requested url returned error: 403",
];
