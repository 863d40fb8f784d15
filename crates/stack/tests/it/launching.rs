//! S-32, S-40 and the way from flags to an end.

use slipway_event::Events;
use slipway_stack::record::Takeover;
use slipway_stack::resume::Resume;
use slipway_stack::{
    Command, ConfirmPolicy, Error, ExecutedRun, FailureClass, Request, ResumedPlan, RunRequest, Selector,
};

use crate::support::SpecifiedExit as _;
use crate::support::{Ended, Fake, Launch, Place, Script, graph, launch, seed, store, virtual_time};

fn go(place: &Place, options: Launch, fake: &Fake, answer: Option<&str>) -> (Result<Ended, Error>, String) {
    let mut asked = String::new();
    let ask = |question: &str| {
        asked = question.to_owned();
        answer.map(str::to_owned)
    };
    let options = Launch { owner: "t@here:1".to_owned(), ..options };
    let ended = virtual_time(launch(options, &store(place), fake, ask, &Events::silent()));
    (ended, asked)
}

fn apply(place: &Place) -> Launch {
    Launch { run: RunRequest { request: place.request(), ..RunRequest::default() }, ..Launch::default() }
}

fn resumed(request: Request) -> Launch {
    let run = RunRequest { request, resume: Some(Resume::default()), ..RunRequest::default() };
    Launch { run, ..Launch::default() }
}

/// Scenario S-32 of the specification.
#[test]
fn planning_a_resume_writes_nothing() {
    let place = graph("a\nb: a");
    let fake = Fake::new(&[("b", &[Script::Fail(FailureClass::Invalid)])]);
    let (ended, _) = go(&place, apply(&place), &fake, None);
    assert!(matches!(ended, Ok(Ended::Ran(_))), "{ended:?}");
    let before = fake.calls().len();
    let snapshot = || {
        let output = std::process::Command::new("sh")
            .args(["-c", "find .slipway -type f | sort | xargs sha256sum"])
            .current_dir(place.path())
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let files = snapshot();
    let options = Launch { plan_only: true, ..resumed(place.request()) };
    let (ended, _) = go(&place, options, &fake, None);
    let Ok(Ended::Planned(planned)) = ended else { panic!("{ended:?}") };
    assert_eq!(planned.plan.nodes.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["b"]);
    assert_eq!(fake.calls().len(), before);
    assert_eq!(snapshot(), files);
    // Selectors belong to a new plan.
    let selector = Selector { tags: vec!["x".into()], ..Selector::default() };
    let request = Request { selector, ..place.request() };
    let options = resumed(request);
    assert_eq!(go(&place, options, &fake, None).0.unwrap_err().exit_code(), 10);
    let mut options = resumed(place.request());
    options.run.resumed_plan = ResumedPlan::Anew;
    let (ended, _) = go(&place, options, &fake, None);
    let Ok(Ended::Ran(ExecutedRun { plan, outcome })) = ended else { panic!("{ended:?}") };
    assert!(outcome.success);
    assert_eq!(plan.carried_over, ["default/default/a"]);
    assert_eq!(fake.calls().last().map(String::as_str), Some("apply b"));
}

/// Scenario S-40 of the specification.
#[test]
fn a_large_deletion_needs_the_stacks_name() {
    let place = seed();
    let delete = |delete_threshold, agreed| {
        let request = Request { command: Command::Delete, ..place.request() };
        let policy = ConfirmPolicy { agreed, delete_threshold, ..ConfirmPolicy::default() };
        let run = RunRequest { request, ..RunRequest::default() };
        Launch { run, policy, ..Launch::default() }
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
    assert!(matches!(go(&place, delete(5, false), &fake, Some("roedk2\n")).0, Ok(Ended::Ran(_))));
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
    let mut options = apply(&place);
    options.run.concurrency = Some(1);
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
        let Ok(Ended::Ran(ExecutedRun { plan, .. })) = ended else { panic!("{ended:?}") };
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

#[test]
fn inputs_that_change_while_a_person_answers_make_the_plan_stale() {
    let place = graph("a");
    let fake = Fake::default();
    let policy = ConfirmPolicy { confirm_apply: true, ..ConfirmPolicy::default() };
    let options = Launch { policy, owner: "t@here:1".to_owned(), ..apply(&place) };
    let ask = |_: &str| {
        place.write("chart/values.yaml", "changed: true\n");
        Some("y".to_owned())
    };
    let ended = virtual_time(launch(options, &store(&place), &fake, ask, &Events::silent()));
    let error = ended.unwrap_err();
    assert_eq!(error.exit_code(), 12, "{error}");
    assert!(error.to_string().starts_with("inputs changed since the plan was made"), "{error}");
    assert!(fake.calls().is_empty() && store(&place).newest().is_none(), "nothing was begun");
}
