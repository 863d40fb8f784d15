//! Edits on a branch that others push to as well.

use std::sync::Arc;

use slipway_git::{CacheOptions, ErrorClass, Git, GitCredential, GitError, LandError, LandOutcome};

use crate::support::{Rig, branch, landing, writes};

#[tokio::test]
async fn an_edit_lands_once_and_touches_only_its_paths() {
    let rig = Rig::new();
    let repository = rig.repository();
    let edit = writes(&[
        ("environments/dev/tag", "2\n"),
        ("environments/dev/new/x", "y\n"),
        ("README", "changed\n"),
    ]);
    let landed = repository.land(&landing("dev"), &edit).await.unwrap();
    let LandOutcome::Landed { commit, attempts: 1, .. } = landed else { panic!("{landed:?}") };
    assert_eq!(rig.file("main", "environments/dev/tag"), "2");
    assert_eq!(rig.file("main", "environments/prod/tag"), "1");
    assert_eq!(rig.file("main", "README"), "hi", "only the request's paths are committed");
    let again = repository.land(&landing("dev"), &edit).await.unwrap();
    assert_eq!(again, LandOutcome::AlreadyLanded { commit });
    assert_eq!(rig.subjects("main"), ["Promote dev", "first"]);
    let message = rig.git(&rig.remote(), &["log", "-1", "--format=%B", "main"]);
    assert!(message.ends_with("\n\nKardinal-Step: dev/1"), "{message}");
}

#[tokio::test]
async fn nothing_to_change_makes_no_commit() {
    let rig = Rig::new();
    let outcome =
        rig.repository().land(&landing("dev"), writes(&[("environments/dev/tag", "1\n")])).await.unwrap();
    assert!(matches!(outcome, LandOutcome::NothingChanged { .. }));
    assert_eq!(rig.subjects("main"), ["first"]);
}

#[tokio::test]
async fn a_branch_that_does_not_exist_gets_a_first_commit_without_parents() {
    let rig = Rig::new();
    let mut request = landing("prod");
    request.branch = branch("env/prod");
    let outcome =
        rig.repository().land(&request, writes(&[("environments/prod/all.yaml", "a\n")])).await.unwrap();
    assert!(matches!(outcome, LandOutcome::Landed { .. }));
    assert_eq!(rig.subjects("env/prod"), ["Promote prod"]);
    assert_eq!(
        rig.git(&rig.remote(), &["ls-tree", "-r", "--name-only", "env/prod"]),
        "environments/prod/all.yaml"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn ten_pipelines_and_a_person_push_to_one_branch_and_nothing_is_lost() {
    let rig = Arc::new(Rig::new());
    let mut running = Vec::new();
    for number in 0..10 {
        let rig = rig.clone();
        running.push(tokio::spawn(async move {
            // Half of them share a cache as threads of one process do, the others have their own.
            let cache = if number % 2 == 0 { "shared".to_owned() } else { format!("own-{number}") };
            let cache = rig.cache_with(&cache, CacheOptions::default(), Arc::new(Git::default()));
            let repository = cache.repository(rig.address(), GitCredential::Anonymous);
            let name = format!("app-{number}");
            let file = format!("environments/{name}/tag");
            repository.land(&landing(&name), writes(&[(&file, "2\n")])).await.unwrap();
        }));
    }
    let person = {
        let rig = rig.clone();
        tokio::task::spawn_blocking(move || {
            for number in 0..5 {
                rig.human(&format!("by hand {number}"), &[(&format!("notes/{number}"), "x\n")]);
            }
        })
    };
    for one in running {
        one.await.unwrap();
    }
    person.await.unwrap();
    let subjects = rig.subjects("main");
    assert_eq!(subjects.len(), 16, "{subjects:?}");
    assert_eq!(rig.merges("main"), "0");
    for number in 0..10 {
        assert_eq!(rig.file("main", &format!("environments/app-{number}/tag")), "2");
    }
    for number in 0..5 {
        assert_eq!(rig.file("main", &format!("notes/{number}")), "x");
    }
}

#[tokio::test]
async fn a_force_pushed_remote_is_followed() {
    let rig = Rig::new();
    let repository = rig.repository();
    repository.land(&landing("dev"), writes(&[("environments/dev/tag", "2\n")])).await.unwrap();
    let clone = tempfile::tempdir().unwrap();
    rig.git(clone.path(), &["init", "-q", "-b", "main"]);
    rig.git(clone.path(), &["commit", "-q", "--allow-empty", "-m", "anew"]);
    rig.git(clone.path(), &["push", "-q", "-f", rig.remote().to_str().unwrap(), "main"]);
    repository.land(&landing("prod"), writes(&[("environments/prod/tag", "3\n")])).await.unwrap();
    assert_eq!(rig.subjects("main"), ["Promote prod", "anew"]);
}

#[tokio::test]
async fn a_push_that_a_hook_declines_is_denied_with_the_servers_words() {
    use std::os::unix::fs::PermissionsExt as _;
    let rig = Rig::new();
    let hook = rig.remote().join("hooks/pre-receive");
    std::fs::create_dir_all(hook.parent().unwrap()).unwrap();
    std::fs::write(&hook, "#!/bin/sh\necho 'main is protected' >&2\nexit 1\n").unwrap();
    std::fs::set_permissions(&hook, std::fs::Permissions::from_mode(0o755)).unwrap();
    let error =
        rig.repository().land(&landing("dev"), writes(&[("environments/dev/tag", "2\n")])).await.unwrap_err();
    let LandError::Git(error @ GitError::PushDenied { .. }) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("main is protected"), "{error}");
    assert_eq!(error.class(), ErrorClass::Denied);
}

#[tokio::test]
async fn an_edit_that_fails_leaves_the_branch_alone() {
    use futures::FutureExt as _;
    let rig = Rig::new();
    let error = rig
        .repository()
        .land(&landing("dev"), |_| async { Err(std::io::Error::other("no kustomization")) }.boxed())
        .await
        .unwrap_err();
    assert!(matches!(error, LandError::Edit(_)));
    assert_eq!(rig.subjects("main"), ["first"]);
}

#[tokio::test]
async fn a_branch_that_always_moves_ends_as_contended() {
    use futures::FutureExt as _;
    let rig = Rig::new();
    let mut request = landing("dev");
    request.replay.attempts = 3;
    let error = rig
        .repository()
        .land(&request, |tree| {
            rig.human("faster", &[("notes/x", tree.base().as_str())]);
            std::fs::write(tree.directory().join("environments/dev/tag"), "2\n").unwrap();
            async { Ok::<(), std::io::Error>(()) }.boxed()
        })
        .await
        .unwrap_err();
    assert!(matches!(&error, LandError::Git(GitError::Contended { attempts: 3, .. })), "{error:?}");
    assert_eq!(rig.subjects("main").len(), 4);
}
