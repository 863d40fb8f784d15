//! S-13, S-18, S-21 to S-24, S-34, S-38: what a run does. Time is virtual.

use std::collections::BTreeSet;

use slipway_stack::record::RunStatus;
use slipway_stack::resume::Resume;
use slipway_stack::{
    Command, FailMode, FailureClass, Git, LiveRelease, NeedsPolicy, Request, Selector, compile,
};
use tokio_util::sync::CancellationToken;

use crate::support::{Fake, How, Script, go_on, graph, seed, start, start_on, states, stored, story};

/// Scenario S-13 of the specification.
#[test]
fn a_fan_out_uses_every_place() {
    let leaves: String = (0..8).map(|leaf| format!("leaf{leaf}: root\n")).collect();
    let place = graph(&format!("root\n{leaves}"));
    let fake = Fake::default();
    let how = How { concurrency: 8, ..How::default() };
    let (finished, _) = start(&place, place.compile().plan, &fake, &how);
    assert!(finished.success);
    assert_eq!(fake.running.lock().unwrap().1, 8);
    let (began, ended) = fake.span.lock().unwrap().unwrap();
    assert!(
        ended - began < std::time::Duration::from_millis(2600),
        "two seconds of work took {:?}",
        ended - began
    );
    // A limit of each cluster holds under the limit of all.
    let fake = Fake::default();
    let how = How { concurrency: 8, per_cluster: 3, ..How::default() };
    assert!(start(&place, place.compile().plan, &fake, &how).0.success);
    assert_eq!(fake.running.lock().unwrap().1, 3);
}

/// Scenario S-18 of the specification.
#[test]
fn an_unselected_need_must_be_deployed() {
    let place = graph("redis\nfrontend: redis");
    let selector = Selector { releases: vec!["frontend".into()], ..Selector::default() };
    let plan = place.select(selector).unwrap().plan;
    let fake = Fake::default();
    let (finished, _) = start(&place, plan.clone(), &fake, &How::default());
    assert!(!finished.success);
    assert!(fake.calls().is_empty(), "nothing was applied");
    let node = &finished.summary.nodes["default/default/frontend"];
    assert_eq!(node.last_error_class.as_deref(), Some("UNMET_NEED"));
    assert_eq!(
        node.last_error.as_deref(),
        Some(
            "default/default/frontend: need \"redis\" is neither selected nor deployed (add --include-deps, or --needs ignore)"
        )
    );
    let how = How { needs: NeedsPolicy::Ignore, ..How::default() };
    assert!(start(&place, plan.clone(), &fake, &how).0.success);
    let fake = Fake::default();
    fake.live.lock().unwrap().insert("default/default/redis".into(), LiveRelease::Deployed { revision: 3 });
    assert!(start(&place, plan, &fake, &How::default()).0.success);
}

const FOUR: &str = "b\nc\nd\nx: b";

fn four(fail_mode: FailMode) -> (Fake, How) {
    let mut fake = Fake::new(&[
        ("b", &[Script::Fail(FailureClass::Invalid)]),
        ("d", &[Script::Fail(FailureClass::Forbidden)]),
    ]);
    fake.seconds.insert("c".into(), 60);
    (fake, How { concurrency: 2, fail_mode, ..How::default() })
}

/// Scenario S-21 of the specification.
#[test]
fn fail_fast_lets_running_work_finish() {
    let place = graph(FOUR);
    let (fake, how) = four(FailMode::FailFast);
    let (finished, run) = start(&place, place.compile().plan, &fake, &how);
    assert_eq!(states(&finished), "b=failed c=succeeded d=skipped x=blocked");
    assert!(!finished.success);
    assert_eq!(fake.calls(), ["apply b", "apply c"]);
    let stored = stored(&place, &run);
    assert_eq!(stored.summary.status, RunStatus::Failed);
    assert_eq!(stored.summary.nodes["default/default/x"].note.as_deref(), Some("needs b (failed)"));
    let totals = stored.summary.totals;
    assert_eq!(totals.planned(), totals.succeeded + totals.failed + totals.skipped + totals.blocked);
}

/// Scenario S-22 of the specification.
#[test]
fn continue_on_error_keeps_every_error() {
    let place = graph(FOUR);
    let (fake, how) = four(FailMode::ContinueOnError);
    let (finished, _) = start(&place, place.compile().plan, &fake, &how);
    assert_eq!(states(&finished), "b=failed c=succeeded d=failed x=blocked");
    let errors: Vec<&str> =
        finished.summary.nodes.values().filter_map(|node| node.last_error_class.as_deref()).collect();
    assert_eq!(errors, ["INVALID", "FORBIDDEN"]);
}

/// Scenario S-23 of the specification.
#[test]
fn retries_follow_the_class() {
    let place = graph("a");
    let fake = Fake::new(&[(
        "a",
        &[Script::Fail(FailureClass::RateLimit), Script::Fail(FailureClass::RateLimit), Script::Ok],
    )]);
    let how = How { retry: 3, ..How::default() };
    let (finished, run) = start(&place, place.compile().plan, &fake, &how);
    assert!(finished.success);
    assert_eq!(
        story(&stored(&place, &run).events),
        [
            "RUN_STARTED",
            "NODE_QUEUED a",
            "NODE_RUNNING a 1",
            "NODE_FAILED a 1",
            "NODE_RETRY_SCHEDULED a 2",
            "NODE_RUNNING a 2",
            "NODE_FAILED a 2",
            "NODE_RETRY_SCHEDULED a 3",
            "NODE_RUNNING a 3",
            "NODE_SUCCEEDED a 3",
            "RUN_COMPLETED"
        ]
    );
    for (class, asked, attempts) in [
        (FailureClass::Forbidden, None, 1),
        (FailureClass::WaitTimeout, None, 1),
        (FailureClass::WaitTimeout, Some(FailureClass::WaitTimeout), 5),
        (FailureClass::Conflict, None, 3),
        (FailureClass::Server5xx, None, 5),
    ] {
        let fake = Fake::new(&[("a", &vec![Script::Fail(class); 9])]);
        let mut how = How { retry: 5, ..How::default() };
        how.options.retry_on = asked.into_iter().collect();
        start(&place, place.compile().plan, &fake, &how);
        assert_eq!(fake.calls().len(), attempts, "{class}");
    }
}

/// Scenario S-24 of the specification.
#[test]
fn waiting_for_a_retry_takes_no_place() {
    let place = graph("a\nb");
    let fake = Fake::new(&[("a", &[Script::Fail(FailureClass::Transport), Script::Ok])]);
    let how = How { retry: 2, ..How::default() };
    assert!(start(&place, place.compile().plan, &fake, &how).0.success);
    assert_eq!(fake.calls(), ["apply a", "apply b", "apply a"]);
}

#[test]
fn a_fault_of_the_engine_fails_one_release() {
    let place = graph("a\nb");
    let fake = Fake::new(&[("a", &[Script::Panic])]);
    let how = How { fail_mode: FailMode::ContinueOnError, ..How::default() };
    let (finished, _) = start(&place, place.compile().plan, &fake, &how);
    assert_eq!(states(&finished), "a=failed b=succeeded");
    assert_eq!(finished.summary.nodes["default/default/a"].last_error_class.as_deref(), Some("INTERNAL"));
}

#[test]
fn what_did_not_change_says_so() {
    let place = graph("a");
    let fake = Fake::new(&[("a", &[Script::Unchanged])]);
    let (finished, _) = start(&place, place.compile().plan, &fake, &How::default());
    let node = &finished.summary.nodes["default/default/a"];
    assert_eq!(
        (node.changed, node.revision, node.note.as_deref()),
        (Some(false), Some(1), Some("unchanged"))
    );
}

#[test]
fn deletion_runs_the_other_way() {
    let place = seed();
    let request = Request { command: Command::Delete, ..place.request() };
    let plan = compile(&request, &Git::default()).unwrap().plan;
    let fake = Fake::default();
    assert!(start(&place, plan, &fake, &How::default()).0.success);
    assert_eq!(
        fake.calls(),
        [
            "delete pgadmin",
            "delete roedk",
            "delete keycloak",
            "delete minio",
            "delete redis",
            "delete postgresql"
        ]
    );
}

/// Scenario S-34 of the specification.
#[test]
fn what_this_run_left_pending_is_recovered() {
    let place = graph("a");
    // A run that dies while `a` is being upgraded leaves its start in the log and nothing else.
    let token = CancellationToken::new();
    let fake = Fake::new(&[("a", &[Script::Hang])]);
    let (_, run) = {
        let mut fake = fake;
        fake.stop_at = Some(("a".into(), token.clone()));
        start_on(&place, place.compile().plan, &fake, &How::default(), None, token)
    };
    let log = place.path().join(format!(".slipway/stack/runs/{run}/events.jsonl"));
    let text = std::fs::read_to_string(&log).unwrap();
    let kept: Vec<&str> = text.lines().take_while(|line| !line.contains("NODE_CANCELED")).collect();
    std::fs::write(&log, kept.join("\n") + "\n").unwrap();
    let fake = Fake::default();
    let pending = LiveRelease::Pending { revision: 4, status: "pending-upgrade".into() };
    fake.live.lock().unwrap().insert("default/default/a".into(), pending);
    let finished =
        go_on(&place, &run, Command::Apply, &Resume::default(), &fake, &How::default()).unwrap().unwrap();
    assert!(finished.success);
    let calls = fake.calls();
    assert_eq!(calls[1], "apply a");
    assert!(calls[0].starts_with("recover a 4: ") && calls[0].contains(&run), "{}", calls[0]);
    let story: BTreeSet<String> = story(&stored(&place, &run).events).into_iter().collect();
    assert!(story.contains("NODE_RECOVERED a 2") && story.contains("NODE_SUCCEEDED a 2"), "{story:?}");
}

/// Scenario S-38 of the specification.
#[test]
fn a_cancelled_run_stops_its_work_and_can_be_resumed() {
    let place = graph("a\nb: a\nc");
    let token = CancellationToken::new();
    let mut fake = Fake::new(&[("a", &[Script::Hang])]);
    fake.stop_at = Some(("a".into(), token.clone()));
    let (finished, run) = start_on(&place, place.compile().plan, &fake, &How::default(), None, token);
    assert!(finished.canceled && !finished.success);
    assert_eq!(states(&finished), "a=canceled b=blocked c=skipped");
    assert_eq!(stored(&place, &run).summary.status, RunStatus::Canceled);
    let fake = Fake::default();
    let finished =
        go_on(&place, &run, Command::Apply, &Resume::default(), &fake, &How::default()).unwrap().unwrap();
    assert!(finished.success);
    assert_eq!(fake.calls(), ["apply a", "apply c", "apply b"]);
}
