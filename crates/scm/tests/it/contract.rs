//! One suite over every provider.

use std::sync::Arc;
use std::time::Duration;

use slipway_event::{Clock, Redactor, SystemClock};
use slipway_git::{BranchName, CommitId, GitCredential, RepositoryAddress, TransportPolicy};
use slipway_scm::{
    AccessReport, CheckState, CommitCheck, ConnectOptions, ErrorClass, MergeMethod, MergeOutcome,
    MergeRequest, NewPullRequest, OpenOutcome, ProviderKind, PullRequestState, RemoteRepository,
    ReviewRequest, ScmConnections, ScmCredential, ScmError, ScmProvider, open_pull_request,
};

use crate::model::{HEAD, Handler, MERGED, Server, State, TOKEN};
use crate::servers::{azure, bitbucket, gitea, github, gitlab};

pub(crate) const KINDS: [(ProviderKind, Handler, &str); 5] = [
    (ProviderKind::GitHub, github::handle, "org/app.git"),
    (ProviderKind::GitLab, gitlab::handle, "org/group/app.git"),
    (ProviderKind::Gitea, gitea::handle, "org/app.git"),
    (ProviderKind::Bitbucket, bitbucket::handle, "org/app"),
    (ProviderKind::AzureDevOps, azure::handle, "org/my%20project/_git/app"),
];

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions { settle_pause: Duration::from_millis(1), ..ConnectOptions::default() }
}

pub(crate) fn remote(kind: ProviderKind, root: &str, path: &str) -> RemoteRepository {
    let address = RepositoryAddress::parse(&format!("{root}/{path}"), TransportPolicy::Network).unwrap();
    RemoteRepository::new(&address, Some(kind), None).unwrap()
}

pub(crate) fn connections(clock: Arc<dyn Clock>) -> ScmConnections {
    ScmConnections::new(clock, Redactor::new())
}

pub(crate) fn connect(kind: ProviderKind, root: &str, path: &str, token: &str) -> Arc<dyn ScmProvider> {
    let credential = ScmCredential::Token(token.to_owned().into());
    connections(Arc::new(SystemClock)).connect(remote(kind, root, path), credential, &options()).unwrap()
}

pub(crate) fn branch(name: &str) -> BranchName {
    BranchName::parse(name).unwrap()
}

const MARKER: &str = "<!-- kardinal:{\"step\":\"u1\"} -->";

pub(crate) fn wanted(head: &str) -> NewPullRequest {
    NewPullRequest {
        title: "Promote".to_owned(),
        body: format!("{MARKER}\nbody"),
        head: branch(head),
        base: branch("main"),
        is_draft: false,
    }
}

/// Runs a test on each provider's server.
macro_rules! for_every_provider {
    (|$kind:ident, $server:ident, $provider:ident| $test:block) => {
        for ($kind, handler, path) in KINDS {
            let $server = Server::start(handler).await;
            let $provider = connect($kind, &$server.root, path, TOKEN);
            $test
            assert_eq!($server.forge.lock().unwrap().violations, Vec::<String>::new(), "{}", $kind);
        }
    };
}

#[tokio::test]
async fn a_branch_gets_one_pull_request_however_often_it_is_opened() {
    for_every_provider!(|kind, server, provider| {
        assert_eq!(provider.find(&branch("kardinal/app/prod/1"), &branch("main")).await.unwrap(), None);
        let new = wanted("kardinal/app/prod/1");
        let opened = open_pull_request(&*provider, &new, MARKER).await.unwrap();
        let OpenOutcome::Created(made) = opened else { panic!("{kind}: {opened:?}") };
        assert!(made.ends_in(&CommitId::parse(HEAD).unwrap()), "{kind}: {made:?}");
        assert!(!made.url.is_empty());
        let changed = NewPullRequest { body: format!("{MARKER}\nanother"), ..new.clone() };
        let again = open_pull_request(&*provider, &changed, MARKER).await.unwrap();
        assert!(matches!(again, OpenOutcome::Found(found) if found.number == made.number), "{kind}");
        let forge = server.forge.lock().unwrap();
        assert_eq!(forge.pulls.len(), 1);
        assert_eq!(forge.pulls[0].body, changed.body, "{kind}: the text is brought up to date");
    });
}

/// Whoever was asked stays asked, and is asked once.
#[tokio::test]
async fn reviewers_are_asked_where_a_server_can() {
    for_every_provider!(|kind, server, provider| {
        let number = server.forge.lock().unwrap().add("t", "b", "other", "main").number;
        let users = |names: &[&str]| ReviewRequest {
            users: names.iter().map(|name| (*name).to_owned()).collect(),
            teams: Vec::new(),
        };
        let asked = provider.request_reviews(number, &users(&["alice"])).await;
        if kind == ProviderKind::Bitbucket {
            assert!(matches!(asked, Err(ScmError::Unsupported { .. })));
            continue;
        }
        asked.unwrap();
        provider.request_reviews(number, &users(&["bob", "alice"])).await.unwrap();
        let teams = ReviewRequest { teams: vec!["platform".to_owned()], ..ReviewRequest::default() };
        let team = provider.request_reviews(number, &teams).await;
        let mut expected = vec!["alice", "bob"];
        if kind == ProviderKind::GitLab {
            assert!(matches!(team, Err(ScmError::Unsupported { .. })));
        } else {
            team.unwrap();
            expected.push("platform");
        }
        assert_eq!(server.forge.lock().unwrap().pulls[0].asked, expected, "{kind}");
    });
}

#[tokio::test]
async fn a_race_for_a_pull_request_ends_with_one() {
    for_every_provider!(|kind, server, provider| {
        server.forge.lock().unwrap().is_raced = true;
        let opened = open_pull_request(&*provider, &wanted("other"), MARKER).await.unwrap();
        assert!(matches!(opened, OpenOutcome::Found(_)), "{kind}: {opened:?}");
        assert_eq!(server.forge.lock().unwrap().pulls.len(), 1);
    });
}

/// Gitea's own look for an open pull request is not part of the transaction that creates one.
#[tokio::test]
async fn of_two_pull_requests_created_at_the_same_time_the_first_stays() {
    let server = Server::start(gitea::handle).await;
    let provider = connect(ProviderKind::Gitea, &server.root, "org/app.git", TOKEN);
    server.forge.lock().unwrap().is_doubled = true;
    let new = wanted("other");
    let opened = open_pull_request(&*provider, &new, MARKER).await.unwrap();
    let OpenOutcome::Created(first) = opened else { panic!("{opened:?}") };
    let state_of = |index: usize| server.forge.lock().unwrap().pulls[index].state;
    assert_eq!((first.number, state_of(0), state_of(1)), (1, State::Open, State::Closed));
    let again = open_pull_request(&*provider, &new, MARKER).await.unwrap();
    assert!(matches!(&again, OpenOutcome::Found(found) if found.number == 1), "{again:?}");
    // The one too many does not hide how the first has ended.
    server.forge.lock().unwrap().pulls[0].state = State::Merged;
    let over = open_pull_request(&*provider, &new, MARKER).await.unwrap();
    assert!(matches!(&over, OpenOutcome::Merged(merged) if merged.number == 1), "{over:?}");
    assert_eq!(server.forge.lock().unwrap().violations, Vec::<String>::new());
}

#[tokio::test]
async fn gitea_is_told_of_a_merge_it_was_cut_off_in() {
    let server = Server::start(gitea::handle).await;
    let provider = connect(ProviderKind::Gitea, &server.root, "org/app.git", TOKEN);
    let number = server.forge.lock().unwrap().add("t", "b", "other", "main").number;
    let merged = CommitId::parse(MERGED).unwrap();
    let refused = provider.declare_merged(number, &merged).await.unwrap_err();
    assert_eq!(refused.class(), ErrorClass::Permanent, "manual merges are not allowed: {refused}");
    server.forge.lock().unwrap().allows_manual_merge = true;
    for _ in 0..2 {
        let told = provider.declare_merged(number, &merged).await.unwrap();
        assert_eq!(told.state, PullRequestState::Merged);
    }
    assert_eq!(server.forge.lock().unwrap().violations, Vec::<String>::new());
}

#[tokio::test]
async fn a_branch_without_commits_of_its_own_gets_none() {
    for_every_provider!(|kind, server, provider| {
        let opened = open_pull_request(&*provider, &wanted("same"), MARKER).await.unwrap();
        assert_eq!(opened, OpenOutcome::NothingToMerge, "{kind}");
        assert_eq!(server.forge.lock().unwrap().pulls.len(), 0);
    });
}

#[tokio::test]
async fn pull_requests_that_are_over_are_told_by_their_marker() {
    for_every_provider!(|kind, server, provider| {
        {
            let mut forge = server.forge.lock().unwrap();
            forge.add("theirs", "no marker", "other", "main");
            forge.pulls[0].state = State::Closed;
            forge.add("ours", MARKER, "kardinal/app/prod/1", "main");
            forge.pulls[1].state = State::Closed;
        }
        let outcome = open_pull_request(&*provider, &wanted("kardinal/app/prod/1"), MARKER).await.unwrap();
        let OpenOutcome::Closed(closed) = outcome else { panic!("{kind}: {outcome:?}") };
        let reopened = provider.reopen(closed.number).await;
        if kind == ProviderKind::Bitbucket {
            assert!(matches!(reopened, Err(ScmError::Unsupported { .. })));
        } else {
            reopened.unwrap();
            assert_eq!(provider.get(closed.number).await.unwrap().state, PullRequestState::Open);
        }
        let outcome = open_pull_request(&*provider, &wanted("other"), MARKER).await.unwrap();
        assert!(matches!(outcome, OpenOutcome::Created(_)), "{kind}: {outcome:?}");
        server.forge.lock().unwrap().pulls[1].state = State::Merged;
        let outcome = open_pull_request(&*provider, &wanted("kardinal/app/prod/1"), MARKER).await.unwrap();
        assert!(matches!(outcome, OpenOutcome::Merged(_)), "{kind}: {outcome:?}");
    });
}

#[tokio::test]
async fn a_pull_request_that_is_not_there_yet_is_waited_for() {
    for_every_provider!(|kind, server, provider| {
        let number = server.forge.lock().unwrap().add("t", "b", "other", "main").number;
        server.forge.lock().unwrap().hidden = 3;
        assert_eq!(provider.get(number).await.unwrap().number, number, "{kind}");
        assert!(matches!(provider.get(77).await, Err(ScmError::NotFound { .. })), "{kind}");
    });
}

#[tokio::test]
async fn labels_and_comments_of_others_stay() {
    for_every_provider!(|kind, server, provider| {
        let number = {
            let mut forge = server.forge.lock().unwrap();
            forge.labels = vec!["kardinal".to_owned(), "bug".to_owned(), "x".to_owned()];
            let pull = forge.add("t", "b\n\nLabels: bug", "other", "main");
            forge.pulls[0].labels.push("bug".to_owned());
            forge.pulls[0].comments = (100..105).map(|id| (id, format!("comment {id}"))).collect();
            pull.number
        };
        let labels = ["kardinal".to_owned(), "kardinal/prod".to_owned()];
        provider.add_labels(number, &labels).await.unwrap();
        let marker = "<!-- kardinal:gates -->";
        for text in ["first", "second", "second"] {
            provider.upsert_comment(number, marker, &format!("{marker}\n{text}")).await.unwrap();
        }
        let forge = server.forge.lock().unwrap();
        assert_eq!(forge.pulls[0].labels, ["bug", "kardinal", "kardinal/prod"], "{kind}");
        assert_eq!(forge.pulls[0].comments.len(), 6, "{kind}");
        assert_eq!(forge.pulls[0].comments[5].1, format!("{marker}\nsecond"));
    });
}

#[tokio::test]
async fn the_last_word_of_each_reviewer_counts() {
    for_every_provider!(|kind, server, provider| {
        let number = {
            let mut forge = server.forge.lock().unwrap();
            let number = forge.add("t", "b", "other", "main").number;
            let words = match kind {
                ProviderKind::GitHub | ProviderKind::Gitea => vec![
                    ("ann", "CHANGES_REQUESTED"),
                    ("ann", "APPROVED"),
                    ("ann", "COMMENTED"),
                    ("bob", "APPROVED"),
                    ("bob", "DISMISSED"),
                    ("cem", "CHANGES_REQUESTED"),
                ],
                _ => vec![("ann", "APPROVED"), ("bob", "COMMENTED"), ("cem", "CHANGES_REQUESTED")],
            };
            forge.pulls[0].reviews = words.into_iter().map(|(a, b)| (a.to_owned(), b.to_owned())).collect();
            number
        };
        let reviews = provider.reviews(number).await.unwrap();
        assert_eq!(reviews.approvers, ["ann"], "{kind}");
        let against: &[&str] = if kind == ProviderKind::GitLab { &[] } else { &["cem"] };
        assert_eq!(reviews.changes_requested, against, "{kind}");
    });
}

fn merge(expected: &CommitId, method: MergeMethod) -> MergeRequest {
    MergeRequest { expected: expected.clone(), method, trailers: "Bundle: app-1\n".to_owned() }
}

#[tokio::test]
async fn a_merge_takes_the_expected_commit_and_no_other() {
    for_every_provider!(|kind, server, provider| {
        let number = server.forge.lock().unwrap().add("t", "b", "kardinal/app/prod/1", "main").number;
        let expected = CommitId::parse(HEAD).unwrap();
        let smuggled = CommitId::parse(&"9".repeat(40)).unwrap();
        let outcome = provider.merge(number, &merge(&smuggled, MergeMethod::Merge)).await.unwrap();
        assert!(matches!(outcome, MergeOutcome::HeadMoved(_)), "{kind}: {outcome:?}");
        server.forge.lock().unwrap().is_blocked = true;
        let outcome = provider.merge(number, &merge(&expected, MergeMethod::Squash)).await.unwrap();
        assert!(matches!(outcome, MergeOutcome::NotReady(_)), "{kind}: {outcome:?}");
        server.forge.lock().unwrap().is_blocked = false;
        for _ in 0..2 {
            let outcome = provider.merge(number, &merge(&expected, MergeMethod::Rebase)).await.unwrap();
            let MergeOutcome::Merged(merged) = outcome else { panic!("{kind}: {outcome:?}") };
            assert!(MERGED.starts_with(merged.merge_commit.as_deref().unwrap()), "{kind}");
            assert_eq!(merged.merged_by.as_deref(), Some("reviewer"), "{kind}");
            assert!(merged.merged_at.is_some(), "{kind}");
        }
    });
}

#[tokio::test]
async fn checks_branches_and_lists_work_and_can_be_repeated() {
    for_every_provider!(|kind, server, provider| {
        let access = provider.check_access().await.unwrap();
        assert_eq!(access.missing_scopes, AccessReport::default().missing_scopes, "{kind}");
        let head = CommitId::parse(HEAD).unwrap();
        let check = CommitCheck {
            context: "kardinal/gates".to_owned(),
            state: CheckState::Failure,
            url: Some("https://console.example.com/x".to_owned()),
            description: "d".repeat(500),
        };
        provider.set_check(&head, &check).await.unwrap();
        let number = {
            let mut forge = server.forge.lock().unwrap();
            let (commit, context, state) = forge.checks[0].clone();
            assert_eq!((commit.as_str(), context.as_str()), (HEAD, "kardinal/gates"), "{kind}");
            assert!(matches!(state.as_str(), "failure" | "failed" | "FAILED"), "{kind}: {state}");
            for number in 0..5 {
                forge.add("t", "b\n\nLabels: kardinal", "other", "main");
                forge.pulls[number].labels.push("kardinal".to_owned());
            }
            forge.add("t", "b", "other", "main").number
        };
        assert_eq!(provider.list_open("kardinal").await.unwrap().len(), 5, "{kind}: every page is read");
        provider.close(number).await.unwrap();
        assert_eq!(provider.get(number).await.unwrap().state, PullRequestState::Closed);
        for _ in 0..2 {
            provider.delete_branch(&branch("kardinal/app/prod/1")).await.unwrap();
        }
        assert!(!server.forge.lock().unwrap().branches.contains_key("kardinal/app/prod/1"));
        let compare = provider.compare_url(&head, &head).unwrap();
        assert!(compare.starts_with(&server.root), "{kind}: {compare}");
    });
}

#[tokio::test]
async fn wrong_tokens_are_denied_and_shown_nowhere() {
    for (kind, handler, path) in KINDS {
        let server = Server::start(handler).await;
        let token = "wrong-token-0123456789";
        server.forge.lock().unwrap().faults.push_back(crate::model::Reply::new(
            401,
            serde_json::json!({"message": format!("bad token {token}")}),
        ));
        let provider = connect(kind, &server.root, path, token);
        for _ in 0..2 {
            let error = provider.get(1).await.unwrap_err();
            assert_eq!(error.class(), ErrorClass::Denied, "{kind}: {error}");
            assert!(!format!("{error} {error:?}").contains(token), "{kind}: {error}");
        }
    }
}

#[tokio::test]
async fn each_provider_has_its_user_for_git() {
    for (kind, user) in [
        (ProviderKind::GitHub, "x-access-token"),
        (ProviderKind::GitLab, "oauth2"),
        (ProviderKind::Bitbucket, "x-token-auth"),
        (ProviderKind::AzureDevOps, ""),
    ] {
        let (_, _, path) = KINDS.iter().find(|(known, _, _)| *known == kind).unwrap();
        let provider = connect(kind, "https://example.com", path, TOKEN);
        let credential = provider.git_credential().await.unwrap();
        assert!(
            matches!(credential, GitCredential::Login { user: ref found, .. } if found == user),
            "{kind}"
        );
    }
}

#[tokio::test]
async fn a_plain_server_has_no_pull_requests() {
    let provider = connect(ProviderKind::None, "https://example.com", "x", TOKEN);
    assert_eq!(provider.find(&branch("a"), &branch("b")).await.unwrap(), None);
    let error = provider.create(&wanted("a")).await.unwrap_err();
    assert_eq!(error.to_string(), "a plain Git server cannot open pull requests");
}

#[test]
fn repositories_are_found_on_their_servers() {
    let parse = |text: &str| RepositoryAddress::parse(text, TransportPolicy::Network).unwrap();
    for (text, kind, slug) in [
        ("https://github.com/org/app.git", ProviderKind::GitHub, "org/app"),
        ("git@gitlab.com:group/sub/app.git", ProviderKind::GitLab, "group/sub/app"),
        ("https://codeberg.org/org/app", ProviderKind::Gitea, "org/app"),
        ("git@bitbucket.org:team/app.git", ProviderKind::Bitbucket, "team/app"),
        ("https://dev.azure.com/org/project/_git/app", ProviderKind::AzureDevOps, "org/project/app"),
        ("git@ssh.dev.azure.com:v3/org/project/app", ProviderKind::AzureDevOps, "org/project/app"),
        ("https://org.visualstudio.com/project/_git/app", ProviderKind::AzureDevOps, "org/project/app"),
    ] {
        let remote = RemoteRepository::new(&parse(text), None, None).unwrap();
        assert_eq!((remote.kind(), remote.slug().as_str()), (kind, slug), "{text}");
    }
    assert!(RemoteRepository::new(&parse("https://git.example.com/a/b"), None, None).is_err());
    let forgejo = ProviderKind::parse("forgejo");
    assert!(RemoteRepository::new(&parse("https://git.example.com/a/b"), forgejo, None).is_ok());
    assert!(RemoteRepository::new(&parse("https://github.com/only"), None, None).is_err());
    assert!(RemoteRepository::new(&parse("https://github.com/a/b"), None, Some("https://u:p@h")).is_err());
}
