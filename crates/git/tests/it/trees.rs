//! Private work trees, what they commit and what they find.

use std::path::PathBuf;

use slipway_git::{
    BranchLease, CheckoutBase, CheckoutRequest, CommitId, CommitOutcome, GitError, PushOutcome, Trailer,
};

use crate::support::{Rig, branch, commit, operation, path};

fn request(name: &str, paths: &[&str]) -> CheckoutRequest {
    CheckoutRequest {
        operation: operation(name),
        base: CheckoutBase::Branch(branch("main")),
        paths: paths.iter().map(|text| path(text)).collect(),
    }
}

#[tokio::test]
async fn trees_are_private_sparse_and_gone_when_dropped() {
    let rig = Rig::new();
    let repository = rig.repository();
    let dev = repository.check_out(&request("a", &["environments/dev"])).await.unwrap();
    let all = repository.check_out(&request("b", &[])).await.unwrap();
    assert!(dev.directory().join("environments/dev/tag").is_file());
    assert!(dev.directory().join("README").is_file(), "files at the top are always there");
    assert!(!dev.directory().join("environments/prod").exists());
    assert!(all.directory().join("environments/prod/tag").is_file());
    std::fs::write(dev.directory().join("environments/dev/tag"), "9\n").unwrap();
    assert_eq!(std::fs::read_to_string(all.directory().join("environments/dev/tag")).unwrap(), "1\n");
    let busy = repository.check_out(&request("a", &[])).await;
    assert!(matches!(busy, Err(GitError::InUse { .. })));
    let directory = dev.directory().to_owned();
    drop(dev);
    assert!(!directory.exists());
}

#[tokio::test]
async fn the_same_request_on_the_same_base_gives_the_same_commit() {
    let rig = Rig::new();
    let mut ids = Vec::new();
    for cache in ["one", "two"] {
        let cache =
            rig.cache_with(cache, Default::default(), std::sync::Arc::new(slipway_git::Git::default()));
        let repository = cache.repository(rig.address(), slipway_git::GitCredential::Anonymous);
        let tree = repository.check_out(&request("x", &["environments/dev"])).await.unwrap();
        std::fs::write(tree.directory().join("environments/dev/tag"), "2\n").unwrap();
        let CommitOutcome::Committed(id) = tree.commit(&commit("s", &["environments/dev"])).await.unwrap()
        else {
            panic!("nothing changed")
        };
        ids.push(id);
    }
    assert_eq!(ids[0], ids[1]);
}

#[tokio::test]
async fn deleted_files_are_committed_and_missing_paths_are_no_mistake() {
    let rig = Rig::new();
    let tree = rig.repository().check_out(&request("x", &[])).await.unwrap();
    std::fs::remove_dir_all(tree.directory().join("environments/dev")).unwrap();
    let wanted = commit("remove", &["environments/dev", "no/such/path"]);
    let CommitOutcome::Committed(id) = tree.commit(&wanted).await.unwrap() else { panic!("nothing changed") };
    let pushed = tree.push(&id, &branch("gone"), &BranchLease::Absent).await.unwrap();
    assert_eq!(pushed, PushOutcome::Pushed);
    assert_eq!(
        rig.git(&rig.remote(), &["ls-tree", "-r", "--name-only", "gone"]),
        "README\nenvironments/prod/tag"
    );
}

#[tokio::test]
async fn a_lease_keeps_others_commits() {
    let rig = Rig::new();
    let repository = rig.repository();
    let tree = repository.check_out(&request("x", &[])).await.unwrap();
    std::fs::write(tree.directory().join("README"), "2\n").unwrap();
    let CommitOutcome::Committed(id) = tree.commit(&commit("s", &["README"])).await.unwrap() else {
        panic!()
    };
    let promotion = branch("kardinal/app/prod/1");
    assert_eq!(tree.push(&id, &promotion, &BranchLease::Absent).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(
        tree.push(&id, &promotion, &BranchLease::At(id.clone())).await.unwrap(),
        PushOutcome::AlreadyThere
    );
    let theirs = rig.human("theirs", &[("x", "y")]);
    rig.git(&rig.remote(), &["update-ref", "refs/heads/kardinal/app/prod/1", &theirs]);
    assert_eq!(tree.push(&id, &promotion, &BranchLease::At(id.clone())).await.unwrap(), PushOutcome::Moved);
    assert_eq!(tree.push(&id, &promotion, &BranchLease::Absent).await.unwrap(), PushOutcome::Moved);
    assert_eq!(repository.delete_branch(&promotion, &id).await.unwrap(), PushOutcome::Moved);
    let theirs = CommitId::parse(&theirs).unwrap();
    assert_eq!(tree.push(&id, &promotion, &BranchLease::At(theirs)).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(repository.delete_branch(&promotion, &id).await.unwrap(), PushOutcome::Pushed);
    assert_eq!(repository.delete_branch(&promotion, &id).await.unwrap(), PushOutcome::AlreadyThere);
    assert_eq!(repository.remote_head(&promotion).await.unwrap(), None);
}

#[tokio::test]
async fn history_is_fetched_as_far_as_an_answer_needs_it() {
    let rig = Rig::new();
    let first = CommitId::parse(&rig.git(&rig.remote(), &["rev-parse", "main"])).unwrap();
    for number in 0..5 {
        rig.human(&format!("change {number}\n\nBundle: b-{number}"), &[(&format!("n/{number}"), "x")]);
    }
    let repository = rig.repository();
    let tip = repository.fetch(&branch("main")).await.unwrap();
    assert!(repository.contains(&branch("main"), &first).await.unwrap());
    let main = branch("main");
    assert!(repository.is_ancestor(&main, &first, &tip).await.unwrap());
    assert!(repository.is_ancestor(&main, &tip, &tip).await.unwrap());
    assert!(!repository.is_ancestor(&main, &tip, &first).await.unwrap());
    let elsewhere = CommitId::parse(&"1".repeat(40)).unwrap();
    assert!(!repository.is_ancestor(&main, &first, &elsewhere).await.unwrap());
    assert!(!repository.contains(&branch("main"), &elsewhere).await.unwrap());
    let mark = Trailer::new("Bundle", "b-1").unwrap();
    let found = repository.find_commit(&branch("main"), &mark, 100).await.unwrap().unwrap();
    assert_eq!(found.tip, tip);
    assert!(repository.find_commit(&branch("main"), &mark, 2).await.unwrap().is_none());
    assert!(repository.find_commit(&branch("none"), &mark, 2).await.unwrap().is_none());
    let files = repository.changed_files(&branch("main"), &found.commit, &tip).await.unwrap();
    assert_eq!(files, ["n/2", "n/3", "n/4"].map(PathBuf::from));
    let at = CheckoutRequest {
        operation: operation("x"),
        base: CheckoutBase::Commit { branch: branch("main"), commit: first.clone() },
        paths: Vec::new(),
    };
    let tree = repository.check_out(&at).await.unwrap();
    assert!(!tree.directory().join("n").exists());
    let at = CheckoutRequest {
        operation: operation("y"),
        base: CheckoutBase::Commit { branch: branch("main"), commit: elsewhere },
        paths: Vec::new(),
    };
    assert!(matches!(repository.check_out(&at).await, Err(GitError::CommitMissing { .. })));
}
