//! Every place of the code that can carry bytes out of the process, and what keeps secrets from leaving there. A file that
//! opens a new way out and is not in the table fails the scan.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The pieces of code that open a way out.
const WAYS_OUT: &[&str] = &[
    " Sink for ",
    "impl AuditSink for",
    "io::stdout()",
    "io::stderr()",
    "println!",
    "eprintln!",
    "dbg!",
    "fs::write(",
    "fs::copy(",
    "File::create",
    "OpenOptions::new",
    "File::options",
    "NamedTempFile",
    ".persist(",
    "TcpListener",
    "UnixListener",
    "UnixStream",
    "tokio_postgres",
    "TcpStream",
    "UdpSocket",
    "HttpClient::new",
    "reqwest::Client",
    "hyper_util::client",
    "Command::new",
    "slipway_process",
    "tonic::",
    "axum::",
];

/// The reason a way out carries no secret it should not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guard {
    /// What is shown or written there is masked; `leak_scan` runs commands through it.
    Scanned,
    /// It is given no values of a release.
    NoValues,
    /// The receiver is meant to have the values: the cluster, a program the user named for that.
    Meant,
}
use Guard::{Meant, NoValues, Scanned};

/// Every file with a way out, below `crates`.
const SINKS: &[(&str, Guard)] = &[
    ("chart/src/deps.rs", NoValues),
    ("chart/src/net/home.rs", NoValues),
    ("chart/src/net/remote.rs", Scanned),
    ("chart/src/net/schemas.rs", Scanned),
    ("cluster/src/connect/transport.rs", Meant),
    ("cluster/src/helm/sql/database.rs", Meant),
    ("cluster/src/helm/sql/error.rs", Meant),
    ("cluster/src/helm/sql/records.rs", Meant),
    ("cluster/src/helm/sql/schema.rs", Meant),
    ("cluster/src/helm/sql/settings.rs", Meant),
    ("cluster/src/helm/sql/statement.rs", Meant),
    ("cluster/src/helm/sql/tls.rs", Meant),
    ("controller/src/chart.rs", NoValues),
    ("controller/src/server/mod.rs", NoValues),
    ("event/src/sink.rs", Scanned),
    ("git/src/change.rs", NoValues),
    ("git/src/credential.rs", NoValues),
    ("git/src/error.rs", NoValues),
    ("git/src/lock.rs", NoValues),
    ("git/src/mirror.rs", NoValues),
    ("git/src/program.rs", NoValues),
    ("git/src/read.rs", NoValues),
    ("git/src/signing.rs", NoValues),
    ("git/src/tree.rs", NoValues),
    ("http/src/client.rs", Scanned),
    ("http/src/server.rs", NoValues),
    ("journal/src/files.rs", Scanned),
    ("journal/src/lock.rs", NoValues),
    ("process/src/guard.rs", NoValues),
    ("process/src/run.rs", Meant),
    ("process/src/shell.rs", Meant),
    ("promotion/src/outbound.rs", NoValues),
    ("promotion/src/step/edit.rs", NoValues),
    ("runbook/src/steps/http.rs", Meant),
    ("sandbox/src/http/net.rs", Meant),
    ("sandbox/src/store/log/head.rs", Meant),
    ("sandbox/src/store/private.rs", Meant),
    ("scm/src/connect.rs", NoValues),
    ("secrets/src/audit.rs", Scanned),
    ("secrets/src/provider/program.rs", Meant),
    ("secrets/src/provider/rest.rs", Scanned),
    ("slipway/src/charts.rs", NoValues),
    ("slipway/src/commands/chart/fetch.rs", NoValues),
    ("slipway/src/commands/chart/mod.rs", NoValues),
    ("slipway/src/commands/chart/secret.rs", NoValues),
    ("slipway/src/commands/doctor.rs", NoValues),
    ("slipway/src/commands/graph/shell.rs", NoValues),
    ("slipway/src/commands/inputs.rs", NoValues),
    ("slipway/src/commands/man.rs", NoValues),
    ("slipway/src/commands/render.rs", Scanned),
    ("slipway/src/commands/run/fetch.rs", NoValues),
    ("slipway/src/commands/sandbox/place.rs", NoValues),
    ("slipway/src/commands/sandbox/up.rs", NoValues),
    ("slipway/src/commands/secrets/flags.rs", Scanned),
    ("slipway/src/commands/words.rs", NoValues), // quotes a word for a shell
    ("slipway/src/files.rs", Scanned),
    ("slipway/src/helm.rs", Meant),
    ("slipway/src/term/next.rs", NoValues), // the same
    ("slipway/src/term/output.rs", Scanned),
    ("slipway/src/term/progress/live.rs", Scanned),
    ("slipway/src/term/progress/mod.rs", Scanned),
    ("slipway/src/term/progress/region.rs", Scanned),
    ("unit/src/container/create.rs", Scanned),
    ("unit/src/export/mod.rs", Scanned),
    ("unit/src/image/builder.rs", NoValues),
    ("unit/src/ledger/store.rs", Scanned),
    ("unit/src/source.rs", NoValues),
    ("unit/src/verify/probe.rs", NoValues),
];

/// The code of a file: without comments and without tests.
fn code(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn ways_out(directory: &Path, found: &mut BTreeMap<String, Vec<&'static str>>, root: &Path) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["tests", "benches", "examples"].contains(&name.as_str()) {
                ways_out(&path, found, root);
            }
        // A build script is no part of the program.
        } else if name.ends_with(".rs") && !["tests.rs", "build.rs"].contains(&name.as_str()) {
            let code = code(&std::fs::read_to_string(&path).unwrap());
            let used: Vec<&str> = WAYS_OUT.iter().filter(|way| code.contains(**way)).copied().collect();
            if !used.is_empty() {
                found.insert(path.strip_prefix(root).unwrap().display().to_string(), used);
            }
        }
    }
}

#[test]
fn every_way_out_of_the_process_is_in_the_table() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = BTreeMap::new();
    ways_out(crates, &mut found, crates);
    let table: BTreeSet<&str> = SINKS.iter().map(|(path, _)| *path).collect();
    let missing: Vec<_> = found.iter().filter(|(path, _)| !table.contains(path.as_str())).collect();
    assert!(
        missing.is_empty(),
        "bytes can leave the process here, and the leak scan does not know: {missing:#?}\n\
         Add a row to SINKS. If values of a release may come there, let leak_scan.rs run a command through it."
    );
    let gone: Vec<_> = table.iter().filter(|path| !found.contains_key(**path)).collect();
    assert!(gone.is_empty(), "no way out any more: {gone:?}");
    assert!(SINKS.is_sorted_by_key(|(path, _)| *path));
}

#[test]
fn a_new_way_out_would_be_seen() {
    let sink = "impl Sink for Telegraph {\n    fn send(&self) {}\n}\n#[cfg(test)]\nmod tests {\n    println!();\n}\n";
    assert!(WAYS_OUT.iter().any(|way| code(sink).contains(way)));
    assert!(!code(sink).contains("println!"), "tests are no ways out");
    assert!(!code("// fs::write(x)\n").contains("fs::write("));
}
