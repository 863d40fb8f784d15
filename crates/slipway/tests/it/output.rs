//! Output that cannot be written: full disks, readers that left, readers that stopped reading.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read, Write, pipe};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, Stdio};

use crate::sandbox::Down;
use crate::support::{Place, eventually, wait_for_end};

/// Where a stream of a command goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Read,
    FullDisk,
    ReaderLeft,
}

impl Stream {
    fn open(self) -> Stdio {
        match self {
            Self::Read => Stdio::null(),
            Self::FullDisk => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
            Self::ReaderLeft => pipe().unwrap().1.into(),
        }
    }
}

const ALL: [Stream; 3] = [Stream::Read, Stream::FullDisk, Stream::ReaderLeft];

/// A pipe that takes nothing more: its reader does not read.
fn blocked() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = pipe().unwrap();
    let descriptor = std::os::fd::AsFd::as_fd(&writer);
    let flags = rustix::fs::fcntl_getfl(descriptor).unwrap();
    rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while writer.write(&[b'.'; 4096]).is_ok() {}
    while writer.write(b".").is_ok() {}
    rustix::fs::fcntl_setfl(std::os::fd::AsFd::as_fd(&writer), flags).unwrap();
    (reader, writer)
}

fn signal(name: &str, child: &Child) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
}

fn furnished() -> Place {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    place.write(
        "web/templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n{{- if .Values.endless }}\n---\n\
         apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  progressDeadlineSeconds: 2147483647\n  \
         selector: {matchLabels: {app: web}}\n  template:\n    metadata:\n      labels: {app: web}\n      \
         annotations: {sim/fail: unready}\n    \
         spec: {containers: [{name: web, image: \"nginx:1\"}]}\n{{- end }}\n",
    );
    place.write("web/values.yaml", "endless: false\n");
    place.write("g.yaml", "nodes:\n  a: {run: 'echo hi'}\n  b: {needs: [a]}\n");
    place.write("bad.yaml", "nodes: [\n");
    place.write("k/kustomization.yaml", "resources: [cm.yaml]\n");
    place.write("k/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n");
    place
}

#[test]
fn commands_end_by_their_result_wherever_their_output_goes() {
    let place = furnished();
    // Commands, how they end, and whether they write to standard output.
    for (words, code, prints) in [
        (&["--help"][..], 0, true),
        (&["--version"], 0, true),
        (&["apply", "--help"], 0, true),
        (&["nonsense"], 64, false),
        (&["completions", "bash"], 0, true),
        (&["config"], 0, true),
        (&["config", "-o", "json"], 0, true),
        (&["render", "web"], 0, true),
        (&["render", "nowhere"], 10, false),
        (&["lint", "web"], 0, true),
        (&["chart", "show", "all", "web"], 0, true),
        (&["kustomize", "build", "k"], 0, true),
        (&["graph", "g.yaml"], 0, true),
        (&["graph", "g.yaml", "--run"], 0, false),
        (&["graph", "g.yaml", "--run", "--log-format", "json"], 0, false),
        (&["graph", "g.yaml", "--run", "-vvv"], 0, false),
    ] {
        for stdout in ALL {
            for stderr in ALL {
                let mut child = place
                    .command(words)
                    .stdin(Stdio::null())
                    .stdout(stdout.open())
                    .stderr(stderr.open())
                    .spawn()
                    .unwrap();
                let expected = if prints && stdout == Stream::FullDisk { 1 } else { code };
                let what = format!("{words:?} {stdout:?} {stderr:?}");
                let status = wait_for_end(&mut child, &what);
                assert_eq!(status.code(), Some(expected), "{what}: {status}");
            }
        }
    }
}

#[test]
fn a_full_disk_is_said_on_standard_error() {
    let place = furnished();
    let output = place.command(&["render", "web"]).stdout(Stream::FullDisk.open()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(said.matches("cannot write to standard output").count(), 1, "{said}");
}

#[test]
fn releases_are_recorded_wherever_the_output_goes() {
    let place = furnished();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    for (number, (stdout, stderr, code)) in [
        (Stream::Read, Stream::FullDisk, 0),
        (Stream::Read, Stream::ReaderLeft, 0),
        (Stream::FullDisk, Stream::FullDisk, 1),
        (Stream::ReaderLeft, Stream::ReaderLeft, 0),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("web{number}");
        let words = ["apply", &name, "web", "--sandbox", "-n", &name];
        let mut child = place.command(&words).stdout(stdout.open()).stderr(stderr.open()).spawn().unwrap();
        let ended = wait_for_end(&mut child, &name);
        assert_eq!(ended.code(), Some(code), "{stdout:?} {stderr:?}");
        let status = place.run(&["status", &name, "--sandbox", "-n", &name, "-o", "json"]).ok();
        assert!(status.contains("\"deployed\""), "{stdout:?} {stderr:?}: {status}");
    }
}

/// Whether hangups mean nothing to this process, and so to what it starts: under `nohup`, say.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

/// Starts an apply that does not end by itself and whose output nobody reads, signals it once it has begun, and checks
/// that the last signal ends it with this code and a record.
fn stop_blocked_run(place: &Place, mut command: Command, signals: &[&str], code: i32) {
    let space = signals.join("-").to_lowercase();
    let what = format!("apply under {signals:?}");
    let (mut out_reader, out) = blocked();
    let (_err_reader, err) = blocked();
    command.args(["apply", "web", "web", "--sandbox", "-n", &space, "--set", "endless=true", "-vvv"]);
    let mut child = command.stdout(out).stderr(err).spawn().unwrap();
    // It holds the ends of the pipes that are written to.
    drop(command);
    let status = || place.run(&["status", "web", "--sandbox", "-n", &space, "-o", "json"]);
    eventually(&format!("{what} is begun"), || status().out.contains("\"pending-install\""));
    for name in signals {
        signal(name, &child);
    }
    let ended = wait_for_end(&mut child, &what);
    assert_eq!((ended.code(), ended.signal()), (Some(code), None), "{what}");
    assert!(status().ok().contains("\"failed\""), "{what}");
    let mut rest = Vec::new();
    out_reader.read_to_end(&mut rest).unwrap();
    assert!(rest.iter().all(|byte| *byte == b'.'), "nothing got through");
}

#[test]
fn runs_whose_reader_stopped_are_cancelled_and_recorded() {
    let place = furnished();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    stop_blocked_run(&place, place.command(&[]), &["TERM"], 143);
    stop_blocked_run(&place, place.command(&[]), &["INT"], 130);
    if !ignores_hangups() {
        stop_blocked_run(&place, place.command(&[]), &["HUP"], 143);
    }
}

/// As under `nohup`: the run goes on until somebody means it.
#[test]
fn a_hangup_that_is_ignored_stops_no_run() {
    let place = furnished();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    let mut deaf = Command::new("sh");
    deaf.args(["-c", "trap '' HUP; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_slipway")]);
    deaf.current_dir(place.path()).env_clear().env("HOME", place.path());
    deaf.env("PATH", std::env::var_os("PATH").unwrap_or_default());
    // Were the hangup heard, the interrupt would be the second signal and leave no record.
    stop_blocked_run(&place, deaf, &["HUP", "INT"], 130);
}

#[test]
fn a_reader_that_comes_back_gets_everything() {
    let place = furnished();
    let expected = place.run(&["chart", "show", "all", "web"]).ok();
    let (mut reader, writer) = blocked();
    let mut child = place.command(&["chart", "show", "all", "web"]).stdout(writer).spawn().unwrap();
    let mut all = String::new();
    reader.read_to_string(&mut all).unwrap();
    assert_eq!(wait_for_end(&mut child, "chart show").code(), Some(0));
    assert_eq!(all.trim_start_matches('.'), expected);
}

#[test]
fn a_file_takes_both_streams_in_order() {
    let place = furnished();
    let path = place.path().join("both");
    let file = File::create(&path).unwrap();
    let mut child =
        place.command(&["lint", "nowhere"]).stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
    assert_eq!(wait_for_end(&mut child, "lint").code(), Some(10));
    let text = std::fs::read_to_string(path).unwrap();
    let result = text.find("==> Linting").unwrap();
    assert!(result < text.find("error:").unwrap(), "{text}");
}
