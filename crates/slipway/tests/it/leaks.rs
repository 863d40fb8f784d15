//! A scan for secrets in everything commands say: every kind of place a secret comes from, every form of output,
//! good ends and bad ones.

use std::process::Stdio;

use crate::sandbox::Down;
use crate::support::{Place, Ran};

/// The secret of all cases. Its encodings are looked for too.
const MARK: &str = "m4rk-0f-s3cr3t";

/// Forms the mark may leak in: raw, base64 in three phases, percent-encoded, hexadecimal.
fn forms() -> Vec<String> {
    let hex: String = MARK.bytes().map(|byte| format!("{byte:02x}")).collect();
    let mut forms = vec![MARK.to_owned(), MARK.to_uppercase(), MARK.replace('-', "%2D"), hex];
    forms.extend(["bTRyay0wZi1zM2NyM3", "00cmstMGYtczNjcjN0", "NHJrLTBmLXMzY3Izd"].map(str::to_owned));
    forms
}

/// One way to bring a secret in, the commands that meet it, and their environment.
struct Case {
    place: &'static str,
    commands: Vec<Vec<String>>,
    environment: Vec<(&'static str, String)>,
    stdin: &'static str,
}

fn case(place: &'static str, commands: &[&str]) -> Case {
    let commands = commands.iter().map(|line| line.split(' ').map(str::to_owned).collect()).collect();
    Case { place, commands, environment: Vec::new(), stdin: "" }
}

impl Case {
    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    fn reads(mut self, text: &'static str) -> Self {
        self.stdin = text;
        self
    }
}

fn kubeconfig(user: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"http://127.0.0.1:1\"}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\nusers:\n- name: u\n  user: {user}\n"
    )
}

/// A place with everything the cases need, and a running sandbox.
fn furnished() -> Place {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let key = place.run(&["chart", "secret", "key", "create"]).ok();
    place.write(".werf_secret_key", &key);
    place.write("plain.yaml", format!("token: {MARK}\nname: {MARK}\n"));
    place
        .run(&["chart", "secret", "values", "encrypt", "plain.yaml", "--save-output-to", "hidden.yaml"])
        .ok();
    place.write("plain.txt", format!("first {MARK}\n"));
    for chart in ["web", "failing", "filed", "refused"] {
        place.write(
            &format!("{chart}/Chart.yaml"),
            format!("apiVersion: v2\nname: {chart}\nversion: 1.0.0\n"),
        );
        place.write(&format!("{chart}/values.yaml"), "token: none\nname: web\n");
    }
    place.write(
        "web/templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"{{ .Values.name }}\"}\ndata: {a: b}\n---\n\
         apiVersion: v1\nkind: Secret\nmetadata: {name: web}\nstringData: {token: \"{{ .Values.token }}\"}\n",
    );
    place.write("failing/templates/all.yaml", "{{ fail (printf \"no: %s\" .Values.token) }}\n");
    place.write("filed/templates/all.yaml", "{{ fail (werf_secret_file \"plain.txt\") }}\n");
    place.write(
        "refused/templates/all.yaml",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: refused\n  annotations: {sim/reject: \"{{ .Values.token }}\"}\n",
    );
    let words = ["chart", "secret", "file", "encrypt", "plain.txt", "--save-output-to", "encrypted.txt"];
    place.run(&words).ok();
    let encrypted = std::fs::read(place.path().join("encrypted.txt")).unwrap();
    place.write("filed/secret/plain.txt", encrypted);
    place.write("token.kubeconfig", kubeconfig(&format!("{{token: {MARK}}}")));
    place.write("password.kubeconfig", kubeconfig(&format!("{{username: bob, password: {MARK}}}")));
    place.write(
        "key.kubeconfig",
        kubeconfig(&format!("{{client-certificate-data: eA==, client-key-data: {MARK}}}")),
    );
    place.write(
        "exec.kubeconfig",
        kubeconfig(&format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: nonsense-{MARK}-x, interactiveMode: Never, \
             env: [{{name: A, value: {MARK}}}]}}}}"
        )),
    );
    for (number, line) in [
        format!("{{token: {MARK}"),
        format!("[{MARK}, x]"),
        format!("{{token: [{MARK}]}}"),
        format!("\"{MARK}: x\n"),
    ]
    .iter()
    .enumerate()
    {
        place.write(&format!("broken{number}.kubeconfig"), kubeconfig(line));
    }
    place.write("secret.txt", format!("{MARK} is no mapping\n"));
    for (link, to) in [
        ("link.yaml", "secret.txt"),
        ("stacked/stack.yaml", "../secret.txt"),
        ("k/kustomization.yaml", "../secret.txt"),
        ("linked/Chart.yaml", "../secret.txt"),
        ("valued/values.yaml", "../secret.txt"),
    ] {
        let link = place.path().join(link);
        std::fs::create_dir_all(link.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(to, link).unwrap();
    }
    place.write("valued/Chart.yaml", "apiVersion: v2\nname: valued\nversion: 1.0.0\n");
    place.write(
        "book.yaml",
        "apiVersion: khook.io/v1\nkind: Khook\nmetadata: {name: demo}\nsteps:\n  \
         - {name: a, timeout: 100ms, wait: {for: condition=Ready, on: 'configmap/x-${TOKEN}'}}\n",
    );
    place
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        case(
            "a login in an address",
            &[
                "repo add x https://bob:MARK@127.0.0.1:1/",
                "render https://bob:MARK@127.0.0.1:1/web.tgz",
                "render elsewhere --repo https://bob:MARK@127.0.0.1:1/",
                "chart pull oci://bob:MARK@127.0.0.1:1/web",
                "render web -f https://bob:MARK@127.0.0.1:1/values.yaml",
            ],
        ),
        case(
            "a query of an address",
            &[
                "render https://127.0.0.1:1/web.tgz?token=MARK",
                "render web -f https://127.0.0.1:1/values.yaml?X-Amz-Signature=MARK",
                "render web --set-file a=https://127.0.0.1:1/a?sig=MARK",
            ],
        ),
        case(
            "a password flag",
            &[
                "repo add x http://127.0.0.1:1/ --username bob --password MARK",
                "render elsewhere --repo http://127.0.0.1:1/ --username bob --password MARK",
                "chart registry login 127.0.0.1:1 --username bob --password MARK",
            ],
        ),
        case(
            "a password on standard input",
            &["chart registry login 127.0.0.1:1 --username bob --password-stdin"],
        )
        .reads(MARK),
        case(
            "a token flag",
            &["render web --validate --kube-token MARK --kube-apiserver http://127.0.0.1:1"],
        ),
        case(
            "a login by flags",
            &[
                "list --kube-auth-username bob --kube-auth-password MARK --kube-apiserver http://127.0.0.1:1",
                "list --kube-auth-password MARK --kube-apiserver http://127.0.0.1:1",
                "list --kube-cert web/Chart.yaml --kube-key-data MARK --kube-apiserver https://127.0.0.1:1",
                "list --kube-key-data MARK --kube-apiserver https://127.0.0.1:1",
                "list --kube-key-data -----BEGIN-MARK --kube-apiserver https://127.0.0.1:1",
                "list --kube-ca-data MARK --kube-apiserver https://127.0.0.1:1",
                "config --kube-auth-password MARK --kube-key-data MARK --kube-token MARK",
            ],
        ),
        case(
            "an address of a server",
            &["render web --validate --kube-apiserver http://bob:MARK@127.0.0.1:1"],
        ),
        case(
            "encrypted values",
            &[
                "plan web web --secret-values hidden.yaml --sandbox",
                "apply web web --secret-values hidden.yaml --sandbox",
                "apply web web --secret-values hidden.yaml --sandbox --rehearse --set name=x",
                "diff web --sandbox",
                "status web --sandbox",
                "history web --sandbox",
                "delete web --sandbox",
                "render failing --secret-values hidden.yaml",
                "plan failing failing --secret-values hidden.yaml --sandbox",
                "apply refused refused --secret-values hidden.yaml --sandbox",
            ],
        ),
        case("encrypted files", &["render filed", "plan filed filed --sandbox"]),
        case(
            "a secret of a chart",
            &[
                "plan sec web --set token=MARK --sandbox",
                "apply sec web --set token=MARK --sandbox",
                "plan sec web --set token=other --sandbox",
                "delete sec --sandbox",
            ],
        ),
        case(
            "a key for secrets",
            &[
                "chart secret values decrypt hidden.yaml --secret-key MARK",
                "render web --secret-values hidden.yaml --secret-key MARK",
            ],
        ),
        case(
            "a linked file",
            &[
                "graph link.yaml",
                "run validate -f link.yaml",
                "--config link.yaml config",
                "stack plan --root stacked",
                "kustomize build k",
                "render linked",
                "render valued",
                "lint linked",
                "lint valued",
                "render web -f link.yaml",
                "apply --plan link.yaml --sandbox",
            ],
        ),
        case(
            "a secret of a runbook",
            &[
                "run validate -f book.yaml",
                "run plan -f book.yaml --sandbox",
                "run apply -f book.yaml --sandbox",
            ],
        )
        .with("KHOOK_SECRET_TOKEN", MARK),
    ];
    for name in ["token", "password", "key", "exec", "broken0", "broken1", "broken2", "broken3"] {
        let file = format!("{name}.kubeconfig");
        cases.push(
            case(
                "a kubeconfig",
                &[
                    "list",
                    "plan web web",
                    "config --connect",
                    "config",
                    "status web",
                    "run apply -f book.yaml",
                ],
            )
            .with("KUBECONFIG", file)
            .with("KHOOK_SECRET_TOKEN", "another-value"),
        );
    }
    cases
}

#[test]
fn no_command_shows_a_secret_in_any_form_of_output() {
    let place = furnished();
    let _down = Down(&place);
    let forms = forms();
    let mut leaks = Vec::new();
    let mut runs = 0;
    for case in cases() {
        for words in &case.commands {
            for form in [&[][..], &["-o", "json", "-vvv"], &["-o", "yaml", "--log-format", "json"]] {
                let words: Vec<String> = words.iter().map(|word| word.replace("MARK", MARK)).collect();
                let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
                words.extend(form);
                let mut command = place.command(&words);
                command.envs(case.environment.iter().map(|(name, value)| (*name, value.as_str())));
                command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
                let mut child = command.spawn().unwrap();
                // A command that reads nothing may be gone already.
                let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), case.stdin.as_bytes());
                let output = child.wait_with_output().unwrap();
                runs += 1;
                for (stream, bytes) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
                    let text = String::from_utf8_lossy(bytes);
                    if let Some(line) = text.lines().find(|line| forms.iter().any(|form| line.contains(form)))
                    {
                        leaks.push(format!("{}: {words:?}: {stream}: {line}", case.place));
                    }
                    if text.contains("this is a bug in slipway") {
                        leaks.push(format!("{words:?} panicked: {text}"));
                    }
                }
            }
        }
    }
    assert!(leaks.is_empty(), "{} leaks in {runs} runs:\n{}", leaks.len(), leaks.join("\n"));
}

#[test]
fn what_was_asked_for_is_shown() {
    let place = furnished();
    let _down = Down(&place);
    for words in [
        &["render", "web", "--secret-values", "hidden.yaml"][..],
        &["chart", "secret", "values", "decrypt", "hidden.yaml"],
        &["plan", "web", "web", "--secret-values", "hidden.yaml", "--sandbox", "--show-sensitive-diffs"],
    ] {
        let ran = place.run(words);
        assert!(ran.out.contains(MARK), "{words:?}: {} {}", ran.out, ran.err);
    }
}

/// A database that repeats what it was sent, as an error of the login.
fn talkative_database() -> std::net::SocketAddr {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let mut body = b"SFATAL\0C28P01\0Mno login with of-the-database\0\0".to_vec();
            let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
            let mut answer = b"E".to_vec();
            answer.extend(length);
            answer.append(&mut body);
            let _ = stream.write_all(&answer);
        }
    });
    address
}

#[test]
fn the_password_of_a_database_is_never_shown() {
    let place = Place::new();
    place.run(&["sandbox", "up", "--detach", "--speed", "max"]).ok();
    let _down = Down(&place);
    let address = talkative_database();
    for text in [
        format!("postgres://helm:of-the-database@{address}/helm?sslmode=disable"),
        format!("host=127.0.0.1 port={} password='of-the-database' sslmode=disable", address.port()),
        "host=127.0.0.1 password=of-the-database sslmode=maybe".to_owned(),
        "postgres://helm:of-the-database@127.0.0.1:1/helm".to_owned(),
        "host=db of-the-database".to_owned(),
    ] {
        for words in [["list", "--sandbox", "-o", "json"], ["config", "-o", "json", "-v"]] {
            let mut command = place.command(&words);
            command.env("HELM_DRIVER", "sql").env("HELM_DRIVER_SQL_CONNECTION_STRING", &text);
            let ran = Ran::from(command.output().unwrap());
            assert!(!ran.out.contains("of-the-database") && !ran.err.contains("of-the-database"), "{ran:?}");
            assert_eq!(ran.code == Some(0), words[0] == "config", "{}", ran.err);
        }
    }
}
