//! Change windows: blackouts, hours of a week, time zones.

use slipway_promotion::gate::WindowContext;
use slipway_promotion::kinds::ChangeWindowSpec;
use slipway_promotion::window::{Window, WindowError};

use super::support::{context, evaluate, time};

fn spec(json: serde_json::Value) -> ChangeWindowSpec {
    serde_json::from_value(json).expect("is a window")
}

fn window(json: serde_json::Value) -> Window {
    Window::parse(&spec(json)).expect("can be used")
}

fn recurring(zone: &str, days: &[&str], hours: &str) -> Window {
    window(serde_json::json!({"type": "recurring",
        "schedule": {"timezone": zone, "allowedDays": days, "allowedHours": hours}}))
}

const WEEKDAYS: &[&str] = &["Mon", "Tue", "Wed", "Thu", "Fri"];

#[test]
fn a_blackout_is_active_between_its_ends() {
    let window = window(
        serde_json::json!({"type": "blackout", "start": "2026-12-20T00:00:00Z", "end": "2027-01-03T00:00:00Z"}),
    );
    for (at, active) in [
        ("2026-12-19T23:59:59Z", false),
        ("2026-12-20T00:00:00Z", true),
        ("2027-01-02T23:59:59Z", true),
        ("2027-01-03T00:00:00Z", false),
    ] {
        assert_eq!(window.is_active(time(at)), active, "{at}");
    }
    assert_eq!(window.next_transition(time("2026-12-01T00:00:00Z")), Some(time("2026-12-20T00:00:00Z")));
    assert_eq!(window.next_transition(time("2026-12-25T00:00:00Z")), Some(time("2027-01-03T00:00:00Z")));
    assert_eq!(window.next_transition(time("2027-02-01T00:00:00Z")), None);
}

#[test]
fn a_recurring_window_is_active_outside_of_its_hours() {
    // Berlin is two hours ahead in April.
    let office = recurring("Europe/Berlin", WEEKDAYS, "09:00-17:00");
    for (at, active) in [
        ("2026-04-13T06:59:59Z", true),
        ("2026-04-13T07:00:00Z", false),
        ("2026-04-13T14:59:59Z", false),
        ("2026-04-13T15:00:00Z", true),
        ("2026-04-11T10:00:00Z", true),
    ] {
        assert_eq!(office.is_active(time(at)), active, "{at}");
    }
    // The night belongs to the day it began on.
    let night = recurring("UTC", &["Fri"], "22:00-06:00");
    for (at, active) in [
        ("2026-04-10T05:00:00Z", true),
        ("2026-04-10T22:00:00Z", false),
        ("2026-04-11T05:59:00Z", false),
        ("2026-04-11T06:00:00Z", true),
        ("2026-04-11T23:00:00Z", true),
    ] {
        assert_eq!(night.is_active(time(at)), active, "{at}");
    }
    let weekdays = window(serde_json::json!({"type": "recurring", "schedule": {"allowedDays": WEEKDAYS}}));
    assert!(
        weekdays.is_active(time("2026-04-11T12:00:00Z")) && !weekdays.is_active(time("2026-04-13T00:00:00Z"))
    );
}

#[test]
fn hours_follow_the_clocks_of_their_zone() {
    // Clocks go forward on 29 March 2026 and back on 25 October 2026.
    let office = recurring("Europe/Berlin", &[], "09:00-17:00");
    assert_eq!(office.next_transition(time("2026-03-28T17:00:00Z")), Some(time("2026-03-29T07:00:00Z")));
    assert_eq!(office.next_transition(time("2026-10-24T16:00:00Z")), Some(time("2026-10-25T08:00:00Z")));
    // An hour that does not exist: what is left of the range counts.
    let gap = recurring("Europe/Berlin", &[], "02:30-03:30");
    let day = gap.transitions(time("2026-03-28T22:00:00Z"), time("2026-03-29T22:00:00Z"));
    assert_eq!(day, [time("2026-03-29T01:00:00Z"), time("2026-03-29T01:30:00Z")]);
    // An hour that comes twice: the range as the clock on the wall shows it.
    let twice = recurring("Europe/Berlin", &[], "02:30-03:30");
    let day = twice.transitions(time("2026-10-24T22:00:00Z"), time("2026-10-25T22:00:00Z"));
    let expected =
        ["2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    assert_eq!(day, expected.map(time));
}

#[test]
fn transitions_are_the_moments_the_answer_changes() {
    let until = time("2026-11-08T00:00:00Z");
    for window in [
        recurring("Europe/Berlin", WEEKDAYS, "09:00-17:00"),
        recurring("America/New_York", &["Sat", "Sun"], "22:15-01:45"),
        recurring("Asia/Kathmandu", &[], "00:00-24:00"),
        recurring("Europe/Berlin", &["Sun"], "01:30-02:45"),
    ] {
        let mut at = time("2026-10-20T00:00:00Z");
        let mut active = window.is_active(at);
        let mut found = Vec::new();
        while at < until {
            at = at.checked_add(jiff::SignedDuration::from_mins(1)).expect("is in range");
            if window.is_active(at) != active {
                active = !active;
                found.push(at);
            }
        }
        assert_eq!(window.transitions(time("2026-10-20T00:00:00Z"), until), found, "{window:?}");
    }
}

#[test]
fn a_window_that_cannot_be_used_tells_everything() {
    let broken = serde_json::json!({"type": "recurring", "pipelines": ["[x"],
        "schedule": {"timezone": "Mars/Base", "allowedHours": "9-17"}});
    let errors = Window::parse(&spec(broken.clone())).expect_err("cannot be used");
    assert_eq!(
        errors,
        [
            WindowError::BadPattern("[x".to_owned()),
            WindowError::UnknownZone("Mars/Base".to_owned()),
            WindowError::BadHours("9-17".to_owned()),
        ]
    );
    for (json, text) in [
        (
            serde_json::json!({"type": "blackout", "start": "2026-01-01T00:00:00Z"}),
            "a blackout needs `start` and `end`",
        ),
        (serde_json::json!({"type": "recurring"}), "a recurring window needs `schedule`"),
        (
            serde_json::json!({"type": "blackout", "start": "2026-01-02T00:00:00Z", "end": "2026-01-01T00:00:00Z"}),
            "the end 2026-01-01T00:00:00Z is not after the start 2026-01-02T00:00:00Z",
        ),
    ] {
        let errors = Window::parse(&spec(json)).expect_err("cannot be used");
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), [text]);
    }
    // A gate that reads it stays closed, whichever way it reads it.
    let mut state = context("2026-04-13T09:30:00Z");
    state.windows.insert("w".to_owned(), WindowContext::Broken("unknown time zone `Mars/Base`".to_owned()));
    for expression in ["!changewindow['w']", "changewindow['w']", "changewindow.isAllowed('w')"] {
        let outcome = evaluate(expression, &state);
        assert_eq!(
            outcome.reason,
            "EvalError: change window w cannot be used: unknown time zone `Mars/Base`"
        );
    }
}

#[test]
fn a_window_holds_the_pipelines_and_environments_it_names() {
    let window = window(
        serde_json::json!({"type": "blackout", "start": "2026-01-01T00:00:00Z", "end": "2027-01-01T00:00:00Z",
        "pipelines": ["shop-*"], "environments": ["prod", "prod-*"]}),
    );
    for (pipeline, environment, holds) in [
        ("shop-web", "prod", true),
        ("shop-web", "prod-eu", true),
        ("shop-web", "staging", false),
        ("blog", "prod", false),
    ] {
        assert_eq!(window.holds(pipeline, environment), holds, "{pipeline} {environment}");
    }
    let mut state = context("2026-04-13T09:30:00Z");
    state.windows.insert("w".to_owned(), WindowContext::Usable(window));
    assert!(evaluate("!changewindow['w']", &state).ready);
    state.pipeline.name = "shop-web".to_owned();
    assert!(!evaluate("!changewindow['w']", &state).ready);
}
