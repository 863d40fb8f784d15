//! Reading the change of one commit, and merging it elsewhere.

use slipway_git::{CommitPrefix, GitError, TextMerge};

use crate::support::{Rig, path};

#[tokio::test]
async fn the_change_of_a_commit_is_read_below_a_path() {
    let rig = Rig::new();
    let commit =
        rig.human("Raise limits", &[("environments/dev/tag", "2\n"), ("environments/dev/new", "x\n")]);
    rig.human("later", &[("environments/prod/tag", "3\n")]);
    let repository = rig.repository();
    for wanted in [commit.as_str(), &commit[..9]] {
        let wanted = CommitPrefix::parse(wanted).unwrap();
        let change = repository.commit_change(&wanted, &path("environments/dev")).await.unwrap();
        assert_eq!(change.commit.as_str(), commit);
        assert_eq!(change.subject, "Raise limits");
        let files: Vec<&str> = change.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(files, ["new", "tag"]);
        assert!(change.files[0].before.is_none());
        assert_eq!(change.files[1].before.as_ref().unwrap().bytes, b"1\n");
        assert_eq!(change.files[1].after.as_ref().unwrap().bytes, b"2\n");
        let elsewhere = repository.commit_change(&wanted, &path("environments/prod")).await.unwrap();
        assert!(elsewhere.files.is_empty());
    }
}

#[tokio::test]
async fn a_commit_no_branch_has_is_unknown() {
    let rig = Rig::new();
    let wanted = CommitPrefix::parse("0123456789abcdef").unwrap();
    let error = rig.repository().commit_change(&wanted, &path("")).await.unwrap_err();
    assert!(matches!(error, GitError::UnknownCommit { .. }), "{error}");
}

#[tokio::test]
async fn texts_merge_where_they_do_not_meet() {
    let rig = Rig::new();
    let repository = rig.repository();
    repository.fetch(&crate::support::branch("main")).await.unwrap();
    let base = b"a\nb\nc\nd\ne\n";
    let merged = repository.merge_text(b"A\nb\nc\nd\ne\n", base, b"a\nb\nc\nd\nE\n").await.unwrap();
    assert_eq!(merged, TextMerge::Merged(b"A\nb\nc\nd\nE\n".to_vec()));
    let conflict = repository.merge_text(b"A\nb\nc\nd\ne\n", base, b"X\nb\nc\nd\ne\n").await.unwrap();
    assert_eq!(conflict, TextMerge::Conflict);
}
