//! A release of fifteen workloads, as people follow it: on terminals of two sizes, through Ctrl-C and a change of size, and in
//! a pipe.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::sandbox::Down;
use crate::screen::{OnTerminal, Screen, ScreenSize};
use crate::support::{Place, wait_for_end};

const SMALL: ScreenSize = ScreenSize { columns: 80, rows: 24 };
const LARGE: ScreenSize = ScreenSize { columns: 140, rows: 40 };

/// Workloads that become ready at once.
const QUICK: [&str; 11] = [
    "accounts",
    "billing",
    "cart",
    "catalog",
    "checkout",
    "emails",
    "frontend",
    "gateway",
    "inventory",
    "orders",
    "search",
];
/// Workloads whose pods never start.
const SLOW: [&str; 3] = ["ledger", "shipping", "users"];
/// A workload whose pod crashes again and again.
const CRASHING: &str = "payments";

/// Writes a chart of fifteen workloads: eleven become ready, three never start, one crashes.
pub fn shop_of_services(place: &Place) {
    place.write("shop/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 1.0.0\n");
    let workload = |name: &str, annotations: &str| {
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: {name}\n  \
             annotations: {{werf.io/failures-allowed-per-replica: \"1000\"}}\nspec:\n  \
             selector: {{matchLabels: {{app: {name}}}}}\n  template:\n    metadata:\n      labels: {{app: {name}}}\n      \
             annotations: {{{annotations}}}\n    spec: {{containers: [{{name: app, image: \"nginx:1\"}}]}}\n"
        )
    };
    let quick = QUICK.map(|name| workload(name, ""));
    let slow = SLOW.map(|name| workload(name, "sim/delay: 86400s"));
    let panic = "sim/fail: crashloop, sim/logs: \"panic: cannot reach the database at db:5432\"";
    let all = [&quick[..], &slow[..], &[workload(CRASHING, panic)]].concat();
    place.write("shop/templates/all.yaml", all.join("---\n"));
}

/// The line of the table about a workload.
fn row<'s>(visible: &'s [String], name: &str) -> Option<&'s str> {
    let wanted = format!("/{name} ");
    let is_wanted = |line: &&str| line.starts_with("  Deployment ") && line.contains(&wanted);
    visible.iter().map(String::as_str).find(is_wanted)
}

/// The timer of a row, in seconds.
fn timer(row: &str) -> u64 {
    let text = row.split_whitespace().nth(2).unwrap_or_default();
    let (minutes, seconds) = text.split_once('m').unwrap_or(("0", text));
    let seconds = seconds.trim_end_matches('s');
    minutes.parse::<u64>().unwrap() * 60 + seconds.parse::<u64>().unwrap_or_else(|_| panic!("a timer: {row}"))
}

/// The time each run is watched by `cargo xtask bench terminal`, which judges how much was written until then.
fn measured_time() -> Option<Duration> {
    let seconds = std::env::var("SLIPWAY_WATCH_SECONDS").ok()?;
    Some(Duration::from_secs(seconds.parse().expect("a number of seconds")))
}

/// Goes on watching until the time has passed, and prints what was written since the start.
#[expect(clippy::print_stdout, reason = "`cargo xtask bench terminal` reads it")]
fn measure(running: &mut OnTerminal, size: ScreenSize, started: Instant, time: Duration) {
    running.wait_until("the time has passed", |_| started.elapsed() >= time);
    let (bytes, seconds) = (running.bytes(), started.elapsed().as_secs_f64());
    let screen = running.screen();
    check_table(&screen, size, started);
    let row = row(&screen.visible(), SLOW[0]).unwrap().to_owned();
    let measured = serde_json::json!({
        "terminal": format!("{}×{}", size.columns, size.rows),
        "seconds": seconds,
        "bytes": bytes,
        "kB a minute": (bytes as f64 * 60.0 / seconds / 100.0).round() / 10.0,
        "timer": timer(&row),
    });
    println!("{measured}");
}

/// Fails unless the table shows what waits, and every line once.
fn check_table(screen: &Screen, size: ScreenSize, started: Instant) {
    let visible = screen.visible();
    assert!(visible.len() <= size.rows, "{visible:#?}");
    for name in SLOW {
        let row = row(&visible, name).unwrap_or_else(|| panic!("{name} is not shown:\n{visible:#?}"));
        assert!(row.contains("  0/1  0 of 1 replicas"), "{row}");
        assert!(timer(row) <= started.elapsed().as_secs(), "no timer is ahead of the clock: {row}");
        assert_eq!(
            visible.iter().filter(|line| line.contains(name) && line.starts_with("  Deployment ")).count(),
            1
        );
    }
    for name in QUICK {
        assert_eq!(row(&visible, name), None, "what is ready has no row");
    }
    let lines = visible.iter().filter(|line| line.contains("| panic:"));
    assert_eq!(
        lines.filter(|line| line.starts_with("      |")).count(),
        1,
        "the last line of {CRASHING}: {visible:#?}"
    );
}

/// Returns true once everything is done that ever will be, and the pod that crashes is seen to.
pub fn is_in_the_middle(screen: &Screen) -> bool {
    let visible = screen.visible();
    let text = visible.join("\n");
    QUICK.iter().all(|name| row(&visible, name).is_none())
        && text.contains("3 under way, 1 failing")
        && text.contains("      | panic:")
}

#[test]
fn a_release_of_fifteen_workloads_is_followed_on_a_terminal() {
    let place = Place::new();
    shop_of_services(&place);
    place.run(&["sandbox", "up", "--detach"]).ok();
    let _down = Down(&place);
    for (name, size, other) in [("small", SMALL, LARGE), ("large", LARGE, SMALL)] {
        let started = Instant::now();
        let line = ["apply", "shop", "shop", "--sandbox", "-n", name];
        let mut running = OnTerminal::start(&place, &line, size);
        let screen = running.wait_until("eleven are ready", is_in_the_middle);
        check_table(&screen, size, started);

        // Timers go on.
        let (before, written, waited) =
            (timer(row(&screen.visible(), SLOW[0]).unwrap()), running.bytes(), Instant::now());
        running.wait_until("a timer goes on", |screen| {
            row(&screen.visible(), SLOW[0]).is_some_and(|row| timer(row) > before + 1)
        });
        // Where only timers and one crashing pod move: at most 30 kB a minute, and a frame.
        let most = 500 * (usize::try_from(waited.elapsed().as_secs()).unwrap() + 1) + 4000;
        assert!(running.bytes() - written <= most, "{} bytes", running.bytes() - written);

        if let Some(time) = measured_time() {
            measure(&mut running, size, started, time);
        }

        // Rows are broken by a terminal that gets narrower, and drawn anew.
        running.resize(other);
        let resized = running.screen().text();
        running.wait_until("the table fits again", |screen| {
            screen.text() != resized && is_in_the_middle(screen)
        });
        let screen = running.wait_until("it is drawn whole", |screen| {
            row(&screen.visible(), SLOW[2]).is_some() && row(&screen.visible(), SLOW[0]).is_some()
        });
        check_table(&screen, other, started);

        running.interrupt();
        let ended = running.finish();
        assert_eq!(ended.status.code(), Some(130));
        assert!(ended.screen.is_tidy(), "{}", ended.screen.text());
        let text = ended.screen.text();
        assert!(!text.contains("under way"), "the table is gone:\n{text}");
        assert!(text.lines().any(|line| line.starts_with("cancelled in ")), "{text}");
        // A start that changes much is paced: two kB a second, and a screen.
        let most = 2000 * (usize::try_from(started.elapsed().as_secs()).unwrap() + 1) + 10_000;
        assert!(ended.bytes <= most, "{} bytes", ended.bytes);
        // The most that was ever drawn at once is a screen.
        assert!(ended.frames.iter().all(|(_, frame)| frame.visible().len() <= LARGE.rows));
    }
}

#[test]
fn a_long_run_in_a_pipe_is_never_silent_for_long() {
    let place = Place::new();
    shop_of_services(&place);
    place.run(&["sandbox", "up", "--detach"]).ok();
    let _down = Down(&place);
    let settings: serde_json::Value =
        serde_json::from_str(&place.run(&["config", "-o", "json"]).ok()).unwrap();
    let interval =
        settings.as_array().unwrap().iter().find(|row| row["setting"] == "progressInterval").unwrap();
    let seconds: u64 = interval["value"].as_str().unwrap().trim_end_matches('s').parse().unwrap();
    assert!((1..=10).contains(&seconds), "what is under way is told again after {interval}");

    let line = ["apply", "shop", "shop", "--sandbox", "-n", "shop", "--progress-interval", "1s"];
    let mut child = place.command(&line).stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let (mut tables, mut lines) = (0, Vec::new());
    let limit = Instant::now() + Duration::from_secs(300);
    // Nothing happens to the three that wait: only the table is told, again and again.
    for told in BufReader::new(child.stderr.take().unwrap()).lines() {
        let told = told.unwrap();
        tables += usize::from(told.contains("3 under way, 1 failing"));
        lines.push(told);
        assert!(Instant::now() < limit, "{lines:#?}");
        if tables == 3 {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        }
    }
    assert!(tables >= 3, "{lines:#?}");
    assert_eq!(wait_for_end(&mut child, "the run").code(), Some(130));
    let text = lines.join("\n");
    assert!(!text.contains('\u{1b}'), "no colours and no movement in a pipe");
    for name in QUICK {
        assert!(text.contains(&format!("created Deployment shop/{name}")), "{name}: {text}");
    }
}
