//! Programs that end, hang, flood and leave others behind.
#![cfg(unix)]

use std::time::Duration;

use slipway_process::{ProcessGroup, Program, ProgramError, ProgramLimits};
use tokio_util::sync::CancellationToken;

fn shell(script: &str) -> Program {
    Program::new("sh").pass_variables(&["PATH"]).args(["-c", script])
}

fn within(time: Duration) -> ProgramLimits {
    ProgramLimits { time: Some(time), ..ProgramLimits::default() }
}

#[tokio::test]
async fn a_program_gets_its_input_and_gives_output_notes_and_status() {
    let output = shell("cat; echo note >&2; exit 3").input("text").run().await.unwrap();
    assert_eq!(output.stdout, b"text");
    assert_eq!(output.stderr, b"note\n");
    assert_eq!(output.status.code(), Some(3));
}

#[tokio::test]
async fn a_program_that_reads_no_input_is_not_waited_for() {
    let output = shell("exec 0<&-; echo done").input(vec![b'x'; 4 << 20]).run().await.unwrap();
    assert_eq!(output.stdout, b"done\n");
}

#[tokio::test]
async fn only_named_variables_are_handed_on() {
    let output = shell("env").variable("OWN", "1").run().await.unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"OWN") && names.contains(&"PATH"));
    assert!(!names.contains(&"HOME") && !names.contains(&"CARGO_MANIFEST_DIR"), "{names:?}");
    let all = Program::new("env").pass_environment().run().await.unwrap();
    assert!(String::from_utf8_lossy(&all.stdout).contains("CARGO_MANIFEST_DIR="));
}

#[tokio::test]
async fn a_program_that_hangs_is_ended() {
    let limit = Duration::from_millis(20);
    let error = shell("exec sleep 600").limits(within(limit)).run().await.unwrap_err();
    assert!(matches!(error, ProgramError::TimedOut { limit: told, .. } if told == limit), "{error}");
}

#[tokio::test]
async fn a_program_ends_with_everything_it_started() {
    let place = tempfile::tempdir().unwrap();
    let pid = place.path().join("pid");
    let script = format!("sleep 600 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
    let stop = CancellationToken::new();
    let running = tokio::spawn(shell(&script).stop(stop.clone()).run());
    until(|| pid.exists()).await;
    stop.cancel();
    assert!(matches!(running.await.unwrap(), Err(ProgramError::Interrupted { .. })));
    let stat = format!("/proc/{}/stat", std::fs::read_to_string(pid).unwrap().trim());
    // Gone, or dead and not yet collected.
    until(|| std::fs::read_to_string(&stat).map_or(true, |text| text.contains(") Z"))).await;
}

/// Waits for something that happens soon.
async fn until(happened: impl Fn() -> bool) {
    let wait = async {
        while !happened() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(300), wait).await.expect("happens in time");
}

#[tokio::test]
async fn cancellation_ends_a_program() {
    let stop = CancellationToken::new();
    let running = tokio::spawn(shell("exec sleep 600").stop(stop.clone()).run());
    tokio::task::yield_now().await;
    stop.cancel();
    assert!(matches!(running.await.unwrap(), Err(ProgramError::Interrupted { .. })));
}

#[tokio::test]
async fn a_program_without_end_is_stopped() {
    let limits = ProgramLimits { output: 1000, ..ProgramLimits::default() };
    let error = Program::new("yes").pass_variables(&["PATH"]).limits(limits).run().await.unwrap_err();
    assert_eq!(error.to_string(), "yes wrote more than 1000 bytes");
    let limits = ProgramLimits { notes: 10, ..ProgramLimits::default() };
    let output = shell("yes | head -c 100000 >&2").limits(limits).run().await.unwrap();
    assert_eq!(output.stderr.len(), 10);
}

#[tokio::test]
async fn a_program_that_is_still_open_to_write_is_tried_again() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("program");
    std::fs::write(&path, "#!/bin/sh\necho done\n").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let writer = std::fs::File::options().append(true).open(&path).unwrap();
    let closed = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(50));
        drop(writer);
    });
    let output = Program::new(&path).run().await.unwrap();
    closed.join().unwrap();
    assert_eq!(output.stdout, b"done\n");
}

#[tokio::test]
async fn a_missing_program_is_told_from_a_failing_one() {
    let error = Program::new("/no/such/program").arg("secret").run().await.unwrap_err();
    assert!(error.is_missing_program());
    assert_eq!(error.to_string(), "cannot run /no/such/program");
    let shown = format!("{:?}", Program::new("x").arg("token").variable("A", "token"));
    assert!(!shown.contains("token"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn blocking_code_inside_a_runtime_can_run_programs() {
    let output = shell("echo here").group(ProcessGroup::Inherited).run_blocking().unwrap();
    assert_eq!(output.stdout, b"here\n");
}

#[tokio::test]
async fn a_session_answers_line_by_line() {
    let script = "while read -r line; do echo note >&2; echo \"$$ $line\"; done";
    let mut session = shell(script).start().unwrap();
    let first = String::from_utf8(session.ask(b"one").await.unwrap()).unwrap();
    let second = String::from_utf8(session.ask(b"two").await.unwrap()).unwrap();
    let (pid, word) = first.split_once(' ').unwrap();
    assert_eq!(word, "one");
    assert_eq!(second, format!("{pid} two"), "one process answers both");
    until(|| !session.take_notes().is_empty()).await;
    drop(session);
    let stat = format!("/proc/{pid}/stat");
    until(|| std::fs::read_to_string(&stat).map_or(true, |state| state.contains(") Z "))).await;
}

#[tokio::test]
async fn a_session_ends_by_silence_floods_and_the_end_of_its_program() {
    let limit = Duration::from_millis(20);
    let mut silent = shell("exec sleep 600").limits(within(limit)).start().unwrap();
    assert!(matches!(silent.ask(b"x").await, Err(ProgramError::TimedOut { .. })));
    let few = ProgramLimits { output: 10, ..ProgramLimits::default() };
    let mut flooding = shell("read x; head -c 1000 /dev/zero; sleep 600").limits(few).start().unwrap();
    assert!(matches!(flooding.ask(b"x").await, Err(ProgramError::TooMuchOutput { limit: 10, .. })));
    let mut ending = shell("read x; printf half").start().unwrap();
    assert!(matches!(ending.ask(b"x").await, Err(ProgramError::Ended { .. })));
    let stop = CancellationToken::new();
    stop.cancel();
    let mut stopped = shell("cat").stop(stop).start().unwrap();
    assert!(matches!(stopped.ask(b"x").await, Err(ProgramError::Interrupted { .. })));
}
