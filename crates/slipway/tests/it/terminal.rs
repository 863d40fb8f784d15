//! Texts of others on a terminal: their escapes are shown, never obeyed.

use std::io::Read;
use std::process::Stdio;

use crate::sandbox::Down;
use crate::screen::open_terminal;
use crate::support::Place;

/// Renames the window and asks the terminal for an answer.
const ATTACK: &str = "\u{1b}]0;pwned\u{7}\u{1b}[6n";
const SHOWN: &str = "\\x1b]0;pwned\\x07\\x1b[6n";

/// Runs a command on a terminal of its own; gives everything the terminal got.
fn on_terminal(place: &Place, words: &[&str]) -> String {
    let (mut master, terminal) = open_terminal();
    let mut command = place.command(words);
    command.env("TERM", "xterm").stdin(Stdio::null());
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
    let mut child = command.spawn().unwrap();
    // The command holds the other end; only then does reading end with it.
    drop(command);
    let mut got = Vec::new();
    let mut chunk = [0; 4096];
    // Linux ends a terminal whose last user left with an error.
    while let Ok(count @ 1..) = master.read(&mut chunk) {
        got.extend_from_slice(&chunk[..count]);
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&got).into_owned()
}

fn furnished() -> Place {
    let place = Place::new();
    let quoted = "\\e]0;pwned\\a\\e[6n";
    for chart in ["web", "failing", "refused"] {
        place.write(
            &format!("{chart}/Chart.yaml"),
            format!("apiVersion: v2\nname: {chart}\nversion: 1.0.0\n"),
        );
    }
    place.write("failing/templates/all.yaml", format!("{{{{ fail \"no: {ATTACK}\" }}}}\n"));
    place.write(
        "refused/templates/all.yaml",
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: refused\n  \
             annotations: {{sim/reject: \"{quoted}\"}}\n"
        ),
    );
    place.write("web/templates/NOTES.txt", format!("notes: {ATTACK}\n"));
    place.write(
        "web/templates/all.yaml",
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: web}}\ndata: {{text: \"{quoted}\"}}\n---\n\
             apiVersion: apps/v1\nkind: Deployment\nmetadata: {{name: web}}\nspec:\n  \
             selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata:\n      labels: {{app: web}}\n      \
             annotations: {{sim/logs: \"log {quoted}\"}}\n    \
             spec: {{containers: [{{name: web, image: \"nginx:1\"}}]}}\n"
        ),
    );
    place.write("raw/Chart.yaml", "apiVersion: v2\nname: raw\nversion: 1.0.0\n");
    place.write("raw/README.md", format!("read {ATTACK}\n"));
    place.write("g.yaml", format!("nodes:\n  a: {{run: \"printf '{}'\"}}\n", quoted.replace('\\', "\\\\")));
    place
}

#[test]
fn escapes_of_others_are_shown_on_a_terminal() {
    let place = furnished();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    for words in [
        &["render", "failing"][..],
        &["chart", "show", "readme", "raw"],
        &["apply", "refused", "refused", "--sandbox"],
        &["apply", "web", "web", "--sandbox"],
        &["get", "notes", "web", "--sandbox"],
        &["logs", "web", "--sandbox"],
        &["graph", "g.yaml", "--run"],
        &["nonsense-\u{1b}]0;pwned\u{7}\u{1b}[6n"],
    ] {
        let got = on_terminal(&place, words);
        assert!(!got.contains("\u{1b}]0") && !got.contains('\u{7}'), "{words:?}: {got:?}");
        assert!(!got.contains("\u{1b}[6n"), "{words:?}: {got:?}");
        assert!(got.contains("pwned"), "{words:?}: {got:?}");
    }
    let notes = on_terminal(&place, &["get", "notes", "web", "--sandbox"]);
    assert!(notes.contains(SHOWN), "{notes:?}");
    let colored = on_terminal(&place, &["render", "failing"]);
    assert!(colored.contains("\u{1b}[31m"), "our own colours pass: {colored:?}");
}

#[test]
fn data_in_a_pipe_is_left_as_it_is() {
    let place = furnished();
    assert!(place.run(&["chart", "show", "readme", "raw"]).ok().contains(ATTACK));
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    place.run(&["apply", "web", "web", "--sandbox"]).ok();
    let lines = place.run(&["logs", "web", "--sandbox", "-o", "json"]).ok();
    let line: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert!(lines.contains("\\u001b]0;pwned") && line.to_string().contains("pwned"), "{lines}");
}
