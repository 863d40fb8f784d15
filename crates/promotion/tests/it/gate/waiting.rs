//! When a gate opens or closes by time alone.

use slipway_promotion::gate::{EtaBasis, GateContext, WindowContext};
use slipway_promotion::kinds::ChangeWindowSpec;
use slipway_promotion::window::Window;

use super::support::{context, evaluate, measured, time, upstream};

pub(super) fn window(json: serde_json::Value) -> WindowContext {
    let spec: ChangeWindowSpec = serde_json::from_value(json).expect("is a window");
    WindowContext::Usable(Window::parse(&spec).expect("can be used"))
}

fn state() -> GateContext {
    // A Saturday.
    let mut state = context("2026-04-11T15:00:20Z");
    state.upstream.insert("staging".to_owned(), upstream("2026-04-11T14:48:10Z"));
    state.bundle.created_at = Some(time("2026-04-11T12:00:00Z"));
    state.metrics.insert("rate".to_owned(), measured(0.999, "2026-04-11T15:00:00Z"));
    let freeze = serde_json::json!({"type": "blackout", "start": "2026-04-11T00:00:00Z", "end": "2026-04-12T06:00:00Z"});
    state.windows.insert("freeze".to_owned(), window(freeze));
    let office = serde_json::json!({"type": "recurring", "schedule": {
        "timezone": "Europe/Berlin", "allowedDays": ["Mon", "Tue", "Wed", "Thu"], "allowedHours": "09:00-17:00"}});
    state.windows.insert("office".to_owned(), window(office));
    state
}

#[test]
fn the_next_opening_is_found() {
    let staging = || EtaBasis::Soak { environment: "staging".to_owned() };
    let window = |name: &str| EtaBasis::Window { name: name.to_owned() };
    for (expression, at, basis) in [
        ("!schedule.isWeekend", "2026-04-13T00:00:00Z", EtaBasis::Schedule),
        ("schedule.hour == 3", "2026-04-12T03:00:00Z", EtaBasis::Schedule),
        ("schedule.minute >= 30", "2026-04-11T15:30:00Z", EtaBasis::Schedule),
        ("schedule.dayOfWeek == 'Friday' && schedule.hour >= 9", "2026-04-17T09:00:00Z", EtaBasis::Schedule),
        ("schedule.in('Asia/Kolkata').hour == 6", "2026-04-12T00:30:00Z", EtaBasis::Schedule),
        ("bundle.upstreamSoakMinutes >= 30", "2026-04-11T15:18:10Z", staging()),
        ("bundle.upstreamSoakMinutes > 30", "2026-04-11T15:19:10Z", staging()),
        ("30 < bundle.upstreamSoakMinutes", "2026-04-11T15:19:10Z", staging()),
        ("upstream.staging.soakMinutes == 45", "2026-04-11T15:33:10Z", staging()),
        // Not compared with a number: every minute counts.
        ("bundle.upstreamSoakMinutes >= (schedule.isWeekend ? 60 : 30)", "2026-04-11T15:48:10Z", staging()),
        ("bundle.ageMinutes >= 240", "2026-04-11T16:00:00Z", EtaBasis::Age),
        // Farther away than the calendar is looked at.
        ("bundle.upstreamSoakMinutes >= 20160", "2026-04-25T14:48:10Z", staging()),
        (
            "bundle.upstreamSoakMinutes >= 20160 && schedule.hour == 3",
            "2026-04-26T03:00:00Z",
            EtaBasis::Schedule,
        ),
        (
            "!schedule.isWeekend && bundle.upstreamSoakMinutes >= 30",
            "2026-04-13T00:00:00Z",
            EtaBasis::Schedule,
        ),
        ("!schedule.isWeekend || bundle.upstreamSoakMinutes >= 30", "2026-04-11T15:18:10Z", staging()),
        ("!changewindow['freeze']", "2026-04-12T06:00:00Z", window("freeze")),
        ("changewindow.isAllowed('office')", "2026-04-13T07:00:00Z", window("office")),
        (
            "!changewindow['freeze'] && changewindow.isAllowed('office')",
            "2026-04-13T07:00:00Z",
            window("office"),
        ),
        ("now() >= timestamp('2026-05-01T00:00:00Z')", "2026-05-01T00:00:00Z", EtaBasis::Clock),
        (
            "now() - duration('48h') >= timestamp('2026-04-10T00:00:00Z')",
            "2026-04-12T00:00:00Z",
            EtaBasis::Clock,
        ),
    ] {
        let outcome = evaluate(expression, &state());
        assert!(!outcome.ready, "{expression}: {}", outcome.reason);
        let eta = outcome.eta.unwrap_or_else(|| panic!("{expression}: {}", outcome.reason));
        assert_eq!((eta.at, eta.basis), (time(at), basis), "{expression}");
        assert_eq!(outcome.next, Some(eta.at));
    }
}

#[test]
fn what_time_does_not_open_has_no_eta() {
    for expression in [
        "metrics.rate >= 1.0",
        "bundle.labels.hotfix == true",
        "'hotfix' in bundle.labels",
        "false",
        "schedule.hour == 24",
        "externalApproval.self.approved",
    ] {
        let outcome = evaluate(expression, &state());
        assert!(!outcome.ready && outcome.eta.is_none(), "{expression}: {:?}", outcome.eta);
    }
}

#[test]
fn an_open_gate_knows_when_it_closes() {
    for (expression, at) in [
        ("schedule.isWeekend", Some("2026-04-13T00:00:00Z")),
        ("bundle.upstreamSoakMinutes < 30", Some("2026-04-11T15:18:10Z")),
        ("changewindow['freeze']", Some("2026-04-12T06:00:00Z")),
        // A measurement that is not renewed gets too old.
        ("metrics.rate > 0.9", Some("2026-04-11T15:03:00Z")),
        ("bundle.upstreamSoakMinutes >= 5", None),
        ("true", None),
    ] {
        let outcome = evaluate(expression, &state());
        assert!(outcome.ready, "{expression}: {}", outcome.reason);
        assert_eq!(outcome.eta, None);
        assert_eq!(outcome.next, at.map(time), "{expression}");
    }
}
