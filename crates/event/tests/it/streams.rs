//! Sinks keep order, lose nothing, and survive readers that go away.

use std::io::{self, Write};
use std::sync::Arc;

use slipway_event::{
    Broadcast, Event, Events, FileSink, JsonLines, Memory, Record, Redactor, RunId, Sink, SystemClock, Tee,
};

fn events(sink: Arc<dyn Sink>) -> Events {
    Events::new("r".parse::<RunId>().unwrap(), Arc::new(SystemClock), Redactor::new(), sink)
}

fn progress(message: &str) -> Event {
    Event::Progress { node: None, message: message.into(), done: None, total: None }
}

#[test]
fn numbers_have_no_gaps_whoever_sends() {
    let memory = Arc::new(Memory::default());
    let events = events(memory.clone());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..250).for_each(|_| events.send(progress("x"))));
        }
    });
    let numbers: Vec<u64> = memory.drain().iter().map(|record| record.seq).collect();
    assert_eq!(numbers, (1..=1000).collect::<Vec<_>>());
}

#[test]
fn a_file_keeps_what_it_held() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("events.jsonl");
    for message in ["one", "two"] {
        events(Arc::new(FileSink::append(&path).unwrap())).send(progress(message));
    }
    let text = std::fs::read_to_string(&path).unwrap();
    let records: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    assert_eq!(records[1].event, progress("two"));
}

#[test]
fn a_broken_pipe_does_not_stop_the_others() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let memory = Arc::new(Memory::default());
    let broken = Arc::new(JsonLines::new(Broken));
    let tee = Arc::new(Tee(vec![broken, memory.clone()]));
    let events = events(tee.clone());
    events.send(progress("one"));
    events.send(progress("two"));
    assert_eq!(memory.drain().len(), 2);
    assert_eq!(tee.failure().unwrap().kind(), io::ErrorKind::BrokenPipe);
}

#[tokio::test]
async fn late_readers_get_the_past_and_the_future_once() {
    let broadcast = Arc::new(Broadcast::new(16));
    let events = events(broadcast.clone());
    events.send(progress("before"));
    let (past, mut future) = broadcast.subscribe();
    events.send(progress("after"));
    assert_eq!(past.iter().map(|record| record.seq).collect::<Vec<_>>(), [1]);
    assert_eq!(future.recv().await.unwrap().seq, 2);
    assert!(future.try_recv().is_err());
}
