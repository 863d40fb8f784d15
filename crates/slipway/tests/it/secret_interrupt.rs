//! Ctrl-C while secrets are fetched: the command ends soon, nothing is written, and the backend gets back what it lent.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::sandbox::Down;
use crate::secret_sources::furnished;

/// A limit no test should come near.
const LONG: Duration = Duration::from_secs(300);

/// A Vault that lends one password and never answers for the other; it tells each path it is asked for.
fn lending_vault() -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (asked, paths) = channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let asked = asked.clone();
            std::thread::spawn(move || {
                let mut request = [0; 8192];
                // Requests here are small and come whole.
                while let Ok(count @ 1..) = stream.read(&mut request) {
                    let text = String::from_utf8_lossy(&request[..count]).into_owned();
                    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
                    let body = match path.as_str() {
                        "/v1/auth/approle/login" => {
                            r#"{"auth":{"client_token":"issued-token","lease_duration":600}}"#
                        }
                        "/v1/database/creds/quick" => {
                            r#"{"lease_id":"database/creds/quick/1","data":{"password":"lent-password-value"}}"#
                        }
                        _ => "{}",
                    };
                    let is_slow = path.ends_with("slow");
                    let _ = asked.send(path);
                    if is_slow {
                        std::thread::sleep(LONG * 2);
                    }
                    let length = body.len();
                    let _ = write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
                }
            });
        }
    });
    (address, paths)
}

/// Waits for the end of a process, at most for a while.
fn wait(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < LONG, "it does not end");
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = child.wait_with_output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_stopped_apply_gives_back_what_it_was_lent() {
    let place = furnished();
    let _down = Down(&place);
    for (line, signal, code) in [
        (
            "apply held chart -f lent.yaml --sandbox -n shop --secret-config vault.yaml",
            rustix::process::Signal::INT,
            130,
        ),
        (
            "plan held chart -f lent.yaml --sandbox -n shop --check-secrets --secret-config vault.yaml",
            rustix::process::Signal::TERM,
            143,
        ),
        (
            "secrets test secret://v/read:database/creds/quick#password secret://v/read:database/creds/slow#password --secret-config vault.yaml",
            rustix::process::Signal::INT,
            130,
        ),
    ] {
        let (address, paths) = lending_vault();
        place.write(
            "vault.yaml",
            format!(
                "limits: {{concurrency: 1, timeout: 50s}}\nproviders: {{v: {{type: vault, address: 'http://{address}', authMethod: approle, roleId: 'env:PATH'}}}}\n"
            ),
        );
        place.write(
            "lent.yaml",
            "password: secret://v/read:database/creds/quick#password\nplain: secret://v/read:database/creds/slow#password\n",
        );
        let mut command = place.command(&line.split(' ').collect::<Vec<_>>());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut seen = Vec::new();
        while !seen.iter().any(|path: &String| path.ends_with("slow")) {
            seen.push(paths.recv_timeout(LONG).expect("the backend is asked"));
        }
        let id = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        rustix::process::kill_process(id, signal).unwrap();
        let (ended, said) = wait(child);
        assert_eq!(ended, Some(code), "{line}: {said}");
        assert!(
            !said.contains("lent-password-value") && !said.contains("did not take everything back"),
            "{said}"
        );
        seen.extend(paths.try_iter());
        for path in ["/v1/sys/leases/revoke", "/v1/auth/token/revoke-self"] {
            assert_eq!(seen.iter().filter(|seen| *seen == path).count(), 1, "{line}: {seen:?}: {said}");
        }
    }
    let releases = place.run(&["list", "--sandbox", "-n", "shop", "-o", "json"]).ok();
    assert!(!releases.contains("held"), "nothing was written: {releases}");
}
