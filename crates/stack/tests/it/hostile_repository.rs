//! Repositories whose configuration asks Git to run programs: none of them runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::SystemTime;

use slipway_stack::{Git, Selector};

use crate::support::Place;

/// A committed stack, and a repository in which every setting that can name a program names one that leaves a
/// file in the directory returned.
fn hostile() -> (Place, PathBuf) {
    let place = Place::new(&[
        ("stack.yaml", "releases:\n- {name: a, chart: ./a}\n- {name: b, chart: ./b}\n"),
        ("a/values.yaml", "x: 1\n"),
        ("b/values.yaml", "x: 1\n"),
        (".gitattributes", "* filter=evil diff=evil merge=evil\n*.yaml filter=in.cluded\n"),
    ]);
    place.chart("a").chart("b").commit();
    place.write("a/values.yaml", "x: 2\n").commit();
    let git = place.path().join(".git");
    let markers = git.join("markers");
    fs::create_dir_all(&markers).unwrap();
    let script = |name: &str| {
        let path = git.join(format!("evil-{name}"));
        let text = format!("#!/bin/sh\ntouch '{}'\ncat\n", markers.join(name).display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path.display().to_string()
    };
    let hooks = git.join("evil-hooks");
    fs::create_dir_all(&hooks).unwrap();
    for hook in ["post-index-change", "fsmonitor-watchman", "reference-transaction", "pre-auto-gc"] {
        for directory in [&hooks, &git.join("hooks")] {
            fs::create_dir_all(directory).unwrap();
            fs::copy(script(hook), directory.join(hook)).unwrap();
        }
    }
    let include = git.join("more.config");
    let filter = |name: &str, key: &str| format!("[filter \"{name}\"]\n{key} = {}\n", script(key));
    fs::write(&include, filter("in.cluded", "clean") + "required = true\n").unwrap();
    let config = [
        filter("evil", "clean"),
        filter("evil", "smudge"),
        filter("evil", "process"),
        "required = true\n".to_owned(),
        format!("[diff]\nexternal = {}\n", script("diff.external")),
        format!(
            "[diff \"evil\"]\ncommand = {}\ntextconv = {}\n",
            script("diff.command"),
            script("diff.textconv")
        ),
        format!("[core]\nfsmonitor = {}\nhooksPath = {}\n", script("fsmonitor"), hooks.display()),
        format!("pager = {}\nsshCommand = {}\n", script("pager"), script("ssh")),
        format!("askPass = {}\neditor = {}\n", script("askpass"), script("editor")),
        format!("[credential]\nhelper = {}\n", script("credential")),
        format!("[pager]\ndiff = {}\nstatus = {}\n", script("pager.diff"), script("pager.status")),
        format!("[alias]\ndiff = !{}\nstatus = !{}\n", script("alias.diff"), script("alias.status")),
        format!("[remote \"o\"]\npromisor = true\nurl = ext::{}\nuploadpack = {0}\n", script("remote")),
        "[protocol]\nallow = always\n[protocol \"ext\"]\nallow = always\n".to_owned(),
        "[diff]\nsubmodule = log\n[status]\nsubmoduleSummary = true\n".to_owned(),
        format!("[include]\npath = {}\n", include.display()),
    ];
    let mut all = fs::read_to_string(git.join("config")).unwrap();
    all.extend(config);
    fs::write(git.join("config"), all).unwrap();
    (place, markers)
}

fn left(markers: &PathBuf) -> Vec<String> {
    fs::read_dir(markers).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn a_repository_cannot_run_programs() {
    let (place, markers) = hostile();
    // Touched without a change, changed in the same second and size, and new.
    let stack = fs::File::options().write(true).open(place.path().join("stack.yaml")).unwrap();
    stack.set_modified(SystemTime::UNIX_EPOCH).unwrap();
    place.write("b/values.yaml", "x: 3\n").write("b/new.yaml", "x: 1\n");
    let names = |range: &str| {
        let selector = Selector { git_range: Some(range.to_owned()), ..Selector::default() };
        let compiled = place.select(selector).unwrap();
        compiled.plan.nodes.iter().map(|node| node.name.clone()).collect::<Vec<_>>()
    };
    for (range, expected) in [("HEAD~1..HEAD", ["a"].as_slice()), ("HEAD~1...HEAD", &["a"]), ("HEAD", &["b"])]
    {
        assert_eq!(names(range), expected, "{range}");
        assert_eq!(left(&markers), [""; 0], "{range}");
    }
    assert_eq!(names(":/x"), ["b"], "a search for a commit is compared with the work tree");
    let head = Git::default().head(place.path()).unwrap();
    assert!(head.dirty && head.commit.is_some_and(|commit| commit.len() == 40));
    assert_eq!(head.branch.as_deref(), Some("main"));
    assert_eq!(left(&markers), [""; 0]);
    // The trap is one: Git, asked plainly, falls into it.
    let plain = crate::support::plain_git().arg("-C").arg(place.path()).args(["diff", "HEAD"]).output();
    assert!(plain.is_ok() && !left(&markers).is_empty());
}

#[test]
fn a_submodule_cannot_run_programs() {
    let (inner, markers) = hostile();
    let outer = Place::new(&[("stack.yaml", "releases:\n- {name: c, chart: ./c}\n")]);
    outer.chart("c").commit();
    std::process::Command::new("cp")
        .arg("-r")
        .arg(inner.path())
        .arg(outer.path().join("c/sub"))
        .status()
        .map(|status| assert!(status.success()))
        .unwrap();
    // Its work tree differs from its own commit; the commit is what the outer repository records.
    outer.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},c/sub", "1".repeat(40))]);
    outer.git(&["commit", "-q", "-m", "sub"]);
    outer.write("c/sub/a/values.yaml", "x: 9\n");
    let selector = Selector { git_range: Some("HEAD".to_owned()), ..Selector::default() };
    let plan = outer.select(selector).unwrap().plan;
    assert_eq!(plan.nodes.len(), 1, "another commit is checked out");
    assert!(Git::default().head(outer.path()).is_some());
    assert_eq!(left(&markers), [""; 0]);
}

#[test]
fn a_filter_that_cannot_be_switched_off_is_refused() {
    let (place, markers) = hostile();
    let config = place.path().join(".git/config");
    let text = fs::read_to_string(&config).unwrap() + "[filter \"a=b\"]\nclean = false\n";
    fs::write(&config, text).unwrap();
    let selector = Selector { git_range: Some("HEAD".to_owned()), ..Selector::default() };
    let error = place.select(selector).unwrap_err().to_string();
    assert!(error.contains("the filter \"a=b\" of the repository's configuration cannot be"), "{error}");
    assert_eq!(left(&markers), [""; 0]);
}
