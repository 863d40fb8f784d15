//! The JSON form is a promise: these texts must stay readable, and be written, as they are.

use std::sync::Arc;

use slipway_event::{
    Event, Events, FORMAT_VERSION, LogStream, Memory, NodeId, NodeKind, NodeName, NodeOutcome, NodeTotals,
    ObjectState, PlannedChanges, PromptAnswer, Record, Redactor, ReplicaCounts, RunOutcome, Scope,
    SystemClock,
};
use slipway_manifest::{Gvk, ObjectRef};
use slipway_problem::{Location, Problem};

fn object() -> ObjectRef {
    ObjectRef::new(Gvk::new("apps", "v1", "Deployment"), Some("shop"), "web")
}

fn named(id: &str) -> NodeName {
    NodeName::new(NodeKind::Other, id)
}

fn cases() -> Vec<(Event, &'static str)> {
    let id = || NodeId::from("apply/web");
    let node = || NodeName::new(NodeKind::Deploy, id());
    vec![
        (
            Event::PlanMade { title: "apply web".into(), nodes: 3, changes: None },
            r#""type":"plan.made","title":"apply web","nodes":3"#,
        ),
        (
            Event::PlanMade {
                title: "apply web".into(),
                nodes: 3,
                changes: Some(PlannedChanges { create: 2, update: 1, ..PlannedChanges::default() }),
            },
            r#""type":"plan.made","title":"apply web","nodes":3,"changes":{"create":2,"recreate":0,"update":1,"apply":0,"delete":0}"#,
        ),
        (
            Event::LockWaiting { lock: "release/web".into(), holder: None },
            r#""type":"lock.waiting","lock":"release/web""#,
        ),
        (
            Event::LockTakenOver { lock: "shop".into(), holder: Some("ann@ci:7".into()) },
            r#""type":"lock.taken-over","lock":"shop","holder":"ann@ci:7""#,
        ),
        (
            Event::PromptAnswered { question: "Go on?".into(), answer: PromptAnswer::Unanswered },
            r#""type":"prompt.answered","question":"Go on?","answer":"unanswered""#,
        ),
        (
            Event::NodeStarted {
                node: NodeName::new(NodeKind::Release, "c/ns/web").labelled("web"),
                attempt: 2,
            },
            r#""type":"node.started","node":"c/ns/web","nodeKind":"release","label":"web","attempt":2"#,
        ),
        (
            Event::RunStarted { title: "apply web".into(), nodes: 3 },
            r#""type":"run.started","title":"apply web","nodes":3"#,
        ),
        (
            Event::RunFinished { status: RunOutcome::Cancelled, duration_ms: 1500 },
            r#""type":"run.finished","status":"cancelled","durationMs":1500"#,
        ),
        (
            Event::NodeStarted { node: node(), attempt: 1 },
            r#""type":"node.started","node":"apply/web","nodeKind":"deploy","attempt":1"#,
        ),
        (
            Event::NodeRetrying { node: node(), attempt: 1, error: "503".into(), delay_ms: 200 },
            r#""type":"node.retrying","node":"apply/web","nodeKind":"deploy","attempt":1,"error":"503","delayMs":200"#,
        ),
        (
            Event::NodeFinished {
                node: node(),
                status: NodeOutcome::Succeeded,
                reason: None,
                duration_ms: 7,
            },
            r#""type":"node.finished","node":"apply/web","nodeKind":"deploy","status":"succeeded","durationMs":7"#,
        ),
        (
            Event::Object {
                node: Some(id()),
                object: object(),
                state: ObjectState::Waiting,
                message: Some("1 of 3 replicas available".into()),
                replicas: Some(ReplicaCounts { ready: 1, desired: 3 }),
            },
            r#""type":"object","node":"apply/web","object":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web"},"state":"waiting","message":"1 of 3 replicas available","replicas":{"ready":1,"desired":3}"#,
        ),
        (
            Event::Object {
                node: None,
                object: object(),
                state: ObjectState::Created,
                message: None,
                replicas: None,
            },
            r#""type":"object","object":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web"},"state":"created""#,
        ),
        (
            Event::Log {
                node: None,
                object: Some(object()),
                container: Some("app".into()),
                stream: LogStream::Stdout,
                line: "hi".into(),
            },
            r#""type":"log","object":{"apiVersion":"apps/v1","kind":"Deployment","namespace":"shop","name":"web"},"container":"app","stream":"stdout","line":"hi""#,
        ),
        (
            Event::Progress { node: None, message: "rendering".into(), done: Some(1), total: Some(9) },
            r#""type":"progress","message":"rendering","done":1,"total":9"#,
        ),
        (
            Event::Warning {
                problem: Problem::warning("unknown key `a`")
                    .at(Location::new("f.yaml", 2, 1))
                    .hint("remove it"),
            },
            r#""type":"warning","problem":{"severity":"warning","message":"unknown key `a`","at":{"file":"f.yaml","line":2,"column":1},"hint":"remove it"}"#,
        ),
        (
            Event::Summary { totals: NodeTotals { succeeded: 2, failed: 1, ..NodeTotals::default() } },
            r#""type":"summary","totals":{"succeeded":2,"failed":1,"skipped":0,"blocked":0,"cancelled":0,"resumed":0,"notStarted":0}"#,
        ),
    ]
}

#[test]
fn records_are_written_and_read_as_documented() {
    for (event, body) in cases() {
        let record = Record {
            v: FORMAT_VERSION,
            run: "r1".parse().unwrap(),
            seq: 4,
            time: "2026-11-15T21:33:05.123456Z".parse().unwrap(),
            scope: Vec::new(),
            event,
        };
        let text = format!(r#"{{"v":1,"run":"r1","seq":4,"time":"2026-11-15T21:33:05.123456Z",{body}}}"#);
        assert_eq!(serde_json::to_string(&record).unwrap(), text);
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record, "{text}");
    }
}

#[test]
fn work_inside_of_a_node_carries_the_path_to_it() {
    let heard = Arc::new(Memory::default());
    let redactor = Redactor::new();
    redactor.register("hunter2222");
    let events = Events::new("r1".parse().unwrap(), Arc::new(SystemClock), redactor, heard.clone());
    let release = events.child(Scope::release("c/ns/web"));
    events.send(Event::NodeStarted { node: named("c/ns/web"), attempt: 1 });
    release.send(Event::NodeStarted { node: named("create ConfigMap/a"), attempt: 1 });
    release.child(Scope::step("hunter2222")).send(Event::NodeStarted { node: named("x"), attempt: 1 });
    release.muted().send(Event::NodeStarted { node: named("unheard"), attempt: 1 });
    let records = heard.drain();
    let told: Vec<_> = records.iter().map(|record| (record.seq, record.scope.clone())).collect();
    let path = [Scope::release("c/ns/web"), Scope::step("***")];
    assert_eq!(told, [(1, vec![]), (2, path[..1].to_vec()), (3, path.to_vec())], "one stream, one count");
    let json = serde_json::to_value(&records[1]).unwrap();
    assert_eq!(json["scope"], serde_json::json!([{"kind": "release", "name": "c/ns/web"}]));
    assert_eq!(serde_json::from_value::<Record>(json).unwrap(), records[1]);
}

#[test]
fn readers_skip_fields_they_do_not_know() {
    let text = r#"{"v":1,"run":"r1","seq":1,"time":"2026-11-15T21:33:05Z","type":"node.started","node":"a","attempt":1,"later":{"x":1}}"#;
    assert!(serde_json::from_str::<Record>(text).is_ok());
}

/// Names every event type with its fields; the match fails to compile when one is added.
fn type_of(event: &Event) -> &'static str {
    match event {
        Event::PlanMade { .. } => "plan.made",
        Event::LockWaiting { .. } => "lock.waiting",
        Event::LockTakenOver { .. } => "lock.taken-over",
        Event::PromptAnswered { .. } => "prompt.answered",
        Event::RunStarted { .. } => "run.started",
        Event::RunFinished { .. } => "run.finished",
        Event::NodeStarted { .. } => "node.started",
        Event::NodeRetrying { .. } => "node.retrying",
        Event::NodeFinished { .. } => "node.finished",
        Event::Object { .. } => "object",
        Event::Log { .. } => "log",
        Event::Progress { .. } => "progress",
        Event::Warning { .. } => "warning",
        Event::Summary { .. } => "summary",
    }
}

#[test]
fn the_reference_page_shows_every_event_type_and_field() {
    let page = include_str!("../../../../docs/reference/events.md");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let mut shown = std::collections::BTreeSet::new();
    for (event, _) in cases() {
        let name = type_of(&event);
        shown.insert(name);
        let json = serde_json::to_value(&event).unwrap();
        assert_eq!(json["type"], name);
        let row = rows.iter().find(|row| row.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("docs/reference/events.md does not describe {name}"));
        for field in json.as_object().unwrap().keys().filter(|field| *field != "type") {
            assert!(row.contains(&format!("`{field}`")), "the row of {name} does not name {field}");
        }
    }
    assert_eq!(shown.len(), 14, "every event type has a case");
}
