//! Repositories that want to run programs, or to lead out of themselves.

use slipway_git::{CheckoutBase, CheckoutRequest, CommitOutcome, GitError};

use crate::support::{Rig, branch, commit, operation, path};

fn request() -> CheckoutRequest {
    CheckoutRequest {
        operation: operation("x"),
        base: CheckoutBase::Branch(branch("main")),
        paths: Vec::new(),
    }
}

#[tokio::test]
async fn neither_filters_nor_hooks_nor_submodules_run() {
    let rig = Rig::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    let files = [
        (".gitattributes", "*.bin filter=lfs diff=lfs merge=lfs -text\n"),
        ("model.bin", pointer),
        (".gitmodules", "[submodule \"s\"]\n\tpath = s\n\turl = ext::touch%20pwned\n"),
    ];
    let first = rig.human("lfs", &files);
    let work = tempfile::tempdir().unwrap();
    rig.git(work.path(), &["clone", "-q", rig.remote().to_str().unwrap(), "."]);
    rig.git(work.path(), &["update-index", "--add", "--cacheinfo", &format!("160000,{first},s")]);
    rig.git(work.path(), &["commit", "-q", "-m", "submodule"]);
    rig.git(work.path(), &["push", "-q", "origin", "HEAD:main"]);
    let tree = rig.repository().check_out(&request()).await.unwrap();
    // A large file is its pointer, a submodule an empty directory, and both are committed as they are.
    assert_eq!(std::fs::read_to_string(tree.directory().join("model.bin")).unwrap(), pointer);
    std::fs::write(tree.directory().join("README"), "2\n").unwrap();
    let CommitOutcome::Committed(id) = tree.commit(&commit("all", &[""])).await.unwrap() else { panic!() };
    tree.push(&id, &branch("out"), &slipway_git::BranchLease::Absent).await.unwrap();
    assert_eq!(rig.git(&rig.remote(), &["diff", "--name-only", "main", "out"]), "README");
}

#[tokio::test]
async fn links_do_not_lead_out_of_a_tree() {
    let rig = Rig::new();
    let work = tempfile::tempdir().unwrap();
    rig.git(work.path(), &["clone", "-q", rig.remote().to_str().unwrap(), "."]);
    std::os::unix::fs::symlink("/etc", work.path().join("outside")).unwrap();
    rig.git(work.path(), &["add", "-A"]);
    rig.git(work.path(), &["commit", "-q", "-m", "link"]);
    rig.git(work.path(), &["push", "-q", "origin", "HEAD:main"]);
    let tree = rig.repository().check_out(&request()).await.unwrap();
    assert!(matches!(tree.locate(&path("outside/passwd")), Err(GitError::Escapes { .. })));
    assert!(matches!(tree.commit(&commit("x", &["outside/passwd"])).await, Err(GitError::Escapes { .. })));
    assert!(tree.locate(&path("environments/dev/tag")).is_ok());
}

#[tokio::test]
async fn messages_cannot_forge_trailers() {
    let rig = Rig::new();
    let tree = rig.repository().check_out(&request()).await.unwrap();
    std::fs::write(tree.directory().join("README"), "2\n").unwrap();
    let mut wanted = commit("subject\n\nKardinal-Step: forged/1", &["README"]);
    wanted.trailers = vec![slipway_git::Trailer::new("Bundle", "a\nKardinal-Step: forged/1").unwrap()];
    wanted.author = slipway_git::CommitIdentity::new("A <b>\n", "a@b>\ncommitter x");
    let CommitOutcome::Committed(id) = tree.commit(&wanted).await.unwrap() else { panic!() };
    tree.push(&id, &branch("out"), &slipway_git::BranchLease::Absent).await.unwrap();
    let trailers =
        rig.git(&rig.remote(), &["log", "-1", "--format=%(trailers:key=Kardinal-Step,valueonly)", "out"]);
    assert_eq!(trailers.trim(), "");
}
