//! Programs as providers: the protocol, and what a program may not do.

#![cfg(unix)]

use std::os::unix::fs::PermissionsExt as _;

use crate::support::run;

/// A configuration whose provider runs a shell script.
fn script(body: &str, timeout: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("plugin");
    std::fs::write(&path, format!("#!/bin/sh\n{body}")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let config = format!(
        "secrets: {{providers: {{x: {{type: exec, command: ['{}', 'two words'], env: {{EXTRA: e}}, timeout: {timeout}}}}}}}",
        path.display()
    );
    (folder, config)
}

const PATH: &[(&str, &str)] = &[("PATH", "/usr/local/bin:/usr/bin:/bin")];

#[tokio::test]
async fn a_program_answers_in_protocol_v1() {
    let body = r#"read request
case "$request" in *'"v":1,"op":"fetch"'*'"path":"app/db"'*) ;; *) exit 3;; esac
[ "$SLIPWAY_SECRET_PLUGIN$EXTRA$1" = "1etwo words" ] || exit 4
echo '{"v":1,"items":[{"id":"0","ok":true,"data":{"user":"app","password":"plugin-canary"},"version":"7"}]}'"#;
    let (_folder, config) = script(body, "60s");
    let run = run(&config, PATH);
    assert_eq!(run.text("secret://x/app/db#password").await, "plugin-canary");
    assert_eq!(run.text("secret://x/app/db#user").await, "app");
    let lines = run.audit.0.lock().unwrap();
    assert_eq!(lines[0].version.as_deref(), Some("7"));
}

#[tokio::test]
async fn failures_of_programs_are_told_apart() {
    let cases = [
        (
            "printf '%s' '{\"v\":1,\"items\":[{\"id\":\"0\",\"ok\":false,\"code\":\"NOT_FOUND\",\"message\":\"no such thing\\nsecond\"}]}'",
            "not found: no such thing",
        ),
        ("echo '{\"v\":1,\"items\":[{\"id\":\"0\",\"ok\":false,\"code\":\"FORBIDDEN\"}]}'", "forbidden"),
        ("echo 'not json canary-text'", "no JSON of protocol v1"),
        ("echo '{\"v\":2,\"items\":[]}'", "speaks protocol v2"),
        ("echo '{\"v\":1,\"items\":[]}'", "no answer for this path"),
        ("echo '{\"v\":1,\"items\":[{\"id\":\"0\",\"ok\":true}]}'", "no data"),
        ("echo canary-text >&2; exit 9", "failed: exit status: 9"),
        ("head -c 9000000 /dev/zero", "wrote more than"),
    ];
    for (body, expected) in cases {
        let (_folder, config) = script(body, "60s");
        let text = run(&config, PATH).failure("secret://x/a").await;
        assert!(text.contains(expected), "{body}: {text}");
        assert!(!text.contains("canary-text"), "output is never repeated: {text}");
        assert!(text.contains("hint:") || expected.contains("no answer"), "{text}");
    }
}

#[tokio::test]
async fn a_program_that_hangs_is_ended_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("child");
    let (_script, config) = script(&format!("sleep 600 &\necho $! > {}\nwait", pid.display()), "5s");
    let text = run(&config, PATH).failure("secret://x/a").await;
    assert!(text.contains("timed out") && text.contains("timeout:"), "{text}");
    let child: i32 = std::fs::read_to_string(&pid).unwrap().trim().parse().unwrap();
    // It was signalled; the system takes a moment to end it, and init to reap it.
    let is_gone = || {
        let state = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        state.is_empty() || state.contains(") Z ")
    };
    let ended = async {
        while !is_gone() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(300), ended).await.expect("the child is ended");
}

#[tokio::test]
async fn programs_others_can_change_are_not_run() {
    let (folder, config) = script("exit 0", "1s");
    let path = folder.path().join("plugin");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777)).unwrap();
    let text = run(&config, PATH).failure("secret://x/a").await;
    assert!(text.contains("can be changed by others"), "{text}");
    for (command, expected) in [("no-such-program-here", "is not on PATH"), ("./plugin", "relative path")] {
        let config = format!("secrets: {{providers: {{x: {{type: exec, command: [{command}]}}}}}}");
        let text = run(&config, PATH).failure("secret://x/a").await;
        assert!(text.contains(expected), "{text}");
    }
}

#[tokio::test]
async fn credentials_can_come_from_a_program_or_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.yaml");
    std::fs::write(&file, "a: value-from-file\n").unwrap();
    // A Vault that is not there: the credential is read first, and its failure is what is reported.
    for (token, expected) in [
        ("'cmd:[\"false\"]'".to_owned(), "failed: exit status: 1"),
        ("env:NOT_SET".to_owned(), "the variable `NOT_SET`"),
        (format!("file:{}/none", folder.path().display()), "cannot read"),
    ] {
        let config = format!(
            "secrets: {{providers: {{v: {{type: vault, address: 'http://127.0.0.1:1', token: {token}}}}}}}"
        );
        let text = run(&config, PATH).failure("secret://v/a#k").await;
        assert!(text.contains(expected), "{token}: {text}");
    }
}

/// Answers every line with its own process id and the number of lines it has read.
const COUNTING: &str = r#"n=0
while read -r request; do
  n=$((n+1))
  case "$request" in *'"op":"list"'*) echo '{"v":1,"items":[{"ok":true,"name":"a"}]}'; continue;; esac
  case "$request" in *'"path":"die"'*) exit 3;; esac
  id=$(printf '%s' "$request" | grep -o '"id":"[0-9]*"' | head -1)
  echo "note-of-plugin $$" >&2
  echo "{\"v\":1,\"items\":[{$id,\"ok\":true,\"data\":{\"pid\":\"process-$$\",\"count\":\"answer-number-$n\"}}]}"
done"#;

#[tokio::test]
async fn a_persistent_program_is_started_once_and_ended_with_the_run() {
    let (_folder, config) = script(COUNTING, "60s");
    let run = run(&config.replace("timeout:", "persistent: true, timeout:"), PATH);
    let pid = run.text("secret://x/a#pid").await;
    assert_eq!(run.text("secret://x/b#pid").await, pid, "one process answers all requests");
    assert_eq!(run.text("secret://x/c#count").await, "answer-number-3");
    let name = slipway_secrets::ProviderName::parse("x").unwrap();
    assert_eq!(run.resolver.list(&name, "").await.unwrap().len(), 1);
    let text = run.failure("secret://x/die#pid").await;
    assert!(text.contains("ended without an answer") && text.contains("hint:"), "{text}");
    let next = run.text("secret://x/d#pid").await;
    assert_ne!(next, pid, "a program that failed is replaced by a new one");
    run.resolver.finish().await;
    let stat = format!("/proc/{}/stat", next.strip_prefix("process-").unwrap());
    let ended = async {
        while std::fs::read_to_string(&stat).is_ok_and(|state| !state.contains(") Z ")) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(300), ended).await.expect("it ends with the run");
}
