//! S-25 to S-33, S-35, S-37, S-39: what is on disk, and what can be made of it.

use std::fs;
use std::io;
use std::path::PathBuf;

use proptest::prelude::*;
use slipway_stack::record::{Disk, EventType, RunMeta, RunStatus, Summary, Takeover};
use slipway_stack::resume::{self, Resume};
use slipway_stack::{Command, Error, FailMode, FailureClass, Request, compile};
use tokio_util::sync::CancellationToken;

use crate::support::SpecifiedExit as _;
use crate::support::{
    Fake, How, Place, Script, clock, fit, go_on, graph, start, start_on, states, store, stored, story,
};

fn log(place: &Place, run: &str) -> PathBuf {
    place.path().join(format!(".slipway/stack/runs/{run}/events.jsonl"))
}

/// A run in which `b` fails.
fn failed(place: &Place) -> String {
    let fake = Fake::new(&[("b", &[Script::Fail(FailureClass::Invalid)])]);
    let how = How { fail_mode: FailMode::ContinueOnError, ..How::default() };
    start(place, place.compile().plan, &fake, &how).1
}

fn resumed(place: &Place, run: &str, resume: &Resume) -> Result<(String, Vec<String>), Error> {
    let fake = Fake::default();
    let how = How { fail_mode: FailMode::ContinueOnError, ..How::default() };
    let finished = go_on(place, run, Command::Apply, resume, &fake, &how)?;
    Ok((finished.map_or_else(|| "nothing to do".to_owned(), |finished| states(&finished)), fake.calls()))
}

#[test]
fn a_run_leaves_its_four_files_and_the_last_run() {
    let place = graph("a\nb: a");
    let (finished, run) = start(&place, place.compile().plan, &Fake::default(), &How::default());
    assert!(finished.success);
    let directory = place.path().join(".slipway/stack/runs").join(&run);
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["events.jsonl", "meta.json", "plan.json", "summary.json"]);
    assert_eq!(fs::read_to_string(place.path().join(".slipway/.gitignore")).unwrap(), "*\n");
    let last: serde_json::Value =
        serde_json::from_slice(&fs::read(place.path().join(".slipway/stack/shop/-/last-run.json")).unwrap())
            .unwrap();
    assert_eq!((last["runId"].as_str(), last["status"].as_str()), (Some(run.as_str()), Some("succeeded")));
    assert_eq!(last["inputs"][0]["setKeys"], serde_json::json!([]));
    use std::os::unix::fs::PermissionsExt as _;
    let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(directory.clone()), mode(directory.join("plan.json"))), (0o700, 0o600));
}

/// Scenario S-25 of the specification.
#[test]
fn a_start_is_on_disk_before_the_work() {
    struct Reads(Fake, PathBuf);
    impl slipway_stack::Deploy for Reads {
        async fn apply(
            &self,
            node: &slipway_stack::Node,
            attempt: &slipway_stack::ReleaseAttempt<'_>,
        ) -> Result<slipway_stack::AppliedRelease, slipway_stack::NodeError> {
            let runs = fs::read_dir(&self.1).unwrap().next().unwrap().unwrap().path();
            let text = fs::read_to_string(runs.join("events.jsonl")).unwrap();
            assert!(text.contains("NODE_RUNNING") && text.contains(&node.id), "{text}");
            self.0.apply(node, attempt).await
        }
        async fn delete(
            &self,
            node: &slipway_stack::Node,
            attempt: &slipway_stack::ReleaseAttempt<'_>,
        ) -> Result<slipway_stack::AppliedRelease, slipway_stack::NodeError> {
            self.0.delete(node, attempt).await
        }
        async fn status(
            &self,
            at: &slipway_stack::At<'_>,
        ) -> Result<slipway_stack::LiveRelease, slipway_stack::NodeError> {
            self.0.status(at).await
        }
        async fn recover(
            &self,
            at: &slipway_stack::At<'_>,
            revision: u64,
            why: &str,
        ) -> Result<(), slipway_stack::NodeError> {
            self.0.recover(at, revision, why).await
        }
        async fn plan(
            &self,
            node: &slipway_stack::Node,
            command: Command,
        ) -> Result<slipway_stack::ReleasePreview, slipway_stack::NodeError> {
            self.0.plan(node, command).await
        }
        async fn verify(
            &self,
            node: &slipway_stack::Node,
        ) -> Result<slipway_stack::ReleaseVerdict, slipway_stack::NodeError> {
            self.0.verify(node).await
        }
    }
    let place = graph("a");
    let store = store(&place);
    let mut plan = place.compile().plan;
    let lock = store.lock("shop", None, "t@here:1", Takeover::Never).unwrap();
    let stored = store.create(&mut plan, &RunMeta::default()).unwrap();
    let events = slipway_event::Events::silent();
    let deploy = Reads(Fake::default(), place.path().join(".slipway/stack/runs"));
    let session = slipway_stack::execute::RunSession {
        store: &store,
        log: store.log(&stored).unwrap(),
        stored,
        lock,
        start: slipway_stack::execute::RunStart::Beginning,
        options: How::default().options,
    };
    let work = slipway_stack::execute::run_session(session, &deploy, &events, CancellationToken::new());
    assert!(crate::support::virtual_time(work).unwrap().success);
}

/// Scenario S-26 of the specification.
#[test]
fn a_torn_end_is_put_aside() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let whole = fs::read(log(&place, &run)).unwrap();
    let last = whole[..whole.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    // Every cut means the same; some are gone on from.
    fs::write(log(&place, &run), &whole[..last]).unwrap();
    let short = stored(&place, &run).summary;
    for end in last + 1..whole.len() {
        fs::write(log(&place, &run), &whole[..end]).unwrap();
        assert_eq!(stored(&place, &run).summary, short, "cut at {end}");
    }
    for end in (last + 1..whole.len()).step_by(29).chain([whole.len() - 1]) {
        fs::write(log(&place, &run), &whole[..end]).unwrap();
        let (states, calls) = resumed(&place, &run, &Resume::default()).unwrap();
        assert_eq!(
            (states.as_str(), calls.as_slice()),
            ("a=succeeded b=succeeded", ["apply b".to_owned()].as_slice())
        );
        let directory = log(&place, &run).parent().unwrap().to_owned();
        let torn = fs::read_dir(&directory)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().contains("events.torn-"))
            .unwrap();
        assert_eq!(fs::read(&torn).unwrap(), &whole[last..end]);
        fs::remove_file(torn).unwrap();
    }
}

/// Scenario S-27 of the specification.
#[test]
fn a_damaged_middle_is_refused() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let mut bytes = fs::read(log(&place, &run)).unwrap();
    let third = bytes.split(|byte| *byte == b'\n').take(2).map(|line| line.len() + 1).sum::<usize>();
    bytes[third + 40] ^= 1;
    fs::write(log(&place, &run), bytes).unwrap();
    let error = resumed(&place, &run, &Resume::default()).unwrap_err();
    let shown = log(&place, &run).canonicalize().unwrap().display().to_string();
    assert!(error.to_string().starts_with(&format!("{shown}:3: corrupt [ST054]")), "{error}");
    let (read, damage) = store(&place).inspect(&run).unwrap();
    assert_eq!((read.events.len(), damage.unwrap().at.unwrap().line), (2, 3), "what came before still shows");
    let listed = store(&place).list(9, |_| false);
    assert_eq!((listed.len(), listed[0].totals.planned()), (1, 2), "the plan still shows");
    assert!(listed[0].problem.is_some());
}

/// Scenario S-28 of the specification.
#[test]
fn attempts_go_on_counting() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let fake = Fake::new(&[("b", &[Script::Fail(FailureClass::Transport), Script::Ok])]);
    let how = How { retry: 2, ..How::default() };
    let finished = go_on(&place, &run, Command::Apply, &Resume::default(), &fake, &how).unwrap().unwrap();
    assert!(finished.success);
    let story = story(&stored(&place, &run).events);
    let running: Vec<&String> = story.iter().filter(|line| line.starts_with("NODE_RUNNING b")).collect();
    assert_eq!(running, ["NODE_RUNNING b 1", "NODE_RUNNING b 2", "NODE_RUNNING b 3"]);
    assert_eq!(resumed(&place, &run, &Resume::default()).unwrap().0, "nothing to do");
}

/// Scenario S-29 of the specification.
#[test]
fn changed_inputs_are_refused_unless_allowed() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    place.write("b.yaml", "x: 2\n").write("a.yaml", "x: 3\n");
    let error = resumed(&place, &run, &Resume::default()).unwrap_err();
    assert_eq!(error.exit_code(), 12);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!(
            "resume refused: inputs of run {run} changed\n  default/default/b\n    values b.yaml   sha256:"
        )),
        "{text}"
    );
    assert!(text.contains(" -> sha256:") && text.contains("a changed too, after it succeeded"), "{text}");
    fs::remove_file(place.path().join("b.yaml")).unwrap();
    assert!(resumed(&place, &run, &Resume::default()).unwrap_err().to_string().contains("-> missing"));
    place.write("b.yaml", "x: 2\n");
    // A new plan carries over what is done and unchanged.
    let mut plan = fit(place.compile().plan, &How::default());
    resume::carry_over(&mut plan, &stored(&place, &run));
    assert!(plan.carried_over.is_empty(), "a changed as well");
    place.write("a.yaml", "x: 1\n");
    let mut plan = place.compile().plan;
    resume::carry_over(&mut plan, &stored(&place, &run));
    assert_eq!(plan.carried_over, ["default/default/a"]);
    let fake = Fake::default();
    let (finished, second) = start(&place, plan, &fake, &How::default());
    assert!(finished.success && second != run);
    assert_eq!(fake.calls(), ["apply b"]);
    // The old run goes on with what is there now if it is told to.
    let allowed = Resume { allow_drift: true, ..Resume::default() };
    assert_eq!(resumed(&place, &run, &allowed).unwrap().1, ["apply b"]);
    let events = stored(&place, &run).events;
    let noted = events.iter().find(|event| event.kind == EventType::RunResumed).unwrap();
    assert_eq!(noted.fields["drift"][0]["id"], "default/default/b");
}

/// Scenario S-30 of the specification.
#[test]
fn a_commit_is_no_drift() {
    let place = graph("a\nb: a");
    place.commit();
    let run = failed(&place);
    place.write("README.md", "new").commit();
    assert_eq!(resumed(&place, &run, &Resume::default()).unwrap().0, "a=succeeded b=succeeded");
}

/// Scenario S-31 of the specification.
#[test]
fn only_what_failed_runs_again() {
    let place = graph("a\nb: a\nx: b\ny: b");
    let run = failed(&place);
    let rerun = |include_dependents| Resume { rerun_failed: true, include_dependents, ..Resume::default() };
    assert_eq!(resumed(&place, &run, &rerun(false)).unwrap().1, ["apply b"]);
    let left = stored(&place, &run).summary;
    assert_eq!((left.status, left.totals.succeeded, left.totals.failed), (RunStatus::Failed, 2, 0));
    let run = failed(&place);
    assert_eq!(resumed(&place, &run, &rerun(true)).unwrap().1, ["apply b", "apply x", "apply y"]);
}

/// Scenario S-33 of the specification.
#[test]
fn a_deletion_cannot_resume_an_apply() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let error = go_on(&place, &run, Command::Delete, &Resume::default(), &Fake::default(), &How::default())
        .unwrap_err();
    assert_eq!(error.exit_code(), 10);
    assert_eq!(error.to_string(), format!("run {run} is an apply; delete cannot resume it [ST052]"));
    let store = store(&place);
    assert_eq!(resume::find(&store, ("shop", None), None).unwrap(), run);
    let none = resume::find(&store, ("shop", Some("prod")), None).unwrap_err();
    assert_eq!(none.to_string(), "nothing to resume [ST053]");
}

#[test]
fn a_wrong_clock_takes_no_lock_from_a_live_run() {
    let place = graph("a");
    let clock = clock();
    let store = slipway_stack::record::RunStore::new(&place.path().canonicalize().unwrap(), clock.clone());
    let held = store.lock("shop", None, "ann@ci-7:4242", Takeover::Never).unwrap();
    clock.advance(std::time::Duration::from_secs(3600));
    let refused = store.lock("shop", None, "bob@ci-8:1", Takeover::IfStale).unwrap_err();
    assert_eq!(refused.exit_code(), 13, "{refused}");
    // A file nobody has written for two minutes is a holder that hangs.
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(120);
    let file = fs::File::options().write(true).open(place.path().join(".slipway/stack/locks/shop.-.lock"));
    let file = file.unwrap();
    file.set_modified(long_ago).unwrap();
    let taken = store.lock("shop", None, "bob@ci-8:1", Takeover::IfStale).unwrap();
    assert_eq!(taken.taken_from.as_ref().unwrap().owner, "ann@ci-7:4242");
    drop(held);
}

/// Scenario S-35 of the specification.
#[test]
fn one_writer_at_a_time() {
    let place = graph("a");
    let store = store(&place);
    let take = |owner: &str, takeover| store.lock("shop", None, owner, takeover);
    let mut first = take("ann@ci-7:4242", Takeover::Never).unwrap();
    assert!(first.taken_from.is_none());
    for takeover in [Takeover::Never, Takeover::IfStale] {
        let error = take("bob@ci-8:1", takeover).unwrap_err();
        assert_eq!(error.exit_code(), 13);
        assert!(
            error.to_string().starts_with(
                "stack \"shop\" (profile -) is in use by ann@ci-7:4242 since 2026-11-16T01:02:03Z"
            ),
            "{error}"
        );
    }
    assert!(store.lock("shop", Some("prod"), "bob@ci-8:1", Takeover::Never).is_ok(), "another profile");
    let second = take("bob@ci-8:1", Takeover::Force).unwrap();
    assert_eq!(second.taken_from.as_ref().unwrap().owner, "ann@ci-7:4242");
    drop(second);
    let third = take("eve@x:1", Takeover::Never).unwrap();
    assert!(third.taken_from.is_none(), "given back in order");
    drop(third);
    drop(std::mem::replace(&mut first, take("ann@ci-7:1", Takeover::Never).unwrap()));
    // A holder that was killed leaves its name; the kernel has let go of the lock.
    let path = place.path().join(".slipway/stack/locks/shop.-.lock");
    drop(first);
    fs::write(&path, r#"{"owner":"dead@ci:9","runId":"r","acquiredAt":"2026-11-16T01:00:00Z","heartbeatAt":"2026-11-16T01:00:00Z","ttl":60}"#).unwrap();
    let last = take("bob@ci-8:1", Takeover::Never).unwrap();
    assert_eq!(last.taken_from.as_ref().unwrap().owner, "dead@ci:9");
}

/// Scenario S-37 of the specification.
#[test]
fn the_summary_can_be_rebuilt() {
    let place = graph("a\nb: a\nc: b");
    let run = failed(&place);
    let stored = stored(&place, &run);
    let path = stored.path.join("summary.json");
    let on_disk: Summary = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let rebuilt = serde_json::to_value(stored.plan.summary(&stored.events)).unwrap();
    assert_eq!(serde_json::to_value(on_disk).unwrap(), rebuilt);
}

/// A disk with room for so many bytes.
struct Full(usize, fs::File);

impl Disk for Full {
    fn append(&mut self, lines: &[u8]) -> io::Result<()> {
        use io::Write as _;
        let fits = lines.len().min(self.0);
        self.0 -= fits;
        self.1.write_all(&lines[..fits])?;
        if fits < lines.len() { Err(io::Error::from_raw_os_error(28)) } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Scenario S-39 of the specification.
#[test]
fn a_full_disk_stops_the_run_and_loses_nothing() {
    for room in [0usize, 700, 1500, 2600, 4000] {
        let place = graph("a\nb: a\nc: b\nd: c");
        let spare = place.path().join("spare");
        let disk = Full(room, fs::File::create(&spare).unwrap());
        if room == 0 {
            // Not even the start can be recorded: nothing begins.
            let store = store(&place);
            let mut plan = place.compile().plan;
            let lock = store.lock("shop", None, "t@here:1", Takeover::Never).unwrap();
            let stored = store.create(&mut plan, &RunMeta::default()).unwrap();
            let (fake, events) = (Fake::default(), slipway_event::Events::silent());
            let session = slipway_stack::execute::RunSession {
                store: &store,
                log: store.log_on(&stored, Box::new(disk)),
                stored,
                lock,
                start: slipway_stack::execute::RunStart::Beginning,
                options: How::default().options,
            };
            let work = slipway_stack::execute::run_session(session, &fake, &events, CancellationToken::new());
            let error = crate::support::virtual_time(work).unwrap_err();
            assert!(error.to_string().starts_with("run log unwritable: no space left on device"), "{error}");
            assert!(fake.calls().is_empty());
            continue;
        }
        let fake = Fake::default();
        let (finished, run) = start_on(
            &place,
            place.compile().plan,
            &fake,
            &How::default(),
            Some(Box::new(disk)),
            CancellationToken::new(),
        );
        let written = fs::read(&spare).unwrap();
        if finished.unwritable.is_none() {
            continue;
        }
        assert!(!finished.success, "room {room}");
        // Everything applied was recorded as started before.
        let text = String::from_utf8_lossy(&written).into_owned();
        for call in fake.calls() {
            let name = call.strip_prefix("apply ").unwrap().to_owned();
            let start = text
                .lines()
                .any(|line| line.contains("NODE_RUNNING") && line.contains(&format!("default/{name}\"")));
            assert!(start, "room {room}: {name} ran unrecorded");
        }
        // With room again, the run goes on from what was written.
        fs::write(log(&place, &run), &written).unwrap();
        let (states, _) = resumed(&place, &run, &Resume::default()).unwrap();
        assert_eq!(states, "a=succeeded b=succeeded c=succeeded d=succeeded", "room {room}");
    }
}

#[test]
fn a_plan_changed_by_hand_is_refused() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let path = place.path().join(format!(".slipway/stack/runs/{run}/plan.json"));
    let text = fs::read_to_string(&path).unwrap().replace("\"chart\": \"chart\"", "\"chart\": \"other\"");
    fs::write(&path, text).unwrap();
    let error = resumed(&place, &run, &Resume::default()).unwrap_err();
    let shown = path.canonicalize().unwrap().display().to_string();
    let expected = format!("{shown}: plan.json does not match its planHash [ST056]");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[test]
fn runs_without_an_end_were_interrupted() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let text = fs::read_to_string(log(&place, &run)).unwrap();
    let cut: String = text.split_inclusive('\n').take(3).collect();
    fs::write(log(&place, &run), cut).unwrap();
    let store = store(&place);
    assert_eq!(store.list(1, |_| false)[0].status, RunStatus::Interrupted);
    assert_eq!(store.list(1, |_| true)[0].status, RunStatus::Running);
    fs::write(log(&place, &run), "").unwrap();
    assert_eq!(store.list(1, |_| true)[0].status, RunStatus::Interrupted, "a plan and nothing else");
    assert_eq!(resumed(&place, &run, &Resume::default()).unwrap().0, "a=succeeded b=succeeded");
}

#[test]
fn a_directory_without_a_plan_is_no_run() {
    let place = graph("a");
    let run = failed(&place);
    fs::create_dir_all(place.path().join(".slipway/stack/runs/2026-01-01T00-00-00Z_aaaaaaa")).unwrap();
    let listed = store(&place).list(9, |_| false);
    assert_eq!(listed.iter().map(|listed| listed.run_id.as_str()).collect::<Vec<_>>(), [run.as_str()]);
}

#[test]
fn a_run_moves_with_its_checkout() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    let moved = Place::new(&[]);
    let copied =
        std::process::Command::new("cp").arg("-r").arg(place.path().join(".")).arg(moved.path()).status();
    assert!(copied.unwrap().success());
    assert_eq!(resumed(&moved, &run, &Resume::default()).unwrap().0, "a=succeeded b=succeeded");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Killed after any byte of its log, a run goes on to the same end and applies nothing twice that the
    /// log says succeeded.
    #[test]
    fn from_any_byte(cut in 0usize..10_000) {
        let place = graph("a\nb: a\nc: a\nd: b c");
        let (finished, run) = start(&place, place.compile().plan, &Fake::default(), &How::default());
        prop_assert!(finished.success);
        let whole = fs::read(log(&place, &run)).unwrap();
        let end = cut % whole.len();
        fs::write(log(&place, &run), &whole[..end]).unwrap();
        let done: Vec<String> = String::from_utf8_lossy(&whole[..end])
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n') && line.contains("NODE_SUCCEEDED"))
            .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["nodeId"].as_str().unwrap().rsplit('/').next().unwrap().to_owned())
            .collect();
        let (states, calls) = resumed(&place, &run, &Resume::default()).unwrap();
        if states != "nothing to do" {
            prop_assert_eq!(states, "a=succeeded b=succeeded c=succeeded d=succeeded");
        }
        for name in done {
            prop_assert!(!calls.contains(&format!("apply {name}")), "{} again", name);
        }
    }
}

#[test]
fn compiled_requests_are_plain_values() {
    let place = graph("a");
    let request = Request { root: place.path().join("stack.yaml"), ..Request::default() };
    assert_eq!(
        compile(&request, &slipway_stack::Git::default()).unwrap().plan.nodes.len(),
        1,
        "the file for its directory"
    );
}

#[test]
fn old_runs_are_pruned_but_never_the_last_or_an_open_one() {
    let place = graph("a");
    let mut runs = Vec::new();
    for day in 0..6_u64 {
        let clock = clock();
        clock.advance(std::time::Duration::from_secs(day * 86_400));
        let store = slipway_stack::record::RunStore::new(&place.path().canonicalize().unwrap(), clock);
        let mut plan = place.compile().plan;
        let stored = store.create(&mut plan, &RunMeta::default()).unwrap();
        if day != 1 {
            let lock = store.lock("shop", None, "t@here:1", Takeover::Never).unwrap();
            let session = slipway_stack::execute::RunSession {
                store: &store,
                log: store.log(&stored).unwrap(),
                stored,
                lock,
                start: slipway_stack::execute::RunStart::Beginning,
                options: How::default().options,
            };
            let (fake, events) = (Fake::default(), slipway_event::Events::silent());
            let work = slipway_stack::execute::run_session(session, &fake, &events, CancellationToken::new());
            assert!(crate::support::virtual_time(work).unwrap().success);
        }
        runs.push(plan.run_id);
    }
    let clock = clock();
    clock.advance(std::time::Duration::from_secs(6 * 86_400));
    let store = slipway_stack::record::RunStore::new(&place.path().canonicalize().unwrap(), clock);
    let prune = |keep, days: Option<u64>| {
        let older_than = days.map(|days| std::time::Duration::from_secs(days * 86_400));
        store.prune(&slipway_stack::record::Prune { keep, older_than }, |_| false).unwrap()
    };
    assert!(prune(50, None).is_empty());
    assert_eq!(prune(0, Some(5)), [runs[0].clone()]);
    assert_eq!(prune(3, None), [runs[2].clone()], "the open one stays");
    assert_eq!(prune(0, None), [runs[4].clone(), runs[3].clone()]);
    let left: Vec<String> = store.list(9, |_| false).into_iter().map(|run| run.run_id).collect();
    assert_eq!(left, [runs[5].clone(), runs[1].clone()]);
}

/// Sixty-four kilobytes and not a byte more, for a run whose failures have much to say.
///
/// Scenario S-39 of the specification.
#[test]
fn a_small_disk_fills_up_and_nothing_panics() {
    let lines: String = (0..40).map(|number| format!("r{number}\n")).collect();
    let place = graph(&lines);
    let spare = place.path().join("spare");
    let disk = Full(64 * 1024, fs::File::create(&spare).unwrap());
    let fails: Vec<(String, [Script; 3])> = (0..40)
        .map(|number| {
            (
                format!("r{number}"),
                [Script::Fail(FailureClass::Transport), Script::Fail(FailureClass::Transport), Script::Ok],
            )
        })
        .collect();
    let scripts: Vec<(&str, &[Script])> =
        fails.iter().map(|(name, all)| (name.as_str(), all.as_slice())).collect();
    let fake = Fake::new(&scripts);
    let how = How { retry: 3, concurrency: 4, ..How::default() };
    let (finished, run) =
        start_on(&place, place.compile().plan, &fake, &how, Some(Box::new(disk)), CancellationToken::new());
    assert_eq!(finished.unwritable.as_deref(), Some("no space left on device"));
    assert!(!finished.success && fake.calls().len() < 120, "it stopped");
    let written = fs::read(&spare).unwrap();
    assert_eq!(written.len(), 64 * 1024);
    fs::write(log(&place, &run), &written).unwrap();
    let stored = stored(&place, &run);
    assert!(stored.events.len() > 50, "what was written before is intact");
    let (states, _) = resumed(&place, &run, &Resume::default()).unwrap();
    assert_eq!(states.matches("=succeeded").count(), 40, "{states}");
}

/// Writes a file of a run.
fn spoil(place: &Place, run: &str, name: &str, text: &str) -> String {
    let path = place.path().canonicalize().unwrap().join(format!(".slipway/stack/runs/{run}/{name}"));
    fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn a_damaged_plan_says_what_is_damaged_and_what_to_do() {
    let place = graph("a\nb: a");
    let older = failed(&place);
    let run = failed(&place);
    let store = store(&place);
    let newest = store.newest().unwrap();
    let (older, run) = if newest == run { (older, run) } else { (run, older) };
    for (text, what) in [
        ("", ":1: the plan of run RUN is damaged: it ends too early [ST056]"),
        ("{\n  \"apiVersion\": ", ":2:16: the plan of run RUN is damaged: it ends too early [ST056]"),
        ("\0\0\0", ":1:1: the plan of run RUN is damaged: this is not JSON [ST056]"),
        (
            "{}",
            ":1:2: the plan of run RUN is damaged: a field is missing or is not what it should be [ST056]",
        ),
    ] {
        let path = spoil(&place, &run, "plan.json", text);
        // Asked for or found: an older run is not taken in its place.
        let named = resumed(&place, &run, &Resume::default()).unwrap_err();
        let found = resume::find(&store, ("shop", None), None).unwrap_err();
        assert_eq!(named.to_string(), found.to_string());
        let expected = format!("{path}{}", what.replace("RUN", &run));
        assert!(named.to_string().starts_with(&expected), "{named}\n{expected}");
        let Error::Invalid(problems) = named else { panic!("{named}") };
        assert!(problems.iter().next().unwrap().hint.as_ref().unwrap().contains("start a new run"));
        assert_eq!(store.damaged().len(), 1);
    }
    assert_eq!(resumed(&place, &older, &Resume::default()).unwrap().0, "a=succeeded b=succeeded");
}

#[test]
fn damaged_snapshots_do_not_matter() {
    let place = graph("a\nb: a");
    let run = failed(&place);
    for name in ["summary.json", "meta.json"] {
        spoil(&place, &run, name, "{\0");
    }
    assert_eq!(resumed(&place, &run, &Resume::default()).unwrap().0, "a=succeeded b=succeeded");
    let text = fs::read(place.path().join(format!(".slipway/stack/runs/{run}/summary.json"))).unwrap();
    let summary: Summary = serde_json::from_slice(&text).unwrap();
    assert_eq!(summary.status, RunStatus::Succeeded, "it is written anew");
}

#[test]
fn the_most_recent_run_is_resumed_or_none() {
    let place = graph("a\nb: a");
    let first = failed(&place);
    let store = store(&place);
    assert_eq!(resume::find(&store, ("shop", None), None).unwrap(), first);
    // Of runs of one second the one planned last is the newest.
    let (finished, second) = start(&place, place.compile().plan, &Fake::default(), &How::default());
    assert!(finished.success);
    let error = resume::find(&store, ("shop", None), None).unwrap_err();
    let Error::Invalid(problems) = error else { panic!("{error}") };
    let problem = problems.iter().next().unwrap();
    assert_eq!(problem.message, "nothing to resume");
    let hint = problem.hint.as_ref().unwrap();
    assert!(hint.contains(&second) && hint.contains(&format!("--run-id {first}")), "{hint}");
}

#[test]
fn a_run_that_is_told_twice_to_stop_records_its_end() {
    let place = graph("a\nb: a");
    let fake = Fake::new(&[("a", &[Script::Hang])]);
    let how = How::default();
    how.options.abort.trigger("SIGINT");
    let (finished, run) = start(&place, place.compile().plan, &fake, &how);
    assert!(!finished.success && finished.canceled);
    let read = stored(&place, &run);
    assert_eq!(story(&read.events).last().unwrap(), "RUN_INTERRUPTED");
    assert_eq!(read.events.last().unwrap().fields["signal"], "SIGINT");
    assert_eq!(read.summary.status, RunStatus::Interrupted);
    assert_eq!(resumed(&place, &run, &Resume::default()).unwrap().0, "a=succeeded b=succeeded");
}

#[test]
fn runs_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = graph("a\nb: a");
    // Somebody made the directories before, open to everybody.
    let runs = place.path().join(".slipway/stack/runs");
    fs::create_dir_all(&runs).unwrap();
    for directory in [runs.as_path(), runs.parent().unwrap()] {
        fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let run = failed(&place);
    resumed(&place, &run, &Resume::default()).unwrap();
    let mut open = vec![place.path().join(".slipway/stack")];
    let mut seen = 0;
    while let Some(path) = open.pop() {
        let about = fs::metadata(&path).unwrap();
        let expected = if about.is_dir() { 0o700 } else { 0o600 };
        assert_eq!(about.permissions().mode() & 0o777, expected, "{}", path.display());
        seen += 1;
        if about.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
    }
    assert!(seen >= 10, "{seen}");
}
