//! A remote, a cache, and people who push.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use slipway_event::SystemClock;
use slipway_git::{
    BranchName, CacheOptions, CommitIdentity, CommitRequest, Git, GitCredential, GitProgram, LandRequest,
    OperationId, ReplayPolicy, Repository, RepositoryAddress, RepositoryCache, Trailer, TransportPolicy,
    TreePath, WorkTree,
};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Git as on a machine without settings: neither those of its user nor of a hook this runs in matter.
pub(crate) fn plain_git() -> Command {
    let mut git = Command::new("git");
    git.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
    git.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
    git
}

pub(crate) struct Rig {
    pub(crate) place: TempDir,
}

impl Rig {
    /// A bare remote whose `main` has files of two environments.
    pub(crate) fn new() -> Self {
        let rig = Self { place: tempfile::tempdir().unwrap() };
        rig.git(rig.place.path(), &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        rig.git(&rig.remote(), &["config", "uploadpack.allowFilter", "true"]);
        rig.human(
            "first",
            &[("environments/dev/tag", "1\n"), ("environments/prod/tag", "1\n"), ("README", "hi\n")],
        );
        rig
    }

    pub(crate) fn remote(&self) -> PathBuf {
        self.place.path().join("remote.git")
    }

    /// Runs Git as a person would.
    pub(crate) fn git(&self, directory: &Path, args: &[&str]) -> String {
        let output = plain_git()
            .current_dir(directory)
            .args([
                "-c",
                "user.name=Human",
                "-c",
                "user.email=human@example.com",
                "-c",
                "commit.gpgSign=false",
            ])
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// A person clones, changes files and pushes to `main`; again if somebody was faster.
    pub(crate) fn human(&self, subject: &str, files: &[(&str, &str)]) -> String {
        let clone = tempfile::tempdir_in(self.place.path()).unwrap();
        let remote = self.remote();
        self.git(clone.path(), &["clone", "-q", remote.to_str().unwrap(), "."]);
        for (name, content) in files {
            let path = clone.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        self.git(clone.path(), &["add", "-A"]);
        self.git(clone.path(), &["commit", "-q", "-m", subject]);
        for _ in 0..200 {
            let pushed =
                plain_git().current_dir(clone.path()).args(["push", "-q", "origin", "HEAD:main"]).output();
            if pushed.unwrap().status.success() {
                return self.git(clone.path(), &["rev-parse", "HEAD"]);
            }
            self.git(clone.path(), &["pull", "-q", "--rebase", "origin", "main"]);
        }
        panic!("a person could not push");
    }

    pub(crate) fn address(&self) -> RepositoryAddress {
        let url = format!("file://{}", self.remote().display());
        RepositoryAddress::parse(&url, TransportPolicy::NetworkAndFiles).unwrap()
    }

    pub(crate) fn cache_directory(&self) -> PathBuf {
        self.place.path().join("cache")
    }

    pub(crate) fn cache(&self) -> RepositoryCache {
        self.cache_with("cache", CacheOptions::default(), Arc::new(Git::default()))
    }

    pub(crate) fn cache_with(
        &self,
        name: &str,
        options: CacheOptions,
        git: Arc<dyn GitProgram>,
    ) -> RepositoryCache {
        let root = self.place.path().join(name);
        RepositoryCache::open(root, options, git, Arc::new(SystemClock), CancellationToken::new()).unwrap()
    }

    pub(crate) fn repository(&self) -> Repository {
        self.cache().repository(self.address(), GitCredential::Anonymous)
    }

    /// A file on a branch of the remote.
    pub(crate) fn file(&self, branch: &str, path: &str) -> String {
        self.git(&self.remote(), &["show", &format!("{branch}:{path}")])
    }

    /// The subjects of a branch, newest first.
    pub(crate) fn subjects(&self, branch: &str) -> Vec<String> {
        let text = self.git(&self.remote(), &["log", "--format=%s", branch]);
        text.lines().map(str::to_owned).collect()
    }

    /// The number of commits of a branch that have more than one parent.
    pub(crate) fn merges(&self, branch: &str) -> String {
        self.git(&self.remote(), &["rev-list", "--count", "--merges", branch])
    }
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::parse(name).unwrap()
}

pub(crate) fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

pub(crate) fn operation(name: &str) -> OperationId {
    OperationId::parse(name).unwrap()
}

pub(crate) fn commit(subject: &str, paths: &[&str]) -> CommitRequest {
    CommitRequest {
        subject: subject.to_owned(),
        body: String::new(),
        trailers: Vec::new(),
        author: CommitIdentity::new("Promoter", "promoter@example.com"),
        committer: CommitIdentity::new("Promoter", "promoter@example.com"),
        time: "2026-11-17T05:00:00Z".parse().unwrap(),
        paths: paths.iter().map(|text| path(text)).collect(),
        signing: None,
    }
}

/// A request to put an edit below `environments/NAME` on `main`.
pub(crate) fn landing(name: &str) -> LandRequest {
    let paths = format!("environments/{name}");
    LandRequest {
        operation: operation(name),
        branch: branch("main"),
        commit: commit(&format!("Promote {name}"), &[&paths]),
        mark: Trailer::new("Kardinal-Step", &format!("{name}/1")).unwrap(),
        paths: vec![path(&paths)],
        replay: ReplayPolicy {
            attempts: 60,
            first_pause: Duration::from_millis(1),
            longest_pause: Duration::from_millis(20),
            searched_commits: 200,
        },
    }
}

/// Writes files into a tree.
pub(crate) fn writes<'f>(
    files: &'f [(&'f str, &'f str)],
) -> impl for<'t> Fn(&'t WorkTree) -> BoxFuture<'t, Result<(), std::io::Error>> + 'f {
    let files: BTreeMap<String, String> =
        files.iter().map(|(name, content)| ((*name).to_owned(), (*content).to_owned())).collect();
    move |tree| {
        let files = files.clone();
        async move {
            for (name, content) in files {
                let file = tree.locate(&path(&name)).map_err(std::io::Error::other)?;
                std::fs::create_dir_all(file.parent().unwrap_or(tree.directory()))?;
                std::fs::write(file, content)?;
            }
            Ok(())
        }
        .boxed()
    }
}
