//! Names and addresses that must not become options, helpers or ways out.

use slipway_git::{
    AddressError, BranchName, CommitId, OperationId, RepositoryAddress, Trailer, TransportPolicy, TreePath,
};

#[test]
fn branches_follow_the_rules_of_git() {
    for good in ["main", "kardinal/app/prod/1.2.3-abcdef", "env/prod", "ä", "a@b"] {
        assert_eq!(BranchName::parse(good).unwrap().as_str(), good);
    }
    let bad = [
        "",
        "-f",
        "--upload-pack=x",
        "a..b",
        "a b",
        "a\nb",
        "a:b",
        "a^",
        "a~1",
        "a?",
        "a*",
        "a[b",
        "a\\b",
        "@",
        "HEAD",
        "a@{1}",
        "a.",
        "a.lock",
        "a/.b",
        "a//b",
        "/a",
        "a/",
        "refs/heads/a",
        "a\0b",
        ".a",
        "a.lock/b",
    ];
    for bad in bad {
        assert!(BranchName::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn paths_stay_inside_the_repository() {
    for (text, clean) in [("a/b", "a/b"), ("./a//b/", "a/b"), ("", ""), (".", ""), ("a/..b", "a/..b")] {
        assert_eq!(TreePath::parse(text).unwrap().as_str(), clean);
    }
    for bad in ["/a", "..", "a/../b", ".git/config", "a/.GIT/x", "a\\b", "a\nb", ".git.", "git~1/x"] {
        assert!(TreePath::parse(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn addresses_use_known_transports_without_credentials() {
    let parse = |text| RepositoryAddress::parse(text, TransportPolicy::Network);
    for (text, host, path) in [
        ("https://github.com/org/app.git", "github.com", "org/app"),
        ("https://GitHub.com/org/app/", "github.com", "org/app"),
        ("http://127.0.0.1:3000/org/app", "127.0.0.1", "org/app"),
        ("ssh://git@host:2222/org/app.git", "host", "org/app"),
        ("git@gitlab.com:group/sub/app.git", "gitlab.com", "group/sub/app"),
        ("https://dev.azure.com/org/project/_git/repo", "dev.azure.com", "org/project/_git/repo"),
    ] {
        let address = parse(text).unwrap();
        assert_eq!((address.host(), address.path()), (host, path), "{text}");
    }
    let bad = [
        "",
        "-oProxyCommand=x",
        "ext::sh -c id",
        "ext::id",
        "fd::17",
        "file:///etc",
        "/local/path",
        "./x",
        "../x",
        "ssh://-oProxyCommand=id/x",
        "git@-oProxyCommand=id:x",
        "-u@host:x",
        "ssh://-l@host/x",
        "https://host",
        "https:///x",
        "https://host/a b",
        "https://host/../x",
        "ftp://host/x",
        "git://host/x",
        "host:path",
        "ssh://git:pw@host/x",
        "https://host:notaport/x",
        "https://host/a\nb",
        "git@host:-x",
        "git@ho`id`st:x",
    ];
    for bad in bad {
        assert!(parse(bad).is_err(), "{bad:?}");
    }
    let error = parse("https://user:hunter2@host/x").unwrap_err();
    assert_eq!(error, AddressError::Credentials);
    assert!(!error.to_string().contains("hunter2"));
    assert!(RepositoryAddress::parse("file:///x", TransportPolicy::NetworkAndFiles).is_ok());
}

#[test]
fn commits_operations_and_trailers_have_one_form() {
    assert!(CommitId::parse(&"a".repeat(40)).is_ok());
    for bad in ["", "HEAD", "abc", &"A".repeat(40), &"g".repeat(40), "--all"] {
        assert!(CommitId::parse(bad).is_err(), "{bad}");
    }
    for bad in ["", "..", ".x", "-x", "a/b", "x.lock", "a b"] {
        assert!(OperationId::parse(bad).is_err(), "{bad}");
    }
    assert_eq!(Trailer::new("Bundle", "a\nEvil: b").unwrap().value(), "a Evil: b");
    assert!(Trailer::new("Bun dle", "x").is_err());
}
