//! Mirrors: shared, healed, bounded.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use slipway_git::{CacheOptions, Git, GitCall, GitCredential, GitError, GitProgram};
use slipway_process::{ProgramError, ProgramOutput};

use crate::support::{Rig, branch, landing, writes};

/// Counts fetches.
struct CountingGit {
    git: Git,
    fetches: AtomicUsize,
}

impl GitProgram for CountingGit {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>> {
        self.fetches.fetch_add(usize::from(call.command() == "fetch"), Ordering::SeqCst);
        self.git.run(call)
    }
}

#[tokio::test]
async fn requests_that_wait_for_each_other_share_a_fetch() {
    let rig = Rig::new();
    let git = Arc::new(CountingGit { git: Git::default(), fetches: AtomicUsize::new(0) });
    let cache = rig.cache_with("cache", CacheOptions::default(), git.clone());
    let repository = cache.repository(rig.address(), GitCredential::Anonymous);
    let main = branch("main");
    let all = (0..20).map(|_| repository.fetch(&main));
    let tips = futures::future::try_join_all(all).await.unwrap();
    assert!(tips.iter().all(|tip| *tip == tips[0]));
    let fetches = git.fetches.load(Ordering::SeqCst);
    assert!(fetches <= 2, "{fetches} fetches for 20 requests at once");
    repository.fetch(&main).await.unwrap();
    assert_eq!(git.fetches.load(Ordering::SeqCst), fetches + 1, "a later request looks again");
}

#[tokio::test]
async fn a_damaged_mirror_is_made_anew() {
    let rig = Rig::new();
    let repository = rig.repository();
    repository.fetch(&branch("main")).await.unwrap();
    let mirror = std::fs::read_dir(rig.cache_directory())
        .unwrap()
        .map(|entry| entry.unwrap().path().join("mirror.git"))
        .find(|path| path.is_dir())
        .unwrap();
    for damage in ["HEAD", "config", "objects", "all"] {
        match damage {
            "all" => std::fs::remove_dir_all(&mirror).unwrap(),
            "objects" => {
                std::fs::remove_dir_all(mirror.join("objects")).unwrap();
                std::fs::write(mirror.join("objects"), "no directory").unwrap();
            }
            file => std::fs::write(mirror.join(file), "\0garbage").unwrap(),
        }
        repository.fetch(&branch("main")).await.unwrap_or_else(|error| panic!("{damage}: {error}"));
    }
    repository.land(&landing("dev"), writes(&[("environments/dev/tag", "2\n")])).await.unwrap();
}

#[tokio::test]
async fn an_old_mirror_is_cloned_anew() {
    let rig = Rig::new();
    let options = CacheOptions { most_age: Duration::ZERO, ..CacheOptions::default() };
    let cache = rig.cache_with("cache", options, Arc::new(Git::default()));
    let repository = cache.repository(rig.address(), GitCredential::Anonymous);
    let first = repository.fetch(&branch("main")).await.unwrap();
    assert_eq!(repository.fetch(&branch("main")).await.unwrap(), first);
}

#[tokio::test]
async fn a_repository_beyond_the_limit_is_refused_and_leaves_nothing() {
    let rig = Rig::new();
    let text: String =
        (0..200_000u64).map(|n| format!("{:x}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    rig.human("large", &[("environments/dev/large", &text)]);
    let options = CacheOptions { largest_repository: 500_000, ..CacheOptions::default() };
    let cache = rig.cache_with("cache", options, Arc::new(Git::default()));
    let repository = cache.repository(rig.address(), GitCredential::Anonymous);
    let error = repository.land(&landing("dev"), writes(&[])).await.unwrap_err();
    assert!(error.to_string().contains("is larger than 500000 bytes"), "{error}");
}

#[tokio::test]
async fn the_mirrors_used_longest_ago_make_room() {
    let (old, new) = (Rig::new(), Rig::new());
    let options = CacheOptions { most_bytes: 1, ..CacheOptions::default() };
    let cache = new.cache_with("cache", options, Arc::new(Git::default()));
    cache.repository(old.address(), GitCredential::Anonymous).fetch(&branch("main")).await.unwrap();
    let kept = cache.repository(new.address(), GitCredential::Anonymous);
    let request = slipway_git::CheckoutRequest {
        operation: crate::support::operation("x"),
        base: slipway_git::CheckoutBase::Branch(branch("main")),
        paths: Vec::new(),
    };
    let tree = kept.check_out(&request).await.unwrap();
    cache.shrink().unwrap();
    let left = || {
        let entries = std::fs::read_dir(new.place.path().join("cache")).unwrap();
        entries.filter(|entry| entry.as_ref().unwrap().path().is_dir()).count()
    };
    assert_eq!(left(), 1, "what is in use stays");
    drop(tree);
    // A program that another test starts may hold a copy of the lock for a moment.
    for _ in 0..1000 {
        cache.shrink().unwrap();
        if left() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("what is in use no more stays");
}

#[tokio::test]
async fn a_missing_branch_or_repository_has_its_own_error() {
    let rig = Rig::new();
    let error = rig.repository().fetch(&branch("none")).await.unwrap_err();
    assert!(matches!(error, GitError::BranchMissing { .. }), "{error}");
    std::fs::remove_dir_all(rig.remote()).unwrap();
    let error = rig.repository().fetch(&branch("main")).await.unwrap_err();
    assert!(matches!(error, GitError::Unreachable { .. } | GitError::AccessDenied { .. }), "{error}");
}

/// Git on a disk that is full until a mirror has made room.
struct FullDisk {
    git: Git,
    /// The mirror that takes the room.
    other: std::path::PathBuf,
}

impl GitProgram for FullDisk {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>> {
        let is_full = call.command() == "fetch" && self.other.exists();
        async move {
            let mut output = self.git.run(call).await?;
            if is_full {
                output.status = std::os::unix::process::ExitStatusExt::from_raw(128 << 8);
                output.stderr = b"fatal: write error: No space left on device\n".to_vec();
            }
            Ok(output)
        }
        .boxed()
    }
}

#[tokio::test]
async fn mirrors_nobody_uses_make_room_on_a_full_disk() {
    let (old, new) = (Rig::new(), Rig::new());
    let plain = new.cache_with("cache", CacheOptions::default(), Arc::new(Git::default()));
    plain.repository(old.address(), GitCredential::Anonymous).fetch(&branch("main")).await.unwrap();
    let entries = std::fs::read_dir(new.place.path().join("cache")).unwrap();
    let other = entries.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let full = FullDisk { git: Git::default(), other: other.clone() };
    let cache = new.cache_with("cache", CacheOptions::default(), Arc::new(full));
    let request = slipway_git::CheckoutRequest {
        operation: crate::support::operation("x"),
        base: slipway_git::CheckoutBase::Branch(branch("main")),
        paths: Vec::new(),
    };
    let tree = plain.repository(old.address(), GitCredential::Anonymous).check_out(&request).await.unwrap();
    let error = cache.repository(new.address(), GitCredential::Anonymous).fetch(&branch("main")).await;
    assert!(matches!(error, Err(GitError::DiskFull { .. })), "what is in use stays: {error:?}");
    drop(tree);
    cache.repository(new.address(), GitCredential::Anonymous).fetch(&branch("main")).await.unwrap();
    assert!(!other.exists());
}
