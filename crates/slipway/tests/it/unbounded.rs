//! Input without end: devices, pipes nobody writes into, directories. Each is refused with its name and a hint.

use std::process::{Command, Stdio};

use crate::support::{Place, Ran, wait_for_end};

fn furnished() -> Place {
    let place = Place::new();
    place.write("web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n");
    place.write("web/templates/a.yaml", "a: {{ .Values.a }}\n");
    place.write(".werf_secret_key", "c".repeat(32));
    for name in ["stacked/stack.yaml", "k/kustomization.yaml", "linked/values.yaml"] {
        let link = place.path().join(name);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink("/dev/zero", link).unwrap();
    }
    place.write("linked/Chart.yaml", "apiVersion: v2\nname: linked\nversion: 1.0.0\n");
    place
}

/// Runs a command that must end by itself.
fn run(place: &Place, words: &[&str], kubeconfig: Option<&str>) -> Ran {
    let mut command = place.command(words);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.envs(kubeconfig.map(|file| ("KUBECONFIG", file)));
    let mut child = command.spawn().unwrap();
    wait_for_end(&mut child, &format!("{words:?}"));
    Ran::from(child.wait_with_output().unwrap())
}

/// Commands that read a file named `INPUT`, as an argument or as the kubeconfig.
const COMMANDS: [&str; 12] = [
    "graph INPUT",
    "graph g.yaml --run --journal INPUT",
    "run validate -f INPUT",
    "run validate -f INPUT --var-file INPUT",
    "--config INPUT config",
    "render web -f INPUT",
    "render web --set-file a=INPUT",
    "render web --secret-values INPUT",
    "chart secret values decrypt INPUT",
    "repo index . --merge INPUT",
    "chart verify web-1.0.0.tgz --keyring INPUT",
    "apply --plan INPUT --sandbox",
];

#[test]
fn devices_without_end_and_directories_are_refused() {
    let place = furnished();
    place.write("g.yaml", "nodes:\n  a: {run: 'true'}\n");
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = crate::sandbox::Down(&place);
    for input in ["/dev/zero", "web"] {
        for line in COMMANDS {
            let line = line.replace("INPUT", input);
            let words: Vec<&str> = line.split(' ').collect();
            let ran = run(&place, &words, None);
            assert!(
                !matches!(ran.code, Some(0 | 101) | None),
                "{line}: {:?} {}{}",
                ran.code,
                ran.out,
                ran.err
            );
            assert!(!ran.err.trim().is_empty(), "{line}");
        }
        let ran = run(&place, &["list"], Some(input));
        assert!(ran.code != Some(0) && ran.err.contains("cannot read the kubeconfig"), "{}", ran.err);
    }
    for line in ["stack plan --root stacked", "kustomize build k", "render linked", "lint linked"] {
        let words: Vec<&str> = line.split(' ').collect();
        let ran = run(&place, &words, None);
        assert!(!matches!(ran.code, Some(0 | 101) | None), "{line}: {}{}", ran.out, ran.err);
    }
    let ran = run(&place, &["graph", "/dev/zero"], None);
    assert!(ran.err.contains("larger than 64 MiB") && ran.err.contains("hint:"), "{}", ran.err);
}

#[test]
fn a_pipe_nobody_writes_into_is_refused() {
    let place = furnished();
    assert!(Command::new("mkfifo").arg(place.path().join("pipe")).status().unwrap().success());
    let ran = run(&place, &["graph", "pipe"], None);
    assert!(ran.err.contains("nobody writes into this pipe") && ran.err.contains("hint:"), "{}", ran.err);
    let ran = run(&place, &["list"], Some("pipe"));
    assert!(ran.err.contains("nobody writes into this pipe"), "{}", ran.err);
}

#[test]
fn a_pipe_with_a_writer_is_read() {
    let place = furnished();
    let pipe = place.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let writer = std::thread::spawn(move || std::fs::write(pipe, "a: from-a-pipe\n"));
    let ran = run(&place, &["render", "web", "-f", "pipe"], None);
    writer.join().unwrap().unwrap();
    assert!(ran.ok().contains("a: from-a-pipe"));
}
