//! S-05 to S-08, S-10 to S-12, S-19, S-20: who is chosen, and why.

use std::os::unix::fs::PermissionsExt as _;

use slipway_stack::{Command, Error, Git, Request, SelectMode, Selector, compile};

use crate::support::SpecifiedExit as _;
use crate::support::{Place, graph, seed};

fn words(list: &[&str]) -> Vec<String> {
    list.iter().map(|word| (*word).to_owned()).collect()
}

fn names(place: &Place, selector: Selector) -> Vec<String> {
    let compiled = place.select(selector).unwrap();
    compiled.plan.nodes.iter().map(|node| node.name.clone()).collect()
}

fn git(range: &str) -> Selector {
    Selector { git_range: Some(range.to_owned()), ..Selector::default() }
}

/// Scenario S-05 of the specification.
#[test]
fn a_path_includes_the_directory_itself() {
    let compiled =
        seed().select(Selector { from_paths: words(&["services/"]), ..Selector::default() }).unwrap();
    assert_eq!(compiled.plan.nodes.len(), 5);
    assert!(compiled.plan.nodes.iter().all(|node| node.selected_by == ["explicit:path:services"]));
}

/// Scenario S-06 of the specification.
#[test]
fn dependencies_come_along_without_git() {
    let selector =
        Selector { from_paths: words(&["helm-roedk/"]), include_deps: true, ..Selector::default() };
    let compiled = seed().select(selector).unwrap();
    let plan = &compiled.plan;
    assert_eq!(plan.nodes.len(), 5, "pgadmin is not needed");
    assert_eq!(
        plan.node("roedk2/roedk-2/postgresql").unwrap().selected_by,
        ["expand:dep-of:roedk2/roedk-2/keycloak", "expand:dep-of:roedk2/roedk-2/roedk"]
    );
    assert_eq!((plan.selection.initial.len(), plan.selection.expanded.len()), (1, 4));
}

#[test]
fn dependents_do_not_drag_in_what_shares_their_needs() {
    let place = graph("db\nweb: db\napi: db\nshop: web");
    let selector = Selector {
        releases: words(&["web"]),
        include_deps: true,
        include_dependents: true,
        ..Selector::default()
    };
    assert_eq!(names(&place, selector), ["db", "web", "shop"]);
}

/// Scenario S-07 of the specification.
#[test]
fn every_matching_tag_is_a_reason() {
    let place = Place::new(&[(
        "stack.yaml",
        "releases:\n- {name: a, chart: ./c, tags: [core, cache]}\n- {name: b, chart: ./c}\n",
    )]);
    place.chart("c");
    let compiled = place.select(Selector { tags: words(&["core", "cache"]), ..Selector::default() }).unwrap();
    assert_eq!(compiled.plan.nodes.len(), 1);
    assert_eq!(compiled.plan.nodes[0].selected_by, ["explicit:tag:cache", "explicit:tag:core"]);
}

/// Scenario S-08 of the specification.
#[test]
fn an_ambiguous_name_is_refused() {
    let place = Place::new(&[(
        "stack.yaml",
        "releases:\n- {name: api, chart: ./c, cluster: {name: a}}\n- {name: api, chart: ./c, cluster: {name: b}}\n\
         - {name: api, chart: ./c, namespace: x, cluster: {name: b}}\n",
    )]);
    place.chart("c");
    let select = |clusters: &[&str], release: &str| {
        place.select(Selector {
            clusters: words(clusters),
            releases: words(&[release]),
            ..Selector::default()
        })
    };
    let error = select(&[], "api").unwrap_err();
    assert_eq!(error.exit_code(), 10);
    assert_eq!(
        error.to_string(),
        "release name \"api\" is ambiguous (a/default/api, b/default/api, b/x/api); narrow it with --cluster [ST031]"
    );
    assert_eq!(select(&["a"], "api").unwrap().plan.nodes.len(), 1);
    let error = select(&["b"], "api").unwrap_err().to_string();
    assert!(error.contains("is ambiguous (b/default/api, b/x/api); write <namespace>/api"), "{error}");
    assert_eq!(select(&[], "b/x/api").unwrap().plan.nodes.len(), 1);
    assert_eq!(select(&["b"], "x/api").unwrap().plan.nodes.len(), 1);
}

#[test]
fn selectors_unite_or_intersect() {
    let place = seed();
    let both = |mode| Selector {
        tags: words(&["svc"]),
        releases: words(&["roedk", "redis"]),
        mode,
        ..Selector::default()
    };
    assert_eq!(names(&place, both(SelectMode::Union)).len(), 6);
    assert_eq!(names(&place, both(SelectMode::Intersect)), ["redis"]);
}

/// Scenario S-10 of the specification.
#[test]
fn a_range_is_mapped_from_a_root_below_the_top() {
    let outer = Place::new(&[("README.md", "x")]);
    let inner = seed();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(inner.path())
        .arg(outer.path().join("deploy"))
        .status();
    assert!(copied.unwrap().success());
    outer.commit();
    outer.write("deploy/services/redis/values-dev.yaml", "replicas: 3\n").write("ünïcödé.txt", "x");
    outer.commit();
    let request =
        Request { root: outer.path().join("deploy"), selector: git("HEAD~1...HEAD"), ..Request::default() };
    let compiled = compile(&request, &Git::default()).unwrap();
    let nodes: Vec<_> = compiled.plan.nodes.iter().map(|node| (&node.name, &node.selected_by)).collect();
    assert_eq!(nodes, [(&"redis".to_owned(), &words(&["explicit:git:services/redis/values-dev.yaml"]))]);
    assert_eq!(compiled.unmapped, 1, "the file outside the root");
}

/// Scenario S-11 of the specification.
#[test]
fn a_shared_values_file_selects_who_reads_it() {
    let place = Place::new(&[
        ("stack.yaml", "name: s\n"),
        (
            "a/stack.yaml",
            "defaults: {values: [../common.yaml]}\nreleases:\n- {name: one, chart: ../c}\n- {name: two, chart: ../c}\n",
        ),
        ("b/release.yaml", "name: three\nchart: ../c\n"),
        ("common.yaml", "x: 1\n"),
    ]);
    place.chart("c").commit();
    place.write("common.yaml", "x: 2\n").commit();
    assert_eq!(names(&place, git("HEAD~1...HEAD")), ["one", "two"]);
    // A chart shared by all, and a defaults-only stack file.
    place.write("c/templates/x.yaml", "a: 1\n").commit();
    assert_eq!(names(&place, git("HEAD~1...HEAD")), ["one", "three", "two"]);
    place.write("a/stack.yaml", "defaults: {tags: [t], values: [../common.yaml]}\nreleases:\n- {name: one, chart: ../c}\n- {name: two, chart: ../c}\n");
    // One revision alone means the work tree.
    assert_eq!(names(&place, git("HEAD")), ["one", "two"]);
}

#[test]
fn renames_count_on_both_sides() {
    let place = Place::new(&[
        ("stack.yaml", "releases:\n- {name: a, chart: ./a}\n- {name: b, chart: ./b}\n"),
        ("a/templates/x.yaml", "some: content\nthat: is\nlong: enough\n"),
    ]);
    place.chart("a").chart("b").commit();
    std::fs::create_dir_all(place.path().join("b/templates")).unwrap();
    place.git(&["mv", "a/templates/x.yaml", "b/templates/x.yaml"]);
    place.commit();
    assert_eq!(names(&place, git("HEAD~1...HEAD")), ["a", "b"]);
}

/// Scenario S-12 of the specification.
#[test]
fn a_removed_release_is_only_mentioned() {
    let place = Place::new(&[
        ("stack.yaml", "releases:\n- {name: a, chart: ./c}\n"),
        ("b/release.yaml", "name: b\nchart: ../c\n"),
    ]);
    place.chart("c").commit();
    std::fs::remove_file(place.path().join("b/release.yaml")).unwrap();
    place.commit();
    let error = place.select(git("HEAD~1...HEAD")).unwrap_err();
    assert_eq!(error.exit_code(), 0);
    let Error::Empty { notices, .. } = error else { panic!("{error}") };
    assert_eq!(notices, ["release definition removed: b/release.yaml (the live release is not touched)"]);
}

/// Scenario S-20 of the specification.
#[test]
fn a_change_of_nothing_selects_nothing_and_is_fine() {
    let place = Place::new(&[("stack.yaml", "name: s\n"), ("a/release.yaml", "name: a\nchart: ../c\n")]);
    place.chart("c").commit();
    place.write("README.md", "x").commit();
    let error = place.select(git("HEAD~1...HEAD")).unwrap_err();
    assert_eq!(error.exit_code(), 0);
    assert_eq!(error.to_string(), "selection is empty (no changed file maps to a release)");
    let error = place.select(Selector { tags: words(&["none"]), ..Selector::default() }).unwrap_err();
    assert_eq!((error.exit_code(), error.to_string().as_str()), (11, "selection is empty"));
}

#[test]
fn a_range_costs_one_call_of_git() {
    let place = seed();
    place.commit();
    place.write("services/redis/values-dev.yaml", "replicas: 3\n").commit();
    let script = place.path().join(".git/counting-git");
    std::fs::write(&script, "#!/bin/sh\necho call >> \"$(dirname \"$0\")/calls\"\nexec git \"$@\"\n")
        .unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let request = Request { selector: git("HEAD~1...HEAD"), ..place.request() };
    assert_eq!(compile(&request, &Git::at(&script)).unwrap().plan.nodes.len(), 1);
    assert_eq!(std::fs::read_to_string(place.path().join(".git/calls")).unwrap(), "call\n");
}

#[test]
fn wrong_ranges_say_what_is_wrong() {
    let place = seed();
    let wrong = |range: &str| place.select(git(range)).unwrap_err().to_string();
    assert!(wrong("HEAD").starts_with("--git-range requires a git work tree (root /"), "{}", wrong("HEAD"));
    place.commit();
    place.git(&["checkout", "-q", "--orphan", "lonely"]);
    place.write("other", "so that it is another commit").commit();
    for (range, reason) in [
        ("main...lonely", "no merge base (shallow clone? fetch more history)"),
        ("nowhere...HEAD", "unknown revision (fetch it, or check the spelling)"),
        ("--output=x", "not a range"),
        ("", "not a range"),
    ] {
        let text = wrong(range);
        assert!(text.starts_with(&format!("git range \"{range}\": {reason} [ST040]")), "{text}");
    }
}

/// Scenario S-19 of the specification.
#[test]
fn deleting_what_others_need_is_refused() {
    let place = seed();
    let delete = |selector: Selector, orphan: bool| {
        compile(&Request { selector, command: Command::Delete, orphan, ..place.request() }, &Git::default())
    };
    let postgresql = Selector { releases: words(&["postgresql"]), ..Selector::default() };
    let error = delete(postgresql.clone(), false).unwrap_err();
    assert_eq!(error.exit_code(), 10);
    assert_eq!(
        error.to_string(),
        "roedk2/roedk-2/postgresql is still needed by roedk2/roedk-2/keycloak, roedk2/roedk-2/pgadmin, \
         roedk2/roedk-2/roedk (add --include-dependents, or --force-orphan) [ST034]"
    );
    assert_eq!(delete(postgresql.clone(), true).unwrap().plan.nodes.len(), 1);
    let plan = delete(Selector { include_dependents: true, ..postgresql }, false).unwrap().plan;
    let order: Vec<&str> = plan.order.iter().map(|id| id.rsplit('/').next().unwrap()).collect();
    assert_eq!(order, ["pgadmin", "roedk", "keycloak", "postgresql"]);
    assert_eq!(plan.nodes.last().unwrap().execution_group, 2);
}
