//! A scan for secrets of backends in everything that is sent to others than the cluster and the backend itself: chart
//! repositories, registries, addresses of values and schemas, the audit webhook, other backends.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::leak_scan::{forms, furnished};
use crate::sandbox::Down;

/// A server that keeps every byte it is sent.
struct Recorder {
    address: SocketAddr,
    received: Arc<Mutex<Vec<u8>>>,
}

impl Recorder {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let received: Arc<Mutex<Vec<u8>>> = Arc::default();
        let keep = Arc::clone(&received);
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let keep = Arc::clone(&keep);
                std::thread::spawn(move || {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(20)));
                    let mut request = Vec::new();
                    let mut chunk = [0; 4096];
                    while !is_whole(&request) {
                        let Ok(count @ 1..) = stream.read(&mut chunk) else { break };
                        request.extend_from_slice(&chunk[..count]);
                    }
                    let is_chart = String::from_utf8_lossy(&request).starts_with("GET /index.yaml");
                    keep.lock().unwrap().extend(request);
                    let body = if is_chart { "apiVersion: v1\nentries: {}\n" } else { "{}" };
                    let length = body.len();
                    let _ = write!(
                        stream,
                        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                    );
                });
            }
        });
        Self { address, received }
    }

    fn received(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }
}

/// Tells that a request came with all of its body.
fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request).to_lowercase();
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| line.strip_prefix("content-length:"));
    body.len() >= length.and_then(|length| length.trim().parse().ok()).unwrap_or(0)
}

#[test]
fn no_byte_sent_to_others_holds_a_secret() {
    let place = furnished();
    let _down = Down(&place);
    let recorder = Recorder::start();
    let address = recorder.address;
    place.write(
        "hook.yaml",
        format!(
            "interpolate: true\naudit: {{webhook: 'http://{address}/hook'}}\nproviders:\n  local: {{type: file, path: inputs/dev.json}}\n  \
             second: {{type: vault, address: 'http://{address}', token: vault-token-value, kvVersion: 2}}\n"
        ),
    );
    place.write("schema/Chart.yaml", "apiVersion: v2\nname: schema\nversion: 1.0.0\n");
    place.write("schema/values.schema.json", format!("{{\"$ref\": \"http://{address}/schema.json\"}}"));
    place.write("schema/templates/a.yaml", "{{ .Values.plain }}\n");
    let both = "plain: secret://local/plain\nquoted: secret://second/app#k\n";
    place.write("both.yaml", both);
    let runbook = std::fs::read_to_string(place.path().join("boot.yaml")).unwrap();
    let step =
        format!("- name: call\n  needs: [patch]\n  http: {{url: 'http://{address}/ready', status: 200}}\n");
    place.write("call.yaml", runbook.replace("name: boot}", "name: call}") + &step);
    let lines = [
        format!("render chart -f values.yaml -f http://{address}/more.yaml"),
        format!("render elsewhere --repo http://{address} -f values.yaml"),
        format!("render http://{address}/chart.tgz -f values.yaml"),
        format!("apply web oci://{address}/chart -f values.yaml --sandbox"),
        format!("apply web elsewhere --repo http://{address} -f values.yaml --sandbox"),
        "apply web chart -f values.yaml --sandbox --secret-config hook.yaml".to_owned(),
        "plan web chart -f values.yaml --sandbox --check-secrets --secret-config hook.yaml".to_owned(),
        "apply web chart -f both.yaml --sandbox --secret-config hook.yaml".to_owned(),
        "apply web schema -f values.yaml --sandbox --allow-remote-schemas".to_owned(),
        "stack apply --sandbox --yes --secret-config hook.yaml".to_owned(),
        "run apply -f call.yaml --sandbox --secret-config hook.yaml".to_owned(),
        "secrets test --all --secret-config hook.yaml".to_owned(),
        "secrets list --provider second --secret-config hook.yaml".to_owned(),
    ];
    let mut before = 0;
    for line in &lines {
        let ran = place.run(&line.split(' ').collect::<Vec<_>>());
        assert_ne!(ran.code, Some(64), "{line}: {}", ran.err);
        let received = recorder.received();
        assert!(received.len() > before, "{line} sends something: {}", ran.err);
        before = received.len();
    }
    let text = String::from_utf8_lossy(&recorder.received()).into_owned();
    assert!(text.contains("POST /hook") && text.contains("\"secret.resolve\""), "the webhook is among them");
    let leaks: Vec<String> = forms().into_iter().filter(|form| text.contains(form.as_str())).collect();
    assert!(leaks.is_empty(), "{leaks:?} in {text}");
}
