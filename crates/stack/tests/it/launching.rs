//! S-32, S-40 and the way from flags to an end.

use slipway_event::Events;
use slipway_stack::launch::{Ended, Launch, Listener, launch};
use slipway_stack::record::Takeover;
use slipway_stack::resume::Resume;
use slipway_stack::{Class, Command, Error, Git, Request, Selector};
use tokio_util::sync::CancellationToken;

use crate::support::{Fake, Place, Script, graph, seed, store, virtual_time};

fn go(place: &Place, options: Launch, fake: &Fake, answer: Option<&str>) -> (Result<Ended, Error>, String) {
    let mut asked = String::new();
    let listener = Listener {
        on_plan: Box::new(|_, _| ()),
        ask: Box::new(|question| {
            asked = question.to_owned();
            answer.map(str::to_owned)
        }),
        on_event: None,
    };
    let owner = "t@here:1".to_owned();
    let store = store(place);
    let git = Git::default();
    let events = Events::silent();
    let options = Launch { owner, ..options };
    let work = launch(options, &store, &git, fake, listener, &events, CancellationToken::new());
    let ended = virtual_time(work);
    (ended, asked)
}

fn apply(place: &Place) -> Launch {
    Launch { request: place.request(), ..Launch::default() }
}

#[test]
fn s32_planning_a_resume_writes_nothing() {
    let place = graph("a\nb: a");
    let fake = Fake::new(&[("b", &[Script::Fail(Class::Invalid)])]);
    let (ended, _) = go(&place, apply(&place), &fake, None);
    assert!(matches!(ended, Ok(Ended::Ran { .. })), "{ended:?}");
    let before = fake.calls().len();
    let snapshot = || {
        let output = std::process::Command::new("sh")
            .args(["-c", "find .slipway -type f | sort | xargs sha256sum"])
            .current_dir(place.path())
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let files = snapshot();
    let options = Launch { resume: Some(Resume::default()), plan_only: true, ..apply(&place) };
    let (ended, _) = go(&place, options, &fake, None);
    let Ok(Ended::Planned { plan, .. }) = ended else { panic!("{ended:?}") };
    assert_eq!(plan.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(fake.calls().len(), before);
    assert_eq!(snapshot(), files);
    // Selectors belong to a new plan.
    let selector = Selector { tags: vec!["x".into()], ..Selector::default() };
    let request = Request { selector, ..place.request() };
    let options = Launch { resume: Some(Resume::default()), request, ..Launch::default() };
    assert_eq!(go(&place, options, &fake, None).0.unwrap_err().exit_code(), 10);
    let options = Launch { resume: Some(Resume::default()), replan: true, ..apply(&place) };
    let (ended, _) = go(&place, options, &fake, None);
    let Ok(Ended::Ran { plan, finished }) = ended else { panic!("{ended:?}") };
    assert!(finished.success);
    assert_eq!(plan.carried_over, ["default/default/a"]);
    assert_eq!(fake.calls().last().map(String::as_str), Some("apply b"));
}

#[test]
fn s40_a_large_deletion_needs_the_stacks_name() {
    let place = seed();
    let delete = |threshold, yes| Launch {
        request: Request { command: Command::Delete, ..place.request() },
        confirm_threshold: threshold,
        yes,
        ..Launch::default()
    };
    let fake = Fake::default();
    let (ended, asked) = go(&place, delete(5, false), &fake, None);
    let error = ended.unwrap_err();
    assert_eq!(
        (error.exit_code(), error.to_string().as_str()),
        (14, "deletion needs confirmation; pass --yes to skip the prompt")
    );
    assert_eq!(
        asked,
        "This deletes 6 releases from roedk2 (pgadmin, roedk, keycloak, minio, redis, postgresql). \
         Type the stack name to confirm: "
    );
    assert_eq!(go(&place, delete(5, false), &fake, Some("yes\n")).0.unwrap_err().exit_code(), 14);
    assert!(fake.calls().is_empty(), "nothing was deleted");
    assert!(matches!(go(&place, delete(5, false), &fake, Some("roedk2\n")).0, Ok(Ended::Ran { .. })));
    let (ended, asked) = go(&place, delete(10, false), &fake, Some("y\n"));
    assert!(ended.is_ok() && asked.ends_with("Go on? [y/N] "), "{asked}");
    for quiet in [delete(0, false), delete(5, true)] {
        let (ended, asked) = go(&place, quiet, &fake, None);
        assert!(ended.is_ok() && asked.is_empty());
    }
}

#[test]
fn a_held_lock_is_told_before_anything_else() {
    let place = graph("a");
    let held = store(&place).lock("shop", None, "ann@ci:1", Takeover::Never).unwrap();
    place.write("stack.yaml", "name: shop\nnonsense: 1\n");
    assert_eq!(go(&place, apply(&place), &Fake::default(), None).0.unwrap_err().exit_code(), 13);
    let options = Launch { plan_only: true, ..apply(&place) };
    assert_eq!(
        go(&place, options, &Fake::default(), None).0.unwrap_err().exit_code(),
        10,
        "reading needs no lock"
    );
    drop(held);
}

#[test]
fn the_root_says_how_to_run() {
    let place = graph("a\nb\nc");
    let text = std::fs::read_to_string(place.path().join("stack.yaml")).unwrap();
    place.write(
        "stack.yaml",
        &format!("{text}runner: {{concurrency: 3, concurrencyPerCluster: {{default: 2}}}}\n"),
    );
    let fake = Fake::default();
    assert!(go(&place, apply(&place), &fake, None).0.is_ok());
    assert_eq!(fake.running.lock().unwrap().1, 2);
    let fake = Fake::default();
    let options = Launch { concurrency: Some(1), ..apply(&place) };
    assert!(go(&place, options, &fake, None).0.is_ok());
    assert_eq!(fake.running.lock().unwrap().1, 1);
}

#[test]
fn a_run_records_the_commit_and_the_contexts_it_started_from() {
    let place = graph("a");
    place.write(
        "stack.yaml",
        "name: shop\ndefaults: {cluster: {name: east, context: east-1}}\nreleases:\n- {name: a, chart: ./chart}\n",
    );
    place.commit();
    let meta = |dirty: bool| {
        let (ended, _) = go(&place, apply(&place), &Fake::default(), None);
        let Ok(Ended::Ran { plan, .. }) = ended else { panic!("{ended:?}") };
        let path = place.path().join(format!(".slipway/stack/runs/{}/meta.json", plan.run_id));
        let meta: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        assert_eq!(meta["git"]["branch"], "main", "{meta}");
        assert_eq!(meta["git"]["dirty"], dirty, "{meta}");
        assert_eq!(meta["git"]["commit"].as_str().map(str::len), Some(40), "{meta}");
        assert_eq!(meta["kube"], serde_json::json!({"east": "east-1"}), "{meta}");
    };
    meta(false);
    // Records of runs are not part of the tree.
    meta(false);
    place.write("chart/values.yaml", "x: 1\n");
    meta(true);
}
