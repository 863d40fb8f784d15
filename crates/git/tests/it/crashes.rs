//! A process that ends anywhere, and the next one that goes on.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use slipway_git::{CacheOptions, Git, GitCall, GitCredential, GitProgram, LandOutcome};
use slipway_process::{ProgramError, ProgramOutput};

use crate::support::{Rig, landing, operation, writes};

/// The side of a call a process ends on.
#[derive(Clone, Copy, Debug)]
enum KillPoint {
    Before(usize),
    After(usize),
}

/// Git until the process ends.
struct MortalGit {
    git: Git,
    calls: AtomicUsize,
    end: KillPoint,
}

impl GitProgram for MortalGit {
    fn run(&self, call: GitCall) -> BoxFuture<'_, Result<ProgramOutput, ProgramError>> {
        let number = self.calls.fetch_add(1, Ordering::SeqCst);
        let dead = || Err(ProgramError::Interrupted { program: "git".to_owned() });
        async move {
            match self.end {
                KillPoint::Before(end) if number >= end => dead(),
                KillPoint::After(end) if number > end => dead(),
                KillPoint::After(end) if number == end => {
                    self.git.run(call).await?;
                    dead()
                }
                _ => self.git.run(call).await,
            }
        }
        .boxed()
    }
}

#[tokio::test]
async fn whatever_call_a_process_ends_at_the_next_one_makes_exactly_one_commit() {
    let edit = [("environments/dev/tag", "2\n")];
    let rig = Rig::new();
    let start = rig.git(&rig.remote(), &["rev-parse", "main"]);
    let mut ended = 0;
    for number in 0.. {
        let mut all_done = true;
        for end in [KillPoint::Before(number), KillPoint::After(number)] {
            rig.git(&rig.remote(), &["update-ref", "refs/heads/main", &start]);
            let _ = std::fs::remove_dir_all(rig.cache_directory());
            let git = Arc::new(MortalGit { git: Git::default(), calls: AtomicUsize::new(0), end });
            let cache = rig.cache_with("cache", CacheOptions::default(), git);
            let repository = cache.repository(rig.address(), GitCredential::Anonymous);
            let first = repository.land(&landing("dev"), writes(&edit)).await;
            all_done &= first.is_ok();
            ended += usize::from(first.is_err());
            drop((repository, cache));
            let outcome = rig.repository().land(&landing("dev"), writes(&edit)).await.unwrap();
            assert!(!matches!(outcome, LandOutcome::NothingChanged { .. }), "{end:?}: {outcome:?}");
            assert_eq!(rig.subjects("main"), ["Promote dev", "first"], "{end:?}");
        }
        if all_done {
            break;
        }
    }
    assert!(ended > 20, "only {ended} points");
}

#[tokio::test]
async fn a_dropped_operation_leaves_the_repository_usable() {
    let rig = Rig::new();
    let repository = rig.repository();
    for steps in 0..40 {
        let request = landing("dev");
        let edit = writes(&[("environments/dev/tag", "2\n")]);
        let land = repository.land(&request, edit);
        tokio::pin!(land);
        // Polled so often, then dropped.
        for _ in 0..steps {
            let once = futures::future::poll_immediate(&mut land).await;
            if once.is_some() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    repository.land(&landing("dev"), writes(&[("environments/dev/tag", "2\n")])).await.unwrap();
    assert_eq!(rig.subjects("main"), ["Promote dev", "first"]);
}

#[tokio::test]
async fn trees_of_a_killed_process_are_swept_and_wanted_ones_stay() {
    use crate::support::branch;
    use slipway_git::{CheckoutBase, CheckoutRequest};
    let rig = Rig::new();
    let repository = rig.repository();
    let request = |name| CheckoutRequest {
        operation: operation(name),
        base: CheckoutBase::Branch(branch("main")),
        paths: Vec::new(),
    };
    for name in ["old", "wanted"] {
        repository.check_out(&request(name)).await.unwrap().keep();
    }
    let used = repository.check_out(&request("used")).await.unwrap();
    rig.cache().sweep(|operation| operation.as_str() == "wanted").await.unwrap();
    assert!(used.directory().is_dir(), "a tree somebody holds stays");
    assert!(repository.reopen(&operation("wanted")).await.unwrap().is_some());
    assert!(repository.reopen(&operation("old")).await.unwrap().is_none());
}
