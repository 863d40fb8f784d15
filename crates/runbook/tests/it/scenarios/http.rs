//! `http` steps: waiting for an address.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use slipway_event::Redactor;
use slipway_runbook::plan::{self, Show, Verb};
use slipway_runbook::{Inputs, LoadOptions, RunContext, RunOptions, RunTarget, Variables, load};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::world::{World, error};

/// Serves the answers one after the other, the last one for ever; gives the address and the number of requests.
async fn serve(answers: &'static [(&'static str, &'static str)]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/health", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let turn = count.fetch_add(1, Ordering::SeqCst);
            let (status, body) = answers[turn.min(answers.len() - 1)];
            let mut request = [0; 4096];
            let _ = connection.read(&mut request).await;
            let length = body.len();
            let text =
                format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            let _ = connection.write_all(text.as_bytes()).await;
        }
    });
    (address, asked)
}

fn step(url: &str, more: &str) -> String {
    format!("- {{name: up, timeout: 20s, http: {{url: \"{url}\", interval: 1ms{more}}}}}\n")
}

#[tokio::test]
async fn waits_until_the_address_answers_with_the_expected_status_and_text() {
    let world = World::new();
    let (url, asked) =
        serve(&[("503 Service Unavailable", ""), ("200 OK", "starting"), ("200 OK", "all is up")]).await;
    let report = world.apply(&step(&url, ", contains: is up")).await;
    assert!(report.is_success(), "{report:?}");
    let note = report.step("up").unwrap().note.clone().unwrap();
    assert!(note.ends_with("answers 200 OK with the expected text"), "{note}");
    assert_eq!(asked.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_status_that_is_asked_for_counts_and_no_other() {
    let world = World::new();
    let (url, asked) = serve(&[("200 OK", ""), ("404 Not Found", "")]).await;
    let report = world.apply(&step(&url, ", status: 404")).await;
    assert!(report.is_success(), "{report:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn what_the_address_answers_is_told_while_it_is_waited_for() {
    let world = World::new();
    let (url, _) = serve(&[("503 Service Unavailable", ""), ("200 OK", "")]).await;
    assert!(world.apply(&step(&url, "")).await.is_success());
    let said = world.said();
    assert!(said.contains(&format!("waiting for {url}: it answers 503 Service Unavailable")), "{said}");
}

#[tokio::test]
async fn certificates_that_cannot_be_read_end_the_step_at_once() {
    let world = World::new();
    let (url, asked) = serve(&[("200 OK", "")]).await;
    let report = world.apply(&step(&url, ", caFile: ./missing.pem")).await;
    assert!(error(&report, "up").contains("caFile ./missing.pem"), "{report:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_plan_asks_once_and_a_rehearsal_not_at_all() {
    let world = World::new();
    let (url, asked) = serve(&[("503 Service Unavailable", ""), ("200 OK", "")]).await;
    let document = world.document("", &step(&url, ""));
    for expected in [Verb::Wait, Verb::NoOp] {
        let planned = plan::plan(&document, world.place(), Show::Actions, None).await.unwrap();
        assert_eq!(planned.step("up").unwrap().action(), Some(expected));
    }
    let copy = RunContext { target: RunTarget::Copy, ..world.place() };
    let options = RunOptions::default();
    let report = slipway_runbook::apply(&document, copy, &options, CancellationToken::new()).await.unwrap();
    assert!(report.is_success(), "{report:?}");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}

/// Everything that is wrong with a document of these steps.
fn problems(steps: &str) -> String {
    let text = format!("apiVersion: khook.io/v1\nkind: Khook\nmetadata: {{name: demo}}\nsteps:\n{steps}");
    let variables = Variables::gather(&Inputs::default()).unwrap();
    let refused =
        load("f.yaml", &text, &variables, LoadOptions::default(), &Redactor::new()).expect_err("it is wrong");
    refused.into_problems().to_string()
}

#[test]
fn mistakes_are_told_together() {
    let found = problems(
        "- {name: up, http: {url: ftp://x, status: 42, interval: 0s, caFile: a, insecureSkipTLSVerify: true}}\n",
    );
    for code in ["E420", "E421", "E422", "E423"] {
        assert!(found.contains(code), "{code} is not in {found}");
    }
    assert!(problems("- {name: up, http: {status: 200}}\n").contains("url is required"));
}

#[tokio::test]
async fn the_record_leaves_a_passed_wait_out_until_its_text_changes() {
    let world = World::new();
    let (url, asked) = serve(&[("200 OK", "")]).await;
    let run = async |more: &str| {
        let document = world.document("state: {}", &step(&url, more));
        world.try_apply(&document).await.unwrap()
    };
    assert!(run("").await.is_success());
    assert_eq!(run(", insecureSkipTLSVerify: false").await.state.unwrap().resumed, 1);
    assert_eq!(run(", status: 200").await.state.unwrap().resumed, 0);
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
