//! No form of a registered secret leaves through any sink.

use std::io::Write;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use slipway_event::{Coverage, Event, Events, Memory, Redactor, RunId, SystemClock};

fn redactor(secrets: &[&str]) -> Redactor {
    let redactor = Redactor::new();
    for secret in secrets {
        redactor.register(secret);
    }
    redactor
}

#[test]
fn every_form_is_masked() {
    let secret = "p@ss \"w<o>rd'$x\\é";
    let redactor = redactor(&[secret]);
    let forms = [
        secret.to_owned(),
        STANDARD.encode(secret),
        STANDARD.encode(format!("{secret}\n")),
        URL_SAFE_NO_PAD.encode(secret),
        STANDARD.encode(format!("user:{secret}@host")),
        STANDARD.encode(format!("user1:{secret}@host")),
        STANDARD.encode(format!("user12:{secret}@host")),
        data_encoding::HEXLOWER.encode(secret.as_bytes()),
        serde_json::to_string(secret).unwrap(),
        serde_json::to_string(&serde_json::to_string(secret).unwrap()).unwrap(),
        format!("{:?}", format!("{secret:?}")),
        r#"p@ss \"w\u003co\u003erd'$x\\é"#.to_owned(),
        "p%40ss%20%22w%3Co%3Erd%27%24x%5C%C3%A9".to_owned(),
        "p%40ss+%22w%3Co%3Erd%27%24x%5C%C3%A9".to_owned(),
        r#"'p@ss "w<o>rd'\''$x\é'"#.to_owned(),
        r#"'p@ss "w<o>rd''$x\é'"#.to_owned(),
        r#""p@ss \"w<o>rd'\$x\\é""#.to_owned(),
    ];
    for form in forms {
        let masked = redactor.redact(&form);
        assert!(masked.contains("***") && masked.len() <= form.len(), "{form} came out as {masked}");
        for piece in ["ss \"w", "w<o>", "%3Co", "u003co"] {
            assert!(!masked.contains(piece), "{form} leaks in {masked}");
        }
    }
}

#[test]
fn lines_of_a_key_are_secrets_too() {
    let key = "-----BEGIN KEY-----\nMIIEvgIBADANBgkqhkiG\nshort\n-----END KEY-----\n";
    let redactor = redactor(&[key]);
    assert_eq!(redactor.redact("got MIIEvgIBADANBgkqhkiG and short"), "got *** and short");
}

#[test]
fn short_values_are_masked_where_they_stand_alone() {
    let redactor = Redactor::new();
    assert_eq!(redactor.register("ab1"), Coverage::Delimited);
    assert_eq!(redactor.register("true"), Coverage::WholeTextOnly);
    for (text, expected) in [
        ("ab1", "***"),
        ("pw=ab1;", "pw=***;"),
        ("xab1 ab12 ab1", "xab1 ab12 ***"),
        ("enabled: true", "enabled: true"),
        ("true", "***"),
    ] {
        assert_eq!(redactor.redact(text), expected);
    }
}

#[test]
fn json_keeps_its_shape() {
    let redactor = redactor(&["hunter2secret", "a\"b\\c\nd", "12345678"]);
    let mut value = serde_json::json!({
        "hunter2secret": ["x hunter2secret y", 12345678, null],
        "nested": {"k": "a\"b\\c\nd", "n": "12345678"},
    });
    assert!(redactor.redact_json(&mut value), "something was masked");
    assert!(!redactor.redact_json(&mut serde_json::json!({"clean": [1, "x"]})));
    assert_eq!(
        value,
        serde_json::json!({"***": ["x *** y", "***", null], "nested": {"k": "***", "n": "***"}})
    );
    let text = serde_json::to_string(&serde_json::json!({"v": "a\"b\\c\nd", "w": "z"})).unwrap();
    let masked = redactor.redact(&text).into_owned();
    assert_eq!(serde_json::from_str::<serde_json::Value>(&masked).unwrap()["v"], "***");
}

#[test]
fn credentials_of_addresses_are_masked_without_being_registered() {
    for redactor in [Redactor::new(), redactor(&["hunter2"])] {
        let text = "get https://bob:swordfish@host/x?token=abc: no";
        assert_eq!(redactor.redact(text), "get https://***@host/x?token=***: no");
        let mut value = serde_json::json!({"url": "https://bob:swordfish@host/"});
        assert!(redactor.redact_json(&mut value));
        assert_eq!(value["url"], "https://***@host/");
    }
}

#[test]
fn events_are_clean_before_any_sink_sees_them() {
    let memory = Arc::new(Memory::default());
    let events = Events::new(
        "r".parse::<RunId>().unwrap(),
        Arc::new(SystemClock),
        redactor(&["hunter2"]),
        memory.clone(),
    );
    events.send(Event::Progress {
        node: Some("hunter2".into()),
        message: "x hunter2".into(),
        done: None,
        total: None,
    });
    let problem = slipway_problem::Problem::error("hunter2").hint("not hunter2");
    let at = slipway_problem::Location::file("https://bob:hunter2@host/values.yaml");
    events.send(Event::Warning { problem: problem.at(at) });
    let text = serde_json::to_string(&memory.drain()).unwrap();
    assert!(!text.contains("hunter2") && !text.contains("bob"), "{text}");
    assert_eq!(text.matches("***").count(), 5, "{text}");
}

#[test]
fn a_stream_holds_back_only_what_could_be_a_secret() {
    let redactor = redactor(&["hunter2secret"]);
    let mut out = Vec::new();
    let mut writer = redactor.writer(&mut out);
    writer.write_all(b"pass: hun").unwrap();
    writer.write_all(b"ter2sec").unwrap();
    writer.write_all(b"ret, hunters").unwrap();
    drop(writer);
    assert_eq!(String::from_utf8(out).unwrap(), "pass: ***, hunters");
}

proptest! {
    #[test]
    fn chunks_do_not_matter(
        secrets in proptest::collection::vec("[abc]{1,9}", 1..4),
        text in "[abc,]{0,60}",
        cuts in proptest::collection::vec(0usize..60, 0..8),
    ) {
        let redactor = Redactor::new();
        for secret in &secrets {
            redactor.register(secret);
        }
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let mut writer = redactor.writer(Vec::new());
        for pair in cuts.windows(2) {
            writer.write_all(&text.as_bytes()[pair[0]..pair[1]]).unwrap();
        }
        let streamed = String::from_utf8(writer.finish().unwrap()).unwrap();
        prop_assert_eq!(streamed, redactor.redact(&text).into_owned());
    }

    #[test]
    fn nothing_registered_survives(secret in "\\PC{6,20}", before in "\\PC{0,5}", after in "\\PC{0,5}") {
        let redactor = Redactor::new();
        prop_assume!(redactor.register(&secret) == Coverage::Full);
        let masked = redactor.redact(&format!("{before}{secret}{after}")).into_owned();
        prop_assert!(!masked.contains(&secret));
    }
}

/// Every value of a large run is registered while others are being masked: the cost of a value must not grow with
/// the number of those before it.
#[test]
fn ten_thousand_secrets_are_registered_while_texts_are_masked() {
    let redactor = Redactor::new();
    for number in 0..10_000 {
        redactor.register(format!("value-of-{number:05}"));
        let text = format!("a line with value-of-{number:05} in it");
        assert_eq!(redactor.redact(&text), "a line with *** in it");
    }
    assert_eq!(
        redactor.redact("value-of-00000, value-of-04711 and value-of-99999"),
        "***, *** and value-of-99999"
    );
}
