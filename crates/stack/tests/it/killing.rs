//! A stack of thirty releases whose process is killed over and over.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;
use std::time::Duration;

use slipway_event::{Events, SystemClock};
use slipway_stack::record::{EventType, RunStatus, Store};
use slipway_stack::resume::Resume;
use slipway_stack::{
    Applied, At, Attempt, Command, Deploy, Live, Node, NodeError, Preview, Request, RunRequest, Verdict,
};

use crate::support::{Ended, Launch, Place, graph, launch};

const ROOT: &str = "SLIPWAY_TEST_KILLED_ROOT";

/// A cluster made of files: one line for each apply that began, one for each that ended.
struct Files(PathBuf);

impl Files {
    fn note(&self, node: &Node, what: &str) {
        let mut file =
            fs::OpenOptions::new().append(true).create(true).open(self.0.join(&node.name)).expect("a file");
        writeln!(file, "{what}").expect("room");
    }
}

impl Deploy for Files {
    async fn apply(&self, node: &Node, _: &Attempt<'_>) -> Result<Applied, NodeError> {
        self.note(node, "begin");
        tokio::time::sleep(Duration::from_millis(3)).await;
        self.note(node, "end");
        Ok(Applied { revision: Some(1), changed: true, note: None })
    }

    async fn delete(&self, _: &Node, _: &Attempt<'_>) -> Result<Applied, NodeError> {
        Ok(Applied::default())
    }

    async fn status(&self, _: &At<'_>) -> Result<Live, NodeError> {
        Ok(Live::Absent)
    }

    async fn recover(&self, _: &At<'_>, _: u64, _: &str) -> Result<(), NodeError> {
        Ok(())
    }

    async fn plan(&self, _: &Node, _: Command) -> Result<Preview, NodeError> {
        Ok(Preview::default())
    }

    async fn verify(&self, _: &Node) -> Result<Verdict, NodeError> {
        Ok(Verdict::default())
    }
}

fn store(root: &Path) -> Store {
    Store::new(&root.canonicalize().expect("a root"), Arc::new(SystemClock))
}

/// What the killed process does; nothing unless it was started for that.
#[test]
fn victim() {
    let Some(root) = std::env::var_os(ROOT).map(PathBuf::from) else { return };
    let store = store(&root);
    let resume = (!store.list(1, |_| false).is_empty()).then(Resume::default);
    let request = Request { root: root.clone(), ..Request::default() };
    let run = RunRequest { request, resume, concurrency: Some(4), ..RunRequest::default() };
    let owner = format!("t@here:{}", std::process::id());
    let options = Launch { run, owner, ..Launch::default() };
    let deploy = Files(root.join("cluster"));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let events = Events::silent();
    let work = launch(options, &store, &deploy, |_| None, &events);
    let ended = runtime.block_on(work).expect("an end");
    assert!(!matches!(ended, Ended::Planned(_)));
}

fn thirty() -> Place {
    let lines: String = (0..30)
        .map(|number| match number {
            0..4 => format!("r{number}\n"),
            _ => format!("r{number}: r{} r{}\n", number - 4, number - 3),
        })
        .collect();
    let place = graph(&lines);
    fs::create_dir_all(place.path().join("cluster")).unwrap();
    place
}

#[test]
fn killed_anywhere_a_run_goes_on() {
    let place = thirty();
    let mut seed = 0x2545_f491_4f6c_dd1d_u64;
    let mut kills = 0;
    for round in 0..200 {
        let mut child = Process::new(std::env::current_exe().unwrap())
            .args(["--exact", "killing::victim", "--test-threads", "1"])
            .env(ROOT, place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Later rounds live longer, so that the run ends on the slowest machine.
        std::thread::sleep(Duration::from_millis(5 + seed % (20 + round * round * 2)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        kills += u32::from(!status.success());
        check(&place);
        let listed = store(place.path()).list(9, |_| false);
        assert!(listed.len() <= 1, "a new run was started");
        if listed.first().is_some_and(|run| run.status == RunStatus::Succeeded) {
            break;
        }
    }
    let listed = store(place.path()).list(9, |_| false);
    assert_eq!(listed[0].status, RunStatus::Succeeded);
    assert_eq!(listed[0].totals.succeeded, 30);
    assert!(kills > 0);
}

/// What the log says succeeded was applied to its end, and never again after that.
fn check(place: &Place) {
    let Some(run) = store(place.path()).list(1, |_| false).into_iter().next() else { return };
    let stored = store(place.path()).open(&run.run_id).unwrap();
    let mut succeeded: BTreeMap<String, usize> = BTreeMap::new();
    let mut started: BTreeMap<String, usize> = BTreeMap::new();
    for event in &stored.events {
        let Some(name) = event.node_id.as_deref().and_then(|id| id.rsplit('/').next()) else { continue };
        match event.kind {
            EventType::NodeRunning => {
                assert!(!succeeded.contains_key(name), "{name} was started after it succeeded");
                *started.entry(name.to_owned()).or_default() += 1;
            }
            EventType::NodeSucceeded => *succeeded.entry(name.to_owned()).or_default() += 1,
            _ => {}
        }
    }
    for (name, count) in &succeeded {
        assert_eq!(*count, 1, "{name}");
    }
    for number in 0..30 {
        let name = format!("r{number}");
        let text = fs::read_to_string(place.path().join("cluster").join(&name)).unwrap_or_default();
        let begun = text.lines().filter(|line| *line == "begin").count();
        assert!(begun <= started.get(&name).copied().unwrap_or(0), "{name} ran before that was recorded");
        assert!(!succeeded.contains_key(&name) || text.ends_with("end\n"), "{name} did not end");
    }
}
